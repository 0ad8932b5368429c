//! Images of one node that bytes choose: any kind with any options, with sizes and extents that meet its rules, often
//! just so. Mutated images are seldom whole.

use tidegate::Numeric;
use tidegate::activation::Activation;
use tidegate::cell::{CellKind, CellSpec, Dim, Rule, Sizes};
use tidegate::image::write::{ImageWriter, NodeRecord, PortRecord, nodes_header, ports_bytes, write_ports};
use tidegate::image::{Layout, ModelId, SectionKind};
use tidegate::node::Unroll;

/// Most bytes of weights that are tried.
const MAX_WEIGHTS: usize = 1 << 16;
/// A size may follow from another that follows from a third.
const ROUNDS: usize = 4;

/// The bytes, one for each choice; 0 when they are used up.
struct Choices<'d>(core::slice::Iter<'d, u8>);

impl Choices<'_> {
    fn byte(&mut self) -> u8 {
        self.0.next().copied().unwrap_or(0)
    }

    /// Mostly below `end`; at times as great as can be, or too great.
    fn size(&mut self, end: u8) -> u32 {
        match self.byte() {
            255 => u32::MAX,
            254 => 1 << 31,
            253 => (1 << 20) + 1,
            252 => 1 << 20,
            251 => 1 << 16,
            byte => u32::from(byte % end),
        }
    }
}

/// A node's sizes, before they are written.
struct Draft {
    spec: &'static CellSpec,
    options: u32,
    input: usize,
    hidden: usize,
    output: usize,
    extents: Vec<[u8; 4]>,
}

impl Draft {
    fn sizes(&self) -> Sizes<'_> {
        let (input, hidden, output) = (self.input, self.hidden, self.output);
        Sizes { input, hidden, output, options: self.options, extents: &self.extents }
    }

    /// Gives a dimension a value, where it is a size, an extent, or a sum that has one; whether it could.
    fn set(&mut self, dim: &Dim, value: usize) -> bool {
        let value = value as u32 as usize; // no more can be written
        match dim {
            Dim::Input => self.input = value,
            Dim::Hidden => self.hidden = value,
            Dim::Output => self.output = value,
            Dim::Extent(index) => self.extents[*index] = (value as u32).to_le_bytes(),
            Dim::When(option, dim) if self.options >> option & 1 == 1 => return self.set(dim, value),
            Dim::Unless(option, dim) if self.options >> option & 1 == 0 => return self.set(dim, value),
            Dim::Sum(parts) => {
                let Some(now) = self.sizes().dim(dim) else { return false };
                return parts.iter().any(|part| {
                    let Some(own) = self.sizes().dim(part) else { return false };
                    let Some(own) = own.checked_add(value).and_then(|sum| sum.checked_sub(now)) else { return false };
                    self.set(part, own)
                });
            }
            _ => return false,
        }
        true
    }

    fn meet(&mut self, rule: &Rule) {
        let sizes = self.sizes();
        match rule {
            Rule::Equal(a, b) | Rule::EqualUnless(_, a, b) => {
                if let (Some(of_a), Some(of_b)) = (sizes.dim(a), sizes.dim(b)) {
                    let _ = self.set(a, of_b) || self.set(b, of_a);
                }
            }
            Rule::AtMost(a, b) => {
                if let (Some(of_a), Some(of_b)) = (sizes.dim(a), sizes.dim(b)) {
                    let _ = self.set(b, of_a) || self.set(a, of_b);
                }
            }
            Rule::Multiple(a, b) => {
                if let (Some(of_a), Some(of_b)) = (sizes.dim(a), sizes.dim(b)) {
                    let _ = self.set(a, of_a.max(1).checked_next_multiple_of(of_b).unwrap_or(0));
                }
            }
            Rule::OneOf { options, least } => {
                let all = options.iter().fold(0, |bits, option| bits | 1 << option);
                let first = match self.options & all {
                    0 => *least << options[0],
                    set => 1 << set.trailing_zeros(),
                };
                self.options = self.options & !all | first;
            }
            Rule::Convolved { input, kernel, stride, dilation, before, after, output } => {
                let all = [input, kernel, stride, dilation, before, after].map(|dim| sizes.dim(dim).unwrap_or(0));
                let [length, kernel, stride, dilation, before, after] = all.map(|size| size as u64);
                let reach = (dilation * kernel.saturating_sub(1) + 1).max(before + after);
                let length = length.max(reach - (before + after));
                let _ = self.set(input, length as usize);
                let room = (length + before + after).saturating_sub(reach);
                let _ = self.set(output, (room.checked_div(stride).unwrap_or(0) + 1) as usize);
            }
        }
    }
}

