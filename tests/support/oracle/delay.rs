//! The input of `steps` steps ago. The state is the rows that wait, in a ring, then the index of the oldest.

use super::{Bounded, Cell};

pub fn state_len(cell: &Cell<'_>) -> usize {
    cell.extent("steps") * cell.input_size() + 1
}

pub fn step(cell: &Cell<'_>, x: &[Bounded], state: &mut [Bounded]) -> Vec<Bounded> {
    let (steps, size) = (cell.extent("steps"), cell.input_size());
    let oldest = state[steps * size].value as usize;
    let row = &mut state[oldest * size..][..size];
    let output = row.to_vec();
    row.copy_from_slice(x);
    state[steps * size] = Bounded::exact(((oldest + 1) % steps) as f32);
    output
}
