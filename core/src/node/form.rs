//! The form of a step: the slices that it reads and writes, the function that a kind has for one type of weights, and
//! the table of the cells that a model uses.

use super::Node;
use crate::element::Element;
use crate::spec::{CODES, CellKind, CellSpec, IntegerSpec, StateSpec, TensorSpec};

/// Whether the step of a node with this option is masked: the last feature is 0. State and output then keep their
/// values.
pub(crate) fn is_masked<E: Element>(node: &Node<'_>, option: u32, x: &[E]) -> bool {
    node.has(option) && x.get(node.input_size.wrapping_sub(1)) == Some(&E::zeroed())
}

/// The slices of one time step of a node, of f32 or, in the integer numerics, of i16. Each has the length that the
/// node's spec specifies. In the integer numerics `x`, each state and each part of `work` are padded with zeros to
/// whole units of the layout. The initial contents of `y` and of the rest of `work` are unspecified.
pub(crate) struct Io<'s, E = f32> {
    /// The input.
    pub x: &'s [E],
    /// The state that is carried from step to step.
    pub state: &'s mut [E],
    /// Scratch.
    pub work: &'s mut [E],
    /// The output.
    pub y: &'s mut [E],
    /// Number of valid rows of `x`, if it holds the rows of a window.
    pub rows: usize,
}

/// One time step.
type EachStep<E> = fn(&Node<'_>, Io<'_, E>);
/// One time step that may have no output: node, input, state, output.
type BufferedStep<E> = fn(&Node<'_>, Option<&[E]>, &mut [E], &mut [E]) -> Option<usize>;

/// The kinds of step functions.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Run<E> {
    /// Each step has an output.
    Each(EachStep<E>),
    /// A step may have no output yet, and then returns `None`. Otherwise it returns the number of valid rows of its
    /// output, `usize::MAX` for all. A missing input means that the sequence has ended.
    Buffered(BufferedStep<E>),
}

/// One step of a kind for one type of weights, with the part of the specs that it reads. A firmware whose model is a constant
/// contains no other part of its specs.
#[derive(Debug)]
pub(crate) struct Cell {
    pub states: &'static [StateSpec],
    /// The tensors of the image, if the step needs their lengths.
    pub tensors: &'static [TensorSpec],
    pub form: Form,
    /// The options that need this step; 0 for the step of nodes without such options.
    pub options: u32,
}

/// A step, by its number type.
#[derive(Debug)]
pub(crate) enum Form {
    Float(Run<f32>),
    Integer(Run<i16>),
}

impl Cell {
    const fn new(states: &'static [StateSpec], tensors: &'static [TensorSpec], form: Form) -> Self {
        Self { states, tensors, form, options: 0 }
    }

    pub const fn float(spec: &CellSpec, step: EachStep<f32>) -> Self {
        Self::new(spec.states, spec.tensors, Form::Float(Run::Each(step)))
    }

    pub const fn float_buffered(spec: &CellSpec, step: BufferedStep<f32>) -> Self {
        Self::new(spec.states, spec.tensors, Form::Float(Run::Buffered(step)))
    }

    pub const fn integer(spec: &CellSpec, integer: &IntegerSpec, step: EachStep<i16>) -> Self {
        Self::new(integer.states_of(spec), integer.tensors, Form::Integer(Run::Each(step)))
    }

    pub const fn integer_buffered(spec: &CellSpec, integer: &IntegerSpec, step: BufferedStep<i16>) -> Self {
        Self::new(integer.states_of(spec), integer.tensors, Form::Integer(Run::Buffered(step)))
    }

    /// A step that reads only matrices, rows and tables. It knows their lengths without the specs.
    pub const fn integer_whole(spec: &CellSpec, step: EachStep<i16>) -> Self {
        Self::new(spec.states, &[], Form::Integer(Run::Each(step)))
    }

    /// This step, for nodes with any of these option bits. It must support everything that earlier steps in its row
    /// support.
    pub const fn when(self, options: u32) -> Self {
        Self { options, ..self }
    }

    /// Whether this is a step for a node with these option bits.
    pub const fn is_for(&self, options: u32) -> bool {
        self.options == 0 || self.options & options != 0
    }

    /// The address of the code.
    pub fn address(&self) -> usize {
        match self.form {
            Form::Float(Run::Each(step)) => step as usize,
            Form::Float(Run::Buffered(step)) => step as usize,
            Form::Integer(Run::Each(step)) => step as usize,
            Form::Integer(Run::Buffered(step)) => step as usize,
        }
    }

    pub const fn is_buffered(&self) -> bool {
        matches!(self.form, Form::Float(Run::Buffered(_)) | Form::Integer(Run::Buffered(_)))
    }
}

/// The row of a kind in the table of cells. Each list starts with the usual step; each further step lists the options
/// that need it, and supports everything that the steps before it support. Therefore firmware whose model is a constant
/// contains no more than its options need.
pub(crate) struct Entry {
    pub spec: &'static CellSpec,
    /// In the float numerics.
    pub float: &'static [&'static Cell],
    /// In `i8x16` and `i4x16`; empty if the kind has no such form.
    pub integer: &'static [(&'static IntegerSpec, &'static Cell)],
    /// In `i8`; empty if the kind has no such form.
    pub i8: &'static [(&'static IntegerSpec, &'static Cell)],
}

impl Entry {
    /// An empty row.
    pub const EMPTY: Self = Self { spec: &CellSpec::EMPTY, float: &[], integer: &[], i8: &[] };
}

/// An [`Element`] as the number type of a step.
pub(crate) trait Number: Element {
    /// The step of a form with this number type; `None` if the form has the other number type.
    fn run(form: &Form) -> Option<Run<Self>>;
}

impl Number for f32 {
    fn run(form: &Form) -> Option<Run<Self>> {
        match form {
            Form::Float(run) => Some(*run),
            Form::Integer(_) => None,
        }
    }
}

impl Number for i16 {
    fn run(form: &Form) -> Option<Run<Self>> {
        match form {
            Form::Float(_) => None,
            Form::Integer(run) => Some(*run),
        }
    }
}

/// The cells that one model uses. All code of a cell is reached through this table, so a firmware whose model is a
/// constant contains only the cells of that model, in the versions that its options need.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cells([Option<&'static Cell>; CODES]);

impl Cells {
    pub const NONE: Self = Self([None; CODES]);

    /// This table with `cell` for a kind.
    pub const fn set(mut self, kind: CellKind, cell: Option<&'static Cell>) -> Self {
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