/// The image that the bytes choose; none where its weights would be too large.
pub fn image(data: &[u8]) -> Option<Vec<u8>> {
    let mut choices = Choices(data.iter());
    let kind = CellKind::ALL[usize::from(choices.byte()) % CellKind::ALL.len()];
    let spec = kind.spec();
    let numeric = Numeric::FLOAT[usize::from(choices.byte() & 1)];
    let options = u32::from_le_bytes([choices.byte(), choices.byte(), 0, 0]) & ((1 << spec.options.len()) - 1);
    // Images of three axes are large soon.
    let end = if spec.extents.len() > 6 { 4 } else { 9 };
    let mut size = || choices.size(end).max(1) as usize;
    let mut draft = Draft { spec, options, input: size(), hidden: size(), output: size(), extents: Vec::new() };
    draft.extents = spec.extents.iter().map(|extent| choices.size(end).max(extent.least).to_le_bytes()).collect();
    for _ in 0..ROUNDS {
        for rule in draft.spec.rules {
            if !draft.sizes().holds(rule) {
                draft.meet(rule);
            }
        }
    }
    let length = u32::from(choices.byte() % 5);
    let flags = choices.byte();
    let params: Vec<f32> = spec
        .params
        .iter()
        .map(|param| if param.presence.allowed(draft.options) { f32::from(choices.byte()) / 128.0 } else { 0.0 })
        .collect();
    let activations: Vec<Activation> = spec
        .activations
        .iter()
        .map(|activation| *Activation::ALL.get(usize::from(choices.byte())).unwrap_or(&activation.default))
        .collect();
    let mut weights_len = 16;
    let mut tensors = Vec::new();
    for tensor in spec.tensors {
        let offset = 16 * usize::from(choices.byte() % 4);
        tensors.push(tensor.presence.required(draft.options).then_some(offset as u32));
        let rows = draft.sizes().dim(&tensor.rows)?.checked_mul(tensor.gates.len().max(1))?;
        let cols = tensor.cols.as_ref().map_or(Some(1), |cols| draft.sizes().dim(cols))?;
        let elements = rows.checked_next_multiple_of(4)?.checked_mul(cols)?;
        weights_len = weights_len.max(elements.checked_mul(4)?.checked_add(offset)?);
    }
    if weights_len > MAX_WEIGHTS {
        return None;
    }
    let weights: Vec<u8> = (0..weights_len.div_ceil(4))
        .flat_map(|k| {
            let byte = data[k % data.len()];
            let weight = if byte == 128 { f32::INFINITY } else { f32::from(byte.cast_signed()) / 64.0 };
            weight.to_le_bytes()
        })
        .collect();
    let extents: Vec<u32> = draft.extents.iter().map(|&bytes| u32::from_le_bytes(bytes)).collect();
    let [input, hidden, output] = [draft.input, draft.hidden, draft.output].map(|size| size as u32);
    // A buffer has its own rows.
    let length = if kind.is_buffered() { 0 } else { length };
    let rows = length.max(1);
    let read = (input, input.checked_mul(rows)?);
    let write = (read.0.checked_add(read.1)?, output.checked_mul(rows)?);
    let split = if flags & 16 != 0 && input > 1 && length == 0 { 1 } else { input };
    let whole = [(0, split), (split, input - split)];
    let node = NodeRecord {
        kind,
        options: draft.options,
        input_size: input,
        hidden_size: hidden,
        output_size: output,
        extents: &extents,
        activations: &activations,
        params: &params,
        numbers: &[],
        unroll: (length > 0).then_some(Unroll {
            steps: length,
            read_backwards: flags & 1 != 0,
            write_backwards: flags & 2 != 0,
            stateful: flags & 4 != 0,
        }),
        output_slot: write.0,
        slots: match length {
            0 if split < input => &whole,
            0 => &[(0, input)],
            _ => &[(input, input)],
        },
        tensors: &tensors,
    };
    let window = NodeRecord {
        kind: CellKind::Window,
        options: u32::from(flags >> 3 & 1),
        input_size: input,
        hidden_size: read.1,
        output_size: read.1,
        extents: &[length, length, 0],
        activations: &[],
        params: &[],
        numbers: &[],
        unroll: None,
        output_slot: read.0,
        slots: &[(0, input)],
        tensors: &[],
    };
    let records = if length > 0 { vec![window, node] } else { vec![node] };
    let end = write.0.checked_add(write.1)?;
    let mut nodes = nodes_header(records.len() as u32, end).to_vec();
    for record in records {
        let start = nodes.len();
        nodes.resize(start + record.record_bytes(), 0);
        record.write(numeric, Layout::Portable, &mut nodes[start..]).ok()?;
    }
    // A slot that is read is one that was written: two are two ports.
    let inputs = [PortRecord::float("a", split, 0), PortRecord::float("b", input - split, split)];
    let inputs = if split < input { &inputs[..] } else { &inputs[..1] };
    let outputs = [PortRecord::float("y", write.1, write.0)];
    let mut ports = vec![0; ports_bytes(inputs, &outputs)];
    write_ports(inputs, &outputs, &mut ports).ok()?;
    let sections =
        [(SectionKind::Nodes, &nodes[..]), (SectionKind::Weights, &weights[..]), (SectionKind::Ports, &ports[..])];
    let writer = ImageWriter { numeric, layout: Layout::Portable, id: ModelId(1), sections: &sections };
    let mut image = vec![0; writer.image_bytes()];
    writer.write(&mut image).ok()?;
    Some(image)
}
