//! The dense layer with any activation: what `core/src/cell/dense/integer.rs` computes.

use tidegate::curve::Curve;
use tidegate::node::Node;
use tidegate::quant::{MAX, saturate};

use super::panels::{Panels, Source, turn};
use super::{Integers, Names};
use crate::node::{Io, Kernel};
use crate::simd::Task;

/// Where its rows come from.
const SOURCE: Source = Source { parts: &["weights"], rows: "rows", first: "", gates: 1 };
/// Chains of sums: as many as hide how long a product takes.
const CHAINS: usize = 4;

/// A packed node.
pub(super) struct Dense<'m, S> {
    simd: S,
    input: usize,
    output: usize,
    panels: Panels,
    activation: Curve<'m>,
    bits: u32,
}

impl<'m, S: Integers> Dense<'m, S> {
    /// Of any dense node.
    pub fn new(node: &Node<'m>, simd: S) -> Option<Self> {
        let (input, output, names) = (node.input_size, node.output_size, Names::of(node)?);
        let panels = Panels::new(node, simd, SOURCE, output, &[input])?;
        let activation = node.curve(0, names.tensor("table")?, names.number("table_shift")?);
        let bits = node.number(names.number("preact_bits")?).unsigned_abs();
        Some(Self { simd, input, output, panels, activation, bits })
    }
}

impl<S: Integers> Kernel<i16> for Dense<'_, S> {
    fn work_len(&self, _: usize) -> usize {
        Panels::operand_len::<S>(self.input)
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
        let Dense { simd, input, output, ref panels, activation, bits } = *dense;
        let x = Panels::operand(simd, &x[..input], &mut work[..Panels::operand_len::<S>(input)]);
        let blocks = panels.blocks::<S, 1>(simd, x, &[]);
        for block in turn(output.div_ceil(S::LANES), odd) {
            let y = &mut y[block * S::LANES..output.min((block + 1) * S::LANES)];
            let [sum] = blocks.sums::<CHAINS>(block);
            if activation.keeps_unit() {
                let least = if matches!(activation, Curve::Relu) { 0 } else { -MAX };
                simd.narrow(simd.max(simd.min(sum, simd.splat(MAX)), simd.splat(least)), y);
            } else {
                let lanes = simd.store(sum);
                for (&sum, y) in bytemuck::cast_slice(bytemuck::bytes_of(&lanes)).iter().zip(y) {
                    *y = saturate(activation.apply(sum, bits));
                }
            }
        }
    }
}
