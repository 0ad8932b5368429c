//! Writes images and their records into the caller's memory. Used by the packer; a device may use it too.

use crate::activation::Activation;
use crate::error::BufferTooSmall;
use crate::image::crc::Crc32;
use crate::image::field::{self, activation, header, node, nodes, port, ports, section, slot};
use crate::image::read::align_up;
use crate::image::{Layout, ModelId, Numeric, SectionKind};
use crate::node::{Cells, Node, Place, Shared, Unroll};
use crate::spec::CellKind;

/// An image to be written.
#[derive(Clone, Copy, Debug)]
pub struct ImageWriter<'a> {
    /// How weights, activations and states are stored and computed.
    pub numeric: Numeric,
    /// The order of the weights.
    pub layout: Layout,
    /// A hash over the sections.
    pub id: ModelId,
    /// Kinds and payloads, in the order of the section table.
    pub sections: &'a [(SectionKind, &'a [u8])],
}

impl ImageWriter<'_> {
    /// Length of the image in bytes.
    pub fn image_bytes(&self) -> usize {
        let table = header::LEN + self.sections.len() * section::LEN;
        self.sections
            .iter()
            .fold(table, |end, (_, payload)| pad(end) + payload.len())
            .next_multiple_of(field::ALIGNMENT)
    }

    /// Writes the image to the start of `out` and returns its length in bytes.
    ///
    /// # Errors
    /// If `out` is shorter than [`image_bytes`](Self::image_bytes).
    pub fn write(&self, out: &mut [u8]) -> Result<usize, BufferTooSmall> {
        let (needed, given) = (self.image_bytes(), out.len());
        let out = out.get_mut(..needed).ok_or(BufferTooSmall { needed, given })?;
        out.fill(0);
        out[header::MAGIC].copy_from_slice(&field::MAGIC_BYTES);
        out[header::VERSION].copy_from_slice(&field::FORMAT_VERSION.to_le_bytes());
        out[header::SECTION_COUNT].copy_from_slice(&(self.sections.len() as u16).to_le_bytes());
        out[header::IMAGE_LEN].copy_from_slice(&(needed as u32).to_le_bytes());
        out[header::NUMERIC].copy_from_slice(&self.numeric.code().to_le_bytes());
        out[header::LAYOUT].copy_from_slice(&self.layout.code().to_le_bytes());
        out[header::MODEL_ID].copy_from_slice(&self.id.0.to_le_bytes());
        let mut end = header::LEN + self.sections.len() * section::LEN;
        for (index, (kind, payload)) in self.sections.iter().enumerate() {
            let offset = pad(end);
            end = offset + payload.len();
            out[offset..end].copy_from_slice(payload);
            let entry = &mut out[header::LEN + index * section::LEN..][..section::LEN];
            entry[section::KIND].copy_from_slice(&kind.code().to_le_bytes());
            entry[section::REQUIRED].copy_from_slice(&u16::from(kind.required()).to_le_bytes());
            entry[section::OFFSET].copy_from_slice(&(offset as u32).to_le_bytes());
            entry[section::PAYLOAD_LEN].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        }
        seal(out);
        Ok(needed)
    }
}

/// Writes the checksum of a complete image into its header. Does nothing if `image` is shorter than its header says.
pub fn seal(image: &mut [u8]) {
    if let Some((head, rest)) = image.split_at_mut_checked(header::LEN) {
        let crc = Crc32::NEW.update(&head[..header::CRC.start]).update(rest).finish();
        head[header::CRC].copy_from_slice(&crc.to_le_bytes());
    }
}

fn pad(end: usize) -> usize {
    align_up(end).unwrap_or(end)
}

