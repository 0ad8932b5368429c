//! Every rounding of the integer numerics, defined bit by bit; FORMAT.md has the same in words.
//!
//! Sums are 32 bits wide and wrap: the packer keeps them from it, and `parse` looks whether it did.

/// 1.0 in what gates and activations between 0 and 1, or -1 and 1, give.
pub const ONE: i32 = 1 << 15;

/// The greatest value of a slot or state, and minus the least: -32768 is none.
pub const MAX: i32 = 32767;

/// The steps of four rows between their sums and what they count: bias, multiplier, and the right shifts of the sums
/// over the input and over what is carried, a byte a row, the first row in the low one.
pub type RowBlock = [i32; 10];

/// The high word of the product: rounded down.
pub const fn mulh(a: i32, b: i32) -> i32 {
    ((a as i64 * b as i64) >> 32) as i32
}

/// Clamped to what a slot or state holds.
pub fn saturate(value: i32) -> i16 {
    value.clamp(-MAX, MAX) as i16
}

/// A product of something with 15 fraction bits, without these: rounded to nearest, halves up.
pub const fn from_q15(product: i32) -> i32 {
    product.wrapping_add(ONE / 2) >> 15
}

/// `⌊((input >> s_x) + (recurrent >> s_h) + bias) · multiplier / 2^32⌋` of four rows, where a shift rounds down. One of
/// the shifts is 0. What rounding down takes away on average is in the bias.
pub fn requantize(rows: &RowBlock, input: [i32; 4], recurrent: [i32; 4]) -> [i32; 4] {
    let &[b0, b1, b2, b3, m0, m1, m2, m3, input_shifts, recurrent_shifts] = rows;
    let (x, h) = (shifted(input, input_shifts), shifted(recurrent, recurrent_shifts));
    let (bias, multiplier) = ([b0, b1, b2, b3], [m0, m1, m2, m3]);
    let [x0, x1, x2, x3] = x;
    let [h0, h1, h2, h3] = h;
    let sums = [x0.wrapping_add(h0), x1.wrapping_add(h1), x2.wrapping_add(h2), x3.wrapping_add(h3)];
    scaled(sums, bias, multiplier)
}

/// [`requantize`] where nothing is carried.
pub fn requantize_input(rows: &RowBlock, input: [i32; 4]) -> [i32; 4] {
    let &[b0, b1, b2, b3, m0, m1, m2, m3, shifts, _] = rows;
    scaled(shifted(input, shifts), [b0, b1, b2, b3], [m0, m1, m2, m3])
}

fn shifted([a, b, c, d]: [i32; 4], shifts: i32) -> [i32; 4] {
    let [s, t, u, v] = shifts.to_le_bytes();
    let shift = |sum: i32, by: u8| sum >> (by & 31);
    [shift(a, s), shift(b, t), shift(c, u), shift(d, v)]
}

fn scaled([a, b, c, d]: [i32; 4], bias: [i32; 4], multiplier: [i32; 4]) -> [i32; 4] {
    let ([e, f, g, h], [m, n, o, p]) = (bias, multiplier);
    [mulh(a.wrapping_add(e), m), mulh(b.wrapping_add(f), n), mulh(c.wrapping_add(g), o), mulh(d.wrapping_add(h), p)]
}
