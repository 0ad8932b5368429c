//! Named inputs and outputs: the slots of the arena that the caller fills and reads, and the conversion of their values.

use core::ops::Range;

use crate::image::Numeric;
use crate::image::field::{MAX_PORTS, MAX_SIZE, port, ports};
use crate::image::names::first_refused;
use crate::image::read::{slice, u16_at, u32_at};
use crate::kernel::copy;
use crate::quant::MAX;

/// A named input or output.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Port<'a> {
    /// Name of the port in the original network.
    pub name: &'a str,
    /// Number of features.
    pub size: usize,
    /// Real value of one unit of an integer input or output; 1.0 in float numerics.
    pub scale: f32,
    /// In the numeric `i8`, the zero point of TFLite's model: TFLite's value is the value of the slot plus this. 0 in
    /// other numerics.
    pub zero_point: i32,
    /// First arena element of the port's slot.
    pub(crate) slot: usize,
}

/// A port record in the payload.
pub(crate) type Record = [u8; port::LEN];

/// The ports of one direction.
#[derive(Clone, Debug)]
pub struct Ports<'a> {
    payload: &'a [u8],
    records: &'a [Record],
}

impl<'a> Ports<'a> {
    /// Creates an iterator over [`records`] of `payload`.
    pub(crate) const fn new(payload: &'a [u8], records: &'a [Record]) -> Self {
        Self { payload, records }
    }

    /// Number of remaining ports. Takes `self` by value, because otherwise `Iterator::count` would be chosen, which
    /// decodes every name.
    pub const fn count(self) -> usize {
        self.records.len()
    }

    pub(crate) const fn first_size(&self) -> usize {
        match self.records {
            [record, ..] => slot(record).1,
            [] => 0,
        }
    }

    pub(crate) const fn first_scale(&self) -> f32 {
        match self.records {
            [record, ..] => scale(record),
            [] => 1.0,
        }
    }

    /// The slot (first element, number of elements) and the scale of each port. Does not decode the names: a step would
    /// have to check their UTF-8 again.
    #[doc(hidden)]
    pub fn slots(self) -> impl Iterator<Item = ((usize, usize), f32)> {
        self.records.iter().map(|record| (slot(record), scale(record)))
    }
}

/// The records of the inputs and of the outputs. Both are empty if the payload is too short.
pub(crate) const fn records(payload: &[u8]) -> (&[Record], &[Record]) {
    let (Some(inputs), Some(outputs), Some((_, records))) = (
        u16_at(payload, ports::INPUT_COUNT),
        u16_at(payload, ports::OUTPUT_COUNT),
        payload.split_at_checked(ports::LEN),
    ) else {
        return (&[], &[]);
    };
    let Some((inputs, rest)) = records.as_chunks().0.split_at_checked(inputs as usize) else { return (&[], &[]) };
    match rest.split_at_checked(outputs as usize) {
        Some((outputs, _)) => (inputs, outputs),
        None => (inputs, &[]),
    }
}

/// A word of a record.
const fn word(record: &Record, field: Range<usize>) -> u32 {
    match u32_at(record, field) {
        Some(word) => word,
        None => 0,
    }
}

/// The slot of a port: first element and number of elements.
pub(crate) const fn slot(record: &Record) -> (usize, usize) {
    (word(record, port::SLOT) as usize, word(record, port::SIZE) as usize)
}

const fn scale(record: &Record) -> f32 {
    f32::from_bits(word(record, port::SCALE))
}

impl<'a> Iterator for Ports<'a> {
    type Item = Port<'a>;

    fn next(&mut self) -> Option<Port<'a>> {
        let (record, rest) = self.records.split_first()?;
        self.records = rest;
        port(self.payload, record)
    }
}