/// A node record to be written.
#[derive(Clone, Copy, Debug)]
pub struct NodeRecord<'a> {
    /// Kind of the cell.
    pub kind: CellKind,
    /// Bit `k`: option `k` of the spec.
    pub options: u32,
    /// Number of input features.
    pub input_size: u32,
    /// Number of units.
    pub hidden_size: u32,
    /// Number of output features.
    pub output_size: u32,
    /// Extents, in the order of the spec.
    pub extents: &'a [u32],
    /// Activations, in the order of the spec.
    pub activations: &'a [Activation],
    /// Params, in the order of the spec; empty in an integer numeric.
    pub params: &'a [f32],
    /// Numbers, in the order of the integer spec; empty in a float numeric.
    pub numbers: &'a [i32],
    /// Number and direction of the time steps of an unrolled node.
    pub unroll: Option<Unroll>,
    /// First arena element of the slot that the node writes.
    pub output_slot: u32,
    /// First arena element and elements per row of each slot that the node reads.
    pub slots: &'a [(u32, u32)],
    /// Offset of each tensor of the spec in the section `weights`; `None` if the node does not have the tensor.
    pub tensors: &'a [Option<u32>],
}

impl NodeRecord<'_> {
    /// Length of the record in bytes.
    pub const fn record_bytes(&self) -> usize {
        let words = self.extents.len() + self.params.len() + self.numbers.len() + self.tensors.len();
        node::LEN + 4 * words + self.activations.len() * activation::LEN + self.slots.len() * slot::LEN
    }

    /// Writes the record for an image of this numeric and layout to the start of `out` and returns its length in bytes.
    ///
    /// # Errors
    /// If `out` is shorter than [`record_bytes`](Self::record_bytes).
    pub fn write(&self, numeric: Numeric, layout: Layout, out: &mut [u8]) -> Result<usize, BufferTooSmall> {
        let (needed, given) = (self.record_bytes(), out.len());
        let out = out.get_mut(..needed).ok_or(BufferTooSmall { needed, given })?;
        out[node::CELL].copy_from_slice(&self.kind.code().to_le_bytes());
        out[node::RECORD_WORDS].copy_from_slice(&((needed / 4) as u16).to_le_bytes());
        out[node::OPTIONS].copy_from_slice(&self.options.to_le_bytes());
        out[node::INPUT_SIZE].copy_from_slice(&self.input_size.to_le_bytes());
        out[node::HIDDEN_SIZE].copy_from_slice(&self.hidden_size.to_le_bytes());
        out[node::OUTPUT_SIZE].copy_from_slice(&self.output_size.to_le_bytes());
        out[node::OUTPUT_SLOT].copy_from_slice(&self.output_slot.to_le_bytes());
        let (steps, flags) = self.unroll.map_or((0, 0), |unroll| (unroll.steps, unroll.flags()));
        out[node::UNROLL_STEPS].copy_from_slice(&steps.to_le_bytes());
        out[node::UNROLL_FLAGS].copy_from_slice(&flags.to_le_bytes());
        for (field, count) in [
            (node::SLOT_COUNT, self.slots.len()),
            (node::EXTENT_COUNT, self.extents.len()),
            (node::ACTIVATION_COUNT, self.activations.len()),
            (node::PARAM_COUNT, self.params.len() + self.numbers.len()),
            (node::TENSOR_COUNT, self.tensors.len()),
        ] {
            out[field].copy_from_slice(&(count as u16).to_le_bytes());
        }
        let activations = self.activations.iter().flat_map(|activation| {
            let [alpha, beta] = activation.parameters();
            [u32::from(activation.code()), alpha.to_bits(), beta.to_bits()]
        });
        let params = self.params.iter().map(|param| param.to_bits());
        let params = params.chain(self.numbers.iter().map(|number| number.cast_unsigned()));
        let slots = self.slots.iter().flat_map(|&(start, elements)| [start, elements]);
        let tensors = self.tensors.iter().map(|offset| offset.unwrap_or(node::ABSENT));
        let words = self.extents.iter().copied().chain(activations).chain(params).chain(slots).chain(tensors);
        let (quads, _) = out[node::LEN..].as_chunks_mut::<4>();
        for (quad, word) in quads.iter_mut().zip(words) {
            *quad = word.to_le_bytes();
        }
        let (state, work) = self.memory(numeric, layout, out);
        out[node::STATE_ELEMENTS].copy_from_slice(&state.to_le_bytes());
        out[node::WORK_ELEMENTS].copy_from_slice(&work.to_le_bytes());
        Ok(needed)
    }

    /// Elements of state and of scratch that a node needs, computed from its record. Both are 0 for a malformed record,
    /// which a reader refuses.
    fn memory(&self, numeric: Numeric, layout: Layout, record: &[u8]) -> (u32, u32) {
        let cells = Cells::NONE.with(self.kind, self.options, numeric, layout);
        let shared = Shared { weights: &[], numeric, layout, unit: numeric.unit(layout), cells };
        let Ok((node, _)) = Node::decode(record, &shared, Place { node: 0, offset: 0 }) else { return (0, 0) };
        let count = |elements: Option<usize>| elements.and_then(|count| u32::try_from(count).ok()).unwrap_or(0);
        (count(node.needed_state_elements()), count(node.needed_work_elements(node.specs())))
    }
}

