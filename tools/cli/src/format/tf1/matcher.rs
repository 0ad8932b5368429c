//! What the patterns are written with. A matcher remembers which nodes were read, and how much a graph may still
//! ask of memory and time. Identity, constants entering the loop and the loop's own switches are looked through.

use tidegate::activation::Activation;

use super::graph::{Graph, GraphNode, Value};
use crate::canonical::Tensor;
use crate::error::ImportError;
use crate::format::graphdef::attr_value::Value as Attr;
use crate::format::graphdef::{MAX_VALUES, TensorProto};

/// Most integer expressions that are evaluated: the Hello Edge graphs need about 20.
const MAX_FOLDS: usize = 1000;

pub struct Matcher<'g> {
    pub graph: &'g Graph<'g>,
    /// By node.
    read: Vec<bool>,
    /// Weights that may still be copied out, over all constants.
    values_left: usize,
    /// See [`super::fold`].
    pub folds_left: usize,
    /// The frame and the condition of the one loop there may be.
    frame: Option<&'g [u8]>,
    condition: Option<Value>,
}

impl<'g> Matcher<'g> {
    pub fn new(graph: &'g Graph<'g>) -> Self {
        Self {
            graph,
            read: vec![false; graph.nodes.len()],
            values_left: MAX_VALUES,
            folds_left: MAX_FOLDS,
            frame: None,
            condition: None,
        }
    }

    /// The error of a node that does not fit.
    pub fn fail<T>(&self, value: Value, reason: impl Into<String>) -> Result<T, ImportError> {
        let def = self.node(value).def;
        Err(ImportError::Node { node: def.name.clone(), op: def.op.clone(), reason: reason.into() })
    }

    pub fn node(&self, value: Value) -> &'g GraphNode<'g> {
        &self.graph.nodes[value.node]
    }

    /// Where a value comes from, through what passes it on unchanged. The state of a loop comes from its Merge.
    pub fn source(&mut self, mut value: Value) -> Result<Value, ImportError> {
        loop {
            let inputs = &self.node(value).inputs;
            value = match (self.node(value).def.op.as_str(), inputs.as_slice()) {
                ("Identity", &[input]) if value.output == 0 => {
                    self.read[value.node] = true;
                    input
                }
                ("Enter", &[input]) if value.output == 0 => {
                    self.enter(value, true)?;
                    input
                }
                ("Switch", &[data, condition]) if value.output == 1 => {
                    self.switch(value, condition)?;
                    data
                }
                // Every step goes to an input, and the graph has no cycles, so this ends.
                _ => return Ok(value),
            };
        }
    }

    /// Reads an Enter, which must be of the one loop.
    pub fn enter(&mut self, value: Value, constant: bool) -> Result<(), ImportError> {
        let frame = match self.attr(value, "frame_name") {
            Some(Attr::Bytes(frame)) => frame.as_slice(),
            _ => return self.fail(value, "it has no frame_name"),
        };
        if *self.frame.get_or_insert(frame) != frame {
            return self.fail(value, "it belongs to a second loop, but one loop is read");
        }
        if self.flag(value, "is_constant", false)? != constant {
            return self.fail(value, format!("is_constant is {}, but must be {constant}", !constant));
        }
        self.read[value.node] = true;
        Ok(())
    }

    /// Reads a Switch, which must obey the one loop's condition.
    pub fn switch(&mut self, value: Value, condition: Value) -> Result<(), ImportError> {
        if *self.condition.get_or_insert(condition) != condition {
            return self.fail(value, "it obeys another condition than the loop's");
        }
        self.read[value.node] = true;
        Ok(())
    }

    /// The op behind a value.
    pub fn op(&mut self, value: Value) -> Result<(Value, &'g str), ImportError> {
        let value = self.source(value)?;
        Ok((value, self.node(value).def.op.as_str()))
    }

    /// The inputs of the node behind a value, which must be output 0 of this op.
    pub fn expect<const N: usize>(&mut self, value: Value, op: &str) -> Result<[Value; N], ImportError> {
        let value = self.source(value)?;
        self.expect_output(value, op, 0)
    }

    /// As [`Matcher::expect`] for another output, without looking through anything.
    pub fn expect_output<const N: usize>(
        &mut self,
        value: Value,
        op: &str,
        output: usize,
    ) -> Result<[Value; N], ImportError> {
        let node = self.node(value);
        if node.def.op != op || value.output != output {
            return self.fail(value, format!("output {} is used where output {output} of {op} must be", value.output));
        }
        let Ok(inputs) = <[Value; N]>::try_from(node.inputs.as_slice()) else {
            return self.fail(value, format!("it has {} inputs, but needs {N}", node.inputs.len()));
        };
        self.read[value.node] = true;
        Ok(inputs)
    }

    /// The operands of a sum.
    pub fn sum(&mut self, value: Value) -> Result<[Value; 2], ImportError> {
        match self.op(value)? {
            (value, "AddV2") => self.expect(value, "AddV2"),
            (value, _) => self.expect(value, "Add"),
        }
    }

