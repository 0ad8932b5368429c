//! The weight space of a stack, and how its numbers go to the CPU path and back.

use tidegate_gpu::layout::{Layout, LayoutError, Region};
use tidegate_gpu::rnn::Rnn;

use crate::asked;

/// Elements in front of, between and behind parts that lie apart.
const GAP: usize = 7;

/// Where a stack has its parameters: as described, or, where that is asked for, all of it the other way round with gaps, so that
/// biases come before matrices and a side's last gate before its first.
pub fn layout(rnn: &Rnn) -> Layout {
    let described = Layout::described(rnn);
    if !asked("TIDEGATE_STAND_IN_LAYOUT", "apart") {
        return described;
    }
    let mut parts: Vec<_> = described.regions().collect();
    let mut size = GAP;
    for (_, region) in parts.iter_mut().rev() {
        region.offset = size;
        size += region.rows * region.cols + GAP;
    }
    let report = |part| Ok::<_, LayoutError>(parts.iter().find(|(of, _)| *of == part).map(|(_, region)| *region));
    Layout::reported(rnn, size, report).expect("every part is there once, behind the one before")
}

/// Where each number of the CPU path's weight space is in this one.
pub fn places(layout: &Layout) -> Vec<usize> {
    let described = Layout::described(layout.rnn());
    let mut places = vec![0; described.params_size()];
    let each =
        described.regions().zip(layout.regions()).flat_map(|((_, to), (_, from))| to.places().zip(from.places()));
    each.for_each(|(to, from)| places[to] = from);
    places
}

/// A part's dimensions and strides, as `cudnnGetRNNWeightParams` gives them.
pub const fn tensor(region: Region) -> [[usize; 3]; 2] {
    let Region { rows, cols, row_stride, col_stride, .. } = region;
    [[1, rows, cols], [rows * row_stride, row_stride, col_stride]]
}
