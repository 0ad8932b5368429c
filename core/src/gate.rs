//! Gate orders. No other file knows them.
//!
//! The canonical order (canonical models, images, kernels) is that of PyTorch and cuDNN: LSTM `i f g o`, GRU `r z n`.
//! The other orders belong to importers, which convert with [`permutation`].

/// A gate, or a row block of a cell whose blocks are not gates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// i, the share of the candidate that enters the cell state.
    Input,
    /// f, the share of the cell state that is kept.
    Forget,
    /// g, the candidate of the LSTM (j in TensorFlow, c in Keras and ONNX).
    Cell,
    /// o, the share of the cell state that is output.
    Output,
    /// r, the reset gate.
    Reset,
    /// z (u in TensorFlow), the share of the old state that is kept.
    Update,
    /// n, the candidate of the GRU (c in TensorFlow, h in Keras and ONNX).
    New,
    /// The share of the input that is passed through unchanged.
    Carry,
    /// The candidate of an output that is separate from the state.
    Emitted,
    /// g, the only gate of a single-gate cell: the share of the old state that is kept.
    Gate,
    /// c, the candidate of a single-gate cell.
    Candidate,
    /// The first block of the NAS cell, whose blocks have no names.
    Nas0,
    /// The second block of the NAS cell.
    Nas1,
    /// The third block of the NAS cell.
    Nas2,
    /// The fourth block of the NAS cell.
    Nas3,
    /// The fifth block of the NAS cell.
    Nas4,
    /// The sixth block of the NAS cell.
    Nas5,
    /// The seventh block of the NAS cell.
    Nas6,
    /// The eighth block of the NAS cell.
    Nas7,
}

/// Row order of the four LSTM gates in every canonical model and image.
pub const LSTM: [Gate; 4] = [Gate::Input, Gate::Forget, Gate::Cell, Gate::Output];
/// i, j, f, o: TensorFlow 1's LSTM cells.
pub const LSTM_TF1: [Gate; 4] = [Gate::Input, Gate::Cell, Gate::Forget, Gate::Output];
/// i, o, f, c: ONNX's LSTM.
pub const LSTM_ONNX: [Gate; 4] = [Gate::Input, Gate::Output, Gate::Forget, Gate::Cell];
/// i, f, o, u: `lstm` and `lnlstm` of OpenAI's baselines.
pub const LSTM_BASELINES: [Gate; 4] = [Gate::Input, Gate::Forget, Gate::Output, Gate::Cell];
/// f, i, o, u: a widespread edit of OpenAI's baselines.
pub const LSTM_BASELINES_EDITED: [Gate; 4] = [Gate::Forget, Gate::Input, Gate::Output, Gate::Cell];
/// Candidate, i, f, o: the mixed memory of ncps and of CfC's authors.
pub const LSTM_NCPS: [Gate; 4] = [Gate::Cell, Gate::Input, Gate::Forget, Gate::Output];
/// Row order of the three GRU gates in every canonical model and image.
pub const GRU: [Gate; 3] = [Gate::Reset, Gate::Update, Gate::New];
/// z, r, h: Keras's and ONNX's GRU.
pub const GRU_KERAS: [Gate; 3] = [Gate::Update, Gate::Reset, Gate::New];
/// Row order of the UGRNN's gate and candidate in every canonical model and image.
pub const UGRNN: [Gate; 2] = [Gate::Gate, Gate::Candidate];
/// Row order of the minimal gated unit in every canonical model and image.
pub const MGU: [Gate; 2] = [Gate::Forget, Gate::New];
/// Row order of the minimal gated recurrent unit in every canonical model and image.
pub const MIN_GRU: [Gate; 2] = [Gate::Update, Gate::New];
/// Candidate, gate: minGRU-pytorch's `minGRU`.
pub const MIN_GRU_PYTORCH: [Gate; 2] = [Gate::New, Gate::Update];
/// Row order of the minimal LSTM in every canonical model and image.
pub const MIN_LSTM: [Gate; 3] = [Gate::Input, Gate::Forget, Gate::Cell];
/// Candidate, f, i: minGRU-pytorch's `minLSTM`.
pub const MIN_LSTM_PYTORCH: [Gate; 3] = [Gate::Cell, Gate::Forget, Gate::Input];
/// Row order of the simple recurrent unit in every canonical model and image: g, f, r.
pub const SRU: [Gate; 3] = [Gate::Cell, Gate::Forget, Gate::Reset];
/// Row order of the chaos-free network in every canonical model and image: θ, η.
pub const CFN: [Gate; 2] = [Gate::Forget, Gate::Input];
/// Row order of the intersection RNN in every canonical model and image: z, n, g, m.
pub const INTERSECTION: [Gate; 4] = [Gate::Update, Gate::New, Gate::Carry, Gate::Emitted];
/// Row order of the eight blocks of the NAS cell in every canonical model and image, and in TensorFlow.
pub const NAS: [Gate; 8] =
    [Gate::Nas0, Gate::Nas1, Gate::Nas2, Gate::Nas3, Gate::Nas4, Gate::Nas5, Gate::Nas6, Gate::Nas7];

/// For each gate of `to`, its position in `from`. A gate that `from` lacks maps to `N`, one past the end.
pub const fn permutation<const N: usize>(from: [Gate; N], to: [Gate; N]) -> [usize; N] {
    let mut result = [N; N];
    let mut k = 0;
    while k < N {
        let mut j = 0;
        while j < N {
            if from[j] as u8 == to[k] as u8 {
                result[k] = j;
            }
            j += 1;
        }
        k += 1;
    }
    result
}

const _: () = assert!(matches!(permutation(LSTM_TF1, LSTM), [0, 2, 1, 3]));
const _: () = assert!(matches!(permutation(LSTM_ONNX, LSTM), [0, 2, 3, 1]));
const _: () = assert!(matches!(permutation(GRU_KERAS, GRU), [1, 0, 2]));
