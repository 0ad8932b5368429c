//! Common code of cuDNN's three RNN calls: their checked arguments, and the reserve. It holds hashes of the values of
//! the forward pass, the input, and, between the two backward calls, the gradient of the parameters.

use std::ffi::{c_int, c_uint, c_void};
use std::hash::{DefaultHasher, Hash, Hasher};

use tidegate_gpu::cpu::{Batch, Stack, States, fill_padding, longest};
use tidegate_gpu::layout::Layout;
use tidegate_gpu::rnn::{Cell, Rnn};

use crate::cudnn::{BAD_PARAM, NOT_SUPPORTED};
use crate::layout::{layout, places};
use crate::machine::{Data, Described, Element, Machine};
use crate::{Code, Opaque, need};

/// `CUDNN_RNN_ALGO_STANDARD`
const STANDARD: c_uint = 0;
/// First word of a reserve after a forward pass. The stage and [`Sums`], of 64 bits each, follow.
const TAG: u32 = 0x7469_6465;
const HEADER: usize = 2 + 2 * SUMS;
const SUMS: usize = 5;
pub const FORWARD: u32 = 1;
pub const BACKWARD: u32 = 2;

/// Hashes of a forward pass: shapes, parameters, both states and outputs.
pub type Sums = [u64; SUMS];
pub const SHAPES: usize = 0;
pub const PARAMS: usize = 1;
pub const HIDDEN: usize = 2;
pub const CELL: usize = 3;
pub const OUTPUTS: usize = 4;

/// Whether a `cudnnForwardMode_t` is the one for training.
pub fn is_training(mode: c_uint) -> Result<bool, Code> {
    need(mode <= 1, BAD_PARAM).map(|()| mode == 1)
}

/// Checks that a stack supports these sequences: different lengths require padding and the standard algorithm.
pub fn check(described: &Described, x: &Data) -> Result<(), Code> {
    let even = x.lengths.iter().all(|&length| length == x.longest);
    need(even || (described.padded && described.algorithm == STANDARD), NOT_SUPPORTED)
}

/// Sizes of the work space and the reserve in bytes.
pub fn spaces(rnn: &Rnn, x: &Data) -> [usize; 2] {
    let rows = x.longest * x.lengths.len();
    let params = Layout::described(rnn).params_size();
    [rows * rnn.settings().hidden_size * rnn.settings().cell.blocks(), HEADER + rows * x.features + params]
        .map(|n| 4 * n)
}

fn sum(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

pub fn sum_of(values: &[f32]) -> u64 {
    sum(bytemuck::cast_slice::<f32, u32>(values))
}

pub struct Reserve<'m> {
    pub header: &'m mut [u32],
    /// Input, `[longest, sequences, features]`; only existing steps are used.
    pub x: &'m mut [f32],
    /// Gradient of the parameters, in the CPU's order.
    pub gradient: &'m mut [f32],
}

/// Arguments that all three calls have.
pub struct Run<'m> {
    machine: &'m mut Machine,
    device: c_int,
    rnn: Rnn,
    pub element: Element,
    pub stack: Stack,
    pub layout: Layout,
    pub x: Data,
    pub y: Data,
    reserve: [u64; 2],
}

impl<'m> Run<'m> {
    pub fn new(
        machine: &'m mut Machine,
        [handle, rnn, x, y]: [Opaque; 4],
        lengths: *const i32,
        [work, reserve]: [(usize, *mut c_void); 2],
    ) -> Result<Self, Code> {
        let (device, described) = (machine.handle(handle)?, machine.rnn(rnn)?);
        let (x, y, rnn) = (machine.data(x)?.clone(), machine.data(y)?.clone(), described.rnn);
        let element = described.element;
        check(&described, &x)?;
        let outputs = rnn.output_size() * rnn.settings().direction.count();
        let shapes = (x.longest, &x.lengths, x.features) == (y.longest, &y.lengths, rnn.settings().input_size);
        let on_device = machine.words(lengths.addr() as u64, x.lengths.len(), device).ok_or(BAD_PARAM)?;
        let same = on_device.iter().map(|&length| length as usize).eq(x.lengths.iter().copied());
        let types = x.element == element && y.element == element;
        need(types && shapes && y.features == outputs && same, BAD_PARAM)?;
        let (stack, layout) = (Stack::new(&rnn), layout(&rnn));
        let [work, reserve] = [work, reserve].map(|(bytes, address)| [address.addr() as u64, bytes as u64]);
        // Fill the work space: nothing in it may be used by a later call.
        let ([bytes, _], [address, given]) = (spaces(&rnn, &x), work);
        need(given >= bytes as u64, BAD_PARAM)?;
        machine.words(address, bytes / 4, device).ok_or(BAD_PARAM)?.fill(u32::MAX);
        Ok(Self { machine, device, rnn, element, stack, layout, x, y, reserve })
    }

    pub fn read(&mut self, from: *const c_void, len: usize) -> Result<Vec<f32>, Code> {
        self.machine.floats(self.element, from.addr() as u64, len, self.device).ok_or(BAD_PARAM)
    }

    pub fn write(&mut self, to: *mut c_void, values: &[f32]) -> Result<(), Code> {
        self.machine.put_floats(self.element, to.addr() as u64, values, self.device).ok_or(BAD_PARAM)
    }

    /// Reads the parameters, in the CPU's order.
    pub fn params(&mut self, bytes: usize, from: *const c_void) -> Result<Vec<f32>, Code> {
        need(bytes >= self.element.bytes() * self.layout.params_size(), BAD_PARAM)?;
        let all = self.read(from, self.layout.params_size())?;
        Ok(places(&self.layout).into_iter().map(|place| all[place]).collect())
    }

