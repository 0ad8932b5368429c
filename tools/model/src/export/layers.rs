//! Layers without a recurrent state.

use tidegate::internals::cell::CellKind;

use super::graph::{Name, int, ints};
use super::sums::{Names, Sums};
use super::{Export, Layer, NotInOnnx, activation};

/// The sums of a layer with one matrix.
const LAYER: Names = Names { input: "weights", recurrent: None, bias: "bias", rows: "rows" };

impl Export {
    /// The output of a node for this input.
    pub(super) fn node(&mut self, layer: &Layer<'_, '_>, x: Name) -> Result<Name, NotInOnnx> {
        let node = layer.of.node;
        let is_recurrent = matches!(node.kind, CellKind::Elman | CellKind::Lstm | CellKind::Gru | CellKind::Window);
        if is_recurrent && node.unroll.is_some() {
            return layer.refuse("it runs over the rows of a window, with a state");
        }
        match node.kind {
            CellKind::Elman | CellKind::Lstm | CellKind::Gru => self.recurrent(layer, &x),
            CellKind::Dense => self.dense(layer, &x),
            CellKind::Conv => self.conv(layer, &x),
            CellKind::Softmax => Ok(self.graph.op(layer.name, "Softmax", &[&x], vec![int("axis", -1)])),
            CellKind::Window => self.window(layer, &x),
            CellKind::Activation => self.activated(layer, &x),
            CellKind::Identity => Ok(x),
            CellKind::Slice => self.slice(layer, &x),
            CellKind::Gather => self.gather(layer, &x),
            CellKind::Merge => self.merge(layer, &x),
            _ => layer.refuse(format!("{} is not exported", node.spec().name)),
        }
    }

    /// The activation of a layer, which has one.
    fn activated(&mut self, layer: &Layer<'_, '_>, x: &str) -> Result<Name, NotInOnnx> {
        let activation = layer.of.node.activation(0);
        match activation::apply(&mut self.graph, layer.name, activation, x) {
            Some(y) => Ok(y),
            None => layer.refuse(format!("the activation {activation} is not exported")),
        }
    }

    fn dense(&mut self, layer: &Layer<'_, '_>, x: &str) -> Result<Name, NotInOnnx> {
        let node = layer.of.node;
        if layer.extent("groups") != 1 {
            return layer.refuse("its weights are block-diagonal");
        }
        let (cols, rows) = (node.input_size, node.output_size);
        let Sums { input, bias, .. } = layer.of.sums(&LAYER);
        let weights = format!("{}/weights", layer.name);
        let weights = self.graph.weights(&weights, &input, &[rows, cols], 0, |row, col| row * cols + col);
        // onnxruntime replaces a product with dequantized weights by one that rounds the values to 8 bits, unless the
        // weights are transposed in between.
        let weights = self.graph.op(layer.name, "Transpose", &[&weights], vec![ints("perm", &[1, 0])]);
        let product = self.graph.op(layer.name, "MatMul", &[x, &weights], vec![]);
        let bias = self.graph.floats(&format!("{}/bias", layer.name), &[rows], &bias);
        let sum = self.graph.op(layer.name, "Add", &[&product, &bias], vec![]);
        self.activated(layer, &sum)
    }

    /// A convolution over the image `[height, width, channels]` of each step. ONNX has the channels before the height.
    fn conv(&mut self, layer: &Layer<'_, '_>, x: &str) -> Result<Name, NotInOnnx> {
        let of = |names: &[&str]| names.iter().map(|name| layer.extent(name) as i64).collect::<Vec<_>>();
        let (groups, filters) = (layer.extent("groups"), layer.of.node.hidden_size);
        let [height, width] = [layer.extent("kernel_height"), layer.extent("kernel_width")];
        let channels = layer.extent("in_channels") / groups;
        let Sums { input, bias, .. } = layer.of.sums(&LAYER);
        let place = |row: usize, col: usize| (row * channels + col % channels) * height * width + col / channels;
        let weights = format!("{}/weights", layer.name);
        let weights = self.graph.weights(&weights, &input, &[filters, channels, height, width], 0, place);
        let bias = self.graph.floats(&format!("{}/bias", layer.name), &[filters], &bias);
        let image: Vec<i64> = [-1].into_iter().chain(of(&["in_height", "in_width", "in_channels"])).collect();
        let images = self.reshaped(layer.name, x, &image);
        let images = self.graph.op(layer.name, "Transpose", &[&images], vec![ints("perm", &[0, 3, 1, 2])]);
        let attributes = vec![
            ints("kernel_shape", &of(&["kernel_height", "kernel_width"])),
            ints("strides", &of(&["stride_height", "stride_width"])),
            ints("dilations", &of(&["dilation_height", "dilation_width"])),
            ints("pads", &of(&["pad_top", "pad_left", "pad_bottom", "pad_right"])),
            int("group", groups as i64),
        ];
        let y = self.graph.op(layer.name, "Conv", &[&images, &weights, &bias], attributes);
        let y = self.activated(layer, &y)?;
        let y = self.graph.op(layer.name, "Transpose", &[&y], vec![ints("perm", &[0, 2, 3, 1])]);
        let steps = self.graph.op(layer.name, "Shape", &[x], vec![int("start", 0), int("end", 2)]);
        let size = self.graph.ints(&format!("{}/size", layer.name), &[layer.of.node.output_size as i64]);
        let shape = self.graph.op(layer.name, "Concat", &[&steps, &size], vec![int("axis", 0)]);
        Ok(self.graph.op(layer.name, "Reshape", &[&y, &shape], vec![]))
    }

