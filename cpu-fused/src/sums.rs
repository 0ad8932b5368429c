//! Products of panels with operands. Every sum is one chain of multiply-adds over ascending columns, starting from the
//! bias; vectors span rows, never columns. The number of operands that are processed together therefore changes no bit.

use tidegate::internals::activation::Activation;

use crate::curves::Activate;
use crate::panels::{Panels, WIDTH};
use crate::simd::{Simd, Task};
use crate::weight::Weight;

/// Direction in which a step walks the panels. Weights larger than a cache are walked in alternating directions, so
/// that each step begins with the part that the previous one left in the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Way {
    /// From the first panel to the last.
    #[default]
    Up,
    /// From the last panel to the first.
    Down,
}

impl Way {
    /// [`Down`](Self::Down) for odd steps.
    #[inline(always)]
    pub fn of(odd: bool) -> Self {
        if odd { Self::Down } else { Self::Up }
    }

    /// The panel at position `index` of the walk over `len` panels.
    #[inline(always)]
    pub fn at(self, index: usize, len: usize) -> usize {
        match self {
            Self::Up => index,
            Self::Down => len - 1 - index,
        }
    }
}

/// A matrix and its operand.
pub type Part<'a, W> = (&'a Panels<W>, &'a [f32]);

/// Loads `R` vectors of sums.
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

/// Adds the products of panel `at`, which has `R` vectors, to `sums` in registers, part by part. Parts of exactly `C`
/// columns use a loop of constant length.
#[inline(always)]
pub fn panel<'a, S: Simd, W: Weight, const R: usize, const C: usize>(
    s: S,
    parts: impl IntoIterator<Item = Part<'a, W>>,
    at: usize,
    mut sums: [S::F32; R],
) -> [S::F32; R] {
    let mut chains = [W::begin(s, s.splat(0.0)); R];
    for r in 0..R {
        chains[r] = W::begin(s, sums[r]);
    }
    for (matrix, operand) in parts {
        let panel = matrix.panel::<S, R>(at);
        if const { C > 0 } {
            if let (Some(panel), Some(operand)) = (panel.first_chunk::<C>(), operand.first_chunk::<C>()) {
                chains = columns::<S, W, R>(s, panel, operand, chains);
            }
        } else {
            chains = columns::<S, W, R>(s, panel, operand, chains);
        }
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

/// All panels of a matrix ([`Panels::all`]) and an operand with one element per column.
pub type Whole<'a, S, W, const R: usize> = (&'a [[<W as Weight>::Lanes<S>; R]], &'a [f32]);

/// Adds the products of `N` panels from `first` on to `sums` in registers. Where one panel does not keep the
/// multipliers busy, two panels at once double the number of independent chains.
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

/// Computes `sums = start + matrix · operand` for one row of operands. Without `start`, adds to `sums`.
pub fn one<S: Simd, W: Weight>(s: S, part: Part<'_, W>, start: Option<&[f32]>, sums: &mut [f32], way: Way) {
    s.call(One { s, parts: [part], start, sums, way, then: None });
}

/// Computes `sums = start + Σ matrix · operand` for one row of operands. All parts have the same rows. Without `start`,
/// adds to `sums`.
pub struct One<'a, S, W, const M: usize> {
    pub s: S,
    pub parts: [Part<'a, W>; M],
    pub start: Option<&'a [f32]>,
    pub sums: &'a mut [f32],
    pub way: Way,
    pub then: Option<Then<'a>>,
}

/// The activation of complete sums.
pub struct Then<'a> {
    pub activation: Activation,
    /// See [`clip`](crate::curves::clip).
    pub limit: f32,
    pub to: &'a mut [f32],
}

impl<S: Simd, W: Weight, const M: usize> Task for One<'_, S, W, M> {
    type Output = ();

    #[inline(always)]
    fn run(mut self) {
        let (s, matrix) = (self.s, self.parts[0].0);
        let mut pairs = 0;
        if const { size_of::<W>() < size_of::<f32>() } {
            // With weights that must be widened, only two panels at once keep the multipliers busy.
            let whole = matrix.vectors() == matrix.len() * WIDTH && matrix.len().is_multiple_of(2);
            pairs = if whole { matrix.len() / 2 } else { 0 };
            for turn in 0..pairs {
                self.pair(2 * self.way.at(turn, pairs));
            }
        }
        for turn in 2 * pairs..matrix.len() {
            let at = self.way.at(turn, matrix.len());
            match matrix.width(at) {
                1 => self.panel::<1>(at),
                2 => self.panel::<2>(at),
                3 => self.panel::<3>(at),
                _ => self.panel::<WIDTH>(at),
            }
        }
        if let Some(Then { activation, limit, to }) = self.then {
            Activate { s, activation, limit, from: self.sums, to }.run();
        }
    }
}

