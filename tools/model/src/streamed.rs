//! A model over windows as a stream. If every layer treats all rows of the window alike, the model can step row by row: each
//! layer then keeps the rows that it reads, and computes only what is new. The outputs are those of the windows that
//! end at each row, bit for bit, from the first whole window on.

use std::collections::{BTreeSet, HashMap};

use tidegate::internals::cell::CellKind;

use crate::canonical::{Architecture, Node, Schedule};

/// Why a model does not step row by row.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the error texts explain the variants and their fields")]
pub enum StreamError {
    #[error("the model has {inputs} inputs; only a model with one can step row by row")]
    Inputs { inputs: usize },
    #[error("the model has windows by its schedule, and steps row by row already")]
    Scheduled,
    #[error("no convolution reads several rows of the input: the model has no window, or steps row by row already")]
    NoRows,
    #[error(
        "{node} ({cell}) {reason}: the model cannot step row by row; without --stream it keeps its window of {rows} rows"
    )]
    Node { node: String, cell: String, reason: String, rows: usize },
    #[error("the output {output} has {rows} rows of time: the model cannot step row by row; leave --stream out")]
    Output { output: String, rows: usize },
}

/// The architecture of the model that steps row by row, with the same tensors. Its input is one row. The model over windows
/// either takes a whole window as its input, or collects the rows of one in a window node.
///
/// # Errors
/// If a layer does not treat all rows of the window alike. The error of the first division into rows is returned.
pub fn streamed(architecture: &Architecture) -> Result<Architecture, StreamError> {
    let [input] = architecture.inputs.as_slice() else {
        return Err(StreamError::Inputs { inputs: architecture.inputs.len() });
    };
    if architecture.schedule != Schedule::Endless {
        return Err(StreamError::Scheduled);
    }
    if architecture.nodes.iter().any(is_opened) {
        return Stream::of(architecture, 1);
    }
    // The height, or for a single row the width, of an image of the input's size is the number of rows.
    let is_image =
        |node: &&Node| node.extent("in_height") > 0 && node.input_size == input.size && node.unroll.is_none();
    let images = || architecture.nodes.iter().filter(is_image);
    let heights = images().map(|node| node.extent("in_height"));
    let widths = images().filter(|node| node.extent("in_height") == 1).map(|node| node.extent("in_width"));
    let counts = heights.chain(widths).filter(|&count| count > 1 && input.size.is_multiple_of(count));
    let mut known = BTreeSet::new();
    let counts: Vec<usize> = counts.filter(|&count| known.insert(count)).collect();
    let mut results = counts.into_iter().map(|count| Stream::of(architecture, count));
    match results.next().ok_or(StreamError::NoRows)? {
        Ok(architecture) => Ok(architecture),
        Err(first) => results.find_map(Result::ok).ok_or(first),
    }
}

/// Whether a node collects windows that do not overlap, each of which is a whole input of the original model.
fn is_opened(node: &Node) -> bool {
    let (length, is_window) = (node.extent("length"), node.cell == CellKind::Window.spec().name);
    is_window && length > 1 && node.extent("hop") == length && node.options.is_empty()
}

/// A value of the model over windows.
#[derive(Clone, Copy, PartialEq)]
struct Rows {
    /// Number of rows of time, the newest last.
    count: usize,
    /// Elements of a row.
    size: usize,
    /// Whether the rows are those of a window, or computed from one. Otherwise the value is that of a single step.
    windowed: bool,
}

/// The model that steps row by row, as far as it is made.
struct Stream {
    nodes: Vec<Node>,
    /// The values of the model over windows.
    rows: HashMap<String, Rows>,
    /// For each window that is collected, the values that replace it; each of them is its newest row.
    sources: HashMap<String, Vec<String>>,
    /// Rows of a window.
    length: usize,
}

