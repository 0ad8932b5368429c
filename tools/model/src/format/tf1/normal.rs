//! Operations that compute, in their normal form: sums of products are merged, constants are folded.

use tidegate::internals::activation::Activation;

use super::symbol::{Arena, BATCH, Block, Dim, Expr, Id, Linear, MAX_TERMS, Made, fail_if, intern, number};
use crate::canonical::Tensor;

impl Arena {
    pub fn unary(&mut self, activation: Activation, id: Id) -> Made {
        if let Some(([inner], wrap)) = self.unwrapped([id]) {
            let inner = self.unary(activation, inner)?;
            return self.wrapped(inner, wrap);
        }
        // A bound from below beside one from above, as a hard sigmoid of Keras 2 has them.
        if activation == Activation::Relu
            && let Expr::Clip(_, _, most) = *self.expr(id)
            && number(most) >= 0.0
        {
            return self.clip(id, 0.0, f32::INFINITY);
        }
        // A hostile graph could use any number of different activation parameters.
        let number = intern(&mut self.activations, activation, 256).ok_or("the graph has more than 256 activations")?;
        let shape = self.shape(id).to_vec();
        self.make(Expr::Unary(number, id), shape)
    }

    pub fn affine(&mut self, id: Id, gain: f32, shift: f32) -> Made {
        if gain == 1.0 && shift == 0.0 {
            return Ok(id);
        }
        if self.is_constant(id) {
            return self.map(id, &|value| value * gain + shift);
        }
        if let Some(([inner], wrap)) = self.unwrapped([id]) {
            let inner = self.affine(inner, gain, shift)?;
            return self.wrapped(inner, wrap);
        }
        let shape = self.shape(id).to_vec();
        match *self.expr(id) {
            Expr::Affine(inner, a, b) => self.affine(inner, gain * number(a), gain * number(b) + shift),
            // A sixth of a ReLU6, as Keras 3 computes it.
            Expr::Unary(of, inner)
                if self.activations[of] == Activation::Relu6 && shift == 0.0 && gain * 6.0 == 1.0 =>
            {
                let scaled = self.affine(inner, gain, 0.0)?;
                self.clip(scaled, 0.0, 1.0)
            }
            Expr::Clip(inner, 0, most) if shift == 0.0 && gain * number(most) == 1.0 => {
                let scaled = self.affine(inner, gain, 0.0)?;
                self.clip(scaled, 0.0, 1.0)
            }
            Expr::Linear(_) if gain == 1.0 => {
                let shift = self.make(Expr::Fill(shift.to_bits()), vec![])?;
                self.add(id, shift)
            }
            _ => self.make(Expr::Affine(id, gain.to_bits(), shift.to_bits()), shape),
        }
    }

    pub fn clip(&mut self, id: Id, least: f32, greatest: f32) -> Made {
        if self.is_constant(id) && !self.is_zero(id) {
            return self.map(id, &|value| value.max(least).min(greatest));
        }
        if let Some(([inner], wrap)) = self.unwrapped([id]) {
            let inner = self.clip(inner, least, greatest)?;
            return self.wrapped(inner, wrap);
        }
        let shape = self.shape(id).to_vec();
        match *self.expr(id) {
            Expr::Clip(inner, a, b) if number(a) <= greatest && number(b) >= least && least <= greatest => {
                self.clip(inner, least.max(number(a)), greatest.min(number(b)))
            }
            Expr::Affine(inner, alpha, beta) if least == 0.0 && greatest == 1.0 => {
                self.unary(Activation::HardSigmoid { alpha: number(alpha), beta: number(beta) }, inner)
            }
            _ if least == 0.0 && greatest == f32::INFINITY => self.unary(Activation::Relu, id),
            _ => self.make(Expr::Clip(id, least.to_bits(), greatest.to_bits()), shape),
        }
    }

    pub fn matmul(&mut self, id: Id, matrix: Id) -> Made {
        let tensor = self.tensor(matrix)?;
        let [rows, cols] = *self.tensors[tensor].shape else { return Err("its weights must be a matrix".into()) };
        let (width, empty) = (self.width(id), rows == 0 || cols == 0);
        fail_if(width != rows || empty, format_args!("it multiplies {width} features by a matrix of {rows} rows"))?;
        if let Some(([inner], wrap)) = self.unwrapped([id]) {
            let inner = self.matmul(inner, matrix)?;
            return self.wrapped(inner, wrap);
        }
        let parts = if let Expr::Concat(parts) = self.expr(id) { parts.clone() } else { vec![id] };
        let (mut row, mut terms) = (0, Vec::new());
        for part in parts {
            let rows = self.width(part);
            terms.push((part, Block { tensor, row, rows, col: 0 }));
            row += rows;
        }
        let shape = self.with_width(id, cols);
        self.make(Expr::Linear(Linear { terms, diagonals: Vec::new(), bias: None, units: cols }), shape)
    }

