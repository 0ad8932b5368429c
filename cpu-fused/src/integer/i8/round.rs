//! Requantization: sums are multiplied by a factor and a power of two of their row. Vector forms of
//! [`Multiplier`](tidegate::internals::fixed::Multiplier).

use tidegate::internals::{fixed::Multiplier, node::Node};

use super::super::curve::clamp;
use super::super::finish::Finish;
use super::super::panels::{Gate, NUMBERS, Panels, of_row};
use super::super::{Integers, Names};

/// The sums of a layer, rounded as TFLite does and clipped: once if `ONCE`, otherwise twice.
pub struct Rounded<const ONCE: bool> {
    least: i32,
    most: i32,
}

impl<const ONCE: bool> Rounded<ONCE> {
    /// The numbers of the `units` rows of a node: the initial value of a row's sum, then its [`Factors`]. `None` if a tensor
    /// is missing, or if a row that is rounded once is multiplied by a power of two above 1, for which the vector form has no
    /// room.
    pub fn rows(node: &Node<'_>, units: usize) -> Option<(Vec<[i32; NUMBERS]>, Self)> {
        let names = Names::of(node)?;
        let rows = node.rows(names.tensor("rows")?, units);
        let all = (0..units).map(|row| {
            let (start, factor, shift) = of_row(rows, row)?;
            let by = Factors::of(Multiplier { factor, shift: shift.cast_signed().into() });
            (!ONCE || by.lift == 1).then_some([start, by.lift, by.shift, by.factor])
        });
        let number = |name: &str| Some(node.number(names.number(name)?));
        Some((all.collect::<Option<_>>()?, Self { least: number("least")?, most: number("most")? }))
    }

    /// Packs a layer of `units` rows with `columns` columns each. `None` as for [`rows`](Self::rows).
    pub(in super::super) fn packed<S: Integers>(
        node: &Node<'_>,
        simd: S,
        units: usize,
        columns: usize,
    ) -> Option<(Panels, Self)> {
        let (rows, finish) = Self::rows(node, units)?;
        let gate = Gate::all::<1>(&["weights"], &["rows"]);
        let panels = Panels::packed(node, simd, &gate, units, ([columns, 0], false), |_, row, [excess, _]| {
            let &[start, lift, shift, factor] = rows.get(row)?;
            Some([start.wrapping_sub(excess), lift, shift, factor])
        })?;
        Some((panels, finish))
    }
}

impl<const ONCE: bool, S: Integers> Finish<S> for Rounded<ONCE> {
    #[inline(always)]
    fn finish(&self, simd: S, numbers: &[S::Lanes; NUMBERS], sum: S::Vector) -> S::Vector {
        let by =
            Factors { lift: simd.load(&numbers[1]), shift: simd.load(&numbers[2]), factor: simd.load(&numbers[3]) };
        let value = if ONCE { by.once(simd, sum) } else { by.twice(simd, sum) };
        // The limits may be in either order, and the greater one is applied last.
        simd.min(simd.max(value, simd.splat(self.least)), simd.splat(self.most))
    }
}

/// A multiplier as three numbers, or of a vector of rows as three vectors.
#[derive(Clone, Copy)]
pub(super) struct Factors<V> {
    /// The power of two if it is at least 1, otherwise 1.
    pub lift: V,
    /// The exponent of 1 / 2^shift if the power of two is below 1, otherwise 0.
    pub shift: V,
    /// The factor, with 31 fraction bits.
    pub factor: V,
}

impl Factors<i32> {
    pub fn of(by: Multiplier) -> Self {
        // Images hold exponents from -31 to 30.
        Self { lift: 1 << by.shift.clamp(0, 30), shift: by.shift.min(0).wrapping_neg() & 31, factor: by.factor }
    }

    /// The same multiplier for all rows.
    #[inline(always)]
    pub fn splat<S: Integers>(self, simd: S) -> Factors<S::Vector> {
        Factors { lift: simd.splat(self.lift), shift: simd.splat(self.shift), factor: simd.splat(self.factor) }
    }
}

impl<V: Copy> Factors<V> {
    /// [`Multiplier::once`] for powers of two up to 1.
    #[inline(always)]
    fn once<S: Integers<Vector = V>>(self, simd: S, x: V) -> V {
        let (high, low) = (simd.mulh(x, self.factor), simd.mul(x, self.factor));
        // Without the last 31 bits of the product, rounded down.
        let product = simd.add(simd.shl(high, 1), simd.and(simd.shr(low, 31), simd.splat(1)));
        self.divided(simd, product, rounded(simd, high, low))
    }

    /// [`Multiplier::of`].
    #[inline(always)]
    pub fn twice<S: Integers<Vector = V>>(self, simd: S, x: V) -> V {
        let x = simd.mul(x, self.lift);
        let product = rounded(simd, simd.mulh(x, self.factor), simd.mul(x, self.factor));
        // Halves are rounded away from zero.
        self.divided(simd, simd.add(product, simd.shr(product, 31)), product)
    }

    /// x / 2^shift, rounded to nearest, halves up; `whole` where the shift is 0.
    #[inline(always)]
    fn divided<S: Integers<Vector = V>>(self, simd: S, x: V, whole: V) -> V {
        let one = simd.splat(1);
        let less = simd.sub(self.shift, one);
        // All bits are set only where the shift is 0.
        let is_whole = simd.shr(less, 31);
        let divided = halved(simd, simd.shr_each(x, simd.max(less, simd.splat(0))));
        simd.add(divided, simd.and(simd.sub(whole, divided), is_whole))
    }
}

/// x / 2, rounded to nearest, halves up.
#[inline(always)]
pub(super) fn halved<S: Integers>(simd: S, x: S::Vector) -> S::Vector {
    simd.shr(simd.add(x, simd.splat(1)), 1)
}

/// A product of 64 bits without its last 31, rounded to nearest, halves up.
#[inline(always)]
fn rounded<S: Integers>(simd: S, high: S::Vector, low: S::Vector) -> S::Vector {
    let bits = simd.and(simd.shr(low, 30), simd.splat(3));
    simd.add(simd.shl(high, 1), halved(simd, bits))
}

/// Saturates to 16 bits.
#[inline(always)]
pub(super) fn saturated<S: Integers>(simd: S, x: S::Vector) -> S::Vector {
    clamp(simd, x, i16::MIN.into(), i16::MAX.into())
}
