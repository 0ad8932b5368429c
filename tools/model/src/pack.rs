//! Packer: converts a canonical model to a flash image with slots, node records, weights in the kernel's order, and the
//! optional sections.

use std::collections::{BTreeMap, HashMap};

use half::f16;
use sha2::{Digest, Sha256};
use tidegate::internals::{
    activation::Activation,
    cell::{ActivationSpec, CellKind, Storage},
    image::field::ALIGNMENT,
    node::Unroll,
    write::{ImageWriter, NodeRecord, PortRecord, nodes_header, ports_bytes, write_ports},
};
use tidegate::{
    DetectorError, DetectorSettings, LabelSettings, Layout, ModelId, Numeric, SectionKind, front_end::FrontEndError,
};

use crate::canonical::{self, Canonical, Node, cols, image_rows};
use crate::error::ModelError;
use crate::in_place::in_place;
use crate::quantize::{Kept, QuantizeError, Quantized, QuantizedNode, Ranges, Scales, index_bytes};

/// Why a canonical model cannot be packed.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the error texts explain the variants and their fields")]
pub enum PackError {
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error("{tensor} holds {value}, which is out of the range of f16: pack with --numeric f32")]
    OutOfRange { tensor: String, value: f32 },
    #[error("the sums in {tensor} are out of the range of f32")]
    SumOutOfRange { tensor: String },
    #[error("with {value} the arena would have more than 2^32 elements")]
    ArenaTooLarge { value: String },
    #[error("{} has no layout {}: pack for {}", numeric.name(), layout.name(), layouts(*numeric))]
    Layout { numeric: Numeric, layout: Layout },
    #[error(transparent)]
    Quantize(#[from] QuantizeError),
    #[error(transparent)]
    FrontEnd(#[from] FrontEndError),
    #[error(transparent)]
    Detector(#[from] DetectorError),
    #[error("the image would have {bytes} bytes, more than 4 GiB")]
    TooLarge { bytes: usize },
}

/// The names of a numeric's layouts.
fn layouts(numeric: Numeric) -> String {
    let names = Layout::ALL.into_iter().filter(|layout| layout.is_of(numeric)).map(Layout::name);
    names.collect::<Vec<_>>().join(" or ")
}

/// Packs a model in a float numeric. The same model gives the same bytes.
///
/// # Errors
/// If the model is not valid, or the numeric or the format cannot store it.
pub fn pack(model: &Canonical, numeric: Numeric) -> Result<Vec<u8>, PackError> {
    pack_with(model, numeric, &Ranges::default(), Layout::Portable)
}

/// Packs a model with its weights in the given `layout`. Integer numerics use the `ranges` of its values. The
/// errors are those of [`pack`].
pub fn pack_with(model: &Canonical, numeric: Numeric, ranges: &Ranges, layout: Layout) -> Result<Vec<u8>, PackError> {
    model.validate()?;
    if !layout.is_of(numeric) {
        return Err(PackError::Layout { numeric, layout });
    }
    let quantized = match numeric {
        _ if numeric.needs_ranges() => Some(Quantized::new(model, numeric, ranges, layout)?),
        Numeric::I8 => Some(Quantized::of_bytes(in_place(model), layout)?),
        _ => None,
    };
    image(quantized.as_ref().map_or(model, |quantized| &quantized.model), quantized.as_ref(), numeric, layout)
}

/// [`pack_with`] in the portable layout, and the weights that the image holds. The errors are those of [`pack`].
pub fn pack_kept(model: &Canonical, numeric: Numeric, ranges: &Ranges) -> Result<(Vec<u8>, Kept), PackError> {
    model.validate()?;
    let quantized = Quantized::new(model, numeric, ranges, Layout::Portable)?;
    Ok((image(&quantized.model, Some(&quantized), numeric, Layout::Portable)?, Kept::of(&quantized)))
}

/// The image of a model, which is `quantized` if the numeric has integers.
fn image(
    model: &Canonical,
    quantized: Option<&Quantized>,
    numeric: Numeric,
    layout: Layout,
) -> Result<Vec<u8>, PackError> {
    let scales = quantized.map(|quantized| &quantized.scales);
    let architecture = &model.architecture;
    let slots = Slots::assign(architecture, unit(numeric, layout))?;
    let mut weights = Vec::new();
    let mut nodes = nodes_header(architecture.nodes.len() as u32, slots.elements).to_vec();
    for (index, node) in architecture.nodes.iter().enumerate() {
        let quantized = quantized.map(|quantized| &quantized.nodes[index]);
        let tensors = match quantized {
            Some(QuantizedNode { tensors, .. }) => append_tensors(tensors, &mut weights),
            None => pack_tensors(node, model, numeric, &mut weights)?,
        };
        append_record(node, quantized, (numeric, layout), &slots, &tensors, &mut nodes);
    }
    let ports =
        pack_ports(architecture, &slots, scales, quantized.and_then(|quantized| quantized.zero_points.as_ref()));
    let mut sections = vec![
        (SectionKind::Nodes, nodes),
        (SectionKind::Weights, weights),
        (SectionKind::Ports, ports),
        (SectionKind::Names, lines(architecture.nodes.iter().map(|node| node.name.as_str()))),
    ];
    if let Some(scales) = scales {
        let of = |node: &Node| (scales.of(&node.name) as f32).to_le_bytes();
        sections.push((SectionKind::Scales, architecture.nodes.iter().flat_map(of).collect()));
    }
    if let Some(payload) = tidegate::Schedule::from(architecture.schedule).section() {
        sections.push((SectionKind::Schedule, payload.to_vec()));
    }
    if !architecture.labels.is_empty() {
        sections.push((SectionKind::Labels, lines(architecture.labels.iter().map(String::as_str))));
    }
    if let Some(front_end) = &architecture.front_end {
        let input = architecture.inputs.first().and_then(|input| architecture.integers.get(&input.name));
        sections.push((SectionKind::FrontEnd, front_end.section(numeric, input)?));
    }
    if let Some(detector) = &architecture.detector {
        let settings =
            |&canonical::LabelDetector { threshold, refractory_ms }| LabelSettings { threshold, refractory_ms };
        let labels: Vec<_> = detector.labels.iter().map(settings).collect();
        let mut payload = vec![0; DetectorSettings::section_len(labels.len())];
        DetectorSettings::write(detector.mean_of, &labels, &mut payload)?;
        sections.push((SectionKind::Detector, payload));
    }
    let sections: Vec<_> = sections.iter().map(|(kind, payload)| (*kind, payload.as_slice())).collect();
    let writer = ImageWriter { numeric, layout, id: model_id(numeric, &sections), sections: &sections };
    let bytes = writer.image_bytes();
    if u32::try_from(bytes).is_err() {
        return Err(PackError::TooLarge { bytes });
    }
    let mut image = vec![0; bytes];
    writer.write(&mut image).expect("the buffer has the writer's own length");
    Ok(image)
}

/// SHA-256 of numeric and sections, truncated to eight bytes.
fn model_id(numeric: Numeric, sections: &[(SectionKind, &[u8])]) -> ModelId {
    let mut hash = Sha256::new();
    hash.update(numeric.code().to_le_bytes());
    for (kind, payload) in sections {
        hash.update(kind.code().to_le_bytes());
        hash.update((payload.len() as u32).to_le_bytes());
        hash.update(payload);
    }
    let digest = hash.finalize();
    let (head, _) = digest.split_first_chunk::<8>().expect("SHA-256 has 32 bytes");
    ModelId(u64::from_le_bytes(*head))
}

/// One name on each line; names of a valid model contain no line feed.
fn lines<'a>(names: impl Iterator<Item = &'a str>) -> Vec<u8> {
    names.flat_map(|name| [name, "\n"]).collect::<String>().into_bytes()
}

/// Alignment of slots, in elements.
fn unit(numeric: Numeric, layout: Layout) -> u32 {
    if numeric.is_integer() { layout.columns(numeric).max(2) as u32 } else { 1 }
}

/// Placement of every value in the arena. A slot is reused after the last read of its value.
struct Slots<'a> {
    /// First element and number of elements.
    place: HashMap<&'a str, (u32, u32)>,
    elements: u32,
}

