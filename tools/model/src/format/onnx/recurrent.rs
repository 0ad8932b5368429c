//! ONNX's LSTM, GRU and RNN, with all of their attributes.

use tidegate::internals::gate::{GRU, GRU_KERAS, LSTM, LSTM_ONNX};
use tidegate::internals::{activation::Activation, cell::CellKind};

use super::graph::{Attributes, Session, Stop};
use super::made::{Layered, Made, StateOf};
use super::moves::given;
use super::value::{Axis, Data, Element, Value};
use super::{Lens, Role};
use crate::canonical::Tensor;
use crate::format::{layer::Layer, network::Direction, refuse::fail_if, weights::reordered};

struct Kind {
    cell: CellKind,
    /// The activations of the cell, with ONNX's default of each.
    activations: &'static [(&'static str, &'static str)],
    /// Attributes that only the other operators have.
    foreign: [&'static str; 2],
}

const LSTM_OP: Kind = Kind {
    cell: CellKind::Lstm,
    activations: &[("gate_activation", "Sigmoid"), ("cell_activation", "Tanh"), ("output_activation", "Tanh")],
    foreign: ["linear_before_reset", "output_sequence"],
};
const GRU_OP: Kind = Kind {
    cell: CellKind::Gru,
    activations: &[("gate_activation", "Sigmoid"), ("new_activation", "Tanh")],
    foreign: ["input_forget", "output_sequence"],
};
const RNN_OP: Kind = Kind {
    cell: CellKind::Elman,
    activations: &[("activation", "Tanh")],
    foreign: ["input_forget", "linear_before_reset"],
};

impl Kind {
    fn gates(&self) -> usize {
        self.cell.spec().gates.len().max(1)
    }

    fn is_lstm(&self) -> bool {
        self.cell == CellKind::Lstm
    }
}

const ATTRIBUTES: &str = "activation_alpha activation_beta activations clip direction hidden_size input_forget layout \
                          linear_before_reset output_sequence";

/// An operator, and its inputs with the dimension order of layout 0.
struct Inputs<'a> {
    kind: &'static Kind,
    attributes: Attributes<'a>,
    /// Whether its outputs have the dimension order of layout 1.
    swapped: bool,
    x: Value,
    weights: Tensor,
    recurrent: Tensor,
    bias: Option<Tensor>,
    peephole: Option<Tensor>,
    initial: [Option<Value>; 2],
    /// Number of sequences that the graph itself makes, each with a state of its own.
    sequences: usize,
}

