//! The form of a step: the slices that it reads and writes, the function that a kind has for one type of weights, and the
//! table of those that a model uses.

use half::f16;

use super::{CODES, CellKind, CellSpec, IntegerSpec, StateSpec, TensorSpec};
use crate::engine::Values;
use crate::image::{Layout, Numeric};
use crate::kernel;
use crate::node::Node;

/// Whether the step of a node with this option does not count: the last feature is 0. State and output stay.
pub(crate) fn is_masked<E: Element>(node: &Node<'_>, option: u32, x: &[E]) -> bool {
    node.has(option) && x.get(node.input_size.wrapping_sub(1)) == Some(&E::zeroed())
}

/// The slices of one time step of a node, f32 or in the integer numerics i16. Each has the length that the node's spec
/// says, in the integer numerics `x`, each state and each part of `work` filled up to whole units of the layout by zeros;
/// what the rest of `work` and `y` hold before the step means nothing.
pub(crate) struct Io<'s, E = f32> {
    /// What comes in.
    pub x: &'s [E],
    /// What is carried from step to step.
    pub state: &'s mut [E],
    /// Scratch.
    pub work: &'s mut [E],
    /// What goes out.
    pub y: &'s mut [E],
    /// Rows of `x` that are valid, where it holds those of a window.
    pub rows: usize,
}

/// One time step.
type EachStep<E> = fn(&Node<'_>, Io<'_, E>);
/// One time step, of which there may be no output: node, input, state, output.
type BufferedStep<E> = fn(&Node<'_>, Option<&[E]>, &mut [E], &mut [E]) -> Option<usize>;

/// How a kind steps.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Run<E> {
    /// Each step gives an output.
    Each(EachStep<E>),
    /// A step may have nothing to give yet; else it says how many rows of its output are valid. Without an input the
    /// sequence has ended.
    Buffered(BufferedStep<E>),
}

/// Which of the steps of its kind a node needs. Each does all that those before it do: a firmware whose model is a constant
/// holds no more than its options ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// The one that does without.
    Usual,
    /// The one with what is common.
    More,
    /// The one that has all.
    Any,
}

/// A kind for one type of weights: what a step needs of it. A firmware whose model is a constant holds no more of its specs.
#[derive(Debug)]
pub(crate) struct Cell {
    pub states: &'static [StateSpec],
    /// The tensors of the image, where the step asks for their lengths.
    pub tensors: &'static [TensorSpec],
    pub form: Form,
    /// The need that it is made for, where that is [`Need::Any`].
    pub(super) need: Need,
}

/// What a cell computes with.
#[derive(Debug)]
pub(crate) enum Form {
    Float(Run<f32>),
    Integer(Run<i16>),
}

impl Cell {
    pub(super) const fn new(spec: &CellSpec, step: EachStep<f32>) -> Self {
        Self { states: spec.states, tensors: spec.tensors, form: Form::Float(Run::Each(step)), need: Need::Usual }
    }

    pub(super) const fn buffered(spec: &CellSpec, step: BufferedStep<f32>) -> Self {
        Self { states: spec.states, tensors: spec.tensors, form: Form::Float(Run::Buffered(step)), need: Need::Usual }
    }

    /// Whose step reads only matrices, rows and tables, whose lengths it knows.
    pub(super) const fn usual(spec: &CellSpec, step: EachStep<i16>) -> Self {
        Self { states: spec.states, tensors: &[], form: Form::Integer(Run::Each(step)), need: Need::Usual }
    }

    pub(super) const fn integer(spec: &CellSpec, integer: &IntegerSpec, step: EachStep<i16>) -> Self {
        Self { states: spec.states, tensors: integer.tensors, form: Form::Integer(Run::Each(step)), need: Need::Usual }
    }

    pub(super) const fn integer_buffered(spec: &CellSpec, integer: &IntegerSpec, step: BufferedStep<i16>) -> Self {
        Self {
            states: spec.states,
            tensors: integer.tensors,
            form: Form::Integer(Run::Buffered(step)),
            need: Need::Usual,
        }
    }

    pub const fn is_buffered(&self) -> bool {
        matches!(self.form, Form::Float(Run::Buffered(_)) | Form::Integer(Run::Buffered(_)))
    }
}

/// What a slot or a state holds: f32 or, in the integer numerics, i16.
pub(crate) trait Element: bytemuck::Pod + PartialEq {
    /// How a cell steps with it; none if it is of the other kind.
    fn run(form: &Form) -> Option<Run<Self>>;