/// The header of the section `nodes`; the records follow it.
pub fn nodes_header(node_count: u32, slot_elements: u32) -> [u8; nodes::LEN] {
    let mut payload = [0; nodes::LEN];
    payload[nodes::NODE_COUNT].copy_from_slice(&node_count.to_le_bytes());
    payload[nodes::SLOT_ELEMENTS].copy_from_slice(&slot_elements.to_le_bytes());
    payload
}

/// A port to be written.
#[derive(Clone, Copy, Debug)]
pub struct PortRecord<'a> {
    /// Name of the port.
    pub name: &'a str,
    /// Number of features.
    pub size: u32,
    /// First arena element of the port's slot.
    pub slot: u32,
    /// Real value of one unit; 1.0 in float numerics.
    pub scale: f32,
    /// See [`Port::zero_point`](crate::port::Port::zero_point).
    pub zero_point: i32,
}

impl<'a> PortRecord<'a> {
    /// A port of a float numeric.
    pub const fn float(name: &'a str, size: u32, slot: u32) -> Self {
        Self { name, size, slot, scale: 1.0, zero_point: 0 }
    }
}

/// Length of the section `ports` in bytes.
pub fn ports_bytes(inputs: &[PortRecord<'_>], outputs: &[PortRecord<'_>]) -> usize {
    let all = inputs.iter().chain(outputs);
    all.fold(ports::LEN, |end, port| end + port::LEN + port.name.len())
}

/// Writes the section `ports` to the start of `out` and returns its length in bytes.
///
/// # Errors
/// If `out` is shorter than [`ports_bytes`].
pub fn write_ports(
    inputs: &[PortRecord<'_>],
    outputs: &[PortRecord<'_>],
    out: &mut [u8],
) -> Result<usize, BufferTooSmall> {
    let (needed, given) = (ports_bytes(inputs, outputs), out.len());
    let out = out.get_mut(..needed).ok_or(BufferTooSmall { needed, given })?;
    out[ports::INPUT_COUNT].copy_from_slice(&(inputs.len() as u16).to_le_bytes());
    out[ports::OUTPUT_COUNT].copy_from_slice(&(outputs.len() as u16).to_le_bytes());
    let mut name_offset = ports::LEN + (inputs.len() + outputs.len()) * port::LEN;
    for (index, &PortRecord { name, size, slot, scale, zero_point }) in inputs.iter().chain(outputs).enumerate() {
        let record = &mut out[ports::LEN + index * port::LEN..][..port::LEN];
        record[port::SLOT].copy_from_slice(&slot.to_le_bytes());
        record[port::SIZE].copy_from_slice(&size.to_le_bytes());
        record[port::SCALE].copy_from_slice(&scale.to_le_bytes());
        record[port::ZERO_POINT].copy_from_slice(&zero_point.to_le_bytes());
        record[port::NAME_OFFSET].copy_from_slice(&(name_offset as u32).to_le_bytes());
        record[port::NAME_LEN].copy_from_slice(&(name.len() as u32).to_le_bytes());
        out[name_offset..name_offset + name.len()].copy_from_slice(name.as_bytes());
        name_offset += name.len();
    }
    Ok(needed)
}
