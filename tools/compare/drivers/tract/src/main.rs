//! tract: the optimized ONNX model. A stream passes the state of each step to the next.

use anyhow::Result;
use compare_protocol::{Case, Runner, serve};
use tract_onnx::prelude::*;

struct Tract {
    plan: Arc<TypedRunnableModel>,
    state: TypedSimpleState,
    stream: bool,
    /// The whole sequence, or the frames of a stream.
    inputs: Vec<TValue>,
    /// Initial states of a stream: h, and c of an LSTM.
    zeros: TVec<TValue>,
    carried: TVec<TValue>,
    next: usize,
}

fn main() -> Result<()> {
    let case = Case::from_arguments()?;
    let (time, batch, input) = (case.number("steps")?, case.number("batch")?, case.number("input")?);
    let (hidden, states, stream) = (case.number("hidden")?, case.number("states")?, case.is_stream()?);
    let x = case.floats("x.f32")?;
    serve(|| {
        let frames = if stream { 1 } else { time };
        let mut model = tract_onnx::onnx().model_for_path(case.path("model.onnx"))?;
        model.set_input_fact(0, f32::fact([frames, batch, input]).into())?;
        let state = if stream { states } else { 0 };
        for port in 1..=state {
            model.set_input_fact(port, f32::fact([1, batch, hidden]).into())?;
        }
        let plan = model.into_optimized()?.into_runnable()?;
        let inputs = x
            .chunks_exact(frames * batch * input)
            .map(|chunk| Ok(Tensor::from_shape(&[frames, batch, input], chunk)?.into_tvalue()))
            .collect::<Result<_>>()?;
        let zeros: TVec<TValue> =
            (0..state).map(|_| Ok(Tensor::zero::<f32>(&[1, batch, hidden])?.into_tvalue())).collect::<Result<_>>()?;
        let state = plan.spawn()?;
        let runner = Tract { plan, state, stream, inputs, carried: zeros.clone(), zeros, next: 0 };
        Ok((runner, "tract 0.23.9".into()))
    })
}

impl Tract {
    fn step(&mut self) -> Result<TVec<TValue>> {
        let mut inputs = tvec![self.inputs[self.next].clone()];
        self.next = (self.next + 1) % self.inputs.len();
        inputs.extend(self.carried.drain(..));
        let outputs = self.state.run(inputs)?;
        if self.stream {
            self.carried = outputs.clone();
        }
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
