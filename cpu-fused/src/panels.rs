//! Weights in the order that the kernels read them.
//!
//! Rows are put into vectors, in an order that the cell chooses, and vectors into panels of four; a panel has, column by
//! column, its vectors: `[panel][column][vector of the panel][lane]`. The last panel may have fewer vectors.

use half::f16;
use tidegate::Numeric;
use tidegate::node::Node;

use crate::lines::Lines;
use crate::simd::Simd;

/// Vectors of a panel.
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
    pub fn at(self, row: usize, col: usize) -> f32 {
        let index = (row / 4 * self.cols + col) * 4 + row % 4;
        match self.numeric {
            Numeric::F16 => {
                let bytes = self.bytes.get(2 * index..).and_then(|bytes| bytes.first_chunk());
                bytes.map_or(0.0, |bytes| f16::from_le_bytes(*bytes).to_f32())
            }
            _ => {
                let bytes = self.bytes.get(4 * index..).and_then(|bytes| bytes.first_chunk());
                bytes.map_or(0.0, |bytes| f32::from_le_bytes(*bytes))
            }
        }
    }
}

/// The place of a row: which matrix of several, and its row there.
pub type Place = Option<(usize, usize)>;

/// A matrix in panels.
#[derive(Debug)]
pub struct Panels {
    weights: Lines<f32>,
    vectors: usize,
    cols: usize,
}

impl Panels {
    /// `vectors` vectors of rows of `matrices`, which have the same columns; `place` says which row a vector has in a lane,
    /// none where zeros fill it up.
    pub fn new<S: Simd>(_: S, matrices: &[Rows<'_>], vectors: usize, place: impl Fn(usize, usize) -> Place) -> Self {
        let cols = matrices.first().map_or(0, |matrix| matrix.cols());
        let mut weights = Lines::zeroed(vectors * cols * S::LANES);
        for vector in 0..vectors {
            let (panel, within) = (vector / WIDTH, vector % WIDTH);
            let width = WIDTH.min(vectors - panel * WIDTH);
            let start = (panel * WIDTH * cols + within) * S::LANES;
            for lane in 0..S::LANES {
                let Some((matrix, row)) = place(vector, lane) else { continue };
                let to = weights.get_mut()[start + lane..].iter_mut().step_by(width * S::LANES);
                for (col, to) in to.enumerate().take(cols) {
                    *to = matrices[matrix].at(row, col);
                }
            }
        }
        Self { weights, vectors, cols }
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
        self.vectors.div_ceil(WIDTH)
    }

    /// Vectors of a panel.
    #[inline(always)]
    pub fn width(&self, panel: usize) -> usize {
        WIDTH.min(self.vectors - panel * WIDTH)
    }

    /// Column by column, the vectors of a panel that has `R`.
    #[inline(always)]
    pub fn panel<S: Simd, const R: usize>(&self, panel: usize) -> &[[S::Lanes; R]] {
        let start = panel * WIDTH * self.cols * S::LANES;
        let lanes: &[S::Lanes] = bytemuck::cast_slice(&self.weights.get()[start..start + self.cols * R * S::LANES]);
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
