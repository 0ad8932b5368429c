//! Sums of panels: every sum is one chain of multiply-adds, from what it starts from on, over ascending columns, and vectors
//! go across rows, never along columns. How many rows of operands are taken at once changes no bit.

use crate::panels::{Panels, WIDTH};
use crate::simd::Simd;

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
    fn at(self, index: usize, len: usize) -> usize {
        match self {
            Self::Up => index,
            Self::Down => len - 1 - index,
        }
    }
}

/// Goes on with the sums of a panel for each of `N` operands.
#[inline(always)]
fn chain<S: Simd, const R: usize, const N: usize>(
    s: S,
    panel: &[[S::Lanes; R]],
    operands: [&[f32]; N],
    sums: &mut [[S::F32; R]; N],
) {
    let operands = operands.map(|operand| &operand[..panel.len()]);
    for (col, weights) in panel.iter().enumerate() {
        for (sums, operand) in sums.iter_mut().zip(operands) {
            let x = s.splat(operand[col]);
            for (sum, weights) in sums.iter_mut().zip(weights) {
                *sum = s.fma(s.load(weights), x, *sum);
            }
        }
    }
}

/// The same of two panels side by side and one operand: chains enough to keep the multipliers busy.
#[inline(always)]
fn chain_two<S: Simd, const R: usize>(
    s: S,
    (first, second): (&[[S::Lanes; WIDTH]], &[[S::Lanes; R]]),
    operand: &[f32],
    (a, b): (&mut [S::F32; WIDTH], &mut [S::F32; R]),
) {
    for ((first, second), &x) in first.iter().zip(second).zip(operand) {
        let x = s.splat(x);
        for (sum, weights) in a.iter_mut().zip(first) {
            *sum = s.fma(s.load(weights), x, *sum);
        }
        for (sum, weights) in b.iter_mut().zip(second) {
            *sum = s.fma(s.load(weights), x, *sum);
        }
    }
}

#[inline(always)]
fn load<S: Simd, const R: usize>(s: S, from: &[f32]) -> [S::F32; R] {
    let from: &[S::Lanes] = bytemuck::cast_slice(&from[..R * S::LANES]);
    core::array::from_fn(|r| s.load(&from[r]))
}

#[inline(always)]
fn store<S: Simd, const R: usize>(s: S, sums: [S::F32; R], to: &mut [f32]) {
    let to: &mut [S::Lanes] = bytemuck::cast_slice_mut(&mut to[..R * S::LANES]);
    for (sum, to) in sums.into_iter().zip(to) {
        s.store(sum, to);
    }
}

/// A matrix and what it is multiplied with.
pub type Part<'a> = (&'a Panels, &'a [f32]);

