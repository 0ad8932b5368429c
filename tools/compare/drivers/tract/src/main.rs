//! tract: the optimized ONNX model. A stream passes the state of each step to the next.

use anyhow::Result;
use compare_protocol::{Case, Ports, Runner, serve};
use tract_onnx::prelude::*;

struct Tract {
    plan: Arc<TypedRunnableModel>,
    state: TypedSimpleState,
    /// The whole sequence, or the frames of a stream.
    inputs: Vec<TValue>,
    /// Initial states of a stream.
    zeros: TVec<TValue>,
    carried: TVec<TValue>,
    next: usize,
}

fn main() -> Result<()> {
    let case = Case::from_arguments()?;
    let (time, batch, input) = (case.number("steps")?, case.number("batch")?, case.number("input")?);
    let ports = if case.is_stream()? { Some(Ports::read(&case)?) } else { None };
    let x = case.floats("x.f32")?;
    serve(|| {
        let mut model = tract_onnx::onnx().model_for_path(case.path("model.onnx"))?;
        let shape = ports.as_ref().map_or(vec![time, batch, input], |ports| ports.frame.shape.clone());
        model.set_input_fact(0, f32::fact(&shape).into())?;
        let mut zeros = tvec![];
        for (index, (state, _)) in ports.iter().flat_map(|ports| &ports.states).enumerate() {
            model.set_input_fact(1 + index, f32::fact(&state.shape).into())?;
            zeros.push(Tensor::zero::<f32>(&state.shape)?.into_tvalue());
        }
        let plan = model.into_optimized()?.into_runnable()?;
        let inputs = x
            .chunks_exact(shape.iter().product())
            .map(|chunk| Ok(Tensor::from_shape(&shape, chunk)?.into_tvalue()))
            .collect::<Result<_>>()?;
        let state = plan.spawn()?;
        let runner = Tract { plan, state, inputs, carried: zeros.clone(), zeros, next: 0 };
        Ok((runner, "tract 0.23.9".into()))
    })
}

impl Tract {
    fn step(&mut self) -> Result<TVec<TValue>> {
        let mut inputs = tvec![self.inputs[self.next].clone()];
        self.next = (self.next + 1) % self.inputs.len();
        inputs.extend(self.carried.drain(..));
        let outputs = self.state.run(inputs)?;
        // The states are the last outputs.
        self.carried.extend(outputs[outputs.len() - self.zeros.len()..].iter().cloned());
        Ok(outputs)
    }
}

impl Runner for Tract {
    fn call(&mut self) -> Result<()> {
        self.step().map(drop)
    }

    fn outputs(&mut self) -> Result<Vec<f32>> {
        self.state = self.plan.spawn()?;
        self.carried = self.zeros.clone();
        self.next = 0;
        let mut all = Vec::new();
        for _ in 0..self.inputs.len() {
            all.extend_from_slice(self.step()?[0].try_as_plain_ram()?.as_slice::<f32>()?);
        }
        Ok(all)
    }
}
