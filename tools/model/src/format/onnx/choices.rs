//! Choices by computed values: comparisons with a known number, and `If` and `Where` whose condition is such a comparison. Both
//! values are computed, and the truth, 0 or 1, selects one: c·a + (1 - c)·b, which is exact.

use tidegate::internals::activation::Activation;

use super::graph::{Session, Stop};
use super::made::Made;
use super::moves::needed;
use super::value::{Element, Value, both};
use crate::format::refuse::fail_if;

/// The least distance between a number and the next one that a comparison can tell apart from 0.
const LEAST_STEP: f32 = 1e-36;

impl Session<'_> {
    /// The truth of a comparison of a computed value with a known number, as 0 or 1.
    pub(super) fn compared(&mut self, op: &str, inputs: &[Option<Value>]) -> Result<Value, Stop> {
        self.attributes("")?;
        let (mut x, mut number) = (needed(inputs, 0)?, needed(inputs, 1)?);
        let mut op = op;
        if x.is_constant() {
            (x, number) = (number, x);
            op = match op {
                "Greater" => "Less",
                "GreaterOrEqual" => "LessOrEqual",
                "Less" => "Greater",
                _ => "GreaterOrEqual",
            };
        }
        fail_if(!number.is_constant(), "both of its operands are computed; one must be a known number")?;
        let shape = both(&x.shape, &number.shape)?;
        let numbers = number.known_floats()?;
        let number = numbers.first().copied().filter(|first| numbers.iter().all(|of| of == first && of.is_finite()));
        let number = number.ok_or("it compares with several numbers; only one is supported")?;
        // The least number that is above, and the greatest that is not.
        let (above, below) = match op {
            "GreaterOrEqual" | "Less" => (number, number.next_down()),
            _ => (number.next_up(), number),
        };
        let step = above - below;
        fail_if(
            step < LEAST_STEP || !step.is_finite(),
            format_args!("it compares with {number:e}, which is too small"),
        )?;
        self.room(&shape, false)?;
        // x - below is exactly 0 or less, or at least one step, which the gain makes 1.
        let over = self.affine(&x.broadcast(&shape)?, &|_| (1.0, -below))?;
        let mut truth = self.activated(&over, Activation::HardSigmoid { alpha: 1.0 / step, beta: 0.0 })?;
        if op.starts_with("Less") {
            truth = self.affine(&truth, &|_| (-1.0, 1.0))?;
        }
        self.truth(truth)
    }

    /// Whether a computed truth is false.
    pub(super) fn negated(&mut self, inputs: &[Option<Value>]) -> Result<Value, Stop> {
        self.attributes("")?;
        let truth = needed(inputs, 0)?;
        fail_if(!self.is_truth(&truth), "its operand is not a comparison")?;
        let negated = self.affine(&truth, &|_| (-1.0, 1.0))?;
        self.truth(negated)
    }

    fn truth(&mut self, mut value: Value) -> Result<Value, Stop> {
        value.whole = true;
        self.truths.extend(value.elements().iter().filter_map(|element| element.made()).map(Made));
        Ok(value)
    }

    /// Whether every element is the truth of a comparison.
    pub(super) fn is_truth(&self, value: &Value) -> bool {
        let of = |element: &Element| element.made().is_some_and(|made| self.truths.contains(&Made(made)));
        !value.is_constant() && value.elements().iter().all(of)
    }

    /// `Where` with a computed condition.
    pub(super) fn where_computed(&mut self, inputs: &[Option<Value>]) -> Result<Value, Stop> {
        self.attributes("")?;
        let (on, yes, no) = (needed(inputs, 0)?, needed(inputs, 1)?, needed(inputs, 2)?);
        fail_if(!self.is_truth(&on), "its condition is not a comparison with a known number")?;
        self.same_roles(&on, &yes)?;
        self.same_roles(&yes, &no)?;
        self.selected(&on, &yes, &no)
    }

    /// `yes` where the truth is 1, `no` where it is 0.
    pub(super) fn selected(&mut self, on: &Value, yes: &Value, no: &Value) -> Result<Value, Stop> {
        let shape = both(&both(&on.shape, &yes.shape)?, &no.shape)?;
        self.room(&shape, false)?;
        let off = self.affine(on, &|_| (-1.0, 1.0))?;
        let [yes, no] = [(on, yes), (&off, no)].map(|(share, value)| {
            let share = share.broadcast(&shape)?;
            let value = value.broadcast(&shape)?;
            match value.is_constant() {
                false => self.merge("multiply", &share, &value),
                true => {
                    let numbers = value.known_floats()?;
                    fail_if(
                        numbers.iter().any(|number| !number.is_finite()),
                        "it selects a number that is not finite",
                    )?;
                    self.affine(&share, &|k| (numbers[k], 0.0))
                }
            }
        });
        self.merge("add", &yes?, &no?)
    }
}
