//! Images of a single node that the fuzzer's bytes choose: any kind with any options, with sizes and extents that
//! satisfy its rules, often with no margin. Mutated images are seldom valid, so this reaches further.

use tidegate::internals::{
    activation::Activation,
    cell::{CellKind, CellSpec, Dim, IntegerSpec, NumberSpec, OTHER, Rule, Sizes, Storage, TensorSpec},
    image::{GROUP, factors_at},
    node::Unroll,
    write::{ImageWriter, NodeRecord, PortRecord, nodes_header, ports_bytes, write_ports},
};
use tidegate::{Layout, ModelId, Numeric, SectionKind};

/// Maximum number of bytes of weights.
const MAX_WEIGHTS: usize = 1 << 16;
/// Number of passes over the rules, because a size may follow from another that follows from a third.
const ROUNDS: usize = 4;

/// The bytes, one for each choice. Choices are 0 once the bytes are used up.
struct Choices<'d>(core::slice::Iter<'d, u8>);

impl Choices<'_> {
    fn byte(&mut self) -> u8 {
        self.0.next().copied().unwrap_or(0)
    }

    /// Usually below `end`; sometimes the greatest allowed value, or too great.
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

/// Sizes of a node before they are written.
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

    /// Sets a dimension that is a size, an extent, or a sum that contains one. Returns whether that was possible.
    fn set(&mut self, dim: &Dim, value: usize) -> bool {
        let value = value as u32 as usize; // the field has 32 bits
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

/// A number of an integer node, usually one that is allowed.
fn number(of: &NumberSpec, choices: &mut Choices<'_>) -> i32 {
    let (byte, range) = (choices.byte(), i64::from(of.most) - i64::from(of.least) + 1);
    match byte {
        255 => of.most.wrapping_add(1),
        254 => of.least.wrapping_sub(1),
        253 => of.most,
        128..253 => of.usual.unwrap_or(of.least),
        byte => (i64::from(of.least) + i64::from(byte) % range) as i32,
    }
}

/// Offsets of the tensors, which may overlap, and the weights.
fn float_tensors(draft: &Draft, data: &[u8], choices: &mut Choices<'_>) -> Option<(Vec<Option<u32>>, Vec<u8>)> {
    let (mut weights_len, mut tensors) = (16, Vec::new());
    for tensor in draft.spec.tensors.iter().filter(|tensor| tensor.presence.listed(draft.options)) {
        let offset = 16 * usize::from(choices.byte() % 4);
        tensors.push(tensor.presence.required(draft.options).then_some(offset as u32));
        let elements = elements(draft, tensor, 1)?;
        weights_len = weights_len.max(elements.checked_mul(4)?.checked_add(offset)?);
    }
    if weights_len > MAX_WEIGHTS {
        return None;
    }
    let weight = |k: usize| {
        let byte = data[k % data.len()];
        let weight = if byte == 128 { f32::INFINITY } else { f32::from(byte.cast_signed()) / 64.0 };
        weight.to_le_bytes()
    };
    Some((tensors, (0..weights_len.div_ceil(4)).flat_map(weight).collect()))
}

/// The same for integers, with the tensors one after another. Rows of purely random bytes would seldom be valid.
fn integer_tensors(
    integer: &IntegerSpec,
    draft: &Draft,
    (numeric, layout): (Numeric, Layout),
    data: &[u8],
) -> Option<(Vec<Option<u32>>, Vec<u8>)> {
    let (mut weights, mut tensors, mut used) = (Vec::new(), Vec::new(), 0);
    for tensor in integer.tensors {
        if !tensor.presence.required(draft.options) {
            tensors.push(None);
            continue;
        }
        let elements = elements(draft, tensor, 16)?;
        if elements > MAX_WEIGHTS {
            return None;
        }
        tensors.push(Some(weights.len() as u32));
        let mut byte = || {
            used += 1;
            data[used % data.len()]
        };
        match tensor.storage {
            Storage::Rows { .. } => {
                for _ in 0..elements.div_ceil(4) {
                    // Random starts and multipliers, and shifts that are seldom too great.
                    for _ in 0..4 {
                        weights.extend((i32::from_le_bytes([0; 4].map(|_| byte())) >> (byte() & 31)).to_le_bytes());
                    }
                    weights.extend((0..16).map(|_| byte()));
                    weights.extend((0..4).map(|_| byte() % 33));
                }
            }
            Storage::Requantized { .. } => {
                for _ in 0..elements.div_ceil(4) {
                    for _ in 0..4 {
                        weights.extend((i32::from_le_bytes([0; 4].map(|_| byte())) >> (byte() & 31)).to_le_bytes());
                    }
                    // Factors that are seldom too small, and shifts that are seldom out of range.
                    for _ in 0..4 {
                        weights.extend([byte(), byte(), byte(), if byte() == 255 { 128 } else { byte() & 127 }]);
                    }
                    weights.extend((0..4).map(|_| (byte() % 63).wrapping_sub(31)));
                }
            }
            Storage::Weights(_) if numeric == Numeric::I4x16 => {
                let cols = tensor.cols.as_ref().map_or(Some(1), |cols| draft.sizes().dim(cols))?;
                let bytes = layout.block_bytes(numeric, cols)?;
                for _ in 0..elements.checked_div(cols.checked_next_multiple_of(16)?.checked_mul(4)?)? {
                    let mut block: Vec<u8> = (0..bytes).map(|_| byte()).collect();
                    for group in 0..cols.div_ceil(GROUP) {
                        let factors = &mut block[factors_at(bytes, group)..][..4];
                        // Usually values that the format defines.
                        factors.fill_with(|| if byte() == 255 { 3 } else { 1 << (byte() % 5) });
                    }
                    if byte() != 255 {
                        clear(&mut block, numeric, layout, cols);
                    }
                    weights.extend(block);
                }
            }
            Storage::Weights(_) => {
                let start = weights.len();
                weights.extend((0..elements).map(|_| byte()));
                let cols = tensor.cols.as_ref().map_or(Some(1), |cols| draft.sizes().dim(cols))?;
                let blocks = weights[start..].chunks_exact_mut(layout.block_bytes(numeric, cols)?.max(1));
                // Seldom anything but zero.
                blocks.filter(|_| byte() != 255).for_each(|block| clear(block, numeric, layout, cols));
            }
            // At least as long as any storage.
            _ => weights.extend((0..4 * elements).map(|_| byte())),
        }
        weights.resize(weights.len().next_multiple_of(16), 0);
        if weights.len() > MAX_WEIGHTS {
            return None;
        }
    }
    weights.resize(weights.len().max(16), 0);
    Some((tensors, weights))
}

/// Sets the weights that pad the columns of a block to zero, as `parse` requires.
fn clear(block: &mut [u8], numeric: Numeric, layout: Layout, cols: usize) {
    let zero = layout.code_of(numeric, 0);
    for col in cols..cols.next_multiple_of(layout.columns(numeric)) {
        for place in (0..4).map(|row| layout.place(numeric, row, col)) {
            match numeric {
                Numeric::I4x16 => {
                    let shift = 4 * (place % 2);
                    block[place / 2] = block[place / 2] & !(15 << shift) | zero << shift;
                }
                _ => block[place] = zero,
            }
        }
    }
}

/// Number of elements of a tensor whose columns are padded to a multiple.
fn elements(draft: &Draft, tensor: &TensorSpec, columns: usize) -> Option<usize> {
    let rows = draft.sizes().dim(&tensor.rows)?.checked_mul(tensor.gates.len().max(1))?;
    let cols = match &tensor.cols {
        None => 1,
        Some(cols) => draft.sizes().dim(cols)?.checked_next_multiple_of(columns)?,
    };
    rows.checked_next_multiple_of(4)?.checked_mul(cols)
}

/// The image that the bytes choose, or `None` if its weights would be too large.
pub fn image(data: &[u8]) -> Option<Vec<u8>> {
    let mut choices = Choices(data.iter());
    let kind = CellKind::ALL[usize::from(choices.byte()) % CellKind::ALL.len()];
    let spec = kind.spec();
    let how = choices.byte();
    let numeric = if how & 32 == 32 { Numeric::I8 } else { Numeric::INTEGER[usize::from(how >> 4 & 1)] };
    let integer = if numeric == Numeric::I8 { kind.byte_spec() } else { kind.integer_spec() };
    let integer = integer.filter(|_| how & 2 == 2);
    let (numeric, layout) = match integer {
        Some(_) => {
            let layout = Layout::ALL[usize::from(how >> 2) % Layout::ALL.len()];
            (numeric, if layout.is_of(numeric) { layout } else { Layout::Portable })
        }
        None => (Numeric::FLOAT[usize::from(how & 1)], Layout::Portable),
    };
    let mut options = u32::from_le_bytes([choices.byte(), choices.byte(), 0, 0]) & ((1 << spec.options.len()) - 1);
    if let Some(integer) = integer {
        // Usually only options that the cell has.
        options |= u32::from(choices.byte()) << OTHER;
        options &= if choices.byte() == 0 { u32::MAX } else { integer.options };
    }
    // Images of three axes soon grow large.
    let end = if spec.extents.len() > 6 { 4 } else { 9 };
    let mut size = || choices.size(end).max(1) as usize;
    let mut draft = Draft { spec, options, input: size(), hidden: size(), output: size(), extents: Vec::new() };
    draft.extents = spec.extents.iter().map(|extent| choices.size(end).max(extent.least).to_le_bytes()).collect();
    for _ in 0..ROUNDS {
        for rule in draft.spec.rules.iter().chain(integer.map_or(&[][..], |integer| integer.rules)) {
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
        .map(|activation| {
            // `i8` knows only the default activation, so that is the usual choice.
            let byte = usize::from(choices.byte()) + if numeric == Numeric::I8 { 240 } else { 0 };
            *Activation::ALL.get(byte % 256).unwrap_or(&activation.default)
        })
        .collect();
    let numbers: Vec<i32> =
        integer.map_or(&[][..], |integer| integer.numbers).iter().map(|of| number(of, &mut choices)).collect();
    let (tensors, weights) = match integer {
        Some(integer) => integer_tensors(integer, &draft, (numeric, layout), data)?,
        None => float_tensors(&draft, data, &mut choices)?,
    };
    let extents: Vec<u32> = draft.extents.iter().map(|&bytes| u32::from_le_bytes(bytes)).collect();
    let [input, hidden, output] = [draft.input, draft.hidden, draft.output].map(|size| size as u32);
    // A buffer keeps rows of its own.
    let length = if kind.is_buffered() { 0 } else { length };
    let rows = length.max(1);
    // Aligned for every kernel.
    let up = |elements: u32| if integer.is_some() { elements.checked_next_multiple_of(16) } else { Some(elements) };
    let split = if flags & 16 != 0 && input > 1 && length == 0 { 1 } else { input };
    let (second, one) = (up(split)?, up(split)?.checked_add(up(input - split)?)?);
    let read = (one, input.checked_mul(rows)?);
    let write = (read.0.checked_add(up(read.1)?)?, output.checked_mul(rows)?);
    let whole = [(0, split), (second, input - split)];
    let node = NodeRecord {
        kind,
        options: draft.options,
        input_size: input,
        hidden_size: hidden,
        output_size: output,
        extents: &extents,
        activations: &activations,
        params: if integer.is_some() { &[] } else { &params },
        numbers: &numbers,
        unroll: (length > 0).then_some(Unroll {
            steps: length,
            read_backwards: flags & 1 != 0,
            write_backwards: flags & 2 != 0,
            stateful: flags & 4 != 0,
            apart: flags & 15 == 12,
        }),
        output_slot: write.0,
        slots: match length {
            0 if split < input => &whole,
            0 => &[(0, input)],
            _ => &[(one, input)],
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
    let end = write.0.checked_add(up(write.1)?)?;
    let mut nodes = nodes_header(records.len() as u32, end).to_vec();
    for record in records {
        let start = nodes.len();
        nodes.resize(start + record.record_bytes(), 0);
        record.write(numeric, layout, &mut nodes[start..]).ok()?;
    }
    // A slot that is read must be written, so two slots are two ports.
    let inputs = [PortRecord::float("a", split, 0), PortRecord::float("b", input - split, second)];
    let inputs = if split < input { &inputs[..] } else { &inputs[..1] };
    let outputs = [PortRecord::float("y", write.1, write.0)];
    let mut ports = vec![0; ports_bytes(inputs, &outputs)];
    write_ports(inputs, &outputs, &mut ports).ok()?;
    let sections =
        [(SectionKind::Nodes, &nodes[..]), (SectionKind::Weights, &weights[..]), (SectionKind::Ports, &ports[..])];
    let writer = ImageWriter { numeric, layout, id: ModelId(1), sections: &sections };
    let mut image = vec![0; writer.image_bytes()];
    writer.write(&mut image).ok()?;
    Some(image)
}
