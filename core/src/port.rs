//! Named inputs and outputs: which slots of the arena the caller fills and reads.

use core::ops::Range;

use crate::image::Numeric;
use crate::image::field::{MAX_PORTS, MAX_SIZE, port, ports};
use crate::image::read::{slice, u16_at, u32_at};

/// A named input or output.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Port<'a> {
    /// Its name in the network it comes from.
    pub name: &'a str,
    /// Features.
    pub size: usize,
    /// Real value of one unit of an integer input or output; 1.0 in float numerics.
    pub scale: f32,
    /// In the numeric `i8` what TFLite's integer has more than that of the slot: the integer that stands for 0.0. Else 0.
    pub zero_point: i32,
    /// First element, in the arena.
    pub(crate) slot: usize,
}

/// A port as it is in the payload.
pub(crate) type Record = [u8; port::LEN];

/// The ports of one direction.
#[derive(Clone, Debug)]
pub struct Ports<'a> {
    payload: &'a [u8],
    records: &'a [Record],
}

impl<'a> Ports<'a> {
    /// Those of the [`records`] of a payload.
    pub(crate) const fn new(payload: &'a [u8], records: &'a [Record]) -> Self {
        Self { payload, records }
    }

    /// How many are left. By value, or `Iterator::count` would be called instead, which reads every name.
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

    /// The slot of each, its first element and its elements, and its scale. A step reads no names: it would have to check
    /// their UTF-8 again.
    pub fn slots(self) -> impl Iterator<Item = ((usize, usize), f32)> {
        self.records.iter().map(|record| (slot(record), scale(record)))
    }
}

/// The records of the inputs and those of the outputs, of a payload that holds them.
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

/// The slot of a port: its first element, and its elements.
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

/// Ports begin where slots may, on a multiple of `unit` elements, lie within the arena and have a name; there is one of each
/// direction at least. The error is an offset.
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
    let (mut records, _) = records.as_chunks();
    let mut index = 0;
    while index < input_count as usize + output_count as usize {
        let offset = port_offset(index);
        let [record, rest @ ..] = records else { return Err(offset) };
        let Some(port) = port(payload, record) else { return Err(offset) };
        let fits = match port.slot.checked_add(port.size) {
            Some(end) => end <= slot_elements && port.slot & (unit - 1) == 0,
            None => false,
        };
        let counts = port.scale > 0.0 && port.scale < f32::INFINITY;
        let zeros = if matches!(numeric, Numeric::I8) { -128..=127 } else { 0..=0 };
        let counts = counts && *zeros.start() <= port.zero_point && port.zero_point <= *zeros.end();
        if port.size == 0 || port.size > MAX_SIZE as usize || !fits || !counts {
            return Err(offset);
        }
        records = rest;
        index += 1;
    }
    Ok(())
}

/// Where record `index` starts in the payload.
pub(crate) const fn port_offset(index: usize) -> usize {
    ports::LEN + index * port::LEN
}

/// The port of a record; none if its name is not in the payload.
const fn port<'a>(payload: &'a [u8], record: &Record) -> Option<Port<'a>> {
    let (name_offset, name_len) = (word(record, port::NAME_OFFSET), word(record, port::NAME_LEN));
    let Some(name) = slice(payload, name_offset as usize, name_len as usize) else { return None };
    let Ok(name) = core::str::from_utf8(name) else { return None };
    let ((slot, size), zero_point) = (slot(record), word(record, port::ZERO_POINT).cast_signed());
    Some(Port { name, size, scale: scale(record), zero_point, slot })
}
