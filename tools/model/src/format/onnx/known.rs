//! Operators that are evaluated when the model is read: shapes and arithmetic of constants.

use super::value::{Data, Value, both, elem};
use super::{graph::Session, graph::Stop, moves::axis, moves::given, moves::needed};
use crate::format::refuse::fail_if;

impl Session<'_> {
    /// The output of a node that has only constant inputs or needs only the shape of its input; `None` for any other
    /// node.
    pub(super) fn computed(&mut self, op: &str, inputs: &[Option<Value>]) -> Result<Option<Value>, Stop> {
        match op {
            "Constant" => {
                let names = "value value_float value_floats value_int value_ints";
                let attributes = self.attributes(names)?;
                return Ok(Some(match names.split(' ').find(|name| attributes.has(name)) {
                    Some("value") => attributes.tensor("value")?.ok_or("it has no value")?,
                    Some("value_float") => Value::floats(vec![], vec![attributes.float("value_float", 0.0)?]),
                    Some("value_floats") => {
                        let values = attributes.floats("value_floats")?;
                        Value::floats(vec![values.len()], values)
                    }
                    Some("value_int") => Value::ints(vec![], vec![attributes.int("value_int", 0)?]),
                    Some(_) => {
                        let values = attributes.ints("value_ints")?.unwrap_or_default();
                        Value::ints(vec![values.len()], values)
                    }
                    None => return Err("it has no value".into()),
                }));
            }
            "Shape" => {
                let x = needed(inputs, 0)?;
                let attributes = self.attributes("start end")?;
                let rank = x.shape.len() as i64;
                let within = |at: i64| (if at < 0 { at.saturating_add(rank) } else { at }).clamp(0, rank) as usize;
                let (start, end) = (within(attributes.int("start", 0)?), within(attributes.int("end", rank)?));
                let dims: Vec<i64> =
                    x.shape.get(start..end).unwrap_or_default().iter().map(|&dim| dim as i64).collect();
                return Ok(Some(Value::ints(vec![dims.len()], dims)));
            }
            "Size" => {
                self.attributes("")?;
                return Ok(Some(Value::ints(vec![], vec![needed(inputs, 0)?.len() as i64])));
            }
            "ConstantOfShape" => {
                let to = needed(inputs, 0)?;
                let shape: Result<Vec<usize>, _> = to.known_ints()?.iter().map(|&dim| usize::try_from(dim)).collect();
                let shape = shape.map_err(|_| "a negative dimension")?;
                let count = self.room(&shape, true)?;
                return Ok(Some(match self.attributes("value")?.tensor("value")? {
                    None => Value::floats(shape, vec![0.0; count]),
                    Some(Value { data: Data::Ints(data), .. }) if data.len() == 1 => {
                        Value::ints(shape, vec![data[0]; count])
                    }
                    Some(Value { data: Data::Floats(data), .. }) if data.len() == 1 => {
                        Value::floats(shape, vec![data[0]; count])
                    }
                    Some(_) => return Err("its value is not one number".into()),
                }));
            }
            "Cast" => {
                let mut x = needed(inputs, 0)?;
                let to = self.attributes("to saturate round_mode")?.int("to", 0)?;
                let whole = i32::try_from(to).ok().and_then(super::graph::is_whole);
                let whole = whole.ok_or_else(|| format!("type {to}, which is not supported"))?;
                let truth = to == i64::from(elem::BOOL);
                return Ok(Some(match (&x.data, whole) {
                    (Data::Ints(data), true) if truth => {
                        Value::ints(x.shape, data.iter().map(|&value| i64::from(value != 0)).collect())
                    }
                    (Data::Ints(_), true) | (Data::Floats(_), false) => x,
                    (Data::Ints(data), false) => {
                        Value::floats(x.shape, data.iter().map(|&value| value as f32).collect())
                    }
                    (Data::Floats(data), true) => {
                        let of = |value: f32| if truth { i64::from(value != 0.0) } else { value as i64 };
                        Value::ints(x.shape, data.iter().map(|&value| of(value)).collect())
                    }
                    (Data::Open(_), whole) if x.whole || !whole => {
                        x.whole = whole;
                        x
                    }
                    (Data::Open(_), _) => return Err("it converts computed values to integers".into()),
                }));
            }
            "Range" => {
                self.attributes("")?;
                let ends: Result<Vec<i64>, String> = (0..3)
                    .map(|k| match needed(inputs, k)?.known_ints()? {
                        [one] => Ok(*one),
                        _ => Err("its ends must be numbers".to_owned()),
                    })
                    .collect();
                let [start, limit, delta] = ends?[..] else { return Err("its ends must be numbers".into()) };
                let count = (limit.saturating_sub(start) as f64 / delta as f64).ceil().max(0.0);
                fail_if(delta == 0 || count > super::value::MAX_ELEMENTS as f64, "it has too many numbers")?;
                self.room(&[count as usize], true)?;
                let values: Vec<i64> = (0..count as i64).map(|k| start + k * delta).collect();
                return Ok(Some(Value::ints(vec![values.len()], values)));
            }
            _ => {}
        }
        let known = !inputs.is_empty() && inputs.iter().flatten().all(Value::is_constant);
        if known {
            return self.arithmetic(op, inputs);
        }
        if let ("Equal" | "Less" | "LessOrEqual" | "Greater" | "GreaterOrEqual", [Some(a), Some(b)]) = (op, inputs)
            && let Some((input, with)) =
                a.whole_input().map(|input| (input, b)).or(b.whole_input().map(|input| (input, a)))
            && let Ok(&[number]) = with.known_ints()
        {
            return Err(Stop::Choice(input, number));
        }
        self.times_nothing(op, inputs)
    }

    /// The product of zeros and integers, even if the integers are unknown.
    fn times_nothing(&self, op: &str, inputs: &[Option<Value>]) -> Result<Option<Value>, Stop> {
        let [Some(a), Some(b)] = inputs else { return Ok(None) };
        let nothing = |value: &Value| matches!(&value.data, Data::Ints(data) if data.iter().all(|&value| value == 0));
        if op == "Mul" && a.whole && b.whole && (nothing(a) || nothing(b)) {
            let shape = both(&a.shape, &b.shape)?;
            let count = self.room(&shape, true)?;
            return Ok(Some(Value::ints(shape, vec![0; count])));
        }
        Ok(None)
    }

    fn arithmetic(&self, op: &str, inputs: &[Option<Value>]) -> Result<Option<Value>, Stop> {
        let x = needed(inputs, 0)?;
        let unary_int = |of: fn(i64) -> i64| -> Result<Option<Value>, Stop> {
            self.attributes("")?;
            Ok(Some(Value::ints(x.shape.clone(), x.known_ints()?.iter().map(|&value| of(value)).collect())))
        };
        match (op, &x.data) {
            ("Not", Data::Ints(_)) => return unary_int(|value| i64::from(value == 0)),
            ("Neg", Data::Ints(_)) => return unary_int(i64::wrapping_neg),
            ("Abs", Data::Ints(_)) => return unary_int(i64::wrapping_abs),
            ("Where", Data::Ints(_)) => {
                self.attributes("")?;
                let (yes, no) = (needed(inputs, 1)?, needed(inputs, 2)?);
                let shape = both(&both(&x.shape, &yes.shape)?, &no.shape)?;
                self.room(&shape, true)?;
                let on = x.broadcast(&shape)?;
                let pick = |yes: &Value, no: &Value| -> Result<Value, String> {
                    let (yes, no) = (yes.broadcast(&shape)?, no.broadcast(&shape)?);
                    let on = on.known_ints()?;
                    Ok(match (&yes.data, &no.data) {
                        (Data::Ints(a), Data::Ints(b)) => {
                            let all = on.iter().zip(a.iter().zip(b.iter()));
                            Value::ints(shape.clone(), all.map(|(&on, (&a, &b))| if on != 0 { a } else { b }).collect())
                        }
                        _ => {
                            let (a, b) = (yes.known_floats()?, no.known_floats()?);
                            let all = on.iter().zip(a.into_iter().zip(b));
                            Value::floats(shape.clone(), all.map(|(&on, (a, b))| if on != 0 { a } else { b }).collect())
                        }
                    })
                };
                return Ok(Some(pick(&yes, &no)?));
            }
            ("ReduceProd" | "ReduceSum" | "ReduceMax" | "ReduceMin", Data::Ints(data)) => {
                let attributes = self.attributes("axes keepdims noop_with_empty_axes")?;
                let mut axes = attributes.ints("axes")?;
                if let Some(given) = given(inputs, 1) {
                    axes = Some(given.known_ints()?.to_vec());
                }
                let none = axes.as_ref().is_none_or(Vec::is_empty);
                if none && attributes.int("noop_with_empty_axes", 0)? != 0 {
                    return Ok(Some(x));
                }
                let all = axes.is_none_or(|axes| axes.iter().all(|&on| axis(on, x.shape.len()) == Ok(0)));
                if x.shape.len() > 1 || !all {
                    return Ok(None);
                }
                let of = data.iter().copied();
                let value = match op {
                    "ReduceProd" => of.reduce(i64::wrapping_mul),
                    "ReduceSum" => of.reduce(i64::wrapping_add),
                    "ReduceMax" => of.reduce(i64::max),
                    _ => of.reduce(i64::min),
                };
                let value = value.ok_or("it reduces nothing")?;
                let keeps = attributes.int("keepdims", 1)? != 0;
                return Ok(Some(Value::ints(vec![1; if keeps { x.shape.len() } else { 0 }], vec![value])));
            }
            ("Sqrt" | "Exp" | "Log" | "Neg" | "Abs" | "Reciprocal", Data::Floats(data)) => {
                self.attributes("")?;
                let of: fn(f32) -> f32 = match op {
                    "Sqrt" => f32::sqrt,
                    "Exp" => f32::exp,
                    "Log" => f32::ln,
                    "Neg" => |value| -value,
                    "Abs" => f32::abs,
                    _ => f32::recip,
                };
                return Ok(Some(Value::floats(x.shape.clone(), data.iter().map(|&value| of(value)).collect())));
            }
            _ => {}
        }
        let Some(y) = given(inputs, 1).filter(|_| inputs.len() == 2) else { return Ok(None) };
        match op {
            "Add" | "Sub" | "Mul" | "Div" | "Min" | "Max" | "Pow" | "Mod" | "And" | "Or" => {}
            "Equal" | "Less" | "Greater" | "LessOrEqual" | "GreaterOrEqual" => {}
            _ => return Ok(None),
        }
        let attributes = self.attributes(if op == "Mod" { "fmod" } else { "" })?;
        let op = if attributes.int("fmod", 0)? != 0 { "fmod" } else { op };
        let shape = both(&x.shape, &y.shape)?;
        self.room(&shape, true)?;
        let (a, b) = (x.broadcast(&shape)?, y.broadcast(&shape)?);
        if let (Data::Ints(a), Data::Ints(b)) = (&a.data, &b.data) {
            let values: Option<Vec<i64>> = a.iter().zip(b.iter()).map(|(&a, &b)| of_ints(op, a, b)).collect();
            return Ok(values.map(|values| Value::ints(shape, values)));
        }
        let (a, b) = (a.known_floats()?, b.known_floats()?);
        let pairs = a.into_iter().zip(b);
        if let Some(values) = pairs.clone().map(|(a, b)| of_floats(op, a, b)).collect::<Option<Vec<f32>>>() {
            return Ok(Some(Value::floats(shape, values)));
        }
        let truths: Option<Vec<i64>> = pairs.map(|(a, b)| compared(op, a, b)).collect();
        Ok(truths.map(|values| Value::ints(shape, values)))
    }
}

