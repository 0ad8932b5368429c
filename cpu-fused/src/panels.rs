//! Weights in the order in which the float kernels read them.
//!
//! Rows form vectors, in an order that the cell chooses. Vectors form panels: `[panel][column][vector of the
//! panel][lane]`. A panel has four vectors, or one vector for each gate of a block of units; the last panel may have
//! fewer.

use tidegate::Numeric;
use tidegate::internals::node::Node;

use crate::lines::Lines;
use crate::simd::Simd;
use crate::weight::Weight;

/// Largest number of vectors in a panel.
pub const WIDTH: usize = 4;

/// A matrix of a float image, addressed by row and column.
#[derive(Clone, Copy)]
pub struct Rows<'m> {
    bytes: &'m [u8],
    numeric: Numeric,
    cols: usize,
}

impl<'m> Rows<'m> {
    /// Tensor `index` of the node's spec, as a matrix of `cols` columns.
    pub fn of(node: &Node<'m>, numeric: Numeric, index: usize, cols: usize) -> Self {
        Self { bytes: node.tensor(index), numeric, cols }
    }

    /// Number of columns.
    pub fn cols(self) -> usize {
        self.cols
    }

    /// One weight. Images store blocks of four rows, column by column.
    #[inline]
    pub fn at<W: Weight>(self, row: usize, col: usize) -> W {
        W::at(self.bytes, self.numeric, (row / 4 * self.cols + col) * 4 + row % 4)
    }
}

/// Index of a matrix and of a row in it; `None` for padding.
pub type Place = Option<(usize, usize)>;

/// A matrix in panels.
#[derive(Debug)]
pub struct Panels<W = f32> {
    weights: Lines<W>,
    width: usize,
    vectors: usize,
    cols: usize,
    /// Number of panels.
    len: usize,
    /// Weights of a full panel.
    stride: usize,
}

impl<W: Weight> Panels<W> {
    /// Packs rows of `matrices`, which have the same number of columns, into `vectors` vectors of `lanes` lanes,
    /// `width` to a panel. `place(vector, lane)` chooses the row of a lane.
    pub fn new(
        lanes: usize,
        matrices: &[Rows<'_>],
        (width, vectors): (usize, usize),
        place: &dyn Fn(usize, usize) -> Place,
    ) -> Self {
        let cols = matrices.first().map_or(0, |matrix| matrix.cols());
        let mut weights = Lines::zeroed(vectors * cols * lanes);
        let mut to = weights.get_mut().iter_mut();
        let mut rows = Vec::with_capacity(width * lanes);
        for first in (0..vectors).step_by(width) {
            rows.clear();
            for vector in first..vectors.min(first + width) {
                rows.extend((0..lanes).map(|lane| place(vector, lane)));
            }
            for col in 0..cols {
                for (row, to) in rows.iter().zip(&mut to) {
                    if let &Some((matrix, row)) = row {
                        *to = matrices[matrix].at(row, col);
                    }
                }
            }
        }
        Self { weights, width, vectors, cols, len: vectors.div_ceil(width), stride: width * cols * lanes }
    }

    /// Packs a matrix of `rows` rows in their own order, [`WIDTH`] vectors to a panel.
    pub fn in_order(lanes: usize, matrix: Rows<'_>, rows: usize) -> Self {
        let place = |vector, lane| unit(lanes, vector, lane, rows).map(|row| (0, row));
        Self::new(lanes, &[matrix], (WIDTH, rows.div_ceil(lanes)), &place)
    }

    /// Number of vectors of rows.
    #[inline(always)]
    pub fn vectors(&self) -> usize {
        self.vectors
    }

    /// Number of columns.
    #[inline(always)]
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Number of panels.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Index of the first vector of a panel.
    #[inline(always)]
    pub fn first(&self, panel: usize) -> usize {
        panel * self.width
    }

    /// Number of vectors in a panel.
    #[inline(always)]
    pub fn width(&self, panel: usize) -> usize {
        self.width.min(self.vectors - self.first(panel))
    }

    /// The columns of a panel of `R` vectors.
    #[inline(always)]
    pub fn panel<S: Simd, const R: usize>(&self, panel: usize) -> &[[W::Lanes<S>; R]] {
        let lanes: &[W::Lanes<S>] = bytemuck::cast_slice(&self.weights.get()[panel * self.stride..]);
        &lanes.as_chunks().0[..self.cols]
    }

    /// The columns of all panels, each of `R` vectors.
    #[inline(always)]
    pub fn all<S: Simd, const R: usize>(&self) -> &[[W::Lanes<S>; R]] {
        let lanes: &[W::Lanes<S>] = bytemuck::cast_slice(self.weights.get());
        lanes.as_chunks().0
    }
}

/// One number for each lane of `vectors` vectors.
pub fn per_row(lanes: usize, vectors: usize, value: &dyn Fn(usize, usize) -> f32) -> Lines<f32> {
    let mut lines = Lines::zeroed(vectors * lanes);
    for (index, to) in lines.get_mut().iter_mut().enumerate() {
        *to = value(index / lanes, index % lanes);
    }
    lines
}

/// The elements of a tensor, one for each of `units` units in their own order, padded with zeros. Missing elements are
/// zeros too.
pub fn per_unit(lanes: usize, units: usize, elements: &[f32]) -> Lines<f32> {
    per_row(lanes, units.div_ceil(lanes), &|block, lane| {
        unit(lanes, block, lane, units).and_then(|unit| elements.get(unit).copied()).unwrap_or(0.0)
    })
}

/// The unit in a lane of a block of `lanes` units; `None` beyond the last of `units`.
pub fn unit(lanes: usize, block: usize, lane: usize, units: usize) -> Option<usize> {
    Some(block * lanes + lane).filter(|&unit| unit < units)
}
