//! The layer of a cell that was found: its gates' weights as the tensors of TensorFlow's own cells.

use super::cells::{self, LstmOptions};
use super::lstm_variants::{self, LayerNorm, LayerNorms};
use super::pattern::{Cell, Gate, Norm};
use super::symbol::{Arena, Id};
use crate::canonical::Tensor;
use crate::error::ImportError;
use crate::format::layer::Layer;

impl Cell {
    /// Units of its output.
    pub fn output_size(&self) -> usize {
        match self {
            Self::Lstm { projection: Some((_, units)), .. } => *units,
            Self::Lstm { gates, .. } => gates[0].units,
            Self::Gru { gates, .. } => gates[0].units,
            Self::Ugrnn { gates } => gates[0].units,
            Self::Simple { gate } => gate.units,
        }
    }

    /// As a layer.
    pub fn layer(&self, arena: &Arena) -> Result<Layer, ImportError> {
        let output = self.output_size();
        match self {
            Self::Lstm { gates, coupled, cell_norm, output_activation, projection, cell_clip, projection_clip } => {
                let gates: &[Gate; 4] = gates;
                let [i, j, f, o] = gates;
                if i.activation != f.activation || o.activation != f.activation {
                    return Err(ImportError::Unsupported("an LSTM whose gates differ in activation".into()));
                }
                let shown: Vec<&Gate> = gates.iter().filter(|gate| gate.peephole.is_some()).collect();
                if j.peephole.is_some() || !matches!(shown.len(), 0 | 3) {
                    return Err(ImportError::Unsupported("an LSTM with peepholes to some gates only".into()));
                }
                let peepholes: Vec<Tensor> =
                    [i, f, o].iter().filter_map(|gate| gate.peephole).map(|id| vector(arena, id)).collect();
                let peepholes: Option<[&Tensor; 3]> = peepholes.iter().collect::<Vec<_>>().try_into().ok();
                let projection = projection.map(|(block, units)| arena.block(block, units));
                let options = LstmOptions {
                    forget_bias: 0.0,
                    peepholes,
                    projection: projection.as_ref(),
                    cell_clip: *cell_clip,
                    projection_clip: *projection_clip,
                    activation: j.activation,
                    ..LstmOptions::default()
                };
                let layer = if gates.iter().any(|gate| gate.independent.is_some()) {
                    let normed = cell_norm.is_some() || gates.iter().any(|gate| gate.norm.is_some());
                    if options.peepholes.is_some() || projection.is_some() || cell_clip.is_some() || *coupled || normed
                    {
                        return Err(ImportError::Unsupported("an IndyLSTM with options of an LSTM".into()));
                    }
                    let own = independent(arena, gates)?;
                    cells::indy_lstm(&kernel(arena, gates, 0), &own, &bias(arena, gates), 0.0, j.activation)?
                } else if *coupled {
                    let own = &gates[1..];
                    let peepholes = options.peepholes.map(|[_, f, o]| [f, o]);
                    let options = LstmOptions { peepholes: None, ..options };
                    let norms = norms(arena, own, *cell_norm)?;
                    let bias = bias(arena, own);
                    let norms = norms.as_ref().map(|[j, f, o, c]| [j.of(), f.of(), o.of(), c.of()]);
                    lstm_variants::coupled_lstm(&kernel(arena, own, output), Some(&bias), norms, peepholes, options)?
                } else if let Some([i, j, f, o, c]) = &norms(arena, gates, *cell_norm)? {
                    let norms = LayerNorms { gates: [i.of(), j.of(), f.of(), o.of()], state: c.of() };
                    lstm_variants::layer_norm_lstm(&kernel(arena, gates, output), norms, options)?
                } else {
                    cells::lstm(&kernel(arena, gates, output), &bias(arena, gates), options)?
                };
                let layer = match cell_norm {
                    Some(norm) => layer.param("epsilon", f32::from_bits(norm.epsilon)),
                    None => layer,
                };
                Ok(layer
                    .activation("gate_activation", f.activation)
                    .activation("output_activation", *output_activation))
            }
            Self::Gru { gates, reset_after } => {
                plain(gates)?;
                let [r, u, c] = gates;
                if gates.iter().any(|gate| gate.independent.is_some()) {
                    if reset_after.is_some() {
                        return Err(ImportError::Unsupported("an IndyGRU whose reset comes after the product".into()));
                    }
                    let (both, one) = (&gates[..2], &gates[2..]);
                    let layer = cells::indy_gru(
                        [&kernel(arena, both, 0), &independent(arena, both)?, &bias(arena, both)],
                        [&kernel(arena, one, 0), &independent(arena, one)?, &bias(arena, one)],
                        c.activation,
                    )?;
                    return Ok(layer.activation("gate_activation", u.activation));
                }
                if r.activation != u.activation {
                    return Err(ImportError::Unsupported("a GRU whose gates differ in activation".into()));
                }
                let both = [r.clone(), u.clone()];
                let (gates_kernel, gates_bias) = (kernel(arena, &both, output), bias(arena, &both));
                let one = std::slice::from_ref(c);
                let (candidate, candidate_bias) = (kernel(arena, one, output), bias(arena, one));
                let layer = match reset_after {
                    None => cells::gru(&gates_kernel, &gates_bias, &candidate, &candidate_bias, c.activation)?,
                    Some(own) => {
                        let rows = candidate.shape[0] - output;
                        let part = |from: usize, to: usize| Tensor {
                            shape: vec![to - from, output],
                            data: candidate.data[from * output..to * output].to_vec(),
                        };
                        let (input, recurrent) = (part(0, rows), part(rows, rows + output));
                        let own = own.map_or_else(|| zeros(output), |own| vector(arena, own));
                        cells::cudnn_compatible_gru(
                            &gates_kernel,
                            &gates_bias,
                            [&input, &candidate_bias],
                            [&recurrent, &own],
                            c.activation,
                        )?
                    }
                };
                Ok(layer.activation("gate_activation", u.activation))
            }
            Self::Ugrnn { gates } => {
                plain(gates)?;
                matrices(gates)?;
                let layer = cells::ugrnn(&kernel(arena, gates, output), &bias(arena, gates), 0.0, gates[1].activation)?;
                Ok(layer.activation("gate_activation", gates[0].activation))
            }
            Self::Simple { gate } => {
                let one = std::slice::from_ref(gate);
                plain(one)?;
                if gate.independent.is_some() {
                    let own = independent(arena, one)?;
                    return cells::indrnn(&kernel(arena, one, 0), &own, &bias(arena, one), gate.activation);
                }
                cells::basic_rnn(&kernel(arena, one, output), &bias(arena, one), gate.activation)
            }
        }
    }
}