impl<'a> Session<'a> {
    /// The outputs Y, `Y_h` and `Y_c` of a node.
    pub(super) fn recurrent(&mut self, op: &str, inputs: &[Option<Value>]) -> Result<Vec<Value>, Stop> {
        let kind = match op {
            "LSTM" => &LSTM_OP,
            "GRU" => &GRU_OP,
            _ => &RNN_OP,
        };
        let attributes = self.attributes(ATTRIBUTES)?;
        let swapped = match attributes.int("layout", 0)? {
            0 => false,
            1 => true,
            other => return Err(format!("attribute layout = {other}").into()),
        };
        if let Some(name) = kind.foreign.iter().find(|name| attributes.has(name)) {
            return Err(format!("attribute {name} of {op}").into());
        }
        fail_if(attributes.int("output_sequence", 0)? > 1, "attribute output_sequence must be 0 or 1")?;
        let directions: &[Direction] = match attributes.text("direction", "forward")?.as_str() {
            "forward" => &[Direction::Forward],
            "reverse" => &[Direction::Backward],
            "bidirectional" => &[Direction::Forward, Direction::Backward],
            other => return Err(format!("attribute direction = {other:?}").into()),
        };
        let lens = given(inputs, 4);
        let own = self.inputs_of(kind, inputs, swapped, directions.len(), attributes)?;
        let [steps, _, _] = own.x.shape[..] else { return Err("X must have three dimensions".into()) };
        let units = own.recurrent.shape[2];
        let padded = self.lens(lens.as_ref(), &own.x, steps)?;
        let activations = activations(kind, &attributes, directions.len())?;
        let apart = own.sequences > 1;
        let operand = match self.axis_with(&own.x, Role::Time) {
            Some(0) if apart => self.operand(&own.x, &[1, 2], 1, Some(0), padded)?,
            _ if apart => {
                let given = own.initial.iter().any(Option::is_some);
                let fits = steps == 1 && given && !self.setup.windowed;
                fail_if(
                    !fits,
                    format_args!("it reads {} sequences of several steps that the graph makes", own.sequences),
                )?;
                self.operand(&own.x, &[0, 1, 2], 2, None, padded)?
            }
            Some(0) => self.operand(&own.x, &[1, 2], 0, Some(0), padded)?,
            // The graph itself iterates over the steps.
            _ => self.operand(&own.x, &[0, 1, 2], 1, None, padded)?,
        };
        let (mut y, mut states) = (Vec::new(), Vec::new());
        for (index, &direction) in directions.iter().enumerate() {
            let own_activations = &activations[index * kind.activations.len()..][..kind.activations.len()];
            let mut layer = own.layer(index, own_activations)?;
            let (mut initial, mut start) = ([None, None], [None, None]);
            for (k, given) in own.initial.iter().enumerate() {
                let Some(given) = given else { continue };
                initial[k] = self.initial(given, index, units)?;
                start[k] = self.start(given, index, units)?;
            }
            if start.iter().any(Option::is_some) {
                let open = |state: &Option<(usize, Vec<usize>)>| {
                    state.as_ref().is_some_and(|(input, _)| !self.has_start(*input))
                };
                fail_if(
                    !kind.is_lstm() || apart,
                    "its initial state is not zero, which only an LSTM of one sequence has",
                )?;
                fail_if(initial.iter().any(open), "one of its initial states is known and the other is an input")?;
                let vector = |of: Option<Vec<f32>>| {
                    let data = of.unwrap_or_else(|| vec![0.0; units]);
                    Tensor { shape: vec![units], data }
                };
                let [hidden, cell] = start.map(vector);
                layer = layer.option("initial").tensor("initial_hidden", hidden).tensor("initial_cell_state", cell);
            }
            let fresh = initial.iter().all(Option::is_none) && !apart;
            // The direction of a single step does not matter.
            let direction = if apart && operand.time.is_none() { Direction::Forward } else { direction };
            let made = self.layered(Layered { layer, direction, fresh, apart }, &operand)?;
            let node = self.node_of(made)?;
            let first = direction == Direction::Backward;
            let names: &[&str] = if kind.is_lstm() { &["hidden", "cell_state"] } else { &["hidden"] };
            for (state, initial) in names.iter().copied().zip(initial) {
                states.push(StateOf { node: node.clone(), state, made, first, units, apart, initial });
            }
            y.push(made);
        }
        self.outputs(&own, &y, states, padded)
    }

