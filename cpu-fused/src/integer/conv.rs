//! Convolutions of one group with any activation, in integers.

use tidegate::internals::{node::Node, quant::MAX};

use super::curve::{Activation, clamp};
use super::panels::{Gate, Panels, operand, units};
use super::sequence::ROWS;
use super::sums::Blocks;
use super::{Integers, Names};
use crate::layer::{Io, Layer};
use crate::patch::{Path, has_one_group};
use crate::simd::Task;

/// A packed convolution of one group.
pub struct Conv<'m, S> {
    simd: S,
    path: Path,
    panels: Panels,
    activation: Activation<'m>,
}

impl<'m, S: Integers> Conv<'m, S> {
    /// Packs a node; `None` if it has several groups.
    pub fn new(node: &Node<'m>, simd: S) -> Option<Self> {
        let (names, path) = (Names::of(node)?, Path::of(node));
        if !has_one_group(node) {
            return None;
        }
        let rows = Gate::all::<1>(&["weights"], &["rows"]);
        let panels = Panels::new(node, simd, &rows, node.hidden_size, [path.patch_len(), 0], None)?;
        Some(Self { simd, path, panels, activation: names.activation(node, "table", "table_shift")? })
    }
}

impl<S: Integers> Layer<i16> for Conv<'_, S> {
    fn work_len(&self, _: usize) -> usize {
        let patch = self.path.patch_len();
        patch + self.path.positions() * Panels::operand_len::<S>(patch)
    }

    fn step(&self, io: Io<'_, i16>) {
        self.simd.vectorize(Step { conv: self, io });
    }
}

/// One step.
struct Step<'s, 'm, S> {
    conv: &'s Conv<'m, S>,
    io: Io<'s, i16>,
}

impl<S: Integers> Task for Step<'_, '_, S> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { conv, io: Io { x, work, y, .. } } = self;
        let Conv { simd, path, ref panels, .. } = *conv;
        let (patch, columns) = work.split_at_mut(path.patch_len());
        let stride = Panels::operand_len::<S>(patch.len());
        let columns = &mut columns[..path.positions() * stride];
        for (position, columns) in columns.chunks_exact_mut(stride).enumerate() {
            path.patch(x, position, patch);
            operand(simd, patch, columns);
        }
        let blocks = Blocks::<S, 1, 1, false>::new(simd, panels);
        let filters = panels.units;
        for block in 0..panels.blocks::<S>() {
            let now = units::<S>(block, filters);
            for (columns, y) in columns.chunks(ROWS * stride).zip(y.chunks_mut(ROWS * filters)) {
                let columns: &[S::Columns] = bytemuck::cast_slice(columns);
                if y.len() == ROWS * filters {
                    let ((a, b), (y, z)) = (columns.split_at(stride / S::COLUMNS), y.split_at_mut(filters));
                    let [a, b] = blocks.of_input::<ROWS>(block, [a, b]);
                    conv.give(blocks.whole(block, a), &mut y[now.clone()]);
                    conv.give(blocks.whole(block, b), &mut z[now.clone()]);
                } else {
                    let [sums] = blocks.of_input::<1>(block, [columns]);
                    conv.give(blocks.whole(block, sums), &mut y[now.clone()]);
                }
            }
        }
    }
}

impl<S: Integers> Conv<'_, S> {
    /// Writes the outputs of a block of filters, computed from their sums.
    #[inline(always)]
    fn give(&self, [sum]: [S::Vector; 1], y: &mut [i16]) {
        self.simd.narrow(clamp(self.simd, self.activation.apply(self.simd, sum), -MAX, MAX), y);
    }
}
