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
    for (col, weights) in panel.iter().enumerate() {
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

/// For one row: `sums = start + Σ matrix · operand`. Without a start, on from what `sums` holds.
#[inline(always)]
pub fn one<S: Simd, W: Weight>(s: S, part: Part<'_, W>, start: Option<&[f32]>, sums: &mut [f32], way: Way) {
    s.vectorize(One { s, part, start, sums, way });
}

struct One<'a, 's, S, W> {
    s: S,
    part: Part<'a, W>,
    start: Option<&'s [f32]>,
    sums: &'s mut [f32],
    way: Way,
}

impl<S: Simd, W: Weight> Task for One<'_, '_, S, W> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { s, part, start, sums, way } = self;
        let (matrix, _) = part;
        for turn in 0..matrix.len() {
            let at = way.at(turn, matrix.len());
            match matrix.width(at) {
                1 => through::<S, W, 1>(s, part, at, start, sums),
                2 => through::<S, W, 2>(s, part, at, start, sums),
                3 => through::<S, W, 3>(s, part, at, start, sums),
                _ => through::<S, W, WIDTH>(s, part, at, start, sums),
            }
        }
    }
}

/// Panel `at`, of `R` vectors, through memory.
#[inline(always)]
fn through<S: Simd, W: Weight, const R: usize>(
    s: S,
    part: Part<'_, W>,
    at: usize,
    start: Option<&[f32]>,
    sums: &mut [f32],
) {
    let from = part.0.first(at) * S::LANES;
    let before = load(s, &start.unwrap_or(sums)[from..]);
    store(s, panel::<S, W, R, 1, 0>(s, [part], at, before), &mut sums[from..]);
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
        return one(s, (matrix, operand), start, sums, way);
    }
    s.vectorize(Many { s, matrix, operands, start, sums, rows, way });
}

struct Many<'s, S, W> {
    s: S,
    matrix: &'s Panels<W>,
    operands: &'s [f32],
    start: Option<&'s [f32]>,
    sums: &'s mut [f32],
    rows: &'s [(usize, usize)],
    way: Way,
}

impl<S: Simd, W: Weight> Task for Many<'_, S, W> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { s, matrix, operands, start, sums, rows, way } = self;
        for turn in 0..matrix.len() {
            let at = way.at(turn, matrix.len());
            match matrix.width(at) {
                1 => blocks::<S, W, 1>(s, matrix, at, operands, start, sums, rows),
                2 => blocks::<S, W, 2>(s, matrix, at, operands, start, sums, rows),
                3 => blocks::<S, W, 3>(s, matrix, at, operands, start, sums, rows),
                _ => blocks::<S, W, WIDTH>(s, matrix, at, operands, start, sums, rows),
            }
        }
    }
}

/// A panel for all rows, as many at once as there are registers for.
#[inline(always)]
fn blocks<S: Simd, W: Weight, const R: usize>(
    s: S,
    matrix: &Panels<W>,
    at: usize,
    operands: &[f32],
    start: Option<&[f32]>,
    sums: &mut [f32],
    mut rows: &[(usize, usize)],
) {
    if S::ROWS >= 6 {
        rows = block::<S, W, R, 6>(s, matrix, at, operands, start, sums, rows);
    }
    if S::ROWS >= 3 {
        rows = block::<S, W, R, 3>(s, matrix, at, operands, start, sums, rows);
    }
    rows = block::<S, W, R, 2>(s, matrix, at, operands, start, sums, rows);
    block::<S, W, R, 1>(s, matrix, at, operands, start, sums, rows);
}

/// Of the rows, `N` at a time; returns those that are left.
#[inline(always)]
fn block<'r, S: Simd, W: Weight, const R: usize, const N: usize>(
    s: S,
    matrix: &Panels<W>,
    at: usize,
    operands: &[f32],
    start: Option<&[f32]>,
    sums: &mut [f32],
    rows: &'r [(usize, usize)],
) -> &'r [(usize, usize)] {
    let panel = matrix.panel::<S, R>(at);
    let first = matrix.first(at) * S::LANES;
    let (blocks, rest) = rows.as_chunks::<N>();
    for rows in blocks {
        let mut x = [&operands[..0]; N];
        let mut chains = [[s.splat(0.0); R]; N];
        for n in 0..N {
            let (operand, to) = rows[n];
            x[n] = &operands[operand..operand + panel.len()];
            chains[n] = load::<S, R>(s, &start.unwrap_or(&sums[to..])[first..]);
        }
        let chains = chain::<S, W, R, N>(s, panel, x, chains);
        for n in 0..N {
            store(s, chains[n], &mut sums[rows[n].1 + first..]);
        }
    }
    rest
}
