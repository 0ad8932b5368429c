//! One golden case: a file of parameters, inputs, initial states and what the framework itself computed, run
//! through importer, packer, `core` and the oracle. `data/README.md` and the cases' metadata say how they were made.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use safetensors::{Dtype, SafeTensors};
use tidegate::{Model, Numeric, State};
use tidegate_tools::canonical::{Canonical, Tensor};
use tidegate_tools::error::ImportError;
use tidegate_tools::format::golden::from_case;

use crate::images::AlignedBytes;
use crate::oracle::{Bounded, Oracle};
use crate::tolerance::{all_within, same_bits};

/// What came of a case.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Every output and final state is what it should be; the largest part of the tolerance that was used.
    Passed(f64),
    /// The words say what is not.
    Failed(String),
    /// The importer, or this runner, says that it lacks something: never a pass.
    Unsupported(String),
}

/// Why a case did not pass.
enum Stop {
    Failed(String),
    Unsupported(String),
}

fn failed(reason: impl std::fmt::Display) -> Stop {
    Stop::Failed(reason.to_string())
}

fn unsupported(reason: impl std::fmt::Display) -> Stop {
    Stop::Unsupported(reason.to_string())
}

/// Runs the case in a file.
pub fn run_file(path: &Path) -> Verdict {
    let run = || {
        let bytes = std::fs::read(path).map_err(failed)?;
        Case::read(&bytes)?.run()
    };
    match run() {
        Ok(used) => Verdict::Passed(used),
        Err(Stop::Failed(reason)) => Verdict::Failed(reason),
        Err(Stop::Unsupported(reason)) => Verdict::Unsupported(reason),
    }
}

/// The tolerance rule that this runner holds.
const RULE: &str = "abs(a-b) <= tolerance * max(1, max|expected|)";

struct Case {
    metadata: HashMap<String, String>,
    /// Every tensor of f32; whole numbers are widened.
    tensors: BTreeMap<String, Tensor>,
    inputs: Vec<String>,
    outputs: Vec<String>,
    tolerance: f64,
}

impl Case {
    fn read(bytes: &[u8]) -> Result<Self, Stop> {
        let (_, header) = SafeTensors::read_metadata(bytes).map_err(failed)?;
        let metadata = header.metadata().clone().unwrap_or_default();
        let mut tensors = BTreeMap::new();
        for (name, view) in SafeTensors::deserialize(bytes).map_err(failed)?.iter() {
            let quads = view.data().as_chunks::<4>().0.iter();
            let data = match view.dtype() {
                Dtype::F32 => quads.map(|&quad| f32::from_le_bytes(quad)).collect(),
                Dtype::I32 => quads.map(|&quad| i32::from_le_bytes(quad) as f32).collect(),
                Dtype::I64 => {
                    view.data().as_chunks::<8>().0.iter().map(|&eight| i64::from_le_bytes(eight) as f32).collect()
                }
                // Inputs of other types (masks, times in f64) are refused by name below.
                _ => continue,
            };
            tensors.insert(name.to_owned(), Tensor { shape: view.shape().to_vec(), data });
        }
        let text = |key: &str| metadata.get(key).cloned().ok_or_else(|| failed(format!("its metadata have no {key}")));
        let names = |key: &str| -> Result<Vec<String>, Stop> { serde_json::from_str(&text(key)?).map_err(failed) };
        if text("tolerance_rule")? != RULE {
            return Err(unsupported(format!("tolerance rule {:?}", text("tolerance_rule")?)));
        }
        let tolerance = text("tolerance")?.parse().map_err(failed)?;
        Ok(Self { inputs: names("input_names")?, outputs: names("output_names")?, tolerance, tensors, metadata })
    }

    fn run(&self) -> Result<f64, Stop> {
        let model = from_case(&self.metadata, &self.tensors).map_err(|error| match error {
            ImportError::Unsupported(reason) => unsupported(reason),
            other => failed(other),
        })?;
        self.check_names()?;
        let bytes = AlignedBytes::pack(&model, Numeric::F32);
        let run = Run { case: self, canonical: &model, model: Model::parse(bytes.image()).map_err(failed)? };
        run.whole()
    }

    /// Refuses what this runner would ignore.
    fn check_names(&self) -> Result<(), Stop> {
        let known = |name: &str| matches!(name, "input" | "sequence_length") || name.starts_with("initial_");
        if let Some(name) = self.inputs.iter().find(|name| !known(name)) {
            return Err(unsupported(format!("input {name:?}")));
        }
        let known = |name: &str| name == "output" || name.starts_with("final_");
        if let Some(name) = self.outputs.iter().find(|name| !known(name)) {
            return Err(unsupported(format!("output {name:?}")));
        }
        match self.outputs.iter().any(|name| name == "output") {
            true => Ok(()),
            false => Err(failed("it has no output")),
        }
    }

