//! TFLite models, whose tables may be shared.

use super::{Hostile, hostile};

pub fn all() -> Vec<Hostile> {
    vec![
        hostile("shared_operator.tflite", shared_operator()),
        hostile("shared_weights.tflite", shared_weights()),
        hostile("split_rows.tflite", split_rows()),
    ]
}

/// Writes FlatBuffers: tables, whose fields have four bytes each, and vectors. Offsets are set once their targets exist.
struct Flat(Vec<u8>);

impl Flat {
    fn new() -> Self {
        Self([&[0; 4], b"TFL3".as_slice()].concat())
    }

    /// A table with these fields. Returns the position of the table.
    fn table(&mut self, fields: &[(usize, u32)]) -> usize {
        let most = fields.iter().map(|(field, _)| *field).max().unwrap_or(0);
        let layout = self.0.len();
        let mut offsets = vec![0_u16; most + 1];
        for (k, (field, _)) in fields.iter().enumerate() {
            offsets[*field] = 4 + 4 * k as u16;
        }
        let lens = [(4 + 2 * offsets.len()) as u16, (4 + 4 * fields.len()) as u16];
        self.0.extend(lens.iter().chain(&offsets).flat_map(|word| word.to_le_bytes()));
        let at = self.0.len();
        self.0.extend(((at - layout) as i32).to_le_bytes());
        self.0.extend(fields.iter().flat_map(|(_, value)| value.to_le_bytes()));
        at
    }

    fn vector(&mut self, len: usize, content: &[u8]) -> usize {
        let at = self.0.len();
        self.0.extend((len as u32).to_le_bytes());
        self.0.extend(content);
        at
    }

    /// Points the offset at `from` to `to`.
    fn point(&mut self, from: usize, to: usize) {
        self.0[from..from + 4].copy_from_slice(&((to - from) as u32).to_le_bytes());
    }

    /// A vector of `len` offsets, all to `of`, which is written behind it.
    fn shared(&mut self, len: usize) -> usize {
        self.vector(len, &vec![0; 4 * len])
    }

    fn point_all(&mut self, vector: usize, len: usize, to: usize) {
        (0..len).for_each(|k| self.point(vector + 4 + 4 * k, to));
    }
}

/// Position of the offset in the k-th of a table's fields.
fn slot(table: usize, k: usize) -> usize {
    table + 4 + 4 * k
}

/// Several operators that all refer to one table.
struct Shared<'a> {
    count: usize,
    code: u32,
    /// Numbers of tensors.
    inputs: &'a [u32],
    /// Numbers of tensors.
    outputs: &'a [u32],
}

/// Dimensions and type of a tensor, and the number of its buffer: 0 without data.
type Tensor<'a> = (&'a [u32], u32, u32);

/// A model whose input and whose output is tensor 0. Buffer 1 holds `data`.
fn model(tensors: &[Tensor<'_>], operators: &[Shared<'_>], data: &[u8]) -> Vec<u8> {
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let mut flat = Flat::new();
    let root = flat.table(&[(0, 3), (1, 0), (2, 0), (4, 0)]);
    flat.point(0, root);
    let codes = flat.shared(operators.len());
    flat.point(slot(root, 1), codes);
    for (k, operator) in operators.iter().enumerate() {
        // The older number has one byte; the newer one is field 3.
        let of = flat.table(&[(0, operator.code.min(127)), (3, operator.code)]);
        flat.point(codes + 4 + 4 * k, of);
    }
    let graphs = flat.shared(1);
    flat.point(slot(root, 2), graphs);
    let graph = flat.table(&[(0, 0), (1, 0), (2, 0), (3, 0)]);
    flat.point_all(graphs, 1, graph);
    let all = flat.shared(tensors.len());
    flat.point(slot(graph, 0), all);
    for (k, (shape, of, buffer)) in tensors.iter().enumerate() {
        let tensor = flat.table(&[(0, 0), (1, *of), (2, *buffer), (3, 0)]);
        flat.point(all + 4 + 4 * k, tensor);
        let dims = flat.vector(shape.len(), &words(shape));
        flat.point(slot(tensor, 0), dims);
        let name = flat.vector(1, b"t\0\0\0");
        flat.point(slot(tensor, 3), name);
    }
    for k in [1, 2] {
        let port = flat.vector(1, &words(&[0]));
        flat.point(slot(graph, k), port);
    }
    let list = flat.shared(operators.iter().map(|operator| operator.count).sum());
    flat.point(slot(graph, 3), list);
    let mut before = 0;
    for (k, Shared { count, inputs, outputs, .. }) in operators.iter().enumerate() {
        let operator = flat.table(&[(1, 0), (2, 0), (8, 0), (0, k as u32)]);
        flat.point_all(list + 4 * before, *count, operator);
        before += count;
        for (k, ports) in [*inputs, *outputs, &[0; 256]].into_iter().enumerate() {
            let ports = flat.vector(ports.len(), &words(ports));
            flat.point(slot(operator, k), ports);
        }
    }
    let buffers = flat.shared(2);
    flat.point(slot(root, 3), buffers);
    let buffer = flat.table(&[(0, 0)]);
    flat.point_all(buffers, 2, buffer);
    let content = flat.vector(data.len(), data);
    flat.point(slot(buffer, 0), content);
    flat.0
}

/// Fully connected layers from tensor 0 to itself. The weights are tensor 1.
fn layers(count: usize, inputs: &[u32], size: u32, data: &[u8]) -> Vec<u8> {
    let tensors: [Tensor<'_>; 2] = [(&[1, size], 0, 0), (&[size, size], 0, 1)];
    model(&tensors, &[Shared { count, code: 9, inputs, outputs: &[0] }], data)
}

/// 16,384 operators of 256 inputs and 256 intermediates, all one table.
fn shared_operator() -> Vec<u8> {
    layers(16_384, &[0; 256], 2, &[0; 16])
}

/// Layers that share a matrix of 1,000 by 1,000 weights.
fn shared_weights() -> Vec<u8> {
    layers(1_000, &[0, 1], 1000, &[0; 4_000_000])
}

/// `SPLIT` of 262,144 rows of time into 256 channels, 1,000 times. They are rows because of a variable that only the last
/// operator names.
fn split_rows() -> Vec<u8> {
    const INT32: u32 = 2;
    const ROWS: u32 = 1 << 18;
    let tensors: [Tensor<'_>; 3] = [(&[1, ROWS, 256], 0, 0), (&[1], INT32, 1), (&[1, ROWS, 1], 0, 0)];
    let split = Shared { count: 1000, code: 49, inputs: &[1, 0], outputs: &[2; 256] };
    model(&tensors, &[split, Shared { count: 1, code: 142, inputs: &[], outputs: &[2] }], &2_u32.to_le_bytes())
}
