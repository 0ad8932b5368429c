//! The time axis of an image, the geometry of a kernel along this axis, and whether a network looks ahead in time: such a
//! network must process a window of its sequence as a whole, any other can run step by step.

use super::sequence;
use super::symbol::{Arena, At, Dim, Expr, Id, Kernel, Padding};

/// One axis of an image and of the kernel over it.
#[derive(Clone, Copy)]
pub(super) struct Along {
    pub input: usize,
    pub taps: usize,
    pub stride: usize,
    pub dilation: usize,
    pub before: usize,
    pub behind: usize,
    pub output: usize,
}

impl Along {
    pub fn new(input: usize, output: usize, kernel: &Kernel, axis: usize) -> Self {
        let [taps, stride, dilation] = [kernel.taps[axis], kernel.strides[axis], kernel.dilations[axis]];
        let reach = (taps - 1) * dilation + 1;
        // Padding of TensorFlow's SAME; the smaller half is in front (tensorflow/core/framework/common_shape_fns.cc).
        let missing = ((output.max(1) - 1) * stride + reach).saturating_sub(input);
        let [before, behind] = match kernel.padding {
            Padding::Same => [missing / 2, missing - missing / 2],
            Padding::Of(zeros) => zeros[axis],
        };
        Self { input, taps, stride, dilation, before, behind, output }
    }

    pub fn reach(&self) -> usize {
        (self.taps - 1) * self.dilation + 1
    }
}

/// The index of the time dimension: 1, or 2 in a sequence that was reshaped to an image of height 1.
pub(super) fn time_axis(arena: &Arena, id: Id) -> Option<usize> {
    let mut id = id;
    if !matches!(arena.shape(id).len(), 3 | 4) {
        return None;
    }
    // This terminates: each iteration moves to an operand, which was created earlier.
    while arena.shape(id).len() == 4 {
        match (arena.expr(id), arena.operands(id).first()) {
            (Expr::Reshape(_), Some(&inner)) if arena.shape(inner).len() == 3 => {
                let (image, sequence) = (arena.shape(id), arena.shape(inner));
                return Some(if image[1] == 1 && image[2..] == sequence[1..] { 2 } else { 1 });
            }
            (Expr::Reshape(_), _) | (_, None) => return Some(1),
            (_, Some(&operand)) => id = operand,
        }
    }
    Some(1)
}

/// Whether any output depends on later steps.
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
                    // Pooling ignores padding, whereas a streaming window starts filled with zeros.
                    if along.behind > 0 || (along.before > 0 && over.weights().is_none()) {
                        return true;
                    }
                }
            }
            _ => {}
        }
        // The steps of an unrolled loop form a sequence; its inputs show whether it is reversed.
        let unrolled = if arena.shape(id).len() == 2 { sequence::unrolled(arena, id) } else { None };
        match (unrolled, arena.expr(id)) {
            (Some(Ok((_, At::Step(0)))), _) => return true,
            (Some(unrolled), _) => open.extend(unrolled.map(|(sequence, _)| sequence)),
            (None, Expr::Stack(steps)) => {
                let steps = steps.clone();
                open.extend(sequence::of_steps(arena, &steps, 0));
            }
            (None, _) => open.extend(arena.operands(id)),
        }
    }
    false
}