impl<'a> Slots<'a> {
    /// Assigns slots first fit, in execution order. It sorts the occupied slots for each value; a valid model has at
    /// most [`MAX_NODES`](canonical::MAX_NODES) values and its inputs.
    fn assign(architecture: &'a canonical::Architecture, unit: u32) -> Result<Self, PackError> {
        let mut last_reader: HashMap<&str, usize> = HashMap::new();
        for (index, node) in architecture.nodes.iter().enumerate() {
            last_reader.extend(node.inputs.iter().map(|input| (input.as_str(), index)));
        }
        last_reader.extend(architecture.outputs.iter().map(|output| (output.from.as_str(), usize::MAX)));
        let mut slots = Self { place: HashMap::new(), elements: 0 };
        // Occupied slots: (start, end, last reader).
        let mut taken: Vec<(u32, u32, usize)> = Vec::new();
        let mut place = |name: &'a str, size: usize, now: usize| {
            taken.retain(|&(_, _, last)| last >= now);
            taken.sort_unstable();
            let too_large = || PackError::ArenaTooLarge { value: name.to_owned() };
            let size = u32::try_from(size).map_err(|_| too_large())?;
            let room = size.checked_next_multiple_of(unit).ok_or_else(too_large)?;
            let start = taken.iter().fold(
                0,
                |start: u32, &(from, to, _)| if from.saturating_sub(start) >= room { start } else { start.max(to) },
            );
            let end = start.checked_add(room).ok_or_else(too_large)?;
            taken.push((start, end, last_reader.get(name).copied().unwrap_or(0)));
            slots.place.insert(name, (start, size));
            slots.elements = slots.elements.max(end);
            Ok::<_, PackError>(())
        };
        for input in &architecture.inputs {
            place(&input.name, input.size, 0)?;
        }
        for (index, node) in architecture.nodes.iter().enumerate() {
            place(&node.name, node.output_size * node.steps(), index)?;
        }
        Ok(slots)
    }

    fn of(&self, name: &str) -> u32 {
        self.place[name].0
    }

    fn size(&self, name: &str) -> u32 {
        self.place[name].1
    }
}