fn plain(gates: &[Gate]) -> Result<(), ImportError> {
    match gates.iter().any(|gate| gate.peephole.is_some() || gate.norm.is_some()) {
        true => Err(ImportError::Unsupported("a peephole or a normalization in a cell that is no LSTM".into())),
        false => Ok(()),
    }
}

fn matrices(gates: &[Gate]) -> Result<(), ImportError> {
    match gates.iter().any(|gate| gate.independent.is_some()) {
        true => Err(ImportError::Unsupported("a UGRNN whose units see only their own state".into())),
        false => Ok(()),
    }
}

/// The factors of the units' own states, [1, gates * units].
fn independent(arena: &Arena, gates: &[Gate]) -> Result<Tensor, ImportError> {
    let mut data = Vec::new();
    for gate in gates {
        let Some(own) = gate.independent else {
            return Err(ImportError::Unsupported("a cell some of whose gates see only their units' own state".into()));
        };
        data.extend_from_slice(arena.vector(own));
    }
    Ok(Tensor { shape: vec![1, data.len()], data })
}

/// A normalization's tensors.
struct Normed {
    gamma: Tensor,
    beta: Tensor,
}

impl Normed {
    fn of(&self) -> LayerNorm<'_> {
        LayerNorm { gamma: &self.gamma, beta: &self.beta }
    }
}

/// Those of the gates and then of the cell state; all are normalized alike, or none.
fn norms<const N: usize>(
    arena: &Arena,
    gates: &[Gate],
    cell: Option<Norm>,
) -> Result<Option<[Normed; N]>, ImportError> {
    let all: Vec<Norm> = gates.iter().filter_map(|gate| gate.norm).chain(cell).collect();
    if all.is_empty() {
        return Ok(None);
    }
    if all.iter().any(|norm| norm.epsilon != all[0].epsilon) {
        return Err(ImportError::Unsupported("an LSTM normalized with different epsilons".into()));
    }
    let normed = |norm: &Norm| Normed { gamma: vector(arena, norm.gain), beta: vector(arena, norm.shift) };
    let normed: Vec<Normed> = all.iter().map(normed).collect();
    match normed.try_into() {
        Ok(normed) => Ok(Some(normed)),
        Err(_) => Err(ImportError::Unsupported("an LSTM some of whose gates are normalized".into())),
    }
}

fn zeros(len: usize) -> Tensor {
    Tensor { shape: vec![len], data: vec![0.0; len] }
}

fn vector(arena: &Arena, id: Id) -> Tensor {
    let data = arena.vector(id).to_vec();
    Tensor { shape: vec![data.len()], data }
}

/// [input + recurrent, gates * units]: rows of x, then of h; a gate that does not see h has zeros.
fn kernel(arena: &Arena, gates: &[Gate], recurrent: usize) -> Tensor {
    let columns: Vec<Tensor> = gates
        .iter()
        .map(|gate| {
            let mut data = Vec::new();
            for block in &gate.input {
                data.extend(arena.block(*block, gate.units).data);
            }
            match gate.recurrent {
                Some(block) => data.extend(arena.block(block, gate.units).data),
                None => data.resize(data.len() + recurrent * gate.units, 0.0),
            }
            Tensor { shape: vec![data.len() / gate.units, gate.units], data }
        })
        .collect();
    let rows = columns[0].shape[0];
    let mut data = Vec::new();
    for row in 0..rows {
        for column in &columns {
            let units = column.shape[1];
            data.extend_from_slice(&column.data[row * units..(row + 1) * units]);
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
