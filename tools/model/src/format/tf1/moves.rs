//! Operations that only move values. In the normal form they are outside the operations that compute.

use super::constants::known_shape;
use super::symbol::{Arena, At, BATCH, Dim, Expr, Id, Linear, MAX_DEPTH, MAX_TERMS, Made, Wrap, fail_if, is_symbol};
use crate::canonical::Tensor;

impl Arena {
    /// Swaps batch and time: [batch, time, ...] becomes [time, batch, ...], and vice versa.
    pub fn swap(&mut self, id: Id) -> Made {
        if let Expr::Swap(inner) = *self.expr(id) {
            return Ok(inner);
        }
        let mut shape = self.shape(id).to_vec();
        fail_if(shape.len() < 3, "only a sequence has batch and time to swap")?;
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

    /// Strips the swap, flattening or reshape that all operands share. Also returns the [`Wrap`] that restores it.
    pub(super) fn unwrapped<const N: usize>(&self, ids: [Id; N]) -> Option<([Id; N], Wrap)> {
        let one = |id: Id| match *self.expr(id) {
            Expr::Swap(inner) => Some((inner, Wrap::Swap)),
            Expr::Rows(inner) => Some((inner, Wrap::Rows)),
            // An image of height 1 that was reshaped back to a sequence.
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

    /// Reshapes to `to`, in which one dimension may be -1.
    pub fn reshape(&mut self, id: Id, to: &[Dim]) -> Made {
        let shape = self.shape(id).to_vec();
        fail_if(to.len() > 8, "it has more than 8 dimensions")?;
        let (count, mut missing) = self.factors(&shape)?;
        let given: Vec<Dim> = to.iter().copied().filter(|&dim| dim != -1).collect();
        let open = to.len() - given.len();
        let (given_count, given_symbols) = self.factors(&given)?;
        for symbol in &given_symbols {
            match missing.iter().position(|found| found == symbol) {
                Some(k) => drop(missing.remove(k)),
                None => return Err("its shape does not fit its input's".into()),
            }
        }
        let fits = given_count > 0 && count % given_count == 0 && open <= 1;
        let rest = if fits { count / given_count } else { 0 };
        fail_if(!fits || (open == 0 && (rest != 1 || !missing.is_empty())), "its shape does not fit its input's")?;
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
                let data = self.tensors[tensor].data.clone();
                return self.constant(Tensor { shape: known_shape(&to)?, data });
            }
            // The steps of a sequence stay rows, also those of an image that was reshaped to the sequence.
            Expr::Reshape(_) if shape.len() == 3 && to.len() == 2 && to.last() == shape.last() => {}
            Expr::Reshape(inner) => return self.reshaped(inner, to),
            // The reshape undoes the flattening.
            Expr::Rows(inner) if self.shape(inner).len() == to.len() && self.shape(inner) == to => return Ok(inner),
            _ => {}
        }
        if shape.len() > 2 && to.len() == 2 && to.last() == shape.last() {
            return self.rows(id);
        }
        self.make(Expr::Reshape(id), to)
    }

    pub fn step(&mut self, sequence: Id, at: At) -> Made {
        let mut shape = self.shape(sequence).to_vec();
        fail_if(shape.len() < 2, "it must have batch and time")?;
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

    pub fn concat(&mut self, parts: &[Id]) -> Made {
        let Some(&first) = parts.first() else { return Err("it joins nothing".into()) };
        fail_if(parts.len() > MAX_TERMS, format_args!("it joins more than {MAX_TERMS}"))?;
        if parts.len() == 1 {
            return Ok(first);
        }
        if let Some((_, wrap)) = self.unwrapped([first]) {
            let within = |&part| self.unwrapped([part]).filter(|(_, found)| *found == wrap).map(|([inner], _)| inner);
            if let Some(inner) = parts.iter().map(within).collect::<Option<Vec<Id>>>() {
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
            // This cannot overflow: `make` limits the width of each part, and the number of parts is limited, too.
            width += self.width(part);
            match self.expr(part) {
                Expr::Concat(inner) => flat.extend_from_slice(inner),
                _ => flat.push(part),
            }
        }
        fail_if(flat.len() > MAX_TERMS, format_args!("it joins more than {MAX_TERMS}"))?;
        lead.push(width as Dim);
        self.make(Expr::Concat(flat), lead)
    }

    pub fn slice(&mut self, id: Id, start: usize, len: usize) -> Made {
        self.sliced(id, start, len, 0)
    }

    fn sliced(&mut self, id: Id, start: usize, len: usize, depth: usize) -> Made {
        let width = self.width(id);
        let end = start.saturating_add(len);
        fail_if(len == 0 || end > width, format_args!("it takes features {start} to {end} of {width}"))?;
        if len == width {
            return Ok(id);
        }
        let shape = self.with_width(id, len);
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
                let data = &self.tensors[tensor].data;
                let data = data.chunks(width).flat_map(|row| &row[start..start + len]).copied().collect();
                self.constant(Tensor { shape: known_shape(&shape)?, data })
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
            Expr::Swap(inner) => {
                let inner = self.sliced(inner, start, len, deeper)?;
                self.swap(inner)
            }
            Expr::Unary(..) | Expr::Affine(..) | Expr::Add(..) => {
                let operands = self.operands(id).into_iter().map(|operand| self.sliced(operand, start, len, deeper));
                let operands: Result<Vec<Id>, String> = operands.collect();
                self.with_operands(id, &operands?)
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
