//! Runs a golden case on its model: each sequence of the batch, from its initial state, with every backend and in every
//! mode, compared with the expected values.

use std::cell::RefCell;
use std::collections::BTreeMap;

use tidegate::{Batch, Model};
use tidegate_model::canonical::Tensor;
use tidegate_model::format::{At, Control, Conversion, Idle, StatePart};

use super::sequence::{Axes, Rows};
use super::way::{Exact, Steps, Stepwise, Way, at_once};
use super::{Case, Stop, failed, unsupported};
use crate::backend::{self, Backend};
use crate::tolerance::{each_within, same_bits, worse, worst};

/// A case with its model, resolved before the first step.
pub struct Run<'r> {
    case: &'r Case,
    conversion: &'r Conversion,
    model: &'r Model<'r>,
    input_axes: Axes,
    output_axes: Axes,
    /// Successive calls, each starting from the state that the previous call left. A single `None` stands for one call.
    calls: Vec<Option<usize>>,
    states: Vec<Place<'r>>,
    traces: Vec<Place<'r>>,
    /// Which elements of each tensor have been used or compared.
    visited: RefCell<BTreeMap<String, Vec<bool>>>,
}

/// A part of the model's states and the case tensor that holds it.
struct Place<'r> {
    part: &'r StatePart,
    first: usize,
    len: usize,
}

/// Results for one sequence.
struct Got {
    /// For each output, one row for each step that counts.
    rows: Vec<Rows>,
    /// For each output, one row for each step of the sequence.
    outputs: Vec<Rows>,
    /// The state after each step that counts.
    seen: Vec<Vec<f32>>,
    last: Vec<f32>,
}

impl<'r> Run<'r> {
    pub fn new(case: &'r Case, conversion: &'r Conversion, model: &'r Model<'r>) -> Result<Self, Stop> {
        let layout = case.metadata.get("layout").map_or("", String::as_str);
        let axes = |which| Axes::parse(layout, which).ok_or_else(|| unsupported(format!("layout {layout:?}")));
        let first = &conversion.model.architecture.inputs[0].name;
        let calls = match case.has_input(first) {
            true => vec![None],
            false => (0..).take_while(|k| case.has_input(&format!("{first}_{k}"))).map(Some).collect(),
        };
        if calls.is_empty() {
            return Err(failed(format!("it has no input {first:?}")));
        }
        let places = |parts: &'r [StatePart]| parts.iter().map(|part| place(model, part)).collect::<Result<_, _>>();
        Ok(Self {
            case,
            conversion,
            model,
            input_axes: axes("input")?,
            output_axes: axes("output")?,
            calls,
            states: places(&conversion.states)?,
            traces: places(&conversion.traces)?,
            visited: RefCell::default(),
        })
    }

    /// Runs every sequence of the batch. Returns the largest fraction of the tolerance that was used.
    pub fn whole(&self) -> Result<f64, Stop> {
        let first = called(&self.conversion.model.architecture.inputs[0].name, self.calls[0]);
        let batch = self.sequences(&first, self.input_axes)?.len();
        let mut used = 0.0_f64;
        for backend in backend::all(self.model) {
            let mut stepped = Vec::new();
            for entry in 0..batch {
                let (part, got) = self.entry(&*backend, entry).map_err(|stop| match stop {
                    Stop::Failed(reason) => Stop::Failed(format!("batch entry {entry}: {reason}")),
                    other => other,
                })?;
                used = used.max(part);
                stepped.push(got);
            }
            self.together(&*backend, &stepped)?;
        }
        let visited = self.visited.borrow();
        for name in self.case.inputs.iter().chain(&self.case.outputs) {
            if !visited.get(name).is_some_and(|elements| elements.iter().all(|&visited| visited)) {
                return Err(unsupported(format!("{name:?}, or a part of it, has no place in the model")));
            }
        }
        Ok(used)
    }

    /// Runs one sequence of the batch step by step and by the oracle. Also returns the results of each call, step by
    /// step.
    fn entry(&self, backend: &dyn Backend, entry: usize) -> Result<(f64, Vec<Got>), Stop> {
        let initial = self.initial(entry)?;
        let window = self.conversion.window;
        let mut stepwise = Stepwise::new(backend, window);
        let mut exact = Exact::new(&self.conversion.model, window);
        let (mut used, mut stepped) = (0.0_f64, Vec::new());
        let ways: [&mut dyn Way; 2] = [&mut exact, &mut stepwise];
        for way in ways {
            way.begin(&initial);
            stepped.clear();
            for &call in &self.calls {
                let got = self.sequence(way, entry, call)?;
                let part = self.compare(entry, call, &got).map_err(|stop| match stop {
                    Stop::Failed(reason) => Stop::Failed(format!("{}: {reason}", way.name())),
                    other => other,
                })?;
                used = used.max(part);
                stepped.push(got);
            }
        }
        Ok((used, stepped))
    }

