//! The plan of a model: its nodes with their packed layers and the places that they read and write.

use core::cell::Cell;
use core::ops::Range;
use std::sync::Arc;

use tidegate::internals::{backend::Pass, node::Node};
use tidegate::{Model, Values};

use crate::error::PackError;
use crate::layer::{Io, Layer, Windowed, apart};
use crate::lines::allocated_by;

/// Number of steps, over all sequences, that run together: their sums stay in the second-level cache.
pub(crate) const STEPS: usize = 128;

/// Rows of each window that run together when `batch` sequences have one.
pub(crate) fn rows_at_once(batch: usize) -> usize {
    (STEPS / batch.max(1)).max(1)
}

/// The nodes by the type of their slots.
pub(crate) enum Plan<'m> {
    Float(Nodes<'m, f32>),
    Integer(Nodes<'m, i16>),
}

impl Plan<'_> {
    /// See [`Nodes::single`].
    pub fn single(&self, inputs: &[Port], outputs: &[Port]) -> Option<[usize; 2]> {
        match self {
            Self::Float(nodes) => nodes.single(inputs, outputs),
            Self::Integer(nodes) => nodes.single(inputs, outputs),
        }
    }

    /// [`Nodes::most`] for one step of `batch` sequences, and elements of a word.
    pub fn most(&self, batch: usize) -> ([usize; 3], usize) {
        match self {
            Self::Float(nodes) => (nodes.most(batch, 1), 1),
            Self::Integer(nodes) => (nodes.most(batch, 1), 2),
        }
    }
}

/// The nodes in execution order.
pub(crate) struct Nodes<'m, E> {
    pub all: Vec<Packed<'m, E>>,
    /// Number of nodes up to the last one with a state.
    pub stateful: usize,
}

/// A decoded node.
pub(crate) struct Packed<'m, E> {
    pub node: Node<'m>,
    /// Whether a step may end without an output.
    pub is_window: bool,
    /// The packed layer.
    pub layer: Option<Arc<dyn Layer<E> + 'm>>,
    /// The packed layer of a node with a window. `tidegate` steps a node that has neither.
    pub windowed: Option<Box<dyn Windowed<E> + 'm>>,
    /// The node's part of a state.
    pub state: Range<usize>,
    /// The slot that the node reads, if it reads only one; the first row of the slot if the node is unrolled.
    pub input: Option<Range<usize>>,
    /// The elements that the node writes; all rows if the node is unrolled.
    pub output: Range<usize>,
    /// End of the slot that the node writes, including padding.
    pub output_end: usize,
}

/// An input or output of the model.
pub(crate) struct Port {
    pub place: Range<usize>,
    /// End of the port's slot, including padding.
    pub end: usize,
    pub scale: f32,
}

impl<'m, E: Copy + Default> Nodes<'m, E> {
    /// Lengths of input and output of a model that is a single layer with a kernel.
    fn single(&self, inputs: &[Port], outputs: &[Port]) -> Option<[usize; 2]> {
        let ([input], [output], [node]) = (inputs, outputs, self.all.as_slice()) else { return None };
        let direct = node.node.unroll.is_none()
            && node.layer.is_some()
            && node.input == Some(input.place.start..input.end)
            && node.output == output.place;
        direct.then_some([input.place.len(), output.place.len()])
    }

