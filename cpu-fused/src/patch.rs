//! Geometry of convolutions over images, shared by the float and the integer kernels.

use tidegate::internals::node::Node;

/// Geometry of a convolution along one side of an image.
#[derive(Clone, Copy)]
struct Axis {
    input: usize,
    kernel: usize,
    stride: usize,
    dilation: usize,
    before: usize,
    output: usize,
}

impl Axis {
    fn of(node: &Node<'_>, side: &str, before: &str) -> Self {
        let extent = |name: &str| {
            let index = node.spec().extents.iter().position(|extent| extent.name == name);
            index.map_or(0, |index| node.extent(index))
        };
        let sided = |what: &str| extent(&format!("{what}_{side}"));
        Self {
            input: sided("in"),
            kernel: sided("kernel"),
            stride: sided("stride"),
            dilation: sided("dilation"),
            before: extent(before),
            output: sided("out"),
        }
    }

    /// Input index of a tap at an output position; `None` in the padding.
    #[inline(always)]
    fn seen(self, position: usize, tap: usize) -> Option<usize> {
        let at = (position * self.stride + tap * self.dilation).checked_sub(self.before)?;
        (at < self.input).then_some(at)
    }
}

/// Geometry of a convolution over an image.
#[derive(Clone, Copy)]
pub struct Path {
    rows: Axis,
    cols: Axis,
    pub channels: usize,
}

impl Path {
    /// Reads the geometry of a convolution node.
    pub fn of(node: &Node<'_>) -> Self {
        let (rows, cols) = (Axis::of(node, "height", "pad_top"), Axis::of(node, "width", "pad_left"));
        Self { rows, cols, channels: node.input_size / (rows.input * cols.input) }
    }

    /// Number of output positions.
    pub fn positions(self) -> usize {
        self.rows.output * self.cols.output
    }

    /// Number of taps.
    pub fn taps(self) -> usize {
        self.rows.kernel * self.cols.kernel
    }

    /// Elements of the patch at a position.
    pub fn patch_len(self) -> usize {
        self.taps() * self.channels
    }

    /// Channels of the pixel under a tap at a position; `None` in the padding.
    #[inline(always)]
    pub fn pixel<E>(self, x: &[E], position: usize, tap: usize) -> Option<&[E]> {
        let row = self.rows.seen(position / self.cols.output, tap / self.cols.kernel)?;
        let col = self.cols.seen(position % self.cols.output, tap % self.cols.kernel)?;
        let start = (row * self.cols.input + col) * self.channels;
        Some(&x[start..start + self.channels])
    }

    /// Copies the patch at a position to `to`, `[taps][channels]`.
    #[inline(always)]
    pub fn patch<E: Copy + Default>(self, x: &[E], position: usize, to: &mut [E]) {
        for (tap, to) in to.chunks_exact_mut(self.channels).enumerate() {
            match self.pixel(x, position, tap) {
                Some(pixel) => to.copy_from_slice(pixel),
                None => to.fill(E::default()),
            }
        }
    }
}

/// Whether every filter of a convolution covers all channels.
pub fn has_one_group(node: &Node<'_>) -> bool {
    let groups = node.spec().extents.iter().position(|extent| extent.name == "groups");
    groups.is_some_and(|groups| node.extent(groups) == 1)
}
