//! Values rounded to 16-bit integers, for quantization-aware training. Gradients pass through the rounding unchanged,
//! but are zero where a value saturated (Bengio, Léonard and Courville 2013; Jacob et al. 2018).

use tidegate::internals::quant::MAX;

/// Scales of the values of a pseudo-layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Units {
    /// Scale of the hidden state.
    pub hidden: f32,
    /// Scale of the cell state of an LSTM.
    pub cell: f32,
    /// Scale of the input of an LSTM's projection.
    pub memory: f32,
}

/// Rounds a value to the nearest 16-bit multiple of `unit`, and reports whether it saturated.
pub fn counted(value: f32, unit: f32) -> (f32, bool) {
    let (most, units) = (MAX as f32, (value / unit).round_ties_even());
    (units.clamp(-most, most) * unit, units.abs() > most)
}

/// Rounds all values in place and returns which of them saturated.
pub fn count(values: &mut [f32], unit: f32) -> Vec<bool> {
    let each = values.iter_mut().map(|value| {
        let (near, cut) = counted(*value, unit);
        *value = near;
        cut
    });
    each.collect()
}

/// Clears the gradient of saturated values.
pub fn stop(gradient: &mut [f32], cut: &[bool]) {
    for (gradient, _) in gradient.iter_mut().zip(cut).filter(|(_, cut)| **cut) {
        *gradient = 0.0;
    }
}
