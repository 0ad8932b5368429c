//! Every rounding of the integer numerics, defined bit by bit; FORMAT.md has the same in words.
//!
//! Sums are 32 bits wide and wrap: the packer keeps them from it, and `parse` looks whether it did.

/// 1.0 in what gates and activations between 0 and 1, or -1 and 1, give.
pub const ONE: i32 = 1 << 15;

/// The greatest value of a slot or state, and minus the least: -32768 is none.
pub const MAX: i32 = 32767;

/// What four rows need beside their weights: what their sums start from, what they are multiplied with over 2^32, and the
/// right shifts of the sums over the finer part, a byte a row, the first row in the low one.
pub type RowBlock = [i32; 9];

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

/// `⌊(((start + fine) >> shift) + coarse) · multiplier / 2^32⌋` of four rows, where a shift rounds down. What rounding down
/// takes away on average is in `start`, and so is the bias.
pub fn requantize(rows: &RowBlock, fine: [i32; 4], coarse: [i32; 4]) -> [i32; 4] {
    let (&[a, b, c, d, .., shifts], [s, t, u, v]) = (rows, fine);
    let started = [a.wrapping_add(s), b.wrapping_add(t), c.wrapping_add(u), d.wrapping_add(v)];
    scaled(rows, shifted(started, shifts), coarse)
}

/// [`requantize`] of rows with one part.
pub fn requantize_one(rows: &RowBlock, sums: [i32; 4]) -> [i32; 4] {
    let &[a, b, c, d, ..] = rows;
    scaled(rows, [a, b, c, d], sums)
}

fn shifted([a, b, c, d]: [i32; 4], shifts: i32) -> [i32; 4] {
    let [s, t, u, v] = shifts.to_le_bytes();
    let shift = |sum: i32, by: u8| sum >> (by & 31);
    [shift(a, s), shift(b, t), shift(c, u), shift(d, v)]
}

fn scaled(rows: &RowBlock, [a, b, c, d]: [i32; 4], [e, f, g, h]: [i32; 4]) -> [i32; 4] {
    let &[_, _, _, _, m, n, o, p, _] = rows;
    [mulh(a.wrapping_add(e), m), mulh(b.wrapping_add(f), n), mulh(c.wrapping_add(g), o), mulh(d.wrapping_add(h), p)]
}
