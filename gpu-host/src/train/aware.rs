//! Quantization-aware training: each step uses the weights and values as `tidegate pack` would round them.

use std::path::Path;

use tidegate::Numeric;
use tidegate_model::canonical::Canonical;
use tidegate_model::load::LoadError;
use tidegate_model::pack::PackError;
use tidegate_model::quantize::Ranges;

use super::data::Data;
use super::{Result, TrainError};
use crate::cpu::Batch;
use crate::cpu::count::counted;
use crate::network::{Integers, Network, NetworkError, RoundError, Rounded, Scaling};

/// Number of sequences, evenly spaced in the training data, over which ranges are measured.
const CALIBRATION: usize = 128;

/// Makes the canonical model for parameters.
pub(super) type Make<'a> = &'a (dyn Fn(&[f32]) -> Result<Canonical> + Sync);

/// Rounding of a training's weights and values.
pub(super) struct Aware<'a> {
    network: &'a Network,
    integers: Integers,
    scaling: &'a Scaling,
    arch: &'a Path,
    make: Make<'a>,
    calibration: Vec<Vec<f32>>,
    /// Ranges at the start of the epoch.
    ranges: Ranges,
}

impl<'a> Aware<'a> {
    /// Prepares the rounding of a network's weights and values. `data` must be scaled.
    pub(super) fn new(
        (network, arch): (&'a Network, &'a Path),
        numeric: Numeric,
        (data, scaling): (&Data, &'a Scaling),
        make: Make<'a>,
    ) -> Result<Self, NetworkError> {
        let every = data.train.len().div_ceil(CALIBRATION).max(1);
        let first = data.train.iter().step_by(every).filter_map(|example| example.variants.first());
        let unscaled = first.map(|rows| {
            let mut rows = rows.clone();
            rows.chunks_exact_mut(data.features).for_each(|row| scaling.undo(row));
            rows
        });
        let calibration = unscaled.collect();
        let integers = Integers::new(network, numeric, scaling)?;
        Ok(Self { network, integers, scaling, arch, make, calibration, ranges: Ranges::default() })
    }

    /// Measures the ranges of values with the current parameters.
    pub(super) fn measure(&mut self, params: &[f32]) -> Result<()> {
        let sequences: Vec<[&[f32]; 1]> = self.calibration.iter().map(|rows| [rows.as_slice()]).collect();
        let measured = Ranges::measure(&(self.make)(params)?, sequences.iter().map(<[_; 1]>::as_slice));
        let failed = |source| LoadError::Ranges { path: self.arch.to_owned(), source: Box::new(source) };
        self.ranges = measured.map_err(failed)?;
        Ok(())
    }

    /// The rounded parameters, and the scales of values.
    pub(super) fn rounded(&self, params: &[f32]) -> Result<Rounded> {
        let model = (self.make)(params)?;
        let path = self.arch.to_owned();
        self.integers.rounded(self.network, params, &model, &self.ranges).map_err(|error| match error {
            RoundError::Quantize(source) => LoadError::Pack { path, source: PackError::from(source) }.into(),
            RoundError::Network(source) => TrainError::Network { path, source },
        })
    }

    /// Rounds the input to 16 bits.
    pub(super) fn count_input(&self, batch: &mut Batch, unit: f32) {
        for row in batch.data.chunks_exact_mut(batch.features) {
            self.scaling.undo(row);
            row.iter_mut().for_each(|value| *value = counted(*value, unit).0);
            self.scaling.apply(row);
        }
    }
}
