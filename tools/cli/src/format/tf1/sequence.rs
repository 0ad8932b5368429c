//! What runs over time: the body of a loop, or the steps of an unrolled one, as cells and layers over sequences.

use super::pattern::{self, Cell, Found};
use super::symbol::{Arena, At, Dim, Expr, Id, is_symbol};

/// Deepest network that is read.
pub const MAX_DEPTH: usize = 100;
/// What ends as no cell does.
const UNKNOWN: &str = "no cell that this importer knows ends so";
/// Most different cells.
const MAX_CELLS: usize = 256;

/// The sequence [batch, time, ...] of what the body of loop `frame` computes in `turns` turns.
pub fn of_loop(arena: &mut Arena, frame: usize, value: Id, turns: Dim) -> Result<Id, String> {
    lift(arena, frame, value, turns, 0)
}

fn lift(arena: &mut Arena, frame: usize, value: Id, turns: Dim, depth: usize) -> Result<Id, String> {
    if let Some(&lifted) = arena.lifted.get(&(frame, value)) {
        return Ok(lifted);
    }
    if depth == MAX_DEPTH {
        return Err(format!("the loop's body is deeper than {MAX_DEPTH}"));
    }
    let lifted = match *arena.expr(value) {
        Expr::Step(sequence, At::Turn(of)) if of == frame => {
            if arena.shape(sequence)[1] != turns {
                return Err("the loop does not run over all steps of its input".into());
            }
            sequence
        }
        _ => match pattern::find(arena, value).filter(|found| within(arena, frame, found)) {
            Some(found) => {
                check_initial(arena, &found)?;
                let x = lift(arena, frame, found.x, turns, depth + 1)?;
                rnn(arena, found.cell, x)?
            }
            None => {
                let is_state = matches!(arena.expr(value), Expr::Variable(_));
                if is_state || arena.operands(value).is_empty() {
                    return Err(UNKNOWN.into());
                }
                arena.with_operands(value, |arena, operand| lift(arena, frame, operand, turns, depth + 1))?
            }
        },
    };
    arena.lifted.insert((frame, value), lifted);
    Ok(lifted)
}

/// Whether the states of a cell are those of this loop.
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
        if !arena.is_zero(initial) {
            return Err("the state before the first step must be zeros".into());
        }
    }
    Ok(())
}

/// A cell over a sequence.
fn rnn(arena: &mut Arena, cell: Cell, x: Id) -> Result<Id, String> {
    let mut shape = arena.shape(x).to_vec();
    if shape.len() != 3 {
        return Err("a cell must run over [batch, steps, features]".into());
    }
    shape[2] = cell.output_size() as Dim;
    let number = match arena.cells.iter().position(|known| *known == cell) {
        Some(number) => number,
        None if arena.cells.len() == MAX_CELLS => return Err(format!("it has more than {MAX_CELLS} cells")),
        None => {
            arena.cells.push(cell);
            arena.cells.len() - 1
        }
    };
    arena.make(Expr::Rnn(number, x), shape)
}

/// The sequence [batch, time, ...] of which these are the steps.
pub fn of_steps(arena: &mut Arena, steps: &[Id], depth: usize) -> Result<Id, String> {
    let &[first, .., last] = steps else {
        let &[only] = steps else { return Err("it has no steps".into()) };
        return of_pair(arena, steps, only, only, depth);
    };
    of_pair(arena, steps, first, last, depth)
}

