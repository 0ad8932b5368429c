//! Positions of the parameters of a stack in cuDNN's weight space, in elements: either as
//! [described](Layout::described) here or as cuDNN [reports](Layout::reported) them. If cuDNN is loaded, its report is
//! used. [`weights`](crate::weights) moves parameters in and out.
//!
//! # The description
//!
//! All matrices come first, then all biases. Both are ordered by pseudo-layer: layer 0 forward, layer 0 backward, layer
//! 1 forward. The matrices of a pseudo-layer are those of its input side, those of its recurrent side and its
//! projection, each row-major. Its biases are those of its input side, then those of its recurrent side. There is no
//! padding.
//!
//! | `linLayerID` | LSTM | GRU | RNN | matrix | present |
//! |---|---|---|---|---|---|
//! | 0.. | i f g o | r z n | 0 | `[hidden, input]` | not in a first layer without input weights |
//! | then | i f g o | r z n | 1 | `[hidden, output]` | always |
//! | 8 | | | | `[output, hidden]`, no bias | LSTM with a projection |
//!
//! Other projects rely on the same order: PaddlePaddle passes stacks to cuDNN in it (`python/paddle/nn/layer/rnn.py`,
//! `flatten_parameters`), and Keras 2 single layers (`cudnn_recurrent.py`, `_canonical_to_params`). PyTorch asserts
//! that the gates of a side are adjacent, and asks for the projection by its `linLayerID`
//! (`aten/src/ATen/native/cudnn/RNN.cpp`).
//!
//! Only cuDNN itself confirms three facts: a projection follows the recurrent matrices of its pseudo-layer, a first
//! layer without input weights keeps its biases, and nothing is padded. cuDNN reports them even without a device; the
//! reports of two versions are in `layout/recorded.txt`, and a test compares them with the description. If a report
//! differs from the description at run time, the report is used. A report whose parts are not exactly those of the
//! stack is refused.

use crate::rnn::{Bias, Rnn};

#[cfg(test)]
pub(crate) mod record;

/// A matrix or bias, as cuDNN numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Layer and direction.
    pub pseudo_layer: usize,
    /// Side and gate, cuDNN's `linLayerID`.
    pub lin_layer_id: usize,
    /// Matrix or bias.
    pub kind: Kind,
}

/// Kind of a [`Part`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A matrix: cuDNN's `mDesc` and `mAddr`.
    Matrix,
    /// A bias: cuDNN's `bDesc` and `bAddr`.
    Bias,
}

/// Side of a cell that parameters belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Input side, applied to x.
    Input,
    /// Recurrent side, applied to h.
    Recurrent,
    /// Projection of the output.
    Projection,
}

/// Position of a part: element `[row, col]` is at `offset + row * row_stride + col * col_stride`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Number of elements before the part.
    pub offset: usize,
    /// Number of rows; the length of a bias.
    pub rows: usize,
    /// Number of columns; 1 for a bias.
    pub cols: usize,
    /// Distance from one row to the next, in elements.
    pub row_stride: usize,
    /// Distance from one column to the next, in elements.
    pub col_stride: usize,
}

impl Region {
    /// A row-major region without gaps.
    pub const fn packed(offset: usize, rows: usize, cols: usize) -> Self {
        Self { offset, rows, cols, row_stride: cols, col_stride: 1 }
    }

    /// Positions of all elements in row-major order.
    pub fn places(self) -> impl Iterator<Item = usize> {
        (0..self.rows)
            .flat_map(move |row| (0..self.cols).map(move |col| (row, col)))
            .map(move |(row, col)| self.offset + row * self.row_stride + col * self.col_stride)
    }

    /// Position after the last element, or `None` if it overflows.
    fn end(self) -> Option<usize> {
        let rows = self.rows.checked_sub(1)?.checked_mul(self.row_stride)?;
        let cols = self.cols.checked_sub(1)?.checked_mul(self.col_stride)?;
        self.offset.checked_add(rows)?.checked_add(cols)?.checked_add(1)
    }
}

/// Why a layout that cuDNN reports cannot be used. Elements count from the start of the weight space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the error texts explain the variants and their fields")]
pub enum LayoutError {
    #[error("{part:?} is missing from cuDNN's layout, or is not part of the stack")]
    Presence { part: Part },
    #[error("{part:?} has the shape {found:?} in cuDNN's layout, but must have {needed:?}")]
    Shape { part: Part, found: [usize; 2], needed: [usize; 2] },
    #[error("{part:?} extends beyond the {size} elements of the weight space")]
    Beyond { part: Part, size: usize },
    #[error("{part:?} overlaps another part at element {element}")]
    Overlap { part: Part, element: usize },
}

/// Positions of all parts. No two share an element, and all are within [`params_size`](Self::params_size).
#[derive(Clone, Debug, PartialEq)]
pub struct Layout {
    rnn: Rnn,
    size: usize,
    /// In the order of [`parts`].
    regions: Vec<Region>,
}

/// All parts of a stack with their shapes, in the described order.
pub fn parts(rnn: &Rnn) -> impl Iterator<Item = (Part, [usize; 2])> {
    let of = |kind| all(rnn, kind).filter_map(move |part| Some((part, shape(rnn, part)?)));
    of(Kind::Matrix).chain(of(Kind::Bias))
}

