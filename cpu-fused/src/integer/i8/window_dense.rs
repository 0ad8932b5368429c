//! The layer over a window of bytes.

use tidegate::internals::node::Node;

use super::super::finish::Finish;
use super::super::panels::{Panels, operand, units};
use super::super::sums::Blocks;
use super::super::{Integers, Names};
use super::{Rounded, take_row};
use crate::layer::{Io, Windowed};
use crate::simd::Task;

/// Independent chains of sums, enough to hide the latency of a product.
const CHAINS: usize = 4;

/// A packed layer.
struct Dense<'m, S, F> {
    simd: S,
    node: Node<'m>,
    /// The least value of the input.
    first: i32,
    panels: Panels,
    finish: F,
}

/// Packs a node; `None` if it has so few units that most lanes of a vector would be empty.
pub fn pack<'m, S: Integers>(node: &Node<'m>, simd: S) -> Option<Box<dyn Windowed<i16> + 'm>> {
    if 2 * node.output_size < S::LANES {
        return None;
    }
    let names = Names::of(node)?;
    let number = |name: &str| Some(node.number(names.number(name)?));
    match number("roundings")? {
        1 => Some(Box::new(Dense::<S, Rounded<true>>::new(node, simd, number("first")?)?)),
        _ => Some(Box::new(Dense::<S, Rounded<false>>::new(node, simd, number("first")?)?)),
    }
}

impl<'m, S: Integers, const ONCE: bool> Dense<'m, S, Rounded<ONCE>> {
    fn new(node: &Node<'m>, simd: S, first: i32) -> Option<Self> {
        let (panels, finish) = Rounded::packed(node, simd, node.output_size, node.extent(0) * node.input_size)?;
        Some(Self { simd, node: *node, first, panels, finish })
    }
}

impl<S: Integers, F: Finish<S>> Windowed<i16> for Dense<'_, S, F> {
    fn work_len(&self) -> usize {
        self.panels.columns[0] + self.panels.operands_len::<S>()
    }

    fn step(&self, io: Io<'_, i16>) -> bool {
        self.simd.vectorize(Step { dense: self, io })
    }
}

/// One step.
struct Step<'s, 'm, S, F> {
    dense: &'s Dense<'m, S, F>,
    io: Io<'s, i16>,
}

impl<S: Integers, F: Finish<S>> Task for Step<'_, '_, S, F> {
    type Output = bool;

    #[inline(always)]
    fn run(self) -> bool {
        let Self { dense, io: Io { x, state, work, y, .. } } = self;
        let Dense { simd, ref node, first, ref panels, ref finish } = *dense;
        let (of_x, values) = work.split_at_mut(panels.operands_len::<S>());
        let values = &mut values[..panels.columns[0]];
        if !take_row(node, x, state, first, values) {
            return false;
        }
        let x = operand(simd, values, of_x);
        let blocks = Blocks::<S, 1, CHAINS, false>::new(simd, panels);
        for block in 0..panels.blocks::<S>() {
            let ([sum], [numbers]) = (blocks.raw(block, x), blocks.numbers(block));
            simd.narrow(finish.finish(simd, numbers, sum), &mut y[units::<S>(block, panels.units)]);
        }
        true
    }
}
