//! A packed network as standard ONNX, to view and to run elsewhere: LSTM, GRU and other operators in floats, with the
//! weights of the image behind `DequantizeLinear`. The file takes `[n, steps, features]` from a zero state and returns
//! `[n, rows, classes]`: a row for each step that has an output, or one for the window of a schedule.

mod activation;
mod graph;
mod layers;
mod recurrent;
mod sums;

use std::collections::HashMap;
use std::fmt;

use tidegate::internals::node::Node;
use tidegate::{Model, Numeric, Schedule};

use self::graph::{Dim, Graph, Name, ints};
use self::sums::Scaled;
use crate::inspect::named_nodes;

/// A layer that ONNX cannot express.
#[derive(Debug)]
pub struct NotInOnnx {
    layer: String,
    reason: String,
}

impl fmt::Display for NotInOnnx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { layer, reason } = self;
        write!(f, "layer {layer:?}: {reason}: run the image itself, which computes what the device computes")
    }
}

impl std::error::Error for NotInOnnx {}

/// A value of the network: one row for each step of each sequence.
#[derive(Clone)]
struct Value {
    /// `[steps, n, size]` in the graph.
    name: Name,
    size: usize,
    /// The real value of the integer 1; 1 in a float numeric.
    scale: f64,
}

/// A node under conversion.
struct Layer<'s, 'a> {
    name: &'s str,
    of: Scaled<'s, 'a>,
}

impl Layer<'_, '_> {
    fn refuse<T>(&self, reason: impl fmt::Display) -> Result<T, NotInOnnx> {
        Err(NotInOnnx { layer: self.name.to_owned(), reason: reason.to_string() })
    }

    /// Refuses the options of the cell that are set, except these.
    fn allow(&self, allowed: &[&str]) -> Result<(), NotInOnnx> {
        let set = (0..).zip(self.of.node.spec().options).filter(|&(bit, _)| self.of.node.has(bit));
        match set.map(|(_, name)| *name).find(|name| !allowed.contains(name)) {
            Some(name) => self.refuse(format!("ONNX has no {} with {name}", self.of.node.spec().name)),
            None => Ok(()),
        }
    }

    fn has(&self, option: &str) -> bool {
        (0..).zip(self.of.node.spec().options).any(|(bit, name)| *name == option && self.of.node.has(bit))
    }

    /// An extent by its name in the spec.
    fn extent(&self, name: &str) -> usize {
        let index = self.of.node.spec().extents.iter().position(|extent| extent.name == name);
        self.of.node.extent(index.expect("the spec has this extent"))
    }
}

/// The bytes of an ONNX file with this network, whose graph has this name.
///
/// # Errors
/// If ONNX has no operator for a layer.
pub fn to_onnx(model: &Model<'_>, name: &str) -> Result<Vec<u8>, NotInOnnx> {
    let nodes = named_nodes(model);
    if model.numeric() == Numeric::I8 {
        let layer = nodes.first().map_or_else(String::new, |(name, _)| name.clone());
        let reason = "its integers are those of TFLite, whose rounding ONNX has not; the TFLite file can be viewed";
        return Err(NotInOnnx { layer, reason: reason.to_owned() });
    }
    let mut export = Export { graph: Graph::default(), values: HashMap::new() };
    export.inputs(model);
    let mut scales = model.node_scales().map(f64::from);
    for (name, node) in &nodes {
        let output = scales.next().unwrap_or(1.0);
        export.layer(name, node, model.numeric(), output)?;
    }
    export.outputs(model);
    Ok(export.graph.finish(name))
}

struct Export {
    graph: Graph,
    /// The values by the first elements of their slots.
    values: HashMap<usize, Value>,
}

impl Export {
    fn inputs(&mut self, model: &Model<'_>) {
        for port in model.inputs().chain(model.outputs()) {
            self.graph.name(port.name);
        }
        let steps = || match model.schedule() {
            Schedule::Endless => Dim::Open("steps"),
            Schedule::Windows { frames, .. } => Dim::Fixed(frames as usize),
        };
        for (port, ((slot, size), scale)) in model.inputs().zip(model.inputs().slots()) {
            self.graph.input(port.name, &[Dim::Open("n"), steps(), Dim::Fixed(size)]);
            let name = self.graph.op(port.name, "Transpose", &[port.name], vec![ints("perm", &[1, 0, 2])]);
            self.values.insert(slot, Value { name, size, scale: scale.into() });
        }
    }