    /// Runs one sequence in one mode.
    fn sequence(&self, way: &mut dyn Way, entry: usize, call: Option<usize>) -> Result<Got, Stop> {
        let (steps, counts) = self.steps(entry, call)?;
        let mut seen = Vec::new();
        let rows = way.run(&steps, &mut |state| seen.push(state.to_vec()));
        let counts = match self.conversion.reversed {
            true => counts.into_iter().rev().collect(),
            false => counts,
        };
        let window = self.conversion.window.unwrap_or(1);
        let sizes = self.conversion.model.architecture.outputs.iter().map(|port| port.size / window);
        let outputs = rows.iter().zip(sizes).map(|(rows, size)| self.spread(rows.clone(), &counts, size)).collect();
        Ok(Got { rows, outputs, seen, last: way.state() })
    }

    /// Runs all sequences as one batch and each alone. The results must be bit-identical to stepping.
    fn together(&self, backend: &dyn Backend, stepped: &[Vec<Got>]) -> Result<(), Stop> {
        let mut memory = vec![u32::MAX; stepped.len() * self.model.state_words()];
        let mut batch =
            Batch::new(self.model, stepped.len(), &mut memory).expect("the memory has the batch's own length");
        for (entry, mut state) in batch.states().enumerate() {
            state.values_mut().copy_from_slice(&self.initial(entry)?);
        }
        for (index, &call) in self.calls.iter().enumerate() {
            let mut sequences = Vec::new();
            let mut time = 0;
            for entry in 0..stepped.len() {
                let (steps, counts) = self.steps(entry, call)?;
                time = counts.len();
                sequences.push(steps);
            }
            let whole = at_once(backend, self.conversion.window, &mut batch, &sequences, time);
            for ((entry, rows), mut state) in whole.iter().enumerate().zip(batch.states()) {
                let got = &stepped[entry][index];
                let bits = |rows: &[Rows]| rows.concat().concat();
                same_bits(&bits(&got.rows), &bits(rows)).map_err(|miss| {
                    failed(format!("{}, batch entry {entry}: steps differ from the sequence: {miss}", backend.name()))
                })?;
                same_bits(&got.last, state.values_mut()).map_err(|miss| {
                    failed(format!(
                        "{}, batch entry {entry}: final states of steps and sequence differ: {miss}",
                        backend.name()
                    ))
                })?;
            }
        }
        Ok(())
    }

    /// The steps of a sequence that count, and a flag for each step of the sequence.
    fn steps(&self, entry: usize, call: Option<usize>) -> Result<(Steps, Vec<bool>), Stop> {
        let inputs = self.inputs(entry, call)?;
        let (counts, resets) = self.controls(entry, inputs[0].len())?;
        let mut steps = Steps { inputs: vec![Rows::new(); inputs.len()], resets: Vec::new() };
        let mut reset = false;
        for (t, &counted) in counts.iter().enumerate() {
            reset |= resets[t];
            if counted {
                steps.inputs.iter_mut().zip(&inputs).for_each(|(rows, all)| rows.push(all[t].clone()));
                steps.resets.push(std::mem::take(&mut reset));
            }
        }
        Ok((steps, counts))
    }

    /// Rows for all steps: those of the steps that count, and the values that the framework has for the others.
    fn spread(&self, rows: Rows, counts: &[bool], size: usize) -> Rows {
        let mut rows = rows.into_iter();
        let mut last = vec![0.0; size];
        let mut row = |&counts: &bool| {
            match (counts, &self.conversion.idle) {
                (true, _) => last = rows.next().expect("there is a row for every step that counts"),
                (false, Idle::Zero) => last.fill(0.0),
                (false, Idle::Repeat) => {}
                (false, Idle::Always(row)) => last.clone_from(row),
            }
            last.clone()
        };
        counts.iter().map(&mut row).collect()
    }