    fn inputs_of(
        &mut self,
        kind: &'static Kind,
        inputs: &[Option<Value>],
        swapped: bool,
        directions: usize,
        attributes: Attributes<'a>,
    ) -> Result<Inputs<'a>, Stop> {
        let at = |k: usize| given(inputs, k);
        let (Some(mut x), Some(weights), Some(recurrent)) = (at(0), at(1), at(2)) else {
            return Err("it needs X, W and R".into());
        };
        let count = if kind.is_lstm() { 8 } else { 6 };
        fail_if(inputs.len() > count, format_args!("it has {} inputs, more than {count}", inputs.len()))?;
        fail_if(x.shape.len() != 3, format_args!("X has the dimensions {:?}; three are needed", x.shape))?;
        if swapped {
            x = x.transposed(&[1, 0, 2])?;
        }
        fail_if(x.shape[0] == 0, "X has no steps")?;
        let features = x.shape[2];
        let weights = self.known(&weights, "W")?;
        let recurrent = self.known(&recurrent, "R")?;
        let units = match *recurrent.shape {
            [_, _, units] if units > 0 => units,
            _ => return Err(format!("R has the dimensions {:?}; three are needed", recurrent.shape).into()),
        };
        let said = attributes.int("hidden_size", units as i64)?;
        fail_if(said != units as i64, format_args!("attribute hidden_size = {said}, but R has {units} columns"))?;
        let rows = kind.gates() * units;
        let needs = |name: &str, tensor: &Tensor, shape: &[usize]| match tensor.shape == shape {
            true => Ok(()),
            false => Err(Stop::from(format!("{name} is {:?}, but {shape:?} is needed", tensor.shape))),
        };
        needs("W", &weights, &[directions, rows, features])?;
        needs("R", &recurrent, &[directions, rows, units])?;
        let optional = |k: usize, name: &str, len: usize| -> Result<Option<Tensor>, Stop> {
            let Some(value) = at(k) else { return Ok(None) };
            let tensor = self.known(&value, name)?;
            needs(name, &tensor, &[directions, len])?;
            Ok(Some(tensor))
        };
        let bias = optional(3, "B", 2 * rows)?;
        let peephole = if kind.is_lstm() { optional(7, "P", 3 * units)? } else { None };
        let makes = x.axes[1].is_none() && x.shape[1] > 1;
        let batch = if makes { x.shape[1] } else { self.batch(&x, 1)? };
        self.time(&x, 0)?;
        let mut initial = [at(5), if kind.is_lstm() { at(6) } else { None }];
        for (name, given) in ["initial_h", "initial_c"].iter().zip(&mut initial) {
            let Some(value) = given else { continue };
            if swapped {
                fail_if(value.shape.len() != 3, format_args!("{name} has the dimensions {:?}", value.shape))?;
                *value = value.transposed(&[1, 0, 2])?;
            }
            if value.shape.len() == 3 && !value.is_constant() && !makes {
                self.batch(value, 1)?;
            }
            // A constant initial state has one entry for all sequences of the batch, or one for each.
            let fits = matches!(*value.shape, [d, b, h] if d == directions && h == units && (b == 1 || b == batch));
            fail_if(!fits, format_args!("{name} is {:?}, but {:?} is needed", value.shape, [directions, 1, units]))?;
        }
        let sequences = if makes { batch } else { 1 };
        Ok(Inputs { kind, attributes, swapped, x, weights, recurrent, bias, peephole, initial, sequences })
    }

    /// Whether sequences may end before the last step: `sequence_lens` is an input of the graph, or a constant with
    /// shorter lengths.
    fn lens(&mut self, lens: Option<&Value>, x: &Value, steps: usize) -> Result<bool, Stop> {
        let said = match lens {
            None => None,
            Some(Value { data: Data::Ints(lens), .. }) if lens.iter().all(|&len| len == steps as i64) => None,
            Some(Value { data: Data::Ints(lens), .. }) => {
                let lens: Option<Vec<usize>> =
                    lens.iter().map(|&len| usize::try_from(len).ok().filter(|&len| len <= steps)).collect();
                let lens = lens.ok_or_else(|| format!("sequence_lens must be 0 to {steps}"))?;
                Some(Lens::Known(lens))
            }
            Some(value) => {
                fail_if(value.shape.len() != 1, "sequence_lens must have one dimension")?;
                self.batch(value, 0)?;
                match value.elements().as_slice() {
                    &[Element::Input(input, 0)] => Some(Lens::Input(input as usize)),
                    _ => return Err("sequence_lens must be an input of the graph, or known".into()),
                }
            }
        };
        let timed = self.axis_with(x, Role::Time).is_some();
        match said {
            Some(_) if !timed => Err("sequence_lens over steps that the graph itself makes".into()),
            None if x.padded => {
                Err("it follows an operator with sequence_lens, but has no sequence_lens itself".into())
            }
            None => Ok(false),
            Some(lens) => {
                let of = self.lens.get_or_insert_with(|| lens.clone());
                if *of == lens { Ok(true) } else { Err("another operator has a different sequence_lens".into()) }
            }
        }
    }

    /// Whether an input is a state that starts from known values.
    fn has_start(&self, input: usize) -> bool {
        self.setup.starts.contains_key(&self.setup.inputs[input].name)
    }

    /// The initial state of a direction if it is known and not zero.
    fn start(&self, given: &Value, direction: usize, units: usize) -> Result<Option<Vec<f32>>, Stop> {
        let batch = given.shape[1];
        let number = |element: &Element| match *element {
            Element::Number(value) => Some(value),
            Element::Input(input, at) => {
                let name = &self.setup.inputs[input as usize].name;
                self.setup.starts.get(name)?.get(at as usize).copied()
            }
            _ => None,
        };
        let own = &given.elements()[direction * batch * units..][..batch * units];
        let Some(values) = own.iter().map(number).collect::<Option<Vec<f32>>>() else { return Ok(None) };
        let (first, others) = values.split_at(units);
        fail_if(others.chunks(units).any(|other| other != first), "its sequences have different initial states")?;
        Ok(first.iter().any(|&value| value != 0.0).then(|| first.to_vec()))
    }

    /// Source of the initial state of a direction; `None` if it is known.
    fn initial(&mut self, given: &Value, direction: usize, units: usize) -> Result<Option<(usize, Vec<usize>)>, Stop> {
        let batch = given.shape[1];
        let elements = given.elements();
        let own = &elements[direction * batch * units..][..batch * units];
        if own.iter().all(|element| matches!(element, Element::Number(_))) {
            return Ok(None);
        }
        let &Element::Input(input, _) = &own[0] else {
            return Err("its initial state must be known or an input of the graph".into());
        };
        let at: Option<Vec<usize>> = own
            .iter()
            .map(|element| match *element {
                Element::Input(of, at) if of == input => Some(at as usize),
                _ => None,
            })
            .collect();
        let at = at.ok_or("its initial state must be one input of the graph")?;
        Ok(Some((input as usize, at)))
    }

    fn outputs(&mut self, of: &Inputs<'_>, y: &[Made], states: Vec<StateOf>, padded: bool) -> Result<Vec<Value>, Stop> {
        let Inputs { kind, swapped, x, .. } = of;
        let (steps, directions, units) = (x.shape[0], y.len(), of.recurrent.shape[2]);
        let row = of.sequences * units;
        let mut elements = Vec::with_capacity(steps * directions * row);
        for t in 0..steps {
            for &made in y {
                elements.extend((0..row).map(|k| Element::Of(made.0, (t * row + k) as u32)));
            }
        }
        let (time, batch): (Option<Axis>, Option<Axis>) = (x.axes[0], x.axes[1]);
        let mut sequence = Value::open(vec![steps, directions, of.sequences, units], elements);
        sequence = sequence.with_axes(vec![time, None, batch, None]);
        sequence.padded = padded;
        let first = self.states.len();
        let per_direction = if kind.is_lstm() { 2 } else { 1 };
        let last = |which: usize| {
            let each = |d: usize| (0..row).map(move |k| (first + d * per_direction + which, k));
            let elements = (0..directions).flat_map(each).map(|(state, k)| Element::State(state as u32, k as u32));
            Value::open(vec![directions, of.sequences, units], elements.collect()).with_axes(vec![None, batch, None])
        };
        let mut outputs = vec![sequence, last(0)];
        if kind.is_lstm() {
            outputs.push(last(1));
        }
        self.states.extend(states);
        if *swapped {
            outputs[0] = outputs[0].transposed(&[2, 0, 1, 3])?;
            for state in &mut outputs[1..] {
                *state = state.transposed(&[1, 0, 2])?;
            }
        }
        Ok(outputs)
    }
}

