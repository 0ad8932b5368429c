//! Attention over the steps of a window.

use tidegate::internals::activation::Activation;

use super::activation::{Function, add_function};
use crate::format::picture::pool_over_time;
use crate::format::refuse::{needs_window_if, unsupported_if};
use crate::format::{case::Case, layer::Layer, network::Network, signal::Signal};
use crate::{canonical::Tensor, error::Result};

/// `AttentionWeightedAverage` of [DeepMoji](https://arxiv.org/abs/1708.00524) and textgenrnn, a class of the authors' own
/// code: the average of all steps, weighted by the softmax of their products with `W`. The authors add 1e-7 to the
/// denominator of the softmax, which is at least 1, so it is left out here.
pub(super) fn weighted_average(case: &mut Case<'_>, network: &mut Network, x: &Signal) -> Result<Signal> {
    case.must_be("return_attention", false)?;
    unsupported_if(!x.sequence || x.shape.len() > 1, "an input other than a sequence of vectors")?;
    unsupported_if(x.mask.is_some(), "an average over masked steps")?;
    needs_window_if(x.source.rows().is_none(), &case.cls)?;
    let (steps, size) = (x.source.rows().unwrap_or(1), x.source.size());
    let weights = case.named("W")?.shaped(&[size, 1], size)?;
    let row = |data| Tensor { shape: vec![1, size], data };
    let scores = network.add(Layer::dense(row(weights.data), None, Activation::Identity), &[&x.source]);
    network.only_full_windows();
    let shares = add_function(network, &x.with(scores.flat()), Function::Softmax)?.source.in_rows(steps);
    // The pool divides by the number of steps.
    let column = Tensor { shape: vec![size, 1], data: vec![steps as f32; size] };
    let shares = network.add(Layer::dense(column, None, Activation::Identity), &[&shares]);
    let weighted = network.add(Layer::merge("multiply", 2, size), &[&x.source, &shares]);
    pool_over_time(network, &x.with(weighted), 1, "average")
}
