//! Layer normalization: means and variances over the units of a row, as [`tidegate::norm`] has them but for the order of
//! the sums, which is one for streams and batches: lane by lane over the blocks of units, then over the gates, where they
//! are normalized together, then over the lanes.

use crate::lines::Lines;
use crate::panels::{per_row, unit};
use crate::simd::Simd;

/// Rows of so many units, in blocks of as many as lanes; the last block may have fewer, and zeros in its other lanes.
#[derive(Clone, Copy, Debug)]
pub struct Rows {
    units: usize,
    epsilon: f32,
}

/// What normalizes a row, in every lane.
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
    /// Of so many units; epsilon is added to their variance.
    pub fn new(units: usize, epsilon: f32) -> Self {
        Self { units, epsilon }
    }

    /// Of a row of `G` vectors a block, each by itself.
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

    /// Of rows of `G` vectors a block, which are normalized together: side by side, since a sum waits for the one before.
    #[inline(always)]
    pub fn joint<S: Simd, const G: usize>(&self, s: S, [one, other]: [&[f32]; 2]) -> [Moments<S>; 2] {
        let sums: [[S::F32; G]; 2] = [self.sums(s, one), self.sums(s, other)];
        let means = [self.mean(s, folded(s, sums[0]), G), self.mean(s, folded(s, sums[1]), G)];
        let squares = [self.squares(s, one, [means[0]; G]), self.squares(s, other, [means[1]; G])];
        let scales = [self.scale(s, folded(s, squares[0]), G), self.scale(s, folded(s, squares[1]), G)];
        [Moments { mean: means[0], scale: scales[0] }, Moments { mean: means[1], scale: scales[1] }]
    }

    /// Of one number of each unit.
    #[inline(always)]
    pub fn of<S: Simd>(&self, s: S, row: &[f32]) -> Moments<S> {
        let [moments] = self.each(s, row);
        moments
    }

    /// From lanes that sum up `of` numbers of each unit.
    #[inline(always)]
    fn mean<S: Simd>(&self, s: S, sums: S::F32, of: usize) -> S::F32 {
        s.splat(s.sum(sums) / (of * self.units) as f32)
    }

    #[inline(always)]
    fn scale<S: Simd>(&self, s: S, squares: S::F32, of: usize) -> S::F32 {
        s.splat(1.0 / (s.sum(squares) / (of * self.units) as f32 + self.epsilon).sqrt())
    }

    /// Of `G` vectors a block: the blocks in which every lane has a unit, and what is behind them.
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

    /// Sums of (x - mean)², without the lanes that have no unit.
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

/// Lanes of the longest vectors.
const MOST_LANES: usize = 16;

/// The sum of vectors, halves first.
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

/// A gain and a bias for each unit.
#[derive(Debug)]
pub struct Affine {
    gain: Lines<f32>,
    bias: Lines<f32>,
}

impl Affine {
    /// Of so many units; without elements the gain is 1 and the bias 0. Lanes without a unit have zeros.
    pub fn new<S: Simd>(s: S, units: usize, gain: &[f32], bias: &[f32]) -> Self {
        let by_unit = |elements: &[f32], default: f32| {
            per_row(s, units.div_ceil(S::LANES), |block, lane| {
                unit(s, block, lane, units).map_or(0.0, |unit| elements.get(unit).copied().unwrap_or(default))
            })
        };
        Self { gain: by_unit(gain, 1.0), bias: by_unit(bias, 0.0) }
    }

    /// A block of units: x · gain + bias.
    #[inline(always)]
    pub fn apply<S: Simd>(&self, s: S, block: usize, x: S::F32) -> S::F32 {
        let from = block * S::LANES;
        s.fma(x, s.load_part(&self.gain.get()[from..]), s.load_part(&self.bias.get()[from..]))
    }
}