    /// A sum with a bias, which stands last.
    pub fn biased(&mut self, value: Value) -> Result<[Value; 2], ImportError> {
        let (value, op) = self.op(value)?;
        if op != "BiasAdd" {
            return self.sum(value);
        }
        match self.attr(value, "data_format") {
            None => {}
            Some(Attr::Bytes(format)) if format == b"NHWC" => {}
            Some(_) => return self.fail(value, "its data_format must be NHWC"),
        }
        self.expect(value, "BiasAdd")
    }

    /// The factors of a matrix product without transposes.
    pub fn product(&mut self, value: Value) -> Result<[Value; 2], ImportError> {
        let value = self.source(value)?;
        let factors = self.expect(value, "MatMul")?;
        for transpose in ["transpose_a", "transpose_b"] {
            if self.flag(value, transpose, false)? {
                return self.fail(value, format!("{transpose} must be false"));
            }
        }
        Ok(factors)
    }

    /// The activation at a value and what it is applied to, if it is one.
    pub fn activation(&mut self, value: Value) -> Result<Option<(Activation, Value)>, ImportError> {
        let (value, op) = self.op(value)?;
        let activation = match op {
            "Sigmoid" => Activation::Sigmoid,
            "Tanh" => Activation::Tanh,
            "Relu" => Activation::Relu,
            "Softsign" => Activation::Softsign,
            _ => return Ok(None),
        };
        let [input] = self.expect(value, op)?;
        Ok(Some((activation, self.source(input)?)))
    }

    /// The outputs of a Split along the features come from this value; `output` is one of them.
    pub fn split(&mut self, output: Value, parts: i64) -> Result<Value, ImportError> {
        let [axis, whole] = self.expect_output(output, "Split", output.output)?;
        if self.int(output, "num_split")? != Some(parts) {
            return self.fail(output, format!("it must split into {parts}"));
        }
        self.axis_of_features(output, axis)?;
        Ok(whole)
    }

    /// An axis input must be 1 (or -1): the features of [batch, features].
    pub fn axis_of_features(&mut self, of: Value, axis: Value) -> Result<(), ImportError> {
        match self.scalar(axis)? {
            1 | -1 => Ok(()),
            axis => self.fail(of, format!("its axis is {axis}, but must be 1, the features")),
        }
    }

    /// The constant behind a value.
    pub fn proto(&mut self, value: Value) -> Result<(Value, &'g TensorProto), ImportError> {
        let value = self.source(value)?;
        let [] = self.expect(value, "Const")?;
        match self.attr(value, "value") {
            Some(Attr::Tensor(proto)) => Ok((value, proto)),
            _ => self.fail(value, "it has no value"),
        }
    }

    /// Whether a constant is behind a value.
    pub fn is_constant(&mut self, value: Value) -> Result<bool, ImportError> {
        Ok(self.op(value)?.1 == "Const")
    }

    /// The float constant behind a value.
    pub fn constant(&mut self, value: Value) -> Result<Tensor, ImportError> {
        let (value, proto) = self.proto(value)?;
        let len = proto.dims().map(|dims| dims.iter().product::<usize>());
        match len.as_ref().ok().and_then(|len| self.values_left.checked_sub(*len)) {
            Some(left) => self.values_left = left,
            None if len.is_ok() => return self.fail(value, format!("the weights have more than {MAX_VALUES} values")),
            None => {}
        }
        proto.floats().or_else(|reason| self.fail(value, reason))
    }

    /// The single float behind a value.
    pub fn number(&mut self, value: Value) -> Result<f32, ImportError> {
        match *self.constant(value)?.data {
            [number] => Ok(number),
            _ => self.fail(value, "it must be a single number"),
        }
    }

    pub fn attr(&self, value: Value, name: &str) -> Option<&'g Attr> {
        self.node(value).def.attr.get(name)?.value.as_ref()
    }

    pub fn flag(&self, value: Value, name: &str, default: bool) -> Result<bool, ImportError> {
        match self.attr(value, name) {
            None => Ok(default),
            Some(&Attr::Bool(flag)) => Ok(flag),
            Some(_) => self.fail(value, format!("its attribute {name} must be a flag")),
        }
    }

    pub fn int(&self, value: Value, name: &str) -> Result<Option<i64>, ImportError> {
        match self.attr(value, name) {
            None => Ok(None),
            Some(&Attr::Int(int)) => Ok(Some(int)),
            Some(_) => self.fail(value, format!("its attribute {name} must be an integer")),
        }
    }

    pub fn float(&self, value: Value, name: &str) -> Result<Option<f32>, ImportError> {
        match self.attr(value, name) {
            None => Ok(None),
            Some(&Attr::Float(float)) => Ok(Some(float)),
            Some(_) => self.fail(value, format!("its attribute {name} must be a number")),
        }
    }

    /// Refuses the graph if a node that somebody uses was read by no pattern.
    pub fn check_all_read(&self) -> Result<(), ImportError> {
        match (0..self.read.len()).find(|&node| self.graph.used[node] && !self.read[node]) {
            Some(node) => self.fail(Value { node, output: 0 }, "no pattern that this importer knows has it here"),
            None => Ok(()),
        }
    }
}
