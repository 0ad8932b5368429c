//! Combines parts of equal length, as residual connections, highways and attention over two inputs do.
//!
//! # Equation
//!
//! ```text
//! x = [x_1, x_2, …, x_k]                       each as long as y
//! y = x_1 + x_2 + … + x_k                      add, and without an option
//! y = x_1 ⊙ x_2 ⊙ … ⊙ x_k                      multiply
//! y = (x_1 + x_2 + … + x_k) / k                average
//! y = max(x_1, x_2, …, x_k)                    maximum
//! y = √(x_1² + x_2² + … + x_k²)                norm
//! y = x_1 ⊘ x_2                                divide, of two parts
//! y = x_1 - x_2                                subtract, of two parts
//! y = x_1 ⊙ x_3 + x_2 ⊙ (1 - x_3)              blend, of three parts
//! ```
//!
//! # Tensors
//!
//! None.
//!
//! # Options
//!
//! At most one of them.
//!
//! | name | what |
//! |---|---|
//! | `add` | the sum, which is also the default |
//! | `multiply` | the product |
//! | `average` | the mean |
//! | `maximum` | the greatest |
//! | `blend` | the third part is the share of the first; the rest is the second |
//! | `divide` | the quotient of two parts; only in floats |
//! | `norm` | the magnitude, such as that of a complex number's two parts |
//! | `subtract` | the difference of two parts |
//!
//! # Known as
//!
//! Keras's `Add`, `Multiply`, `Average`, `Maximum` and the `merge_mode` of `Bidirectional`; the sum of TensorFlow's
//! `ResidualWrapper`, the blend of its `HighwayWrapper`.
//!
//! # Golden cases
//!
//! `tf1__ResidualWrapper__*`, `tf1__HighwayWrapper__*`, `keras2__Bidirectional__*`, `keras3__Bidirectional__*`.

pub mod i8;
pub mod integer;

use super::prelude::*;
use crate::element::greater;

const OPTIONS: &[&str] = &["add", "multiply", "average", "maximum", "blend", "norm", "divide", "subtract"];
const ADD: u32 = option(OPTIONS, "add");
const MULTIPLY: u32 = option(OPTIONS, "multiply");
const AVERAGE: u32 = option(OPTIONS, "average");
const MAXIMUM: u32 = option(OPTIONS, "maximum");
const BLEND: u32 = option(OPTIONS, "blend");
const NORM: u32 = option(OPTIONS, "norm");
const DIVIDE: u32 = option(OPTIONS, "divide");
const SUBTRACT: u32 = option(OPTIONS, "subtract");

pub(super) const SPEC: CellSpec = CellSpec {
    name: "merge",
    rules: &[
        RECURRENT,
        Rule::Multiple(Dim::Input, Dim::Output),
        Rule::OneOf { options: &[ADD, MULTIPLY, AVERAGE, MAXIMUM, BLEND, NORM, DIVIDE, SUBTRACT], least: 0 },
        Rule::Equal(Dim::When(BLEND, &Dim::Input), Dim::When(BLEND, &Dim::Product(&[Dim::Const(3), Dim::Output]))),
        Rule::Equal(Dim::When(DIVIDE, &Dim::Input), Dim::When(DIVIDE, &Dim::Product(&[Dim::Const(2), Dim::Output]))),
        Rule::Equal(
            Dim::When(SUBTRACT, &Dim::Input),
            Dim::When(SUBTRACT, &Dim::Product(&[Dim::Const(2), Dim::Output])),
        ),
    ],
    options: OPTIONS,
    ..CellSpec::EMPTY
};

pub(super) const fn entry<W: Weight, K: Kernel>() -> Entry {
    const {
        Entry {
            spec: &SPEC,
            float: &[&Cell::float(&SPEC, step)],
            integer: &[(&integer::SPEC, &Cell::integer(&SPEC, &integer::SPEC, integer::step))],
            i8: &[(&i8::SPEC, &Cell::integer(&SPEC, &i8::SPEC, i8::step))],
        }
    }
}

/// One step. `x` is `[parts · output]`, `y` is `[output]`.
pub(crate) fn step(node: &Node<'_>, io: Io<'_>) {
    let Io { x, y, .. } = io;
    let Some((first, others)) = x.split_at_checked(y.len()) else { return };
    copy(y, first);
    if node.has(BLEND) {
        let Some((second, share)) = others.split_at_checked(y.len()) else { return };
        for ((y, &second), &share) in y.iter_mut().zip(second).zip(share) {
            *y = *y * share + second * (1.0 - share);
        }
        return;
    }
    let merge: fn(f32, f32) -> f32 = if node.has(MULTIPLY) {
        |y, part| y * part
    } else if node.has(NORM) {
        y.iter_mut().for_each(|y| *y *= *y);
        |y, part| y + part * part
    } else if node.has(MAXIMUM) {
        greater
    } else if node.has(DIVIDE) {
        |y, part| y / part
    } else if node.has(SUBTRACT) {
        |y, part| y - part
    } else {
        |y, part| y + part
    };
    let (mut rest, mut parts) = (others, 1.0);
    while let Some((part, others)) = rest.split_at_checked(y.len()).filter(|(part, _)| !part.is_empty()) {
        for (y, &part) in y.iter_mut().zip(part) {
            *y = merge(*y, part);
        }
        rest = others;
        parts += 1.0;
    }
    if node.has(AVERAGE) {
        for y in y {
            *y /= parts;
        }
    } else if node.has(NORM) {
        for y in y {
            *y = Activation::Sqrt.apply(*y);
        }
    }
}