    /// Which steps count, and before which steps the states are reset to zero.
    fn controls(&self, entry: usize, steps: usize) -> Result<(Vec<bool>, Vec<bool>), Stop> {
        let (mut counts, mut resets) = (vec![true; steps], vec![false; steps]);
        for (name, control) in &self.conversion.controls {
            let unfit = || failed(format!("{name:?} does not fit the input"));
            if *control == Control::Length {
                let tensor = self.case.tensor(name)?;
                let len = if tensor.data.len() == 1 { tensor.data.first() } else { tensor.data.get(entry) };
                let len = len.map(|&len| len as usize).filter(|&len| len <= steps).ok_or_else(unfit)?;
                counts[len..].fill(false);
                self.visit(name, 0..tensor.data.len());
                continue;
            }
            let values = self.sequences(name, self.input_axes)?.swap_remove(entry);
            if values.len() != steps || values.iter().any(|row| row.len() != 1) {
                return Err(unfit());
            }
            for ((row, counts), reset) in values.iter().zip(&mut counts).zip(&mut resets) {
                match control {
                    Control::Length => {}
                    Control::Mask => *counts &= row[0] != 0.0,
                    Control::Padding => *counts &= row[0] == 0.0,
                    Control::Reset if row[0] != 0.0 && row[0] != 1.0 => {
                        return Err(unsupported(format!("{name:?} with a value of {}", row[0])));
                    }
                    Control::Reset => *reset = row[0] != 0.0,
                }
            }
        }
        if self.conversion.window.is_some() && resets.contains(&true) {
            return Err(unsupported("states that are zeroed within a window"));
        }
        Ok((counts, resets))
    }

    /// The sequence of each input port.
    fn inputs(&self, entry: usize, call: Option<usize>) -> Result<Vec<Rows>, Stop> {
        let mut inputs: Vec<Rows> = Vec::new();
        for port in &self.conversion.model.architecture.inputs {
            let name = called(&port.name, call);
            let mut sequences = self.sequences(&name, self.input_axes)?;
            if entry >= sequences.len() {
                return Err(failed(format!("{name:?} has a smaller batch")));
            }
            let rows = sequences.swap_remove(entry);
            if rows.iter().any(|row| row.len() != port.size)
                || inputs.first().is_some_and(|first| first.len() != rows.len())
            {
                return Err(failed(format!("{name:?} does not fit the model")));
            }
            inputs.push(rows);
        }
        Ok(inputs)
    }

    fn sequences(&self, name: &str, axes: Axes) -> Result<Vec<Rows>, Stop> {
        let tensor = self.case.tensor(name)?;
        self.visit(name, 0..tensor.data.len());
        axes.sequences(tensor).ok_or_else(|| unsupported(format!("{name:?} of {} dimensions", tensor.shape.len())))
    }

    /// The states before the first step, or zeros where the case has none.
    fn initial(&self, entry: usize) -> Result<Vec<f32>, Stop> {
        let mut values = vec![0.0; self.model.state_elements()];
        for place in &self.states {
            let name = format!("initial_{}", place.part.at.tensor);
            if self.case.has_input(&name) {
                let given = self.part(&name, &place.part.at.initial(), place.len, entry)?;
                for (value, given) in values[place.first..].iter_mut().zip(given) {
                    *value = place.part.at.entry.apply(given);
                }
            }
        }
        Ok(values)
    }

    /// Compares outputs, traces and final states. Returns the largest fraction of the tolerance that was used.
    fn compare(&self, entry: usize, call: Option<usize>, got: &Got) -> Result<f64, Stop> {
        let mut used = 0.0_f64;
        for ((port, rows), made) in self.conversion.model.architecture.outputs.iter().zip(&got.outputs).zip(&got.rows) {
            let name = called(&port.name, call);
            used = used.max(match self.conversion.last_only {
                true => self.compare_last(&name, entry, made, port.size / self.conversion.window.unwrap_or(1))?,
                false => self.compare_rows(&name, entry, rows)?,
            });
        }
        for place in &self.traces {
            let rows: Rows = got.seen.iter().map(|state| state[place.first..][..place.len].to_vec()).collect();
            used = used.max(self.compare_rows(
                &called(&format!("output_{}", place.part.at.tensor), call),
                entry,
                &rows,
            )?);
        }
        for place in &self.states {
            let tensor = &place.part.at.tensor;
            let name = match call {
                None => format!("final_{tensor}"),
                Some(call) => format!("state_after_{call}_{tensor}"),
            };
            if self.case.has_output(&name) {
                let expected = self.part(&name, &place.part.at, place.len, entry)?;
                let last = &got.last[place.first..][..place.len];
                used = used.max(self.within(&name, self.case.tensor(&name)?, last, &expected)?);
            }
        }
        Ok(used)
    }

