//! One step of a cell for one sequence, forward and backward. What cuDNN computes, in `core`'s words and with its
//! activations.

use tidegate::activation::{relu, sigmoid, tanh};

use super::count::counted;
use crate::rnn::Cell;

/// What a step reads and leaves, for one sequence.
pub struct Row<'a> {
    /// Before the step: what the input side gives, biases and all, `[gates, hidden]`; behind it: the gates.
    pub gates: &'a mut [f32],
    /// Of a GRU what the recurrent side gives for its candidate; of an LSTM tanh of the cell state behind the step. `[hidden]`
    pub kept: &'a mut [f32],
    /// How far an LSTM's cell state goes, and what a unit of it is worth where 16 bits count it.
    pub limits: Limits,
    /// Which of it was cut off, `[hidden]`; empty without limits.
    pub cut: &'a mut [bool],
}

/// What an LSTM's cell state is kept to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// [`cell_clip`](crate::rnn::Settings::cell_clip).
    pub clip: Option<f32>,
    /// [`Units::cell`](super::count::Units::cell).
    pub unit: Option<f32>,
}

impl Limits {
    /// The cell state within them, and whether that is another.
    fn within(self, state: f32) -> (f32, bool) {
        let clipped = self.clip.map_or(state, |clip| state.clamp(-clip, clip));
        let (near, over) = self.unit.map_or((clipped, false), |unit| counted(clipped, unit));
        (near, over || clipped != state)
    }

    /// Whether there are none.
    pub const fn is_none(self) -> bool {
        self.clip.is_none() && self.unit.is_none()
    }
}

/// A step forward. `recurrent` is what the recurrent side gives, `state` an LSTM's cell state, `hidden` what the step
/// makes of the hidden state before it, both in place.
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

/// What a step left behind and what was before it.
pub struct Seen<'a> {
    /// [`Row::gates`] behind the step.
    pub gates: &'a [f32],
    /// [`Row::kept`] behind the step.
    pub kept: &'a [f32],
    /// Before the step: an LSTM's cell state, a GRU's hidden state.
    pub before: &'a [f32],
    /// Of an LSTM's cell state; empty without limits.
    pub cut: &'a [bool],
}

/// What goes back through a step.
pub struct Gradients<'a> {
    /// To what the input side gave.
    pub input: &'a mut [f32],
    /// To what the recurrent side gave.
    pub recurrent: &'a mut [f32],
    /// To an LSTM's cell state: from behind the step to before it.
    pub state: &'a mut [f32],
    /// To the hidden state: from behind the step to before it, without what goes through the recurrent side.
    pub hidden: &'a mut [f32],
}

/// The same step backward.
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

/// One slice for each gate.
fn blocks<const N: usize>(gates: &mut [f32], size: usize) -> [&mut [f32]; N] {
    let mut blocks = gates.chunks_exact_mut(size);
    std::array::from_fn(|_| blocks.next().unwrap_or_default())
}

fn views<const N: usize>(gates: &[f32], size: usize) -> [&[f32]; N] {
    let mut blocks = gates.chunks_exact(size);
    std::array::from_fn(|_| blocks.next().unwrap_or_default())
}