    fn tensor(&self, name: &str) -> Result<&Tensor, Stop> {
        self.tensors.get(name).ok_or_else(|| unsupported(format!("{name:?} is not there as f32, i32 or i64")))
    }
}

/// A sequence tensor `[batch, time, features]` or `[time, batch, features]`.
struct Sequence<'c> {
    data: &'c [f32],
    batch: usize,
    time: usize,
    features: usize,
    time_major: bool,
}

impl<'c> Sequence<'c> {
    fn new(name: &str, tensor: &'c Tensor, layout: &str) -> Result<Self, Stop> {
        let [first, second, features] = *tensor.shape else {
            return Err(unsupported(format!("{name} of {} dimensions", tensor.shape.len())));
        };
        let time_major = match layout {
            layout if layout.starts_with("time-major") => true,
            layout if layout.starts_with("batch-major") || layout.starts_with("batch_first") => false,
            other => return Err(unsupported(format!("layout {other:?}"))),
        };
        let (batch, time) = if time_major { (second, first) } else { (first, second) };
        Ok(Self { data: &tensor.data, batch, time, features, time_major })
    }

    /// The rows of one entry of the batch, `[time, features]`.
    fn entry(&self, entry: usize) -> Vec<f32> {
        let row = |t| if self.time_major { t * self.batch + entry } else { entry * self.time + t };
        (0..self.time).flat_map(|t| &self.data[row(t) * self.features..][..self.features]).copied().collect()
    }
}

struct Run<'r> {
    case: &'r Case,
    canonical: &'r Canonical,
    model: Model<'r>,
}

