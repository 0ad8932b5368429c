//! Sums of panels: every sum is one chain of multiply-adds, from what it starts from on, over ascending columns, and vectors
//! go across rows, never along columns. How many rows of operands are taken at once changes no bit.

use crate::panels::{Panels, WIDTH};
use crate::simd::{Simd, Task};

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
fn chain<S: Simd, const R: usize, const N: usize>(
    s: S,
    panel: &[[S::Lanes; R]],
    operands: [&[f32]; N],
    mut sums: [[S::F32; R]; N],
) -> [[S::F32; R]; N] {
    for col in 0..panel.len() {
        let weights = &panel[col];
        for n in 0..N {
            let x = s.splat(operands[n][col]);
            for r in 0..R {
                sums[n][r] = s.fma(s.load(&weights[r]), x, sums[n][r]);
            }
        }
    }
    sums
}

/// The same of two panels side by side and one operand: chains enough to keep the multipliers busy.
#[inline(always)]
fn chain_two<S: Simd, const R: usize>(
    s: S,
    first: &[[S::Lanes; WIDTH]],
    second: &[[S::Lanes; R]],
    operand: &[f32],
    (mut a, mut b): ([S::F32; WIDTH], [S::F32; R]),
) -> ([S::F32; WIDTH], [S::F32; R]) {
    for ((first, second), &x) in first.iter().zip(second).zip(operand) {
        let x = s.splat(x);
        for r in 0..WIDTH {
            a[r] = s.fma(s.load(&first[r]), x, a[r]);
        }
        for r in 0..R {
            b[r] = s.fma(s.load(&second[r]), x, b[r]);
        }
    }
    (a, b)
}

#[inline(always)]
fn load<S: Simd, const R: usize>(s: S, from: &[f32]) -> [S::F32; R] {
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
pub type Part<'a> = (&'a Panels, &'a [f32]);

/// For one row: `sums = start + Σ matrix · operand`, of one part after the other, which have the same vectors of rows. Without
/// a start, on from what `sums` holds.
#[inline(always)]
pub fn one<S: Simd, const M: usize>(s: S, parts: [Part<'_>; M], start: Option<&[f32]>, sums: &mut [f32], way: Way) {
    s.vectorize(One { s, parts, start, sums, way });
}

struct One<'a, 's, S, const M: usize> {
    s: S,
    parts: [Part<'a>; M],
    start: Option<&'s [f32]>,
    sums: &'s mut [f32],
    way: Way,
}

impl<S: Simd, const M: usize> Task for One<'_, '_, S, M> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { s, parts, start, sums, way } = self;
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
        let panel = matrix.panel::<S, R>(at);
        chains = chain(s, panel, [&operand[..panel.len()]], chains);
    }
    let [sums_of] = chains;
    store(s, sums_of, &mut sums[from..]);
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
        (a, b) = chain_two(s, matrix.panel::<S, WIDTH>(at), matrix.panel::<S, R>(at + 1), operand, (a, b));
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
    s.vectorize(Many { s, matrix, operands, start, sums, rows, way });
}

struct Many<'s, S> {
    s: S,
    matrix: &'s Panels,
    operands: &'s [f32],
    start: Option<&'s [f32]>,
    sums: &'s mut [f32],
    rows: &'s [(usize, usize)],
    way: Way,
}

impl<S: Simd> Task for Many<'_, S> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { s, matrix, operands, start, sums, rows, way } = self;
        for turn in 0..matrix.len() {
            let at = way.at(turn, matrix.len());
            let parts = [(matrix, operands)];
            let mut left = rows;
            while !left.is_empty() {
                let (block, others) = left.split_at(block_len(s, left.len()));
                left = others;
                let row = |n: usize| ([block[n].0], block[n].1 + at * WIDTH * S::LANES);
                match matrix.width(at) {
                    1 => block_of::<S, 1, 1>(s, parts, at, start, sums, block.len(), row),
                    2 => block_of::<S, 2, 1>(s, parts, at, start, sums, block.len(), row),
                    3 => block_of::<S, 3, 1>(s, parts, at, start, sums, block.len(), row),
                    _ => block_of::<S, WIDTH, 1>(s, parts, at, start, sums, block.len(), row),
                }
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
pub fn block_of<S: Simd, const R: usize, const M: usize>(
    s: S,
    parts: [Part<'_>; M],
    at: usize,
    start: Option<&[f32]>,
    sums: &mut [f32],
    rows: usize,
    row: impl Fn(usize) -> ([usize; M], usize),
) {
    let start = start.map(|start| &start[at * WIDTH * S::LANES..]);
    match rows {
        6 if S::ROWS >= 6 => s.call(Block::<S, R, 6, M>::new(s, parts, at, start, sums, row)),
        5 if S::ROWS >= 5 => s.call(Block::<S, R, 5, M>::new(s, parts, at, start, sums, row)),
        4 if S::ROWS >= 4 => s.call(Block::<S, R, 4, M>::new(s, parts, at, start, sums, row)),
        3 if S::ROWS >= 3 => s.call(Block::<S, R, 3, M>::new(s, parts, at, start, sums, row)),
        2 => s.call(Block::<S, R, 2, M>::new(s, parts, at, start, sums, row)),
        _ => s.call(Block::<S, R, 1, M>::new(s, parts, at, start, sums, row)),
    }
}

/// The sums of `N` rows, in registers until they are done. Called, never inlined: every register is theirs.
struct Block<'a, 's, S: Simd, const R: usize, const N: usize, const M: usize> {
    s: S,
    panels: [&'a [[S::Lanes; R]]; M],
    operands: [[&'a [f32]; N]; M],
    start: Option<&'a [f32]>,
    sums: &'s mut [f32],
    at: [usize; N],
}

impl<'a, 's, S: Simd, const R: usize, const N: usize, const M: usize> Block<'a, 's, S, R, N, M> {
    #[inline(always)]
    fn new(
        s: S,
        parts: [Part<'a>; M],
        at: usize,
        start: Option<&'a [f32]>,
        sums: &'s mut [f32],
        row: impl Fn(usize) -> ([usize; M], usize),
    ) -> Self {
        let mut of = Self { s, panels: [&[]; M], operands: [[&[]; N]; M], start, sums, at: [0; N] };
        for n in 0..N {
            let (from, to) = row(n);
            of.at[n] = to;
            for m in 0..M {
                of.operands[m][n] = &parts[m].1[from[m]..];
            }
        }
        for (panel, (matrix, _)) in of.panels.iter_mut().zip(parts) {
            *panel = matrix.panel::<S, R>(at);
        }
        of
    }
}

impl<S: Simd, const R: usize, const N: usize, const M: usize> Task for Block<'_, '_, S, R, N, M> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { s, panels, operands, start, sums, at } = self;
        let mut chains = [[s.splat(0.0); R]; N];
        for n in 0..N {
            chains[n] = load::<S, R>(s, start.unwrap_or(&sums[at[n]..]));
        }
        for m in 0..M {
            let mut x: [&[f32]; N] = [&[]; N];
            for n in 0..N {
                x[n] = &operands[m][n][..panels[m].len()];
            }
            chains = chain(s, panels[m], x, chains);
        }
        for n in 0..N {
            store(s, chains[n], &mut sums[at[n]..]);
        }
    }
}
