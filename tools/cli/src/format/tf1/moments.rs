//! Normalizations over the features, as `moments` and `batch_normalization` write them: `x s + (shift - mean s)`, where
//! s is a factor over the root of the variance and an epsilon.

use super::evaluate::{Evaluator, Outputs, Value, axis};
use super::symbol::Id;

/// A part of a normalization of `x`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Moment {
    pub x: Id,
    pub part: Part,
    /// What is added to the variance (bits), a factor and a shift, as soon as they are known.
    epsilon: Option<u32>,
    gain: Option<Id>,
    shift: Option<Id>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Part {
    Mean,
    /// From the mean, squared.
    Deviation,
    Variance,
    /// s
    Scale,
    /// x s
    Scaled,
    /// mean s
    ScaledMean,
    /// shift - mean s
    Rest,
}

impl Moment {
    pub fn mean(x: Id) -> Self {
        Self { x, part: Part::Mean, epsilon: None, gain: None, shift: None }
    }

    fn is(self, part: Part) -> Value {
        Value::Moment(Self { part, ..self })
    }
}

impl Evaluator<'_> {
    /// What an op makes of parts of a normalization.
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
                if axis(data, rank)? + 1 != rank || !self.flag(node, "keep_dims", false)? {
                    return Err("it must go over the features".into());
                }
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
                let parts = [m.part, rest.part];
                let same = (m.x, m.epsilon, m.gain) == (rest.x, rest.epsilon, rest.gain);
                if !same || !(parts == [Part::Scaled, Part::Rest] || parts == [Part::Rest, Part::Scaled]) {
                    return Err("it adds parts of different normalizations".into());
                }
                let one = self.arena.make(super::symbol::Expr::Fill(1.0_f32.to_bits()), vec![])?;
                Value::Real(self.arena.norm(m.x, m.gain.unwrap_or(one), shift, m.epsilon.unwrap_or(0))?)
            }
            _ => return Err("it is no normalization that this importer knows".into()),
        };
        Ok(vec![made])
    }
}
