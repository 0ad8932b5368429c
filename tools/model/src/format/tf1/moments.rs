//! Normalizations over the features, as `moments` and `batch_normalization` write them: `x s + (shift - mean s)`, where
//! s is a factor divided by the root of variance plus epsilon.

use super::evaluate::{Evaluator, Moment, Outputs, Part, Value, axis};
use super::symbol::{Id, fail_if};

impl Moment {
    pub fn mean(x: Id) -> Self {
        Self { x, part: Part::Mean, epsilon: None, gain: None, shift: None }
    }

    fn is(self, part: Part) -> Value {
        Value::Moment(Self { part, ..self })
    }
}

impl Evaluator<'_> {
    /// Evaluates an op on intermediate values of a normalization.
    pub(super) fn moment(&mut self, node: usize, op: &str, inputs: &[Value]) -> Outputs {
        let (m, other) = match inputs {
            [Value::Moment(m)] => (*m, None),
            [Value::Moment(m), other] | [other, Value::Moment(m)] => (*m, Some(other)),
            _ => return Err(String::new()),
        };
        let made = match (op, m.part, other) {
            ("StopGradient" | "Identity", ..) => Value::Moment(m),
            ("SquaredDifference", Part::Mean, Some(&Value::Real(x))) if x == m.x => m.is(Part::Deviation),
            ("Mean", Part::Deviation, Some(Value::Ints { data, .. })) => {
                let rank = self.arena.shape(m.x).len();
                let whole = axis(data, rank)? + 1 == rank && self.graph.flag(node, "keep_dims", false)?;
                fail_if(!whole, "it must go over the features")?;
                m.is(Part::Variance)
            }
            ("Add" | "AddV2", Part::Variance, Some(&Value::Real(x))) if m.epsilon.is_none() => {
                let epsilon = self.arena.scalar(x).ok_or("its epsilon must be one number")?;
                Value::Moment(Moment { epsilon: Some(epsilon.to_bits()), ..m })
            }
            ("Rsqrt", Part::Variance, None) => m.is(Part::Scale),
            ("Mul", Part::Scale, Some(&Value::Real(x))) if x == m.x => m.is(Part::Scaled),
            ("Mul", Part::Scale, Some(&Value::Real(x))) if m.gain.is_none() && self.arena.is_constant(x) => {
                Value::Moment(Moment { gain: Some(x), ..m })
            }
            ("Mul", Part::Scale, Some(Value::Moment(mean))) | ("Mul", Part::Mean, Some(Value::Moment(mean)))
                if mean.x == m.x =>
            {
                match (m.part, mean.part) {
                    (Part::Scale, Part::Mean) => m.is(Part::ScaledMean),
                    (Part::Mean, Part::Scale) => mean.is(Part::ScaledMean),
                    _ => return Err(String::new()),
                }
            }
            ("Sub", Part::ScaledMean, Some(&Value::Real(x)))
                if self.arena.is_constant(x) && matches!(inputs, [Value::Real(_), _]) =>
            {
                Value::Moment(Moment { shift: Some(x), part: Part::Rest, ..m })
            }
            ("Add" | "AddV2", Part::Scaled | Part::Rest, Some(&Value::Moment(rest))) => {
                let shift = m.shift.or(rest.shift).ok_or("it adds parts of a normalization twice")?;
                let same = (m.x, m.epsilon, m.gain) == (rest.x, rest.epsilon, rest.gain);
                let both = matches!((m.part, rest.part), (Part::Scaled, Part::Rest) | (Part::Rest, Part::Scaled));
                fail_if(!same || !both, "it adds parts of different normalizations")?;
                let one = self.arena.make(super::symbol::Expr::Fill(1.0_f32.to_bits()), vec![])?;
                Value::Real(self.arena.norm(m.x, m.gain.unwrap_or(one), shift, m.epsilon.unwrap_or(0))?)
            }
            _ => return Err("it is not a known form of normalization".into()),
        };
        Ok(vec![made])
    }
}
