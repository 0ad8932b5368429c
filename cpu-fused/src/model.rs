//! A model, packed for the machine that runs it.

use core::ops::Range;
use std::sync::Arc;

use tidegate::backend::Pass;
use tidegate::node::Node;
use tidegate::step::Values;
use tidegate::{Model, Numeric, Schedule};

use crate::field::rows_at_once;
use crate::integer;
use crate::isa::Isa;
use crate::lines::Lines;
use crate::node::{self, Kernel};

/// A model whose layers are packed for one instruction set. Many [streams](crate::Stream) may share it, on any threads.
///
/// A clone shares the packed weights.
#[derive(Clone)]
pub struct FusedModel<'m> {
    pub(crate) model: Model<'m>,
    pub(crate) isa: Isa,
    pub(crate) plan: Arc<Plan<'m>>,
    pub(crate) inputs: Arc<[Port]>,
    pub(crate) outputs: Arc<[Port]>,
    /// Every step gives an output and begins from the state that the one before left: steps may be run layer by layer.
    pub(crate) is_plain: bool,
    /// Of one layer that has a kernel, between one input and one output: how long these are.
    pub(crate) single: Option<[usize; 2]>,
}

impl core::fmt::Debug for FusedModel<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("FusedModel").field("model", &self.model.id()).field("isa", &self.isa).finish_non_exhaustive()
    }
}

/// The nodes by what their slots hold.
pub(crate) enum Plan<'m> {
    Float(Nodes<'m, f32>),
    Integer(Nodes<'m, i16>),
}

impl Plan<'_> {
    fn single(&self, inputs: &[Port], outputs: &[Port]) -> Option<[usize; 2]> {
        match self {
            Self::Float(nodes) => nodes.single(inputs, outputs),
            Self::Integer(nodes) => nodes.single(inputs, outputs),
        }
    }
}

/// The nodes in their order.
pub(crate) struct Nodes<'m, E> {
    pub all: Vec<Packed<'m, E>>,
    /// Those up to the last that has a state.
    pub stateful: usize,
}

/// A node, decoded.
pub(crate) struct Packed<'m, E> {
    pub node: Node<'m>,
    /// Whether a step may give nothing.
    pub is_window: bool,
    /// None where `tidegate` steps it.
    pub kernel: Option<Box<dyn Kernel<E> + 'm>>,
    /// Its own in a state.
    pub state: Range<usize>,
    /// Where it reads, unrolled its first row, if that is one slot.
    pub input: Option<Range<usize>>,
    /// Where it writes, unrolled all rows.
    pub output: Range<usize>,
    /// Where the slot that it writes ends, filled up.
    pub output_end: usize,
}

/// An input or output.
pub(crate) struct Port {
    pub place: Range<usize>,
    /// Where its slot ends, filled up.
    pub end: usize,
    pub scale: f32,
}

impl<'m> FusedModel<'m> {
    /// Packs a model for the fastest instruction set of this CPU.
    pub fn new(model: &Model<'m>) -> Self {
        Self::with_isa(model, Isa::best())
    }

    /// Packs a model for an instruction set.
    pub fn with_isa(model: &Model<'m>, isa: Isa) -> Self {
        let port = |((start, size), scale)| Port { place: start..start + size, end: start + model.padded(size), scale };
        let plan = if model.numeric().is_integer() {
            // The numeric `i8` has no kernels here: `tidegate` steps its nodes.
            let bytes = model.numeric() == Numeric::I8;
            Plan::Integer(Nodes::new(model, |node| if bytes { None } else { integer::packed(node, isa) }))
        } else {
            Plan::Float(Nodes::new(model, |node| node::float(node, model.numeric(), isa)))
        };
        let inputs: Arc<[Port]> = model.inputs().slots().map(port).collect();
        let outputs: Arc<[Port]> = model.outputs().slots().map(port).collect();
        Self {
            model: *model,
            isa,
            single: plan.single(&inputs, &outputs),
            plan: Arc::new(plan),
            inputs,
            outputs,
            is_plain: model.schedule() == Schedule::Endless && !model.has_buffer(),
        }
    }

    /// The same model as one endless run, [`Model::endless`], with the same packed weights.
    pub fn endless(&self) -> Self {
        Self { model: self.model.endless(), is_plain: !self.model.has_buffer(), ..self.clone() }
    }

    /// Whether each sequence goes on from the state that the step before left.
    pub(crate) fn is_endless(&self) -> bool {
        self.model.schedule() == Schedule::Endless
    }

    /// The model as its image has it.
    pub fn model(&self) -> &Model<'m> {
        &self.model
    }

    /// What its kernels are made of.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// Which nodes have a kernel here, in their order; `tidegate` steps the others.
    pub fn packed(&self) -> Vec<bool> {
        match &*self.plan {
            Plan::Float(nodes) => nodes.all.iter().map(|node| node.kernel.is_some()).collect(),
            Plan::Integer(nodes) => nodes.all.iter().map(|node| node.kernel.is_some()).collect(),
        }
    }

    /// The kernel of a model that is nothing but one, of floats, for an input and an output of the right lengths.
    #[inline]
    pub(crate) fn single(&self, input: &[f32], output: &[f32]) -> Option<&dyn Kernel<f32>> {
        match &*self.plan {
            Plan::Float(nodes) if self.is_single(input, output) => nodes.all.first()?.kernel.as_deref(),
            _ => None,
        }
    }

    /// The same of integers.
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

    /// Scratch that a step needs; any number of streams may share one.
    pub fn scratch(&self) -> Scratch {
        let spare = self.model.scratch_words() * if matches!(&*self.plan, Plan::Float(_)) { 1 } else { 2 };
        let [work, gathered, rows] = match &*self.plan {
            Plan::Float(nodes) => nodes.most(1, 1),
            Plan::Integer(nodes) => {
                let [work, gathered, rows] = nodes.most(1, 1);
                [work.div_ceil(2), gathered.div_ceil(2), rows]
            }
        };
        Scratch {
            words: Lines::zeroed(self.model.scratch_words() + gathered),
            work: Lines::zeroed(work),
            arenas: Lines::zeroed(0),
            rows: Vec::with_capacity(rows),
            spare,
            odd: false,
        }
    }
}

