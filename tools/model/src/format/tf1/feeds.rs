//! Sources of values in a graph: constants, placeholders, features of a wav file.

use super::evaluate::{Evaluator, Outputs, Value};
use super::hint;
use super::symbol::{BATCH, Dim, Expr, LENGTH, TIME, fail_if};
use super::{front_end::FrontEnd, graph::Source};
use crate::format::graphdef::{BOOL, FLOAT, INT32, INT64, TensorShape, attr_value::Value as Attr};

impl Evaluator<'_> {
    pub(super) fn constant(&mut self, node: usize) -> Outputs {
        if let Some(branch) = self.branch(node)
            && self.value(Source { node: branch, output: 0 })? == Value::Dead
        {
            return Ok(vec![Value::Dead]);
        }
        let Some(Attr::Tensor(proto)) = self.graph.attr(node, "value") else { return Err("it has no value".into()) };
        if proto.dtype == FLOAT {
            let len: usize = proto.dims()?.iter().product();
            self.arena.spend(len)?;
            let id = self.arena.constant(proto.floats()?)?;
            return Ok(vec![Value::Real(id)]);
        }
        if proto.dtype == BOOL && proto.dims()?.is_empty() {
            return Ok(vec![Value::Bool { value: proto.flag()?, shape: Vec::new() }]);
        }
        if proto.dtype != INT32 && proto.dtype != INT64 {
            return Ok(vec![Value::Nothing]);
        }
        let len: usize = proto.dims()?.iter().product();
        self.spend_ints(len)?;
        let (dims, data) = proto.ints()?;
        if let [_, 2] = *dims {
            return Ok(vec![Value::Paddings(data.as_chunks().0.to_vec())]);
        }
        fail_if(dims.len() > 1, "integers must be a scalar or a vector")?;
        // Smaller integers are reserved for symbols.
        fail_if(data.iter().any(|&value| value < i64::from(i32::MIN)), "its integers are too large")?;
        Ok(vec![Value::Ints { is_scalar: dims.is_empty(), data }])
    }

    /// A placeholder: features, or the lengths of sequences.
    pub(super) fn placeholder(&mut self, node: usize) -> Outputs {
        let (dims, any_rank) = self.dims(node)?;
        match self.graph.attr(node, "dtype") {
            // Old graphs have an empty shape for an unknown one.
            Some(&Attr::Type(FLOAT)) if dims.is_empty() => {
                return Err(hint::shape(self.graph, node));
            }
            Some(&Attr::Type(FLOAT)) => {}
            Some(&Attr::Type(INT32 | INT64)) if dims.len() == 1 || any_rank => {
                let name = &self.graph.nodes[node].def.name;
                self.note(format!("{name:?} is taken as the length of sequences that are full"));
                return self.ints(false, vec![LENGTH]);
            }
            _ => {
                return Err("its value is not known when the network is imported: only floats [batch, steps, features] and the lengths of sequences can be fed"
                    .into());
            }
        }
        fail_if(!(2..=4).contains(&dims.len()), "its shape must be [batch, steps, features]")?;
        let mut shape = Vec::new();
        for (axis, &dim) in dims.iter().enumerate() {
            let size = match (axis, dim) {
                (_, size) if (1..=65_535).contains(&size) => size,
                (0, -1) => BATCH,
                (1, -1) if dims.len() > 2 => TIME,
                _ => return Err("its shape must be [batch, steps, features], the features known".into()),
            };
            shape.push(if axis == 1 && dims.len() > 2 { self.windowed(size, node) } else { size });
        }
        Ok(vec![Value::Real(self.arena.make(Expr::Input(node), shape)?)])
    }

    /// The dimensions of a placeholder, -1 if the graph leaves one open, and whether even their number is open.
    fn dims(&mut self, node: usize) -> Result<(Vec<Dim>, bool), String> {
        let (dims, any_rank) = match self.graph.attr(node, "shape") {
            Some(Attr::Shape(TensorShape { dim, unknown_rank: false })) => {
                (dim.iter().map(|dim| dim.size).collect(), false)
            }
            _ => (Vec::new(), true),
        };
        let name = &self.graph.nodes[node].def.name;
        let Some(given) = self.shapes.get(name) else { return Ok((dims, any_rank)) };
        self.shapes_used.insert(name.clone());
        let given: Vec<Dim> = given.iter().map(|&dim| dim as Dim).collect();
        let fits = dims.is_empty()
            || (dims.len() == given.len() && dims.iter().zip(&given).all(|(&dim, &given)| dim == -1 || dim == given));
        fail_if(!fits, format_args!("its shape is {dims:?}, but --shape says {given:?}"))?;
        Ok((given, false))
    }

    /// The number of steps, or that given by the user if the graph leaves it open.
    fn windowed(&mut self, steps: Dim, node: usize) -> Dim {
        let Some(window) = self.window else { return steps };
        self.window_used = true;
        if steps == TIME {
            return window as Dim;
        }
        if steps != window as Dim {
            self.other_window = Some((self.graph.nodes[node].def.name.to_string(), steps as usize));
        }
        steps
    }

    /// A placeholder with a default. Features are fed; for anything else the default is used.
    pub(super) fn with_default(&mut self, node: usize, default: &Value) -> Outputs {
        match *default {
            Value::Real(id) if self.arena.shape(id).len() > 1 => self.placeholder(node),
            _ => {
                let name = &self.graph.nodes[node].def.name;
                self.note(format!("{name:?} has its default"));
                Ok(vec![default.clone()])
            }
        }
    }

    pub(super) fn mfcc(&mut self, node: usize) -> Outputs {
        let front_end = FrontEnd::read(self.graph, node)?;
        let shape = vec![1, self.windowed(front_end.frames as Dim, node), Dim::from(front_end.mfcc.coefficients)];
        self.front_end = Some(front_end);
        Ok(vec![Value::Real(self.arena.make(Expr::Input(node), shape)?)])
    }
}
