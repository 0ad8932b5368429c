//! Reads numbers from bytes, in `const fn`s that return `None` past the end.

use core::ops::Range;

/// The bytes `start .. start + len`.
pub const fn slice(bytes: &[u8], start: usize, len: usize) -> Option<&[u8]> {
    let Some((_, tail)) = bytes.split_at_checked(start) else { return None };
    let Some((head, _)) = tail.split_at_checked(len) else { return None };
    Some(head)
}

/// The `N` bytes from `start` on.
pub const fn array<const N: usize>(bytes: &[u8], start: usize) -> Option<[u8; N]> {
    let Some((_, tail)) = bytes.split_at_checked(start) else { return None };
    let Some(chunk) = tail.first_chunk::<N>() else { return None };
    Some(*chunk)
}

pub const fn u16_at(bytes: &[u8], field: Range<usize>) -> Option<u16> {
    let Some(chunk) = array(bytes, field.start) else { return None };
    Some(u16::from_le_bytes(chunk))
}

pub const fn u32_at(bytes: &[u8], field: Range<usize>) -> Option<u32> {
    let Some(chunk) = array(bytes, field.start) else { return None };
    Some(u32::from_le_bytes(chunk))
}

pub const fn u64_at(bytes: &[u8], field: Range<usize>) -> Option<u64> {
    let Some(chunk) = array(bytes, field.start) else { return None };
    Some(u64::from_le_bytes(chunk))
}

pub const fn f32_at(bytes: &[u8], field: Range<usize>) -> Option<f32> {
    let Some(chunk) = array(bytes, field.start) else { return None };
    Some(f32::from_le_bytes(chunk))
}

/// The next multiple of [`ALIGNMENT`](super::field::ALIGNMENT).
pub const fn align_up(len: usize) -> Option<usize> {
    len.checked_next_multiple_of(super::field::ALIGNMENT)
}