    /// For who observes.
    fn values(values: &[Self]) -> Values<'_>;

    /// A count that was stored as an element.
    fn to_count(self) -> usize;

    /// A count as an element: in f32 below 2^24, in i16 below 2^15.
    fn from_count(count: usize) -> Self;
}

impl Element for f32 {
    fn run(form: &Form) -> Option<Run<Self>> {
        match form {
            Form::Float(run) => Some(*run),
            Form::Integer(_) => None,
        }
    }

    fn values(values: &[Self]) -> Values<'_> {
        Values::F32(values)
    }

    fn to_count(self) -> usize {
        self as usize
    }

    fn from_count(count: usize) -> Self {
        count as f32
    }
}

impl Element for i16 {
    fn run(form: &Form) -> Option<Run<Self>> {
        match form {
            Form::Float(_) => None,
            Form::Integer(run) => Some(*run),
        }
    }

    fn values(values: &[Self]) -> Values<'_> {
        Values::I16(values)
    }

    fn to_count(self) -> usize {
        self.max(0).unsigned_abs().into()
    }

    fn from_count(count: usize) -> Self {
        count as i16
    }
}

/// The cells that one model uses. All code of a cell is reached through this table, so a firmware whose model is a
/// constant contains the cells of that model, with what its options need, and no others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cells([Option<&'static Cell>; CODES]);

impl Cells {
    pub const NONE: Self = Self([None; CODES]);

    /// The same with this kind, for a node with these options too. Without a form in this numeric it stays missing.
    pub const fn with(mut self, kind: CellKind, options: u32, numeric: Numeric, layout: Layout) -> Self {
        let need = kind.need(options, numeric);
        if let Some(cell) = self.get(kind)
            && (matches!(need, Need::Usual) || matches!(cell.need, Need::Any))
        {
            return self;
        }
        let cell = match numeric {
            Numeric::F32 => Some(kind.cell::<f32>(need).1),
            Numeric::F16 => Some(kind.cell::<f16>(need).1),
            Numeric::I8x16 | Numeric::I4x16 | Numeric::I8 => kernel::integer_cell(kind, need, numeric, layout),
        };
        let mut code = 0;
        while code < CODES {
            if code == kind as usize {
                self.0[code] = cell;
            }
            code += 1;
        }
        self
    }

    pub const fn get(&self, kind: CellKind) -> Option<&'static Cell> {
        match self.0.split_at_checked(kind as usize) {
            Some((_, [cell, ..])) => *cell,
            _ => None,
        }
    }
}

/// Zeroes what fills a slot up, where there is any: for nothing no function is called.
#[inline(always)]
pub(crate) fn fill_up<E: Element>(filling: &mut [E]) {
    if !filling.is_empty() {
        filling.fill(E::zeroed());
    }
}

/// As many as both have. Two a turn: of one a turn the compiler would make a call of `memcpy`, which takes more flash than a
/// layer.
pub(crate) fn copy<E: Copy>(to: &mut [E], from: &[E]) {
    let len = to.len().min(from.len());
    let (Some(to), Some(from)) = (to.get_mut(..len), from.get(..len)) else { return };
    #[cfg(all(target_arch = "arm", feature = "mve"))]
    kernel::copy(to, from);
    #[cfg(not(all(target_arch = "arm", feature = "mve")))]
    by_twos(to, from);
}

/// [`copy`], of as many.
#[cfg(not(all(target_arch = "arm", feature = "mve")))]
#[inline(always)]
fn by_twos<E: Copy>(to: &mut [E], from: &[E]) {
    let ((to, to_last), (from, from_last)) = (to.as_chunks_mut::<2>(), from.as_chunks::<2>());
    for ([to, to_next], &[value, next]) in to.iter_mut().zip(from) {
        *to = value;
        *to_next = next;
    }
    if let ([to], &[value]) = (to_last, from_last) {
        *to = value;
    }
}

/// The sums of two blocks of four rows.
pub(crate) fn sum([a, b, c, d]: [f32; 4], [e, f, g, h]: [f32; 4]) -> [f32; 4] {
    [a + e, b + f, c + g, d + h]
}

/// The greater of two; not a number if one is not, which `f32::max` would hide.
pub(crate) fn greater(a: f32, b: f32) -> f32 {
    if a > b || a.is_nan() { a } else { b }
}