/// All pseudo-layers and `linLayerID`s that cuDNN can be asked for.
fn all(rnn: &Rnn, kind: Kind) -> impl Iterator<Item = Part> {
    let ids = lin_layers(rnn);
    (0..rnn.pseudo_layers())
        .flat_map(move |pseudo_layer| (0..ids).map(move |lin_layer_id| Part { pseudo_layer, lin_layer_id, kind }))
}

/// Number of `linLayerID`s: those of both sides, and one for a projection.
fn lin_layers(rnn: &Rnn) -> usize {
    2 * rnn.settings().cell.blocks() + usize::from(rnn.settings().projected_size.is_some())
}

/// The `linLayerID`s of a side.
pub fn lin_layer_ids(rnn: &Rnn, side: Side) -> std::ops::Range<usize> {
    let blocks = rnn.settings().cell.blocks();
    match side {
        Side::Input => 0..blocks,
        Side::Recurrent => blocks..2 * blocks,
        Side::Projection => 2 * blocks..lin_layers(rnn),
    }
}

/// Rows and columns of a part, or `None` if the stack lacks it.
fn shape(rnn: &Rnn, part: Part) -> Option<[usize; 2]> {
    let hidden = rnn.settings().hidden_size;
    let is = |side| lin_layer_ids(rnn, side).contains(&part.lin_layer_id);
    let bias = rnn.settings().bias;
    match part.kind {
        Kind::Matrix if is(Side::Input) => {
            rnn.has_input_weights(part.pseudo_layer).then(|| [hidden, rnn.input_size(part.pseudo_layer)])
        }
        Kind::Matrix if is(Side::Recurrent) => Some([hidden, rnn.output_size()]),
        Kind::Matrix => is(Side::Projection).then(|| [rnn.output_size(), hidden]),
        Kind::Bias if is(Side::Input) => matches!(bias, Bias::Input | Bias::Both).then_some([hidden, 1]),
        Kind::Bias if is(Side::Recurrent) => matches!(bias, Bias::Recurrent | Bias::Both).then_some([hidden, 1]),
        Kind::Bias => None,
    }
}

impl Layout {
    /// The layout described above. cuDNN may pad where this layout does not.
    pub fn described(rnn: &Rnn) -> Self {
        let mut size = 0;
        let mut place = |(_, [rows, cols]): (Part, [usize; 2])| {
            let region = Region::packed(size, rows, cols);
            size += rows * cols;
            region
        };
        let regions = parts(rnn).map(&mut place).collect();
        Self { rnn: *rnn, size, regions }
    }

    /// The layout that cuDNN reports for a weight space of `size` elements. `report` returns the position of a part, or
    /// `None` for a part that cuDNN does not have. It calls `cudnnGetRNNWeightParams`: the offset is the address minus
    /// that of the weight space, in elements, and the shape and strides are those of the tensor.
    ///
    /// # Errors
    /// If the parts are not those of the stack or overlap, and the errors of `report`.
    pub fn reported<E: From<LayoutError>>(
        rnn: &Rnn,
        size: usize,
        mut report: impl FnMut(Part) -> Result<Option<Region>, E>,
    ) -> Result<Self, E> {
        let mut regions = Vec::new();
        let mut taken = vec![false; size];
        for kind in [Kind::Matrix, Kind::Bias] {
            for part in all(rnn, kind) {
                let region = match (shape(rnn, part), report(part)?) {
                    (None, None) => continue,
                    (Some(_), None) | (None, Some(_)) => return Err(LayoutError::Presence { part }.into()),
                    (Some(needed), Some(region)) if [region.rows, region.cols] != needed => {
                        let found = [region.rows, region.cols];
                        return Err(LayoutError::Shape { part, found, needed }.into());
                    }
                    (Some(_), Some(region)) => region,
                };
                if region.end().is_none_or(|end| end > size) {
                    return Err(LayoutError::Beyond { part, size }.into());
                }
                for element in region.places() {
                    if std::mem::replace(&mut taken[element], true) {
                        return Err(LayoutError::Overlap { part, element }.into());
                    }
                }
                regions.push(region);
            }
        }
        Ok(Self { rnn: *rnn, size, regions })
    }

    /// Settings of the stack.
    pub const fn rnn(&self) -> &Rnn {
        &self.rnn
    }

    /// Number of elements of the weight space.
    pub const fn params_size(&self) -> usize {
        self.size
    }

    /// All parts with their positions.
    pub fn regions(&self) -> impl Iterator<Item = (Part, Region)> {
        parts(&self.rnn).zip(&self.regions).map(|((part, _), &region)| (part, region))
    }

    /// The blocks of a side, gate by gate. Empty if the pseudo-layer has none.
    pub fn side(&self, pseudo_layer: usize, side: Side, kind: Kind) -> Vec<Region> {
        let ids = lin_layer_ids(&self.rnn, side);
        let is =
            |part: &Part| part.pseudo_layer == pseudo_layer && part.kind == kind && ids.contains(&part.lin_layer_id);
        self.regions().filter(|(part, _)| is(part)).map(|(_, region)| region).collect()
    }
}
