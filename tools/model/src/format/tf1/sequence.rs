//! Cells and layers over sequences, from the body of a loop or from the steps of an unrolled one.

use super::first_step;
use super::pattern::{self, Found};
use super::symbol::{Arena, At, Cell, Dim, Expr, Id, NO_FORM, fail_if, intern, is_symbol};
use crate::budget::FIXED;

pub const MAX_DEPTH: usize = 100;
const UNKNOWN: &str = "no known cell has this form";
const ONE_END: &str = "a cell takes one step only, whose inputs are neither all at the first step nor all at the last";
const MAX_CELLS: usize = 256;

/// The sequence [batch, time, ...] of the values of `value` in the body of loop `frame`, over `turns` iterations.
pub fn of_loop(arena: &mut Arena, frame: usize, value: Id, turns: Dim, depth: usize) -> Result<Id, String> {
    if let Some(&lifted) = arena.lifted.get(&(frame, value)) {
        return Ok(lifted);
    }
    fail_if(depth == MAX_DEPTH, format_args!("the loop's body is deeper than {MAX_DEPTH}, {FIXED}"))?;
    let lifted = match *arena.expr(value) {
        Expr::Step(sequence, At::Turn(of)) if of == frame => {
            fail_if(arena.shape(sequence)[1] != turns, "the loop does not run over all steps of its input")?;
            sequence
        }
        _ => match pattern::find(arena, value).filter(|found| within(arena, frame, found)) {
            Some(found) => {
                check_initial(arena, &found)?;
                let x = of_loop(arena, frame, found.x, turns, depth + 1)?;
                rnn(arena, found.cell, x)?
            }
            None => {
                let is_state = matches!(arena.expr(value), Expr::Variable(_));
                fail_if(is_state || arena.operands(value).is_empty(), UNKNOWN)?;
                fail_if(!arena.is_stepwise(value), NO_FORM)?;
                let operands = arena.operands(value).into_iter();
                let lifted = operands.map(|operand| of_loop(arena, frame, operand, turns, depth + 1));
                let operands: Result<Vec<Id>, String> = lifted.collect();
                arena.with_operands(value, &operands?)?
            }
        },
    };
    arena.lifted.insert((frame, value), lifted);
    Ok(lifted)
}

/// Whether the states of a cell are variables of this loop.
fn within(arena: &Arena, frame: usize, found: &Found) -> bool {
    let own = |id: Id| match *arena.expr(id) {
        Expr::Variable(variable) => arena.variables[variable].frame == frame,
        _ => false,
    };
    own(found.hidden) && found.state.is_none_or(|[old, _]| own(old))
}

fn check_initial(arena: &Arena, found: &Found) -> Result<(), String> {
    for id in [Some(found.hidden), found.state.map(|[old, _]| old)].into_iter().flatten() {
        let initial = match *arena.expr(id) {
            Expr::Variable(variable) => arena.variables[variable].initial,
            _ => id,
        };
        fail_if(!arena.is_zero(initial), "the state before the first step must be zeros")?;
    }
    Ok(())
}

fn rnn(arena: &mut Arena, cell: Cell, x: Id) -> Result<Id, String> {
    let mut shape = arena.shape(x).to_vec();
    fail_if(shape.len() != 3, "a cell must run over [batch, steps, features]")?;
    shape[2] = cell.output_size() as Dim;
    let number = intern(&mut arena.cells, cell, MAX_CELLS);
    let number = number.ok_or_else(|| format!("it has more than {MAX_CELLS} cells, {FIXED}"))?;
    arena.make(Expr::Rnn(number, x), shape)
}

/// The sequence [batch, time, ...] that consists of these steps.
pub fn of_steps(arena: &mut Arena, steps: &[Id], depth: usize) -> Result<Id, String> {
    let (Some(&first), Some(&last)) = (steps.first(), steps.last()) else { return Err("it has no steps".into()) };
    fail_if(depth == MAX_DEPTH, format_args!("the network is deeper than {MAX_DEPTH}, {FIXED}"))?;
    let operands = arena.operands(first).len() + 1;
    arena.spend_steps(steps.len().saturating_mul(operands))?;
    // All steps of one sequence, forward or reversed.
    if let (&Expr::Step(sequence, _), &Expr::Step(other, _)) = (arena.expr(first), arena.expr(last))
        && sequence == other
    {
        let count = arena.shape(sequence)[1];
        let used = format_args!("{} steps of a sequence are used, but not all", steps.len());
        fail_if(is_symbol(count) || count != steps.len() as Dim, used)?;
        let place = |id: Id| match *arena.expr(id) {
            Expr::Step(from, At::Step(step)) if from == sequence => Some(step),
            Expr::Step(from, At::Last) if from == sequence => Some(steps.len() - 1),
            _ => None,
        };
        if steps.iter().enumerate().all(|(k, &step)| place(step) == Some(k)) {
            return Ok(sequence);
        }
        if steps.iter().enumerate().all(|(k, &step)| place(step) == Some(steps.len() - 1 - k)) {
            return arena.reverse(sequence);
        }
        return Err("steps are used in another order than the sequence's".into());
    }
    let turned: Vec<Id> = steps.iter().rev().copied().collect();
    let found = pattern::find(arena, last);
    let begins = found.as_ref().is_some_and(|found| arena.is_zero(found.hidden) && steps.len() > 1);
    if begins || (found.is_none() && folded(arena, &turned).is_some()) {
        let sequence = of_cell(arena, &turned, depth)?;
        return arena.reverse(sequence);
    }
    if found.is_some() {
        return of_cell(arena, steps, depth);
    }
    let same_layer = steps.iter().all(|&step| arena.is_alike(first, step));
    fail_if(!same_layer, "its steps are not computed alike")?;
    let operands: Vec<Vec<Id>> = steps.iter().map(|&step| arena.operands(step)).collect();
    let mut lifted = Vec::new();
    for k in 0..operands[0].len() {
        let of_each: Option<Vec<Id>> = operands.iter().map(|operands| operands.get(k).copied()).collect();
        let of_each = of_each.ok_or("its steps are not computed alike")?;
        lifted.push(of_steps(arena, &of_each, depth + 1)?);
    }
    if lifted.is_empty() { Err(NO_FORM.into()) } else { arena.with_operands(first, &lifted) }
}

