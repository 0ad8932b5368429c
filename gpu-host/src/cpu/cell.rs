//! One step of a cell for one sequence, forward and backward: cuDNN's arithmetic with the activations of `tidegate`.

use tidegate::internals::activation::{relu, sigmoid, tanh};

use super::count::counted;
use crate::rnn::Cell;

/// Values that a step reads and writes, for one sequence.
pub struct Row<'a> {
    /// Before the step: the preactivations of the input side with biases, `[gates, hidden]`. After it: the activated
    /// gates.
    pub gates: &'a mut [f32],
    /// After the step, `[hidden]`: for a GRU the recurrent part of its candidate, for an LSTM the tanh of its new cell
    /// state.
    pub kept: &'a mut [f32],
    /// Limits of an LSTM's cell state.
    pub limits: Limits,
    /// Receives the marks of limited cell states, `[hidden]`; empty without limits.
    pub cut: &'a mut [bool],
}

/// Limits of an LSTM's cell state.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// [`cell_clip`](crate::rnn::Settings::cell_clip).
    pub clip: Option<f32>,
    /// [`Units::cell`](super::count::Units::cell).
    pub unit: Option<f32>,
}

impl Limits {
    /// The limited cell state, and whether it was limited.
    fn within(self, state: f32) -> (f32, bool) {
        let clipped = self.clip.map_or(state, |clip| state.clamp(-clip, clip));
        let (near, over) = self.unit.map_or((clipped, false), |unit| counted(clipped, unit));
        (near, over || clipped != state)
    }

    /// Whether there is no limit.
    pub const fn is_none(self) -> bool {
        self.clip.is_none() && self.unit.is_none()
    }
}

/// Runs a step forward. `recurrent` holds the preactivations of the recurrent side. `state`, the cell state of an LSTM,
/// and `hidden` are updated in place.
///
/// ```text
/// LSTM  c' = clip(σ(f) ⊙ c + σ(i) ⊙ tanh(g)),  h' = σ(o) ⊙ tanh(c')
/// GRU   n = tanh(x_n + σ(r) ⊙ h_n),      h' = (1 - σ(z)) ⊙ n + σ(z) ⊙ h
/// RNN   h' = tanh(x + h), or relu
/// ```
pub fn forward(cell: Cell, row: Row<'_>, recurrent: &[f32], state: &mut [f32], hidden: &mut [f32]) {
    let Row { gates, kept, limits, cut } = row;
    let size = hidden.len();
    if cell != Cell::Gru {
        gates.iter_mut().zip(recurrent).for_each(|(gate, &recurrent)| *gate += recurrent);
    }
    match cell {
        Cell::Lstm => {
            let [i, f, g, o] = blocks(gates, size);
            let units = i.iter_mut().zip(f).zip(g).zip(o).zip(state).zip(kept).zip(hidden);
            for (k, ((((((i, f), g), o), c), kept), h)) in units.enumerate() {
                (*i, *f, *g, *o) = (sigmoid(*i), sigmoid(*f), tanh(*g), sigmoid(*o));
                *c = *f * *c + *i * *g;
                if let Some(cut) = cut.get_mut(k) {
                    (*c, *cut) = limits.within(*c);
                }
                *kept = tanh(*c);
                *h = *o * *kept;
            }
        }
        Cell::Gru => {
            let [r, z, n] = blocks(gates, size);
            let [h_r, h_z, h_n] = views(recurrent, size);
            let units = r.iter_mut().zip(z).zip(n).zip(h_r).zip(h_z).zip(h_n).zip(kept).zip(hidden);
            for (((((((r, z), n), &h_r), &h_z), &h_n), kept), h) in units {
                (*r, *z) = (sigmoid(*r + h_r), sigmoid(*z + h_z));
                *kept = h_n;
                *n = tanh(*n + *r * h_n);
                *h = (1.0 - *z) * *n + *z * *h;
            }
        }
        Cell::RnnTanh => gates.iter_mut().zip(hidden).for_each(|(gate, h)| {
            *gate = tanh(*gate);
            *h = *gate;
        }),
        Cell::RnnRelu => gates.iter_mut().zip(hidden).for_each(|(gate, h)| {
            *gate = relu(*gate);
            *h = *gate;
        }),
    }
}

