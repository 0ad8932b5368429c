//! A call divided among threads, with the feature `threads`. Each thread steps the streams of consecutive slots, writes
//! their outputs to memory of its own, and then copies some of the caller's rows from there.

use rayon::iter::{IndexedParallelIterator, ParallelIterator};
use rayon::slice::ParallelSliceMut;
use tidegate::Step;
use tidegate::internals::backend::Crosses;

use super::block::{Lane, Ports, Slab, Turn};
use super::{PoolError, StreamId, StreamPool};
use crate::model::FusedModel;
use crate::plan::{Element, Nodes, Plan};

/// Working memory of the threads of a pool.
#[derive(Debug, Default)]
pub(super) struct Shares {
    all: Vec<Share>,
    /// For each row of the outputs, its share and its row there.
    places: Vec<(u32, u32)>,
}

/// Working memory of a thread.
#[derive(Debug)]
struct Share {
    lane: Lane,
    /// Rows of each output.
    outputs: Vec<Vec<f32>>,
    steps: Vec<Step>,
}

/// The data that all threads read.
struct Call<'s, 'n, 'm, E> {
    model: &'s FusedModel<'n>,
    nodes: &'s Nodes<'m, E>,
    inputs: &'s [&'s [f32]],
    /// Streams of each share but the last.
    each: usize,
}

impl StreamPool<'_> {
    /// [`step`](Self::step) on the threads of the current rayon pool (the global one outside any pool), with the same
    /// bits. The first call, and the first one after the pool or its threads have grown, allocates the working memory
    /// of the threads; rayon may allocate in any call.
    ///
    /// # Errors
    /// As [`step`](Self::step).
    pub fn par_step(&mut self, ready: &[StreamId], input: &[f32], output: &mut [f32]) -> Result<&[Step], PoolError> {
        self.par_step_ports(ready, &[input], &mut [output])
    }

    /// [`step_ports`](Self::step_ports) on the threads of the current rayon pool, like [`par_step`](Self::par_step).
    ///
    /// # Errors
    /// As [`step`](Self::step).
    pub fn par_step_ports(
        &mut self,
        ready: &[StreamId],
        inputs: &[&[f32]],
        outputs: &mut [&mut [f32]],
    ) -> Result<&[Step], PoolError> {
        let threads = rayon::current_num_threads().min(ready.len());
        if threads < 2 {
            return self.step_ports(ready, inputs, outputs);
        }
        self.check(ready, inputs, outputs)?;
        let plan = self.model.plan.clone();
        match &*plan {
            Plan::Float(nodes) => self.divided(nodes, threads, inputs, outputs),
            Plan::Integer(nodes) => self.divided(nodes, threads, inputs, outputs),
        }
        Ok(&self.steps)
    }

    fn divided<E: Element>(
        &mut self,
        nodes: &Nodes<'_, E>,
        threads: usize,
        inputs: &[&[f32]],
        outputs: &mut [&mut [f32]],
    ) where
        f32: Crosses<E>,
    {
        let Self { model, words, turns, steps, shares, .. } = self;
        let each = turns.len().div_ceil(threads);
        let count = turns.len().div_ceil(each);
        shares.fit(model, count, each, turns.capacity());
        for (index, turn) in turns.iter_mut().enumerate() {
            shares.places[turn.from] = ((index / each) as u32, (index % each) as u32);
            turn.to = index % each;
        }
        let call = Call { model, nodes, inputs, each };
        call.run(&mut shares.all[..count], Slab::new(model, words), turns);
        let (all, places) = (&shares.all, &shares.places);
        steps.clear();
        steps.extend(places[..turns.len()].iter().map(|&(share, row)| all[share as usize].steps[row as usize]));
        let steps = &*steps;
        for (port, (output, of)) in outputs.iter_mut().zip(&*model.outputs).enumerate() {
            let len = of.place.len();
            output.par_chunks_mut((each * len).max(1)).enumerate().for_each(|(chunk, rows)| {
                for (row, index) in rows.chunks_exact_mut(len.max(1)).zip(chunk * each..) {
                    let (share, from) = places[index];
                    if steps[index].has_output() {
                        row.copy_from_slice(&all[share as usize].outputs[port][from as usize * len..][..len]);
                    }
                }
            });
        }
    }
}

impl Shares {
    /// Allocates what `count` threads with `each` streams need, in a pool of `most` streams.
    fn fit(&mut self, model: &FusedModel<'_>, count: usize, each: usize, most: usize) {
        if self.places.len() < most {
            self.places.resize(most, (0, 0));
        }
        while self.all.len() < count {
            let outputs = model.outputs.iter().map(|_| Vec::new()).collect();
            self.all.push(Share { lane: Lane::new(model), outputs, steps: Vec::new() });
        }
        for share in &mut self.all {
            share.steps.resize(each.max(share.steps.len()), Step::new(false));
            for (output, port) in share.outputs.iter_mut().zip(&*model.outputs) {
                output.resize((each * port.place.len()).max(output.len()), 0.0);
            }
        }
    }
}

impl<E: Element> Call<'_, '_, '_, E>
where
    f32: Crosses<E>,
{
    /// Divides the shares until each thread has one.
    fn run(&self, shares: &mut [Share], slab: Slab<'_>, turns: &[Turn]) {
        if let [share] = shares {
            let mut outputs: Vec<&mut [f32]> = share.outputs.iter_mut().map(Vec::as_mut_slice).collect();
            share.steps.fill(Step::new(false));
            let ports = Ports { inputs: self.inputs, outputs: &mut outputs, steps: &mut share.steps };
            return share.lane.run(self.model, self.nodes, slab, turns, ports);
        }
        let (shares, others) = shares.split_at_mut(shares.len() / 2);
        let (turns, behind) = turns.split_at(shares.len() * self.each);
        let [slab, rest] = slab.split(behind[0].slot);
        rayon::join(|| self.run(shares, slab, turns), || self.run(others, rest, behind));
    }
}