    /// The last rows side by side: one slice of the steps for each row.
    fn window(&mut self, layer: &Layer<'_, '_>, x: &str) -> Result<Name, NotInOnnx> {
        layer.allow(&[])?;
        let [length, hop, prefill] = ["length", "hop", "prefill"].map(|name| layer.extent(name) as i64);
        let mut x = x.to_owned();
        if prefill > 0 {
            let pads = self.graph.ints(&format!("{}/pads", layer.name), &[prefill, 0, 0, 0, 0, 0]);
            x = self.graph.op(layer.name, "Pad", &[&x, &pads], vec![]);
        }
        let mut rows = Vec::new();
        for row in 0..length {
            let end = if row + 1 == length { i64::MAX } else { row + 1 - length };
            rows.push(self.sliced(layer.name, &x, 0, [row, end, hop]));
        }
        let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
        Ok(self.graph.op(layer.name, "Concat", &rows, vec![int("axis", 2)]))
    }

    fn slice(&mut self, layer: &Layer<'_, '_>, x: &str) -> Result<Name, NotInOnnx> {
        if layer.extent("rows") != 1 {
            return layer.refuse("it takes a part of several rows");
        }
        let first = layer.extent("first");
        Ok(self.sliced(layer.name, x, 2, [first as i64, (first + layer.of.node.output_size) as i64, 1]))
    }

    fn gather(&mut self, layer: &Layer<'_, '_>, x: &str) -> Result<Name, NotInOnnx> {
        let node = layer.of.node;
        let places = node
            .tensor_of(&node.spec().tensors[0], 0)
            .as_chunks::<2>()
            .0
            .iter()
            .map(|bytes| i64::from(u16::from_le_bytes(*bytes)));
        let places: Vec<i64> = places.take(node.output_size).collect();
        if layer.extent("rows") != 1 || places.iter().any(|place| *place >= node.input_size as i64) {
            return layer.refuse("it takes elements of several rows, or pads with zeros");
        }
        let places = self.graph.ints(&format!("{}/index", layer.name), &places);
        Ok(self.graph.op(layer.name, "Gather", &[x, &places], vec![int("axis", 2)]))
    }

    fn merge(&mut self, layer: &Layer<'_, '_>, x: &str) -> Result<Name, NotInOnnx> {
        layer.allow(&["add", "multiply", "average", "maximum", "norm", "subtract"])?;
        let count = layer.of.node.input_size / layer.of.node.output_size;
        let parts = self.graph.op_of(layer.name, "Split", &[x], vec![int("axis", 2)], count);
        let names: Vec<&str> = parts.iter().map(String::as_str).collect();
        let graph = &mut self.graph;
        let mut op = |op: &str, of: &[&str]| graph.op(layer.name, op, of, vec![]);
        if layer.has("multiply") {
            let (first, others) = names.split_first().expect("a merge has parts");
            return Ok(others.iter().fold((*first).to_owned(), |product, part| op("Mul", &[&product, part])));
        }
        if layer.has("subtract") {
            return Ok(op("Sub", &names));
        }
        if layer.has("norm") {
            let squares: Vec<Name> = names.iter().map(|part| op("Mul", &[part, part])).collect();
            let sum = op("Sum", &squares.iter().map(String::as_str).collect::<Vec<_>>());
            return Ok(op("Sqrt", &[&sum]));
        }
        let operators = [("average", "Mean"), ("maximum", "Max")];
        let found = operators.into_iter().find(|(option, _)| layer.has(option));
        Ok(op(found.map_or("Sum", |(_, op)| op), &names))
    }
}
