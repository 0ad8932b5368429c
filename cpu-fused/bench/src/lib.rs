//! Images of one cell with seeded weights.

use tidegate::internals::{
    activation::Activation,
    cell::{CellKind, Storage},
    write::{ImageWriter, NodeRecord, PortRecord, nodes_header, write_ports},
};
use tidegate::{ImageBytes, Layout, Model, ModelId, Numeric, SectionKind};

/// An image in aligned memory.
pub struct Image(Vec<u128>, usize);

impl Image {
    /// Packs an f32 cell with `options`, named as in its spec. The weights are uniform in ±1/√hidden.
    pub fn of(kind: CellKind, options: &[&str], input: usize, hidden: usize) -> Self {
        let spec = kind.spec();
        let index = |name: &&str| spec.options.iter().position(|option| option == name).expect("an option of the spec");
        let options = options.iter().fold(0, |options, name| options | 1 << index(name));
        let sizes = tidegate::internals::cell::Sizes {
            input,
            hidden,
            output: hidden,
            options,
            extents: &spec.extents.iter().map(|extent| extent.default.to_le_bytes()).collect::<Vec<_>>(),
        };
        let mut seed = 0x9E37_79B9_u32;
        let (mut weights, mut offsets) = (Vec::new(), Vec::new());
        for tensor in spec.tensors.iter().filter(|tensor| tensor.presence.listed(options)) {
            if !tensor.presence.required(options) {
                offsets.push(None);
                continue;
            }
            offsets.push(Some(weights.len() as u32));
            let rows = sizes.dim(&tensor.rows).expect("it fits") * tensor.gates.len().max(1);
            let cols = tensor.cols.map_or(1, |cols| sizes.dim(&cols).expect("it fits"));
            let gain = tensor.storage == Storage::F32 && tensor.name.ends_with("gain");
            for _ in 0..rows.next_multiple_of(4) * cols {
                let value = noise(&mut seed) / (hidden as f32).sqrt();
                weights.extend((if gain { 0.3 + 0.1 * value } else { value }).to_le_bytes());
            }
            weights.resize(weights.len().next_multiple_of(16), 0);
        }
        let record = NodeRecord {
            kind,
            options,
            input_size: input as u32,
            hidden_size: hidden as u32,
            output_size: hidden as u32,
            extents: &spec.extents.iter().map(|extent| extent.default).collect::<Vec<_>>(),
            activations: &spec.activations.iter().map(|of| of.default).collect::<Vec<Activation>>(),
            params: &spec.params.iter().map(|of| if of.name == "epsilon" { 1e-5 } else { 0.0 }).collect::<Vec<_>>(),
            numbers: &[],
            unroll: None,
            output_slot: input as u32,
            slots: &[(0, input as u32)],
            tensors: &offsets,
        };
        let mut nodes = nodes_header(1, (input + hidden) as u32).to_vec();
        let start = nodes.len();
        nodes.resize(start + record.record_bytes(), 0);
        record.write(Numeric::F32, Layout::Portable, &mut nodes[start..]).expect("the buffer is as long as the record");
        let (x, y) = (PortRecord::float("x", input as u32, 0), PortRecord::float("y", hidden as u32, input as u32));
        let mut ports = [0; 128];
        let len = write_ports(&[x], &[y], &mut ports).expect("two short ports");
        let sections = [
            (SectionKind::Nodes, nodes.as_slice()),
            (SectionKind::Weights, &weights),
            (SectionKind::Ports, &ports[..len]),
        ];
        let writer =
            ImageWriter { numeric: Numeric::F32, layout: Layout::Portable, id: ModelId(7), sections: &sections };
        let mut memory = vec![0_u128; writer.image_bytes().div_ceil(16)];
        let len = writer.write(bytemuck::cast_slice_mut(&mut memory)).expect("the buffer is as long as the image");
        Self(memory, len)
    }

    /// The model.
    pub fn model(&self) -> Model<'_> {
        let bytes = ImageBytes::new(&bytemuck::cast_slice(&self.0)[..self.1]).expect("it is aligned");
        Model::parse(bytes).expect("it is an image")
    }
}

/// Uniform in ±1 (xorshift, Marsaglia 2003).
pub fn noise(word: &mut u32) -> f32 {
    *word ^= *word << 13;
    *word ^= *word >> 17;
    *word ^= *word << 5;
    *word as f32 / (1_u32 << 31) as f32 - 1.0
}

/// `len` numbers of [`noise`].
pub fn noises(len: usize) -> Vec<f32> {
    let mut word = 0x1234_5679;
    (0..len).map(|_| noise(&mut word)).collect()
}
