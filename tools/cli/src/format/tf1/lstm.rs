//! The data flow of `BasicLSTMCell` and `LSTMCell` in the body of a loop.
//!
//! ```text
//! i, j, f, o = split([x; h] K + b)
//! c' = clip(σ(f + forget_bias + w_f c) c + σ(i + w_i c) act(j))
//! h' = clip((σ(o + w_o c') act(c')) P)
//! ```

use tidegate::activation::Activation;

use super::cells::{self, LstmOptions};
use super::graph::Value;
use super::matcher::Matcher;
use super::while_loop::Loop;
use crate::canonical::Tensor;
use crate::error::ImportError;
use crate::format::layer::Layer;

/// `[x; h] K + b`
pub struct Linear {
    pub x: Value,
    pub h: Value,
    pub kernel: Tensor,
    pub bias: Tensor,
}

impl Linear {
    pub fn read(m: &mut Matcher<'_>, value: Value) -> Result<Self, ImportError> {
        let [product, bias] = m.biased(value)?;
        let [joined, kernel] = m.product(product)?;
        let [x, h, axis] = m.expect(joined, "ConcatV2")?;
        m.axis_of_features(joined, axis)?;
        Ok(Self { x: m.source(x)?, h: m.source(h)?, kernel: m.constant(kernel)?, bias: m.constant(bias)? })
    }
}

/// The layer whose output is this variable of the loop, and its input x.
pub fn read(m: &mut Matcher<'_>, body: &Loop, hidden: usize) -> Result<(Layer, Value), ImportError> {
    let top = body.next(hidden);
    let (unclipped, projection_clip) = clipped(m, top)?;
    let (shown, projection) = match m.op(unclipped)? {
        (_, "MatMul") => {
            let [shown, projection] = m.product(unclipped)?;
            (shown, Some(m.constant(projection)?))
        }
        _ if projection_clip.is_some() => return m.fail(top, "it clips an output that is not projected"),
        _ => (unclipped, None),
    };

    // h' = σ(o) act(c'): the factor that shows a state of the loop is act(c').
    let [a, b] = m.expect(shown, "Mul")?;
    let (activation, cell, gate) = match (shown_state(m, body, a)?, shown_state(m, body, b)?) {
        (Some((activation, cell)), None) => (activation, cell, b),
        (None, Some((activation, cell))) => (activation, cell, a),
        _ => return m.fail(shown, "it must be the output gate times an activation of the new cell state"),
    };
    let (old, new) = (body.old(cell), body.next(cell));
    let o = Gate::read(m, gate)?;

    // c' = σ(f) c + σ(i) act(j): the product with the old state is the first.
    let (sum, cell_clip) = clipped(m, new)?;
    let [a, b] = m.sum(sum)?;
    let (kept, added) = if factor_beside(m, a, old)?.is_some() { (a, b) } else { (b, a) };
    let Some(forget) = factor_beside(m, kept, old)? else {
        return m.fail(sum, "one of its terms must be the forget gate times the old cell state");
    };
    let f = Gate::read(m, forget)?;
    let [a, b] = m.expect(added, "Mul")?;
    let (input, candidate) = if is_candidate(m, b)? { (a, b) } else { (b, a) };
    let i = Gate::read(m, input)?;
    let Some((candidate_activation, j)) = m.activation(candidate)? else {
        return m.fail(candidate, "the candidate must have an activation");
    };

    if candidate_activation != activation {
        return m.fail(candidate, "candidate and output must have the same activation");
    }
    let outputs = [(i.split, 0), (j, 1), (f.split, 2), (o.split, 3)];
    for (value, output) in outputs {
        if value.node != j.node || value.output != output {
            return m
                .fail(value, format!("output {} is used where output {output} of one Split must be", value.output));
        }
    }
    if i.constant.is_some() || o.constant.is_some() {
        return m.fail(sum, "only the forget gate may have a constant added");
    }
    let peepholes = match (&i.peephole, &f.peephole, &o.peephole) {
        (None, None, None) => None,
        (Some((w_i, c_i)), Some((w_f, c_f)), Some((w_o, c_o))) if [*c_i, *c_f, *c_o] == [old, old, new] => {
            Some([w_i, w_f, w_o])
        }
        _ => return m.fail(sum, "peepholes must show i and f the old cell state and o the new one"),
    };
    let whole = m.split(j, 4)?;
    let linear = Linear::read(m, whole)?;
    if linear.h != body.old(hidden) {
        return m.fail(linear.h, "the second part of [x; h] must be the layer's own output");
    }
    let options = LstmOptions {
        forget_bias: f.constant.unwrap_or(0.0),
        peepholes,
        projection: projection.as_ref(),
        cell_clip,
        projection_clip,
        activation,
        ..LstmOptions::default()
    };
    let layer = cells::lstm(&linear.kernel, &linear.bias, options)?;
    body.check_initial(m, cell, layer.hidden_size)?;
    body.check_initial(m, hidden, layer.output_size)?;
    Ok((layer, linear.x))
}

