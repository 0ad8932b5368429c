//! A case on `tidegate-fused`: a step of its stream, or its batch of sequences, shared among threads.

use std::thread;

use anyhow::Result;
use compare_protocol::{Runner, transposed};
use tidegate::cell::CellKind;
use tidegate::{Batch, Sequence};
use tidegate_fused::{FusedModel, Scratch, Stream};

use crate::Problem;

pub struct Fused {
    model: &'static FusedModel<'static>,
    problem: Problem,
    /// Bidirectional layers look at the whole sequence: the last step gives the outputs of all.
    whole: bool,
    stream: Stream<'static, 'static>,
    shares: Vec<Share>,
    y: Vec<f32>,
    next: usize,
}

/// What one thread has.
struct Share {
    batch: Batch<'static>,
    scratch: Scratch,
}

impl Fused {
    pub fn new(model: &'static FusedModel<'static>, problem: Problem) -> Result<Self> {
        let core = model.model();
        let whole = core.nodes().any(|node| node.kind == CellKind::Window);
        let steps = if problem.stream || whole { 1 } else { problem.time };
        let most = problem.batch.div_ceil(problem.threads);
        let share = |begin| -> Result<Share> {
            let count = most.min(problem.batch - begin);
            // A batch borrows its memory; this one lives until the program ends.
            let memory = vec![0; count * core.state_words()].leak();
            Ok(Share { batch: Batch::new(core, count, memory)?, scratch: model.scratch() })
        };
        let shares = (0..problem.batch).step_by(most).map(share).collect::<Result<_>>()?;
        let y = vec![0.0; problem.batch * steps * core.output_size()];
        Ok(Self { model, problem, whole, stream: model.stream(), shares, y, next: 0 })
    }

    fn step(&mut self) -> Result<()> {
        let size = self.problem.features;
        let x = &self.problem.x[self.next * size..][..size];
        self.next += 1;
        if self.next == self.problem.time {
            self.next = 0;
        }
        let _ = self.stream.step(x, &mut self.y)?;
        Ok(())
    }

    fn sequence(&mut self) -> Result<()> {
        let Self { model, problem, whole, shares, y, .. } = self;
        let sequence = Sequence { last_only: *whole, ..Sequence::ALL };
        let run = |share: &mut Share, x: &[f32], y: &mut [f32]| -> Result<()> {
            share.batch.reset();
            model.run_batch(&mut share.batch, &mut share.scratch, &[x], &mut [y], &sequence)?;
            Ok(())
        };
        if let [share] = shares.as_mut_slice() {
            return run(share, &problem.x, y);
        }
        let most = problem.batch.div_ceil(problem.threads);
        let (x_row, y_row) = (problem.x.len() / problem.batch, y.len() / problem.batch);
        let parts = problem.x.chunks(most * x_row).zip(y.chunks_mut(most * y_row));
        thread::scope(|scope| {
            let start = |(share, (x, y))| scope.spawn(move || run(share, x, y));
            let started: Vec<_> = shares.iter_mut().zip(parts).map(start).collect();
            started.into_iter().try_for_each(|thread| thread.join().expect("a thread that does not panic"))
        })
    }
}

impl Runner for Fused {
    fn call(&mut self) -> Result<()> {
        if self.problem.stream { self.step() } else { self.sequence() }
    }

    fn outputs(&mut self) -> Result<Vec<f32>> {
        let Problem { batch, time, stream, .. } = self.problem;
        if !stream {
            self.sequence()?;
            return Ok(transposed(&self.y, batch, time, self.y.len() / batch / time));
        }
        self.stream.reset();
        self.next = 0;
        let mut all = Vec::new();
        for _ in 0..time {
            self.step()?;
            all.extend_from_slice(&self.y);
        }
        Ok(all)
    }
}
