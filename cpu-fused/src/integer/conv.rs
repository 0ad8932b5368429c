//! Convolutions of one group, in integers.

use tidegate::internals::node::Node;

use super::curve::Activation;
use super::finish::Finish;
use super::i8::Rounded;
use super::panels::{Gate, Panels, operand, units};
use super::sequence::ROWS;
use super::sums::Blocks;
use super::{Integers, Names};
use crate::layer::{Io, Layer};
use crate::patch::{Path, has_one_group};
use crate::simd::Task;

/// A packed convolution of one group.
pub struct Conv<S, F> {
    simd: S,
    path: Path,
    panels: Panels,
    finish: F,
}

impl<'m, S: Integers> Conv<S, Activation<'m>> {
    /// Packs a node with any activation; `None` if it has several groups.
    pub fn new(node: &Node<'m>, simd: S) -> Option<Self> {
        let (names, path) = (Names::of(node)?, Path::of(node));
        if !has_one_group(node) {
            return None;
        }
        let rows = Gate::all::<1>(&["weights"], &["rows"]);
        let panels = Panels::new(node, simd, &rows, node.hidden_size, [path.patch_len(), 0], None)?;
        Some(Self { simd, path, panels, finish: names.activation(node, "table", "table_shift")? })
    }
}

impl<S: Integers> Conv<S, Rounded<false>> {
    /// Packs a node of the numeric `i8`; `None` if it has several groups.
    pub fn in_bytes(node: &Node<'_>, simd: S) -> Option<Self> {
        let path = Path::of(node);
        if !has_one_group(node) {
            return None;
        }
        let (panels, finish) = Rounded::packed(node, simd, node.hidden_size, path.patch_len())?;
        Some(Self { simd, path, panels, finish })
    }
}

impl<S: Integers, F: Finish<S>> Layer<i16> for Conv<S, F> {
    fn work_len(&self, _: usize) -> usize {
        let patch = self.path.patch_len();
        patch + self.path.positions() * Panels::operand_len::<S>(patch)
    }

    fn step(&self, io: Io<'_, i16>) {
        self.simd.vectorize(Step { conv: self, io });
    }
}

/// One step.
struct Step<'s, S, F> {
    conv: &'s Conv<S, F>,
    io: Io<'s, i16>,
}

impl<S: Integers, F: Finish<S>> Task for Step<'_, S, F> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { conv, io: Io { x, work, y, .. } } = self;
        let Conv { simd, path, ref panels, ref finish } = *conv;
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
            let (now, [numbers]) = (units::<S>(block, filters), blocks.numbers(block));
            for (columns, y) in columns.chunks(ROWS * stride).zip(y.chunks_mut(ROWS * filters)) {
                let columns: &[S::Columns] = bytemuck::cast_slice(columns);
                if y.len() == ROWS * filters {
                    let ((a, b), (y, z)) = (columns.split_at(stride / S::COLUMNS), y.split_at_mut(filters));
                    let [[a], [b]] = blocks.raw_of_rows::<ROWS>(block, [a, b]);
                    simd.narrow(finish.finish(simd, numbers, a), &mut y[now.clone()]);
                    simd.narrow(finish.finish(simd, numbers, b), &mut z[now.clone()]);
                } else {
                    let [[sum]] = blocks.raw_of_rows::<1>(block, [columns]);
                    simd.narrow(finish.finish(simd, numbers, sum), &mut y[now.clone()]);
                }
            }
        }
    }
}