fn pack_ports<'a>(
    architecture: &'a canonical::Architecture,
    slots: &Slots<'_>,
    scales: Option<&Scales>,
    zero_points: Option<&BTreeMap<String, i32>>,
) -> Vec<u8> {
    let record = |port: &'a canonical::Port, value: &str| PortRecord {
        name: &port.name,
        size: port.size as u32,
        slot: slots.of(value),
        scale: scales.map_or(1.0, |scales| scales.of(value) as f32),
        zero_point: zero_points.and_then(|known| known.get(value)).copied().unwrap_or(0),
    };
    let inputs: Vec<_> = architecture.inputs.iter().map(|port| record(port, &port.name)).collect();
    let outputs: Vec<_> = architecture.outputs.iter().map(|port| record(port, &port.from)).collect();
    let mut payload = vec![0; ports_bytes(&inputs, &outputs)];
    write_ports(&inputs, &outputs, &mut payload).expect("the buffer has the writer's own length");
    payload
}

/// Appends tensors to the weights; returns the offset of each.
fn append_tensors(tensors: &[Option<Vec<u8>>], weights: &mut Vec<u8>) -> Vec<Option<u32>> {
    let mut append = |bytes: &Vec<u8>| {
        let offset = next_tensor(weights);
        weights.extend(bytes);
        offset
    };
    tensors.iter().map(|bytes| bytes.as_ref().map(&mut append)).collect()
}

/// Pads the weights to the offset of the next tensor, and returns it.
fn next_tensor(weights: &mut Vec<u8>) -> u32 {
    weights.resize(weights.len().next_multiple_of(ALIGNMENT), 0);
    weights.len() as u32
}

fn append_record(
    node: &Node,
    quantized: Option<&QuantizedNode>,
    (numeric, layout): (Numeric, Layout),
    slots: &Slots<'_>,
    tensors: &[Option<u32>],
    records: &mut Vec<u8>,
) {
    let kind = kind_of(node);
    let spec = kind.spec();
    let params: Vec<f32> = match quantized {
        Some(_) => Vec::new(),
        None => spec.params.iter().map(|of| node.params.get(of.name).copied().unwrap_or(0.0)).collect(),
    };
    let activation = |of: &ActivationSpec| {
        let named = node.activations.get(of.name).and_then(|text| text.parse().ok());
        named.filter(|_| quantized.is_none_or(|node| !node.is_limited)).unwrap_or(of.default)
    };
    let activations: Vec<Activation> = spec.activations.iter().map(activation).collect();
    let extents: Vec<u32> = node.extent_bytes(spec).into_iter().map(u32::from_le_bytes).collect();
    let slots_read: Vec<(u32, u32)> =
        node.inputs.iter().map(|input| (slots.of(input), slots.size(input) / node.steps() as u32)).collect();
    let record = NodeRecord {
        kind,
        options: quantized.map_or_else(|| node.option_bits(spec), |quantized| quantized.options),
        input_size: node.input_size as u32,
        hidden_size: node.hidden_size as u32,
        output_size: node.output_size as u32,
        extents: &extents,
        activations: &activations,
        params: &params,
        numbers: quantized.map_or(&[], |quantized| quantized.numbers.as_slice()),
        unroll: node.unroll.map(|unroll| Unroll {
            steps: unroll.steps as u32,
            read_backwards: unroll.read_backwards,
            write_backwards: unroll.write_backwards,
            stateful: unroll.stateful,
            apart: unroll.apart,
        }),
        output_slot: slots.of(&node.name),
        slots: &slots_read,
        tensors,
    };
    let start = records.len();
    records.resize(start + record.record_bytes(), 0);
    record.write(numeric, layout, &mut records[start..]).expect("the buffer has the writer's own length");
}

