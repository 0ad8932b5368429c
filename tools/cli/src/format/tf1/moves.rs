//! What only moves values about: it stands outside of what computes.

use super::symbol::{Arena, At, BATCH, Dim, Expr, Id, Linear, MAX_DEPTH, MAX_TERMS, Made, Wrap, is_symbol, number};
use crate::canonical::Tensor;

impl Arena {
    /// The other of [batch, time, ...] and [time, batch, ...].
    pub fn swap(&mut self, id: Id) -> Made {
        if let Expr::Swap(inner) = *self.expr(id) {
            return Ok(inner);
        }
        let mut shape = self.shape(id).to_vec();
        if shape.len() < 3 {
            return Err("only a sequence has batch and time to swap".into());
        }
        shape.swap(0, 1);
        match *self.expr(id) {
            Expr::Fill(bits) => self.make(Expr::Fill(bits), shape),
            _ => self.make(Expr::Swap(id), shape),
        }
    }

    pub(super) fn rows(&mut self, id: Id) -> Made {
        let shape = self.shape(id).to_vec();
        let [lead @ .., width] = &*shape else { return Err("it is a scalar".into()) };
        let lead = self.product(lead)?;
        self.make(Expr::Rows(id), vec![lead, *width])
    }

    /// Operands without the swap or the flattening that all of them have, and what puts it back.
    pub(super) fn unwrapped<const N: usize>(&self, ids: [Id; N]) -> Option<([Id; N], Wrap)> {
        let one = |id: Id| match *self.expr(id) {
            Expr::Swap(inner) => Some((inner, Wrap::Swap)),
            Expr::Rows(inner) => Some((inner, Wrap::Rows)),
            // An image of height 1 that was made a sequence again.
            Expr::Reshape(inner) if self.shape(inner).len() == 4 && self.width(inner) == self.width(id) => {
                let shape = self.shape(id);
                Some((inner, Wrap::Reshape(shape[..shape.len() - 1].to_vec())))
            }
            _ => None,
        };
        let (_, wrap) = one(ids[0])?;
        let mut inner = ids;
        for id in &mut inner {
            match one(*id) {
                Some((within, found)) if found == wrap => *id = within,
                _ => return None,
            }
        }
        Some((inner, wrap))
    }

    pub(super) fn wrapped(&mut self, id: Id, wrap: Wrap) -> Made {
        match wrap {
            Wrap::Swap => self.swap(id),
            Wrap::Rows => self.rows(id),
            Wrap::Reshape(mut shape) => {
                shape.push(self.width(id) as Dim);
                self.reshaped(id, shape)
            }
        }
    }

    /// The same values in another shape, in which one dimension may be -1.
    pub fn reshape(&mut self, id: Id, to: &[Dim]) -> Made {
        let shape = self.shape(id).to_vec();
        if to.len() > 8 {
            return Err("it has more than 8 dimensions".into());
        }
        let open = to.iter().filter(|&&dim| dim == -1).count();
        let (count, symbols) = self.factors(&shape)?;
        let given: Vec<Dim> = to.iter().copied().filter(|&dim| dim != -1).collect();
        let (given_count, given_symbols) = self.factors(&given)?;
        let mut missing = symbols.clone();
        for symbol in &given_symbols {
            match missing.iter().position(|found| found == symbol) {
                Some(k) => drop(missing.remove(k)),
                None => return Err("its shape does not fit its input's".into()),
            }
        }
        let fits = given_count > 0 && count % given_count == 0 && open <= 1;
        let rest = if fits { count / given_count } else { 0 };
        if !fits || (open == 0 && (rest != 1 || !missing.is_empty())) {
            return Err("its shape does not fit its input's".into());
        }
        missing.push(rest);
        let rest = self.product(&missing)?;
        let to: Vec<Dim> = to.iter().map(|&dim| if dim == -1 { rest } else { dim }).collect();
        self.reshaped(id, to)
    }

    pub(super) fn reshaped(&mut self, id: Id, to: Vec<Dim>) -> Made {
        let shape = self.shape(id).to_vec();
        if to == shape {
            return Ok(id);
        }
        match *self.expr(id) {
            Expr::Fill(bits) => return self.make(Expr::Fill(bits), to),
            Expr::Const(tensor) => {
                let shape: Option<Vec<usize>> = to.iter().map(|&dim| usize::try_from(dim).ok()).collect();
                let shape = shape.ok_or("its shape is not known")?;
                let data = self.tensors[tensor].data.clone();
                return self.constant(Tensor { shape, data });
            }
            Expr::Reshape(inner) => return self.reshaped(inner, to),
            // Rows of the same width in their old arrangement.
            Expr::Rows(inner) if self.shape(inner).len() == to.len() && self.shape(inner) == to => return Ok(inner),
            _ => {}
        }
        if shape.len() > 2 && to.len() == 2 && to.last() == shape.last() {
            return self.rows(id);
        }
        self.make(Expr::Reshape(id), to)
    }

    /// One step of a sequence [batch, time, ...].
    pub fn step(&mut self, sequence: Id, at: At) -> Made {
        let mut shape = self.shape(sequence).to_vec();
        if shape.len() < 2 {
            return Err("it must have batch and time".into());
        }
        let steps = shape.remove(1);
        match (self.expr(sequence).clone(), at) {
            (Expr::Fill(bits), _) => self.make(Expr::Fill(bits), shape),
            (Expr::Reverse(inner), At::Last) => self.step(inner, if steps == 1 { At::Last } else { At::Step(0) }),
            (Expr::Reverse(inner), At::Step(0)) => self.step(inner, At::Last),
            (Expr::Reverse(inner), At::Step(step)) if !is_symbol(steps) => {
                self.step(inner, At::Step((steps as usize).saturating_sub(step + 1)))
            }
            (Expr::Stack(parts), At::Step(step)) if step < parts.len() => Ok(parts[step]),
            (Expr::Stack(parts), At::Last) => Ok(parts[parts.len() - 1]),
            _ => self.make(Expr::Step(sequence, at), shape),
        }
    }

