//! The values inside of a layer normalization, and how operators lead from one to the next.
//!
//! ```text
//! y = (x - m) / √(v + ε) ⊙ gain + bias    or    x s + (bias - m s)    with s = gain / √(v + ε)
//! ```

/// A part of a normalization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Mean,
    /// x - m
    Centered,
    /// (x - m)²
    Squared,
    /// v, or v + ε
    Variance,
    /// √(v + ε)
    Root,
    /// 1 / √(v + ε), or s
    Inverse,
    /// x s
    Scaled,
    /// -m
    Negative,
    /// m s
    ScaledMean,
    /// bias - m s, or -m s
    Rest,
}

/// A value inside of a normalization.
#[derive(Clone, Debug)]
pub struct Moment {
    pub part: Part,
    /// The tensor that is normalized.
    pub x: usize,
    pub epsilon: Option<f32>,
    pub gain: Option<Vec<f32>>,
    pub bias: Option<Vec<f32>>,
}

impl Moment {
    /// Whether it is one number for each step.
    pub fn is_of_a_step(&self) -> bool {
        let single = |of: &Option<Vec<f32>>| of.as_ref().is_none_or(|data| data.len() == 1);
        let whole = matches!(self.part, Part::Centered | Part::Squared | Part::Scaled);
        !whole && single(&self.gain) && single(&self.bias)
    }

    fn of(&self, part: Part) -> Self {
        Self { part, ..self.clone() }
    }
}

/// A normalization whose operators were found together.
#[derive(Clone, Debug)]
pub struct FusedNorm {
    /// The tensor that is normalized.
    pub x: usize,
    pub features: usize,
    pub moment: Moment,
}

/// An operand of an operator in a normalization.
pub enum Operand {
    Moment(Moment),
    Tensor(usize),
    Constant(Vec<f32>),
}

/// The result of an operator of a normalization.
pub enum Made {
    Inside(Moment),
    /// The normalized value.
    Whole(Moment),
}

/// The result of an operator for its operands. `None` if no known normalization has it.
pub fn made(op: &str, a: Operand, b: Option<Operand>) -> Option<Made> {
    use Operand::{Constant, Moment as Of, Tensor};
    let inside = |moment: Moment| Some(Made::Inside(moment));
    match (op, a, b) {
        ("MEAN", Of(m), None) if m.part == Part::Squared => inside(m.of(Part::Variance)),
        ("MEAN", Tensor(x), None) => inside(Moment { part: Part::Mean, x, epsilon: None, gain: None, bias: None }),
        ("SUB", Tensor(x), Some(Of(m))) if m.part == Part::Mean && x == m.x => inside(m.of(Part::Centered)),
        ("SQUARED_DIFFERENCE", Tensor(x), Some(Of(m))) | ("SQUARED_DIFFERENCE", Of(m), Some(Tensor(x)))
            if m.part == Part::Mean && x == m.x =>
        {
            inside(m.of(Part::Squared))
        }
        ("SQUARE", Of(m), None) if m.part == Part::Centered => inside(m.of(Part::Squared)),
        ("MUL", Of(m), Some(Of(n))) if [m.part, n.part] == [Part::Centered; 2] && m.x == n.x => {
            inside(m.of(Part::Squared))
        }
        ("ADD", Of(m), Some(Constant(data))) | ("ADD", Constant(data), Some(Of(m)))
            if m.part == Part::Variance && m.epsilon.is_none() =>
        {
            let [epsilon] = *data else { return None };
            inside(Moment { epsilon: Some(epsilon), ..m })
        }
        ("SQRT", Of(m), None) if m.part == Part::Variance => inside(m.of(Part::Root)),
        ("RSQRT", Of(m), None) if m.part == Part::Variance => inside(m.of(Part::Inverse)),
        ("MUL", Of(m), Some(Constant(gain))) | ("MUL", Constant(gain), Some(Of(m)))
            if m.part == Part::Inverse && m.gain.is_none() =>
        {
            inside(Moment { gain: Some(gain), ..m })
        }
        ("MUL", Of(m), Some(Tensor(x))) | ("MUL", Tensor(x), Some(Of(m))) if m.part == Part::Inverse && x == m.x => {
            inside(m.of(Part::Scaled))
        }
        ("MUL", Of(m), Some(Of(n))) | ("DIV", Of(m), Some(Of(n))) if m.x == n.x => match (op, m.part, n.part) {
            ("MUL", Part::Centered, Part::Inverse) => Some(Made::Whole(n)),
            ("MUL", Part::Inverse, Part::Centered) => Some(Made::Whole(m)),
            ("DIV", Part::Centered, Part::Root) => Some(Made::Whole(n)),
            ("MUL", Part::Mean, Part::Inverse) => inside(n.of(Part::ScaledMean)),
            ("MUL", Part::Inverse, Part::Mean) => inside(m.of(Part::ScaledMean)),
            ("MUL", Part::Negative, Part::Inverse) => inside(n.of(Part::Rest)),
            ("MUL", Part::Inverse, Part::Negative) => inside(m.of(Part::Rest)),
            _ => None,
        },
        ("SUB", Constant(bias), Some(Of(m))) if m.part == Part::ScaledMean => {
            inside(Moment { part: Part::Rest, bias: Some(bias), ..m })
        }
        ("NEG", Of(m), None) if m.part == Part::Mean => inside(m.of(Part::Negative)),
        ("ADD", Of(m), Some(Constant(bias))) | ("ADD", Constant(bias), Some(Of(m)))
            if m.part == Part::Rest && m.bias.is_none() =>
        {
            inside(Moment { bias: Some(bias), ..m })
        }
        ("ADD", Of(m), Some(Of(n))) => {
            let [scaled, rest] = if m.part == Part::Scaled { [m, n] } else { [n, m] };
            let same = (scaled.x, scaled.epsilon, &scaled.gain) == (rest.x, rest.epsilon, &rest.gain);
            let both = [scaled.part, rest.part] == [Part::Scaled, Part::Rest];
            (same && both).then_some(Made::Whole(rest))
        }
        _ => None,
    }
}

/// One number for all features, or one for each.
pub fn spread(data: Vec<f32>, size: usize) -> Vec<f32> {
    if let [value] = *data { vec![value; size] } else { data }
}