fn kind_of(node: &Node) -> CellKind {
    CellKind::from_name(&node.cell).expect("a validated model names cells that exist")
}

/// Appends the tensors of a node to the weights; returns the offset of each tensor that the record lists.
fn pack_tensors(
    node: &Node,
    model: &Canonical,
    numeric: Numeric,
    weights: &mut Vec<u8>,
) -> Result<Vec<Option<u32>>, PackError> {
    let spec = kind_of(node).spec();
    let options = node.option_bits(spec);
    let mut offsets = Vec::new();
    for tensor in spec.tensors.iter().filter(|tensor| tensor.presence.listed(options)) {
        if !tensor.presence.required(options) {
            offsets.push(None);
            continue;
        }
        offsets.push(Some(next_tensor(weights)));
        let rows = image_rows(node, spec, tensor, &model.tensors);
        if !rows.iter().all(|value| value.is_finite()) {
            return Err(PackError::SumOutOfRange { tensor: format!("{}.{}", node.name, tensor.name) });
        }
        if tensor.storage == Storage::Index {
            weights.extend(index_bytes(&rows));
            continue;
        }
        let cols = cols(node, spec, tensor);
        let narrow = tensor.cols.is_some() && numeric == Numeric::F16;
        // Blocks of four rows, column by column.
        for block in rows.chunks(4 * cols) {
            for col in 0..cols {
                for row in 0..4 {
                    let value = block.get(row * cols + col).copied().unwrap_or(0.0);
                    if narrow {
                        let half = f16::from_f32(value);
                        if !half.is_finite() {
                            let tensor = format!("{}.{}", node.name, tensor.name);
                            return Err(PackError::OutOfRange { tensor, value });
                        }
                        weights.extend(half.to_le_bytes());
                    } else {
                        weights.extend(value.to_le_bytes());
                    }
                }
            }
        }
    }
    Ok(offsets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canonical::Tensor;

    #[test]
    fn biases_whose_sum_leaves_f32_are_refused() {
        let json = r#"{"version": 1, "source": "", "inputs": [{"name": "x", "size": 1}],
            "nodes": [{"name": "e", "cell": "elman", "inputs": ["x"],
                "input_size": 1, "hidden_size": 1, "output_size": 1}],
            "outputs": [{"name": "y", "size": 1, "from": "e"}]}"#;
        let tensor = |name: &str, shape: &[usize], value| {
            (format!("e.{name}"), Tensor { shape: shape.to_vec(), data: vec![value] })
        };
        let mut model = Canonical {
            architecture: serde_json::from_str(json).unwrap(),
            tensors: ["input_weights", "recurrent_weights"].map(|name| tensor(name, &[1, 1], 1.0)).into(),
        };
        model.tensors.extend([tensor("input_bias", &[1], 3e38)]);
        assert!(pack(&model, Numeric::F32).is_ok());
        model.tensors.extend([tensor("recurrent_bias", &[1], 3e38)]);
        let error = pack(&model, Numeric::F32).unwrap_err();
        assert!(matches!(error, PackError::SumOutOfRange { tensor } if tensor == "e.bias"));
    }

    #[test]
    fn an_arena_beyond_32_bits_is_refused() {
        let port = |name: &str, size| canonical::Port { name: name.into(), size, ..Default::default() };
        let inputs = vec![port("a", 1 << 31), port("b", (1 << 31) - 1)];
        let mut architecture = canonical::Architecture { inputs, ..Default::default() };
        assert_eq!(Slots::assign(&architecture, 1).unwrap().elements, u32::MAX);
        for size in [1 << 31, 1 << 32] {
            architecture.inputs[1].size = size;
            let error = Slots::assign(&architecture, 1).err();
            assert!(matches!(error, Some(PackError::ArenaTooLarge { value }) if value == "b"));
        }
    }
}