fn of_pair(arena: &mut Arena, steps: &[Id], first: Id, last: Id, depth: usize) -> Result<Id, String> {
    if depth == MAX_DEPTH {
        return Err(format!("the network is deeper than {MAX_DEPTH}"));
    }
    let operands = arena.operands(first).len() + 1;
    arena.spend_steps(steps.len().saturating_mul(operands))?;
    // Steps of one sequence, in its order or the other.
    if let (&Expr::Step(sequence, _), &Expr::Step(other, _)) = (arena.expr(first), arena.expr(last))
        && sequence == other
    {
        let count = arena.shape(sequence)[1];
        if is_symbol(count) || count != steps.len() as Dim {
            return Err(format!("{} steps of a sequence are used, but not all", steps.len()));
        }
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
    if let Some(found) = pattern::find(arena, last) {
        if arena.is_zero(found.hidden) && steps.len() > 1 {
            let mut turned = steps.to_vec();
            turned.reverse();
            let sequence = of_cell(arena, &turned, depth)?;
            return arena.reverse(sequence);
        }
        return of_cell(arena, steps, depth);
    }
    // The same layer at every step.
    let mut operands = Vec::new();
    for &step in steps {
        operands.push(arena.operands(step));
        if !alike(arena.expr(first), arena.expr(step)) {
            return Err("its steps are not computed alike".into());
        }
    }
    let mut lifted = Vec::new();
    for k in 0..operands[0].len() {
        let of_each: Option<Vec<Id>> = operands.iter().map(|operands| operands.get(k).copied()).collect();
        let of_each = of_each.ok_or("its steps are not computed alike")?;
        lifted.push(of_steps(arena, &of_each, depth + 1)?);
    }
    if lifted.is_empty() {
        return Err("no cell or layer that this importer knows ends so".into());
    }
    let mut lifted = lifted.into_iter();
    arena.with_operands(first, |_, _| lifted.next().ok_or_else(|| "its steps are not computed alike".into()))
}

/// Whether two expressions differ in their operands only.
fn alike(a: &Expr, b: &Expr) -> bool {
    match (a, b) {
        (Expr::Unary(a, _), Expr::Unary(b, _)) => a == b,
        (Expr::Affine(_, a, b), Expr::Affine(_, c, d)) | (Expr::Clip(_, a, b), Expr::Clip(_, c, d)) => a == c && b == d,
        (Expr::Slice(_, a), Expr::Slice(_, b)) => a == b,
        (Expr::Norm(_, a, b, c), Expr::Norm(_, d, e, f)) => (a, b, c) == (d, e, f),
        (Expr::Softmax(_), Expr::Softmax(_)) | (Expr::Add(..), Expr::Add(..)) => true,
        (Expr::Mul(..), Expr::Mul(..)) | (Expr::Maximum(..), Expr::Maximum(..)) => true,
        (Expr::Concat(a), Expr::Concat(b)) => a.len() == b.len(),
        (Expr::Linear(a), Expr::Linear(b)) => {
            let blocks = a.terms.iter().map(|(_, block)| block).eq(b.terms.iter().map(|(_, block)| block));
            let weights = a.diagonals.iter().map(|(_, id)| id).eq(b.diagonals.iter().map(|(_, id)| id));
            blocks && weights && a.bias == b.bias && a.units == b.units
        }
        _ => false,
    }
}

/// A cell from its first step on.
fn of_cell(arena: &mut Arena, steps: &[Id], depth: usize) -> Result<Id, String> {
    let mut before: Option<(Id, Option<Id>)> = None;
    let &[.., last] = steps else { return Err("it has no steps".into()) };
    let cell = pattern::find(arena, last).ok_or(UNKNOWN)?.cell;
    let mut inputs = Vec::new();
    for &step in steps {
        let found = pattern::find(arena, step).ok_or(UNKNOWN)?;
        match before {
            None => check_initial(arena, &found)?,
            Some((hidden, state)) if found.hidden == hidden && found.state.map(|[old, _]| old) == state => {}
            Some(_) => return Err("a step does not follow the one before it".into()),
        }
        if found.cell != cell && !(arena.is_zero(found.hidden) && cell.begins_as(&found.cell)) {
            return Err("its steps have different weights".into());
        }
        before = Some((step, found.state.map(|[_, new]| new)));
        inputs.push(found.x);
    }
    let x = of_steps(arena, &inputs, depth + 1)?;
    rnn(arena, cell, x)
}

/// The steps of an unrolled cell up to this one.
pub fn chain(arena: &mut Arena, last: Id) -> Option<Vec<Id>> {
    let mut steps = vec![last];
    let mut found = pattern::find(arena, last)?;
    while !arena.is_zero(found.hidden) {
        if matches!(arena.expr(found.hidden), Expr::Variable(_)) || steps.len() == 65_535 {
            return None;
        }
        steps.push(found.hidden);
        arena.spend_steps(1).ok()?;
        found = pattern::find(arena, found.hidden)?;
    }
    steps.reverse();
    Some(steps)
}
