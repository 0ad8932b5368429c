//! Layout of the parameters of a stack in the weight space.

use tidegate_gpu::layout::{Layout, LayoutError};
use tidegate_gpu::rnn::Rnn;

use crate::asked;

/// Elements before, between and after parts in the layout `apart`.
const GAP: usize = 7;

/// Parameter layout of a stack: the described one, or, if the environment asks for it, the reverse with gaps. Then
/// biases precede matrices, and the last gate of a side precedes its first.
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
    Layout::reported(rnn, size, report).expect("every part is reported once, after the previous one")
}

/// Position of each parameter of the CPU's weight space in this layout.
pub fn places(layout: &Layout) -> Vec<usize> {
    let described = Layout::described(layout.rnn());
    let mut places = vec![0; described.params_size()];
    let each =
        described.regions().zip(layout.regions()).flat_map(|((_, to), (_, from))| to.places().zip(from.places()));
    each.for_each(|(to, from)| places[to] = from);
    places
}
