//! Layer normalization: mean and variance over the units of a row, as in [`tidegate::norm`] except for the order of the
//! sums. Streams and batches use the same order: each lane over the blocks of units, then over the gates if they are
//! normalized together, then over the lanes.

use crate::lines::Lines;
use crate::panels::{per_row, unit};
use crate::simd::Simd;

/// Rows of `units` units in blocks of one vector. Unused lanes of the last block hold zeros.
#[derive(Clone, Copy, Debug)]
pub struct Rows {
    units: usize,
    epsilon: f32,
}

/// Mean and scale of a row, in every lane.
#[derive(Clone, Copy)]
pub struct Moments<S: Simd> {
    mean: S::F32,
    scale: S::F32,
}

impl<S: Simd> Moments<S> {
    /// (x - mean) · scale
    #[inline(always)]
    pub fn apply(self, s: S, x: S::F32) -> S::F32 {
        s.mul(s.sub(x, self.mean), self.scale)
    }
}

impl Rows {
    /// `epsilon` is added to the variance.
    pub fn new(units: usize, epsilon: f32) -> Self {
        Self { units, epsilon }
    }

    /// Moments of each of `G` interleaved rows.
    #[inline(always)]
    pub fn each<S: Simd, const G: usize>(&self, s: S, row: &[f32]) -> [Moments<S>; G] {
        let mut means: [S::F32; G] = self.sums(s, row);
        for mean in &mut means {
            *mean = self.mean(s, *mean, 1);
        }
        let (squares, mut moments) = (self.squares(s, row, means), [Moments { mean: means[0], scale: means[0] }; G]);
        for g in 0..G {
            moments[g] = Moments { mean: means[g], scale: self.scale(s, squares[g], 1) };
        }
        moments
    }

    /// Joint moments of `G` interleaved rows, for two such groups at once, since each sum waits for the previous one.
    #[inline(always)]
    pub fn joint<S: Simd, const G: usize>(&self, s: S, [one, other]: [&[f32]; 2]) -> [Moments<S>; 2] {
        let sums: [[S::F32; G]; 2] = [self.sums(s, one), self.sums(s, other)];
        let means = [self.mean(s, folded(s, sums[0]), G), self.mean(s, folded(s, sums[1]), G)];
        let squares = [self.squares(s, one, [means[0]; G]), self.squares(s, other, [means[1]; G])];
        let scales = [self.scale(s, folded(s, squares[0]), G), self.scale(s, folded(s, squares[1]), G)];
        [Moments { mean: means[0], scale: scales[0] }, Moments { mean: means[1], scale: scales[1] }]
    }

    /// Moments of a row with one number per unit.
    #[inline(always)]
    pub fn of<S: Simd>(&self, s: S, row: &[f32]) -> Moments<S> {
        let [moments] = self.each(s, row);
        moments
    }

    /// Moments of a row with its root mean square instead of the deviation, and a mean of 0.
    #[inline(always)]
    pub fn root_mean_square<S: Simd>(&self, s: S, row: &[f32]) -> Moments<S> {
        let mean = s.splat(0.0);
        let [squares] = self.squares(s, row, [mean]);
        Moments { mean, scale: self.scale(s, squares, 1) }
    }

    /// The mean from the sums of each lane, over `of` numbers per unit.
    #[inline(always)]
    fn mean<S: Simd>(&self, s: S, sums: S::F32, of: usize) -> S::F32 {
        s.splat(s.sum(sums) / (of * self.units) as f32)
    }

    #[inline(always)]
    fn scale<S: Simd>(&self, s: S, squares: S::F32, of: usize) -> S::F32 {
        s.splat(1.0 / (s.sum(squares) / (of * self.units) as f32 + self.epsilon).sqrt())
    }

    /// The full blocks of `G` vectors, and the remaining elements.
    #[inline(always)]
    fn blocks<'r, S: Simd, const G: usize>(&self, _: S, row: &'r [f32]) -> (&'r [[S::Lanes; G]], &'r [f32]) {
        let (whole, part) = row.split_at(self.units / S::LANES * G * S::LANES);
        (bytemuck::cast_slice::<f32, S::Lanes>(whole).as_chunks().0, part)
    }

    #[inline(always)]
    fn sums<S: Simd, const G: usize>(&self, s: S, row: &[f32]) -> [S::F32; G] {
        let ((blocks, part), mut sums) = (self.blocks::<S, G>(s, row), [s.splat(0.0); G]);
        for x in blocks {
            for g in 0..G {
                sums[g] = s.add(sums[g], s.load(&x[g]));
            }
        }
        for (sum, x) in sums.iter_mut().zip(part.chunks(S::LANES)) {
            *sum = s.add(*sum, s.load_part(x));
        }
        sums
    }

    /// Sums of (x - mean)², over the lanes that hold a unit.
    #[inline(always)]
    fn squares<S: Simd, const G: usize>(&self, s: S, row: &[f32], means: [S::F32; G]) -> [S::F32; G] {
        let ((blocks, part), mut sums) = (self.blocks::<S, G>(s, row), [s.splat(0.0); G]);
        for x in blocks {
            for g in 0..G {
                let from_mean = s.sub(s.load(&x[g]), means[g]);
                sums[g] = s.fma(from_mean, from_mean, sums[g]);
            }
        }
        let is_unit = s.load_part(&[1.0; MOST_LANES][..self.units % S::LANES]);
        for ((sum, mean), x) in sums.iter_mut().zip(means).zip(part.chunks(S::LANES)) {
            let from_mean = s.mul(s.sub(s.load_part(x), mean), is_unit);
            *sum = s.fma(from_mean, from_mean, *sum);
        }
        sums
    }
}

/// Lanes of the longest vector.
const MOST_LANES: usize = 16;

/// The sum of vectors, added in halves.
#[inline(always)]
fn folded<S: Simd, const G: usize>(s: S, mut vectors: [S::F32; G]) -> S::F32 {
    let mut len = G;
    while len > 1 {
        let half = len.div_ceil(2);
        for g in half..len {
            vectors[g - half] = s.add(vectors[g - half], vectors[g]);
        }
        len = half;
    }
    vectors[0]
}

/// Gain and bias of each unit.
#[derive(Debug)]
pub struct Affine {
    gain: Lines<f32>,
    bias: Lines<f32>,
}

impl Affine {
    /// Packs gain and bias of `units` units; the defaults are 1 and 0. Lanes without a unit hold zeros.
    pub fn new(lanes: usize, units: usize, gain: &[f32], bias: &[f32]) -> Self {
        let by_unit = |elements: &[f32], default: f32| {
            per_row(lanes, units.div_ceil(lanes), &|block, lane| {
                unit(lanes, block, lane, units).map_or(0.0, |unit| elements.get(unit).copied().unwrap_or(default))
            })
        };
        Self { gain: by_unit(gain, 1.0), bias: by_unit(bias, 0.0) }
    }

    /// x · gain + bias for a block of units.
    #[inline(always)]
    pub fn apply<S: Simd>(&self, s: S, block: usize, x: S::F32) -> S::F32 {
        let from = block * S::LANES;
        s.fma(x, s.load_part(&self.gain.get()[from..]), s.load_part(&self.bias.get()[from..]))
    }
}
