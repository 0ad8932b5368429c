//! Where the parameters of a stack of layers lie in cuDNN's weight space, in elements: as [described](Layout::described)
//! here, or as a cuDNN [reports](Layout::reported) it, whose word counts where there is one. What lies there is in
//! [`weights`](crate::weights).
//!
//! # The description
//!
//! All matrices come first, then all biases, both pseudo-layer by pseudo-layer: layer 0 forward, layer 0 backward,
//! layer 1 forward. A pseudo-layer has the matrices of its input side, those of its recurrent side and its
//! projection, each row-major; then, among the biases, those of its input side and of its recurrent side. Nothing is
//! between them.
//!
//! | `linLayerID` | LSTM | GRU | RNN | matrix | there |
//! |---|---|---|---|---|---|
//! | 0.. | i f g o | r z n | 0 | `[hidden, input]` | not in the first layer where the input skips it |
//! | then | i f g o | r z n | 1 | `[hidden, output]` | always |
//! | 8 | | | | `[output, hidden]`, no bias | LSTM with a projection |
//!
//! Others rely on the same: PaddlePaddle hands stacks to cuDNN in this order (`python/paddle/nn/layer/rnn.py`,
//! `flatten_parameters`), Keras 2 single layers (`cudnn_recurrent.py`, `_canonical_to_params`); PyTorch asserts that the
//! gates of a side are adjacent, and asks for the projection by its `linLayerID` (`aten/src/ATen/native/cudnn/RNN.cpp`).
//! No source says that a projection is right behind the recurrent matrices of its pseudo-layer, that a skipped input keeps its
//! biases, and that nothing is padded: cuDNN 9.28 says so itself, which tells its layout without a device too (a test in
//! `sys.rs`, where `TIDEGATE_CUDNN` names the library). Where a cuDNN differs, its report counts; where it has parts
//! that a stack here has not, or lacks some, it is refused.

use crate::rnn::{Bias, Rnn};

/// One matrix or bias, as cuDNN counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Layer and direction.
    pub pseudo_layer: usize,
    /// Side and gate.
    pub lin_layer_id: usize,
    /// What it is.
    pub kind: Kind,
}

/// What a [`Part`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `mDesc`, `mAddr`
    Matrix,
    /// `bDesc`, `bAddr`
    Bias,
}

/// Whose parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Of x.
    Input,
    /// Of h.
    Recurrent,
    /// Of the output.
    Projection,
}

/// Where a part lies: element `[row, col]` at `offset + row * row_stride + col * col_stride`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Elements before it.
    pub offset: usize,
    /// Rows; of a bias its values.
    pub rows: usize,
    /// Columns; of a bias 1.
    pub cols: usize,
    /// Elements from a row to the next.
    pub row_stride: usize,
    /// Elements from a column to the next.
    pub col_stride: usize,
}

impl Region {
    /// Rows one after the other.
    pub const fn packed(offset: usize, rows: usize, cols: usize) -> Self {
        Self { offset, rows, cols, row_stride: cols, col_stride: 1 }
    }

    /// Where its elements are, in the order of rows.
    pub fn places(self) -> impl Iterator<Item = usize> {
        (0..self.rows)
            .flat_map(move |row| (0..self.cols).map(move |col| (row, col)))
            .map(move |(row, col)| self.offset + row * self.row_stride + col * self.col_stride)
    }

    /// One beyond its last element; `None` beyond what can be counted.
    fn end(self) -> Option<usize> {
        let rows = self.rows.checked_sub(1)?.checked_mul(self.row_stride)?;
        let cols = self.cols.checked_sub(1)?.checked_mul(self.col_stride)?;
        self.offset.checked_add(rows)?.checked_add(cols)?.checked_add(1)
    }
}

/// Why what a cuDNN reports cannot be used. Elements count from the beginning of the weight space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// A part that must be there is not, or the reverse.
    #[error("{part:?} is reported where there is none, or not where there is one")]
    Presence {
        /// Which.
        part: Part,
    },
    /// It has another shape.
    #[error("{part:?} is reported as {found:?}, but must be {needed:?}")]
    Shape {
        /// Which.
        part: Part,
        /// As reported.
        found: [usize; 2],
        /// As the settings have it.
        needed: [usize; 2],
    },
    /// It ends behind the weight space.
    #[error("{part:?} ends behind the {size} elements of the weight space")]
    Beyond {
        /// Which.
        part: Part,
        /// Elements of the weight space.
        size: usize,
    },
    /// An element of it belongs to another part as well.
    #[error("{part:?} lies where another part does, at element {element}")]
    Overlap {
        /// Which.
        part: Part,
        /// Where.
        element: usize,
    },
}

/// Where everything lies. No two parts share an element, and all are within [`params_size`](Self::params_size).
#[derive(Clone, Debug, PartialEq)]
pub struct Layout {
    rnn: Rnn,
    size: usize,
    /// In the order of [`parts`].
    regions: Vec<Region>,
}

/// Every part that a stack has, matrices first, in the order of the description above, with its shape.
pub fn parts(rnn: &Rnn) -> impl Iterator<Item = (Part, [usize; 2])> {
    let of = |kind| all(rnn, kind).filter_map(move |part| Some((part, shape(rnn, part)?)));
    of(Kind::Matrix).chain(of(Kind::Bias))
}

/// Every pseudo-layer and `linLayerID` that cuDNN can be asked for.
fn all(rnn: &Rnn, kind: Kind) -> impl Iterator<Item = Part> {
    let ids = lin_layers(rnn);
    (0..rnn.pseudo_layers())
        .flat_map(move |pseudo_layer| (0..ids).map(move |lin_layer_id| Part { pseudo_layer, lin_layer_id, kind }))
}

/// Both sides and a projection.
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

/// Rows and columns of a part; `None` where the stack does not have it.
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
    /// As the description above has it. A cuDNN may pad.
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

    /// As a cuDNN reports it, of a weight space of `size` elements. `report` says where a part lies (what
    /// `cudnnGetRNNWeightParams` gives: the address less that of the weight space, in elements, and the tensor's
    /// dimensions and strides), or that it has none.
    ///
    /// # Errors
    /// If it is not what the stack has, or parts overlap; and the errors of `report`.
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

    /// The stack.
    pub const fn rnn(&self) -> &Rnn {
        &self.rnn
    }

    /// Elements of the weight space.
    pub const fn params_size(&self) -> usize {
        self.size
    }

    /// Every part and where it lies.
    pub fn regions(&self) -> impl Iterator<Item = (Part, Region)> {
        parts(&self.rnn).zip(&self.regions).map(|((part, _), &region)| (part, region))
    }

    /// The blocks of a side, gate by gate; none where the pseudo-layer does not have them.
    pub fn side(&self, pseudo_layer: usize, side: Side, kind: Kind) -> Vec<Region> {
        let ids = lin_layer_ids(&self.rnn, side);
        let is =
            |part: &Part| part.pseudo_layer == pseudo_layer && part.kind == kind && ids.contains(&part.lin_layer_id);
        self.regions().filter(|(part, _)| is(part)).map(|(_, region)| region).collect()
    }
}