    /// Packs the nodes of a model into at most `limit` bytes. Nodes that read the same tensors in the same way share a
    /// layer.
    pub fn new(
        model: &Model<'m>,
        limit: usize,
        pack: impl Fn(&Node<'m>) -> Option<Box<dyn Layer<E> + 'm>>,
        pack_windowed: impl Fn(&Node<'m>) -> Option<Box<dyn Windowed<E> + 'm>>,
    ) -> Result<Self, PackError> {
        let (mut start, left) = (0, Cell::new(limit));
        let take = |index: usize, bytes: usize| {
            left.set(left.get().checked_sub(bytes).ok_or(PackError { node: index, limit })?);
            Ok(())
        };
        let mut layers: Vec<(Node<'m>, Arc<dyn Layer<E> + 'm>)> = Vec::new();
        let mut shared = |index: usize, node: &Node<'m>| {
            if let Some((_, layer)) = layers.iter().find(|(other, _)| node.has_layer_of(other)) {
                return Ok(Some(layer.clone()));
            }
            let (layer, bytes) = allocated_by(|| pack(node));
            take(index, bytes)?;
            let layer: Option<Arc<dyn Layer<E> + 'm>> = layer.map(Into::into);
            layers.extend(layer.clone().map(|layer| (*node, layer)));
            Ok(layer)
        };
        let packed = |(index, node): (usize, Node<'m>)| {
            let state = start..start + node.state_elements();
            start = state.end;
            let input = match (node.slot(0), node.gathered_elements()) {
                (Some((start, elements)), 0) => Some(start..start + elements.max(node.padded_input())),
                _ => None,
            };
            let output = node.output();
            let is_window = node.kind.is_buffered();
            let (windowed, bytes) = allocated_by(|| is_window.then(|| pack_windowed(&node)).flatten());
            take(index, bytes)?;
            Ok(Packed {
                windowed,
                // `tidegate` steps the nodes whose rows have states of their own.
                layer: if node.cells() > 1 { None } else { shared(index, &node)? },
                is_window,
                state,
                input,
                output_end: output.start + node.padded_output(),
                output,
                node,
            })
        };
        let all = model.nodes().enumerate().map(packed).collect::<Result<_, _>>()?;
        Ok(Self { all, stateful: model.stateful_nodes().count() })
    }

    /// Largest number of sequences for which any layer prefers single steps ([`Layer::few`]).
    pub fn few(&self) -> usize {
        self.all.iter().filter_map(|node| node.layer.as_ref()).map(|layer| layer.few()).max().unwrap_or(usize::MAX)
    }

    /// Elements of scratch of the windows.
    pub fn of_windows(&self) -> usize {
        self.all.iter().filter_map(|node| node.windowed.as_ref()).map(|layer| layer.work_len()).max().unwrap_or(0)
    }

    /// Largest needs of any kernel for `steps` steps of `batch` sequences at once: elements of scratch, elements of
    /// gathered rows, and rows.
    pub fn most(&self, batch: usize, steps: usize) -> [usize; 3] {
        self.all.iter().filter_map(|node| node.needs(batch, steps)).fold([0; 3], |most, needs| {
            let [(a, b), (c, d), (e, f)] = [0, 1, 2].map(|index| (most[index], needs[index]));
            [a.max(b), c.max(d), e.max(f)]
        })
    }
}

impl<E: Element> Packed<'_, E> {
    /// Whether the node has a kernel.
    pub fn has_kernel(&self) -> bool {
        self.layer.is_some() || self.windowed.is_some()
    }

    /// Steps a node that has no [layer](Self::layer). Returns whether the pass continues.
    pub fn step_alone(&self, pass: &mut Pass, state: &mut [E], slots: &mut [E], work: &mut [E]) -> bool {
        let (Some(windowed), Some(input), true) = (&self.windowed, &self.input, pass.steps()) else {
            return E::step_by_core(&self.node, pass, state, slots, work);
        };
        slots[self.output.end..self.output_end].fill(E::default());
        let (x, y) = apart(slots, input, &self.output);
        *pass = Pass::STEP;
        windowed.step(Io { x, state, work, y, odd: false })
    }
}

impl<E: Copy + Default> Packed<'_, E> {
    fn needs(&self, batch: usize, steps: usize) -> Option<[usize; 3]> {
        let layer = self.layer.as_ref()?;
        // Windows run one after the other, their rows together.
        let rows = batch * self.node.unroll.map_or(steps, |unroll| rows_at_once(batch).min(unroll.steps as usize));
        let gathered = self.node.gathered_elements();
        // A single step gathers in the scratch of the kernel.
        Some([gathered + layer.work_len(rows), gathered * rows, rows])
    }
}

/// Element type of a slot.
pub(crate) trait Element: bytemuck::Pod + Default + Send + Sync {
    /// Steps a node with `tidegate`.
    fn step_by_core(
        node: &Node<'_>,
        pass: &mut Pass,
        state: &mut [Self],
        slots: &mut [Self],
        work: &mut [Self],
    ) -> bool;
    /// The values passed to the observer.
    fn values(values: &[Self]) -> Values<'_>;
    /// Reads a count from a state.
    fn count(self) -> usize;
    /// Encodes a count for a state.
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
