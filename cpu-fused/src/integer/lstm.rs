//! The LSTM without normalizations, in integers.

use tidegate::internals::{
    cell::UNIT_SCALES,
    curve::Curve,
    node::Node,
    quant::{MAX, ONE},
};

use super::curve::{Activation, clamp, from_q15, sigmoid, tanh, tanh_of_cell};
use super::panels::{Gate, Panels, operand, turn, units};
use super::sequence::{Cell, ROWS, Rest, Run, before, of_input};
use super::sums::{Beside, Blocks, Nothing, Sums, at_once, here};
use super::{Integers, Names, has};
use crate::layer::{Io, Layer, Span};
use crate::lines::Lines;
use crate::simd::Task;

/// i, f, g, o
const GATES: usize = 4;

/// Independent chains of sums of a projection, enough to hide the latency of a product.
const CHAINS: usize = 4;

/// A packed LSTM.
pub struct Lstm<'m, S> {
    simd: S,
    panels: Panels,
    projection: Option<Projection>,
    /// Elements of h in a state, including padding.
    padded: usize,
    masked: bool,
    mix: Mix<'m>,
}

/// The projection of m to h.
struct Projection {
    panels: Panels,
    clip: i32,
}

/// Parameters of the update.
struct Mix<'m> {
    /// Whether the gates are σ, candidate and output tanh, and no other option is set.
    is_plain: bool,
    gate: Activation<'m>,
    candidate: Activation<'m>,
    output: Activation<'m>,
    /// Additional fraction bits of a candidate compared with a cell state.
    candidate_shift: u32,
    /// Left shift from a cell state to the argument of the output activation.
    lift: u32,
    /// Limit of a cell state, which also has 16 bits.
    clip: i32,
    coupled: bool,
    /// p_i, p_f, p_o, padded to whole vectors, and the shift of their products.
    peepholes: Option<([Lines<i16>; 3], u32)>,
    /// With `unit_scales`, the numbers of each unit: `[block][number][lane]`.
    of_units: Option<Lines<i32>>,
}

/// The numbers of a unit with a scale of its own. They take the place of those in [`Mix`].
#[derive(Clone, Copy)]
enum OfUnit {
    CandidateShift,
    /// The factor by which c is lifted.
    Lift,
    Least,
    Most,
    PeepholeShift,
}

impl OfUnit {
    const COUNT: usize = 5;

    /// The numbers of a unit, in the order of the variants. Its c has `finer` fraction bits more than that of the node.
    fn all(mix: &Mix<'_>, finer: u32) -> [i32; Self::COUNT] {
        let most = mix.clip << finer;
        let peephole_shift = mix.peepholes.as_ref().map_or(0, |(_, shift)| shift + finer);
        [
            mix.candidate_shift.saturating_sub(finer).cast_signed(),
            1 << mix.lift.saturating_sub(finer),
            (-most).max(i16::MIN.into()),
            most.min(i16::MAX.into()),
            peephole_shift.cast_signed(),
        ]
    }
}

impl<'m, S: Integers> Lstm<'m, S> {
    /// Packs a node; `None` if it has normalizations.
    pub fn new(node: &Node<'m>, simd: S) -> Option<Self> {
        if ["gate_norm", "joint_norm", "cell_norm", "output_norm"].into_iter().any(|norm| has(node, norm)) {
            return None;
        }
        let (input, hidden, output) = (node.input_size, node.hidden_size, node.output_size);
        let gates = Gate::all::<GATES>(&["input_weights", "recurrent_weights"], &["rows"]);
        let panels = Panels::new(node, simd, &gates, hidden, [input, output], Some("recurrent_first"))?;
        let projection = if has(node, "projection") {
            let rows = Gate::all::<1>(&["projection_weights"], &["projection_rows"]);
            let clip = node.number(Names::of(node)?.number("projection_clip")?);
            Some(Projection { panels: Panels::new(node, simd, &rows, output, [hidden, 0], None)?, clip })
        } else {
            None
        };
        // The padding of one step, even if the slots of an unrolled node have several rows.
        let mut of_one_step = *node;
        of_one_step.unroll = None;
        let padded = of_one_step.padded_output();
        let (masked, mix) = (has(node, "masked"), Mix::new::<S>(node)?);
        Some(Self { simd, panels, projection, padded, masked, mix })
    }
}

