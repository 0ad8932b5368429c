//! The backends that run models: `tidegate`, and `tidegate-fused` with each instruction set of this CPU. Every backend
//! passes the same suite.

use std::cell::RefCell;

use tidegate::{Batch, Model, Sequence, State, Step, StepError};
use tidegate_fused::{FusedModel, Isa, Scratch};

/// A backend that holds a model, with `P` at its ports.
pub trait Backend<P = f32> {
    /// Name in reports.
    fn name(&self) -> &'static str;
    /// The model.
    fn model(&self) -> &Model<'_>;
    /// See [`Model::step_ports`].
    fn step(&self, state: &mut State<'_>, x: &[&[P]], y: &mut [&mut [P]]) -> Result<Step, StepError>;
    /// See [`Model::finish`].
    fn finish(&self, state: &mut State<'_>, y: &mut [&mut [P]]) -> Result<Step, StepError>;
    /// See [`Model::run_ports`].
    fn run(
        &self,
        state: &mut State<'_>,
        x: &[&[P]],
        y: &mut [&mut [P]],
        how: &Sequence<'_>,
    ) -> Result<usize, StepError>;
    /// See [`Model::run_batch`].
    fn run_batch(
        &self,
        batch: &mut Batch<'_>,
        x: &[&[P]],
        y: &mut [&mut [P]],
        how: &Sequence<'_>,
    ) -> Result<usize, StepError>;
}

/// Every backend with this model, `tidegate` first.
pub fn all<'m>(model: &Model<'m>) -> Vec<Box<dyn Backend + 'm>> {
    let fused = Isa::available().map(|isa| Box::new(Fused::new(model, isa)) as Box<dyn Backend + 'm>);
    std::iter::once(Box::new(Core(*model)) as Box<dyn Backend + 'm>).chain(fused).collect()
}

/// `tidegate` with integers at the ports of a model in an integer numeric.
pub fn integers<'m>(model: &Model<'m>) -> Box<dyn Backend<i16> + 'm> {
    Box::new(Core(*model))
}

/// `tidegate`. Its scratch starts filled with ones, because its contents must not matter.
struct Core<'m>(Model<'m>);

impl Core<'_> {
    fn scratch(&self) -> Vec<u32> {
        vec![u32::MAX; self.0.scratch_words()]
    }
}

impl Backend for Core<'_> {
    fn name(&self) -> &'static str {
        "core"
    }

    fn model(&self) -> &Model<'_> {
        &self.0
    }

    fn step(&self, state: &mut State<'_>, x: &[&[f32]], y: &mut [&mut [f32]]) -> Result<Step, StepError> {
        self.0.step_ports(state, &mut self.scratch(), x, y)
    }

    fn finish(&self, state: &mut State<'_>, y: &mut [&mut [f32]]) -> Result<Step, StepError> {
        self.0.finish(state, &mut self.scratch(), y)
    }

    fn run(
        &self,
        state: &mut State<'_>,
        x: &[&[f32]],
        y: &mut [&mut [f32]],
        how: &Sequence<'_>,
    ) -> Result<usize, StepError> {
        self.0.run_ports(state, &mut self.scratch(), x, y, how)
    }

    fn run_batch(
        &self,
        batch: &mut Batch<'_>,
        x: &[&[f32]],
        y: &mut [&mut [f32]],
        how: &Sequence<'_>,
    ) -> Result<usize, StepError> {
        self.0.run_batch(batch, &mut self.scratch(), x, y, how)
    }
}

impl Backend<i16> for Core<'_> {
    fn name(&self) -> &'static str {
        "core in integers"
    }

    fn model(&self) -> &Model<'_> {
        &self.0
    }

    fn step(&self, state: &mut State<'_>, x: &[&[i16]], y: &mut [&mut [i16]]) -> Result<Step, StepError> {
        self.0.step_ports_i16(state, &mut self.scratch(), x, y)
    }

    fn finish(&self, state: &mut State<'_>, y: &mut [&mut [i16]]) -> Result<Step, StepError> {
        self.0.finish_i16(state, &mut self.scratch(), y)
    }

    fn run(
        &self,
        state: &mut State<'_>,
        x: &[&[i16]],
        y: &mut [&mut [i16]],
        how: &Sequence<'_>,
    ) -> Result<usize, StepError> {
        self.0.run_ports_i16(state, &mut self.scratch(), x, y, how)
    }

    fn run_batch(
        &self,
        batch: &mut Batch<'_>,
        x: &[&[i16]],
        y: &mut [&mut [i16]],
        how: &Sequence<'_>,
    ) -> Result<usize, StepError> {
        self.0.run_batch_i16(batch, &mut self.scratch(), x, y, how)
    }
}

/// `tidegate-fused`. Its scratch keeps the contents of the previous call.
struct Fused<'m> {
    model: FusedModel<'m>,
    scratch: RefCell<Scratch>,
}

impl<'m> Fused<'m> {
    fn new(model: &Model<'m>, isa: Isa) -> Self {
        let model = FusedModel::with_isa(model, isa);
        let scratch = RefCell::new(model.scratch());
        Self { model, scratch }
    }
}

impl Backend for Fused<'_> {
    fn name(&self) -> &'static str {
        self.model.isa().name()
    }

    fn model(&self) -> &Model<'_> {
        self.model.model()
    }

    fn step(&self, state: &mut State<'_>, x: &[&[f32]], y: &mut [&mut [f32]]) -> Result<Step, StepError> {
        self.model.step_ports(state, &mut self.scratch.borrow_mut(), x, y)
    }

    fn finish(&self, state: &mut State<'_>, y: &mut [&mut [f32]]) -> Result<Step, StepError> {
        self.model.finish(state, &mut self.scratch.borrow_mut(), y)
    }

    fn run(
        &self,
        state: &mut State<'_>,
        x: &[&[f32]],
        y: &mut [&mut [f32]],
        how: &Sequence<'_>,
    ) -> Result<usize, StepError> {
        self.model.run_ports(state, &mut self.scratch.borrow_mut(), x, y, how)
    }

    fn run_batch(
        &self,
        batch: &mut Batch<'_>,
        x: &[&[f32]],
        y: &mut [&mut [f32]],
        how: &Sequence<'_>,
    ) -> Result<usize, StepError> {
        self.model.run_batch(batch, &mut self.scratch.borrow_mut(), x, y, how)
    }
}
