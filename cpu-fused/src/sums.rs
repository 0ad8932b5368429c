//! Sums of panels: every sum is one chain of multiply-adds, from what it starts from on, over ascending columns, and vectors
//! go across rows, never along columns. How many rows of operands are taken at once changes no bit.

use crate::panels::{Panels, WIDTH};
use crate::simd::{Simd, Task};
use crate::weight::Weight;

/// Which way the panels are gone through: where the weights are greater than a cache, one that turns round each step finds
/// its last part there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Way {
    /// From the first on.
    #[default]
    Up,
    /// From the last back.
    Down,
}

impl Way {
    /// Of every other step.
    #[inline(always)]
    pub fn of(odd: bool) -> Self {
        if odd { Self::Down } else { Self::Up }
    }

    /// Which panel of so many comes at `index`.
    #[inline(always)]
    pub fn at(self, index: usize, len: usize) -> usize {
        match self {
            Self::Up => index,
            Self::Down => len - 1 - index,
        }
    }
}

/// Goes on with the sums of a panel for each of `N` operands. By index and by value: so the sums stay in registers.
#[inline(always)]
fn chain<S: Simd, W: Weight, const R: usize, const N: usize>(
    s: S,
    panel: &[[W::Lanes<S>; R]],
    operands: [&[f32]; N],
    mut sums: [[S::F32; R]; N],
) -> [[S::F32; R]; N] {
    for col in 0..panel.len() {
        let weights = &panel[col];
        for n in 0..N {
            let x = s.splat(operands[n][col]);
            for r in 0..R {
                sums[n][r] = s.fma(W::load(s, &weights[r]), x, sums[n][r]);
            }
        }
    }
    sums
}

/// Sums of a panel, from memory.
#[inline(always)]
pub fn load<S: Simd, const R: usize>(s: S, from: &[f32]) -> [S::F32; R] {
    let from: &[S::Lanes] = bytemuck::cast_slice(&from[..R * S::LANES]);
    let mut sums = [s.splat(0.0); R];
    for r in 0..R {
        sums[r] = s.load(&from[r]);
    }
    sums
}

#[inline(always)]
fn store<S: Simd, const R: usize>(s: S, sums: [S::F32; R], to: &mut [f32]) {
    let to: &mut [S::Lanes] = bytemuck::cast_slice_mut(&mut to[..R * S::LANES]);
    for r in 0..R {
        s.store(sums[r], &mut to[r]);
    }
}

/// A matrix and what it is multiplied with.
pub type Part<'a, W> = (&'a Panels<W>, &'a [f32]);

