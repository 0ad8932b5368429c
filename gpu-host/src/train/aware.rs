//! Training that is to end in integers: each step learns with weights and values as `tidegate pack` would round them now.

use std::path::Path;

use tidegate::Numeric;
use tidegate_tools::canonical::Canonical;
use tidegate_tools::load::LoadError;
use tidegate_tools::pack::PackError;
use tidegate_tools::quantize::Ranges;

use super::TrainError;
use super::data::Data;
use crate::cpu::Batch;
use crate::cpu::count::counted;
use crate::network::{Integers, Network, NetworkError, RoundError, Rounded, Scaling};

/// Sequences, evenly spaced among those that are trained on, over which ranges are measured.
const CALIBRATION: usize = 128;

/// Makes the canonical model of parameters.
pub(super) type Make<'a> = &'a (dyn Fn(&[f32]) -> Result<Canonical, TrainError> + Sync);

/// A training as its integers count it.
pub(super) struct Aware<'a> {
    network: &'a Network,
    integers: Integers,
    scaling: &'a Scaling,
    arch: &'a Path,
    make: Make<'a>,
    /// Not scaled.
    calibration: Vec<Vec<f32>>,
    /// As they were when the epoch began.
    ranges: Ranges,
}

impl<'a> Aware<'a> {
    /// `data` are scaled.
    ///
    /// # Errors
    /// As [`Integers::new`].
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

    /// Measures how far values reach now.
    ///
    /// # Errors
    /// If the model does not run.
    pub(super) fn measure(&mut self, params: &[f32]) -> Result<(), TrainError> {
        let sequences: Vec<[&[f32]; 1]> = self.calibration.iter().map(|rows| [rows.as_slice()]).collect();
        let measured = Ranges::measure(&(self.make)(params)?, sequences.iter().map(<[_; 1]>::as_slice));
        let failed = |source| LoadError::Ranges { path: self.arch.to_owned(), source: Box::new(source) };
        self.ranges = measured.map_err(failed)?;
        Ok(())
    }

    /// The parameters as integers keep them, and units.
    ///
    /// # Errors
    /// If a layer has no integer form.
    pub(super) fn rounded(&self, params: &[f32]) -> Result<Rounded, TrainError> {
        let model = (self.make)(params)?;
        let path = self.arch.to_owned();
        self.integers.rounded(self.network, params, &model, &self.ranges).map_err(|error| match error {
            RoundError::Quantize(source) => LoadError::Pack { path, source: PackError::from(source) }.into(),
            RoundError::Network(source) => TrainError::Network { path, source },
        })
    }

    /// What is read, as 16 bits count it.
    pub(super) fn count_input(&self, batch: &mut Batch, unit: f32) {
        for row in batch.data.chunks_exact_mut(batch.features) {
            self.scaling.undo(row);
            row.iter_mut().for_each(|value| *value = counted(*value, unit).0);
            self.scaling.apply(row);
        }
    }
}