/// Checks that there is at least one input and one output, that each has a name, and that each slot starts on a
/// multiple of `unit` elements and lies within the arena. The names follow the records in their order, without gaps, to
/// the end of the payload, so that each byte is read once. The error is the offset of the invalid part.
pub(crate) const fn check_ports(
    payload: &[u8],
    slot_elements: usize,
    unit: usize,
    numeric: Numeric,
) -> Result<(), usize> {
    let (Some(input_count), Some(output_count)) =
        (u16_at(payload, ports::INPUT_COUNT), u16_at(payload, ports::OUTPUT_COUNT))
    else {
        return Err(0);
    };
    if input_count == 0 || output_count == 0 || input_count > MAX_PORTS || output_count > MAX_PORTS {
        return Err(0);
    }
    let Some((_, records)) = payload.split_at_checked(ports::LEN) else { return Err(0) };
    let (records, _) = records.as_chunks();
    let count = input_count as usize + output_count as usize;
    let Some((records, _)) = records.split_at_checked(count) else { return Err(port_offset(records.len())) };
    let (mut rest, mut name_offset) = (records, port_offset(count));
    while let [record, others @ ..] = rest {
        let offset = port_offset(count - rest.len());
        let ((start, size), scale) = (slot(record), scale(record));
        let zero_point = word(record, port::ZERO_POINT).cast_signed();
        let fits = match start.checked_add(size) {
            Some(end) => end <= slot_elements && start & (unit - 1) == 0,
            None => false,
        };
        let zeros = if matches!(numeric, Numeric::I8) { -128..=127 } else { 0..=0 };
        let counts = *zeros.start() <= zero_point && zero_point <= *zeros.end();
        let scales = scale > 0.0 && scale < f32::INFINITY;
        let Some(name) = name(payload, record) else { return Err(offset) };
        let follows = word(record, port::NAME_OFFSET) as usize == name_offset;
        if size == 0 || size > MAX_SIZE as usize || !fits || !counts || !scales || !follows {
            return Err(offset);
        }
        if first_refused(name, false).is_some() {
            return Err(offset);
        }
        name_offset += name.len();
        rest = others;
    }
    if name_offset == payload.len() { Ok(()) } else { Err(name_offset) }
}

/// Offset of record `index` in the payload.
pub(crate) const fn port_offset(index: usize) -> usize {
    ports::LEN + index * port::LEN
}

/// Decodes a record; `None` if its name is not within the payload.
fn port<'a>(payload: &'a [u8], record: &Record) -> Option<Port<'a>> {
    let name = core::str::from_utf8(name(payload, record)?).ok()?;
    let ((slot, size), zero_point) = (slot(record), word(record, port::ZERO_POINT).cast_signed());
    Some(Port { name, size, scale: scale(record), zero_point, slot })
}

/// The name of a port; `None` if it is not within the payload.
const fn name<'a>(payload: &'a [u8], record: &Record) -> Option<&'a [u8]> {
    slice(payload, word(record, port::NAME_OFFSET) as usize, word(record, port::NAME_LEN) as usize)
}

/// A type of values at the ports of a model whose arena holds `E`.
pub trait Crosses<E>: Copy {
    /// Writes the first row of an input into its slot; `scale` is the port's.
    fn enter(row: &[Self], slot: &mut [E], scale: f32);
    /// Writes a slot into the first row of an output.
    fn leave(slot: &[E], row: &mut [Self], scale: f32);
}

/// [`copy`] that takes no loop for a slot of a single value, such as a sample. The row may extend beyond the slot. With the
/// vector extension a copy takes no loop either.
#[inline(always)]
fn cross<E: Copy>(to: &mut [E], from: &[E]) {
    match (to, from) {
        (to, from) if cfg!(feature = "mve") => copy(to, from),
        (&mut [ref mut to], &[value, ..]) | (&mut [ref mut to, ..], &[value]) => *to = value,
        (to, from) => copy(to, from),
    }
}

impl<E: Copy> Crosses<E> for E {
    fn enter(row: &[E], slot: &mut [E], _: f32) {
        cross(slot, row);
    }

    fn leave(slot: &[E], row: &mut [E], _: f32) {
        cross(row, slot);
    }
}

impl Crosses<i16> for f32 {
    /// Rounds to nearest, halves away from zero, and saturates; not-a-number becomes 0.
    fn enter(row: &[f32], slot: &mut [i16], scale: f32) {
        let max = MAX as f32;
        for (slot, &value) in slot.iter_mut().zip(row) {
            let value = (value / scale).clamp(-max, max);
            // Exact. Adding one half instead would round up the value just below one half.
            let whole = value as i16;
            let rest = value - f32::from(whole);
            *slot = whole.wrapping_add((rest >= 0.5).into()).wrapping_sub((rest <= -0.5).into());
        }
    }

    #[inline]
    fn leave(slot: &[i16], row: &mut [f32], scale: f32) {
        for (value, &slot) in row.iter_mut().zip(slot) {
            *value = f32::from(slot) * scale;
        }
    }
}

/// The buffers of a step: scratch, the inputs with the row to read, and the outputs with the row to write.
pub(crate) struct Buffers<'s, 'i, 'o, P> {
    pub scratch: &'s mut [u32],
    pub inputs: &'s [&'i [P]],
    pub from: usize,
    pub outputs: &'s mut [&'o mut [P]],
    pub to: usize,
    /// Whether the output is used. Otherwise the nodes after the last one with a state are skipped.
    pub wanted: bool,
}