/// The sequence of outputs of a cell; `steps` are its outputs from the first step on.
fn of_cell(arena: &mut Arena, steps: &[Id], depth: usize) -> Result<Id, String> {
    let &[first, .., last] = steps else { return Err("it has no steps".into()) };
    let cell = pattern::find(arena, last).ok_or(UNKNOWN)?.cell;
    let (mut before, mut inputs, others) = match folded(arena, steps) {
        Some((x, state)) => (Some((first, state)), vec![x], &steps[1..]),
        None => (None, Vec::new(), steps),
    };
    for &step in others {
        let found = pattern::find(arena, step).ok_or(UNKNOWN)?;
        match before {
            None => check_initial(arena, &found)?,
            Some((hidden, state)) if found.hidden == hidden && found.state.map(|[old, _]| old) == state => {}
            Some(_) => return Err("a step does not follow the one before it".into()),
        }
        let same = found.cell == cell || (arena.is_zero(found.hidden) && cell.begins_as(&found.cell));
        fail_if(!same, "its steps have different weights")?;
        before = Some((step, found.state.map(|[_, new]| new)));
        inputs.push(found.x);
    }
    let x = of_steps(arena, &inputs, depth + 1)?;
    rnn(arena, cell, x)
}

/// The input and the cell state of the first of these steps, if its initial state has been folded.
fn folded(arena: &mut Arena, steps: &[Id]) -> Option<(Id, Option<Id>)> {
    let &[first, second, ..] = steps else { return None };
    let found = pattern::find(arena, second).filter(|found| found.hidden == first)?;
    Some((first_step::input(arena, &found, second)?, found.state.map(|[old, _]| old)))
}

/// The sequence of outputs of an unrolled cell, and the step of it that `output` is.
///
/// A cell that runs backward takes its first step at the end of the sequence. If only this output is used, the graph has no
/// other step of the cell; the sequence is then found from the values that the step reads.
pub fn unrolled(arena: &mut Arena, output: Id) -> Option<Result<(Id, At), String>> {
    let steps = chain(arena, output)?;
    Some(match steps.len() {
        1 => match lifted(arena, output, At::Last, 0) {
            Ok(sequence) => Ok((sequence, At::Last)),
            Err(reason) => {
                lifted(arena, output, At::Step(0), 0).map(|sequence| (sequence, At::Step(0))).or(Err(reason))
            }
        },
        _ => of_steps(arena, &steps, 0).map(|sequence| (sequence, At::Last)),
    })
}

/// The sequence whose step `at`, the first or the last one, is `value`.
fn lifted(arena: &mut Arena, value: Id, at: At, depth: usize) -> Result<Id, String> {
    fail_if(depth == MAX_DEPTH, format_args!("the network is deeper than {MAX_DEPTH}, {FIXED}"))?;
    arena.spend_steps(1)?;
    if let Expr::Step(sequence, of) = *arena.expr(value) {
        fail_if(of != at, ONE_END)?;
        return Ok(sequence);
    }
    match chain(arena, value) {
        Some(steps) if steps.len() == 1 => {
            let found = pattern::find(arena, value).ok_or(UNKNOWN)?;
            check_initial(arena, &found)?;
            let x = lifted(arena, found.x, at, depth + 1)?;
            if at != At::Last {
                return rnn(arena, found.cell, x);
            }
            let turned = arena.reverse(x)?;
            let sequence = rnn(arena, found.cell, turned)?;
            arena.reverse(sequence)
        }
        Some(steps) => {
            let sequence = of_steps(arena, &steps, depth + 1)?;
            let backward =
                matches!(*arena.expr(sequence), Expr::Rnn(_, x) if matches!(arena.expr(x), Expr::Reverse(_)));
            fail_if(backward == (at == At::Last), ONE_END)?;
            if backward { arena.reverse(sequence) } else { Ok(sequence) }
        }
        None => {
            let operands = arena.operands(value);
            fail_if(operands.is_empty() || !arena.is_stepwise(value), NO_FORM)?;
            let lifted: Result<Vec<Id>, String> =
                operands.into_iter().map(|operand| lifted(arena, operand, at, depth + 1)).collect();
            arena.with_operands(value, &lifted?)
        }
    }
}

/// The outputs of an unrolled cell from its first step up to `last`.
pub fn chain(arena: &mut Arena, last: Id) -> Option<Vec<Id>> {
    let mut steps = vec![last];
    let mut found = pattern::find(arena, last)?;
    while !arena.is_zero(found.hidden) {
        if matches!(arena.expr(found.hidden), Expr::Variable(_)) || steps.len() == 65_535 {
            return None;
        }
        steps.push(found.hidden);
        arena.spend_steps(1).ok()?;
        match pattern::find(arena, found.hidden) {
            Some(before) => found = before,
            None => {
                first_step::input(arena, &found, steps[steps.len() - 2])?;
                break;
            }
        }
    }
    steps.reverse();
    Some(steps)
}