impl Stream {
    fn of(architecture: &Architecture, count: usize) -> Result<Architecture, StreamError> {
        let mut stream = Self { nodes: Vec::new(), rows: HashMap::new(), sources: HashMap::new(), length: count };
        let mut result = Architecture { nodes: Vec::new(), ..architecture.clone() };
        for input in &mut result.inputs {
            input.size /= count;
            (input.rows, input.frame) = (None, None);
            stream.rows.insert(input.name.clone(), Rows { count, size: input.size, windowed: count > 1 });
        }
        for node in &architecture.nodes {
            let added = stream.add(node);
            let (node, cell, rows) = (node.name.clone(), node.cell.clone(), stream.length);
            let added = added.map_err(|reason| StreamError::Node { node: node.clone(), cell, reason, rows })?;
            stream.rows.insert(node, added);
        }
        for output in &mut result.outputs {
            let rows = stream.rows.get(&output.from).map_or(1, |rows| rows.count);
            let from = stream.sources.remove(&output.from).unwrap_or_else(|| vec![output.from.clone()]);
            match from.as_slice() {
                [from] if rows == 1 => output.from.clone_from(from),
                _ => return Err(StreamError::Output { output: output.name.clone(), rows }),
            }
        }
        result.nodes = stream.nodes;
        Ok(result)
    }

    /// Adds the node that computes the newest row of the output of a node over windows. Returns the rows of that output.
    /// An error message completes a sentence that begins with the name of the node.
    fn add(&mut self, node: &Node) -> Result<Rows, String> {
        let x = self.input(node)?;
        let node = &Node { inputs: self.sources_of(node), ..node.clone() };
        if !x.windowed && is_opened(node) {
            let length = node.extent("length");
            if self.length != 1 && self.length != length {
                return Err(format!("has {length} rows, another window {}", self.length));
            }
            self.length = length;
            // No node is added: the layers that read the window keep the rows that they need.
            self.sources.insert(node.name.clone(), node.inputs.clone());
            return Ok(Rows { count: length, size: x.size, windowed: true });
        }
        if !x.windowed {
            self.nodes.push(node.clone());
            return Ok(Rows { count: 1, size: node.output_size * node.steps(), windowed: false });
        }
        let has_state = CellKind::from_name(&node.cell).is_none_or(|kind| !kind.spec().states.is_empty());
        if has_state {
            return Err("has a state that follows the windows".to_owned());
        }
        if let Some(unroll) = node.unroll.filter(|unroll| unroll.steps == x.count) {
            if unroll.read_backwards != unroll.write_backwards {
                return Err("reverses the rows".to_owned());
            }
            self.nodes.push(Node { unroll: None, ..node.clone() });
            return Ok(Rows { size: node.output_size, ..x });
        }
        let whole = Rows { count: 1, size: node.output_size * node.steps(), windowed: true };
        if x.count == 1 {
            self.nodes.push(node.clone());
            return Ok(whole);
        }
        let over_all = || format!("reads all {} rows of the window together", x.count);
        match node.cell.as_str() {
            _ if node.unroll.is_some() => Err(over_all()),
            "conv" | "depthwise_conv" | "pool" => self.convolution(node, x),
            "dense" if node.extent("groups") == 1 => {
                let inputs = self.window(node, x.size, x.count);
                self.nodes.push(Node { inputs, ..node.clone() });
                Ok(whole)
            }
            "activation" | "identity" if node.inputs.len() == 1 => Ok(self.by_row(node, x, &[])),
            "merge" if self.is_of_parts(node) => Ok(self.by_row(node, x, &[])),
            "scale" if x.size.is_multiple_of(node.extent("channels")) => Ok(self.by_row(node, x, &[])),
            "slice" if node.extent("rows").is_multiple_of(x.count) => Ok(self.by_row(node, x, &["rows"])),
            "layer_norm" if node.extent("groups").is_multiple_of(x.count) => Ok(self.by_row(node, x, &["groups"])),
            _ => Err(over_all()),
        }
    }

    /// The values that a node reads, with each collected window replaced by the values that it collects.
    fn sources_of(&self, node: &Node) -> Vec<String> {
        let own = |name: &String| self.sources.get(name).cloned().unwrap_or_else(|| vec![name.clone()]);
        node.inputs.iter().flat_map(own).collect()
    }

