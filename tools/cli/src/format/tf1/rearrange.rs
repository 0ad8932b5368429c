//! Ops that take values apart and put them together.

use super::evaluate::{Evaluator, MAX_INTS, MAX_PARTS, Outputs, Value, axis};
use super::moments::Moment;
use super::symbol::{Dim, Expr, Id, Kernel, Over, is_symbol};
use crate::canonical::Tensor;

impl Evaluator<'_> {
    pub(super) fn transpose(&mut self, x: Id, order: &[Dim]) -> Outputs {
        let rank = self.arena.shape(x).len();
        if order.len() != rank {
            return Err(format!("it moves {} dimensions of {rank}", order.len()));
        }
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
        if parts.iter().all(|part| matches!(part, Value::Real(_))) {
            let ids: Vec<Id> =
                parts.iter().filter_map(|part| if let Value::Real(id) = part { Some(*id) } else { None }).collect();
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
            if on + 1 != rank {
                return Err(format!("its axis is {along}, but must be the features"));
            }
            if constant && !ids.iter().any(|&id| matches!(self.arena.expr(id), Expr::Fill(_))) {
                return self.joined_constants(&ids);
            }
            return Ok(vec![Value::Real(self.arena.concat(&ids)?)]);
        }
        if along != 0 && along != -1 {
            return Err("its axis must be 0".into());
        }
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

    /// Rows of constant matrices, one below the other.
    fn stacked_constants(&mut self, ids: &[Id]) -> Outputs {
        let width = self.arena.width(ids[0]);
        let (mut rows, mut data) = (0, Vec::new());
        for &id in ids {
            let tensor = self.arena.tensor(id)?;
            let Tensor { shape, data: more } = &self.arena.tensors[tensor];
            if shape[1] != width || data.len() + more.len() > self.arena.values_left {
                return Err("its constants differ in shape".into());
            }
            rows += shape[0];
            data.extend_from_slice(more);
        }
        Ok(vec![Value::Real(self.arena.constant(Tensor { shape: vec![rows, width], data })?)])
    }

    /// Columns of constants side by side.
    pub(super) fn joined_constants(&mut self, ids: &[Id]) -> Outputs {
        let len = ids.iter().try_fold(0_usize, |sum, &id| {
            let len = self.arena.shape(id).iter().try_fold(1_i64, |len, &dim| len.checked_mul(dim))?;
            sum.checked_add(usize::try_from(len).ok()?)
        });
        if len.is_none_or(|len| len > self.arena.values_left) {
            return Err("it is too large".into());
        }
        let mut tensors = Vec::new();
        for &id in ids {
            let tensor = self.arena.tensor(id)?;
            tensors.push(self.arena.tensors[tensor].clone());
        }
        let lead = |tensor: &Tensor| tensor.shape[..tensor.shape.len() - 1].to_vec();
        let first = lead(&tensors[0]);
        if tensors.iter().any(|tensor| lead(tensor) != first || tensor.data.is_empty()) {
            return Err("its constants differ in shape".into());
        }
        let rows: usize = first.iter().product();
        let mut data = Vec::new();
        for row in 0..rows {
            for tensor in &tensors {
                let width = tensor.data.len() / rows;
                data.extend_from_slice(&tensor.data[row * width..(row + 1) * width]);
            }
        }
        let mut shape = first;
        shape.push(data.len() / rows.max(1));
        Ok(vec![Value::Real(self.arena.constant(Tensor { shape, data })?)])
    }

    pub(super) fn split(&mut self, x: Id, along: Dim, parts: usize) -> Outputs {
        let shape = self.arena.shape(x).to_vec();
        let on = axis(&[along], shape.len())?;
        if parts == 0 || parts > MAX_PARTS {
            return Err(format!("it splits into {parts}"));
        }
        let mut outputs = Vec::new();
        if on + 1 == shape.len() {
            let width = self.arena.width(x);
            if !width.is_multiple_of(parts) {
                return Err(format!("it splits {width} features into {parts}"));
            }
            for part in 0..parts {
                outputs.push(Value::Real(self.arena.slice(x, part * (width / parts), width / parts)?));
            }
            return Ok(outputs);
        }
        if self.arena.is_constant(x) {
            let rows = usize::try_from(shape[on]).unwrap_or(0);
            if !rows.is_multiple_of(parts) {
                return Err(format!("it splits {rows} rows into {parts}"));
            }
            for part in 0..parts {
                outputs.push(Value::Real(self.constant_rows(x, on, part * (rows / parts), rows / parts)?));
            }
            return Ok(outputs);
        }
        // Steps: of rows that were [time, batch] once, of [time, batch, ...], or of [batch, time, ...].
        let sequence = match *self.arena.expr(x) {
            Expr::Rows(inner) if on == 0 && matches!(self.arena.expr(inner), Expr::Swap(_)) => {
                self.arena.swap(inner)?
            }
            _ if on == 0 && shape.len() == 3 => self.arena.swap(x)?,
            _ if on == 1 && shape.len() == 3 => x,
            _ => return Err(format!("its axis is {along}, but must be the features or the time")),
        };
        let steps = self.arena.shape(sequence)[1];
        if steps != parts as Dim {
            return Err(format!("it splits the time into {parts} parts of several steps"));
        }
        for step in 0..parts {
            let at = self.arena.at(step as Dim, steps)?;
            let one = self.arena.step(sequence, at)?;
            let mut shape = self.arena.shape(one).to_vec();
            if !matches!(self.arena.expr(x), Expr::Rows(_)) {
                shape.insert(on, 1);
            }
            outputs.push(Value::Real(self.arena.reshape(one, &shape)?));
        }
        Ok(outputs)
    }

    pub(super) fn unpack(&mut self, node: usize, x: Id) -> Outputs {
        let on = self.int(node, "axis", 0)?;
        let parts = self.int(node, "num", 0)?;
        if let (true, &[rows, width]) = (self.arena.is_constant(x), self.arena.shape(x)) {
            if axis(&[on], 2)? != 0 || parts != rows || !(1..=MAX_PARTS as i64).contains(&parts) {
                return Err("it must take all rows apart".into());
            }
            let mut outputs = Vec::new();
            for row in 0..parts as usize {
                let row = self.constant_rows(x, 0, row, 1)?;
                outputs.push(Value::Real(self.arena.reshape(row, &[width])?));
            }
            return Ok(outputs);
        }
        let sequence = match axis(&[on], self.arena.shape(x).len())? {
            0 if self.arena.shape(x).len() > 2 => self.arena.swap(x)?,
            1 if self.arena.shape(x).len() > 2 => x,
            _ => return Err("it must take steps apart".into()),
        };
        let steps = self.arena.shape(sequence)[1];
        if parts != steps || !(1..=MAX_PARTS as i64).contains(&parts) {
            return Err("it must take all steps apart".into());
        }
        let mut outputs = Vec::new();
        for step in 0..parts {
            let at = self.arena.at(step, steps)?;
            outputs.push(Value::Real(self.arena.step(sequence, at)?));
        }
        Ok(outputs)
    }

    pub(super) fn pack(&mut self, node: usize, parts: &[Id]) -> Outputs {
        let &[first, ..] = parts else { return Err("it joins nothing".into()) };
        let mut shape = self.arena.shape(first).to_vec();
        if parts.iter().any(|&part| self.arena.shape(part) != shape) {
            return Err("its parts differ in shape".into());
        }
        if shape.len() < 2 {
            return Err("it joins what are no steps".into());
        }
        let on = axis(&[self.int(node, "axis", 0)?], shape.len() + 1)?;
        shape.insert(1, parts.len() as Dim);
        let stack = self.arena.make(Expr::Stack(parts.to_vec()), shape)?;
        match on {
            1 => Ok(vec![Value::Real(stack)]),
            0 => Ok(vec![Value::Real(self.arena.swap(stack)?)]),
            _ => Err(format!("its axis is {on}, but must be the time")),
        }
    }

    pub(super) fn strided_slice(&mut self, node: usize, x: Id, bounds: [&[Dim]; 3]) -> Outputs {
        let shape = self.arena.shape(x).to_vec();
        let [begin, end, strides] = bounds;
        let mask = |this: &Self, name| this.int(node, name, 0);
        let (begins, ends, shrinks) =
            (mask(self, "begin_mask")?, mask(self, "end_mask")?, mask(self, "shrink_axis_mask")?);
        if mask(self, "ellipsis_mask")? != 0 || mask(self, "new_axis_mask")? != 0 {
            return Err("its ellipsis_mask and new_axis_mask must be 0".into());
        }
        if begin.len() > shape.len() || begin.len() != end.len() || begin.len() != strides.len() {
            return Err(format!("it takes a part of {} dimensions of {}", begin.len(), shape.len()));
        }
        let mut x = x;
        let mut removed = Vec::new();
        for (axis, (&from, &to)) in begin.iter().zip(end).enumerate() {
            let (bit, dim) = (1_i64 << axis, shape[axis]);
            if strides[axis] != 1 {
                return Err("its strides must be 1".into());
            }
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
            if is_symbol(dim) || is_symbol(from) || is_symbol(to) || from < 0 || to <= from {
                return Err("it takes a part that is not known".into());
            }
            let (from, len) = (from as usize, (to - from) as usize);
            if axis + 1 == shape.len() {
                x = self.arena.slice(x, from, len)?;
            } else {
                x = self.constant_rows(x, axis, from, len)?;
            }
        }
        match *removed {
            [] => Ok(vec![Value::Real(x)]),
            [(axis, index)] if shape.len() > 2 && axis < 2 => {
                let sequence = if axis == 0 { self.arena.swap(x)? } else { x };
                let steps = self.arena.shape(sequence)[1];
                let index = if index < 0 && !is_symbol(index) && !is_symbol(steps) { index + steps } else { index };
                let at = self.arena.at(index, steps)?;
                Ok(vec![Value::Real(self.arena.step(sequence, at)?)])
            }
            _ => Err("it must take a step of a sequence, or features".into()),
        }
    }

    /// Rows of a constant.
    pub(super) fn constant_rows(&mut self, x: Id, axis: usize, from: usize, len: usize) -> Result<Id, String> {
        if axis != 0 || !self.arena.is_constant(x) {
            return Err("it must take a step of a sequence, or features".into());
        }
        let tensor = self.arena.tensor(x)?;
        let Tensor { shape, data } = &self.arena.tensors[tensor];
        if from + len > shape[0] {
            return Err("it takes rows that its constant does not have".into());
        }
        let width = data.len() / shape[0];
        let mut shape = shape.clone();
        shape[0] = len;
        let data = data[from * width..(from + len) * width].to_vec();
        self.arena.constant(Tensor { shape, data })
    }

    pub(super) fn reduce(&mut self, node: usize, op: &str, x: Id, axes: &[Dim]) -> Outputs {
        let shape = self.arena.shape(x).to_vec();
        let keep = self.flag(node, "keep_dims", false)?;
        let axes: Result<Vec<usize>, String> = axes.iter().map(|&on| axis(&[on], shape.len())).collect();
        let axes = axes?;
        if let (Expr::Fill(0), "Sum") = (self.arena.expr(x), op) {
            let left = shape.iter().enumerate().filter(|(axis, _)| keep || !axes.contains(axis));
            let left = left.map(|(axis, &dim)| if axes.contains(&axis) { 1 } else { dim }).collect();
            return Ok(vec![Value::Real(self.arena.make(Expr::Fill(0), left)?)]);
        }
        // The squares of a constant matrix, over its rows.
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
        // Over all positions of an image: a kernel as large as it.
        let over = match op {
            "Mean" => Over::Average,
            "Max" => Over::Max,
            _ => return Err(String::new()),
        };
        match (&*shape, &*axes) {
            (&[batch, height, width, channels], [1, 2]) if !is_symbol(height) && !is_symbol(width) => {
                let taps = [height as usize, width as usize];
                let kernel = Kernel { taps, strides: [1, 1], dilations: [1, 1], same: false };
                let pooled = self.arena.make(Expr::Kernel(x, kernel, over), vec![batch, 1, 1, channels])?;
                let shape: &[Dim] = if keep { &[batch, 1, 1, channels] } else { &[batch, channels] };
                Ok(vec![Value::Real(self.arena.reshape(pooled, shape)?)])
            }
            _ => Err("it must go over height and width of an image".into()),
        }
    }
}