impl<'m> Mix<'m> {
    fn new<S: Integers>(node: &Node<'m>) -> Option<Self> {
        let names = Names::of(node)?;
        let number = |name: &str| Some(node.number(names.number(name)?));
        let bits = |name: &str| Some(number(name)?.unsigned_abs() & 15);
        let curve = |index: usize, table: &str, shift: &str, bits: u32| {
            Some(Activation { curve: node.curve(index, names.tensor(table)?, names.number(shift)?), bits })
        };
        let preact_bits = bits("preact_bits")?;
        let gate = curve(0, "gate_table", "gate_table_shift", preact_bits)?;
        let candidate = curve(1, "cell_table", "cell_table_shift", preact_bits)?;
        let output = curve(2, "output_table", "output_table_shift", 15)?;
        // The identity and ReLU keep the scale of their argument.
        let most = if output.curve.keeps_unit() { bits("memory_bits")? } else { 15 };
        let lift = most.saturating_sub(bits("cell_bits")?);
        let peepholes = if has(node, "peephole") {
            let of_gate = |name: &str| {
                let mut all = Lines::zeroed(node.hidden_size.div_ceil(S::LANES) * S::LANES);
                let bytes = node.tensor_bytes_at(names.tensor(name)?);
                let factors = bytes.as_chunks().0.iter().map(|&factor| i16::from_le_bytes(factor));
                all.get_mut().iter_mut().take(node.hidden_size).zip(factors).for_each(|(to, factor)| *to = factor);
                Some(all)
            };
            let all = [of_gate("input_peephole")?, of_gate("forget_peephole")?, of_gate("output_peephole")?];
            Some((all, bits("peephole_shift")?))
        } else {
            None
        };
        let (coupled, has_scales) = (has(node, "coupled"), node.has(UNIT_SCALES));
        let is_plain = gate.is_sigmoid()
            && candidate.is_tanh()
            && matches!(output.curve, Curve::Tanh)
            && !coupled
            && !has_scales
            && peepholes.is_none();
        let mut mix = Self {
            is_plain,
            gate,
            candidate,
            output,
            candidate_shift: bits("candidate_shift")?,
            lift,
            clip: number("cell_clip")?,
            coupled,
            peepholes,
            of_units: None,
        };
        if has_scales {
            let mut all = Lines::zeroed(node.hidden_size.div_ceil(S::LANES) * OfUnit::COUNT * S::LANES);
            let shifts = node.tensor_bytes_at(names.tensor("cell_shifts")?).as_chunks().0;
            for (unit, &shift) in shifts.iter().enumerate() {
                let (block, lane) = (unit / S::LANES, unit % S::LANES);
                let to = all.get_mut().get_mut(block * OfUnit::COUNT * S::LANES + lane..)?.iter_mut().step_by(S::LANES);
                let numbers = OfUnit::all(&mix, u32::from(u16::from_le_bytes(shift)) & 15);
                to.zip(numbers).for_each(|(to, number)| *to = number);
            }
            mix.of_units = Some(all);
        }
        Some(mix)
    }
}

impl<S: Integers> Layer<i16> for Lstm<'_, S> {
    fn work_len(&self, steps: usize) -> usize {
        let one = self.panels.operands_len::<S>() + self.projected_len();
        one.max(Run::<S, Self>::work_len(self, steps))
    }

    fn step(&self, io: Io<'_, i16>) {
        if const { S::INTERLEAVED } && self.mix.is_plain {
            return self.simd.vectorize(Step::<S, true> { lstm: self, io });
        }
        self.simd.vectorize(Step::<S, false> { lstm: self, io });
    }

    fn run(&self, span: &mut Span<'_, i16>) {
        self.simd.vectorize(Run::new(self, span));
    }
}

/// The update of a block of units.
struct Update<'s, 'm, S: Integers, const PLAIN: bool> {
    lstm: &'s Lstm<'m, S>,
    block: usize,
    sums: [S::Vector; GATES],
    c: S::Vector,
    entering: S::Vector,
    m: S::Vector,
}

impl<'s, 'm, S: Integers, const PLAIN: bool> Update<'s, 'm, S, PLAIN> {
    #[inline(always)]
    fn new(lstm: &'s Lstm<'m, S>, block: usize, sums: Sums<S::Vector, GATES>, c: S::Vector) -> Self {
        let zero = lstm.simd.splat(0);
        Self { lstm, block, sums: sums.gates, c, entering: zero, m: zero }
    }

