//! Copies of a few elements without a call of `memcpy`, whose code needs more flash than a layer.

/// Copies elements up to the length of the shorter slice.
pub(crate) fn copy<E: Copy>(to: &mut [E], from: &[E]) {
    let len = to.len().min(from.len());
    let (Some(to), Some(from)) = (to.get_mut(..len), from.get(..len)) else { return };
    #[cfg(all(target_arch = "arm", feature = "mve"))]
    by_vectors(to, from);
    #[cfg(not(all(target_arch = "arm", feature = "mve")))]
    by_twos(to, from);
}

/// [`copy`] of slices of equal length. The compiler would turn a loop over single elements into a call of `memcpy`.
#[cfg(not(all(target_arch = "arm", feature = "mve")))]
#[inline(always)]
fn by_twos<E: Copy>(to: &mut [E], from: &[E]) {
    let ((to, to_last), (from, from_last)) = (to.as_chunks_mut::<2>(), from.as_chunks::<2>());
    for ([to, to_next], &[value, next]) in to.iter_mut().zip(from) {
        *to = value;
        *to_next = next;
    }
    if let ([to], &[value]) = (to_last, from_last) {
        *to = value;
    }
}

/// [`copy`] by vectors of 16 bytes.
#[cfg(all(target_arch = "arm", feature = "mve"))]
#[expect(unsafe_code)]
#[inline(always)]
fn by_vectors<E: Copy>(to: &mut [E], from: &[E]) {
    let bytes = size_of_val(to).min(size_of_val(from));
    // SAFETY: reads and writes `bytes` bytes, which both slices have. Vectors of bytes need no alignment. `E` is `Copy`, so its
    // bytes may be copied.
    unsafe {
        core::arch::asm!(
            "wlstp.8 lr, lr, 3f",
            "2:",
            "vldrb.u8 q0, [r1], #16",
            "vstrb.8 q0, [r0], #16",
            "letp lr, 2b",
            "3:",
            inout("r0") to.as_mut_ptr() => _,
            inout("r1") from.as_ptr() => _,
            inout("lr") bytes => _,
            out("s0") _, out("s1") _, out("s2") _, out("s3") _,
            options(nostack, preserves_flags),
        );
    }
}
