//! Positions of the fields of an image, for tests that read or overwrite them.

use tidegate::SectionKind;
use tidegate::internals::image::field::{activation, header, node, nodes, section, slot};

/// Reads a 16-bit word.
pub fn u16_at(bytes: &[u8], offset: usize) -> u16 {
    u16::from_le_bytes([bytes[offset], bytes[offset + 1]])
}

/// Reads a 32-bit word.
pub fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes([bytes[offset], bytes[offset + 1], bytes[offset + 2], bytes[offset + 3]])
}

/// Writes a 16-bit word.
pub fn put16(bytes: &mut [u8], offset: usize, value: u16) {
    bytes[offset..offset + 2].copy_from_slice(&value.to_le_bytes());
}

/// Writes a 32-bit word.
pub fn put32(bytes: &mut [u8], offset: usize, value: u32) {
    bytes[offset..offset + 4].copy_from_slice(&value.to_le_bytes());
}

/// Offset of a section's entry, offset of its payload, and length of the payload.
pub fn section_of(bytes: &[u8], kind: SectionKind) -> (usize, usize, usize) {
    (0..usize::from(u16_at(bytes, header::SECTION_COUNT.start)))
        .map(|index| header::LEN + index * section::LEN)
        .find(|&entry| u16_at(bytes, entry + section::KIND.start) == kind.code())
        .map(|entry| {
            let (offset, len) = (entry + section::OFFSET.start, entry + section::PAYLOAD_LEN.start);
            (entry, u32_at(bytes, offset) as usize, u32_at(bytes, len) as usize)
        })
        .expect("the image has the section")
}

/// Offset of a section's payload.
pub fn payload_of(bytes: &[u8], kind: SectionKind) -> usize {
    section_of(bytes, kind).1
}

/// Offset of a node's record.
pub fn record_of(bytes: &[u8], index: usize) -> usize {
    let first = payload_of(bytes, SectionKind::Nodes) + nodes::LEN;
    (0..index).fold(first, |at, _| at + 4 * usize::from(u16_at(bytes, at + node::RECORD_WORDS.start)))
}

/// Offset of the first slot in a node's record. The tensors follow the slots.
pub fn slot_of(bytes: &[u8], index: usize) -> usize {
    let record = record_of(bytes, index);
    let count = |field: std::ops::Range<usize>| usize::from(u16_at(bytes, record + field.start));
    let words = count(node::EXTENT_COUNT) + count(node::PARAM_COUNT);
    record + node::LEN + 4 * words + activation::LEN * count(node::ACTIVATION_COUNT)
}

/// Offset of the tensor field in the record of a node with one slot.
pub fn tensor_of(bytes: &[u8], index: usize, tensor: usize) -> usize {
    slot_of(bytes, index) + slot::LEN + 4 * tensor
}