impl Inputs<'_> {
    fn layer(&self, direction: usize, activations: &[Activation]) -> Result<Layer, Stop> {
        let Self { kind, attributes, .. } = self;
        let part = |tensor: &Tensor, from: usize, rows: usize| {
            let per_row = tensor.shape.get(2).copied();
            let cols = per_row.unwrap_or(1);
            let whole = tensor.data.len() / tensor.shape[0];
            let data = tensor.data[direction * whole + from * cols..][..rows * cols].to_vec();
            Tensor { shape: per_row.map_or(vec![rows], |cols| vec![rows, cols]), data }
        };
        let (features, units) = (self.weights.shape[2], self.recurrent.shape[2]);
        let rows = kind.gates() * units;
        let ordered = |tensor: Tensor| match kind.cell {
            CellKind::Lstm => reordered(&tensor, LSTM_ONNX, LSTM),
            CellKind::Gru => reordered(&tensor, GRU_KERAS, GRU),
            _ => tensor,
        };
        let mut layer = Layer::new(kind.cell, features, units)
            .tensor("input_weights", ordered(part(&self.weights, 0, rows)))
            .tensor("recurrent_weights", ordered(part(&self.recurrent, 0, rows)));
        if let Some(bias) = &self.bias {
            layer = layer
                .tensor("input_bias", ordered(part(bias, 0, rows)))
                .tensor("recurrent_bias", ordered(part(bias, rows, rows)));
        }
        for (&(place, _), &activation) in kind.activations.iter().zip(activations) {
            layer = layer.activation(place, activation);
        }
        if let Some(peephole) = &self.peephole {
            // The order is i, o, f.
            layer = layer.option("peephole");
            for (k, name) in ["input_peephole", "output_peephole", "forget_peephole"].into_iter().enumerate() {
                layer = layer.tensor(name, part(peephole, k * units, units));
            }
        }
        for (name, option) in [("input_forget", "input_forget"), ("linear_before_reset", "reset_after")] {
            match attributes.int(name, 0)? {
                0 => {}
                1 => layer = layer.option(option),
                other => return Err(format!("attribute {name} = {other}").into()),
            }
        }
        if attributes.has("clip") {
            let clip = attributes.float("clip", 0.0)?;
            fail_if(!(clip.is_finite() && clip > 0.0), format_args!("attribute clip = {clip}"))?;
            layer = layer.option("clipped").param("preact_clip", clip);
        }
        Ok(layer)
    }
}

