//! Integer expressions that remain in frozen TensorFlow 1 graphs: shapes, permutations, loop bounds.

use super::dims::known as number;
use super::evaluate::{Evaluator, MAX_INTS, Outputs, Value};
use super::symbol::{Dim, LENGTH, fail_if, is_symbol};

impl Evaluator<'_> {
    pub(super) fn apply_ints(&mut self, node: usize, op: &str, inputs: &[Value]) -> Outputs {
        let mut lists = Vec::new();
        for input in inputs {
            match input {
                Value::Ints { is_scalar, data } => lists.push((*is_scalar, data.as_slice())),
                _ => return Err("it uses a range of unknown length".into()),
            }
        }
        let known = |values: &[Dim]| values.iter().all(|&value| !is_symbol(value));
        match (op, &*lists) {
            ("StridedSlice", [(false, data), (_, begin), (_, end), (_, strides)]) => {
                for mask in ["ellipsis_mask", "new_axis_mask"] {
                    fail_if(self.graph.int(node, mask, 0)? != 0, format_args!("its {mask} must be 0"))?;
                }
                let (&[begin], &[end], &[1]) = (*begin, *end, *strides) else {
                    return Err("it must take a part of a vector".into());
                };
                let len = data.len() as Dim;
                let wrap = |value: Dim| if value < 0 { value.saturating_add(len) } else { value };
                let shrinks = self.graph.int(node, "shrink_axis_mask", 0)? == 1;
                let masked = self.graph.int(node, "begin_mask", 0)? == 1 && !shrinks;
                let from = if masked { 0 } else { wrap(begin) };
                if shrinks {
                    let element = usize::try_from(from).ok().and_then(|index| data.get(index)).copied();
                    return match element {
                        Some(element) => self.ints(true, vec![element]),
                        None => Err(format!("it takes element {from} of {len}")),
                    };
                }
                let to = if self.graph.int(node, "end_mask", 0)? == 1 { len } else { wrap(end).min(len) };
                match (usize::try_from(from), usize::try_from(to)) {
                    (Ok(from), Ok(to)) if from <= to => self.ints(false, data[from..to].to_vec()),
                    _ => Err("it takes a part that its vector does not have".into()),
                }
            }
            ("Range", [(true, [start]), (true, [limit]), (true, [1])]) => {
                let (start, limit) = (*start, *limit);
                if start == 0 && is_symbol(limit) {
                    return Ok(vec![Value::Range(limit)]);
                }
                let known = known(&[start, limit]) && limit.saturating_sub(start) <= MAX_INTS as i64;
                fail_if(!known, format_args!("it must count up by 1 over at most {MAX_INTS}"))?;
                self.ints(false, (start..limit).collect())
            }
            ("Pack", scalars) if scalars.iter().all(|(is_scalar, _)| *is_scalar) => {
                self.ints(false, scalars.iter().map(|(_, data)| data[0]).collect())
            }
            ("Max" | "Min", [(_, data), _]) if !data.is_empty() => {
                self.graph.must_not(node, &["keep_dims"])?;
                let found = match op {
                    _ if data.iter().all(|&value| value == data[0]) => Some(data[0]),
                    _ if !known(data) => None,
                    "Max" => data.iter().copied().max(),
                    _ => data.iter().copied().min(),
                };
                self.ints(true, vec![found.ok_or("its value is not known when the network is imported")?])
            }
            // Lengths as a column.
            ("ExpandDims", [(false, data), (_, [-1] | [1])]) => self.ints(false, data.to_vec()),
            ("ExpandDims", [(true, data), _]) => self.ints(false, data.to_vec()),
            ("Squeeze", [(_, data)]) if data.len() == 1 => self.ints(true, data.to_vec()),
            ("Reshape", [(_, data), (_, [-1] | [1])]) => self.ints(false, data.to_vec()),
            ("Prod", [(_, data), _]) => {
                self.graph.must_not(node, &["keep_dims"])?;
                let product = self.arena.product(data)?;
                self.ints(true, vec![product])
            }
            ("GatherV2", [(false, data), (is_scalar, indices), _]) => {
                fail_if(self.graph.int(node, "batch_dims", 0)? != 0, "its batch_dims must be 0")?;
                let picked = indices.iter().map(|&k| data.get(usize::try_from(k).ok()?).copied());
                let picked: Option<Vec<Dim>> = picked.collect();
                self.ints(*is_scalar, picked.ok_or("it takes elements that its vector does not have")?)
            }
            ("Sub", [(is_scalar, a), (true, [b])]) if !is_symbol(*b) => {
                let less: Result<Vec<Dim>, String> = a.iter().map(|&a| self.arena.less(a, *b)).collect();
                self.ints(*is_scalar, less?)
            }
            ("Mul", [(true, [a]), (true, [b])]) => {
                let product = self.arena.product(&[*a, *b])?;
                self.ints(true, vec![product])
            }
            ("Maximum" | "Minimum", [(true, [a]), (true, [b])]) => match (op, *a, *b) {
                (_, a, b) if a == b => self.ints(true, vec![a]),
                ("Maximum", a, b) if known(&[a, b]) => self.ints(true, vec![a.max(b)]),
                ("Minimum", a, b) if known(&[a, b]) => self.ints(true, vec![a.min(b)]),
                ("Minimum", steps, LENGTH) | ("Minimum", LENGTH, steps) if steps > 0 || is_symbol(steps) => {
                    self.ints(true, vec![steps])
                }
                // The number of steps is at least 1.
                ("Maximum", 0 | 1, steps) | ("Maximum", steps, 0 | 1) => self.ints(true, vec![steps]),
                _ => Err("its value is not known when the network is imported".into()),
            },
            ("Add" | "AddV2", [(a_scalar, a), (_, b)]) if a.len() == b.len() && known(a) && known(b) => {
                let sum = a.iter().zip(*b).map(|(&a, &b)| number(a.saturating_add(b)));
                let sum: Result<Vec<Dim>, String> = sum.collect();
                self.ints(*a_scalar, sum?)
            }
            _ => Err(match op {
                "StridedSlice" => "it must take one element of a vector".into(),
                "Range" => "it must count up by 1".into(),
                "Add" | "AddV2" | "Sub" | "Mul" | "Less" | "Fill" | "Squeeze" | "Reshape" | "GatherV2" | "Maximum"
                | "Minimum" => "its integer value is not known when the network is imported".into(),
                _ => String::new(),
            }),
        }
    }
}
