//! A GraphDef with its edges resolved and checked, so that it can be walked safely: names are plain and unique, every
//! input exists, and the only cycles are the back edges of while loops.

use std::collections::HashMap;

use crate::error::{ImportError, Result};
use crate::format::graphdef::{NodeDef, attr_value::Value as Attr};

/// Maximum length of a chain of Identity nodes that is followed.
const MAX_BEHIND: usize = 64;

/// Output `output` of node `node`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    pub node: usize,
    pub output: usize,
}

/// A node with its resolved edges.
#[derive(Debug)]
pub struct GraphNode<'a> {
    pub def: &'a NodeDef,
    /// Inputs in the order of the op.
    pub inputs: Vec<Source>,
    /// Control dependencies: nodes that must run first but pass no value.
    pub control: Vec<usize>,
}

#[derive(Debug)]
pub struct Graph<'a> {
    /// Nodes in file order.
    pub nodes: Vec<GraphNode<'a>>,
    /// Whether another node uses the node, by node.
    pub used: Vec<bool>,
    /// The LoopCond that controls the Switch of each Merge, by node.
    pub conditions: Vec<Option<usize>>,
}

impl<'a> Graph<'a> {
    pub fn new(defs: &'a [NodeDef]) -> Result<Self> {
        let mut by_name = HashMap::with_capacity(defs.len());
        for (index, def) in defs.iter().enumerate() {
            if !is_plain(&def.name) || !is_plain(&def.op) {
                return malformed(format!("node {index} has the name {:.80?} and the op {:.80?}", def.name, def.op));
            }
            if by_name.insert(def.name.as_str(), index).is_some() {
                return malformed(format!("two nodes are named '{}'", def.name));
            }
        }
        let mut nodes = Vec::with_capacity(defs.len());
        let mut used = vec![false; defs.len()];
        for def in defs {
            let mut node = GraphNode { def, inputs: Vec::new(), control: Vec::new() };
            for input in &def.input {
                let (is_control, name, output) = parse_input(input);
                let (Some(&index), Some(output)) = (by_name.get(name), output) else {
                    return malformed(format!("node '{}' reads {input:.200?}, which does not exist", def.name));
                };
                used[index] = true;
                if is_control { node.control.push(index) } else { node.inputs.push(Source { node: index, output }) }
            }
            nodes.push(node);
        }
        let mut conditions = vec![None; nodes.len()];
        for node in &nodes {
            if let ("Switch", &[merge, condition]) = (node.def.op.as_str(), &*node.inputs) {
                conditions[merge.node] = Some(condition.node);
            }
        }
        let graph = Self { nodes, used, conditions };
        graph.check_acyclic()?;
        Ok(graph)
    }

    pub fn attr(&self, node: usize, name: &str) -> Option<&'a Attr> {
        self.nodes[node].def.attr.get(name)?.value.as_ref()
    }

    /// The source of a value, skipping nodes that pass it on unchanged.
    pub fn behind(&self, mut source: Source) -> Source {
        for _ in 0..MAX_BEHIND {
            let node = &self.nodes[source.node];
            let ("Identity", &[input]) = (node.def.op.as_str(), &*node.inputs) else { break };
            source = input;
        }
        source
    }

    /// Checks that the graph is acyclic apart from the edges from NextIteration to Merge, by a topological sort.
    fn check_acyclic(&self) -> Result<()> {
        let is_back_edge =
            |from: usize, to: usize| self.nodes[from].def.op == "NextIteration" && self.nodes[to].def.op == "Merge";
        let mut waits_for = vec![0_usize; self.nodes.len()];
        let mut users = vec![Vec::new(); self.nodes.len()];
        for (index, node) in self.nodes.iter().enumerate() {
            for from in node.inputs.iter().map(|input| input.node).chain(node.control.iter().copied()) {
                if !is_back_edge(from, index) {
                    users[from].push(index);
                    waits_for[index] += 1;
                }
            }
        }
        let mut ready: Vec<usize> = (0..self.nodes.len()).filter(|&index| waits_for[index] == 0).collect();
        while let Some(index) = ready.pop() {
            for &user in &users[index] {
                waits_for[user] -= 1;
                if waits_for[user] == 0 {
                    ready.push(user);
                }
            }
        }
        match waits_for.iter().position(|&left| left > 0) {
            Some(index) => malformed(format!("node '{}' needs its own output", self.nodes[index].def.name)),
            None => Ok(()),
        }
    }
}

/// Parses `^name`, `name` or `name:output`.
fn parse_input(input: &str) -> (bool, &str, Option<usize>) {
    match (input.strip_prefix('^'), input.split_once(':')) {
        (Some(name), _) => (true, name, Some(0)),
        (None, Some((name, output))) => (false, name, output.parse().ok()),
        (None, None) => (false, input, Some(0)),
    }
}

/// Whether a name follows TensorFlow's own rule and is short enough for one line.
fn is_plain(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_./\\>-".contains(&byte);
    (1..=250).contains(&name.len()) && name.bytes().all(plain)
}

pub(super) fn malformed<T>(reason: String) -> Result<T> {
    Err(ImportError::Malformed { format: "TensorFlow graph", reason })
}