impl Run<'_> {
    fn whole(&self) -> Result<f64, Stop> {
        let layout = self.case.metadata.get("layout").map_or("", String::as_str);
        let input = Sequence::new("input", self.case.tensor("input")?, layout)?;
        let output = Sequence::new("output", self.case.tensor("output")?, layout)?;
        if (input.batch, input.time) != (output.batch, output.time) || input.features != self.model.input_size() {
            return Err(failed("input and output do not fit each other or the model"));
        }
        let mut used = 0.0_f64;
        for entry in 0..input.batch {
            let (x, expected) = (input.entry(entry), output.entry(entry));
            let len = self.len(entry, input.time)?;
            let part = self.entry(entry, &x, &expected, len);
            used = used.max(part.map_err(|stop| match stop {
                Stop::Failed(reason) => Stop::Failed(format!("batch entry {entry}: {reason}")),
                other => other,
            })?);
        }
        Ok(used)
    }

    /// Steps of this entry; behind them the output is 0 and the state stays (TensorFlow 1, packed PyTorch).
    fn len(&self, entry: usize, time: usize) -> Result<usize, Stop> {
        if !self.case.inputs.iter().any(|name| name == "sequence_length") {
            return Ok(time);
        }
        let len = self.case.tensor("sequence_length")?.data.get(entry).map(|&len| len as usize);
        len.filter(|&len| len <= time).ok_or_else(|| failed("sequence_length does not fit the input"))
    }

    fn entry(&self, entry: usize, x: &[f32], expected: &[f32], len: usize) -> Result<f64, Stop> {
        let initial = self.states("initial", entry)?;
        let x = &x[..len * self.model.input_size()];
        let (stepped, final_stepped) = self.step_by_step(&initial, x);
        let (whole, final_whole) = self.at_once(&initial, x);
        same_bits(&stepped, &whole).map_err(|miss| failed(format!("steps differ from the sequence: {miss}")))?;
        same_bits(&final_stepped, &final_whole)
            .map_err(|miss| failed(format!("final states of steps and sequence differ: {miss}")))?;

        let oracle = Oracle::new(self.canonical);
        let mut state: Vec<Bounded> = initial.iter().map(|&value| Bounded::exact(value)).collect();
        let exact: Vec<Bounded> = oracle.run(&mut state, x);
        let narrow = |values: &[Bounded]| -> Vec<f32> { values.iter().map(|bounded| bounded.value as f32).collect() };

        let mut used = 0.0_f64;
        let rows = [(&stepped, &final_stepped, "core"), (&narrow(&exact), &narrow(&state), "the f64 oracle")];
        for (computed, last, who) in rows {
            let mut padded = computed.clone();
            padded.resize(expected.len(), 0.0);
            used = used.max(self.compare(who, "output", &padded, expected)?);
            used = used.max(self.compare_finals(who, entry, last)?);
        }
        Ok(used)
    }

    fn compare(&self, who: &str, what: &str, got: &[f32], expected: &[f32]) -> Result<f64, Stop> {
        let expected: Vec<f64> = expected.iter().copied().map(f64::from).collect();
        let part = all_within(got, &expected, self.case.tolerance);
        part.map_err(|miss| failed(format!("{what} of {who}: {miss}")))
    }

    fn compare_finals(&self, who: &str, entry: usize, last: &[f32]) -> Result<f64, Stop> {
        if !self.case.outputs.iter().any(|name| name.starts_with("final_")) {
            return Err(failed("it has no final state"));
        }
        let expected = self.states("final", entry)?;
        self.compare(who, "final state", last, &expected)
    }

    fn step_by_step(&self, initial: &[f32], x: &[f32]) -> (Vec<f32>, Vec<f32>) {
        let mut memory = vec![0; self.model.state_words()];
        let mut scratch = vec![u32::MAX; self.model.scratch_words()];
        let mut state = State::new(&self.model, &mut memory).expect("the memory has the model's own length");
        state.values_mut().copy_from_slice(initial);
        let mut outputs = Vec::new();
        for x in x.chunks(self.model.input_size()) {
            let mut y = vec![0.0; self.model.output_size()];
            let step = self.model.step_f32(&mut state, &mut scratch, x, &mut y).expect("every length is right");
            assert!(step.has_output(), "an endless schedule has an output at every step");
            outputs.extend(y);
        }
        (outputs, state.values().to_vec())
    }

    fn at_once(&self, initial: &[f32], x: &[f32]) -> (Vec<f32>, Vec<f32>) {
        let mut memory = vec![0; self.model.state_words()];
        let mut scratch = vec![0; self.model.scratch_words()];
        let mut state = State::new(&self.model, &mut memory).expect("the memory has the model's own length");
        state.values_mut().copy_from_slice(initial);
        let mut outputs = vec![0.0; x.len() / self.model.input_size() * self.model.output_size()];
        let written = self.model.run_f32(&mut state, &mut scratch, x, &mut outputs).expect("every length is right");
        assert_eq!(written * self.model.output_size(), outputs.len(), "a row for every step");
        (outputs, state.values().to_vec())
    }

    /// The states of one entry as a [`State`] holds them: node after node, h before c. Zeros where the case has none.
    ///
    /// Layouts: `<when>_h`, `<when>_c` as [batch, features], or PyTorch's [layers, batch, features]; TensorFlow's
    /// `<when>_state`, which holds c before h where `state_is_tuple` is false.
    fn states(&self, when: &str, entry: usize) -> Result<Vec<f32>, Stop> {
        let prefix = format!("{when}_");
        let names = [&self.case.inputs, &self.case.outputs].into_iter().flatten();
        let given: Vec<&str> = names.filter_map(|name| name.strip_prefix(&prefix)).collect();
        let mut parts = Vec::new();
        for (layer, node) in self.canonical.architecture.nodes.iter().enumerate() {
            let (units, output) = (node.hidden_size, node.output_size);
            let part = match (node.cell.as_str(), given.as_slice()) {
                ("lstm", []) if when == "initial" => vec![0.0; output + units],
                (_, []) if when == "initial" => vec![0.0; units],
                ("lstm", ["state"]) => {
                    let both = self.part(when, "state", layer, entry, units + output)?;
                    [&both[units..], &both[..units]].concat()
                }
                ("lstm", ["h", "c"] | ["c", "h"]) => {
                    let h = self.part(when, "h", layer, entry, output)?;
                    [h, self.part(when, "c", layer, entry, units)?].concat()
                }
                ("gru" | "elman", ["h"]) => self.part(when, "h", layer, entry, units)?,
                ("gru" | "elman", ["state"]) => self.part(when, "state", layer, entry, units)?,
                (cell, other) => return Err(unsupported(format!("{when} states {other:?} of {cell}"))),
            };
            parts.extend(part);
        }
        Ok(parts)
    }

    fn part(&self, when: &str, name: &str, layer: usize, entry: usize, len: usize) -> Result<Vec<f32>, Stop> {
        let name = format!("{when}_{name}");
        let tensor = self.case.tensor(&name)?;
        let layers = self.canonical.architecture.nodes.len();
        let row = match *tensor.shape {
            [batch, features] if layers == 1 && entry < batch && features == len => entry,
            [of, batch, features] if of == layers && entry < batch && features == len => layer * batch + entry,
            _ => return Err(unsupported(format!("{name} of shape {:?}", tensor.shape))),
        };
        Ok(tensor.data[row * len..(row + 1) * len].to_vec())
    }
}