impl<S: Simd, W: Weight, const M: usize> One<'_, S, W, M> {
    /// Sums panel `at`, which has `R` vectors.
    #[inline(always)]
    fn panel<const R: usize>(&mut self, at: usize) {
        let (s, from) = (self.s, self.parts[0].0.first(at) * S::LANES);
        let before = load(s, &self.start.unwrap_or(self.sums)[from..]);
        store(s, panel::<S, W, R, 0>(s, self.parts, at, before), &mut self.sums[from..]);
    }

    /// Sums panels `at` and `at + 1`, which have [`WIDTH`] vectors each.
    #[inline(always)]
    fn pair(&mut self, at: usize) {
        let s = self.s;
        let from = [at, at + 1].map(|at| self.parts[0].0.first(at) * S::LANES);
        let mut both = [[s.splat(0.0); WIDTH]; 2];
        for n in 0..2 {
            both[n] = load(s, &self.start.unwrap_or(self.sums)[from[n]..]);
        }
        for (matrix, operand) in self.parts {
            both = abreast::<S, W, WIDTH, 2>(s, (matrix.all(), &operand[..matrix.cols()]), at, both);
        }
        for n in 0..2 {
            store(s, both[n], &mut self.sums[from[n]..]);
        }
    }
}

/// [`one`] for many rows of one part. `rows` holds the offset of each row's operand and of its sums.
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
    s.call(Many { s, parts: &[(matrix, operands)], start, sums, rows: Rows::OnePart(rows), way });
}

/// [`one`] for many rows of two parts, in panels of [`WIDTH`] vectors.
pub fn many_of_two<S: Simd, W: Weight>(
    s: S,
    parts: [Part<'_, W>; 2],
    start: Option<&[f32]>,
    sums: &mut [f32],
    rows: &[Place],
    way: Way,
) {
    s.call(Many { s, parts: &parts, start, sums, rows: Rows::TwoParts(rows), way });
}

/// Offsets of the rows of a product.
#[derive(Clone, Copy)]
enum Rows<'a> {
    OnePart(&'a [(usize, usize)]),
    TwoParts(&'a [Place]),
}

struct Many<'a, S, W> {
    s: S,
    parts: &'a [Part<'a, W>],
    start: Option<&'a [f32]>,
    sums: &'a mut [f32],
    rows: Rows<'a>,
    way: Way,
}

impl<S: Simd, W: Weight> Task for Many<'_, S, W> {
    type Output = ();

    #[inline(always)]
    fn run(mut self) {
        let (matrix, _) = self.parts[0];
        for turn in 0..matrix.len() {
            let at = self.way.at(turn, matrix.len());
            match matrix.width(at) {
                1 => self.panel::<1>(at),
                2 => self.panel::<2>(at),
                3 => self.panel::<3>(at),
                _ => self.panel::<WIDTH>(at),
            }
        }
    }
}