/// For one row, in registers: the sums of panel `at`, which has `R` vectors, on from `sums`, of one part after the other.
/// Parts of `C` columns are summed by code for just so many.
#[inline(always)]
pub fn panel<S: Simd, W: Weight, const R: usize, const M: usize, const C: usize>(
    s: S,
    parts: [Part<'_, W>; M],
    at: usize,
    mut sums: [S::F32; R],
) -> [S::F32; R] {
    let mut chains = [W::begin(s, s.splat(0.0)); R];
    for r in 0..R {
        chains[r] = W::begin(s, sums[r]);
    }
    for (matrix, operand) in parts {
        let panel = matrix.panel::<S, R>(at);
        chains = match (panel.first_chunk::<C>(), operand.first_chunk::<C>()) {
            (Some(panel), Some(operand)) if C > 0 => columns::<S, W, R>(s, panel, operand, chains),
            _ => columns::<S, W, R>(s, panel, operand, chains),
        };
    }
    for r in 0..R {
        sums[r] = W::end(s, chains[r]);
    }
    sums
}

#[inline(always)]
fn columns<S: Simd, W: Weight, const R: usize>(
    s: S,
    panel: &[[W::Lanes<S>; R]],
    operand: &[f32],
    mut chains: [W::Sums<S>; R],
) -> [W::Sums<S>; R] {
    for (weights, &x) in panel.iter().zip(operand) {
        let x = s.splat(x);
        for r in 0..R {
            chains[r] = W::add(s, &weights[r], x, chains[r]);
        }
    }
    chains
}

/// All panels of a matrix ([`Panels::all`]), and what it is multiplied with: as many numbers as it has columns.
pub type Whole<'a, S, W, const R: usize> = (&'a [[<W as Weight>::Lanes<S>; R]], &'a [f32]);

/// For one row, in registers: the sums of `N` panels of a matrix from `first` on, on from `sums`. Two are as many chains again,
/// where those of one do not keep the units busy.
#[inline(always)]
pub fn abreast<S: Simd, W: Weight, const R: usize, const N: usize>(
    s: S,
    (matrix, operand): Whole<'_, S, W, R>,
    first: usize,
    mut sums: [[S::F32; R]; N],
) -> [[S::F32; R]; N] {
    let mut chains = [[W::begin(s, s.splat(0.0)); R]; N];
    for n in 0..N {
        for r in 0..R {
            chains[n][r] = W::begin(s, sums[n][r]);
        }
    }
    let mut panels: [&[[W::Lanes<S>; R]]; N] = [&[]; N];
    for n in 0..N {
        panels[n] = &matrix[(first + n) * operand.len()..][..operand.len()];
    }
    for col in 0..operand.len() {
        let x = s.splat(operand[col]);
        for n in 0..N {
            for r in 0..R {
                chains[n][r] = W::add(s, &panels[n][col][r], x, chains[n][r]);
            }
        }
    }
    for n in 0..N {
        for r in 0..R {
            sums[n][r] = W::end(s, chains[n][r]);
        }
    }
    sums
}

/// For one row: `sums = start + Σ matrix · operand`, of one part after the other, which have the same vectors of rows. Without
/// a start, on from what `sums` holds.
#[inline(always)]
pub fn one<S: Simd, W: Weight, const M: usize>(
    s: S,
    parts: [Part<'_, W>; M],
    start: Option<&[f32]>,
    sums: &mut [f32],
    way: Way,
) {
    s.vectorize(One { s, parts, start, sums, way });
}

struct One<'a, 's, S, W, const M: usize> {
    s: S,
    parts: [Part<'a, W>; M],
    start: Option<&'s [f32]>,
    sums: &'s mut [f32],
    way: Way,
}

impl<S: Simd, W: Weight, const M: usize> Task for One<'_, '_, S, W, M> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { s, parts, start, sums, way } = self;
        let (matrix, _) = parts[0];
        // Weights that are widened keep the units busy with two panels at once.
        let abreast = size_of::<W>() < size_of::<f32>() && matrix.vectors() == matrix.len() * WIDTH;
        let pairs = if abreast && matrix.len().is_multiple_of(2) { matrix.len() / 2 } else { 0 };
        for turn in 0..pairs {
            let at = 2 * way.at(turn, pairs);
            two_through(s, parts, at, start, sums);
        }
        for turn in 2 * pairs..matrix.len() {
            let at = way.at(turn, matrix.len());
            match matrix.width(at) {
                1 => through::<S, W, 1, M>(s, parts, at, start, sums),
                2 => through::<S, W, 2, M>(s, parts, at, start, sums),
                3 => through::<S, W, 3, M>(s, parts, at, start, sums),
                _ => through::<S, W, WIDTH, M>(s, parts, at, start, sums),
            }
        }
    }
}

/// Panel `at`, of `R` vectors, through memory.
#[inline(always)]
fn through<S: Simd, W: Weight, const R: usize, const M: usize>(
    s: S,
    parts: [Part<'_, W>; M],
    at: usize,
    start: Option<&[f32]>,
    sums: &mut [f32],
) {
    let from = parts[0].0.first(at) * S::LANES;
    let before = load(s, &start.unwrap_or(sums)[from..]);
    store(s, panel::<S, W, R, M, 0>(s, parts, at, before), &mut sums[from..]);
}

/// Two panels, of [`WIDTH`] vectors, through memory.
#[inline(always)]
fn two_through<S: Simd, W: Weight, const M: usize>(
    s: S,
    parts: [Part<'_, W>; M],
    at: usize,
    start: Option<&[f32]>,
    sums: &mut [f32],
) {
    let from = [at, at + 1].map(|at| parts[0].0.first(at) * S::LANES);
    let mut both = [[s.splat(0.0); WIDTH]; 2];
    for n in 0..2 {
        both[n] = load(s, &start.unwrap_or(sums)[from[n]..]);
    }
    for (matrix, operand) in parts {
        both = abreast::<S, W, WIDTH, 2>(s, (matrix.all(), &operand[..matrix.cols()]), at, both);
    }
    for n in 0..2 {
        store(s, both[n], &mut sums[from[n]..]);
    }
}

/// For many rows, each given by where its operand begins and where its sums do: [`one`] of one part.
#[inline(always)]
pub fn many<S: Simd, W: Weight>(
    s: S,
    matrix: &Panels<W>,
    operands: &[f32],
    start: Option<&[f32]>,
    sums: &mut [f32],
    rows: &[(usize, usize)],
    way: Way,
) {
    if let &[(operand, to)] = rows {
        let (operand, sums) = (&operands[operand..operand + matrix.cols()], &mut sums[to..]);
        return one(s, [(matrix, operand)], start, sums, way);
    }
    many_through(s, [(matrix, operands)], start, sums, (rows.len(), |n| ([rows[n].0], rows[n].1)), way);
}

/// [`one`] for so many rows, each given by where its operands begin and where its sums do.
#[inline(always)]
pub fn many_through<S: Simd, W: Weight, const M: usize>(
    s: S,
    parts: [Part<'_, W>; M],
    start: Option<&[f32]>,
    sums: &mut [f32],
    (rows, row): (usize, impl Fn(usize) -> ([usize; M], usize)),
    way: Way,
) {
    s.vectorize(Many { s, parts, start, sums, rows, row, way });
}

struct Many<'s, S, W, F, const M: usize> {
    s: S,
    parts: [Part<'s, W>; M],
    start: Option<&'s [f32]>,
    sums: &'s mut [f32],
    rows: usize,
    row: F,
    way: Way,
}

impl<S: Simd, W: Weight, F: Fn(usize) -> ([usize; M], usize), const M: usize> Task for Many<'_, S, W, F, M> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { s, parts, start, sums, rows, row, way } = self;
        let (matrix, _) = parts[0];
        for turn in 0..matrix.len() {
            let at = way.at(turn, matrix.len());
            let mut first = 0;
            while first < rows {
                let len = block_len(s, rows - first);
                let row = |n: usize| {
                    let (from, to) = row(first + n);
                    (from, to + matrix.first(at) * S::LANES)
                };
                match matrix.width(at) {
                    1 => block_of::<S, W, 1, M>(s, parts, at, start, sums, len, row),
                    2 => block_of::<S, W, 2, M>(s, parts, at, start, sums, len, row),
                    3 => block_of::<S, W, 3, M>(s, parts, at, start, sums, len, row),
                    _ => block_of::<S, W, WIDTH, M>(s, parts, at, start, sums, len, row),
                }
                first += len;
            }
        }
    }
}

/// Rows of the largest block of any instruction set.
pub const MOST_ROWS: usize = 6;

/// How many of the rows that are left the next block takes: all blocks about as many, none more than there are registers for.
/// A block of one row would load as many weights as it multiplies.
#[inline(always)]
pub fn block_len<S: Simd>(_: S, rows: usize) -> usize {
    rows.div_ceil(rows.div_ceil(S::ROWS))
}

/// Panel `at`, of `R` vectors, for a block of so many rows: `row` says where its operands begin, and where its sums lie.
#[inline(always)]
pub fn block_of<S: Simd, W: Weight, const R: usize, const M: usize>(
    s: S,
    parts: [Part<'_, W>; M],
    at: usize,
    start: Option<&[f32]>,
    sums: &mut [f32],
    rows: usize,
    row: impl Fn(usize) -> ([usize; M], usize),
) {
    let start = start.map(|start| &start[parts[0].0.first(at) * S::LANES..]);
    match rows {
        6 if S::ROWS >= 6 => rows_of::<S, W, R, 6, M>(s, parts, at, start, sums, row),
        5 if S::ROWS >= 5 => rows_of::<S, W, R, 5, M>(s, parts, at, start, sums, row),
        4 if S::ROWS >= 4 => rows_of::<S, W, R, 4, M>(s, parts, at, start, sums, row),
        3 if S::ROWS >= 3 => rows_of::<S, W, R, 3, M>(s, parts, at, start, sums, row),
        2 => rows_of::<S, W, R, 2, M>(s, parts, at, start, sums, row),
        _ => rows_of::<S, W, R, 1, M>(s, parts, at, start, sums, row),
    }
}

#[inline(always)]
fn rows_of<S: Simd, W: Weight, const R: usize, const N: usize, const M: usize>(
    s: S,
    parts: [Part<'_, W>; M],
    at: usize,
    start: Option<&[f32]>,
    sums: &mut [f32],
    row: impl Fn(usize) -> ([usize; M], usize),
) {
    s.call(Block::<S, W, R, N, M> { s, parts, at, start, sums, rows: core::array::from_fn(row) });
}

/// The sums of `N` rows, in registers until they are done. Called, never inlined: every register is theirs.
struct Block<'a, 's, S, W, const R: usize, const N: usize, const M: usize> {
    s: S,
    parts: [Part<'a, W>; M],
    at: usize,
    start: Option<&'a [f32]>,
    sums: &'s mut [f32],
    /// Of each row, where its operands begin, and where its sums do.
    rows: [([usize; M], usize); N],
}

impl<S: Simd, W: Weight, const R: usize, const N: usize, const M: usize> Task for Block<'_, '_, S, W, R, N, M> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { s, parts, at, start, sums, rows } = self;
        let mut chains = [[s.splat(0.0); R]; N];
        for n in 0..N {
            chains[n] = load::<S, R>(s, start.unwrap_or(&sums[rows[n].1..]));
        }
        for m in 0..M {
            let (matrix, operands) = parts[m];
            let panel = matrix.panel::<S, R>(at);
            let mut x: [&[f32]; N] = [&[]; N];
            for n in 0..N {
                x[n] = &operands[rows[n].0[m]..][..panel.len()];
            }
            chains = chain::<S, W, R, N>(s, panel, x, chains);
        }
        for n in 0..N {
            store(s, chains[n], &mut sums[rows[n].1..]);
        }
    }
}