/// Values of a forward step that the backward step reads.
pub struct Seen<'a> {
    /// [`Row::gates`] after the step.
    pub gates: &'a [f32],
    /// [`Row::kept`] after the step.
    pub kept: &'a [f32],
    /// State before the step: the cell state of an LSTM, the hidden state of a GRU.
    pub before: &'a [f32],
    /// Marks of limited cell states of an LSTM; empty without limits.
    pub cut: &'a [bool],
}

/// Gradients that a backward step reads and writes.
pub struct Gradients<'a> {
    /// Receives the gradient of the preactivations of the input side.
    pub input: &'a mut [f32],
    /// Receives the gradient of the preactivations of the recurrent side.
    pub recurrent: &'a mut [f32],
    /// Gradient of the cell state of an LSTM: read after the step, written before it.
    pub state: &'a mut [f32],
    /// Gradient of the hidden state: read after the step, written before it, without the part through the recurrent
    /// side.
    pub hidden: &'a mut [f32],
}

/// Runs the same step backward.
pub fn backward(cell: Cell, seen: &Seen<'_>, gradients: Gradients<'_>) {
    let Gradients { input, recurrent, state, hidden } = gradients;
    let size = hidden.len();
    match cell {
        Cell::Lstm => {
            let [i, f, g, o] = views(seen.gates, size);
            let [d_i, d_f, d_g, d_o] = blocks(input, size);
            for k in 0..size {
                let made = seen.kept[k];
                let through = state[k] + hidden[k] * o[k] * (1.0 - made * made);
                let d_c = if seen.cut.get(k) == Some(&true) { 0.0 } else { through };
                d_i[k] = d_c * g[k] * i[k] * (1.0 - i[k]);
                d_f[k] = d_c * seen.before[k] * f[k] * (1.0 - f[k]);
                d_g[k] = d_c * i[k] * (1.0 - g[k] * g[k]);
                d_o[k] = hidden[k] * made * o[k] * (1.0 - o[k]);
                state[k] = d_c * f[k];
                hidden[k] = 0.0;
            }
            recurrent.copy_from_slice(input);
        }
        Cell::Gru => {
            let [r, z, n] = views(seen.gates, size);
            let [d_r, d_z, d_n] = blocks(input, size);
            let [h_r, h_z, h_n] = blocks(recurrent, size);
            for k in 0..size {
                let d_h = hidden[k];
                d_z[k] = d_h * (seen.before[k] - n[k]) * z[k] * (1.0 - z[k]);
                d_n[k] = d_h * (1.0 - z[k]) * (1.0 - n[k] * n[k]);
                d_r[k] = d_n[k] * seen.kept[k] * r[k] * (1.0 - r[k]);
                (h_r[k], h_z[k], h_n[k]) = (d_r[k], d_z[k], d_n[k] * r[k]);
                hidden[k] = d_h * z[k];
            }
        }
        Cell::RnnTanh | Cell::RnnRelu => {
            for k in 0..size {
                let h = seen.gates[k];
                let slope = match cell {
                    Cell::RnnRelu => f32::from(h > 0.0),
                    _ => 1.0 - h * h,
                };
                input[k] = hidden[k] * slope;
                hidden[k] = 0.0;
            }
            recurrent.copy_from_slice(input);
        }
    }
}

/// Splits a row into one slice per gate.
fn blocks<const N: usize>(gates: &mut [f32], size: usize) -> [&mut [f32]; N] {
    let mut blocks = gates.chunks_exact_mut(size);
    std::array::from_fn(|_| blocks.next().unwrap_or_default())
}

fn views<const N: usize>(gates: &[f32], size: usize) -> [&[f32]; N] {
    let mut blocks = gates.chunks_exact(size);
    std::array::from_fn(|_| blocks.next().unwrap_or_default())
}