    /// A gate from its sum, from 0 to 1.
    #[inline(always)]
    fn gate<const GATE: usize>(&self, peephole: usize) -> S::Vector {
        let (simd, mix) = (self.lstm.simd, &self.lstm.mix);
        let mut sum = self.sums[GATE];
        if PLAIN {
            return sigmoid(simd, sum);
        }
        if let Some((factors, shift)) = &mix.peepholes {
            let factors = simd.widen(&factors[peephole].get()[self.block * S::LANES..]);
            let product = simd.mul(factors, self.c);
            let product = match self.of_units(OfUnit::PeepholeShift) {
                Some(shifts) => simd.shr_each(product, shifts),
                None => simd.shr(product, *shift),
            };
            sum = simd.add(sum, product);
        }
        clamp(simd, mix.gate.apply(simd, sum), 0, ONE)
    }

    /// A number of each unit, if units have scales of their own.
    #[inline(always)]
    fn of_units(&self, number: OfUnit) -> Option<S::Vector> {
        if PLAIN {
            return None;
        }
        let numbers: &[S::Lanes] = bytemuck::cast_slice(self.lstm.mix.of_units.as_ref()?.get());
        Some(self.lstm.simd.load(&numbers[self.block * OfUnit::COUNT + number as usize]))
    }
}

impl<S: Integers, const PLAIN: bool> Beside for Update<'_, '_, S, PLAIN> {
    #[inline(always)]
    fn part<const PART: usize>(&mut self) {
        let (simd, mix) = (self.lstm.simd, &self.lstm.mix);
        match PART {
            0 => {
                self.entering = here(if PLAIN {
                    tanh(simd, self.sums[2])
                } else {
                    clamp(simd, mix.candidate.apply(simd, self.sums[2]), -ONE, ONE)
                });
            }
            1 => {
                let enter = if !PLAIN && mix.coupled {
                    simd.sub(simd.splat(ONE), self.gate::<1>(1))
                } else {
                    self.gate::<0>(0)
                };
                let entering = simd.mul(enter, self.entering);
                self.entering = here(match self.of_units(OfUnit::CandidateShift) {
                    Some(shifts) => simd.shr_each(entering, shifts),
                    None => simd.shr(entering, mix.candidate_shift),
                });
            }
            2 => {
                let next = from_q15(simd, simd.add(simd.mul(self.gate::<1>(1), self.c), self.entering));
                self.c = here(match (self.of_units(OfUnit::Least), self.of_units(OfUnit::Most)) {
                    (Some(least), Some(most)) => simd.max(simd.min(next, most), least),
                    _ => clamp(simd, next, (-mix.clip).max(i16::MIN.into()), mix.clip.min(i16::MAX.into())),
                });
            }
            3 => {
                let lifted = match self.of_units(OfUnit::Lift) {
                    Some(factors) => simd.mul(self.c, factors),
                    None => simd.shl(self.c, mix.lift),
                };
                self.m = here(if PLAIN {
                    tanh_of_cell(simd, lifted)
                } else {
                    clamp(simd, mix.output.apply(simd, lifted), -ONE, ONE)
                });
            }
            _ => {
                let m = from_q15(simd, simd.mul(self.gate::<3>(2), self.m));
                self.m = if PLAIN { m } else { clamp(simd, m, -MAX, MAX) };
            }
        }
    }
}

/// One step.
struct Step<'s, 'm, S, const PLAIN: bool> {
    lstm: &'s Lstm<'m, S>,
    io: Io<'s, i16>,
}

impl<S: Integers, const PLAIN: bool> Task for Step<'_, '_, S, PLAIN> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { lstm, io: Io { x, state, work, y, odd } } = self;
        let Panels { units: hidden, columns: [input, output], .. } = lstm.panels;
        let x = &x[..input];
        let (h, c) = state.split_at_mut(lstm.padded);
        let (h, c, y) = (&mut h[..output], &mut c[..hidden], &mut y[..output]);
        if lstm.masked && x.last() == Some(&0) {
            y.copy_from_slice(h);
            return;
        }
        let (columns, work) = work.split_at_mut(lstm.panels.operands_len::<S>());
        let columns = lstm.panels.operands(lstm.simd, x, h, columns);
        let (m, work) = work.split_at_mut(lstm.projected_len().min(hidden));
        lstm.stepped::<PLAIN>(columns, c, if m.is_empty() { &mut *h } else { &mut *m }, odd);
        if let Some(projection) = &lstm.projection {
            lstm.simd.call(Project { projection, simd: lstm.simd, m, work, h });
        }
        y.copy_from_slice(h);
    }
}

