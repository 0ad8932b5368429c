//! LSTM, GRU and the Elman cell, whose gates ONNX has in another order.

use tidegate::internals::cell::CellKind;
use tidegate::internals::gate::{GRU, GRU_KERAS, LSTM, LSTM_ONNX, permutation};

use super::graph::{Name, float, floats, int, strings};
use super::sums::{Names, Row, Sums};
use super::{Export, Layer, NotInOnnx, activation};
use crate::format::onnx::proto::AttributeProto;

/// The operator of a cell and its inputs.
struct Operator {
    name: &'static str,
    input: Vec<Row>,
    recurrent: Vec<Row>,
    /// Those of the input, then those of the state.
    bias: Vec<f32>,
    peephole: Vec<f32>,
}

const PAIR: Names = Names { input: "input_weights", recurrent: Some("recurrent_weights"), bias: "bias", rows: "rows" };
const GRU_GATES: Names = Names {
    input: "gate_input_weights",
    recurrent: Some("gate_recurrent_weights"),
    bias: "gate_bias",
    rows: "gate_rows",
};
const GRU_NEW: Names =
    Names { input: "new_input_weights", recurrent: Some("new_recurrent_weights"), bias: "new_bias", rows: "new_rows" };
const GRU_NEW_INPUT: Names =
    Names { input: "new_input_weights", recurrent: None, bias: "new_input_bias", rows: "new_input_rows" };
const GRU_NEW_RECURRENT: Names =
    Names { input: "new_recurrent_weights", recurrent: None, bias: "new_recurrent_bias", rows: "new_recurrent_rows" };

impl Export {
    pub(super) fn recurrent(&mut self, layer: &Layer<'_, '_>, x: &str) -> Result<Name, NotInOnnx> {
        let node = layer.of.node;
        layer.allow(&["reset_after", "peephole", "clipped"])?;
        let operator = match node.kind {
            CellKind::Lstm => lstm(layer)?,
            CellKind::Gru => gru(layer),
            _ => elman(layer),
        };
        let (units, gates) = (node.hidden_size, operator.input.len() / node.hidden_size.max(1));
        let graph = &mut self.graph;
        let named = |what: &str| format!("{}/{what}", layer.name);
        let mut matrix = |what: &str, rows: &[Row], cols: usize| {
            graph.weights(&named(what), rows, &[1, gates * units, cols], 1, |row, col| row * cols + col)
        };
        let w = matrix("W", &operator.input, node.input_size);
        let r = matrix("R", &operator.recurrent, units);
        let b = graph.floats(&named("B"), &[1, operator.bias.len()], &operator.bias);
        let mut inputs = vec![x.to_owned(), w, r, b];
        if !operator.peephole.is_empty() {
            inputs.extend(std::iter::repeat_n(String::new(), 3));
            inputs.push(graph.floats(&named("P"), &[1, 3 * units], &operator.peephole));
        }
        let mut attributes = vec![int("hidden_size", units as i64)];
        if layer.has("reset_after") {
            attributes.push(int("linear_before_reset", 1));
        }
        attributes.extend(clip(layer));
        attributes.extend(activations(layer)?);
        let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
        // `[steps, 1, n, units]`
        let y = graph.op(layer.name, operator.name, &inputs, attributes);
        let axis = graph.ints(&named("axis"), &[1]);
        Ok(graph.op(layer.name, "Squeeze", &[&y, &axis], vec![]))
    }
}

fn elman(layer: &Layer<'_, '_>) -> Operator {
    let Sums { input, recurrent, mut bias } = layer.of.sums(&PAIR);
    bias.resize(2 * bias.len(), 0.0);
    Operator { name: "RNN", input, recurrent, bias, peephole: Vec::new() }
}