    fn outputs(&mut self, model: &Model<'_>) {
        for (port, ((slot, size), _)) in model.outputs().zip(model.outputs().slots()) {
            let Some(value) = self.values.get(&slot).cloned() else { continue };
            let (rows, last) = match model.schedule() {
                Schedule::Endless => (Dim::Open("rows"), value.name),
                Schedule::Windows { .. } => (Dim::Fixed(1), self.sliced(port.name, &value.name, 0, [-1, i64::MAX, 1])),
            };
            self.graph.output(port.name, &[Dim::Open("n"), rows, Dim::Fixed(size)]);
            self.graph.last("Transpose", &[&last], vec![ints("perm", &[1, 0, 2])], port.name);
        }
    }

    /// Slices a value along an axis: every `step`-th element from `start` up to, but not including, `end`.
    fn sliced(&mut self, layer: &str, x: &str, axis: i64, [start, end, step]: [i64; 3]) -> Name {
        let numbers = [("start", start), ("end", end), ("axis", axis), ("step", step)];
        let [start, end, axis, step] =
            numbers.map(|(name, number)| self.graph.ints(&format!("{layer}/{name}"), &[number]));
        self.graph.op(layer, "Slice", &[x, &start, &end, &axis, &step], vec![])
    }

    fn reshaped(&mut self, layer: &str, x: &str, shape: &[i64]) -> Name {
        let shape = self.graph.ints(&format!("{layer}/shape"), shape);
        self.graph.op(layer, "Reshape", &[x, &shape], vec![])
    }

    fn layer(&mut self, name: &str, node: &Node<'_>, numeric: Numeric, output: f64) -> Result<(), NotInOnnx> {
        let mut layer = Layer { name, of: Scaled { node, numeric, input: 1.0, output } };
        let x = self.input(&mut layer)?;
        let mut y = self.node(&layer, x)?;
        if node.unroll.is_some() {
            y = self.reshaped(name, &y, &[0, -1, (node.steps() * node.output_size) as i64]);
        }
        let size = node.steps() * node.output_size;
        self.values.insert(node.output().start, Value { name: y, size, scale: output });
        Ok(())
    }

    /// The input of a node as `[steps, n, size]`, or as `[steps, n · rows, size]` if the node runs over the rows of a window.
    /// Sets the input scale of `layer`.
    fn input(&mut self, layer: &mut Layer<'_, '_>) -> Result<Name, NotInOnnx> {
        let node = layer.of.node;
        let is_over_rows = node.unroll.is_some();
        if node.unroll.is_some_and(|unroll| unroll.read_backwards != unroll.write_backwards) {
            return layer.refuse("it reverses the rows of a window");
        }
        let mut parts: Vec<Value> = Vec::new();
        for (start, elements) in (0..).map_while(|index| node.slot(index)) {
            let found = self.values.get(&start).filter(|value| value.size == elements * node.steps()).cloned();
            let Some(mut value) = found else { return layer.refuse("it reads a part of a value") };
            if is_over_rows {
                value.name = self.reshaped(layer.name, &value.name, &[0, -1, elements as i64]);
            }
            parts.push(value);
        }
        let scales = || parts.iter().map(|part| part.scale);
        let first = scales().next().unwrap_or(1.0);
        if node.integer_spec().is_some_and(|spec| spec.tensors.iter().any(|tensor| tensor.cols.is_some()))
            && scales().any(|scale| scale != first)
        {
            return layer.refuse("its inputs have different scales");
        }
        layer.of.input = first;
        let names: Vec<&str> = parts.iter().map(|part| part.name.as_str()).collect();
        Ok(match names[..] {
            [one] => one.to_owned(),
            _ => self.graph.op(layer.name, "Concat", &names, vec![graph::int("axis", 2)]),
        })
    }
}
