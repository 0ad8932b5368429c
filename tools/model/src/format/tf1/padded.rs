//! Zeros around a value, and dilated convolutions as TensorFlow writes them:
//!
//! ```text
//! Pad, SpaceToBatchND → ExpandDims → Conv2D, padding VALID → Squeeze → BatchToSpaceND
//! ```
//!
//! SpaceToBatchND takes every `block`-th position into a batch of its own, and BatchToSpaceND undoes this. A convolution in
//! between is one with the dilation `block`.

use super::evaluate::{Evaluator, Outputs, Value, axes_of, axis};
use super::symbol::{Dim, Id, Padded, Padding, fail_if};
use crate::format::graphdef::attr_value::Value as Attr;

/// Maximum number of zeros on a side, and maximum block.
const MAX: usize = 65_535;

fn is_constant(value: &Value) -> bool {
    matches!(value, Value::Paddings(_) | Value::Ints { .. })
}

impl Evaluator<'_> {
    /// An op that pads, or whose input is padded.
    pub(super) fn padded(&mut self, node: usize, op: &str, inputs: &[Value]) -> Outputs {
        let padded = match (op, inputs) {
            ("Pad", [Value::Real(x), Value::Paddings(pairs)]) if pairs.iter().all(|pair| *pair == [0, 0]) => {
                return Ok(vec![Value::Real(*x)]);
            }
            ("Pad", [Value::Real(x), Value::Paddings(pairs)]) => self.with_zeros(self.unpadded(*x)?, 0, pairs)?,
            ("SpaceToBatchND", [x, Value::Ints { is_scalar: false, data: blocks }, Value::Paddings(pairs)]) => {
                let x = match x {
                    Value::Real(x) => self.unpadded(*x)?,
                    Value::Padded(padded) if padded.conv.is_none() => (**padded).clone(),
                    _ => return Err("it must split a sequence or an image".into()),
                };
                fail_if(x.blocks.iter().any(|&block| block != 1), "its input is split already")?;
                let mut split = self.with_zeros(x, 1, pairs)?;
                let blocks: Option<Vec<usize>> = blocks.iter().map(|&block| usize::try_from(block).ok()).collect();
                let blocks = blocks.filter(|blocks| blocks.len() == pairs.len());
                let blocks = blocks.filter(|blocks| blocks.iter().all(|block| (1..=MAX).contains(block)));
                split.blocks[1..=pairs.len()]
                    .copy_from_slice(&blocks.ok_or("its blocks must be sizes, one for each padding")?);
                split
            }
            ("ExpandDims", [Value::Padded(padded), Value::Ints { data, .. }]) if padded.conv.is_none() => {
                let mut expanded = (**padded).clone();
                let mut shape = self.arena.shape(padded.x).to_vec();
                let axis = axis(data, shape.len() + 1)?;
                shape.insert(axis, 1);
                expanded.zeros.insert(axis, [0, 0]);
                expanded.blocks.insert(axis, 1);
                expanded.x = self.arena.reshape(padded.x, &shape)?;
                expanded
            }
            ("Conv2D" | "DepthwiseConv2dNative", [Value::Padded(padded), Value::Real(weights)]) => {
                fail_if(
                    padded.conv.is_some(),
                    "it is the second convolution between SpaceToBatchND and BatchToSpaceND",
                )?;
                let convolved = Padded { conv: Some((node, *weights)), ..(**padded).clone() };
                if convolved.blocks.iter().all(|&block| block == 1) {
                    return self.convolved(&convolved);
                }
                convolved
            }
            ("Squeeze", [Value::Padded(padded)]) if padded.conv.is_some() && padded.removed.is_none() => {
                let rank = padded.zeros.len();
                let axes = match self.graph.attr(node, "squeeze_dims") {
                    Some(Attr::List(axes)) => axes_of(&axes.i, rank)?,
                    _ => Vec::new(),
                };
                let &[axis] = &*axes else { return Err("it must name the one dimension that it removes".into()) };
                let is_one = self.arena.shape(padded.x)[axis] == 1 && padded.zeros[axis] == [0, 0];
                fail_if(!is_one, "it may only remove a dimension of size 1")?;
                Padded { removed: Some(axis), ..(**padded).clone() }
            }
            (
                "BatchToSpaceND",
                [Value::Padded(padded), Value::Ints { is_scalar: false, data: blocks }, Value::Paddings(crops)],
            ) => return self.joined(padded, blocks, crops),
            ("Pad" | "SpaceToBatchND", [_, options @ ..]) if options.iter().any(|of| !is_constant(of)) => {
                return Err("its paddings and blocks must be constants".into());
            }
            _ => return Err("zeros around a value must be read by a convolution".into()),
        };
        Ok(vec![Value::Padded(Box::new(padded))])
    }

    fn unpadded(&self, x: Id) -> Result<Padded, String> {
        let rank = self.arena.shape(x).len();
        fail_if(self.arena.is_constant(x), "it pads a constant")?;
        Ok(Padded { x, zeros: vec![[0, 0]; rank], blocks: vec![1; rank], conv: None, removed: None })
    }

    /// Adds zeros before and behind each axis from `first` on.
    fn with_zeros(&self, mut x: Padded, first: usize, pairs: &[[Dim; 2]]) -> Result<Padded, String> {
        let axes = x.zeros.get_mut(first..first + pairs.len()).ok_or("it has more paddings than dimensions")?;
        for (zeros, pair) in axes.iter_mut().zip(pairs) {
            for (zeros, &more) in zeros.iter_mut().zip(pair) {
                let sum = usize::try_from(more).ok().and_then(|more| zeros.checked_add(more)).filter(|sum| *sum <= MAX);
                *zeros = sum.ok_or_else(|| format!("its paddings must be numbers from 0 to {MAX}"))?;
            }
        }
        Ok(x)
    }

    /// The output of a convolution, without what crops remove from it.
    fn joined(&mut self, padded: &Padded, blocks: &[Dim], crops: &[[Dim; 2]]) -> Outputs {
        let mut whole = padded.clone();
        // The axes of the output, without the one that was removed.
        let axes: Vec<usize> = (0..whole.zeros.len()).filter(|&axis| padded.removed != Some(axis)).skip(1).collect();
        fail_if(crops.len() > axes.len() || blocks.len() != crops.len(), "it has other crops than blocks")?;
        for (at, &axis) in axes.iter().enumerate() {
            let block = blocks.get(at).copied().unwrap_or(1);
            fail_if(block != padded.blocks[axis] as Dim, "its blocks are not those of SpaceToBatchND")?;
            for (zeros, &crop) in whole.zeros[axis].iter_mut().zip(crops.get(at).unwrap_or(&[0, 0])) {
                let less = usize::try_from(crop).ok().and_then(|crop| zeros.checked_sub(crop));
                *zeros = less.ok_or("its crops are larger than the paddings")?;
            }
        }
        self.convolved(&whole)
    }

    fn convolved(&mut self, padded: &Padded) -> Outputs {
        let (node, weights) = padded.conv.ok_or("there is no convolution between SpaceToBatchND and BatchToSpaceND")?;
        let (&[[0, 0], height, width, [0, 0]], &[1, high, wide, 1]) = (&*padded.zeros, &*padded.blocks) else {
            return Err("its input must be padded along height and width only".into());
        };
        let output = self.conv(node, padded.x, weights, Padding::Of([height, width]), [high, wide])?;
        let (Some(removed), [Value::Real(y)]) = (padded.removed, &*output) else { return Ok(output) };
        let mut shape = self.arena.shape(*y).to_vec();
        shape.remove(removed);
        Ok(vec![Value::Real(self.arena.reshape(*y, &shape)?)])
    }
}