fn lstm(layer: &Layer<'_, '_>) -> Result<Operator, NotInOnnx> {
    let node = layer.of.node;
    if is_clipped(layer) {
        return layer.refuse("ONNX's LSTM does not clip the cell state");
    }
    let order = of_gates(&permutation(LSTM, LSTM_ONNX), node.hidden_size);
    let sums = layer.of.sums(&PAIR);
    let mut bias: Vec<f32> = order.iter().map(|&row| sums.bias[row]).collect();
    bias.resize(2 * bias.len(), 0.0);
    let mut peephole = Vec::new();
    if layer.has("peephole") {
        // The same gates as of the weights, without that of the candidate.
        let names = ["input_peephole", "output_peephole", "forget_peephole"];
        peephole = names.iter().flat_map(|name| layer.of.factors(name)).collect();
    }
    let [input, recurrent] = [&sums.input, &sums.recurrent].map(|rows| Sums::rows(rows, order.iter().copied()));
    Ok(Operator { name: "LSTM", input, recurrent, bias, peephole })
}

/// Whether the packer was told to clip the cell state.
fn is_clipped(layer: &Layer<'_, '_>) -> bool {
    const NONE: i32 = 1 << 15;
    match layer.of.node.integer_spec() {
        Some(spec) => {
            let index = spec.numbers.iter().position(|number| number.name == "cell_clip");
            index.is_some_and(|index| layer.of.node.number(index) != NONE)
        }
        None => layer
            .of
            .node
            .spec()
            .params
            .iter()
            .position(|param| param.name == "cell_clip")
            .is_some_and(|index| layer.of.node.param(index) != 0.0),
    }
}

fn gru(layer: &Layer<'_, '_>) -> Operator {
    let units = layer.of.node.hidden_size;
    let gates = layer.of.sums(&GRU_GATES);
    let (new, new_bias) = if layer.has("reset_after") {
        let [of_input, of_state] = [&GRU_NEW_INPUT, &GRU_NEW_RECURRENT].map(|names| layer.of.sums(names));
        (Sums { input: of_input.input, recurrent: of_state.input, bias: of_input.bias }, of_state.bias)
    } else {
        (layer.of.sums(&GRU_NEW), vec![0.0; units])
    };
    // n is the last gate in both orders, and has tensors of its own.
    let [first, second, _] = permutation(GRU, GRU_KERAS);
    let order = of_gates(&[first, second], units);
    let rows = |gates: &[Row], new: Vec<Row>| Sums::rows(gates, order.iter().copied()).into_iter().chain(new).collect();
    let mut bias: Vec<f32> = order.iter().map(|&row| gates.bias[row]).chain(new.bias).collect();
    bias.extend(vec![0.0; 2 * units].into_iter().chain(new_bias));
    let (input, recurrent) = (rows(&gates.input, new.input), rows(&gates.recurrent, new.recurrent));
    Operator { name: "GRU", input, recurrent, bias, peephole: Vec::new() }
}

/// The rows of an image, whose gates are next to each other for each unit, gate by gate.
fn of_gates<const N: usize>(gates: &[usize; N], units: usize) -> Vec<usize> {
    gates.iter().flat_map(|gate| (0..units).map(move |unit| N * unit + gate)).collect()
}

/// The bound of the activations' arguments, which only float nodes have.
fn clip(layer: &Layer<'_, '_>) -> Option<AttributeProto> {
    let params = layer.of.node.spec().params;
    let index = params.iter().position(|param| param.name == "preact_clip")?;
    layer.has("clipped").then(|| float("clip", layer.of.node.param(index)))
}

/// The activations, unless they are ONNX's own.
fn activations(layer: &Layer<'_, '_>) -> Result<Vec<AttributeProto>, NotInOnnx> {
    let node = layer.of.node;
    let specs = node.spec().activations;
    if (0..).zip(specs).all(|(index, spec)| node.activation(index) == spec.default) {
        return Ok(Vec::new());
    }
    let (mut names, mut alpha, mut beta) = (Vec::new(), Vec::new(), Vec::new());
    for (index, spec) in specs.iter().enumerate() {
        let Some((name, a, b)) = activation::recurrent(node.activation(index)) else {
            return layer.refuse(format!("ONNX has no {} {}", spec.name, node.activation(index)));
        };
        names.push(name);
        alpha.extend(a);
        beta.extend(b);
    }
    let mut attributes = vec![strings("activations", &names)];
    attributes.extend((!alpha.is_empty()).then(|| floats("activation_alpha", alpha)));
    attributes.extend((!beta.is_empty()).then(|| floats("activation_beta", beta)));
    Ok(attributes)
}
