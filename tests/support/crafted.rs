//! Images that no packer writes: nodes, ports and weights as a test chooses them.

use tidegate::internals::{
    activation::Activation,
    cell::CellKind,
    write::{ImageWriter, NodeRecord, PortRecord, nodes_header, ports_bytes, write_ports},
};
use tidegate::{Layout, ModelId, Numeric, SectionKind};

use crate::images::AlignedBytes;

/// An image under construction.
#[derive(Clone, Debug)]
pub struct Crafted {
    numeric: Numeric,
    layout: Layout,
    nodes: Vec<u8>,
    count: u32,
    /// Elements of the arena so far.
    pub elements: u32,
    /// The section of the weights.
    pub weights: Vec<u8>,
    /// Sections beside the usual ones.
    pub more: Vec<(SectionKind, Vec<u8>)>,
}

impl Crafted {
    /// An image without nodes.
    pub fn new(numeric: Numeric, layout: Layout) -> Self {
        let nodes = nodes_header(0, 0).to_vec();
        Self { numeric, layout, nodes, count: 0, elements: 0, weights: Vec::new(), more: Vec::new() }
    }

    /// Reserves a slot.
    pub fn slot(&mut self, elements: u32) -> u32 {
        let unit = if self.numeric.is_integer() { self.layout.columns(self.numeric).max(2) as u32 } else { 1 };
        let start = self.elements;
        self.elements += elements.next_multiple_of(unit);
        start
    }

    fn node(&mut self, record: &NodeRecord<'_>) -> u32 {
        let start = self.nodes.len();
        self.nodes.resize(start + record.record_bytes(), 0);
        record.write(self.numeric, self.layout, &mut self.nodes[start..]).expect("the buffer has the record's length");
        self.count += 1;
        record.output_slot
    }

    /// An identity in f32 over these slots; returns its own slot.
    pub fn identity(&mut self, slots: &[(u32, u32)]) -> u32 {
        let size = slots.iter().map(|(_, elements)| elements).sum();
        let output_slot = self.slot(size);
        self.node(&NodeRecord {
            kind: CellKind::Identity,
            options: 0,
            input_size: size,
            hidden_size: size,
            output_size: size,
            extents: &[],
            activations: &[],
            params: &[],
            numbers: &[],
            unroll: None,
            output_slot,
            slots,
            tensors: &[],
        })
    }

    /// A dense layer whose matrix, and rows or bias, begin at these offsets of the weights; returns its slot.
    pub fn dense(&mut self, (input, input_size): (u32, u32), output_size: u32, tensors: [u32; 2]) -> u32 {
        let output_slot = self.slot(output_size);
        let integer = self.numeric.is_integer();
        let tensors = [Some(tensors[0]), Some(tensors[1]), None];
        self.node(&NodeRecord {
            kind: CellKind::Dense,
            options: 0,
            input_size,
            hidden_size: output_size,
            output_size,
            extents: &[1],
            activations: &[Activation::Identity],
            params: &[],
            numbers: if integer { &[12, 0] } else { &[] },
            unroll: None,
            output_slot,
            slots: &[(input, input_size)],
            tensors: if integer { &tensors } else { &tensors[..2] },
        })
    }

    /// The image. Ports are name, first element and size.
    pub fn image(&self, inputs: &[(&str, u32, u32)], outputs: &[(&str, u32, u32)]) -> AlignedBytes {
        let port = |&(name, slot, size)| PortRecord::float(name, size, slot);
        let (inputs, outputs): (Vec<_>, Vec<_>) =
            (inputs.iter().map(port).collect(), outputs.iter().map(port).collect());
        let mut ports = vec![0; ports_bytes(&inputs, &outputs)];
        write_ports(&inputs, &outputs, &mut ports).expect("the buffer has the writer's own length");
        let mut nodes = self.nodes.clone();
        let header = nodes_header(self.count, self.elements);
        nodes[..header.len()].copy_from_slice(&header);
        let mut sections: Vec<(SectionKind, &[u8])> =
            vec![(SectionKind::Nodes, &nodes), (SectionKind::Weights, &self.weights), (SectionKind::Ports, &ports)];
        sections.extend(self.more.iter().map(|(kind, payload)| (*kind, payload.as_slice())));
        let writer = ImageWriter { numeric: self.numeric, layout: self.layout, id: ModelId(1), sections: &sections };
        let mut image = vec![0; writer.image_bytes()];
        writer.write(&mut image).expect("the buffer has the writer's own length");
        AlignedBytes::new(&image)
    }
}