    /// Compares an output, which may end where the steps that count end.
    fn compare_rows(&self, name: &str, entry: usize, rows: &Rows) -> Result<f64, Stop> {
        let mut sequences = self.sequences(name, self.output_axes)?;
        if entry >= sequences.len() {
            return Err(failed(format!("{name:?} has a smaller batch")));
        }
        let expected = sequences.swap_remove(entry);
        let counted = self
            .controls(entry, rows.len())
            .map_or(rows.len(), |(counts, _)| counts.iter().rposition(|&counts| counts).map_or(0, |last| last + 1));
        if expected.len() != rows.len() && expected.len() != counted {
            return Err(failed(format!("{name:?} has {} steps, not {}", expected.len(), rows.len())));
        }
        self.within(name, self.case.tensor(name)?, &rows[..expected.len()].concat(), &expected.concat())
    }

    /// Compares the last row that was produced, or zeros if none was.
    fn compare_last(&self, name: &str, entry: usize, made: &Rows, size: usize) -> Result<f64, Stop> {
        let tensor = self.case.tensor(name)?;
        let Some(&batch) = tensor.shape.first().filter(|&&batch| tensor.data.len() == batch * size) else {
            return Err(unsupported(format!("{name:?} of shape {:?}", tensor.shape)));
        };
        if entry >= batch {
            return Err(failed(format!("{name:?} has a smaller batch")));
        }
        let own = entry * size..(entry + 1) * size;
        self.visit(name, own.clone());
        self.within(name, tensor, made.last().unwrap_or(&vec![0.0; size]), &tensor.data[own])
    }

    fn within(&self, name: &str, whole: &Tensor, got: &[f32], expected: &[f32]) -> Result<f64, Stop> {
        let scale = worse(1.0, worst(whole.data.iter().map(|&value| f64::from(value).abs())));
        let expected: Vec<f64> = expected.iter().copied().map(f64::from).collect();
        let bounds = vec![self.case.tolerance * scale; expected.len()];
        each_within(got, &expected, &bounds).map_err(|miss| failed(format!("{name}: {miss}")))
    }

    /// The elements of a tensor that hold a part of a state, for one entry of the batch.
    fn part(&self, name: &str, at: &At, len: usize, entry: usize) -> Result<Vec<f32>, Stop> {
        let tensor = self.case.tensor(name)?;
        let (lead, dims) = match (at.index, tensor.shape.as_slice()) {
            (None, dims) => (0, dims),
            (Some(index), [of, dims @ ..]) if index < *of => (index, dims),
            _ => return Err(unsupported(format!("{name} of shape {:?}", tensor.shape))),
        };
        let [batch, features @ ..] = dims else {
            return Err(unsupported(format!("{name} of shape {:?}", tensor.shape)));
        };
        let features: usize = features.iter().product();
        if entry >= *batch || at.from + len > features {
            return Err(failed(format!(
                "{name} of shape {:?} does not hold {} elements from {} on",
                tensor.shape, len, at.from
            )));
        }
        let start = (lead * batch + entry) * features + at.from;
        self.visit(name, start..start + len);
        Ok(tensor.data[start..start + len].to_vec())
    }

    fn visit(&self, name: &str, elements: std::ops::Range<usize>) {
        let mut visited = self.visited.borrow_mut();
        let len = self.case.tensors.get(name).map_or(0, |tensor| tensor.data.len());
        visited.entry(name.to_owned()).or_insert_with(|| vec![false; len])[elements].fill(true);
    }
}

/// Finds a state part among the model's states.
fn place<'r>(model: &Model<'_>, part: &'r StatePart) -> Result<Place<'r>, Stop> {
    let range = model
        .state_range(&part.node, part.state)
        .ok_or_else(|| failed(format!("the model has no state {:?} of {:?}", part.state, part.node)))?;
    let given = part.at.len.unwrap_or(range.len().saturating_sub(part.at.first));
    if part.at.first + given > range.len() {
        return Err(failed(format!("{} of {} has {} elements", part.state, part.node, range.len())));
    }
    Ok(Place { part, first: range.start + part.at.first, len: given })
}

fn called(name: &str, call: Option<usize>) -> String {
    call.map_or_else(|| name.to_owned(), |call| format!("{name}_{call}"))
}
