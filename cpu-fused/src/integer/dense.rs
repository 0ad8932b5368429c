//! The dense layer, in integers.

use tidegate::internals::node::Node;

use super::curve::Activation;
use super::finish::Finish;
use super::i8::Rounded;
use super::panels::{Gate, Panels, operand, turn, units};
use super::sums::Blocks;
use super::{Integers, Names};
use crate::layer::{Io, Layer};
use crate::simd::Task;

/// Independent chains of sums, enough to hide the latency of a product.
const CHAINS: usize = 4;

/// A packed dense layer.
pub struct Dense<S, F> {
    simd: S,
    panels: Panels,
    finish: F,
}

impl<'m, S: Integers> Dense<S, Activation<'m>> {
    /// Packs a node with any activation.
    pub fn new(node: &Node<'m>, simd: S) -> Option<Self> {
        let names = Names::of(node)?;
        let rows = Gate::all::<1>(&["weights"], &["rows"]);
        let panels = Panels::new(node, simd, &rows, node.output_size, [node.input_size, 0], None)?;
        Some(Self { simd, panels, finish: names.activation(node, "table", "table_shift")? })
    }
}

impl<S: Integers> Dense<S, Rounded<true>> {
    /// Packs a node of the numeric `i8`.
    pub fn in_bytes(node: &Node<'_>, simd: S) -> Option<Self> {
        let (panels, finish) = Rounded::packed(node, simd, node.output_size, node.input_size)?;
        Some(Self { simd, panels, finish })
    }
}

impl<S: Integers, F: Finish<S>> Layer<i16> for Dense<S, F> {
    fn work_len(&self, _: usize) -> usize {
        self.panels.operands_len::<S>()
    }

    fn step(&self, io: Io<'_, i16>) {
        self.simd.vectorize(Step { dense: self, io });
    }
}

/// One step.
struct Step<'s, S, F> {
    dense: &'s Dense<S, F>,
    io: Io<'s, i16>,
}

impl<S: Integers, F: Finish<S>> Task for Step<'_, S, F> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { dense, io: Io { x, work, y, odd, .. } } = self;
        let Dense { simd, ref panels, ref finish } = *dense;
        let x = operand(simd, &x[..panels.columns[0]], work);
        let blocks = Blocks::<S, 1, CHAINS, false>::new(simd, panels);
        for block in turn(panels.blocks::<S>(), odd) {
            let ([sum], [numbers]) = (blocks.raw(block, x), blocks.numbers(block));
            simd.narrow(finish.finish(simd, numbers, sum), &mut y[units::<S>(block, panels.units)]);
        }
    }
}
