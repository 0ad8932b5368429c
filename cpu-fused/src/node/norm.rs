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

    /// Of `G` numbers of each unit, each by itself; `at` gives a block of them.
    #[inline(always)]
    pub fn each<S: Simd, const G: usize>(&self, s: S, at: impl Fn(usize) -> [S::F32; G]) -> [Moments<S>; G] {
        let len = self.units as f32;
        let mut means = self.sums(s, &at);
        for mean in &mut means {
            *mean = s.splat(s.sum(*mean) / len);
        }
        let squares = self.squares(s, &at, means);
        let mut moments = [Moments { mean: s.splat(0.0), scale: s.splat(0.0) }; G];
        for g in 0..G {
            moments[g] = Moments { mean: means[g], scale: self.scale(s, s.sum(squares[g]), len) };
        }
        moments
    }

    /// Of `G` numbers of each unit, all together.
    #[inline(always)]
    pub fn joint<S: Simd, const G: usize>(&self, s: S, at: impl Fn(usize) -> [S::F32; G]) -> Moments<S> {
        let len = (G * self.units) as f32;
        let mean = s.splat(s.sum(folded(s, self.sums(s, &at))) / len);
        let squares = folded(s, self.squares(s, &at, [mean; G]));
        Moments { mean, scale: self.scale(s, s.sum(squares), len) }
    }

    /// Of one number of each unit.
    #[inline(always)]
    pub fn of<S: Simd>(&self, s: S, row: &[f32]) -> Moments<S> {
        let [moments] = self.each(s, |block| [s.load_part(&row[block * S::LANES..])]);
        moments
    }

    #[inline(always)]
    fn scale<S: Simd>(&self, s: S, squares: f32, len: f32) -> S::F32 {
        s.splat(1.0 / (squares / len + self.epsilon).sqrt())
    }

    #[inline(always)]
    fn sums<S: Simd, const G: usize>(&self, s: S, at: &impl Fn(usize) -> [S::F32; G]) -> [S::F32; G] {
        let mut sums = [s.splat(0.0); G];
        for block in 0..self.units.div_ceil(S::LANES) {
            let x = at(block);
            for g in 0..G {
                sums[g] = s.add(sums[g], x[g]);
            }
        }
        sums
    }

    /// Sums of (x - mean)², without the lanes that have no unit.
    #[inline(always)]
    fn squares<S: Simd, const G: usize>(
        &self,
        s: S,
        at: &impl Fn(usize) -> [S::F32; G],
        means: [S::F32; G],
    ) -> [S::F32; G] {
        let mut sums = [s.splat(0.0); G];
        let (whole, part) = (self.units / S::LANES, self.units % S::LANES);
        for block in 0..whole {
            let x = at(block);
            for g in 0..G {
                let from_mean = s.sub(x[g], means[g]);
                sums[g] = s.fma(from_mean, from_mean, sums[g]);
            }
        }
        if part > 0 {
            let (x, is_unit) = (at(whole), s.load_part(&[1.0; MOST_LANES][..part]));
            for g in 0..G {
                let from_mean = s.mul(s.sub(x[g], means[g]), is_unit);
                sums[g] = s.fma(from_mean, from_mean, sums[g]);
            }
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
        let [gain, bias] = [&self.gain, &self.bias].map(|of| s.load_part(&of.get()[block * S::LANES..]));
        s.fma(x, gain, bias)
    }
}
