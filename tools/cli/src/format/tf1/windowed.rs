//! Whether a network can go step by step, or must look at a window of its sequence as a whole.

use super::lower_kernel::{Along, time_axis};
use super::sequence;
use super::symbol::{Arena, At, Dim, Expr, Id, Over};

/// Whether anything needs what comes after a step.
pub(super) fn needs_window(arena: &mut Arena, outputs: &[Id]) -> bool {
    let mut open = outputs.to_vec();
    let mut seen = vec![];
    while let Some(id) = open.pop() {
        if id >= seen.len() {
            seen.resize(id + 1, false);
        }
        if std::mem::replace(&mut seen[id], true) {
            continue;
        }
        match *arena.expr(id) {
            Expr::Reverse(_) | Expr::Step(_, At::Step(0)) => return true,
            Expr::Kernel(x, kernel, over) => {
                let (from, to) = (arena.shape(x).to_vec(), arena.shape(id).to_vec());
                if let Some(axis) = time_axis(arena, x) {
                    let size = |shape: &[Dim]| usize::try_from(shape[axis]).unwrap_or(0);
                    let along = Along::new(size(&from), size(&to), &kernel, axis - 1);
                    // A pool does not see the zeros that a window is filled with.
                    if along.behind > 0 || (along.before > 0 && !matches!(over, Over::Conv { .. })) {
                        return true;
                    }
                }
            }
            _ => {}
        }
        // Steps of an unrolled loop end in a sequence: reversed or not, its inputs tell.
        if let Some(steps) = sequence::chain(arena, id).filter(|_| arena.shape(id).len() == 2) {
            if let Ok(sequence) = sequence::of_steps(arena, &steps, 0) {
                open.push(sequence);
            }
            continue;
        }
        if let Expr::Stack(steps) = arena.expr(id).clone() {
            if let Ok(sequence) = sequence::of_steps(arena, &steps, 0) {
                open.push(sequence);
            }
            continue;
        }
        open.extend(arena.operands(id));
    }
    false
}
