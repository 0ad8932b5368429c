//! Little-endian 32-bit words in section payloads, read in `const` code.

/// The word at byte `offset`, or `None` past the end.
pub(crate) const fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    let Some((_, rest)) = bytes.split_at_checked(offset) else { return None };
    let Some(word) = rest.first_chunk() else { return None };
    Some(u32::from_le_bytes(*word))
}

/// The float at byte `offset`, or `None` past the end.
pub(crate) const fn f32_at(bytes: &[u8], offset: usize) -> Option<f32> {
    match u32_at(bytes, offset) {
        Some(bits) => Some(f32::from_bits(bits)),
        None => None,
    }
}
