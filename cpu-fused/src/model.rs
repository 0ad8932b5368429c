//! [`FusedModel`]: a model packed for the CPU that runs it.

use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use tidegate::internals::node::Node;
use tidegate::{Model, Schedule, StepError};

use crate::error::PackError;
use crate::isa::Isa;
use crate::kernels;
use crate::layer::Layer;
use crate::lines::Lines;
use crate::plan::{Nodes, Packed, Plan, Port};

/// A model whose layers are packed for one instruction set. Any number of [streams](crate::Stream) on any threads can
/// share it.
///
/// Clones share the packed weights.
#[derive(Clone)]
pub struct FusedModel<'m> {
    pub(crate) model: Model<'m>,
    pub(crate) isa: Isa,
    pub(crate) plan: Arc<Plan<'m>>,
    /// Distinguishes the plan from all others of this process.
    id: u64,
    pub(crate) inputs: Arc<[Port]>,
    pub(crate) outputs: Arc<[Port]>,
    /// Whether every step has an output and continues from the previous state, so that sequences can run layer by
    /// layer.
    pub(crate) is_plain: bool,
    /// Lengths of input and output if the model is a single layer with a kernel.
    pub(crate) single: Option<[usize; 2]>,
}

impl core::fmt::Debug for FusedModel<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("FusedModel").field("model", &self.model.id()).field("isa", &self.isa).finish_non_exhaustive()
    }
}

impl<'m> FusedModel<'m> {
    /// Packs a model for the fastest instruction set of this CPU.
    pub fn new(model: &Model<'m>) -> Self {
        Self::with_isa(model, Isa::best())
    }

    /// Packs a model for an instruction set.
    pub fn with_isa(model: &Model<'m>, isa: Isa) -> Self {
        match Self::try_with_isa(model, isa, usize::MAX) {
            Ok(packed) => packed,
            Err(_) => unreachable!("no allocation is longer than usize::MAX"),
        }
    }

    /// [`new`](Self::new) for images from elsewhere: packs the layers into at most `limit` bytes. Layers with few rows
    /// take up to 16 times the bytes of their weights in the image.
    ///
    /// # Errors
    /// If the layers need more. At most one layer beyond the limit has then been packed.
    pub fn try_new(model: &Model<'m>, limit: usize) -> Result<Self, PackError> {
        Self::try_with_isa(model, Isa::best(), limit)
    }

    /// [`try_new`](Self::try_new) for an instruction set.
    ///
    /// # Errors
    /// As [`try_new`](Self::try_new).
    pub fn try_with_isa(model: &Model<'m>, isa: Isa, limit: usize) -> Result<Self, PackError> {
        static IDS: AtomicU64 = AtomicU64::new(0);
        let port = |((start, size), scale)| Port { place: start..start + size, end: start + model.padded(size), scale };
        let plan = if model.numeric().is_integer() {
            let windowed = |node: &Node<'m>| kernels::integer_window(node, isa);
            Plan::Integer(Nodes::new(model, limit, |node| kernels::integer(node, isa), windowed)?)
        } else {
            Plan::Float(Nodes::new(model, limit, |node| kernels::float(node, model.numeric(), isa), |_| None)?)
        };
        let inputs: Arc<[Port]> = model.inputs().slots().map(port).collect();
        let outputs: Arc<[Port]> = model.outputs().slots().map(port).collect();
        Ok(Self {
            model: *model,
            id: IDS.fetch_add(1, Ordering::Relaxed),
            isa,
            single: plan.single(&inputs, &outputs),
            plan: Arc::new(plan),
            inputs,
            outputs,
            is_plain: model.schedule() == Schedule::Endless && !model.has_buffer(),
        })
    }

    /// The same model with an endless schedule ([`Model::endless`]). It shares the packed weights.
    pub fn endless(&self) -> Self {
        Self { model: self.model.endless(), is_plain: !self.model.has_buffer(), ..self.clone() }
    }

    /// Whether the schedule is endless: every step continues from the previous state.
    pub(crate) fn is_endless(&self) -> bool {
        self.model.schedule() == Schedule::Endless
    }

    /// The model of the image.
    pub fn model(&self) -> &Model<'m> {
        &self.model
    }

    /// The instruction set that the layers are packed for.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// For each node in execution order, whether it has a kernel; `tidegate` steps the others.
    pub fn packed(&self) -> Vec<bool> {
        match &*self.plan {
            Plan::Float(nodes) => nodes.all.iter().map(Packed::has_kernel).collect(),
            Plan::Integer(nodes) => nodes.all.iter().map(Packed::has_kernel).collect(),
        }
    }

    /// The layer of a float model that is a single layer, if input and output have the right lengths.
    #[inline]
    pub(crate) fn single(&self, input: &[f32], output: &[f32]) -> Option<&dyn Layer<f32>> {
        match &*self.plan {
            Plan::Float(nodes) if self.is_single(input, output) => nodes.all.first()?.layer.as_deref(),
            _ => None,
        }
    }

    /// [`single`](Self::single) for integer models.
    pub(crate) fn single_integer(&self, input: &[f32], output: &[f32]) -> Option<&Packed<'m, i16>> {
        match &*self.plan {
            Plan::Integer(nodes) if self.is_single(input, output) => nodes.all.first(),
            _ => None,
        }
    }

    #[inline]
    fn is_single(&self, input: &[f32], output: &[f32]) -> bool {
        self.is_plain && self.single == Some([input.len(), output.len()])
    }

    /// Checks that a scratch belongs to this model: its parts have the lengths that the plan needs.
    pub(crate) fn check_scratch(&self, scratch: &Scratch) -> Result<(), StepError> {
        if scratch.owner == self.id { Ok(()) } else { Err(StepError::OtherScratch) }
    }

    /// Allocates the scratch of a step. Streams of this model, its clones and its [endless](Self::endless) form can
    /// share it, one step at a time.
    pub fn scratch(&self) -> Scratch {
        let spare = self.model.scratch_words() * if matches!(&*self.plan, Plan::Float(_)) { 1 } else { 2 };
        let [work, gathered, rows, windows] = match &*self.plan {
            Plan::Float(nodes) => {
                let [work, gathered, rows] = nodes.most(1, 1);
                [work, gathered, rows, nodes.of_windows()]
            }
            Plan::Integer(nodes) => {
                let [work, gathered, rows] = nodes.most(1, 1);
                [work.div_ceil(2), gathered.div_ceil(2), rows, nodes.of_windows().div_ceil(2)]
            }
        };
        Scratch {
            owner: self.id,
            words: Lines::zeroed(self.model.scratch_words() + gathered + windows),
            work: Lines::zeroed(work),
            arenas: Lines::zeroed(0),
            rows: Vec::with_capacity(rows),
            spare,
            odd: false,
        }
    }
}

/// Working memory of steps and sequences of one model. It holds no results between calls.
#[derive(Debug)]
pub struct Scratch {
    /// The id of the model.
    owner: u64,
    /// Scratch of `tidegate`: the arena, and the scratch of its steps.
    pub(crate) words: Lines<u32>,
    /// Scratch of the kernels.
    pub(crate) work: Lines<u32>,
    /// Arenas of many steps.
    pub(crate) arenas: Lines<u32>,
    /// Offset of gathered rows in `words`, in elements of the model's numeric.
    pub(crate) spare: usize,
    /// Offsets of the rows of a block.
    pub(crate) rows: Vec<(usize, usize)>,
    /// Whether the last step walked the weights from the end.
    pub(crate) odd: bool,
}
