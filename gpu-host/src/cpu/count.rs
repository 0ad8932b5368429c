//! Values as 16 bits count them, for a training that is to end in integers. Gradients go through as if nothing had been
//! rounded, but not where a value was cut off (Bengio, Léonard and Courville 2013; Jacob et al. 2018).

use tidegate::quant::MAX;

/// What a unit of the values of a pseudo-layer is worth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Units {
    /// Of its hidden state.
    pub hidden: f32,
    /// Of an LSTM's cell state.
    pub cell: f32,
    /// Of what an LSTM's projection reads.
    pub memory: f32,
}

impl Units {
    /// Of a layer that has only outputs.
    pub const fn of_outputs(unit: f32) -> Self {
        Self { hidden: unit, cell: unit, memory: unit }
    }
}

/// A value as the nearest of the numbers that 16 bits count, and whether it was cut off.
pub fn counted(value: f32, unit: f32) -> (f32, bool) {
    let (most, units) = (MAX as f32, (value / unit).round_ties_even());
    (units.clamp(-most, most) * unit, units.abs() > most)
}

/// All of them in place; tells which were cut off.
pub fn count(values: &mut [f32], unit: f32) -> Vec<bool> {
    let each = values.iter_mut().map(|value| {
        let (near, cut) = counted(*value, unit);
        *value = near;
        cut
    });
    each.collect()
}

/// No gradient goes back to what was cut off.
pub fn stop(gradient: &mut [f32], cut: &[bool]) {
    for (gradient, _) in gradient.iter_mut().zip(cut).filter(|(_, cut)| **cut) {
        *gradient = 0.0;
    }
}
