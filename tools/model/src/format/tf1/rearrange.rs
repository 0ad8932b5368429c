//! Ops that split and join values.

use super::evaluate::{Evaluator, MAX_INTS, MAX_PARTS, Moment, Outputs, Value, axes_of, axis, reals};
use super::symbol::{Dim, Expr, Id, Kernel, Over, Padding, fail_if, is_symbol};
use crate::canonical::Tensor;

impl Evaluator<'_> {
    pub(super) fn transpose(&mut self, x: Id, order: &[Dim]) -> Outputs {
        let rank = self.arena.shape(x).len();
        fail_if(order.len() != rank, format_args!("it moves {} dimensions of {rank}", order.len()))?;
        let kept = order.iter().enumerate().skip(2).all(|(axis, &from)| from == axis as Dim);
        match (order, self.arena.expr(x)) {
            _ if order.iter().enumerate().all(|(axis, &from)| from == axis as Dim) => Ok(vec![Value::Real(x)]),
            ([1, 0], Expr::Const(tensor)) => {
                let Tensor { shape, data } = self.arena.tensors[*tensor].clone();
                let (rows, cols) = (shape[0], shape[1]);
                let moved = (0..cols).flat_map(|col| data.iter().skip(col).step_by(cols).copied()).take(rows * cols);
                let moved = Tensor { shape: vec![cols, rows], data: moved.collect() };
                Ok(vec![Value::Real(self.arena.constant(moved)?)])
            }
            ([1, 0], Expr::Fill(bits)) => {
                let (bits, shape) = (*bits, self.arena.shape(x).iter().rev().copied().collect());
                Ok(vec![Value::Real(self.arena.make(Expr::Fill(bits), shape)?)])
            }
            ([1, 0, ..], _) if kept && rank > 2 => Ok(vec![Value::Real(self.arena.swap(x)?)]),
            _ => Err("it must swap batch and time, [1, 0, 2]".into()),
        }
    }

    pub(super) fn concat(&mut self, parts: &[Value], along: Dim) -> Outputs {
        if let Some(ids) = reals(parts) {
            let rank = ids.first().map_or(0, |&id| self.arena.shape(id).len());
            let on = axis(&[along], rank)?;
            let constant = ids.iter().all(|&id| self.arena.is_constant(id));
            if on == 0 && rank == 2 && constant {
                return self.stacked_constants(&ids);
            }
            if let (0, 3, &[before, sequence]) = (on, rank, &*ids)
                && self.arena.is_zero(before)
                && self.arena.shape(before)[0] == 1
            {
                return Ok(vec![Value::Since(sequence)]);
            }
            let alike = ids.iter().all(|&id| self.arena.shape(id) == self.arena.shape(ids[0]));
            if on == 0 && rank == 2 && alike {
                // Flattened [time, batch] rows.
                let sequence = self.stacked(&ids)?;
                let swapped = self.arena.swap(sequence)?;
                return Ok(vec![Value::Real(self.arena.rows(swapped)?)]);
            }
            fail_if(on + 1 != rank, format_args!("its axis is {along}, but must be the features"))?;
            if constant && !ids.iter().any(|&id| matches!(self.arena.expr(id), Expr::Fill(_))) {
                return self.joined_constants(&ids);
            }
            return Ok(vec![Value::Real(self.arena.concat(&ids)?)]);
        }
        fail_if(along != 0 && along != -1, "its axis must be 0")?;
        let mut data = Vec::new();
        for part in parts {
            match part {
                Value::Ints { is_scalar: false, data: more } if data.len() + more.len() <= MAX_INTS => {
                    data.extend(more);
                }
                _ => return Err("it must join vectors".into()),
            }
        }
        self.ints(false, data)
    }

    fn stacked_constants(&mut self, ids: &[Id]) -> Outputs {
        let width = self.arena.width(ids[0]);
        let (mut rows, mut data) = (0, Vec::new());
        for &id in ids {
            let tensor = self.arena.tensor(id)?;
            let Tensor { shape, data: more } = &self.arena.tensors[tensor];
            let fits = shape[1] == width && data.len() + more.len() <= self.arena.values_left;
            fail_if(!fits, "its constants differ in shape")?;
            rows += shape[0];
            data.extend_from_slice(more);
        }
        Ok(vec![Value::Real(self.arena.constant(Tensor { shape: vec![rows, width], data })?)])
    }

    pub(super) fn joined_constants(&mut self, ids: &[Id]) -> Outputs {
        let len = ids.iter().try_fold(0_usize, |sum, &id| {
            let len = self.arena.shape(id).iter().try_fold(1_i64, |len, &dim| len.checked_mul(dim))?;
            sum.checked_add(usize::try_from(len).ok()?)
        });
        fail_if(len.is_none_or(|len| len > self.arena.values_left), "it is too large")?;
        let tensors = ids.iter().map(|&id| self.arena.tensor(id).map(|tensor| self.arena.tensors[tensor].clone()));
        let tensors: Vec<Tensor> = tensors.collect::<Result<_, String>>()?;
        let lead = |tensor: &Tensor| tensor.shape[..tensor.shape.len() - 1].to_vec();
        let mut shape = lead(&tensors[0]);
        let differs = tensors.iter().any(|tensor| lead(tensor) != shape || tensor.data.is_empty());
        fail_if(differs, "its constants differ in shape")?;
        let rows: usize = shape.iter().product();
        let mut data = Vec::new();
        for row in 0..rows {
            for tensor in &tensors {
                let width = tensor.data.len() / rows;
                data.extend_from_slice(&tensor.data[row * width..(row + 1) * width]);
            }
        }
        shape.push(data.len() / rows.max(1));
        Ok(vec![Value::Real(self.arena.constant(Tensor { shape, data })?)])
    }

    pub(super) fn split(&mut self, x: Id, along: Dim, parts: usize) -> Outputs {
        let shape = self.arena.shape(x).to_vec();
        let on = axis(&[along], shape.len())?;
        fail_if(parts == 0 || parts > MAX_PARTS, format_args!("it splits into {parts}"))?;
        if on + 1 == shape.len() {
            let width = self.arena.width(x);
            fail_if(!width.is_multiple_of(parts), format_args!("it splits {width} features into {parts}"))?;
            let width = width / parts;
            return (0..parts).map(|part| self.arena.slice(x, part * width, width).map(Value::Real)).collect();
        }
        if self.arena.is_constant(x) {
            let rows = usize::try_from(shape[on]).unwrap_or(0);
            fail_if(!rows.is_multiple_of(parts), format_args!("it splits {rows} rows into {parts}"))?;
            let rows = rows / parts;
            return (0..parts).map(|part| self.constant_rows(x, on, part * rows, rows).map(Value::Real)).collect();
        }
        // Splits the steps of flattened [time, batch] rows, of [time, batch, ...], or of [batch, time, ...].
        let sequence = match *self.arena.expr(x) {
            Expr::Rows(inner) if on == 0 && matches!(self.arena.expr(inner), Expr::Swap(_)) => {
                self.arena.swap(inner)?
            }
            _ if on == 0 && shape.len() == 3 => self.arena.swap(x)?,
            _ if on == 1 && shape.len() == 3 => x,
            _ => return Err(format!("its axis is {along}, but must be the features or the time")),
        };
        let steps = self.arena.shape(sequence)[1];
        fail_if(steps != parts as Dim, format_args!("it splits the time into {parts} parts of several steps"))?;
        let mut outputs = Vec::new();
        for one in self.steps(sequence)? {
            let mut shape = self.arena.shape(one).to_vec();
            if !matches!(self.arena.expr(x), Expr::Rows(_)) {
                shape.insert(on, 1);
            }
            outputs.push(Value::Real(self.arena.reshape(one, &shape)?));
        }
        Ok(outputs)
    }

    /// All steps of a sequence of known length.
    fn steps(&mut self, sequence: Id) -> Result<Vec<Id>, String> {
        let steps = self.arena.shape(sequence)[1];
        let taken = (0..steps).map(|step| {
            let at = self.arena.at(step, steps)?;
            self.arena.step(sequence, at)
        });
        taken.collect()
    }

    pub(super) fn unpack(&mut self, node: usize, x: Id) -> Outputs {
        let on = self.graph.int(node, "axis", 0)?;
        let parts = self.graph.int(node, "num", 0)?;
        if let (true, &[rows, width]) = (self.arena.is_constant(x), self.arena.shape(x)) {
            let all = axis(&[on], 2)? == 0 && parts == rows && (1..=MAX_PARTS as i64).contains(&parts);
            fail_if(!all, "it must take all rows apart")?;
            let row = |row| {
                let row = self.constant_rows(x, 0, row, 1)?;
                self.arena.reshape(row, &[width]).map(Value::Real)
            };
            return (0..parts as usize).map(row).collect();
        }
        let rank = self.arena.shape(x).len();
        let sequence = match axis(&[on], rank)? {
            0 if rank > 2 => self.arena.swap(x)?,
            1 if rank > 2 => x,
            _ => return Err("it must take steps apart".into()),
        };
        let steps = self.arena.shape(sequence)[1];
        fail_if(parts != steps || !(1..=MAX_PARTS as i64).contains(&parts), "it must take all steps apart")?;
        Ok(self.steps(sequence)?.into_iter().map(Value::Real).collect())
    }

    pub(super) fn pack(&mut self, node: usize, parts: &[Id]) -> Outputs {
        let stack = self.stacked(parts)?;
        let on = axis(&[self.graph.int(node, "axis", 0)?], self.arena.shape(stack).len())?;
        match on {
            1 => Ok(vec![Value::Real(stack)]),
            0 => Ok(vec![Value::Real(self.arena.swap(stack)?)]),
            _ => Err(format!("its axis is {on}, but must be the time")),
        }
    }

    /// The sequence [batch, time, ...] of these steps.
    fn stacked(&mut self, steps: &[Id]) -> Result<Id, String> {
        let &[first, ..] = steps else { return Err("it joins nothing".into()) };
        let mut shape = self.arena.shape(first).to_vec();
        fail_if(steps.iter().any(|&step| self.arena.shape(step) != shape), "its parts differ in shape")?;
        fail_if(shape.len() < 2, "it joins values that are not steps")?;
        shape.insert(1, steps.len() as Dim);
        self.arena.make(Expr::Stack(steps.to_vec()), shape)
    }

    pub(super) fn strided_slice(&mut self, node: usize, x: Id, bounds: [&[Dim]; 3]) -> Outputs {
        let shape = self.arena.shape(x).to_vec();
        let [begin, end, strides] = bounds;
        let mask = |this: &Self, name| this.graph.int(node, name, 0);
        let (begins, ends, shrinks) =
            (mask(self, "begin_mask")?, mask(self, "end_mask")?, mask(self, "shrink_axis_mask")?);
        let others = mask(self, "ellipsis_mask")? != 0 || mask(self, "new_axis_mask")? != 0;
        fail_if(others, "its ellipsis_mask and new_axis_mask must be 0")?;
        let (taken, rank) = (begin.len(), shape.len());
        let fits = taken <= rank && taken == end.len() && taken == strides.len();
        fail_if(!fits, format_args!("it takes a part of {taken} dimensions of {rank}"))?;
        let mut x = x;
        let mut removed = Vec::new();
        for (axis, (&from, &to)) in begin.iter().zip(end).enumerate() {
            let (bit, dim) = (1_i64 << axis, shape[axis]);
            fail_if(strides[axis] != 1, "its strides must be 1")?;
            if shrinks & bit != 0 {
                removed.push((axis, from));
                continue;
            }
            let wrap = |value: Dim| if value < 0 && !is_symbol(value) && !is_symbol(dim) { value + dim } else { value };
            let from = if begins & bit != 0 { 0 } else { wrap(from) };
            let to = if ends & bit != 0 { dim } else { wrap(to) };
            let to = if is_symbol(dim) || is_symbol(to) { to } else { to.min(dim) };
            if from == 0 && to == dim {
                continue;
            }
            let known = ![dim, from, to].into_iter().any(is_symbol) && from >= 0 && to > from;
            fail_if(!known, "it takes a part that is not known")?;
            let (from, len) = (from as usize, (to - from) as usize);
            if axis + 1 == shape.len() {
                x = self.arena.slice(x, from, len)?;
            } else {
                x = self.constant_rows(x, axis, from, len)?;
            }
        }
        match *removed {
            [] => Ok(vec![Value::Real(x)]),
            [(axis, index)] => self.step_at(x, axis, index),
            _ => Err("it must take a step of a sequence, or features".into()),
        }
    }

    /// The step with this index of a sequence whose time is the first or the second dimension.
    pub(super) fn step_at(&mut self, x: Id, axis: usize, index: Dim) -> Outputs {
        let is_step = self.arena.shape(x).len() > 2 && axis < 2;
        fail_if(!is_step, "it must take a step of a sequence, or features")?;
        let sequence = if axis == 0 { self.arena.swap(x)? } else { x };
        let steps = self.arena.shape(sequence)[1];
        let index = if index < 0 && !is_symbol(index) && !is_symbol(steps) { index + steps } else { index };
        let at = self.arena.at(index, steps)?;
        Ok(vec![Value::Real(self.arena.step(sequence, at)?)])
    }

    pub(super) fn constant_rows(&mut self, x: Id, axis: usize, from: usize, len: usize) -> Result<Id, String> {
        fail_if(axis != 0 || !self.arena.is_constant(x), "it must take a step of a sequence, or features")?;
        let tensor = self.arena.tensor(x)?;
        let Tensor { shape, data } = &self.arena.tensors[tensor];
        fail_if(from + len > shape[0], "it takes rows that its constant does not have")?;
        let width = data.len() / shape[0];
        let mut shape = shape.clone();
        shape[0] = len;
        let data = data[from * width..(from + len) * width].to_vec();
        self.arena.constant(Tensor { shape, data })
    }

    pub(super) fn reduce(&mut self, node: usize, op: &str, x: Id, axes: &[Dim]) -> Outputs {
        let shape = self.arena.shape(x).to_vec();
        let keep = self.graph.flag(node, "keep_dims", false)?;
        let axes = axes_of(axes, shape.len())?;
        if let (Expr::Fill(0), "Sum") = (self.arena.expr(x), op) {
            let left = shape.iter().enumerate().filter(|(axis, _)| keep || !axes.contains(axis));
            let left = left.map(|(axis, &dim)| if axes.contains(&axis) { 1 } else { dim }).collect();
            return Ok(vec![Value::Real(self.arena.make(Expr::Fill(0), left)?)]);
        }
        // The sum over the rows of a constant matrix, used for norms.
        if let (&[_, cols], [0], "Sum", true) = (&*shape, &*axes, op, self.arena.is_constant(x)) {
            let tensor = self.arena.tensor(x)?;
            let data = &self.arena.tensors[tensor].data;
            let column = |col: usize| data.iter().skip(col).step_by(cols as usize).map(|&value| f64::from(value)).sum();
            let sums: Vec<f32> = (0..cols as usize).map(column).map(|sum: f64| sum as f32).collect();
            let shape = if keep { vec![1, sums.len()] } else { vec![sums.len()] };
            return Ok(vec![Value::Real(self.arena.constant(Tensor { shape, data: sums })?)]);
        }
        if let (&[on], "Mean", true, false) = (&*axes, op, keep, self.arena.is_constant(x))
            && on + 1 == shape.len()
            && on > 0
        {
            return Ok(vec![Value::Moment(Moment::mean(x))]);
        }
        // Pooling over all positions of an image, by a kernel as large as the image.
        let over = match op {
            "Mean" => Over::Average,
            "Max" => Over::Max,
            _ => return Err(String::new()),
        };
        match (&*shape, &*axes) {
            (&[batch, height, width, channels], [1, 2]) if !is_symbol(height) && !is_symbol(width) => {
                let taps = [height as usize, width as usize];
                let kernel = Kernel { taps, strides: [1, 1], dilations: [1, 1], padding: Padding::NONE };
                let pooled = self.arena.make(Expr::Kernel(x, kernel, over), vec![batch, 1, 1, channels])?;
                let shape: &[Dim] = if keep { &[batch, 1, 1, channels] } else { &[batch, channels] };
                Ok(vec![Value::Real(self.arena.reshape(pooled, shape)?)])
            }
            (&[_, _, _], &[on @ (0 | 1)]) => {
                let sequence = if on == 0 { self.arena.swap(x)? } else { x };
                let pooled = self.over_steps(sequence, over)?;
                let &[batch, channels] = self.arena.shape(pooled) else { return Err("it must be a sequence".into()) };
                let kept = if on == 0 { [1, batch, channels] } else { [batch, 1, channels] };
                Ok(vec![Value::Real(if keep { self.arena.reshape(pooled, &kept)? } else { pooled })])
            }
            _ => Err("it must go over the steps of a sequence, or over height and width of an image".into()),
        }
    }

    /// One value for each feature over all steps of a sequence: the pool of an image of height 1.
    fn over_steps(&mut self, sequence: Id, over: Over) -> Result<Id, String> {
        let &[batch, steps, channels] = self.arena.shape(sequence) else { return Err("it must be a sequence".into()) };
        fail_if(is_symbol(steps), "it goes over all steps, whose number is not known: give it with --window N")?;
        let image = self.arena.reshape(sequence, &[batch, 1, steps, channels])?;
        let taps = [1, usize::try_from(steps).unwrap_or(0)];
        let kernel = Kernel { taps, strides: [1, 1], dilations: [1, 1], padding: Padding::NONE };
        let pooled = self.arena.make(Expr::Kernel(image, kernel, over), vec![batch, 1, 1, channels])?;
        self.arena.reshape(pooled, &[batch, channels])
    }
}
