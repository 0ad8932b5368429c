//! The dense layer with any activation, in integers.

use tidegate::internals::{node::Node, quant::MAX};

use super::curve::{Activation, clamp};
use super::panels::{Gate, Panels, operand, turn, units};
use super::sums::{Blocks, Nothing};
use super::{Integers, Names};
use crate::layer::{Io, Layer};
use crate::simd::Task;

/// Independent chains of sums, enough to hide the latency of a product.
const CHAINS: usize = 4;

/// A packed dense layer.
pub struct Dense<'m, S> {
    simd: S,
    panels: Panels,
    activation: Activation<'m>,
}

impl<'m, S: Integers> Dense<'m, S> {
    /// Packs a node.
    pub fn new(node: &Node<'m>, simd: S) -> Option<Self> {
        let names = Names::of(node)?;
        let rows = Gate::all::<1>(&["weights"], &["rows"]);
        let panels = Panels::new(node, simd, &rows, node.output_size, [node.input_size, 0], None)?;
        Some(Self { simd, panels, activation: names.activation(node, "table", "table_shift")? })
    }
}

impl<S: Integers> Layer<i16> for Dense<'_, S> {
    fn work_len(&self, _: usize) -> usize {
        self.panels.operands_len::<S>()
    }

    fn step(&self, io: Io<'_, i16>) {
        self.simd.vectorize(Step { dense: self, io });
    }
}

/// One step.
struct Step<'s, 'm, S> {
    dense: &'s Dense<'m, S>,
    io: Io<'s, i16>,
}

impl<S: Integers> Task for Step<'_, '_, S> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { dense, io: Io { x, work, y, odd, .. } } = self;
        let Dense { simd, ref panels, activation } = *dense;
        let x = operand(simd, &x[..panels.columns[0]], work);
        let blocks = Blocks::<S, 1, CHAINS, false>::new(simd, panels);
        for block in turn(panels.blocks::<S>(), odd) {
            let [sum] = blocks.sums(block, x, &mut Nothing).gates;
            let sum = clamp(simd, activation.apply(simd, sum), -MAX, MAX);
            simd.narrow(sum, &mut y[units::<S>(block, panels.units)]);
        }
    }
}