impl<S: Integers> Lstm<'_, S> {
    /// Replaces c by c', and writes m.
    #[inline(always)]
    fn stepped<const PLAIN: bool>(&self, columns: &[S::Columns], c: &mut [i16], m: &mut [i16], odd: bool) {
        let (simd, hidden) = (self.simd, self.panels.units);
        let blocks = Blocks::<S, GATES, 1, false>::new(simd, &self.panels);
        let mut turn = turn(self.panels.blocks::<S>(), odd);
        if const { !PLAIN } {
            for block in turn {
                let sums = blocks.sums(block, columns, &mut Nothing);
                let units = units::<S>(block, hidden);
                self.updated::<PLAIN, true>(block, sums, &mut c[units.clone()], &mut m[units]);
            }
            return;
        }
        let Some(mut at) = turn.next() else { return };
        let mut sums = blocks.sums(at, columns, &mut Nothing);
        for block in turn {
            let now = units::<S>(at, hidden);
            let mut update = Update::<S, PLAIN>::new(self, at, sums, simd.widen(&c[now.clone()]));
            sums = blocks.sums(block, columns, &mut update);
            simd.narrow(update.c, &mut c[now.clone()]);
            simd.narrow(update.m, &mut m[now]);
            at = block;
        }
        self.updated::<PLAIN, PLAIN>(at, sums, &mut c[units::<S>(at, hidden)], &mut m[units::<S>(at, hidden)]);
    }

    /// Updates the units of a block. `INLINED` has the meaning that it has for [`at_once`].
    #[inline(always)]
    fn updated<const PLAIN: bool, const INLINED: bool>(
        &self,
        block: usize,
        sums: Sums<S::Vector, GATES>,
        c: &mut [i16],
        m: &mut [i16],
    ) {
        let update = Update::<S, PLAIN>::new(self, block, sums, self.simd.widen(c));
        let update = at_once::<S, _, INLINED>(self.simd, update);
        self.simd.narrow(update.c, c);
        self.simd.narrow(update.m, m);
    }
}

impl<S: Integers> Cell<S> for Lstm<'_, S> {
    fn simd(&self) -> S {
        self.simd
    }

    fn columns(&self) -> [usize; 2] {
        self.panels.columns
    }

    fn vectors(&self) -> usize {
        GATES * self.panels.blocks::<S>()
    }

    fn scratch(&self) -> usize {
        self.projected_len()
    }

    fn is_masked(&self) -> bool {
        self.masked
    }

    #[inline(always)]
    fn of_input(&self, x: &[S::Columns], stride: usize, before: &mut [S::Lanes]) {
        of_input::<S, GATES, 1, false>(self.simd, &self.panels, (x, stride), before, (self.vectors(), 0));
    }

    #[inline(always)]
    fn step_all(&self, rest: Rest<'_, S>) {
        if const { S::INTERLEAVED } && self.mix.is_plain {
            return self.all_stepped::<true>(rest);
        }
        self.all_stepped::<false>(rest);
    }
}

