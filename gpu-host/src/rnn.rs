//! What cuDNN can run: the settings of a stack of recurrent layers, checked once. What its parameters look like in
//! memory is in [`layout`](crate::layout).

use tidegate::activation::Activation;
use tidegate::cell::CellKind;
use tidegate::gate::{self, Gate};

/// Most features, units and layers: cuDNN counts in 32 bits, images in 16.
const MAX_SIZE: usize = 65_535;

/// cuDNN's four kinds of cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell {
    /// `CUDNN_LSTM`: without peepholes.
    Lstm,
    /// `CUDNN_GRU`: the reset gate comes after the recurrent product.
    Gru,
    /// `CUDNN_RNN_TANH`
    RnnTanh,
    /// `CUDNN_RNN_RELU`
    RnnRelu,
}

impl Cell {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Lstm, Self::Gru, Self::RnnTanh, Self::RnnRelu];

    /// The canonical cell that computes the same.
    pub const fn kind(self) -> CellKind {
        match self {
            Self::Lstm => CellKind::Lstm,
            Self::Gru => CellKind::Gru,
            Self::RnnTanh | Self::RnnRelu => CellKind::Elman,
        }
    }

    /// Its activation where the canonical cell has one to choose.
    pub const fn activation(self) -> Option<Activation> {
        match self {
            Self::Lstm | Self::Gru => None,
            Self::RnnTanh => Some(Activation::Tanh),
            Self::RnnRelu => Some(Activation::Relu),
        }
    }

    /// The gates in the order of cuDNN's `linLayerID`, which counts those of the input, then those of the recurrent
    /// side. Empty for a cell without gates, which has one matrix a side.
    ///
    /// (Keras 2 hands cuDNN its matrices as i f c o and r z h: `cudnn_recurrent.py`, `_process_batch`. PyTorch hands it
    /// its own, which are in the same orders: `aten/src/ATen/native/cudnn/RNN.cpp`.)
    pub const fn gates(self) -> &'static [Gate] {
        match self {
            Self::Lstm => &gate::LSTM,
            Self::Gru => &gate::GRU,
            Self::RnnTanh | Self::RnnRelu => &[],
        }
    }

    /// Matrices of one side: the gates, or one.
    pub const fn blocks(self) -> usize {
        let gates = self.gates().len();
        if gates == 0 { 1 } else { gates }
    }
}

/// How many passes over the sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// One, forward in time.
    Unidirectional,
    /// Two, whose outputs are one after the other.
    Bidirectional,
}

impl Direction {
    /// Passes: cuDNN calls each of them a pseudo-layer.
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
    /// Through weights.
    Linear,
    /// As it is, so it has as many features as there are units: the first layer has no input weights.
    Skip,
}

impl InputMode {
    /// What TensorFlow calls `auto_select`: as it is where the sizes are equal.
    pub const fn auto(input_size: usize, hidden_size: usize) -> Self {
        if input_size == hidden_size { Self::Skip } else { Self::Linear }
    }
}

/// Which biases there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bias {
    /// None.
    None,
    /// With the input weights.
    Input,
    /// With the recurrent weights. Only in a GRU's candidate is that another place.
    Recurrent,
    /// With both.
    Both,
}

/// How exact products are on a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Math {
    /// f32, in fused multiply-adds.
    #[default]
    F32,
    /// Tensor cores may round what they multiply to tf32.
    Tf32,
    /// Everything is kept in bf16, sums in f32.
    Bf16,
}

/// What a stack of layers is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Its cell.
    pub cell: Cell,
    /// Layers, one on the other.
    pub layers: usize,
    /// Features of the first layer's input.
    pub input_size: usize,
    /// Units of each layer in each direction.
    pub hidden_size: usize,
    /// Features of each output, where an LSTM projects them.
    pub projected_size: Option<usize>,
    /// Forward, or both ways.
    pub direction: Direction,
    /// How the first layer reads.
    pub input_mode: InputMode,
    /// Which biases.
    pub bias: Bias,
    /// An LSTM's cell states stay within plus and minus this; no gradient goes through what it cuts off.
    pub cell_clip: Option<f32>,
}

impl Settings {
    /// One layer, forward, that reads through weights and has both biases.
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

/// Why cuDNN has no such stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RnnError {
    /// A size is zero, or more than an image can have.
    #[error("its {what} is {found}, but must be 1 to {MAX_SIZE}")]
    Size {
        /// Which.
        what: &'static str,
        /// What it is.
        found: usize,
    },
    /// An input that is read as it is has another size than the layer.
    #[error("its input has {input_size} features, but an input that skips its weights must have {hidden_size}")]
    Skip {
        /// What there is.
        input_size: usize,
        /// What is needed.
        hidden_size: usize,
    },
    /// Only LSTMs have cell states.
    #[error("a cell_clip needs an LSTM and must be a number above 0")]
    Clip,
    /// Only LSTMs project.
    #[error("a projection needs an LSTM")]
    Projection,
    /// A projection makes less of an output, not more.
    #[error("its projection has {projected_size} features, but must have fewer than its {hidden_size} units")]
    Widening {
        /// What there is.
        projected_size: usize,
        /// What it is a projection of.
        hidden_size: usize,
    },
}

impl Rnn {
    /// Checks the settings.
    ///
    /// # Errors
    /// If cuDNN has no such layers, or no image could hold them.
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

    /// What it is made of.
    pub const fn settings(&self) -> &Settings {
        &self.0
    }

    /// Passes over the sequence, all layers together. Number `k` is layer `k / directions` and, of two directions,
    /// backward where `k` is odd.
    pub const fn pseudo_layers(&self) -> usize {
        self.0.layers * self.0.direction.count()
    }

    /// Features of one direction's output: what its recurrent weights read, too.
    pub fn output_size(&self) -> usize {
        self.0.projected_size.unwrap_or(self.0.hidden_size)
    }

    /// Features that a pseudo-layer reads.
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

    #[test]
    fn what_cudnn_lacks_is_refused() {
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
