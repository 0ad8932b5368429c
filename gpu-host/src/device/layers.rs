//! The stacks of a network on a GPU, for training: the counterpart of [`Cpu`](crate::network::Cpu).
//!
//! The parameters of a network are in the [described](Layout::described) layout, those on the device in cuDNN's. They
//! are copied to the device with each batch, and their gradients are copied back. The layers of a stack with dropout
//! run one by one: the outputs between them are copied to the host, which applies the same masks as on the CPU.

use std::collections::BTreeMap;

use super::{Device, GpuBatch, GpuStack, Math};
use crate::cpu::{Batch, Stack, States};
use crate::layout::{Layout, Region};
use crate::network::{Given, Stacks};
use crate::rnn::{InputMode, Rnn, Settings};
use crate::status::GpuError;
use crate::weights::tensors;

/// All stacks of a network, on a device.
pub struct Layers {
    pub(crate) device: Device,
    pub(crate) math: Math,
    /// Stacks by the number of their layer in the network, and by whether they are split into single layers.
    stacks: BTreeMap<(usize, bool), Vec<Level>>,
}

/// A stack on the device: a whole one, or one layer of it.
struct Level {
    stack: GpuStack,
    /// Pairs of positions of each parameter: on the device, and in the described layout of the whole stack.
    places: Vec<(usize, usize)>,
    /// Pseudo-layers of this level in the whole stack.
    pseudo_layers: std::ops::Range<usize>,
    /// Memory of the previous batch, for reuse, and whether it is for training.
    spare: Option<(GpuBatch, bool)>,
}

/// Values of a forward pass that the backward pass needs: a batch for each level, and the dropout masks between them.
pub struct Tape {
    apart: bool,
    batches: Vec<GpuBatch>,
    masks: Vec<Vec<f32>>,
}

impl Layers {
    /// Prepares a device; stacks are created when they first run.
    pub fn new(device: &Device, math: Math) -> Self {
        Self { device: device.clone(), math, stacks: BTreeMap::new() }
    }

    /// The levels of a layer of the network, which are created on first use.
    fn levels(&mut self, (number, stack): (usize, &Stack), apart: bool) -> Result<&mut [Level], GpuError> {
        let levels = match self.stacks.remove(&(number, apart)) {
            Some(levels) => levels,
            None => {
                let rnn = stack.rnn();
                let (layers, each) = (rnn.settings().layers, if apart { 1 } else { rnn.settings().layers });
                let level = |first| Level::new(&self.device, self.math, rnn, first..first + each);
                (0..layers).step_by(each).map(level).collect::<Result<_, _>>()?
            }
        };
        Ok(self.stacks.entry((number, apart)).or_insert(levels))
    }
}

impl Level {
    fn new(device: &Device, math: Math, whole: &Rnn, layers: std::ops::Range<usize>) -> Result<Self, GpuError> {
        let settings = whole.settings();
        let directions = settings.direction.count();
        let pseudo_layers = layers.start * directions..layers.end * directions;
        let rnn = Rnn::new(Settings {
            layers: layers.len(),
            input_size: whole.input_size(pseudo_layers.start),
            input_mode: if layers.start == 0 { settings.input_mode } else { InputMode::Linear },
            ..*settings
        })?;
        let stack = GpuStack::new(device, &rnn, math)?;
        let described = Layout::described(whole);
        let mut places = Vec::new();
        for (own, theirs) in pseudo_layers.clone().enumerate() {
            for (_, side, kind, _) in tensors(&rnn, own) {
                let of = |layout: &Layout, k| layout.side(k, side, kind).into_iter().flat_map(Region::places);
                places.extend(of(stack.layout(), own).zip(of(&described, theirs)));
            }
        }
        Ok(Self { stack, places, pseudo_layers, spare: None })
    }

    /// Writes the parameters of this level from those of the whole stack.
    fn set_params(&mut self, whole: &[f32]) -> Result<(), GpuError> {
        let mut params = vec![0.0; self.stack.layout().params_size()];
        self.places.iter().for_each(|&(own, theirs)| params[own] = whole[theirs]);
        self.stack.set_params(&params)
    }

    /// Adds the gradient of this level to that of the whole stack.
    fn add_gradient(&self, whole: &mut [f32]) -> Result<(), GpuError> {
        let gradient = self.stack.gradient()?;
        self.places.iter().for_each(|&(own, theirs)| whole[theirs] += gradient[own]);
        Ok(())
    }

    /// Allocates or reuses memory for sequences of these lengths.
    fn batch(&mut self, lengths: &[usize], learning: bool) -> Result<GpuBatch, GpuError> {
        match self.spare.take() {
            Some((batch, learned)) if batch.lengths == lengths && learned == learning => Ok(batch),
            _ => self.stack.batch(lengths, learning, None),
        }
    }
}

impl Stacks for Layers {
    type Tape = Tape;
    type Error = GpuError;

    fn forward(&mut self, given: Given<'_, '_>) -> Result<(Batch, Tape, States), GpuError> {
        let Given { number, stack, params, batch, from, mut dropout, learning, .. } = given;
        let apart = dropout.is_some() && stack.rnn().settings().layers > 1;
        let features = stack.rnn().output_size() * stack.rnn().settings().direction.count();
        let (mut tape, mut states) = (Tape { apart, batches: vec![], masks: vec![] }, Vec::new());
        let mut input = None;
        let levels = self.levels((number, stack), apart)?;
        let last = levels.len().saturating_sub(1);
        for (at, level) in levels.iter_mut().enumerate() {
            level.set_params(params)?;
            let mut on_device = level.batch(&batch.lengths, learning)?;
            let from = from.map(|from| States(from.0[level.pseudo_layers.clone()].to_vec()));
            level.stack.set_states(&mut on_device, from.as_ref())?;
            level.stack.set_input(&mut on_device, input.as_deref().unwrap_or(&batch.data))?;
            level.stack.forward(&mut on_device)?;
            let mut outputs = level.stack.outputs(&on_device)?;
            states.extend(level.stack.states(&on_device)?.0);
            if let Some(dropout) = dropout.as_mut().filter(|_| at < last) {
                let mask = dropout(outputs.len());
                outputs.iter_mut().zip(&mask).for_each(|(value, mask)| *value *= mask);
                tape.masks.push(mask);
            }
            input = Some(outputs);
            tape.batches.push(on_device);
        }
        let data = input.unwrap_or_default();
        Ok((Batch { data, lengths: batch.lengths.clone(), features }, tape, States(states)))
    }

    fn backward(
        &mut self,
        numbered: (usize, &Stack),
        _: &[f32],
        tape: Tape,
        outputs: &[f32],
        into: &mut [f32],
    ) -> Result<Vec<f32>, GpuError> {
        let levels = self.levels(numbered, tape.apart)?;
        let mut gradient = outputs.to_vec();
        for (at, (level, mut batch)) in levels.iter_mut().zip(tape.batches).enumerate().rev() {
            if let Some(mask) = tape.masks.get(at) {
                gradient.iter_mut().zip(mask).for_each(|(value, mask)| *value *= mask);
            }
            level.stack.set_to_outputs(&mut batch, &gradient)?;
            level.stack.clear_gradient()?;
            level.stack.backward(&mut batch)?;
            level.add_gradient(into)?;
            gradient = level.stack.to_input(&batch)?;
            level.spare = Some((batch, true));
        }
        Ok(gradient)
    }
}
