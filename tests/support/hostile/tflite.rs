//! TFLite models, whose tables may be shared.

use super::{Hostile, hostile};

pub fn all() -> Vec<Hostile> {
    vec![hostile("shared_operator.tflite", shared_operator()), hostile("shared_weights.tflite", shared_weights())]
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

/// A model of `operators` fully connected layers, all one table that reads the tensors `ports`. Tensor 0 is `[1, size]`,
/// the input, the output and what each layer writes; tensor 1 is `[size, size]` with `data`.
fn model(operators: usize, ports: &[u32], size: u32, data: &[u8]) -> Vec<u8> {
    const FULLY_CONNECTED: u32 = 9;
    const TENSORS: usize = 2;
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let mut flat = Flat::new();
    let root = flat.table(&[(0, 3), (1, 0), (2, 0), (4, 0)]);
    flat.point(0, root);
    let codes = flat.shared(1);
    flat.point(slot(root, 1), codes);
    let of = flat.table(&[(0, FULLY_CONNECTED)]);
    flat.point_all(codes, 1, of);
    let graphs = flat.shared(1);
    flat.point(slot(root, 2), graphs);
    let graph = flat.table(&[(0, 0), (1, 0), (2, 0), (3, 0)]);
    flat.point_all(graphs, 1, graph);
    let all = flat.shared(TENSORS);
    flat.point(slot(graph, 0), all);
    for (k, shape) in [[1, size], [size, size]].iter().enumerate() {
        let tensor = flat.table(&[(0, 0), (1, 0), (2, k as u32), (3, 0)]);
        flat.point(all + 4 + 4 * k, tensor);
        let dims = flat.vector(2, &words(shape));
        flat.point(slot(tensor, 0), dims);
        let name = flat.vector(1, b"t\0\0\0");
        flat.point(slot(tensor, 3), name);
    }
    for k in [1, 2] {
        let port = flat.vector(1, &words(&[0]));
        flat.point(slot(graph, k), port);
    }
    let list = flat.shared(operators);
    flat.point(slot(graph, 3), list);
    let operator = flat.table(&[(1, 0), (2, 0), (8, 0)]);
    flat.point_all(list, operators, operator);
    let inputs = flat.vector(ports.len(), &words(ports));
    let output = flat.vector(1, &words(&[0]));
    let intermediates = flat.vector(256, &words(&[0; 256]));
    for (k, to) in [inputs, output, intermediates].into_iter().enumerate() {
        flat.point(slot(operator, k), to);
    }
    let buffers = flat.shared(2);
    flat.point(slot(root, 3), buffers);
    let buffer = flat.table(&[(0, 0)]);
    flat.point_all(buffers, 2, buffer);
    let content = flat.vector(data.len(), data);
    flat.point(slot(buffer, 0), content);
    flat.0
}

/// 16,384 operators of 256 inputs and 256 intermediates, all one table.
fn shared_operator() -> Vec<u8> {
    model(16_384, &[0; 256], 2, &[0; 16])
}

/// Layers that share a matrix of 1,000 by 1,000 weights.
fn shared_weights() -> Vec<u8> {
    model(1_000, &[0, 1], 1000, &[0; 4_000_000])
}