    pub fn add(&mut self, a: Id, b: Id) -> Made {
        if self.is_constant(a) && self.is_constant(b) {
            return self.fold(a, b, |a, b| a + b);
        }
        let (x, constant) = if self.is_constant(a) { (b, a) } else { (a, b) };
        if self.is_constant(constant) {
            return self.add_constant(x, constant);
        }
        if let Some(([a, b], wrap)) = self.unwrapped([a, b]) {
            let sum = self.add(a, b)?;
            return self.wrapped(sum, wrap);
        }
        let (mut shape, [width, other]) = (self.leading(a, b)?, [self.width(a), self.width(b)]);
        fail_if(width != other, format_args!("it adds {other} features to {width}"))?;
        shape.push(width as Dim);
        match (self.expr(a), self.expr(b)) {
            (Expr::Linear(a), Expr::Linear(b))
                if a.terms.len() + b.terms.len() + a.diagonals.len() + b.diagonals.len() <= MAX_TERMS =>
            {
                let (mut sum, other) = (a.clone(), b.clone());
                sum.terms.extend(other.terms);
                sum.diagonals.extend(other.diagonals);
                sum.bias = match (sum.bias, other.bias) {
                    (Some(a), Some(b)) => Some(self.zip(a, b, sum.units, |a, b| a + b)?),
                    (a, b) => a.or(b),
                };
                self.make(Expr::Linear(sum), shape)
            }
            _ => self.make(Expr::Add(a, b), shape),
        }
    }

    pub(super) fn add_constant(&mut self, x: Id, constant: Id) -> Made {
        if let Some(([inner], wrap)) = self.unwrapped([x]) {
            let inner = self.add_constant(inner, constant)?;
            return self.wrapped(inner, wrap);
        }
        let shape = self.shape(x).to_vec();
        match (self.expr(x).clone(), self.scalar(constant)) {
            (_, Some(0.0)) => Ok(x),
            (Expr::Norm(inner, gain, shift, epsilon), _) => {
                let shift = self.zip(shift, constant, self.width(x), |a, b| a + b)?;
                self.make(Expr::Norm(inner, gain, shift, epsilon), shape)
            }
            (Expr::Linear(linear), _) => {
                let units = linear.units;
                let bias = match linear.bias {
                    Some(bias) => self.zip(bias, constant, units, |a, b| a + b)?,
                    None => self.as_vector(constant, units)?,
                };
                self.make(Expr::Linear(Linear { bias: Some(bias), ..linear }), shape)
            }
            (_, Some(shift)) => self.affine(x, 1.0, shift),
            (Expr::Concat(parts), None) if parts.iter().all(|&part| matches!(self.expr(part), Expr::Linear(_))) => {
                let constant = self.as_vector(constant, self.width(x))?;
                let (mut from, mut sums) = (0, Vec::new());
                for part in parts {
                    let shift = self.slice(constant, from, self.width(part))?;
                    sums.push(self.add_constant(part, shift)?);
                    from += self.width(part);
                }
                self.concat(&sums)
            }
            (Expr::Scale(inner, gain, shift), None) => {
                let shift = self.zip(shift, constant, self.width(x), |a, b| a + b)?;
                self.make(Expr::Scale(inner, gain, shift), shape)
            }
            (expr, None) => {
                let units = self.width(x);
                let one = self.make(Expr::Fill(1.0_f32.to_bits()), vec![])?;
                let (gain, shift) = (self.as_vector(one, units)?, self.as_vector(constant, units)?);
                if matches!(expr, Expr::Kernel(..)) || shape.len() > 3 {
                    return self.make(Expr::Scale(x, gain, shift), shape);
                }
                let linear = Linear { terms: vec![], diagonals: vec![(x, gain)], bias: Some(shift), units };
                self.make(Expr::Linear(linear), shape)
            }
        }
    }

    pub fn sub(&mut self, a: Id, b: Id) -> Made {
        let negative = match self.expr(b).clone() {
            Expr::Linear(linear) => self.scaled_linear(linear, -1.0, 0.0)?,
            _ => self.affine(b, -1.0, 0.0)?,
        };
        match self.scalar(a) {
            Some(value) if !matches!(self.expr(b), Expr::Linear(_)) => self.affine(b, -1.0, value),
            _ => self.add(a, negative),
        }
    }

    /// Refuses two operands of different widths, unless one of them is a constant number.
    pub fn are_alike(&self, a: Id, b: Id) -> Result<(), String> {
        let [a_width, b_width] = [self.width(a), self.width(b)];
        let constant = self.scalar(a).is_some() || self.scalar(b).is_some();
        fail_if(a_width != b_width && !constant, format_args!("its inputs have {a_width} and {b_width} elements"))
    }