fn of_ints(op: &str, a: i64, b: i64) -> Option<i64> {
    Some(match op {
        "Add" => a.wrapping_add(b),
        "Sub" => a.wrapping_sub(b),
        "Mul" => a.wrapping_mul(b),
        "Div" => a.checked_div(b)?,
        "Mod" => a.checked_rem(b).map(|rest| if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest })?,
        // The sign is that of the dividend.
        "fmod" => a.checked_rem(b)?,
        "Min" => a.min(b),
        "Max" => a.max(b),
        "Pow" => a.checked_pow(u32::try_from(b).ok()?)?,
        "Equal" => (a == b).into(),
        "Less" => (a < b).into(),
        "LessOrEqual" => (a <= b).into(),
        "Greater" => (a > b).into(),
        "GreaterOrEqual" => (a >= b).into(),
        "And" => (a != 0 && b != 0).into(),
        "Or" => (a != 0 || b != 0).into(),
        _ => return None,
    })
}

fn of_floats(op: &str, a: f32, b: f32) -> Option<f32> {
    Some(match op {
        "Add" => a + b,
        "Sub" => a - b,
        "Mul" => a * b,
        "Div" => a / b,
        "fmod" => a % b,
        "Min" => a.min(b),
        "Max" => a.max(b),
        "Pow" => a.powf(b),
        _ => return None,
    })
}

fn compared(op: &str, a: f32, b: f32) -> Option<i64> {
    Some(i64::from(match op {
        "Equal" => a == b,
        "Less" => a < b,
        "LessOrEqual" => a <= b,
        "Greater" => a > b,
        "GreaterOrEqual" => a >= b,
        _ => return None,
    }))
}