/// The activations of all directions. Alphas and betas belong, in order, to the activations that have one.
fn activations(kind: &Kind, attributes: &Attributes<'_>, directions: usize) -> Result<Vec<Activation>, Stop> {
    let needed = kind.activations.len() * directions;
    let mut names = attributes.texts("activations")?;
    if names.is_empty() {
        let usual = kind.activations.iter().cycle().take(needed);
        names = usual.map(|(_, name)| (*name).to_owned()).collect();
    }
    let found = names.len();
    fail_if(found != needed, format_args!("attribute activations names {found}, but {needed} are needed"))?;
    let (alphas, betas) = (attributes.floats("activation_alpha")?, attributes.floats("activation_beta")?);
    let (mut alpha, mut beta) = (alphas.iter().copied(), betas.iter().copied());
    let mut all = Vec::new();
    for name in &names {
        // Names are case-insensitive, as in ONNX Runtime. A default alpha or beta of the standard is not used if ONNX
        // Runtime has a different one, or if it belongs to an operator that was removed.
        all.push(match name.to_ascii_lowercase().as_str() {
            "sigmoid" => Activation::Sigmoid,
            "tanh" => Activation::Tanh,
            "relu" => Activation::Relu,
            "softsign" => Activation::Softsign,
            "softplus" => Activation::Softplus,
            "leakyrelu" => Activation::LeakyRelu { alpha: alpha.next().unwrap_or(0.01) },
            "thresholdedrelu" => Activation::ThresholdedRelu { alpha: said(name, alpha.next())? },
            "elu" => Activation::Elu { alpha: alpha.next().unwrap_or(1.0) },
            "hardsigmoid" => {
                Activation::HardSigmoid { alpha: alpha.next().unwrap_or(0.2), beta: beta.next().unwrap_or(0.5) }
            }
            "affine" => Activation::Affine { alpha: said(name, alpha.next())?, beta: said(name, beta.next())? },
            "scaledtanh" => Activation::ScaledTanh { alpha: said(name, alpha.next())?, beta: said(name, beta.next())? },
            _ => return Err(format!("activation {name:?}").into()),
        });
    }
    fail_if(alpha.next().is_some() || beta.next().is_some(), "it has more alphas or betas than its activations need")?;
    Ok(all)
}

/// A parameter that has no default.
fn said(name: &str, parameter: Option<f32>) -> Result<f32, String> {
    let missing = || format!("activation {name} without its alpha or beta, whose defaults differ between runtimes");
    parameter.filter(|value| value.is_finite()).ok_or_else(missing)
}
