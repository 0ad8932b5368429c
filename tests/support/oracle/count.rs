//! The work that the oracle does: products of weights, and activations, exponentials and logarithms. It counts what is
//! computed, so it knows nothing of how `core` counts.

use std::cell::Cell;

thread_local! {
    static MACS: Cell<u64> = const { Cell::new(0) };
    static CURVES: Cell<u64> = const { Cell::new(0) };
}

/// Multiply-accumulates and curves of this thread since the last call.
pub fn taken() -> [u64; 2] {
    [MACS.take(), CURVES.take()]
}

pub(super) fn macs(count: usize) {
    MACS.set(MACS.get() + count as u64);
}

pub(super) fn curves(count: usize) {
    CURVES.set(CURVES.get() + count as u64);
}