impl<S: Simd, W: Weight> Many<'_, S, W> {
    /// Sums panel `at`, which has `R` vectors, for all rows.
    #[inline(always)]
    fn panel<const R: usize>(&mut self, at: usize) {
        let &mut Self { s, parts, start, ref mut sums, rows, .. } = self;
        let behind = parts[0].0.first(at) * S::LANES;
        let len = match rows {
            Rows::OnePart(rows) => rows.len(),
            Rows::TwoParts(rows) => rows.len(),
        };
        let mut first = 0;
        while first < len {
            let count = block_len::<S, R>(s, len - first);
            match (rows, parts) {
                (Rows::OnePart(rows), &[part, ..]) => {
                    let row = |n: usize| ([rows[first + n].0], rows[first + n].1 + behind);
                    if const { R < 3 } {
                        narrow_block::<S, W, R>(s, part, at, start, sums, count, row);
                    } else {
                        block_of::<S, W, R, 1>(s, [part], at, start, sums, count, row);
                    }
                }
                // Panels of two parts have [`WIDTH`] vectors.
                (Rows::TwoParts(rows), &[one, other]) if const { R == WIDTH } => {
                    let row = |n: usize| (rows[first + n].0, rows[first + n].1 + behind);
                    block_of::<S, W, R, 2>(s, [one, other], at, start, sums, count, row);
                }
                _ => {}
            }
            first += count;
        }
    }
}

/// Rows of the largest block of any instruction set.
pub const MOST_ROWS: usize = 6;

/// Offsets of a row's operands in two parts, and of its sums.
pub type Place = ([usize; 2], usize);

/// Number of rows in the next block when `rows` are left, for panels of `R` vectors.
///
/// A block of one row would load as many weights as it multiplies, so blocks have about the same size. If a full block
/// sums half a panel at a time, blocks are full instead, unless one row would be left. Four rows and half a panel have only
/// as many chains as two multipliers with a latency of four cycles need, and a full block has more.
#[inline(always)]
pub fn block_len<S: Simd, const R: usize>(_: S, rows: usize) -> usize {
    let most = const { if halved::<S, R>() || S::ROWS * R <= S::SUMS { S::ROWS } else { S::SUMS / R } };
    if const { halved::<S, R>() } && rows != most + 1 { rows.min(most) } else { rows.div_ceil(rows.div_ceil(most)) }
}

/// Whether a full block sums one half of a panel after the other. Half a panel and the sums of many rows need fewer loads
/// of weights and operands for their products than a whole panel and the sums of few.
const fn halved<S: Simd, const R: usize>() -> bool {
    R == WIDTH && S::ROWS * R > S::SUMS
}

/// Sums panel `at`, which has `R` vectors, for a block of `rows` rows. `row` returns the offsets of a row's operands
/// and of its sums.
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
        6 if const { S::ROWS >= 6 } => rows_of::<S, W, R, 6, M>(s, parts, at, start, sums, row),
        5 if const { S::ROWS >= 5 } => rows_of::<S, W, R, 5, M>(s, parts, at, start, sums, row),
        4 if const { S::ROWS >= 4 } => rows_of::<S, W, R, 4, M>(s, parts, at, start, sums, row),
        3 if const { S::ROWS >= 3 } => rows_of::<S, W, R, 3, M>(s, parts, at, start, sums, row),
        2 => rows_of::<S, W, R, 2, M>(s, parts, at, start, sums, row),
        _ => rows_of::<S, W, R, 1, M>(s, parts, at, start, sums, row),
    }
}

