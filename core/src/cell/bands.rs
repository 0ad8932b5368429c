//! Overlapping bands of features along the frequency axis, which a cell processes one after the other within a step;
//! shared by [`grid_lstm`](super::grid_lstm) and [`time_freq_lstm`](super::time_freq_lstm).
//!
//! ```text
//! band k = the features from  first + k · band_hop - pad_before  on,  band_size of them,  k = 0 ... bands - 1
//! ```
//!
//! Features before the first and after the last are 0; the bands may extend `pad_before` and `pad_after` features
//! beyond the spectrum.

use super::prelude::*;

mod extent {
    use super::{EXTENTS, extent};

    pub const BANDS: usize = extent(&EXTENTS, "bands");
    pub const BAND_SIZE: usize = extent(&EXTENTS, "band_size");
    pub const BAND_HOP: usize = extent(&EXTENTS, "band_hop");
    pub const FIRST: usize = extent(&EXTENTS, "first");
    pub const PAD_BEFORE: usize = extent(&EXTENTS, "pad_before");
    pub const PAD_AFTER: usize = extent(&EXTENTS, "pad_after");
}

/// The extents of a cell that processes bands.
pub const EXTENTS: [ExtentSpec; 6] = [
    ExtentSpec::one("bands"),
    ExtentSpec::one("band_size"),
    ExtentSpec::one("band_hop"),
    ExtentSpec::zero("first"),
    ExtentSpec::zero("pad_before"),
    ExtentSpec::zero("pad_after"),
];

/// Number of bands.
pub const BANDS: Dim = Dim::Extent(extent::BANDS);
/// Features of a band.
pub const BAND_SIZE: Dim = Dim::Extent(extent::BAND_SIZE);
/// Units of all bands.
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

/// The features of a band.
#[derive(Clone, Copy)]
pub(super) struct Band<'x> {
    /// Number of zeros before the first feature.
    padding: usize,
    /// The features of the input within the band.
    features: &'x [f32],
}

/// The bands of `x` in the order in which the cell processes them: from the first to the last, or backwards.
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

/// The operands of the weights for one band.
#[derive(Clone, Copy)]
pub(super) struct Operand<'x> {
    pub band: Band<'x>,
    /// The output of the same band one step before.
    pub time: &'x [f32],
    /// The output of the previous band in this step; empty for the first band.
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
