//! TensorFlow graphs written by hand: hostile ones, and reduced copies of those that TensorFlow wrote.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use tidegate_model::format::graphdef::attr_value::Value as Attr;
use tidegate_model::format::graphdef::{self, AttrValue, NodeDef, TensorProto, TensorShape};

/// A graph under construction.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// Nodes of the graph.
    pub nodes: Vec<NodeDef>,
}

/// A shape; -1 is an unknown dimension.
pub fn shape(dims: &[i64]) -> TensorShape {
    let dim = dims.iter().map(|&size| graphdef::Dim { size }).collect();
    TensorShape { dim, unknown_rank: false }
}

impl Graph {
    /// A graph with an input `x` of this shape.
    pub fn of_input(dims: &[i64]) -> Self {
        let mut graph = Self::default();
        graph.fed("x", graphdef::FLOAT, dims);
        graph
    }

    /// Adds a node with these inputs. [`Graph::with`] then gives it attributes.
    pub fn node(&mut self, name: &str, op: &str, inputs: &[&str]) -> &mut Self {
        let input = inputs.iter().map(|&input| input.to_owned()).collect();
        self.nodes.push(NodeDef { name: name.to_owned(), op: op.to_owned(), input, attr: BTreeMap::new() });
        self
    }

    /// Adds an attribute to the last node.
    pub fn with(&mut self, name: &str, value: Attr) -> &mut Self {
        let last = self.nodes.last_mut().expect("there is a node");
        last.attr.insert(name.to_owned(), AttrValue { value: Some(value) });
        self
    }

    /// Adds a placeholder.
    pub fn fed(&mut self, name: &str, dtype: i32, dims: &[i64]) -> &mut Self {
        self.node(name, "Placeholder", &[]).with("dtype", Attr::Type(dtype)).with("shape", Attr::Shape(shape(dims)))
    }

    /// Adds an integer constant. If there are fewer values than the shape has elements, the last one repeats.
    pub fn ints(&mut self, name: &str, dims: &[i64], values: &[i32]) -> &mut Self {
        let proto = TensorProto {
            dtype: graphdef::INT32,
            shape: Some(shape(dims)),
            int_val: values.to_vec(),
            ..TensorProto::default()
        };
        self.node(name, "Const", &[]).with("value", Attr::Tensor(Box::new(proto)))
    }

    /// Adds a float constant in the same way.
    pub fn floats(&mut self, name: &str, dims: &[i64], values: &[f32]) -> &mut Self {
        let proto = TensorProto {
            dtype: graphdef::FLOAT,
            shape: Some(shape(dims)),
            float_val: values.to_vec(),
            ..TensorProto::default()
        };
        self.node(name, "Const", &[]).with("value", Attr::Tensor(Box::new(proto)))
    }

    /// Encodes the graph as a file.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for node in &self.nodes {
            prost::encoding::message::encode(1, node, &mut bytes);
        }
        bytes
    }

    /// A reduced copy of the graph: short names, only the attributes that are read, and one value for all elements of a
    /// tensor.
    #[must_use]
    pub fn small(mut self) -> Self {
        const READ: [&str; 24] = [
            "value",
            "dtype",
            "shape",
            "frame_name",
            "is_constant",
            "axis",
            "num",
            "num_split",
            "strides",
            "dilations",
            "padding",
            "ksize",
            "squeeze_dims",
            "transpose_b",
            "keep_dims",
            "begin_mask",
            "end_mask",
            "shrink_axis_mask",
            "DstT",
            "forget_bias",
            "cell_clip",
            "use_peephole",
            "seq_dim",
            "is_training",
        ];
        let mut passed: HashMap<String, String> = HashMap::new();
        for node in self.nodes.iter().filter(|node| node.op == "Identity") {
            let first = node.input.first().cloned().unwrap_or_default();
            passed.insert(node.name.clone(), passed.get(&first).cloned().unwrap_or(first));
        }
        for input in self.nodes.iter_mut().flat_map(|node| &mut node.input) {
            while let Some(before) = passed.get(input) {
                input.clone_from(before);
            }
        }
        let last = self.nodes.len() - 1;
        let mut number = 0..;
        self.nodes.retain(|node| number.next() == Some(last) || node.op != "Identity");
        let used: HashSet<String> = self.nodes.iter().flat_map(|node| node.input.iter().cloned()).collect();
        self.nodes.retain(|node| node.op != "Const" || used.contains(&node.name));
        let mut names = HashMap::new();
        for (number, node) in self.nodes.iter_mut().enumerate() {
            let name = format!("n{number}");
            names.insert(std::mem::replace(&mut node.name, name.clone()), name);
        }
        let mut frames = BTreeSet::new();
        for node in &mut self.nodes {
            node.attr.retain(|name, _| READ.contains(&name.as_str()));
            node.input.retain(|input| !input.starts_with('^'));
            if let Some(AttrValue { value: Some(Attr::Tensor(proto)) }) = node.attr.get_mut("value")
                && (proto.dtype, proto.tensor_content.len() > 32) == (graphdef::FLOAT, true)
            {
                proto.tensor_content.clear();
                proto.float_val = vec![0.25];
            }
            if let Some(AttrValue { value: Some(Attr::Bytes(frame)) }) = node.attr.get_mut("frame_name") {
                frames.insert(frame.clone());
                *frame = format!("f{}", frames.range(..frame.clone()).count()).into_bytes();
            }
            for input in &mut node.input {
                let (name, output) = input.split_once(':').unwrap_or((input, ""));
                let colon = if output.is_empty() { "" } else { ":" };
                *input = format!("{}{colon}{output}", names.get(name).map_or(name, String::as_str));
            }
        }
        self
    }
}
