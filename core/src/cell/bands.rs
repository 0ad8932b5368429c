//! Bands of features, along the frequency of a spectrum, that a cell goes through one after the other within a step:
//! what [`grid_lstm`](super::grid_lstm) and [`time_freq_lstm`](super::time_freq_lstm) share.
//!
//! ```text
//! band k = the features from  first + k · band_hop - pad_before  on,  band_size of them,  k = 0 ... bands - 1
//! ```
//!
//! What lies in front of the first feature and behind the last counts as 0; the bands may reach `pad_before` and
//! `pad_after` features beyond.

use super::{Dim, ExtentSpec, Rule};
use crate::kernel::{Weight, accumulate};
use crate::node::Node;

/// Extents of the specs by name.
mod extent {
    pub const BANDS: usize = 0;
    pub const BAND_SIZE: usize = 1;
    pub const BAND_HOP: usize = 2;
    pub const FIRST: usize = 3;
    pub const PAD_BEFORE: usize = 4;
    pub const PAD_AFTER: usize = 5;
}

/// The extents of a cell that goes through bands.
pub const EXTENTS: [ExtentSpec; 6] = [
    ExtentSpec::one("bands"),
    ExtentSpec::one("band_size"),
    ExtentSpec::one("band_hop"),
    ExtentSpec::zero("first"),
    ExtentSpec::zero("pad_before"),
    ExtentSpec::zero("pad_after"),
];

/// How many.
pub const BANDS: Dim = Dim::Extent(extent::BANDS);
/// Features of one.
pub const BAND_SIZE: Dim = Dim::Extent(extent::BAND_SIZE);
/// The units of each.
pub const UNITS: Dim = Dim::Product(&[BANDS, Dim::Hidden]);

/// The last band ends within the padded features.
pub const WITHIN: Rule = Rule::AtMost(
    Dim::Sum(&[Dim::Extent(extent::FIRST), BAND_SIZE, Dim::Product(&[BANDS, Dim::Extent(extent::BAND_HOP)])]),
    Dim::Sum(&[
        Dim::Extent(extent::PAD_BEFORE),
        Dim::Input,
        Dim::Extent(extent::PAD_AFTER),
        Dim::Extent(extent::BAND_HOP),
    ]),
);

/// What lies in a band.
#[derive(Clone, Copy)]
pub(super) struct Band<'x> {
    /// Zeros in front of the first feature.
    padding: usize,
    /// Those that are features.
    features: &'x [f32],
}

/// The bands of `x` in the order in which the cell goes through them: the first first, or backwards.
pub(super) fn bands<'x>(node: &Node<'_>, x: &'x [f32], backwards: bool) -> impl Iterator<Item = Band<'x>> {
    let (bands, size, hop) =
        (node.extent(extent::BANDS), node.extent(extent::BAND_SIZE), node.extent(extent::BAND_HOP));
    let (first, before) = (node.extent(extent::FIRST), node.extent(extent::PAD_BEFORE));
    (0..bands).map(move |k| {
        let start = first + hop * if backwards { bands - 1 - k } else { k };
        let padding = before.saturating_sub(start).min(size);
        let from = start.saturating_sub(before);
        let to = x.len().min(from + (size - padding));
        Band { padding, features: x.get(from..to).unwrap_or_default() }
    })
}

/// What the weights of a band are multiplied with.
#[derive(Clone, Copy)]
pub(super) struct Operand<'x> {
    pub band: Band<'x>,
    /// What the same band gave one step before.
    pub time: &'x [f32],
    /// What the band before it gave in this step; nothing for the first band.
    pub frequency: &'x [f32],
}

impl Operand<'_> {
    /// `b + W x + R [time, frequency]` of a block of four rows.
    pub fn sums<W: Weight>(self, b: [f32; 4], w: &[[W; 4]], r: &[[W; 4]]) -> [f32; 4] {
        let from_input = accumulate(b, w.get(self.band.padding..).unwrap_or_default(), self.band.features);
        let (time, frequency) = r.split_at_checked(self.time.len()).unwrap_or_default();
        accumulate(accumulate(from_input, time, self.time), frequency, self.frequency)
    }
}