    /// The rows that a node reads: those of all its inputs side by side.
    fn input(&self, node: &Node) -> Result<Rows, String> {
        let mut all = node.inputs.iter().filter_map(|name| self.rows.get(name));
        let first = *all.next().ok_or("reads nothing")?;
        all.try_fold(first, |all, rows| {
            if rows.count != all.count {
                return Err(format!("joins {} and {} rows", all.count, rows.count));
            }
            Ok(Rows { size: all.size + rows.size, windowed: all.windowed || rows.windowed, ..all })
        })
    }

    /// Whether each input of a merge is one of its parts.
    fn is_of_parts(&self, node: &Node) -> bool {
        let mut sizes = node.inputs.iter().filter_map(|name| self.rows.get(name)).map(|rows| rows.count * rows.size);
        sizes.all(|size| size == node.output_size)
    }

    /// Adds a node that computes each row by itself. The sizes of `node`, and the extents named in `extents`, count all rows.
    fn by_row(&mut self, node: &Node, x: Rows, extents: &[&str]) -> Rows {
        let mut row = Node {
            input_size: node.input_size / x.count,
            hidden_size: node.hidden_size / x.count,
            output_size: node.output_size / x.count,
            ..node.clone()
        };
        for &name in extents {
            row.extents.insert(name.to_owned(), node.extent(name) / x.count);
        }
        let size = row.output_size;
        self.nodes.push(row);
        Rows { size, ..x }
    }

    /// The inputs of a layer over the last `length` rows of the inputs of `node`: these inputs themselves for one row,
    /// otherwise a new window.
    fn window(&mut self, node: &Node, size: usize, length: usize) -> Vec<String> {
        if length == 1 {
            return node.inputs.clone();
        }
        let is_free = |name: &String| !self.rows.contains_key(name);
        let name = (1..).map(|number| format!("{}_rows_{number}", node.name)).find(is_free).unwrap_or_default();
        self.nodes.push(Node {
            name: name.clone(),
            cell: CellKind::Window.spec().name.to_owned(),
            inputs: node.inputs.clone(),
            input_size: size,
            hidden_size: size * length,
            output_size: size * length,
            extents: [("length".to_owned(), length)].into(),
            ..Node::default()
        });
        vec![name]
    }

    /// A kernel along time, which is the height of the image, or the width of an image without height.
    fn convolution(&mut self, node: &Node, x: Rows) -> Result<Rows, String> {
        let flat = ["in_height", "kernel_height", "out_height"].map(|name| node.extent(name)) == [1; 3];
        let (time, before, after, across) = match flat && node.extent("pad_top") + node.extent("pad_bottom") == 0 {
            true if node.extent("in_width") == x.count => ("width", "pad_left", "pad_right", "height"),
            _ => ("height", "pad_top", "pad_bottom", "width"),
        };
        let along = |what: &str| node.extent(&format!("{what}_{time}"));
        let (kernel, stride, out) = (along("kernel"), along("stride"), along("out"));
        let width = node.extent(&format!("in_{across}"));
        if along("in") != x.count || width * node.extent("in_channels") != x.size {
            return Err(format!("reads an image of other rows than the {} of the window", x.count));
        }
        if node.extent(before) + node.extent(after) > 0 {
            return Err("pads the rows of the window, and so sees its border (padding SAME)".to_owned());
        }
        let reach = kernel.saturating_sub(1) * along("dilation") + 1;
        if node.cell == "pool" && kernel > 1 {
            return Err(format!("takes a mean or maximum over {kernel} rows of the window (MEAN or POOL)"));
        }
        if stride > 1 && reach < x.count {
            return Err(format!("has a stride of {stride} along time: a window reads only some of its rows"));
        }
        let inputs = self.window(node, x.size, reach);
        let size = node.output_size / out.max(1);
        let mut row = Node { inputs, input_size: x.size * reach, output_size: size, ..node.clone() };
        for (name, value) in [("in", reach), ("out", 1), ("stride", 1)] {
            row.extents.insert(format!("{name}_{time}"), value);
        }
        self.nodes.push(row);
        Ok(Rows { count: out, size, ..x })
    }
}
