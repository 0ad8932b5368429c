//! Settings of a stack of recurrent layers that cuDNN can run, checked once. [`layout`](crate::layout) describes its
//! parameters in memory.

use tidegate::internals::{
    activation::Activation,
    cell::CellKind,
    gate::{self, Gate},
};

/// Largest input size, hidden size and number of layers: cuDNN counts in 32 bits, images in 16.
const MAX_SIZE: usize = 65_535;

/// The four cells of cuDNN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell {
    /// `CUDNN_LSTM`, an LSTM without peepholes.
    Lstm,
    /// `CUDNN_GRU`, a GRU whose reset gate is applied after the recurrent product.
    Gru,
    /// `CUDNN_RNN_TANH`
    RnnTanh,
    /// `CUDNN_RNN_RELU`
    RnnRelu,
}

impl Cell {
    /// All cells.
    pub const ALL: [Self; 4] = [Self::Lstm, Self::Gru, Self::RnnTanh, Self::RnnRelu];

    /// The equivalent cell of Tidegate.
    pub const fn kind(self) -> CellKind {
        match self {
            Self::Lstm => CellKind::Lstm,
            Self::Gru => CellKind::Gru,
            Self::RnnTanh | Self::RnnRelu => CellKind::Elman,
        }
    }

    /// The activation, if Tidegate's cell has a choice.
    pub const fn activation(self) -> Option<Activation> {
        match self {
            Self::Lstm | Self::Gru => None,
            Self::RnnTanh => Some(Activation::Tanh),
            Self::RnnRelu => Some(Activation::Relu),
        }
    }

    /// The gates in the order of cuDNN's `linLayerID`, which counts the input side first and then the recurrent side.
    /// Empty for a cell without gates, which has one matrix per side.
    ///
    /// (Keras 2 passes its matrices to cuDNN as i f c o and r z h: `cudnn_recurrent.py`, `_process_batch`. PyTorch
    /// passes its own, which have the same orders: `aten/src/ATen/native/cudnn/RNN.cpp`.)
    pub const fn gates(self) -> &'static [Gate] {
        match self {
            Self::Lstm => &gate::LSTM,
            Self::Gru => &gate::GRU,
            Self::RnnTanh | Self::RnnRelu => &[],
        }
    }

    /// Number of matrices per side: the number of gates, or one.
    pub const fn blocks(self) -> usize {
        let gates = self.gates().len();
        if gates == 0 { 1 } else { gates }
    }
}

/// Directions in which a layer reads the sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Forward in time.
    Unidirectional,
    /// Forward and backward; the two outputs are concatenated.
    Bidirectional,
}

impl Direction {
    /// Number of directions. cuDNN calls each direction of a layer a pseudo-layer.
    pub const fn count(self) -> usize {
        match self {
            Self::Unidirectional => 1,
            Self::Bidirectional => 2,
        }
    }
}

/// How the first layer reads its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputMode {
    /// Through input weights.
    Linear,
    /// Directly: the first layer has no input weights, and the input size equals the hidden size.
    Skip,
}

/// The biases of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bias {
    /// No bias.
    None,
    /// A bias of the input side.
    Input,
    /// A bias of the recurrent side. It differs from one of the input side only in the candidate of a GRU.
    Recurrent,
    /// A bias of each side.
    Both,
}

/// Precision of matrix products on a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Math {
    /// f32, with fused multiply-adds.
    #[default]
    F32,
    /// Tensor cores may round the factors to tf32.
    Tf32,
    /// All values are bf16; sums are f32.
    Bf16,
}

impl Math {
    /// All precisions.
    pub const ALL: [Self; 3] = [Self::F32, Self::Tf32, Self::Bf16];

    /// Name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Tf32 => "tf32",
            Self::Bf16 => "bf16",
        }
    }
}

/// Settings of a stack of layers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Cell of every layer.
    pub cell: Cell,
    /// Number of layers.
    pub layers: usize,
    /// Input size of the first layer.
    pub input_size: usize,
    /// Hidden size of each layer and direction.
    pub hidden_size: usize,
    /// Output size of each layer and direction, for an LSTM with a projection.
    pub projected_size: Option<usize>,
    /// One or both directions.
    pub direction: Direction,
    /// How the first layer reads its input.
    pub input_mode: InputMode,
    /// The biases.
    pub bias: Bias,
    /// Limit of the absolute cell state of an LSTM. The gradient of a clipped state is zero.
    pub cell_clip: Option<f32>,
}

impl Settings {
    /// One unidirectional layer with input weights and both biases.
    pub const fn new(cell: Cell, input_size: usize, hidden_size: usize) -> Self {
        Self {
            cell,
            layers: 1,
            input_size,
            hidden_size,
            projected_size: None,
            direction: Direction::Unidirectional,
            input_mode: InputMode::Linear,
            bias: Bias::Both,
            cell_clip: None,
        }
    }
}

/// A stack of layers that cuDNN can run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rnn(Settings);

