//! Checks that no input makes a sum of an integer node wrap. `parse` runs it in `const` evaluation, where the compiler
//! limits calls and loop turns; therefore the loops over bytes call no function.

use super::Node;
use crate::image::field::node as field;
use crate::image::read::{slice, u32_at};
use crate::image::{GROUP, ImageError, Layout, Numeric};
use crate::quant::{RowBlock, cannot_wrap};
use crate::spec::{Specs, Storage, TensorSpec, is_wide};

/// A matrix, block by block.
#[derive(Clone, Copy)]
struct Part<'a> {
    bytes: &'a [u8],
    block_bytes: usize,
}

impl Part<'_> {
    /// An empty matrix.
    const NONE: Self = Self { bytes: &[], block_bytes: 0 };
}

impl<'a> Node<'a> {
    /// Checks every row of every matrix. The tensors have been [checked](Self::check) before.
    pub(crate) const fn check_sums(&self, specs: Specs, node: u32) -> Result<(), ImageError> {
        let (mut rest, mut index) = (specs.tensors(), 0);
        while let [spec, others @ ..] = rest {
            if let Storage::Rows { input, recurrent, .. } = spec.storage
                && spec.presence.required(self.options)
            {
                let (input, rows) = (self.part(specs, input), self.bytes_of(specs, index));
                let wraps = match recurrent {
                    None => self.single_that_wraps(rows, input),
                    Some((recurrent, _)) if is_wide(self.options) => {
                        let (of_input, of_state) = rows.split_at(rows.len() / 2);
                        match self.single_that_wraps(of_input, input) {
                            None => self.single_that_wraps(of_state, self.part(specs, recurrent)),
                            row => row,
                        }
                    }
                    Some((recurrent, first)) => {
                        let recurrent = self.part(specs, recurrent);
                        let (fine, coarse) =
                            if self.number(first) == 0 { (input, recurrent) } else { (recurrent, input) };
                        row_that_wraps(rows, fine, coarse, self.numeric, self.layout)
                    }
                };
                if let Some(row) = wraps {
                    return Err(ImageError::BadSum { node, tensor: index as u32, row });
                }
            }
            rest = others;
            index += 1;
        }
        Ok(())
    }

    /// The first row over one matrix whose sum can wrap.
    const fn single_that_wraps(&self, rows: &[u8], matrix: Part<'_>) -> Option<u32> {
        let Part { bytes, block_bytes } = matrix;
        let (fine, coarse) = if is_wide(self.options) {
            let (coarse, fine) = bytes.split_at(bytes.len() / 2);
            (Part { bytes: fine, block_bytes }, Part { bytes: coarse, block_bytes })
        } else {
            (matrix, Part::NONE)
        };
        row_that_wraps(rows, fine, coarse, self.numeric, self.layout)
    }

    const fn part(&self, specs: Specs, index: usize) -> Part<'a> {
        let block_bytes = match specs.tensor(index) {
            Some(spec) => self.block_bytes(spec),
            None => None,
        };
        match block_bytes {
            Some(block_bytes) => Part { bytes: self.bytes_of(specs, index), block_bytes },
            None => Part::NONE,
        }
    }

    /// The weights of a row of matrix `index` of an integer node, in any layout; for `i4x16` multiplied by their
    /// factors.
    pub(crate) fn row_of(&self, specs: Specs, index: usize, row: usize) -> impl Iterator<Item = i8> + use<'a> {
        let (layout, numeric) = (self.layout, self.numeric);
        let cols = match specs.tensor(index) {
            Some(TensorSpec { cols: Some(cols), .. }) => self.dim(cols),
            _ => 0,
        };
        let Part { bytes, block_bytes } = self.part(specs, index);
        let block = bytes.get((row / 4).saturating_mul(block_bytes)..).unwrap_or_default();
        let block = block.get(..block_bytes).unwrap_or_default();
        (0..cols).map_while(move |col| layout.weight(numeric, block, row % 4, col).map(|weight| weight as i8))
    }

    /// The bytes of tensor `index` of the image; empty if the node does not have it.
    pub(crate) const fn bytes_of(&self, specs: Specs, index: usize) -> &'a [u8] {
        let (Some(offset), Some(spec)) = (u32_at(self.tensors, 4 * index..4 * index + 4), specs.tensor(index)) else {
            return &[];
        };
        let Some(len) = self.spec_bytes(spec) else { return &[] };
        if offset == field::ABSENT {
            return &[];
        }
        match slice(self.weights, offset as usize, len) {
            Some(bytes) => bytes,
            None => &[],
        }
    }
}

