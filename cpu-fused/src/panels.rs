//! Weights in the order that the kernels read them.
//!
//! Rows are put into vectors, in an order that the cell chooses, and vectors into panels, of four or of as many as a block of
//! units has gates; a panel has, column by column, its vectors: `[panel][column][vector of the panel][lane]`. The last panel
//! may have fewer vectors.

use tidegate::Numeric;
use tidegate::node::Node;

use crate::lines::Lines;
use crate::simd::Simd;
use crate::weight::Weight;

/// Vectors of a panel, at most.
pub const WIDTH: usize = 4;
/// A matrix of a float image, row by row.
#[derive(Clone, Copy)]
pub struct Rows<'m> {
    bytes: &'m [u8],
    numeric: Numeric,
    cols: usize,
}

impl<'m> Rows<'m> {
    /// Matrix `index` of the node's spec, of so many columns.
    pub fn of(node: &Node<'m>, numeric: Numeric, index: usize, cols: usize) -> Self {
        Self { bytes: node.tensor(index), numeric, cols }
    }

    /// Columns.
    pub fn cols(self) -> usize {
        self.cols
    }

    /// One weight: rows lie in blocks of four, column by column.
    #[inline]
    pub fn at<W: Weight>(self, row: usize, col: usize) -> W {
        W::at(self.bytes, self.numeric, (row / 4 * self.cols + col) * 4 + row % 4)
    }
}

/// The place of a row: which matrix of several, and its row there.
pub type Place = Option<(usize, usize)>;

/// A matrix in panels.
#[derive(Debug)]
pub struct Panels<W = f32> {
    weights: Lines<W>,
    width: usize,
    vectors: usize,
    cols: usize,
    /// Panels.
    len: usize,
    /// Weights of a panel that is as wide as any.
    stride: usize,
}

impl<W: Weight> Panels<W> {
    /// `vectors` vectors of rows of `matrices`, which have the same columns, `width` to a panel; `place` says which row a
    /// vector has in a lane, none where zeros fill it up.
    pub fn new<S: Simd>(
        _: S,
        matrices: &[Rows<'_>],
        (width, vectors): (usize, usize),
        place: impl Fn(usize, usize) -> Place,
    ) -> Self {
        let cols = matrices.first().map_or(0, |matrix| matrix.cols());
        let mut weights = Lines::zeroed(vectors * cols * S::LANES);
        let mut to = weights.get_mut().iter_mut();
        let mut rows = Vec::with_capacity(width * S::LANES);
        for first in (0..vectors).step_by(width) {
            rows.clear();
            for vector in first..vectors.min(first + width) {
                rows.extend((0..S::LANES).map(|lane| place(vector, lane)));
            }
            for col in 0..cols {
                for (row, to) in rows.iter().zip(&mut to) {
                    if let &Some((matrix, row)) = row {
                        *to = matrices[matrix].at(row, col);
                    }
                }
            }
        }
        Self { weights, width, vectors, cols, len: vectors.div_ceil(width), stride: width * cols * S::LANES }
    }

    /// Vectors of rows.
    #[inline(always)]
    pub fn vectors(&self) -> usize {
        self.vectors
    }

    /// Columns.
    #[inline(always)]
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Panels.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The first vector of a panel.
    #[inline(always)]
    pub fn first(&self, panel: usize) -> usize {
        panel * self.width
    }

    /// Vectors of a panel.
    #[inline(always)]
    pub fn width(&self, panel: usize) -> usize {
        self.width.min(self.vectors - self.first(panel))
    }

    /// Column by column, the vectors of a panel that has `R`.
    #[inline(always)]
    pub fn panel<S: Simd, const R: usize>(&self, panel: usize) -> &[[W::Lanes<S>; R]] {
        let lanes: &[W::Lanes<S>] = bytemuck::cast_slice(&self.weights.get()[panel * self.stride..]);
        &lanes.as_chunks().0[..self.cols]
    }

    /// Column by column, all panels, where each has `R` vectors.
    #[inline(always)]
    pub fn all<S: Simd, const R: usize>(&self) -> &[[W::Lanes<S>; R]] {
        let lanes: &[W::Lanes<S>] = bytemuck::cast_slice(self.weights.get());
        lanes.as_chunks().0
    }
}

/// A number for each row, in the same order of vectors.
pub fn per_row<S: Simd>(_: S, vectors: usize, value: impl Fn(usize, usize) -> f32) -> Lines<f32> {
    let mut lines = Lines::zeroed(vectors * S::LANES);
    for (index, to) in lines.get_mut().iter_mut().enumerate() {
        *to = value(index / S::LANES, index % S::LANES);
    }
    lines
}

/// Which unit a lane of a block of units holds, of so many.
pub fn unit<S: Simd>(_: S, block: usize, lane: usize, units: usize) -> Option<usize> {
    Some(block * S::LANES + lane).filter(|&unit| unit < units)
}
