//! Facts about a graph that its readings have found, and what another reading may try after an error.

use std::collections::{BTreeSet, HashMap};

use super::past::AllDelays;
use super::proto::{DimProto, ValueInfo};
use super::value::Axis;
use super::{Reader, Role, hint, written};
use crate::{data::one_line, error::ImportError, error::Result};

#[derive(Default)]
pub(super) struct Learnt {
    /// Roles of dimensions; an axis has the number of the graph's input.
    pub roles: HashMap<Axis, Role>,
    /// Inputs that are weights.
    pub constants: Vec<String>,
    /// States that are delays of layer outputs.
    pub delays: AllDelays,
    /// States that are inputs and outputs of the network.
    pub ports: BTreeSet<String>,
    /// The only open dimension, which is as long as `--window` says.
    pub window: Option<Axis>,
}

impl Reader<'_> {
    /// Gives the length of `--window` to an open dimension, if exactly one has no role and is not the first dimension of its
    /// input. Returns whether this call has found one.
    pub(super) fn takes_window(&self, learnt: &mut Learnt) -> Result<bool> {
        if self.options.window.is_none() || learnt.window.is_some() {
            return Ok(false);
        }
        let inputs: Vec<&ValueInfo> = self.variable(learnt).collect();
        let mut open = Vec::new();
        for (k, input) in inputs.into_iter().enumerate() {
            let (_, said) = self.said(input)?;
            let axes = (1..said.len()).filter(|&axis| said[axis].is_none() && !learnt.roles.contains_key(&(k, axis)));
            open.extend(axes.map(|axis| (k, axis)));
        }
        if let [axis] = open[..] {
            learnt.window = Some(axis);
        }
        Ok(learnt.window.is_some())
    }

    /// Whether a tensor at hand has the length of `--window` along a dimension that the graph leaves open.
    pub(super) fn offers_window(&self) -> bool {
        let is_given = |(_, input): (usize, &ValueInfo)| {
            let shape = input.of.as_ref()?.tensor.as_ref()?.shape.as_ref()?;
            let offered = self.options.onnx.offered.get(&input.name)?;
            let mut dims = shape.dim.iter().rev().zip(offered.shape.iter().rev());
            let open = |dim: &DimProto| dim.value.is_none_or(|dim| dim <= 0);
            Some(dims.any(|(dim, &size)| open(dim) && self.options.window == Some(size)))
        };
        self.inputs().any(|input| is_given(input) == Some(true))
    }

    /// Reads every batch of a fixed size as steps, because the graph may need all of it. Returns whether there is such a
    /// batch. Operators with a state for each sequence of a batch refuse steps, and any other operator reads each step
    /// alone.
    fn has_frames(&self, learnt: &mut Learnt) -> Result<bool> {
        let inputs: Vec<&ValueInfo> = self.variable(learnt).collect();
        let said = inputs.iter().map(|input| Ok(self.said(input)?.1)).collect::<Result<Vec<_>>>()?;
        let of_batch = learnt.roles.iter_mut().filter(|(_, role)| **role == Role::Batch);
        let frames = of_batch.filter(|((input, axis), _)| said[*input][*axis].is_some_and(|size| size > 1));
        Ok(frames.map(|(_, role)| *role = Role::Time).count() > 0)
    }

    /// Changes a role after an error, so that reading may start again. Returns the error if there is nothing to change.
    pub(super) fn again(
        &self,
        error: ImportError,
        learnt: &mut Learnt,
        before: &mut Option<ImportError>,
    ) -> Result<()> {
        if matches!(error, ImportError::NeedsWindow { .. }) {
            return Err(error);
        }
        if let Some(before) = before.take() {
            return Err(before);
        }
        if self.takes_window(learnt)? {
            return Ok(());
        }
        let is_limit = matches!(error, ImportError::Limit { .. });
        let error = self.explained(error, learnt)?;
        if is_limit || !self.has_frames(learnt)? {
            return Err(error);
        }
        *before = Some(error);
        Ok(())
    }

    /// Adds the open dimensions, which were assumed to be 1, to an error that they may have caused.
    fn explained(&self, error: ImportError, learnt: &Learnt) -> Result<ImportError> {
        for (k, input) in self.variable(learnt).enumerate() {
            let (_, said) = self.said(input)?;
            if (0..said.len()).any(|axis| said[axis].is_none() && !learnt.roles.contains_key(&(k, axis))) {
                return Ok(ImportError::Refused {
                    found: format!(
                        "{error}; its input {:?} is {}; give its shape, as in {}",
                        one_line(&input.name),
                        written(&said),
                        self.shape_hint(&input.name, &said)
                    ),
                    advice: "",
                });
            }
        }
        Ok(error)
    }

    /// The option `--shape` for an input. Its open dimensions get the first of some usual lengths with which the graph can be
    /// read.
    pub(super) fn shape_hint(&self, input: &str, dims: &[Option<usize>]) -> String {
        if self.proposes {
            for length in hint::LENGTHS {
                let shape: Vec<usize> = hint::filled(dims, length).collect();
                let mut options = self.options.clone();
                options.onnx.shapes.insert(input.to_owned(), shape.clone());
                let other = Reader {
                    options: &options,
                    initializers: self.initializers.clone(),
                    budget: self.budget.clone(),
                    starts: self.starts.clone(),
                    work: self.work.clone(),
                    proposes: false,
                    ..*self
                };
                let found = other.first(&mut Learnt::default());
                self.work.set(other.work.get());
                if found.is_ok() {
                    return hint::shape(input, &shape.into_iter().map(Some).collect::<Vec<_>>());
                }
            }
        }
        hint::shape(input, dims)
    }
}