/// The first row whose sum can wrap.
const fn row_that_wraps(
    rows: &[u8],
    mut fine: Part<'_>,
    mut coarse: Part<'_>,
    numeric: Numeric,
    layout: Layout,
) -> Option<u32> {
    let (mut rest, mut row) = (rows, 0);
    while let Some((block, others)) = rest.split_first_chunk::<{ size_of::<RowBlock>() }>() {
        let (Some((w, fine_rest)), Some((r, coarse_rest))) =
            (fine.bytes.split_at_checked(fine.block_bytes), coarse.bytes.split_at_checked(coarse.block_bytes))
        else {
            return None;
        };
        let (fine_sums, coarse_sums) = (magnitudes(w, numeric, layout), magnitudes(r, numeric, layout));
        let (starts, _) = block.as_chunks::<4>();
        let [.., a, b, c, d] = *block;
        let shifts = [a, b, c, d];
        let mut at = 0;
        while at < 4 {
            let start = i32::from_le_bytes(starts[at]);
            if !cannot_wrap(start, shifts[at], fine_sums[at], coarse_sums[at]) {
                return Some(row + at as u32);
            }
            at += 1;
        }
        (fine.bytes, coarse.bytes) = (fine_rest, coarse_rest);
        rest = others;
        row += 4;
    }
    None
}

/// The sums of the magnitudes of the weights, for each of the four rows of a block.
const fn magnitudes(block: &[u8], numeric: Numeric, layout: Layout) -> [u64; 4] {
    if matches!(numeric, Numeric::I4x16) { of_halves(block, layout) } else { of_bytes(block, layout) }
}

/// [`magnitudes`] of i4 weights times the factors of their groups.
const fn of_halves(block: &[u8], layout: Layout) -> [u64; 4] {
    const SIGNED: [u64; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 7, 6, 5, 4, 3, 2, 1];
    const PLUS_EIGHT: [u64; 16] = [8, 7, 6, 5, 4, 3, 2, 1, 0, 1, 2, 3, 4, 5, 6, 7];
    let by_rows = matches!(layout, Layout::CortexM4);
    let of = if by_rows { PLUS_EIGHT } else { SIGNED };
    let (mut sums, mut group, mut rest, mut word) = ([0; 4], [0; 4], block, 0);
    while let [a, b, c, d, others @ ..] = rest {
        let [a, b, c, d] = [*a as usize, *b as usize, *c as usize, *d as usize];
        if word == GROUP / 2 || others.is_empty() {
            let [e, f, g, h] = group;
            let [i, j, k, l] = sums;
            sums = [i + e * a as u64, j + f * b as u64, k + g * c as u64, l + h * d as u64];
            (group, word) = ([0; 4], 0);
        } else {
            let [e, f, g, h] =
                [of[a & 15] + of[c & 15], of[a >> 4] + of[c >> 4], of[b & 15] + of[d & 15], of[b >> 4] + of[d >> 4]];
            if by_rows {
                group[word & 3] += e + f + g + h;
            } else {
                group = [group[0] + e, group[1] + f, group[2] + g, group[3] + h];
            }
            word += 1;
        }
        rest = others;
    }
    sums
}

