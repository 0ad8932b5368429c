//! Named inputs and outputs: which slots of the arena the caller fills and reads.

use core::ops::Range;

use crate::image::Numeric;
use crate::image::field::{MAX_PORTS, MAX_SIZE, port, ports};
use crate::image::read::{f32_at, slice, u16_at, u32_at};

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

/// The ports of one direction.
#[derive(Clone, Debug)]
pub struct Ports<'a> {
    payload: &'a [u8],
    next: usize,
    end: usize,
}

impl<'a> Ports<'a> {
    pub(crate) const fn inputs(payload: &'a [u8]) -> Self {
        let count = match u16_at(payload, ports::INPUT_COUNT) {
            Some(count) => count as usize,
            None => 0,
        };
        Self { payload, next: 0, end: count }
    }

    pub(crate) const fn outputs(payload: &'a [u8]) -> Self {
        let first = Self::inputs(payload).end;
        let count = match u16_at(payload, ports::OUTPUT_COUNT) {
            Some(count) => count as usize,
            None => 0,
        };
        Self { payload, next: first, end: first + count }
    }

    pub(crate) const fn first(&self) -> usize {
        self.next
    }

    pub(crate) const fn end(&self) -> usize {
        self.end
    }

    /// How many are left. By value, or `Iterator::count` would be called instead, which reads every name.
    pub const fn count(self) -> usize {
        self.end - self.next
    }

    pub(crate) const fn first_size(&self) -> usize {
        match slot_at(self.payload, self.next) {
            Some((_, size)) => size,
            None => 0,
        }
    }

    pub(crate) const fn first_scale(&self) -> f32 {
        let Some(record) = port_record(self.payload, self.next) else { return 1.0 };
        match f32_at(record, port::SCALE) {
            Some(scale) => scale,
            None => 1.0,
        }
    }

    /// Where each lies in the arena, and its scale. A step reads no names: it would have to check their UTF-8 again.
    pub fn places(self) -> impl Iterator<Item = (Range<usize>, f32)> {
        (self.next..self.end).map_while(move |index| {
            let (start, size) = slot_at(self.payload, index)?;
            let scale = u32_at(port_record(self.payload, index)?, port::SCALE)?;
            Some((start..start + size, f32::from_bits(scale)))
        })
    }
}

impl<'a> Iterator for Ports<'a> {
    type Item = Port<'a>;

    fn next(&mut self) -> Option<Port<'a>> {
        if self.next == self.end {
            return None;
        }
        let port = port_at(self.payload, self.next);
        self.next += 1;
        port
    }
}

/// Ports lie within the arena and have a name; there is one of each direction at least. The error is an offset.
pub(crate) const fn check_ports(payload: &[u8], slot_elements: usize, numeric: Numeric) -> Result<(), usize> {
    let (Some(input_count), Some(output_count)) =
        (u16_at(payload, ports::INPUT_COUNT), u16_at(payload, ports::OUTPUT_COUNT))
    else {
        return Err(0);
    };
    if input_count == 0 || output_count == 0 || input_count > MAX_PORTS || output_count > MAX_PORTS {
        return Err(0);
    }
    let mut index = 0;
    while index < input_count as usize + output_count as usize {
        let offset = port_offset(index);
        let Some(port) = port_at(payload, index) else { return Err(offset) };
        let fits = match port.slot.checked_add(port.size) {
            Some(end) => end <= slot_elements,
            None => false,
        };
        let counts = port.scale > 0.0 && port.scale < f32::INFINITY;
        let zeros = if matches!(numeric, Numeric::I8) { -128..=127 } else { 0..=0 };
        let counts = counts && *zeros.start() <= port.zero_point && port.zero_point <= *zeros.end();
        if port.size == 0 || port.size > MAX_SIZE as usize || !fits || !counts {
            return Err(offset);
        }
        index += 1;
    }
    Ok(())
}

/// Where record `index` starts in the payload.
pub(crate) const fn port_offset(index: usize) -> usize {
    ports::LEN + index * port::LEN
}

/// Record `index`, inputs first.
const fn port_record(payload: &[u8], index: usize) -> Option<&[u8]> {
    slice(payload, port_offset(index), port::LEN)
}

/// The slot of port `index`, inputs first: its first element, and its elements.
pub(crate) const fn slot_at(payload: &[u8], index: usize) -> Option<(usize, usize)> {
    let Some(record) = port_record(payload, index) else { return None };
    let (Some(start), Some(size)) = (u32_at(record, port::SLOT), u32_at(record, port::SIZE)) else { return None };
    Some((start as usize, size as usize))
}

/// Port `index`, inputs first.
const fn port_at(payload: &[u8], index: usize) -> Option<Port<'_>> {
    let Some(record) = port_record(payload, index) else { return None };
    let (Some(slot), Some(size), Some(scale), Some(zero_point), Some(name_offset), Some(name_len)) = (
        u32_at(record, port::SLOT),
        u32_at(record, port::SIZE),
        u32_at(record, port::SCALE),
        u32_at(record, port::ZERO_POINT),
        u32_at(record, port::NAME_OFFSET),
        u32_at(record, port::NAME_LEN),
    ) else {
        return None;
    };
    let Some(name) = slice(payload, name_offset as usize, name_len as usize) else { return None };
    let Ok(name) = core::str::from_utf8(name) else { return None };
    let (size, slot) = (size as usize, slot as usize);
    Some(Port { name, size, scale: f32::from_bits(scale), zero_point: zero_point.cast_signed(), slot })
}
