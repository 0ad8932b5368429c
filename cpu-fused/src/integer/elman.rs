//! The Elman cell with any activation, in integers.

use tidegate::internals::{node::Node, quant::MAX};

use super::curve::{Activation, clamp};
use super::panels::{Gate, Panels, turn, units};
use super::sequence::{Cell, Rest, Run, before, of_input};
use super::sums::{Blocks, Nothing};
use super::{Integers, Names, has};
use crate::layer::{Io, Layer, Span};
use crate::simd::Task;

/// Independent chains of sums, enough to hide the latency of a product.
const CHAINS: usize = 4;

/// A packed Elman cell.
pub struct Elman<'m, S> {
    simd: S,
    panels: Panels,
    masked: bool,
    activation: Activation<'m>,
}

impl<'m, S: Integers> Elman<'m, S> {
    /// Packs a node.
    pub fn new(node: &Node<'m>, simd: S) -> Option<Self> {
        let (names, columns) = (Names::of(node)?, [node.input_size, node.hidden_size]);
        let rows = Gate::all::<1>(&["input_weights", "recurrent_weights"], &["rows"]);
        let panels = Panels::new(node, simd, &rows, node.hidden_size, columns, Some("recurrent_first"))?;
        let activation = names.activation(node, "table", "table_shift")?;
        Some(Self { simd, panels, masked: has(node, "masked"), activation })
    }

    /// h' of a block of units from its sums.
    #[inline(always)]
    fn update(&self, sum: S::Vector, h: &mut [i16]) {
        self.simd.narrow(clamp(self.simd, self.activation.apply(self.simd, sum), -MAX, MAX), h);
    }
}

impl<S: Integers> Layer<i16> for Elman<'_, S> {
    fn work_len(&self, steps: usize) -> usize {
        let one = self.panels.operands_len::<S>();
        one.max(Run::<S, Self>::work_len(self, steps))
    }

    fn step(&self, io: Io<'_, i16>) {
        self.simd.vectorize(Step { elman: self, io });
    }

    fn run(&self, span: &mut Span<'_, i16>) {
        self.simd.vectorize(Run::new(self, span));
    }
}

/// One step.
struct Step<'s, 'm, S> {
    elman: &'s Elman<'m, S>,
    io: Io<'s, i16>,
}

impl<S: Integers> Task for Step<'_, '_, S> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { elman, io: Io { x, state, work, y, odd } } = self;
        let Elman { simd, ref panels, masked, .. } = *elman;
        let [input, hidden] = panels.columns;
        let (x, h) = (&x[..input], &mut state[..hidden]);
        if !(masked && x.last() == Some(&0)) {
            let columns = panels.operands(simd, x, h, work);
            let blocks = Blocks::<S, 1, CHAINS, false>::new(simd, panels);
            for block in turn(panels.blocks::<S>(), odd) {
                let [sum] = blocks.sums(block, columns, &mut Nothing).gates;
                elman.update(sum, &mut h[units::<S>(block, hidden)]);
            }
        }
        y[..hidden].copy_from_slice(h);
    }
}

impl<S: Integers> Cell<S> for Elman<'_, S> {
    fn simd(&self) -> S {
        self.simd
    }

    fn columns(&self) -> [usize; 2] {
        self.panels.columns
    }

    fn vectors(&self) -> usize {
        self.panels.blocks::<S>()
    }

    fn scratch(&self) -> usize {
        0
    }

    fn is_masked(&self) -> bool {
        self.masked
    }

    #[inline(always)]
    fn of_input(&self, x: &[S::Columns], stride: usize, before: &mut [S::Lanes]) {
        of_input::<S, 1, 1, false>(self.simd, &self.panels, (x, stride), before, (self.vectors(), 0));
    }

    #[inline(always)]
    fn step_all(&self, rest: Rest<'_, S>) {
        let Rest { active, states, carried, before: sums, odd, .. } = rest;
        let (simd, hidden, vectors) = (self.simd, self.panels.units, self.vectors());
        let carried = Rest::<S>::operands(simd, active, states, hidden, carried);
        let blocks = Blocks::<S, 1, CHAINS, false>::new(simd, &self.panels);
        for block in turn(vectors, odd) {
            let now = units::<S>(block, hidden);
            let columns = carried.chunks_exact(Panels::operand_len::<S>(hidden));
            for (&(state, row), columns) in active.iter().zip(columns) {
                let start = before(simd, sums, row * vectors + block);
                let columns = bytemuck::cast_slice(columns);
                let [sum] = blocks.of_carried_beside(block, columns, start, &mut Nothing).gates;
                self.update(sum, &mut states[state + now.start..state + now.end]);
            }
        }
    }
}