/// [`magnitudes`] of i8 weights, eight at a time.
const fn of_bytes(block: &[u8], layout: Layout) -> [u64; 4] {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const LOW: u64 = 0x00FF_00FF_00FF_00FF;
    let flip = if matches!(layout, Layout::CortexM0) { 0x80 * ONES } else { 0 };
    // Four 16-bit sums each. In `cortex-m55` a word of 64 bits has weights of one row, in `cortex-m4` of two rows,
    // otherwise of all rows.
    let (mut sums, mut narrow, mut rest, mut turn) = ([0; 4], [0_u64; 4], block, 0);
    while !rest.is_empty() {
        let word = match rest {
            [a, b, c, d, e, f, g, h, others @ ..] => {
                rest = others;
                u64::from_le_bytes([*a, *b, *c, *d, *e, *f, *g, *h]) ^ flip
            }
            [a, b, c, d, ..] => {
                rest = &[];
                u32::from_le_bytes([*a, *b, *c, *d]) as u64 ^ flip & u32::MAX as u64
            }
            _ => return sums,
        };
        let signs = word >> 7 & ONES;
        let magnitudes = (word ^ (signs * 0xFF)) + signs;
        let (even, odd) = (magnitudes & LOW, magnitudes >> 8 & LOW);
        match layout {
            Layout::Portable | Layout::CortexM0 => (narrow[0], narrow[1]) = (narrow[0] + even, narrow[1] + odd),
            Layout::CortexM4 => narrow[turn & 1] += even + odd,
            Layout::CortexM55 => narrow[turn >> 1 & 3] += even + odd,
        }
        turn += 1;
        // 255 sums of two magnitudes are below 2^16.
        if turn & 127 == 0 || rest.is_empty() {
            let [e, f, g, h] = narrow;
            let [a, b, c, d] = sums;
            sums = match layout {
                Layout::Portable | Layout::CortexM0 => [
                    a + (e & 0xFFFF) + (e >> 32 & 0xFFFF),
                    b + (f & 0xFFFF) + (f >> 32 & 0xFFFF),
                    c + (e >> 16 & 0xFFFF) + (e >> 48),
                    d + (f >> 16 & 0xFFFF) + (f >> 48),
                ],
                Layout::CortexM4 => [
                    a + (e & 0xFFFF) + (e >> 16 & 0xFFFF),
                    b + (e >> 32 & 0xFFFF) + (e >> 48),
                    c + (f & 0xFFFF) + (f >> 16 & 0xFFFF),
                    d + (f >> 32 & 0xFFFF) + (f >> 48),
                ],
                Layout::CortexM55 => [
                    a + (e & 0xFFFF) + (e >> 16 & 0xFFFF) + (e >> 32 & 0xFFFF) + (e >> 48),
                    b + (f & 0xFFFF) + (f >> 16 & 0xFFFF) + (f >> 32 & 0xFFFF) + (f >> 48),
                    c + (g & 0xFFFF) + (g >> 16 & 0xFFFF) + (g >> 32 & 0xFFFF) + (g >> 48),
                    d + (h & 0xFFFF) + (h >> 16 & 0xFFFF) + (h >> 32 & 0xFFFF) + (h >> 48),
                ],
            };
            narrow = [0; 4];
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::magnitudes;
    use crate::image::{GROUP, Layout, Numeric, factors_at};

    #[test]
    fn the_magnitudes_of_a_row_are_those_of_its_weights_in_every_layout() {
        // From column 40 on the magnitudes are the greatest.
        let weight = |row: usize, col: usize| {
            if col < 40 { (row * 71 + col * 37 + col * col * 5) as u8 as i8 } else { i8::MIN }
        };
        for layout in Layout::ALL {
            for cols in (0..40).chain(250..264).chain([510, 511, 512, 513, 1023, 1024, 1025]) {
                let mut block = [layout.code_of(Numeric::I8x16, 0); 4 * 1040];
                for (row, col) in (0..4).flat_map(|row| (0..cols).map(move |col| (row, col))) {
                    let code = layout.code_of(Numeric::I8x16, weight(row, col));
                    block[layout.place(Numeric::I8x16, row, col)] = code;
                }
                let expected = [0, 1, 2, 3]
                    .map(|row| (0..cols).map(|col| u64::from(weight(row, col).unsigned_abs())).sum::<u64>());
                let bytes = layout.block_bytes(Numeric::I8x16, cols).unwrap();
                assert_eq!(magnitudes(&block[..bytes], Numeric::I8x16, layout), expected, "{} {cols}", layout.name());
            }
        }
    }

    #[test]
    fn the_magnitudes_of_half_bytes_have_the_factors_of_their_groups() {
        let numeric = Numeric::I4x16;
        let weight = |row: usize, col: usize| ((row * 71 + col * 37 + col * col * 5) % 16) as i8 - 8;
        let factor = |row: usize, group: usize| 1_u8 << ((3 * row + group) % 5);
        for layout in Layout::ALL.into_iter().filter(|layout| layout.is_of(numeric)) {
            for cols in 1..100_usize {
                let bytes = layout.block_bytes(numeric, cols).unwrap();
                let mut block = [0; 4 * 60];
                for row in 0..4 {
                    for col in 0..cols.next_multiple_of(layout.columns(numeric)) {
                        let code = layout.code_of(numeric, if col < cols { weight(row, col) } else { 0 });
                        let place = layout.place(numeric, row, col);
                        block[place / 2] |= code << (4 * (place % 2));
                        block[factors_at(bytes, col / GROUP) + row] = factor(row, col / GROUP);
                    }
                }
                let of = |row: usize, col: usize| {
                    u64::from(weight(row, col).unsigned_abs()) * u64::from(factor(row, col / GROUP))
                };
                let expected = [0, 1, 2, 3].map(|row| (0..cols).map(|col| of(row, col)).sum::<u64>());
                assert_eq!(magnitudes(&block[..bytes], numeric, layout), expected, "{} {cols}", layout.name());
            }
        }
    }
}