/// For one row: `sums = start + Σ matrix · operand`, of one part after the other, which have the same vectors of rows. Without
/// a start, on from what `sums` holds.
#[inline(always)]
pub fn one<S: Simd, const M: usize>(s: S, parts: [Part<'_>; M], start: Option<&[f32]>, sums: &mut [f32], way: Way) {
    let panels = parts[0].0.len();
    let turns = panels.div_ceil(2);
    for turn in 0..turns {
        let at = 2 * way.at(turn, turns);
        match (panels - at, parts[0].0.width((at + 1).min(panels - 1))) {
            (1, 1) => single::<S, 1, M>(s, parts, at, start, sums),
            (1, 2) => single::<S, 2, M>(s, parts, at, start, sums),
            (1, 3) => single::<S, 3, M>(s, parts, at, start, sums),
            (1, _) => single::<S, WIDTH, M>(s, parts, at, start, sums),
            (_, 1) => double::<S, 1, M>(s, parts, at, start, sums),
            (_, 2) => double::<S, 2, M>(s, parts, at, start, sums),
            (_, 3) => double::<S, 3, M>(s, parts, at, start, sums),
            _ => double::<S, WIDTH, M>(s, parts, at, start, sums),
        }
    }
}

/// Panel `at`, of `R` vectors.
#[inline(always)]
fn single<S: Simd, const R: usize, const M: usize>(
    s: S,
    parts: [Part<'_>; M],
    at: usize,
    start: Option<&[f32]>,
    sums: &mut [f32],
) {
    let from = at * WIDTH * S::LANES;
    let mut chains = [load::<S, R>(s, &start.unwrap_or(sums)[from..])];
    for (matrix, operand) in parts {
        chain(s, matrix.panel::<S, R>(at), [operand], &mut chains);
    }
    store(s, chains[0], &mut sums[from..]);
}

/// Panel `at` and the next, of `R` vectors.
#[inline(always)]
fn double<S: Simd, const R: usize, const M: usize>(
    s: S,
    parts: [Part<'_>; M],
    at: usize,
    start: Option<&[f32]>,
    sums: &mut [f32],
) {
    let (from, next) = (at * WIDTH * S::LANES, (at + 1) * WIDTH * S::LANES);
    let before = start.unwrap_or(sums);
    let (mut a, mut b) = (load::<S, WIDTH>(s, &before[from..]), load::<S, R>(s, &before[next..]));
    for (matrix, operand) in parts {
        let panels = (matrix.panel::<S, WIDTH>(at), matrix.panel::<S, R>(at + 1));
        chain_two(s, panels, operand, (&mut a, &mut b));
    }
    store(s, a, &mut sums[from..]);
    store(s, b, &mut sums[next..]);
}

/// For many rows, each given by where its operand begins and where its sums do: [`one`] of one part.
#[inline(always)]
pub fn many<S: Simd>(
    s: S,
    matrix: &Panels,
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
    for turn in 0..matrix.len() {
        let at = way.at(turn, matrix.len());
        match matrix.width(at) {
            1 => blocks::<S, 1>(s, matrix, at, operands, start, sums, rows),
            2 => blocks::<S, 2>(s, matrix, at, operands, start, sums, rows),
            3 => blocks::<S, 3>(s, matrix, at, operands, start, sums, rows),
            _ => blocks::<S, WIDTH>(s, matrix, at, operands, start, sums, rows),
        }
    }
}

/// A panel for all rows, as many at once as there are registers for.
#[inline(always)]
fn blocks<S: Simd, const R: usize>(
    s: S,
    matrix: &Panels,
    at: usize,
    operands: &[f32],
    start: Option<&[f32]>,
    sums: &mut [f32],
    mut rows: &[(usize, usize)],
) {
    if S::ROWS >= 6 {
        rows = block::<S, R, 6>(s, matrix, at, operands, start, sums, rows);
    }
    if S::ROWS >= 3 {
        rows = block::<S, R, 3>(s, matrix, at, operands, start, sums, rows);
    }
    rows = block::<S, R, 2>(s, matrix, at, operands, start, sums, rows);
    block::<S, R, 1>(s, matrix, at, operands, start, sums, rows);
}

/// Of the rows, `N` at a time; returns those that are left.
#[inline(always)]
fn block<'r, S: Simd, const R: usize, const N: usize>(
    s: S,
    matrix: &Panels,
    at: usize,
    operands: &[f32],
    start: Option<&[f32]>,
    sums: &mut [f32],
    rows: &'r [(usize, usize)],
) -> &'r [(usize, usize)] {
    let panel = matrix.panel::<S, R>(at);
    let first = at * WIDTH * S::LANES;
    let (blocks, rest) = rows.as_chunks::<N>();
    for rows in blocks {
        let x = rows.map(|(operand, _)| &operands[operand..operand + panel.len()]);
        let mut chains = rows.map(|(_, to)| match start {
            Some(start) => load::<S, R>(s, &start[first..]),
            None => load::<S, R>(s, &sums[to + first..]),
        });
        chain(s, panel, x, &mut chains);
        for ((_, to), sums_of) in rows.iter().zip(chains) {
            store(s, sums_of, &mut sums[to + first..]);
        }
    }
    rest
}
