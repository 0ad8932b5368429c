//! What cells share in the integer numerics: rows over what comes in and what is carried.

use crate::kernel::Kernel;
use crate::node::{Blocks, Node};
use crate::quant::RowBlock;

/// Tensors of a spec that make rows of two parts, by their indices.
#[derive(Clone, Copy)]
pub(super) struct PairTensors {
    pub input: usize,
    pub recurrent: usize,
    pub rows: usize,
}

/// The sums of rows of two parts, four rows at a time.
pub(super) struct Pair<'a, 'x, K: Kernel> {
    fine: Blocks<'a, K::Unit>,
    coarse: Blocks<'a, K::Unit>,
    operands: (K::Operand<'x>, K::Operand<'x>),
    rows: core::slice::Iter<'a, RowBlock>,
}

impl<'a, 'x, K: Kernel> Pair<'a, 'x, K> {
    /// Each operand with its length; `first` is the index of the number that says whether the recurrent part is the
    /// finer one. As many rows as whoever zips it with units asks for, at most `count`.
    pub fn new(
        node: &Node<'a>,
        tensors: PairTensors,
        first: usize,
        count: usize,
        (x, x_len): (&'x [i16], usize),
        (h, h_len): (&'x [i16], usize),
    ) -> Self {
        let input = (node.weights::<K>(tensors.input, x_len), K::operand(x, x_len));
        let recurrent = (node.weights::<K>(tensors.recurrent, h_len), K::operand(h, h_len));
        let ((fine, p), (coarse, q)) = if node.number(first) == 0 { (input, recurrent) } else { (recurrent, input) };
        Self { fine, coarse, operands: (p, q), rows: node.rows(tensors.rows, count).iter() }
    }
}

impl<K: Kernel> Iterator for Pair<'_, '_, K> {
    type Item = [i32; 4];

    #[inline(always)]
    fn next(&mut self) -> Option<[i32; 4]> {
        let (fine, coarse, rows) = (self.fine.next()?, self.coarse.next()?, self.rows.next()?);
        let (p, q) = self.operands;
        Some(K::sum_two(rows, (fine, p), (coarse, q)))
    }
}
