//! The data flow of `GRUCell` in the body of a loop.
//!
//! ```text
//! r, u = split(σ([x; h] K + b))
//! c = act([x; r h] K_c + b_c)
//! h' = u h + (1 - u) c
//! ```

use tidegate::activation::Activation;

use super::cells;
use super::graph::Value;
use super::lstm::Linear;
use super::matcher::Matcher;
use super::while_loop::Loop;
use crate::error::ImportError;
use crate::format::layer::Layer;

/// The layer whose output is this variable of the loop, and its input x.
pub fn read(m: &mut Matcher<'_>, body: &Loop, hidden: usize) -> Result<(Layer, Value), ImportError> {
    let (old, new) = (body.old(hidden), body.next(hidden));
    let [a, b] = m.sum(new)?;
    let ([a, b], [c, d]) = (factors(m, a)?, factors(m, b)?);
    // u h is the product that has h in it.
    let (update, [a, b]) = if b == old {
        (a, [c, d])
    } else if a == old {
        (b, [c, d])
    } else if d == old {
        (c, [a, b])
    } else if c == old {
        (d, [a, b])
    } else {
        return m.fail(new, "one of its terms must be the update gate times the old state");
    };
    let (rest, candidate) = if m.node(a).def.op == "Sub" { (a, b) } else { (b, a) };
    let [one, subtracted] = m.expect(rest, "Sub")?;
    if m.number(one)? != 1.0 || m.source(subtracted)? != update {
        return m.fail(rest, "it must be 1 minus the update gate");
    }
    if update.output != 1 {
        return m.fail(update, "the update gate must be output 1 of its Split");
    }
    let whole = m.split(update, 2)?;
    let Some((Activation::Sigmoid, sum)) = m.activation(whole)? else {
        return m.fail(whole, "the gates must be a Sigmoid");
    };
    let gates = Linear::read(m, sum)?;

    let Some((activation, sum)) = m.activation(candidate)? else {
        return m.fail(candidate, "the candidate must have an activation");
    };
    let candidate = Linear::read(m, sum)?;
    let [a, b] = factors(m, candidate.h)?;
    let reset = Value { output: 0, ..update };
    if [a, b] != [reset, old] && [a, b] != [old, reset] {
        return m.fail(candidate.h, "it must be the reset gate times the old state");
    }
    if gates.h != old || gates.x != candidate.x {
        return m.fail(sum, "gates and candidate must read the same input and the layer's own output");
    }
    let layer = cells::gru(&gates.kernel, &gates.bias, &candidate.kernel, &candidate.bias, activation)?;
    body.check_initial(m, hidden, layer.hidden_size)?;
    Ok((layer, gates.x))
}

fn factors(m: &mut Matcher<'_>, value: Value) -> Result<[Value; 2], ImportError> {
    let [a, b] = m.expect(value, "Mul")?;
    Ok([m.source(a)?, m.source(b)?])
}
