//! Filters along time in the numeric `i8`: four filters, each over a channel of its own, in plain safe Rust.

/// The value of a byte: the low eight bits of a value from `first` up to 255 more.
#[inline(always)]
pub fn value(byte: u8, first: i32) -> i16 {
    first.wrapping_add(byte.wrapping_sub(first as u8).into()) as i16
}

/// [`Kernel::taps`](super::Kernel::taps)
#[inline(always)]
pub fn along(sums: [i32; 4], taps: &[[u8; 4]], mut channels: &[u8], row_len: usize, first: i32) -> [i32; 4] {
    let [mut a, mut b, mut c, mut d] = sums;
    let product = |weight: u8, byte| i32::from(weight.cast_signed()) * i32::from(value(byte, first));
    for &[p, q, r, s] in taps {
        let Some(&[w, x, y, z]) = channels.first_chunk() else { break };
        channels = channels.get(row_len..).unwrap_or_default();
        a = a.wrapping_add(product(p, w));
        b = b.wrapping_add(product(q, x));
        c = c.wrapping_add(product(r, y));
        d = d.wrapping_add(product(s, z));
    }
    [a, b, c, d]
}
