//! Fields of byte arrays, without panics.

use core::ops::Range;

/// The `N` bytes of a field; zeros past the end.
pub fn array<const N: usize>(bytes: &[u8], field: Range<usize>) -> [u8; N] {
    bytes.get(field).and_then(|bytes| bytes.first_chunk()).copied().unwrap_or([0; N])
}

/// Writes a field. `value` must be as long as the field.
pub fn put<const N: usize>(bytes: &mut [u8], field: Range<usize>, value: &[u8; N]) {
    if let Some(bytes) = bytes.get_mut(field).and_then(|bytes| bytes.first_chunk_mut()) {
        *bytes = *value;
    }
}
