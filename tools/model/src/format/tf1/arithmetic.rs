//! Float arithmetic ops.

use tidegate::internals::activation::Activation;

use super::evaluate::{Evaluator, Outputs, Value, axes_of};
use super::symbol::{Dim, Expr, Id, Over, Padding, fail_if};
use crate::format::graphdef::attr_value::Value as Attr;

impl Evaluator<'_> {
    pub(super) fn apply_real(&mut self, node: usize, op: &str, ids: &[Id]) -> Outputs {
        let arena = &mut self.arena;
        let id = match (op, ids) {
            ("MatMul" | "BatchMatMul" | "BatchMatMulV2", &[a, b]) => {
                self.graph.must_not(node, &["transpose_a", "adj_x", "adj_y"])?;
                let weights = match self.graph.flag(node, "transpose_b", false)? {
                    false => b,
                    true => match *self.transpose(b, &[1, 0])? {
                        [Value::Real(id)] => id,
                        _ => return Err("its weights must be a matrix".into()),
                    },
                };
                self.arena.matmul(a, weights)?
            }
            ("BiasAdd", &[x, bias]) => {
                self.graph.channels_last(node)?;
                match (self.arena.is_constant(bias), self.arena.expr(bias)) {
                    (true, _) => self.arena.add(x, bias)?,
                    // For a batch of one, Grappler creates this form from the sum of two products.
                    (false, &Expr::Reshape(row)) if self.arena.shape(row) == [1, self.arena.width(x) as Dim] => {
                        self.arena.add(x, row)?
                    }
                    _ => return Err("its bias must be constant".into()),
                }
            }
            ("Add" | "AddV2", &[a, b]) => arena.add(a, b)?,
            ("AddN", [first, rest @ ..]) => rest.iter().try_fold(*first, |sum, &part| arena.add(sum, part))?,
            ("Sub", &[a, b]) => arena.sub(a, b)?,
            ("Neg", &[x]) => arena.affine(x, -1.0, 0.0)?,
            ("Mul", &[a, b]) => arena.mul(a, b)?,
            ("RealDiv", &[a, b]) => {
                let inverse = arena.map(b, &f32::recip)?;
                arena.mul(a, inverse)?
            }
            ("Square", &[x]) if arena.is_constant(x) => arena.map(x, &|value| value * value)?,
            ("Rsqrt", &[x]) => arena.map(x, &|value| value.sqrt().recip())?,
            ("Sqrt", &[x]) => arena.map(x, &f32::sqrt)?,
            ("Sigmoid", &[x]) => arena.unary(Activation::Sigmoid, x)?,
            ("Tanh", &[x]) => arena.unary(Activation::Tanh, x)?,
            ("Relu", &[x]) => arena.unary(Activation::Relu, x)?,
            ("Relu6", &[x]) => arena.unary(Activation::Relu6, x)?,
            ("Elu", &[x]) => arena.unary(Activation::Elu { alpha: 1.0 }, x)?,
            ("Selu", &[x]) => arena.unary(Activation::Selu, x)?,
            ("Softplus", &[x]) => arena.unary(Activation::Softplus, x)?,
            ("Softsign", &[x]) => arena.unary(Activation::Softsign, x)?,
            ("Exp", &[x]) => arena.unary(Activation::Exp, x)?,
            ("LeakyRelu", &[x]) => {
                let alpha = self.graph.float(node, "alpha", 0.2)?;
                self.arena.unary(Activation::LeakyRelu { alpha }, x)?
            }
            ("Softmax", &[x]) => arena.softmax(x)?,
            ("Minimum" | "Maximum", &[a, b]) => {
                let (x, bound) = if arena.scalar(a).is_some() { (b, a) } else { (a, b) };
                match (arena.scalar(bound), op) {
                    (Some(bound), "Maximum") if arena.is_constant(x) => arena.map(x, &|value| value.max(bound))?,
                    (Some(bound), "Minimum") => arena.clip(x, f32::NEG_INFINITY, bound)?,
                    (Some(bound), _) => arena.clip(x, bound, f32::INFINITY)?,
                    (None, "Maximum") => arena.maximum(a, b)?,
                    (None, _) => return Err("it must have a constant".into()),
                }
            }
            ("ClipByValue", &[x, least, greatest]) => match (arena.scalar(least), arena.scalar(greatest)) {
                (Some(least), Some(greatest)) => arena.clip(x, least, greatest)?,
                _ => return Err("its bounds must be constant".into()),
            },
            ("ZerosLike" | "OnesLike", &[x]) => {
                let (shape, value) = (arena.shape(x).to_vec(), if op == "OnesLike" { 1.0_f32 } else { 0.0 });
                arena.make(Expr::Fill(value.to_bits()), shape)?
            }
            ("Shape", &[x]) => return self.ints(false, self.arena.shape(x).to_vec()),
            ("Rank", &[x]) => return self.ints(true, vec![self.arena.shape(x).len() as Dim]),
            ("Squeeze", &[x]) => {
                let shape = arena.shape(x).to_vec();
                let axes: Vec<usize> = match self.graph.attr(node, "squeeze_dims") {
                    Some(Attr::List(axes)) if !axes.i.is_empty() => axes_of(&axes.i, shape.len())?,
                    _ if self.arena.is_constant(x) || matches!(*shape, [1, _]) => {
                        (0..shape.len()).filter(|&axis| shape[axis] == 1).collect()
                    }
                    _ => return Err("it must name the dimensions that it removes".into()),
                };
                fail_if(axes.iter().any(|&axis| shape[axis] != 1), "it may only remove dimensions of size 1")?;
                let left = shape.iter().enumerate().filter(|(axis, _)| !axes.contains(axis)).map(|(_, &dim)| dim);
                let left: Vec<Dim> = left.collect();
                self.arena.reshape(x, &left)?
            }
            ("Pack", parts) => return self.pack(node, parts),
            ("Unpack", &[x]) => return self.unpack(node, x),
            ("Conv2D" | "DepthwiseConv2dNative", &[x, weights]) => {
                return self.conv(node, x, weights, Padding::NONE, [1, 1]);
            }
            ("MaxPool", &[x]) => return self.pool(node, x, Over::Max),
            ("AvgPool", &[x]) => return self.pool(node, x, Over::Average),
            ("FusedBatchNorm" | "FusedBatchNormV2" | "FusedBatchNormV3", &[x, gain, shift, mean, variance]) => {
                self.graph.channels_last(node)?;
                fail_if(self.graph.flag(node, "is_training", true)?, "is_training must be false")?;
                // The op's default epsilon (tensorflow/core/ops/nn_ops.cc).
                let epsilon = self.graph.float(node, "epsilon", 1e-4)?;
                let arena = &mut self.arena;
                let inverse = arena.map(variance, &|value| (value + epsilon).sqrt().recip())?;
                let gain = arena.mul(gain, inverse)?;
                let negative = arena.map(mean, &|value| -value)?;
                let moved = arena.mul(negative, gain)?;
                let shift = arena.add(shift, moved)?;
                let scaled = arena.mul(x, gain)?;
                arena.add(scaled, shift)?
            }
            ("LSTMBlockCell", ids) if let Ok(ids) = ids.try_into() => return self.lstm_block(node, ids),
            ("GRUBlockCell", ids) if let Ok(ids) = ids.try_into() => return self.gru_block(ids),
            _ => return Err(String::new()),
        };
        Ok(vec![Value::Real(id)])
    }
}