/// Why cuDNN cannot run a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the error texts explain the variants and their fields")]
pub enum RnnError {
    #[error("its {what} is {found}, but must be from 1 to {MAX_SIZE}")]
    Size { what: &'static str, found: usize },
    #[error("its input_size is {input_size}, but without input weights it must equal the hidden_size, {hidden_size}")]
    Skip { input_size: usize, hidden_size: usize },
    #[error("cell_clip requires an LSTM and a number above 0")]
    Clip,
    #[error("a projection requires an LSTM")]
    Projection,
    #[error("its projected_size is {projected_size}, but must be less than its hidden_size, {hidden_size}")]
    Widening { projected_size: usize, hidden_size: usize },
}

impl Rnn {
    /// Checks the settings.
    ///
    /// # Errors
    /// If cuDNN cannot run such layers or an image cannot hold them.
    pub fn new(settings: Settings) -> Result<Self, RnnError> {
        let Settings { cell, layers, input_size, hidden_size, projected_size, input_mode, cell_clip, .. } = settings;
        let sizes = [("number of layers", layers), ("input_size", input_size), ("hidden_size", hidden_size)];
        let projected = projected_size.map(|size| ("projected_size", size));
        for (what, found) in sizes.into_iter().chain(projected) {
            if !(1..=MAX_SIZE).contains(&found) {
                return Err(RnnError::Size { what, found });
            }
        }
        if input_mode == InputMode::Skip && input_size != hidden_size {
            return Err(RnnError::Skip { input_size, hidden_size });
        }
        if cell_clip.is_some_and(|clip| cell != Cell::Lstm || !(clip > 0.0 && clip.is_finite())) {
            return Err(RnnError::Clip);
        }
        if let Some(projected_size) = projected_size {
            if cell != Cell::Lstm {
                return Err(RnnError::Projection);
            }
            if projected_size >= hidden_size {
                return Err(RnnError::Widening { projected_size, hidden_size });
            }
        }
        Ok(Self(settings))
    }

    /// The settings.
    pub const fn settings(&self) -> &Settings {
        &self.0
    }

    /// Number of pseudo-layers, which are the directions of all layers. Pseudo-layer `k` belongs to layer `k /
    /// directions`; with two directions, odd ones run backward.
    pub const fn pseudo_layers(&self) -> usize {
        self.0.layers * self.0.direction.count()
    }

    /// Output size of one direction, which is also the number of columns of its recurrent weights.
    pub fn output_size(&self) -> usize {
        self.0.projected_size.unwrap_or(self.0.hidden_size)
    }

    /// Input size of a pseudo-layer.
    pub fn input_size(&self, pseudo_layer: usize) -> usize {
        let directions = self.0.direction.count();
        if pseudo_layer < directions { self.0.input_size } else { directions * self.output_size() }
    }

    /// Whether a pseudo-layer has input weights.
    pub fn has_input_weights(&self, pseudo_layer: usize) -> bool {
        self.0.input_mode == InputMode::Linear || pseudo_layer >= self.0.direction.count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: Settings = Settings {
        layers: 2,
        projected_size: Some(4),
        direction: Direction::Bidirectional,
        cell_clip: Some(0.5),
        ..Settings::new(Cell::Lstm, 3, 5)
    };

    #[test]
    fn later_layers_read_both_directions() {
        let rnn = Rnn::new(SETTINGS).unwrap();
        let sizes: Vec<usize> = (0..rnn.pseudo_layers()).map(|k| rnn.input_size(k)).collect();
        assert_eq!(sizes, [3, 3, 8, 8]);
    }

    /// A new cell of Tidegate is not trained until it is added to [`Cell`].
    #[test]
    fn lstm_gru_and_elman_cells_are_trained() {
        let trained = |kind: &CellKind| Cell::ALL.iter().any(|cell| cell.kind() == *kind);
        let found: Vec<CellKind> = CellKind::ALL.iter().copied().filter(trained).collect();
        assert_eq!(found, [CellKind::Elman, CellKind::Lstm, CellKind::Gru]);
    }

    #[test]
    fn settings_that_cudnn_lacks_are_refused() {
        let refused = |settings| Rnn::new(settings).unwrap_err();
        assert_eq!(refused(Settings { layers: 0, ..SETTINGS }), RnnError::Size { what: "number of layers", found: 0 });
        let found = MAX_SIZE + 1;
        assert_eq!(refused(Settings { input_size: found, ..SETTINGS }), RnnError::Size { what: "input_size", found });
        let skip = Settings { input_mode: InputMode::Skip, ..SETTINGS };
        assert_eq!(refused(skip), RnnError::Skip { input_size: 3, hidden_size: 5 });
        assert_eq!(refused(Settings { cell: Cell::Gru, cell_clip: None, ..SETTINGS }), RnnError::Projection);
        assert_eq!(refused(Settings { cell: Cell::Gru, projected_size: None, ..SETTINGS }), RnnError::Clip);
        for clip in [0.0, -1.0, f32::NAN, f32::INFINITY] {
            assert_eq!(refused(Settings { cell_clip: Some(clip), ..SETTINGS }), RnnError::Clip);
        }
        let wide = Settings { projected_size: Some(5), ..SETTINGS };
        assert_eq!(refused(wide), RnnError::Widening { projected_size: 5, hidden_size: 5 });
    }
}
