//! Ops that move values, carry them through loops, or split them.

use super::evaluate::{Evaluator, MAX_INTS, MAX_PARTS, Outputs, Value, axis, reals};
use super::symbol::{Dim, Expr, Id, fail_if, is_symbol};

impl Evaluator<'_> {
    pub(super) fn apply(&mut self, node: usize, op: &str, inputs: Vec<Value>) -> Outputs {
        let real = |id: Id| Ok(vec![Value::Real(id)]);
        match (op, &*inputs) {
            ("Identity" | "StopGradient" | "PreventGradient" | "CheckNumerics", [x]) => Ok(vec![x.clone()]),
            ("PlaceholderWithDefault", [x]) => self.with_default(node, x),
            ("Cast", [x]) => self.cast(node, x),
            (
                "Switch" | "Greater" | "GreaterEqual" | "LessEqual" | "LogicalNot" | "Select" | "SelectV2"
                | "RandomUniform" | "Floor",
                _,
            ) => self.conditional(op, &inputs),
            (_, [Value::Random { low, high }, Value::Real(x)]) | (_, [Value::Real(x), Value::Random { low, high }]) => {
                self.random(op, [*low, *high], *x)
            }
            _ if inputs.iter().any(|input| matches!(input, Value::Moment(_))) => self.moment(node, op, &inputs),
            _ if matches!(op, "Pad" | "SpaceToBatchND") || matches!(inputs.first(), Some(Value::Padded(_))) => {
                self.padded(node, op, &inputs)
            }
            _ if op.starts_with("TensorList") => self.list(node, op, &inputs),
            ("Enter" | "NextIteration" | "LoopCond", [x]) => {
                if op == "Enter" {
                    self.frame_number(node)?;
                }
                Ok(vec![x.clone()])
            }
            ("Less", [Value::Counter { merge, plus: 0 }, Value::Ints { is_scalar: true, data }]) => {
                Ok(vec![Value::Below(vec![(*merge, data[0])])])
            }
            ("Less", _) => self.conditional(op, &inputs),
            ("LogicalAnd", [Value::Below(a), Value::Below(b)]) if a.len() + b.len() <= 8 => {
                Ok(vec![Value::Below([&a[..], b].concat())])
            }
            ("Add" | "AddV2", [Value::Counter { merge, plus }, Value::Ints { is_scalar: true, data }])
            | ("Add" | "AddV2", [Value::Ints { is_scalar: true, data }, Value::Counter { merge, plus }]) => {
                match plus.checked_add(data[0]) {
                    Some(plus) if !is_symbol(data[0]) => Ok(vec![Value::Counter { merge: *merge, plus }]),
                    _ => Err("it adds too much to the loop's counter".into()),
                }
            }
            (_, [Value::Array(_), ..]) => self.array(op, &inputs),
            _ if let Some(ids) = reals(&inputs) => self.apply_real(node, op, &ids),
            (
                "Pack",
                [
                    first @ (Value::Range(_) | Value::Ints { is_scalar: false, .. }),
                    last @ Value::Ints { is_scalar: false, .. },
                ],
            ) if self.graph.int(node, "axis", 0)? == 1 => {
                Ok(vec![Value::Pairs(Box::new([first.clone(), last.clone()]))])
            }
            _ if !matches!(op, "ConcatV2" | "Fill")
                && matches!(inputs.first(), Some(Value::Ints { .. } | Value::Range(_)))
                && inputs.iter().all(|input| matches!(input, Value::Ints { .. } | Value::Range(_))) =>
            {
                self.apply_ints(node, op, &inputs)
            }
            ("Fill", [Value::Ints { is_scalar: false, data }, Value::Real(value)]) => {
                let value = self.arena.scalar(*value).ok_or("its value must be one number")?;
                let mut dims = data.iter().filter(|&&dim| !is_symbol(dim));
                let of_state = data.len() <= 4 && dims.all(|dim| (1..=1 << 24).contains(dim));
                fail_if(!of_state, "its shape must be one of a state")?;
                real(self.arena.make(Expr::Fill(value.to_bits()), data.clone())?)
            }
            ("Fill", [Value::Ints { data, .. }, Value::Ints { is_scalar: true, data: value }]) => {
                match (&**data, &**value) {
                    (&[len], &[value]) if (0..=MAX_INTS as i64).contains(&len) => {
                        self.ints(false, vec![value; len as usize])
                    }
                    _ => Err("it fills more than a vector".into()),
                }
            }
            ("Reshape", [Value::Real(x), Value::Ints { is_scalar: false, data }]) => {
                real(self.arena.reshape(*x, data)?)
            }
            ("ExpandDims", [Value::Real(x), Value::Ints { data, .. }]) => {
                let mut shape = self.arena.shape(*x).to_vec();
                let axis = axis(data, shape.len() + 1)?;
                shape.insert(axis, 1);
                real(self.arena.reshape(*x, &shape)?)
            }
            ("Transpose", [Value::Real(x), order]) => {
                let order = self.listed(order)?;
                self.transpose(*x, &order)
            }
            ("ConcatV2", [parts @ .., Value::Ints { is_scalar: true, data }]) => self.concat(parts, data[0]),
            ("Split", [Value::Ints { is_scalar: true, data }, Value::Real(x)]) => {
                let parts = usize::try_from(self.graph.int(node, "num_split", 0)?).unwrap_or(0);
                self.split(*x, data[0], parts)
            }
            ("SplitV", [Value::Real(x), Value::Ints { data: sizes, .. }, Value::Ints { is_scalar: true, data }]) => {
                let rank = self.arena.shape(*x).len();
                let on = axis(data, rank)?;
                let by_rows = on == 0 && self.arena.is_constant(*x) && rank == 2;
                fail_if(!(by_rows || on + 1 == rank) || sizes.len() > MAX_PARTS, "it must split features")?;
                let width = if by_rows { self.arena.shape(*x)[0] } else { self.arena.width(*x) as Dim };
                let mut given = sizes.iter().filter(|&&size| size != -1);
                let given = given.try_fold(0, |sum: Dim, &size| sum.checked_add(size));
                let given = given.filter(|given| (0..=width).contains(given)).ok_or("its sizes are not known")?;
                let (mut at, mut outputs) = (0, Vec::new());
                for &size in sizes {
                    let size = if size == -1 { width - given } else { size };
                    let size = usize::try_from(size).map_err(|_| "its sizes are not known")?;
                    // Keras 2 produces an empty part that nothing reads.
                    outputs.push(match size {
                        0 => Value::Nothing,
                        _ if by_rows => Value::Real(self.constant_rows(*x, 0, at, size)?),
                        _ => Value::Real(self.arena.slice(*x, at, size)?),
                    });
                    at += size;
                }
                Ok(outputs)
            }
            ("StridedSlice", [Value::Real(x), begin, end, strides]) => {
                let (begin, end) = (self.listed(begin)?, self.listed(end)?);
                let strides = self.listed(strides)?;
                self.strided_slice(node, *x, [&begin, &end, &strides])
            }
            ("Slice", [Value::Real(x), Value::Ints { data: begin, .. }, Value::Ints { data: size, .. }]) => {
                let shape = self.arena.shape(*x).to_vec();
                let [rest @ .., width] = &*shape else { return Err("it takes a part of a scalar".into()) };
                let mut others = begin.iter().zip(size).zip(rest);
                let whole = others.all(|((&begin, &size), &dim)| begin == 0 && (size == -1 || size == dim));
                match (begin.last(), size.last()) {
                    (Some(&start), Some(&size))
                        if whole && begin.len() == shape.len() && start >= 0 && start < *width =>
                    {
                        let len = if size == -1 { width - start } else { size };
                        real(self.arena.slice(*x, start as usize, usize::try_from(len).unwrap_or(0))?)
                    }
                    _ => Err("it must take some of the features".into()),
                }
            }
            ("ReverseV2", [Value::Real(x), Value::Ints { data, .. }]) => match (&**data, self.arena.expr(*x)) {
                ([1], _) => real(self.arena.reverse(*x)?),
                ([0], _) if self.arena.shape(*x).len() > 2 => {
                    let sequence = self.arena.swap(*x)?;
                    let reversed = self.arena.reverse(sequence)?;
                    real(self.arena.swap(reversed)?)
                }
                _ => Err("it must reverse the time".into()),
            },
            ("Sum" | "Mean" | "Max", [Value::Real(x), Value::Ints { data, .. }]) => self.reduce(node, op, *x, data),
            ("Tile", [Value::Real(x), Value::Ints { is_scalar: false, data }]) => match *self.arena.expr(*x) {
                // Concatenation of features.
                _ if !self.arena.is_constant(*x)
                    && matches!(&**data, [rest @ .., 1..=64] if rest.iter().all(|&times| times == 1))
                    && data.len() == self.arena.shape(*x).len() =>
                {
                    let parts = vec![*x; data[data.len() - 1] as usize];
                    real(self.arena.concat(&parts)?)
                }
                Expr::Fill(bits) if data.len() == self.arena.shape(*x).len() => {
                    let mut shape = self.arena.shape(*x).to_vec();
                    for (dim, &times) in shape.iter_mut().zip(data) {
                        *dim = self.arena.product(&[*dim, times])?;
                    }
                    real(self.arena.make(Expr::Fill(bits), shape)?)
                }
                _ => Err("it repeats a value that is not constant".into()),
            },
            ("ReverseSequence", [Value::Real(x), Value::Ints { is_scalar: false, data }]) => {
                self.reverse_sequence(node, *x, data)
            }
            ("GatherV2", [Value::Real(x), Value::Ints { is_scalar: true, data }, Value::Ints { data: on, .. }]) => {
                fail_if(self.graph.int(node, "batch_dims", 0)? != 0, "its batch_dims must be 0")?;
                let axis = axis(on, self.arena.shape(*x).len())?;
                self.step_at(*x, axis, data[0])
            }
            ("GatherNd", [Value::Since(x), Value::Pairs(pairs)]) => self.state_after_each(*x, pairs),
            ("GatherNd", [Value::Real(x), Value::Pairs(pairs)]) => self.last_of_each(*x, pairs),
            ("BlockLSTM" | "BlockLSTMV2", [Value::Ints { .. }, rest @ ..]) => self.block_lstm(node, rest),
            _ => self.refuse_inputs(op, &inputs),
        }
    }

    fn refuse_inputs(&self, op: &str, inputs: &[Value]) -> Outputs {
        Err(match op {
            "Add" | "AddV2" | "BiasAdd" | "MatMul" | "Mul" | "Sub" | "Less" | "Fill" | "Reshape" | "Transpose"
            | "ConcatV2" | "Split" | "StridedSlice" | "Range" => match inputs.is_empty() {
                true => "it has no inputs".into(),
                false => "its inputs are not of a known form".into(),
            },
            _ => String::new(),
        })
    }

    pub(super) fn listed(&mut self, value: &Value) -> Result<Vec<Dim>, String> {
        match value {
            Value::Ints { is_scalar: false, data } => Ok(data.clone()),
            _ => Err("its integers must be a known vector".into()),
        }
    }
}