/// The activation and the variable, if a value is an activation of a variable's next value.
fn shown_state(m: &mut Matcher<'_>, body: &Loop, value: Value) -> Result<Option<(Activation, usize)>, ImportError> {
    let activation = m.activation(value)?;
    Ok(activation.and_then(|(activation, inner)| Some((activation, body.becomes(inner)?))))
}

/// The other factor, if a value is a product with `factor`.
fn factor_beside(m: &mut Matcher<'_>, value: Value, factor: Value) -> Result<Option<Value>, ImportError> {
    if m.op(value)?.1 != "Mul" {
        return Ok(None);
    }
    let [a, b] = m.expect(value, "Mul")?;
    let (a, b) = (m.source(a)?, m.source(b)?);
    Ok(if b == factor { Some(a) } else { (a == factor).then_some(b) })
}

/// Whether a value is an activation of the second output of a Split.
fn is_candidate(m: &mut Matcher<'_>, value: Value) -> Result<bool, ImportError> {
    let Some((_, inner)) = m.activation(value)? else { return Ok(false) };
    Ok(m.node(inner).def.op == "Split" && inner.output == 1)
}

/// A gate, σ(split + constant + peephole * state).
struct Gate {
    split: Value,
    constant: Option<f32>,
    peephole: Option<(Tensor, Value)>,
}

impl Gate {
    fn read(m: &mut Matcher<'_>, value: Value) -> Result<Self, ImportError> {
        let Some((Activation::Sigmoid, sum)) = m.activation(value)? else {
            return m.fail(value, "a gate must be a Sigmoid");
        };
        let (mut split, mut constant, mut peephole) = (None, None, None);
        // Three terms at most, so four sums open is a pattern that is not known.
        let mut open = vec![sum];
        while let Some(value) = open.pop() {
            let (value, op) = m.op(value)?;
            let is_second = match op {
                "Add" | "AddV2" if open.len() < 4 => {
                    open.extend(m.sum(value)?);
                    false
                }
                "Split" => split.replace(value).is_some(),
                "Const" => constant.replace(m.number(value)?).is_some(),
                "Mul" => {
                    let [a, b] = m.expect(value, op)?;
                    let (weights, state) = if m.is_constant(a)? { (a, b) } else { (b, a) };
                    peephole.replace((m.constant(weights)?, m.source(state)?)).is_some()
                }
                _ => return m.fail(value, "it is no part of an LSTM gate"),
            };
            if is_second {
                return m.fail(value, "it is added twice to one gate");
            }
        }
        match split {
            Some(split) => Ok(Self { split, constant, peephole }),
            None => m.fail(value, "a gate must have a part of [x; h] K + b"),
        }
    }
}

/// What is clipped and its bound: `Maximum(Minimum(x, bound), -bound)` or `ClipByValue(x, -bound, bound)`.
fn clipped(m: &mut Matcher<'_>, value: Value) -> Result<(Value, Option<f32>), ImportError> {
    let (value, op) = m.op(value)?;
    let (inner, low, high) = match op {
        "ClipByValue" => {
            let [inner, low, high] = m.expect(value, op)?;
            (inner, low, high)
        }
        "Maximum" => {
            let [inner, low] = m.expect(value, op)?;
            let [inner, high] = m.expect(inner, "Minimum")?;
            (inner, low, high)
        }
        _ => return Ok((value, None)),
    };
    let (low, high) = (m.number(low)?, m.number(high)?);
    if low != -high {
        return m.fail(value, format!("it clips to {low} and {high}, but the bounds must be opposite"));
    }
    Ok((m.source(inner)?, Some(high)))
}
