//! A kernel over an image `[height, width, channels]`, row-major: the pixels under the kernel at each position.

use super::Cell;

/// One axis of the positions of a kernel.
pub(super) struct Axis {
    input: usize,
    kernel: usize,
    stride: usize,
    dilation: usize,
    before: usize,
    output: usize,
}

impl Axis {
    pub(super) fn new(cell: &Cell<'_>, length: &str, before: &str, after: &str) -> Self {
        let of = |what: &str| cell.extent(&format!("{what}_{length}"));
        let (input, kernel, stride, dilation) = (of("in"), of("kernel"), of("stride"), of("dilation"));
        let (before, output) = (cell.extent(before), of("out"));
        let reach = dilation * (kernel - 1) + 1;
        let fits = (before + input + cell.extent(after) - reach) / stride + 1;
        assert_eq!(output, fits, "positions of the kernel along the {length}");
        Self { input, kernel, stride, dilation, before, output }
    }

    /// The coordinate under a tap, or `None` outside the image.
    pub(super) fn at(&self, position: usize, tap: usize) -> Option<usize> {
        (position * self.stride + tap * self.dilation).checked_sub(self.before)
    }

    /// The taps inside the image and their coordinates.
    fn seen(&self, position: usize) -> impl Iterator<Item = (usize, usize)> + Clone + '_ {
        let inside = move |&at: &usize| at < self.input;
        (0..self.kernel).filter_map(move |tap| self.at(position, tap).filter(inside).map(|at| (tap, at)))
    }
}

/// The positions of a kernel over an image.
pub struct Image {
    rows: Axis,
    cols: Axis,
    /// Channels of the image.
    pub channels: usize,
}

impl Image {
    /// Reads the positions from the extents of a node.
    pub fn new(cell: &Cell<'_>) -> Self {
        let image = Self {
            rows: Axis::new(cell, "height", "pad_top", "pad_bottom"),
            cols: Axis::new(cell, "width", "pad_left", "pad_right"),
            channels: cell.extent("in_channels"),
        };
        assert_eq!(image.rows.input * image.cols.input * image.channels, cell.input_size(), "the size of the image");
        image
    }

    /// Number of taps of the kernel.
    pub fn taps(&self) -> usize {
        self.rows.kernel * self.cols.kernel
    }

    /// For every position of the kernel, row by row: the taps inside the image, each with the index of the first
    /// channel of its pixel.
    pub fn positions(&self) -> Vec<Vec<(usize, usize)>> {
        let position = |row: usize, col: usize| {
            let taps = self.rows.seen(row).flat_map(|y| self.cols.seen(col).map(move |x| (y, x)));
            taps.map(|((tap_y, y), (tap_x, x))| {
                (tap_y * self.cols.kernel + tap_x, (y * self.cols.input + x) * self.channels)
            })
            .collect()
        };
        (0..self.rows.output).flat_map(|row| (0..self.cols.output).map(move |col| position(row, col))).collect()
    }
}
