//! Dilated convolutions between `SPACE_TO_BATCH_ND` and `BATCH_TO_SPACE_ND`.
//!
//! `SPACE_TO_BATCH_ND` adds zeros and takes every `block`-th position into a batch of its own, and `BATCH_TO_SPACE_ND` undoes
//! this. A convolution in between is one with the dilation `block`. TFLite's converter leaves the three operators apart if
//! several convolutions read the same blocks, as in the gated layers of WaveNet.

use std::collections::HashMap;

use super::conv::is_conv;
use super::lower::{Blocked, Reader, Refused, Trouble};
use super::schema::{Operator, Type};
use crate::format::{axis::Around, refuse::fail_if};

/// The most zeros on a side, and the greatest block.
const MOST: i64 = u16::MAX as i64;

fn changes_dims(op: &str) -> bool {
    matches!(op, "RESHAPE" | "SQUEEZE" | "EXPAND_DIMS")
}

impl<'a> Reader<'a> {
    /// Finds the operators that join the blocks of each tensor: through one convolution, with the dimensions changed before
    /// or behind it.
    pub(super) fn find_blocks(&mut self) {
        let main = &self.model.main;
        let with = |op: &'static str| main.operators.iter().enumerate().filter(move |(_, of)| of.op == op);
        if with("SPACE_TO_BATCH_ND").next().is_none() {
            return;
        }
        let mut makers = HashMap::new();
        for (number, operator) in main.operators.iter().enumerate() {
            makers.extend(operator.outputs.iter().flatten().map(|&output| (output, number)));
        }
        for (number, join) in with("BATCH_TO_SPACE_ND") {
            let mut tensor = join.inputs.first().copied().flatten();
            for _ in 0..4 {
                let Some(maker) = tensor.and_then(|tensor| makers.get(&tensor)) else { break };
                let operator: &Operator<'_> = &main.operators[*maker];
                if operator.op == "SPACE_TO_BATCH_ND" {
                    let blocks = operator.outputs.first().copied().flatten();
                    blocks.into_iter().for_each(|blocks| self.joins.entry(blocks).or_default().push(number));
                    break;
                }
                tensor = (is_conv(operator.op) || changes_dims(operator.op))
                    .then(|| operator.inputs.first().copied().flatten())
                    .flatten();
            }
        }
    }

    /// Notes that a tensor is in blocks.
    pub(super) fn in_blocks(&mut self, tensor: usize, of: Blocked) -> Result<(), Trouble> {
        fail_if(self.model.main.outputs.contains(&tensor), "its output is one of the model's, but in blocks")?;
        self.blocks.insert(tensor, of);
        Ok(())
    }

    /// The blocks that an operator reads, as any of its inputs.
    pub(super) fn blocked(&self, operator: &Operator<'_>) -> Option<Blocked> {
        operator.inputs.iter().flatten().find_map(|input| self.blocks.get(input)).cloned()
    }

    /// `SPACE_TO_BATCH_ND`, whose value stays whole.
    pub(super) fn space_to_batch(&mut self, operator: &Operator<'a>) -> Refused {
        let x = self.value(operator, 0)?;
        self.same_counts(operator, &x)?;
        let output = operator.outputs.first().copied().flatten().ok_or("it has no output")?;
        let joins = self.joins.get(&output).cloned().unwrap_or_default();
        let (blocks, mut around) = self.by_axis(operator, x.shape.len())?;
        let mut crops = None;
        for join in joins {
            let found = self.by_axis(&self.model.main.operators[join], x.shape.len())?;
            let fits = found.0 == blocks && crops.as_ref().is_none_or(|crops| *crops == found.1);
            fail_if(!fits, "operators that join its blocks differ")?;
            crops = Some(found.1);
        }
        let crops = crops.ok_or("no convolution and BATCH_TO_SPACE_ND follow it")?;
        for (zeros, crop) in around.iter_mut().flatten().zip(crops.into_iter().flatten()) {
            *zeros = zeros.checked_sub(crop).ok_or("more is removed from the joined blocks than it adds")?;
        }
        self.in_blocks(output, Blocked { blocks, around, convolved: false })?;
        Ok(x)
    }

    /// The block and the two counts of each axis.
    fn by_axis(&mut self, operator: &Operator<'_>, rank: usize) -> Result<(Vec<usize>, Vec<Around>), Trouble> {
        let (_, blocks, _) = self.integers(operator, 1, Type::I32)?.ok_or("its blocks are missing")?;
        let (_, counts, _) = self.integers(operator, 2, Type::I32)?.ok_or("its paddings or crops are missing")?;
        let fits = blocks.len() < rank && counts.len() == 2 * blocks.len();
        fail_if(!fits, format_args!("its blocks are {blocks:?} for {rank} dimensions"))?;
        let is_valid =
            blocks.iter().all(|block| (1..=MOST).contains(block)) && counts.iter().all(|of| (0..=MOST).contains(of));
        fail_if(!is_valid, format_args!("its blocks are {blocks:?}, its paddings or crops {counts:?}"))?;
        let mut of_axes = (vec![1; rank], vec![[0, 0]; rank]);
        for (axis, (block, count)) in blocks.iter().zip(counts.as_chunks().0).enumerate() {
            of_axes.0[axis + 1] = *block as usize;
            of_axes.1[axis + 1] = count.map(|count| count as usize);
        }
        Ok(of_axes)
    }

    /// A reshape between the blocks and the convolution, which adds or removes a dimension of 1.
    pub(super) fn reshaped_blocks(&mut self, operator: &Operator<'_>, mut of: Blocked) -> Refused {
        let x = self.value(operator, 0)?;
        let mut x = self.flat(x);
        self.same_counts(operator, &x)?;
        let (from, to) = (self.input_shape(operator)?, self.output_shape(operator)?);
        let without = |shape: &[usize], axis: usize| [&shape[..axis], &shape[axis + 1..]].concat();
        let output = operator.outputs.first().copied().flatten().ok_or("it has no output")?;
        fail_if(x.shape.len() != from.len(), "its input has other dimensions than the whole value")?;
        let added = (1..to.len()).find(|&axis| to[axis] == 1 && without(&to, axis) == from);
        let removed = (1..from.len()).find(|&axis| from[axis] == 1 && without(&from, axis) == to);
        match (added, removed) {
            (Some(axis), None) => {
                x.shape.insert(axis, 1);
                of.blocks.insert(axis, 1);
                of.around.insert(axis, [0, 0]);
            }
            (None, Some(axis)) if x.shape[axis] == 1 && of.blocks[axis] == 1 && of.around[axis] == [0, 0] => {
                x.shape.remove(axis);
                of.blocks.remove(axis);
                of.around.remove(axis);
            }
            _ => return Err(format!("it makes {to:?} of {from:?}, which are blocks").into()),
        }
        self.in_blocks(output, of)?;
        Ok(x)
    }

    /// `BATCH_TO_SPACE_ND` behind a convolution.
    pub(super) fn batch_to_space(&mut self, operator: &Operator<'_>, of: &Blocked) -> Refused {
        let x = self.value(operator, 0)?;
        self.same_counts(operator, &x)?;
        fail_if(!of.convolved, "no convolution has read its blocks")?;
        fail_if(
            self.by_axis(operator, x.shape.len())?.0 != of.blocks,
            "its blocks are not those of SPACE_TO_BATCH_ND",
        )?;
        self.has_shape(operator, &x.shape)?;
        Ok(x)
    }
}
