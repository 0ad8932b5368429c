//! Converts a recognized cell to a layer, by packing the weights of its gates into tensors like those of TensorFlow's
//! own cells.

use super::cells::{self, Converted, LstmOptions, unsupported, unsupported_if};
use super::classes::split_rows;
use super::lstm_variants::{LayerNorm, coupled_lstm, layer_norm_lstm};
use super::symbol::{Arena, Cell, Gate, Lstm, Norm};
use crate::format::weights::zeros;
use crate::{canonical::Tensor, error::Result};

impl Cell {
    /// Number of output features.
    pub fn output_size(&self) -> usize {
        match self {
            Self::Lstm(lstm) => lstm.projection.map_or(lstm.gates[0].units, |(_, units)| units),
            Self::Gru { gates, .. } => gates[0].units,
            Self::Ugrnn { gates } => gates[0].units,
            Self::Simple { gate } => gate.units,
        }
    }

    /// The cell as a layer.
    pub fn layer(&self, arena: &Arena) -> Converted {
        let output = self.output_size();
        match self {
            Self::Lstm(lstm) => lstm.layer(arena, output),
            Self::Gru { gates, reset_after } => {
                plain(gates)?;
                let ([r, u, c], (both, one)) = (gates, gates.split_at(2));
                let layer = if gates.iter().any(|gate| gate.independent.is_some()) {
                    unsupported_if(reset_after.is_some(), "an IndyGRU whose reset comes after the product")?;
                    cells::indy_gru(
                        [&kernel(arena, both, 0), &independent(arena, both)?, &bias(arena, both)],
                        [&kernel(arena, one, 0), &independent(arena, one)?, &bias(arena, one)],
                        c.activation,
                    )?
                } else if r.activation != u.activation {
                    return unsupported("a GRU whose gates differ in activation");
                } else {
                    let (gates_kernel, gates_bias) = (kernel(arena, both, output), bias(arena, both));
                    let (candidate, bias) = (kernel(arena, one, output), bias(arena, one));
                    match reset_after {
                        None => cells::gru([&gates_kernel, &gates_bias], [&candidate, &bias], c.activation)?,
                        Some(own) => {
                            let (input, recurrent) = split_rows(candidate.clone(), candidate.shape[0] - output);
                            let own = own.map_or_else(|| zeros(output), |own| arena.constant_vector(own));
                            let (input, hidden) = ([&input, &bias], [&recurrent, &own]);
                            cells::cudnn_compatible_gru(&gates_kernel, &gates_bias, input, hidden, c.activation)?
                        }
                    }
                };
                Ok(layer.activation("gate_activation", u.activation))
            }
            Self::Ugrnn { gates } => {
                plain(gates)?;
                let alone = gates.iter().any(|gate| gate.independent.is_some());
                unsupported_if(alone, "a UGRNN whose units see only their own state")?;
                let layer = cells::ugrnn(&kernel(arena, gates, output), &bias(arena, gates), 0.0, gates[1].activation)?;
                Ok(layer.activation("gate_activation", gates[0].activation))
            }
            Self::Simple { gate } => {
                let one = std::slice::from_ref(gate);
                plain(one)?;
                if gate.independent.is_some() {
                    let tensors = [&kernel(arena, one, 0), &independent(arena, one)?, &bias(arena, one)];
                    return cells::indrnn(tensors, gate.activation);
                }
                cells::basic_rnn(&kernel(arena, one, output), &bias(arena, one), gate.activation)
            }
        }
    }
}