/// [`block_of`] for a panel of one or two vectors. With so few chains, additional rows cost nothing: in place of
/// missing rows, the last row is computed and stored again.
#[inline(always)]
fn narrow_block<S: Simd, W: Weight, const R: usize>(
    s: S,
    part: Part<'_, W>,
    at: usize,
    start: Option<&[f32]>,
    sums: &mut [f32],
    rows: usize,
    row: impl Fn(usize) -> ([usize; 1], usize),
) {
    let start = start.map(|start| &start[part.0.first(at) * S::LANES..]);
    let row = |n: usize| row(n.min(rows - 1));
    match rows {
        4.. if const { S::ROWS >= 6 } => rows_of::<S, W, R, 6, 1>(s, [part], at, start, sums, row),
        _ if const { S::ROWS >= 3 } => rows_of::<S, W, R, 3, 1>(s, [part], at, start, sums, row),
        _ => rows_of::<S, W, R, 2, 1>(s, [part], at, start, sums, row),
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
    // `from_fn` is not always inlined.
    let mut rows = [([0; M], 0); N];
    for (n, to) in rows.iter_mut().enumerate() {
        *to = row(n);
    }
    s.call(Block::<S, W, R, N, M> { s, parts, at, start, sums, rows });
}

/// The sums of `N` rows with a panel, which stay in registers until they are complete. Never inlined, so that it can use
/// every register.
struct Block<'a, 's, S, W, const R: usize, const N: usize, const M: usize> {
    s: S,
    parts: [Part<'a, W>; M],
    at: usize,
    start: Option<&'a [f32]>,
    sums: &'s mut [f32],
    /// Offsets of each row's operands and sums.
    rows: [([usize; M], usize); N],
}

impl<S: Simd, W: Weight, const R: usize, const N: usize, const M: usize> Task for Block<'_, '_, S, W, R, N, M> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { s, parts, at, start, sums, rows } = self;
        let mut panels: [&[[W::Lanes<S>; R]]; M] = [&[]; M];
        let mut x: [[&[f32]; N]; M] = [[&[]; N]; M];
        for m in 0..M {
            let (matrix, operands) = parts[m];
            panels[m] = matrix.panel::<S, R>(at);
            for n in 0..N {
                x[m][n] = &operands[rows[n].0[m]..][..panels[m].len()];
            }
        }
        if const { halved::<S, R>() && N * R > S::SUMS } {
            vectors::<S, W, R, N, M, 0, 2>(s, panels, x, start, sums, rows);
            vectors::<S, W, R, N, M, 2, 2>(s, panels, x, start, sums, rows);
        } else {
            vectors::<S, W, R, N, M, 0, R>(s, panels, x, start, sums, rows);
        }
    }
}

/// The sums of the `V` vectors of a panel from vector `FROM` on.
#[inline(always)]
fn vectors<S: Simd, W: Weight, const R: usize, const N: usize, const M: usize, const FROM: usize, const V: usize>(
    s: S,
    panels: [&[[W::Lanes<S>; R]]; M],
    x: [[&[f32]; N]; M],
    start: Option<&[f32]>,
    sums: &mut [f32],
    rows: [([usize; M], usize); N],
) {
    let from = FROM * S::LANES;
    let mut chains = [[s.splat(0.0); V]; N];
    for n in 0..N {
        chains[n] = load::<S, V>(s, &start.unwrap_or(&sums[rows[n].1..])[from..]);
    }
    for m in 0..M {
        chains = chain::<S, W, R, N, FROM, V>(s, panels[m], x[m], chains);
    }
    for n in 0..N {
        store(s, chains[n], &mut sums[rows[n].1 + from..]);
    }
}

/// Adds the products of `V` vectors of a panel with `N` operands. Loops over indices, and sums passed by value, keep the
/// sums in registers. The order of the loops saves registers as well: the inner loop runs over the weights or the
/// operands, whichever are fewer.
#[inline(always)]
fn chain<S: Simd, W: Weight, const R: usize, const N: usize, const FROM: usize, const V: usize>(
    s: S,
    panel: &[[W::Lanes<S>; R]],
    operands: [&[f32]; N],
    mut sums: [[S::F32; V]; N],
) -> [[S::F32; V]; N] {
    for col in 0..panel.len() {
        let weights = &panel[col];
        if const { V <= N } {
            for n in 0..N {
                let x = s.splat(operands[n][col]);
                for v in 0..V {
                    sums[n][v] = s.fma(W::load(s, &weights[FROM + v]), x, sums[n][v]);
                }
            }
        } else {
            let mut x = [s.splat(0.0); N];
            for n in 0..N {
                x[n] = s.splat(operands[n][col]);
            }
            for v in 0..V {
                let weight = W::load(s, &weights[FROM + v]);
                for n in 0..N {
                    sums[n][v] = s.fma(weight, x[n], sums[n][v]);
                }
            }
        }
    }
    sums
}