impl<'m, E: Copy + Default> Nodes<'m, E> {
    /// The lengths of the only input and output, if there is but one layer between them, which has a kernel.
    fn single(&self, inputs: &[Port], outputs: &[Port]) -> Option<[usize; 2]> {
        let ([input], [output], [node]) = (inputs, outputs, self.all.as_slice()) else { return None };
        let direct = node.node.unroll.is_none()
            && node.kernel.is_some()
            && node.input == Some(input.place.start..input.end)
            && node.output == output.place;
        direct.then_some([input.place.len(), output.place.len()])
    }

    fn new(model: &Model<'m>, kernel: impl Fn(&Node<'m>) -> Option<Box<dyn Kernel<E> + 'm>>) -> Self {
        let mut start = 0;
        let packed = |node: Node<'m>| {
            let state = start..start + node.state_elements();
            start = state.end;
            let input = match (node.slot(0), node.gathered_elements()) {
                (Some((start, elements)), 0) => Some(start..start + elements.max(node.padded_input())),
                _ => None,
            };
            let output = node.output();
            let is_window = node.kind.is_buffered();
            Packed {
                kernel: kernel(&node),
                is_window,
                state,
                input,
                output_end: output.start + node.padded_output(),
                output,
                node,
            }
        };
        Self { all: model.nodes().map(packed).collect(), stateful: model.stateful_nodes().count() }
    }

    /// What the neediest of its kernels have for so many steps of so many sequences at once: elements of scratch, elements of
    /// rows that are gathered, and rows.
    pub fn most(&self, batch: usize, steps: usize) -> [usize; 3] {
        self.all.iter().filter_map(|node| node.needs(batch, steps)).fold([0; 3], |most, needs| {
            let [(a, b), (c, d), (e, f)] = [0, 1, 2].map(|index| (most[index], needs[index]));
            [a.max(b), c.max(d), e.max(f)]
        })
    }
}

impl<E: Copy + Default> Packed<'_, E> {
    fn needs(&self, batch: usize, steps: usize) -> Option<[usize; 3]> {
        let kernel = self.kernel.as_ref()?;
        // Windows are run one after the other, their rows together.
        let rows = batch * self.node.unroll.map_or(steps, |unroll| rows_at_once(batch).min(unroll.steps as usize));
        let gathered = self.node.gathered_elements();
        // A step by itself gathers in the kernel's scratch.
        Some([gathered + kernel.work_len(rows), gathered * rows, rows])
    }
}

/// Memory that means nothing between steps.
#[derive(Debug)]
pub struct Scratch {
    /// What `tidegate` needs: the arena, and what its steps have for themselves.
    pub(crate) words: Lines<u32>,
    /// What kernels have for themselves.
    pub(crate) work: Lines<u32>,
    /// The arenas of many steps.
    pub(crate) arenas: Lines<u32>,
    /// Where rows that are gathered lie in `words`: elements of the model's numeric.
    pub(crate) spare: usize,
    /// Where the rows of a block lie.
    pub(crate) rows: Vec<(usize, usize)>,
    /// Whether the last step went through the weights from the end.
    pub(crate) odd: bool,
}

/// What a slot holds.
pub(crate) trait Element: bytemuck::Pod + Default + Send + Sync {
    /// `tidegate`'s own step of a node.
    fn step_by_core(
        node: &Node<'_>,
        pass: &mut Pass,
        state: &mut [Self],
        slots: &mut [Self],
        work: &mut [Self],
    ) -> bool;
    /// For who observes.
    fn values(values: &[Self]) -> Values<'_>;
    /// A count that a state holds.
    fn count(self) -> usize;
    /// A count as a state holds it.
    fn of_count(count: usize) -> Self;
}

impl Element for f32 {
    fn step_by_core(node: &Node<'_>, pass: &mut Pass, state: &mut [f32], slots: &mut [f32], work: &mut [f32]) -> bool {
        node.run_f32(pass, state, slots, work)
    }

    fn values(values: &[f32]) -> Values<'_> {
        Values::F32(values)
    }

    fn count(self) -> usize {
        self as usize
    }

    fn of_count(count: usize) -> f32 {
        count as f32
    }
}

impl Element for i16 {
    fn step_by_core(node: &Node<'_>, pass: &mut Pass, state: &mut [i16], slots: &mut [i16], work: &mut [i16]) -> bool {
        node.run_i16(pass, state, slots, work)
    }

    fn values(values: &[i16]) -> Values<'_> {
        Values::I16(values)
    }

    fn count(self) -> usize {
        self.max(0).unsigned_abs().into()
    }

    fn of_count(count: usize) -> i16 {
        count as i16
    }
}