impl Lstm {
    fn layer(&self, arena: &Arena, output: usize) -> Converted {
        let gates = &self.gates;
        let [i, j, f, o] = gates;
        let differs = i.activation != f.activation || o.activation != f.activation;
        unsupported_if(differs, "an LSTM whose gates differ in activation")?;
        let shown = gates.iter().filter(|gate| gate.peephole.is_some()).count();
        unsupported_if(j.peephole.is_some() || !matches!(shown, 0 | 3), "an LSTM with peepholes to some gates only")?;
        let peepholes = [i, f, o].map(|gate| gate.peephole.map(|id| arena.constant_vector(id)));
        let peepholes = match &peepholes {
            [Some(i), Some(f), Some(o)] => Some([i, f, o]),
            _ => None,
        };
        let projection = self.projection.map(|(block, units)| arena.block(block, units));
        let options = LstmOptions {
            forget_bias: 0.0,
            peepholes,
            projection: projection.as_ref(),
            cell_clip: self.cell_clip,
            projection_clip: self.projection_clip,
            activation: j.activation,
            ..LstmOptions::default()
        };
        let mut layer = if gates.iter().any(|gate| gate.independent.is_some()) {
            let normed = self.cell_norm.is_some() || gates.iter().any(|gate| gate.norm.is_some());
            let optional = peepholes.is_some() || projection.is_some() || self.cell_clip.is_some();
            unsupported_if(optional || self.coupled || normed, "an IndyLSTM with options of an LSTM")?;
            let tensors = [&kernel(arena, gates, 0), &independent(arena, gates)?, &bias(arena, gates)];
            cells::indy_lstm(tensors, 0.0, j.activation)?
        } else if self.coupled {
            let own = &gates[1..];
            let peepholes = peepholes.map(|[_, f, o]| [f, o]);
            let norms = norms(arena, own, self.cell_norm)?;
            coupled_lstm(&kernel(arena, own, output), Some(&bias(arena, own)), norms, peepholes, options)?
        } else if let Some(norms) = norms(arena, gates, self.cell_norm)? {
            layer_norm_lstm(&kernel(arena, gates, output), &norms, options)?
        } else {
            cells::lstm(&kernel(arena, gates, output), &bias(arena, gates), options)?
        };
        if let Some(norm) = self.cell_norm {
            layer = layer.param("epsilon", f32::from_bits(norm.epsilon));
        }
        Ok(layer.activation("gate_activation", f.activation).activation("output_activation", self.output_activation))
    }
}

fn plain(gates: &[Gate]) -> Result<()> {
    let other = gates.iter().any(|gate| gate.peephole.is_some() || gate.norm.is_some());
    unsupported_if(other, "a peephole or a normalization in a cell that is no LSTM")
}

/// The per-unit recurrent weights of all gates, [1, gates * units].
fn independent(arena: &Arena, gates: &[Gate]) -> Result<Tensor> {
    let some = gates.iter().any(|gate| gate.independent.is_none());
    unsupported_if(some, "a cell some of whose gates see only their units' own state")?;
    let data: Vec<f32> =
        gates.iter().filter_map(|gate| gate.independent).flat_map(|own| arena.vector(own)).copied().collect();
    Ok(Tensor { shape: vec![1, data.len()], data })
}

/// The normalizations of the gates, then that of the cell state: all of them with the same epsilon, or none.
fn norms<const N: usize>(arena: &Arena, gates: &[Gate], cell: Option<Norm>) -> Result<Option<[LayerNorm; N]>> {
    let all: Vec<Norm> = gates.iter().filter_map(|gate| gate.norm).chain(cell).collect();
    if all.is_empty() {
        return Ok(None);
    }
    let differs = all.iter().any(|norm| norm.epsilon != all[0].epsilon);
    unsupported_if(differs, "an LSTM normalized with different epsilons")?;
    let normed =
        |norm: &Norm| LayerNorm { gamma: arena.constant_vector(norm.gain), beta: arena.constant_vector(norm.shift) };
    match all.iter().map(normed).collect::<Vec<_>>().try_into() {
        Ok(normed) => Ok(Some(normed)),
        Err(_) => unsupported("an LSTM some of whose gates are normalized"),
    }
}

/// [input + recurrent, gates * units]: rows of x, then of h. The rows of h are zero for a gate that does not read h.
fn kernel(arena: &Arena, gates: &[Gate], recurrent: usize) -> Tensor {
    let of_gate = |gate: &Gate| {
        let blocks = gate.input.iter().chain(&gate.recurrent);
        let mut data: Vec<f32> = blocks.flat_map(|&block| arena.block(block, gate.units).data).collect();
        if gate.recurrent.is_none() {
            data.resize(data.len() + recurrent * gate.units, 0.0);
        }
        data
    };
    let columns: Vec<Vec<f32>> = gates.iter().map(of_gate).collect();
    let rows = columns[0].len() / gates[0].units;
    let mut data = Vec::new();
    for row in 0..rows {
        for (column, gate) in columns.iter().zip(gates) {
            data.extend_from_slice(&column[row * gate.units..(row + 1) * gate.units]);
        }
    }
    Tensor { shape: vec![rows, data.len() / rows], data }
}

fn bias(arena: &Arena, gates: &[Gate]) -> Tensor {
    let mut data = Vec::new();
    for gate in gates {
        match gate.bias {
            Some(bias) => data.extend_from_slice(arena.vector(bias)),
            None => data.resize(data.len() + gate.units, 0.0),
        }
    }
    Tensor { shape: vec![data.len()], data }
}