impl<S: Integers> Lstm<'_, S> {
    /// Elements of scratch of a projection: m, and m as an operand.
    const fn projected_len(&self) -> usize {
        match self.projection {
            Some(_) => self.panels.units + Panels::operand_len::<S>(self.panels.units),
            None => 0,
        }
    }

    #[inline(always)]
    fn all_stepped<const PLAIN: bool>(&self, rest: Rest<'_, S>) {
        let Rest { active, states, carried, scratch, before: sums, odd } = rest;
        let (simd, hidden, [_, output]) = (self.simd, self.panels.units, self.panels.columns);
        let blocks = Blocks::<S, GATES, 1, false>::new(simd, &self.panels);
        let stride = Panels::operand_len::<S>(output);
        let carried: &[S::Columns] = bytemuck::cast_slice(Rest::<S>::operands(simd, active, states, output, carried));
        let columns = |index: usize| &carried[index * stride / S::COLUMNS..(index + 1) * stride / S::COLUMNS];
        let vectors = Cell::vectors(self);
        let alone = if PLAIN { active } else { &[] };
        if let &[(state, row)] = alone {
            let (h, c) = states[state..].split_at_mut(self.padded);
            let m = if self.projection.is_some() { &mut scratch[..hidden] } else { &mut h[..hidden] };
            let mut turn = turn(self.panels.blocks::<S>(), odd);
            let Some(mut at) = turn.next() else { return };
            let start = |block: usize| row * vectors + block * GATES;
            let mut now = blocks.of_carried_beside(at, columns(0), before(simd, sums, start(at)), &mut Nothing);
            for block in turn {
                let units = units::<S>(at, hidden);
                let mut update = Update::<S, PLAIN>::new(self, at, now, simd.widen(&c[units.clone()]));
                now = blocks.of_carried_beside(block, columns(0), before(simd, sums, start(block)), &mut update);
                simd.narrow(update.c, &mut c[units.clone()]);
                simd.narrow(update.m, &mut m[units]);
                at = block;
            }
            self.updated::<PLAIN, PLAIN>(at, now, &mut c[units::<S>(at, hidden)], &mut m[units::<S>(at, hidden)]);
        }
        let together = if alone.len() == 1 { &[] } else { active };
        for block in turn(self.panels.blocks::<S>(), odd) {
            let at = block * GATES;
            let (pairs, rest) = together.as_chunks::<ROWS>();
            for (pair, &[(state_a, a), (state_b, b)]) in pairs.iter().enumerate() {
                let (first, second) = (ROWS * pair, ROWS * pair + 1);
                let both = [before(simd, sums, a * vectors + at), before(simd, sums, b * vectors + at)];
                let [a, b] = blocks.of_carried::<ROWS>(block, [columns(first), columns(second)], both);
                self.one_updated::<PLAIN>(block, a, &mut states[state_a..], (&mut *scratch, first));
                self.one_updated::<PLAIN>(block, b, &mut states[state_b..], (&mut *scratch, second));
            }
            for &(state, row) in rest {
                let last = active.len() - 1;
                let one = [before(simd, sums, row * vectors + at)];
                let [sums] = blocks.of_carried::<1>(block, [columns(last)], one);
                self.one_updated::<PLAIN>(block, sums, &mut states[state..], (&mut *scratch, last));
            }
        }
        let Some(projection) = &self.projection else { return };
        for (&(state, _), scratch) in active.iter().zip(scratch.chunks_exact_mut(self.projected_len())) {
            let (m, work) = scratch.split_at_mut(hidden);
            simd.call(Project { projection, simd, m, work, h: &mut states[state..state + output] });
        }
    }

    /// Updates the units of a block of a sequence. m goes to the scratch of the projection, or to h without one.
    #[inline(always)]
    fn one_updated<const PLAIN: bool>(
        &self,
        block: usize,
        sums: Sums<S::Vector, GATES>,
        state: &mut [i16],
        (scratch, index): (&mut [i16], usize),
    ) {
        let hidden = self.panels.units;
        let (h, c) = state.split_at_mut(self.padded);
        let projected = self.projected_len();
        let m = if projected > 0 { &mut scratch[index * projected..][..hidden] } else { h };
        let units = units::<S>(block, hidden);
        self.updated::<PLAIN, PLAIN>(block, sums, &mut c[units.clone()], &mut m[units]);
    }
}

/// h = clip(P m)
struct Project<'s, S> {
    projection: &'s Projection,
    simd: S,
    m: &'s [i16],
    work: &'s mut [i16],
    h: &'s mut [i16],
}

impl<S: Integers> Task for Project<'_, S> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { projection: Projection { panels, clip }, simd, m, work, h } = self;
        let m = operand(simd, m, work);
        let blocks = Blocks::<S, 1, CHAINS, false>::new(simd, panels);
        for block in 0..panels.blocks::<S>() {
            let [sum] = blocks.sums(block, m, &mut Nothing).gates;
            simd.narrow(clamp(simd, sum, -clip, *clip), &mut h[units::<S>(block, panels.units)]);
        }
    }
}