    /// The last step first, of [batch, time, ...].
    pub fn reverse(&mut self, id: Id) -> Made {
        match *self.expr(id) {
            Expr::Reverse(inner) => Ok(inner),
            _ if self.shape(id).len() < 3 => Err("only a sequence can be reversed".into()),
            _ => {
                let shape = self.shape(id).to_vec();
                self.make(Expr::Reverse(id), shape)
            }
        }
    }

    /// Features one after the other.
    pub fn concat(&mut self, parts: &[Id]) -> Made {
        let Some(&first) = parts.first() else { return Err("it joins nothing".into()) };
        if parts.len() > MAX_TERMS {
            return Err(format!("it joins more than {MAX_TERMS}"));
        }
        if parts.len() == 1 {
            return Ok(first);
        }
        if let Some((_, wrap)) = self.unwrapped([first]) {
            let inner: Option<Vec<Id>> = parts
                .iter()
                .map(|&part| self.unwrapped([part]).filter(|(_, found)| *found == wrap).map(|([inner], _)| inner))
                .collect();
            if let Some(inner) = inner {
                let joined = self.concat(&inner)?;
                return self.wrapped(joined, wrap);
            }
        }
        let mut lead = self.leading(first, first)?;
        let (mut flat, mut width) = (Vec::new(), 0_usize);
        for &part in parts {
            let of = self.leading(first, part)?;
            if of.first() == Some(&BATCH) {
                lead = of;
            }
            // `make` refuses what is too wide; this many parts of what it lets pass are no overflow.
            width += self.width(part);
            match self.expr(part) {
                Expr::Concat(inner) => flat.extend_from_slice(inner),
                _ => flat.push(part),
            }
        }
        if flat.len() > MAX_TERMS {
            return Err(format!("it joins more than {MAX_TERMS}"));
        }
        lead.push(width as Dim);
        self.make(Expr::Concat(flat), lead)
    }

    /// Features `start..start + len`.
    pub fn slice(&mut self, id: Id, start: usize, len: usize) -> Made {
        self.sliced(id, start, len, 0)
    }

    pub(super) fn sliced(&mut self, id: Id, start: usize, len: usize, depth: usize) -> Made {
        let width = self.width(id);
        if len == 0 || start.checked_add(len).is_none_or(|end| end > width) {
            return Err(format!("it takes features {start} to {} of {width}", start.saturating_add(len)));
        }
        if len == width {
            return Ok(id);
        }
        let mut shape = self.shape(id).to_vec();
        if let Some(last) = shape.last_mut() {
            *last = len as Dim;
        }
        let deeper = depth + 1;
        let generic = |this: &mut Self| this.make(Expr::Slice(id, start), shape.clone());
        if depth >= MAX_DEPTH {
            return generic(self);
        }
        if let Some(&slice) = self.slices.get(&(id, start, len)) {
            return Ok(slice);
        }
        let slice = match self.expr(id).clone() {
            Expr::Const(tensor) => {
                let Tensor { shape, data } = &self.tensors[tensor];
                let mut shape = shape.clone();
                if let Some(last) = shape.last_mut() {
                    *last = len;
                }
                let data = data.chunks(width).flat_map(|row| &row[start..start + len]).copied().collect();
                self.constant(Tensor { shape, data })
            }
            Expr::Fill(bits) => self.make(Expr::Fill(bits), shape),
            Expr::Slice(inner, from) => self.sliced(inner, from + start, len, deeper),
            Expr::Concat(parts) => {
                let (mut at, mut taken) = (0, Vec::new());
                for part in parts {
                    let (from, to) = (start.max(at), (start + len).min(at + self.width(part)));
                    if from < to {
                        taken.push(self.sliced(part, from - at, to - from, deeper)?);
                    }
                    at += self.width(part);
                }
                self.concat(&taken)
            }
            Expr::Unary(activation, inner) => {
                let inner = self.sliced(inner, start, len, deeper)?;
                self.unary(self.activations[activation], inner)
            }
            Expr::Affine(inner, gain, shift) => {
                let inner = self.sliced(inner, start, len, deeper)?;
                self.affine(inner, number(gain), number(shift))
            }
            Expr::Swap(inner) => {
                let inner = self.sliced(inner, start, len, deeper)?;
                self.swap(inner)
            }
            Expr::Add(a, b) if self.width(a) == self.width(b) => {
                let (a, b) = (self.sliced(a, start, len, deeper)?, self.sliced(b, start, len, deeper)?);
                self.add(a, b)
            }
            Expr::Linear(linear) => {
                let mut part = Linear { units: len, ..linear };
                for (_, block) in &mut part.terms {
                    block.col += start;
                }
                for (source, weights) in &mut part.diagonals {
                    *source = self.sliced(*source, start, len, deeper)?;
                    *weights = self.sliced(*weights, start, len, deeper)?;
                }
                if let Some(bias) = &mut part.bias {
                    *bias = self.sliced(*bias, start, len, deeper)?;
                }
                self.make(Expr::Linear(part), shape)
            }
            _ => generic(self),
        }?;
        self.slices.insert((id, start, len), slice);
        Ok(slice)
    }
}