    pub fn mul(&mut self, a: Id, b: Id) -> Made {
        if self.is_constant(a) && self.is_constant(b) {
            // A peephole on the state before the first step.
            let begins = |this: &Self, state: Id, weights: Id| {
                let of_units = matches!(*this.shape(weights), [_] | [1, _]) && !this.is_zero(weights);
                this.is_zero(state) && this.shape(state).len() == 2 && of_units
            };
            return match (begins(self, a, b), begins(self, b, a)) {
                (true, _) => self.diagonal(a, b),
                (_, true) => self.diagonal(b, a),
                _ => self.fold(a, b, |a, b| a * b),
            };
        }
        // A zero initial state is no constant factor, so that the first step has the same form as the others.
        let (x, constant) = if self.is_constant(a) { (b, a) } else { (a, b) };
        if self.is_constant(constant) && !self.is_zero(constant) {
            return self.mul_constant(x, constant);
        }
        if let Some(([a, b], wrap)) = self.unwrapped([a, b]) {
            let product = self.mul(a, b)?;
            return self.wrapped(product, wrap);
        }
        let (mut shape, [width, other]) = (self.leading(a, b)?, [self.width(a), self.width(b)]);
        fail_if(width != other, format_args!("it multiplies {width} features by {other}"))?;
        shape.push(width as Dim);
        self.make(Expr::Mul(a, b), shape)
    }

    pub(super) fn mul_constant(&mut self, x: Id, constant: Id) -> Made {
        if let Some(([inner], wrap)) = self.unwrapped([x]) {
            let inner = self.mul_constant(inner, constant)?;
            return self.wrapped(inner, wrap);
        }
        if let Some(gain) = self.scalar(constant) {
            return self.affine(x, gain, 0.0);
        }
        let shape = self.shape(x).to_vec();
        let weights = self.as_vector(constant, self.width(x))?;
        match self.expr(x).clone() {
            Expr::Linear(linear) => self.scaled(linear, weights, shape),
            Expr::Scale(inner, gain, shift) => {
                let gain = self.zip(gain, weights, self.width(x), |a, b| a * b)?;
                let shift = self.zip(shift, weights, self.width(x), |a, b| a * b)?;
                self.make(Expr::Scale(inner, gain, shift), shape)
            }
            expr if matches!(expr, Expr::Kernel(..)) || shape.len() > 3 => {
                let zero = self.make(Expr::Fill(0), vec![])?;
                let shift = self.as_vector(zero, self.width(x))?;
                self.make(Expr::Scale(x, weights, shift), shape)
            }
            _ => self.diagonal(x, weights),
        }
    }

    pub(super) fn diagonal(&mut self, x: Id, weights: Id) -> Made {
        let (units, shape) = (self.width(x), self.shape(x).to_vec());
        let weights = self.as_vector(weights, units)?;
        self.make(Expr::Linear(Linear { terms: vec![], diagonals: vec![(x, weights)], bias: None, units }), shape)
    }

    fn scaled(&mut self, mut scaled: Linear, weights: Id, shape: Vec<Dim>) -> Made {
        let gains = self.vector(weights).to_vec();
        for (_, block) in &mut scaled.terms {
            let mut tensor = self.block(*block, scaled.units);
            for row in tensor.data.chunks_mut(scaled.units) {
                row.iter_mut().zip(&gains).for_each(|(value, gain)| *value *= gain);
            }
            *block = Block { tensor: self.stored(tensor)?, row: 0, rows: block.rows, col: 0 };
        }
        for vector in scaled.diagonals.iter_mut().map(|(_, weights)| weights).chain(&mut scaled.bias) {
            *vector = self.zip(*vector, weights, scaled.units, |a, b| a * b)?;
        }
        self.make(Expr::Linear(scaled), shape)
    }

    /// Multiplies a sum of products by `gain` and adds `shift`.
    pub fn scaled_linear(&mut self, linear: Linear, gain: f32, shift: f32) -> Made {
        let shape = vec![BATCH, linear.units as Dim];
        let gain = self.constant(Tensor { shape: vec![linear.units], data: vec![gain; linear.units] })?;
        let scaled = self.scaled(linear, gain, shape)?;
        let shift = self.make(Expr::Fill(shift.to_bits()), vec![])?;
        self.add(scaled, shift)
    }

    pub fn maximum(&mut self, a: Id, b: Id) -> Made {
        let mut shape = self.leading(a, b)?;
        shape.push(self.width(a) as Dim);
        self.make(Expr::Maximum(a, b), shape)
    }

    /// Normalizes over the features, with a constant factor and shift.
    pub fn norm(&mut self, id: Id, gain: Id, shift: Id, epsilon: u32) -> Made {
        if let Some(([inner], wrap)) = self.unwrapped([id]) {
            let inner = self.norm(inner, gain, shift, epsilon)?;
            return self.wrapped(inner, wrap);
        }
        let (width, shape) = (self.width(id), self.shape(id).to_vec());
        let (gain, shift) = (self.as_vector(gain, width)?, self.as_vector(shift, width)?);
        self.make(Expr::Norm(id, gain, shift, epsilon), shape)
    }

    pub fn softmax(&mut self, id: Id) -> Made {
        if let Some(([inner], wrap)) = self.unwrapped([id]) {
            let inner = self.softmax(inner)?;
            return self.wrapped(inner, wrap);
        }
        let shape = self.shape(id).to_vec();
        self.make(Expr::Softmax(id), shape)
    }
}