    /// Reads a batch, `[longest, sequences, features]`, with zeros after the end of each sequence and without unused
    /// steps.
    pub fn batch(&mut self, data: &Data, from: *const c_void) -> Result<Vec<f32>, Code> {
        let mut values = self.read(from, data.longest * data.lengths.len() * data.features)?;
        fill_padding(&mut values, &data.lengths, data.features, 0.0);
        values.truncate(longest(&data.lengths) * data.lengths.len() * data.features);
        Ok(values)
    }

    /// Writes a batch, with `fill` after the end of each sequence.
    pub fn put_batch(&mut self, data: &Data, to: *mut c_void, mut values: Vec<f32>, fill: f32) -> Result<(), Code> {
        values.resize(data.longest * data.lengths.len() * data.features, 0.0);
        fill_padding(&mut values, &data.lengths, data.features, fill);
        self.write(to, &values)
    }

    /// Number of elements of the hidden or cell state, `[pseudo-layers, sequences, ...]`; zero if the cell has no cell
    /// state.
    pub fn state_len(&self, part: usize) -> usize {
        let sizes = [self.rnn.output_size(), self.rnn.settings().hidden_size];
        let there = part == 0 || self.rnn.settings().cell == Cell::Lstm;
        usize::from(there) * self.rnn.pseudo_layers() * self.x.lengths.len() * sizes[part]
    }

    /// Checks the descriptor of a state. It may be null if there is no cell state.
    pub fn check_state(&self, part: usize, descriptor: Opaque) -> Result<(), Code> {
        let len = self.state_len(part);
        if len == 0 {
            return Ok(());
        }
        let (layers, rows) = (self.rnn.pseudo_layers(), self.x.lengths.len());
        let size = len / (layers * rows);
        let tensor = self.machine.tensor(descriptor)?;
        let is = |found: &[c_int], needed: [usize; 3]| found.iter().map(|&value| value as usize).eq(needed);
        let shaped = is(&tensor.dims, [layers, rows, size]) && is(&tensor.strides, [rows * size, size, 1]);
        need(tensor.element == self.element && shaped, BAD_PARAM)
    }

    /// Reads a state or its gradient; null means zeros.
    pub fn state(&mut self, part: usize, from: *const c_void) -> Result<Vec<f32>, Code> {
        let len = self.state_len(part);
        if from.is_null() || len == 0 { Ok(vec![0.0; len]) } else { self.read(from, len) }
    }

    pub fn put_state(&mut self, part: usize, to: *mut c_void, values: &[f32]) -> Result<(), Code> {
        if to.is_null() || self.state_len(part) == 0 { Ok(()) } else { self.write(to, values) }
    }

    /// The initial states in the CPU's form.
    pub fn states(&self, hidden: &[f32], cell: &[f32]) -> States {
        let (layers, rows) = (self.rnn.pseudo_layers(), self.x.lengths.len());
        let each = |all: &[f32], k, size| {
            all.chunks_exact(rows * size).nth(k).map_or_else(|| vec![0.0; rows * size], <[f32]>::to_vec)
        };
        let (output, units) = (self.rnn.output_size(), self.rnn.settings().hidden_size);
        States((0..layers).map(|k| [each(hidden, k, output), each(cell, k, units)]).collect())
    }

    pub fn given(&self, x: Vec<f32>) -> Batch {
        Batch { data: x, lengths: self.x.lengths.clone(), features: self.x.features }
    }

    pub fn shapes(&self) -> u64 {
        sum((format!("{:?}", self.rnn), &self.x.lengths, self.x.longest))
    }

    pub fn reserve(&mut self) -> Result<Reserve<'_>, Code> {
        let ([_, bytes], [address, given]) = (spaces(&self.rnn, &self.x), self.reserve);
        need(given >= bytes as u64, BAD_PARAM)?;
        let x_len = self.x.longest * self.x.lengths.len() * self.x.features;
        let words = self.machine.words(address, bytes / 4, self.device).ok_or(BAD_PARAM)?;
        let (header, rest) = words.split_at_mut(HEADER);
        let (x, gradient) = bytemuck::cast_slice_mut(rest).split_at_mut(x_len);
        Ok(Reserve { header, x, gradient })
    }

    /// Stores the hashes and input of a forward pass.
    pub fn keep(&mut self, sums: Sums, given: &[f32]) -> Result<(), Code> {
        let Reserve { header, x, gradient } = self.reserve()?;
        let words = sums.iter().flat_map(|&sum| [sum as u32, (sum >> 32) as u32]);
        header.iter_mut().zip([TAG, FORWARD].into_iter().chain(words)).for_each(|(to, word)| *to = word);
        x[..given.len()].copy_from_slice(given);
        gradient.fill(f32::NAN);
        Ok(())
    }

    /// Checks that the reserve belongs to the same forward pass, and that the passes have reached `stage`.
    pub fn check_kept(&mut self, stage: u32, sums: &[(usize, u64)]) -> Result<(), Code> {
        let header = self.reserve()?.header;
        let kept = |which: usize| u64::from(header[2 + 2 * which]) | u64::from(header[3 + 2 * which]) << 32;
        let same = sums.iter().all(|&(which, sum)| kept(which) == sum);
        need(header[0] == TAG && header[1] >= stage && same, BAD_PARAM)
    }
}
