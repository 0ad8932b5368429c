//! Ops that compute a whole cell, or a cell over a whole sequence, expanded to elementary expressions.

use tidegate::internals::activation::Activation;

use super::evaluate::{Evaluator, Outputs, Value, reals};
use super::symbol::{Arena, At, Expr, Id, fail_if};
use super::{loops::is_full, sequence};

impl Evaluator<'_> {
    /// The outputs i, cs, f, o, ci, co, h of `LSTMBlockCell`.
    pub(super) fn lstm_block(&mut self, node: usize, inputs: [Id; 8]) -> Outputs {
        let forget_bias = self.graph.float(node, "forget_bias", 1.0)?;
        // The op's default (tensorflow/core/ops/rnn_ops.cc). A value that is not positive means no clip.
        let cell_clip = self.graph.float(node, "cell_clip", 3.0)?;
        let peepholes = self.graph.flag(node, "use_peephole", false)?;
        self.lstm_ops(inputs, forget_bias, cell_clip, peepholes, ["i", "j", "f", "o"])
    }

    pub(super) fn lstm_ops(
        &mut self,
        [x, c, h, w, wci, wcf, wco, b]: [Id; 8],
        forget_bias: f32,
        cell_clip: f32,
        peepholes: bool,
        order: [&str; 4],
    ) -> Outputs {
        let arena = &mut self.arena;
        let joined = arena.concat(&[x, h])?;
        let product = arena.matmul(joined, w)?;
        let whole = arena.add(product, b)?;
        let units = arena.width(whole) / 4;
        let part = |arena: &mut Arena, name: &str| {
            let at = order.iter().position(|gate| *gate == name).unwrap_or(0);
            arena.slice(whole, at * units, units)
        };
        let (mut i, j, mut f, mut o) = (part(arena, "i")?, part(arena, "j")?, part(arena, "f")?, part(arena, "o")?);
        let bias = arena.make(Expr::Fill(forget_bias.to_bits()), vec![])?;
        f = arena.add(f, bias)?;
        if peepholes {
            let (to_i, to_f) = (arena.mul(wci, c)?, arena.mul(wcf, c)?);
            (i, f) = (arena.add(i, to_i)?, arena.add(f, to_f)?);
        }
        let (i, f) = (arena.unary(Activation::Sigmoid, i)?, arena.unary(Activation::Sigmoid, f)?);
        let j = arena.unary(Activation::Tanh, j)?;
        let (kept, added) = (arena.mul(f, c)?, arena.mul(i, j)?);
        let mut next = arena.add(added, kept)?;
        if cell_clip > 0.0 {
            next = arena.clip(next, -cell_clip, cell_clip)?;
        }
        if peepholes {
            let to_o = arena.mul(wco, next)?;
            o = arena.add(o, to_o)?;
        }
        let o = arena.unary(Activation::Sigmoid, o)?;
        let shown = arena.unary(Activation::Tanh, next)?;
        let hidden = arena.mul(shown, o)?;
        Ok([i, next, f, o, j, shown, hidden].into_iter().map(Value::Real).collect())
    }

    /// The outputs r, u, c, h of `GRUBlockCell`.
    pub(super) fn gru_block(&mut self, [x, h, w_ru, w_c, b_ru, b_c]: [Id; 6]) -> Outputs {
        let arena = &mut self.arena;
        let joined = arena.concat(&[x, h])?;
        let product = arena.matmul(joined, w_ru)?;
        let sum = arena.add(product, b_ru)?;
        let both = arena.unary(Activation::Sigmoid, sum)?;
        let units = arena.width(both) / 2;
        let (r, u) = (arena.slice(both, 0, units)?, arena.slice(both, units, units)?);
        let reset = arena.mul(r, h)?;
        let joined = arena.concat(&[x, reset])?;
        let product = arena.matmul(joined, w_c)?;
        let sum = arena.add(product, b_c)?;
        let candidate = arena.unary(Activation::Tanh, sum)?;
        let rest = arena.affine(u, -1.0, 1.0)?;
        let (kept, added) = (arena.mul(u, h)?, arena.mul(rest, candidate)?);
        let hidden = arena.add(kept, added)?;
        Ok([r, u, candidate, hidden].into_iter().map(Value::Real).collect())
    }

    /// The outputs i, cs, f, o, ci, co, h of `BlockLSTM`, which runs a cell over a sequence [time, batch, features].
    pub(super) fn block_lstm(&mut self, node: usize, rest: &[Value]) -> Outputs {
        let Some(&[x, c, h, w, wci, wcf, wco, b]) = reals(rest).as_deref() else {
            return Err("it must have 9 inputs".into());
        };
        let Some(Value::Ints { is_scalar: true, data }) =
            self.graph.nodes[node].inputs.first().and_then(|&input| self.value(input).ok())
        else {
            return Err("its number of steps must be known".into());
        };
        let sequence = self.arena.swap(x)?;
        let steps = self.arena.shape(sequence)[1];
        fail_if(!is_full(data[0], steps), "it must run over all steps of its input")?;
        let frame = self.numbers.len();
        self.numbers.push(&[]);
        let (c, h) = (self.arena.state(frame, c)?, self.arena.state(frame, h)?);
        let variables = self.arena.variables.len();
        let x = self.arena.step(sequence, At::Turn(frame))?;
        let (forget_bias, order, cell_clip) = match self.op(node) {
            "BlockLSTMV2" => (0.0, ["i", "f", "j", "o"], 0.0),
            _ => (self.graph.float(node, "forget_bias", 1.0)?, ["i", "j", "f", "o"], 3.0),
        };
        let cell_clip = self.graph.float(node, "cell_clip", cell_clip)?;
        let peepholes = self.graph.flag(node, "use_peephole", false)?;
        let outputs = self.lstm_ops([x, c, h, w, wci, wcf, wco, b], forget_bias, cell_clip, peepholes, order)?;
        let (Some(Value::Real(next)), Some(Value::Real(hidden))) = (outputs.get(1), outputs.get(6)) else {
            return Err("it must have 7 outputs".into());
        };
        self.arena.variables[variables - 2].next = Some(*next);
        self.arena.variables[variables - 1].next = Some(*hidden);
        let lifted = sequence::of_loop(&mut self.arena, frame, *hidden, steps, 0)?;
        let lifted = self.arena.swap(lifted)?;
        let mut outputs = vec![Value::Nothing; 6];
        outputs.push(Value::Real(lifted));
        Ok(outputs)
    }
}
