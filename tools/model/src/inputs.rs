//! The inputs of a model in a file: one sequence, or many with their classes.

use std::collections::BTreeMap;
use std::path::Path;

use tidegate::{Model, Numeric, Port, Schedule};

use crate::canonical::{self, Tensor};
use crate::data::{
    Audio, DataError, Examples, Stored, is_audio, is_index, read_audio, read_audio_at, read_index, read_index_files,
    read_series, read_stored_tensors,
};
use crate::runner::clip_features;
use crate::sound::front_end_of;

/// Sequences for a model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Inputs {
    /// For each sequence and each input of the model, `[steps, size]`.
    pub sequences: Vec<Vec<Vec<f32>>>,
    /// Class of each sequence, from 0; empty if the file has none.
    pub classes: Vec<usize>,
    /// Names of the classes; empty if they have only numbers.
    pub labels: Vec<String>,
    /// Whether the file holds a list of sequences, which may have one entry.
    pub is_list: bool,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// A model, and what is known about its inputs.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    /// The model that takes the inputs.
    pub model: &'a Model<'a>,
    /// The inputs of its canonical model, as far as they are known.
    pub ports: &'a [canonical::Port],
    /// The file of the model, for errors.
    pub file: &'a Path,
}

/// The set of `x_train` and `x_test` that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// `x_train`, `y_train`, `lengths_train`.
    Train,
    /// `x_test`, `y_test`, `lengths_test`.
    Test,
}

impl Reader<'_> {
    /// Reads one sequence or many: sound for a model with a front end, or whose step is a sample; `.npy`, `.npz`,
    /// `.safetensors` or `.csv` with `[steps, size]` or `[n, steps, size]` for each input; tensors named `x`, `y` and
    /// `lengths`; a `.ts` file; or an index of files that hold a sequence each.
    ///
    /// # Errors
    /// If the file cannot be read, or does not fit the model.
    pub fn read(self, file: &Path, part: Part) -> Result<Inputs, DataError> {
        if is_audio(file) {
            return self.heard(file);
        }
        if file.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("ts")) {
            return self.examples(read_series(file)?, file);
        }
        if is_index(file)? {
            return self.index(file, part);
        }
        self.tensors(read_stored_tensors(file)?, file, part)
    }

    /// The sequences in tensors from `file`, by name. The only tensor of a file needs no name.
    ///
    /// # Errors
    /// If they do not fit the model.
    pub fn tensors(self, mut tensors: BTreeMap<String, Stored>, file: &Path, part: Part) -> Result<Inputs, DataError> {
        let inputs: Vec<Port<'_>> = self.model.inputs().collect();
        let names: Vec<&str> = inputs.iter().map(|port| port.name).collect();
        if let ([port], 1) = (inputs.as_slice(), tensors.len()) {
            let Some((_, stored)) = tensors.pop_first() else { return Ok(Inputs::default()) };
            let Split { rows, is_list, note } = self.split(stored, port, file)?;
            let sequences = rows.into_iter().map(|rows| vec![rows]).collect();
            return Ok(Inputs { sequences, is_list, notes: note.into_iter().collect(), ..Inputs::default() });
        }
        if let Some(suffix) = suffix(&tensors, &names, part) {
            let tensors = tensors.into_iter().map(|(name, stored)| (name, stored.tensor)).collect();
            return self.examples(Examples::tensors(file, &tensors, suffix)?, file);
        }
        if let Some(name) = tensors.keys().find(|name| !names.contains(&name.as_str())) {
            let reason = format!("tensor {name:?} is no input of the model, which has {}", names.join(", "));
            return Err(DataError::new(file, reason));
        }
        let take = |port: &Port<'_>| match tensors.remove(port.name) {
            Some(stored) => self.split(stored, port, file),
            None => Err(DataError::new(file, format!("has no tensor {:?}, which is an input of the model", port.name))),
        };
        let given = inputs.iter().map(take).collect::<Result<Vec<_>, _>>()?;
        let counts: Vec<usize> = given.iter().map(|split| split.rows.len()).collect();
        if counts.windows(2).any(|pair| pair[0] != pair[1]) {
            let reason = format!("its tensors have {counts:?} sequences; they must have the same number");
            return Err(DataError::new(file, reason));
        }
        let is_list = given.iter().any(|split| split.is_list);
        let notes = given.iter().filter_map(|split| split.note.clone()).collect();
        let mut columns: Vec<_> = given.into_iter().map(|split| split.rows.into_iter()).collect();
        let count = counts.first().copied().unwrap_or(0);
        let next = |_| columns.iter_mut().filter_map(Iterator::next).collect();
        let sequences: Vec<Vec<Vec<f32>>> = (0..count).map(next).collect();
        for sequence in &sequences {
            let steps: Vec<usize> =
                sequence.iter().zip(&inputs).map(|(values, port)| values.len() / port.size).collect();
            if steps.windows(2).any(|pair| pair[0] != pair[1]) {
                let reason = format!("its tensors have {steps:?} steps; they must have the same number");
                return Err(DataError::new(file, reason));
            }
        }
        Ok(Inputs { sequences, is_list, notes, ..Inputs::default() })
    }

    /// A sound: its features, or its samples from -1 to 1 if the model has no front end and a step is one number.
    fn heard(self, file: &Path) -> Result<Inputs, DataError> {
        if self.model.front_end().is_some() || !self.model.inputs().map(|port| port.size).eq([1]) {
            return Ok(Inputs { sequences: vec![vec![self.sound(file)?]], ..Inputs::default() });
        }
        let Audio { sample_rate, samples } = read_audio(file)?;
        if samples.is_empty() {
            return Err(DataError::new(file, "has no samples: give a sound that is not empty"));
        }
        let note = format!("its {} samples at {sample_rate} Hz are the steps", samples.len());
        let samples = samples.into_iter().map(|sample| f32::from(sample) / 32_768.0).collect();
        Ok(Inputs { sequences: vec![vec![samples]], notes: vec![note], ..Inputs::default() })
    }

    /// The features of a sound.
    fn sound(self, file: &Path) -> Result<Vec<f32>, DataError> {
        let mfcc = front_end_of(self.model, self.file)?;
        let audio = read_audio_at(file, mfcc.settings().sample_rate)?;
        let features = clip_features(mfcc, &audio.samples).map_err(|error| DataError::new(file, error))?;
        if features.is_empty() {
            let (found, frame) = (audio.samples.len(), mfcc.settings().window_len);
            return Err(DataError::new(file, format!("{found} samples are less than one frame of {frame}")));
        }
        Ok(features)
    }

    /// The sequences in the files of an index. Its column `label` is optional.
    fn index(self, index: &Path, part: Part) -> Result<Inputs, DataError> {
        let mut all = Inputs { is_list: true, ..Inputs::default() };
        let mut names = Vec::new();
        for file in read_index_files(index)? {
            let mut read = self.read(&file, part)?;
            if read.sequences.len() != 1 {
                let count = read.sequences.len();
                return Err(DataError::new(&file, format!("has {count} sequences, but a file of an index has one")));
            }
            all.sequences.append(&mut read.sequences);
            // One line for each of a thousand sounds would hide the others.
            all.notes.extend(read.notes.into_iter().filter(|_| !is_audio(&file)));
        }
        if let Ok(clips) = read_index(index) {
            names.extend(clips.into_iter().map(|clip| clip.label));
            all.labels.clone_from(&names);
            all.labels.sort();
            all.labels.dedup();
            let class = |name| all.labels.iter().position(|label| label == name).unwrap_or(0);
            all.classes = names.iter().map(class).collect();
        }
        Ok(all)
    }

    fn examples(self, examples: Examples, file: &Path) -> Result<Inputs, DataError> {
        let inputs: Vec<Port<'_>> = self.model.inputs().collect();
        let Examples { features, sequences, classes, labels } = examples;
        match inputs.as_slice() {
            [port] if port.size == features => {}
            [port] => {
                let (name, size) = (port.name, port.size);
                let reason = format!("has steps of {features} features; the input {name:?} takes [steps, {size}]");
                return Err(DataError::new(file, reason));
            }
            ports => {
                let reason = format!("has one input, but the model has {}: name the tensors as these", ports.len());
                return Err(DataError::new(file, reason));
            }
        }
        let sequences = sequences.into_iter().map(|rows| vec![rows]).collect();
        Ok(Inputs { sequences, classes, labels, is_list: true, notes: Vec::new() })
    }

    /// The sequences in a tensor of `[steps, size]` or `[n, steps, size]`. Leading dimensions of 1 are allowed. If the model
    /// takes a fixed number of steps in one call in its own framework, `[calls, steps, size]` is one sequence. If this number
    /// is 1, so are the calls with its input in any shape, such as `[calls, 1, 257, 1, 2]`, one such input, and the rows of
    /// such inputs, as in `[frames, features]`. Otherwise a step may have its own shape, as in `[calls, steps, 8, 9, 1]`.
    fn split(self, stored: Stored, port: &Port<'_>, file: &Path) -> Result<Split, DataError> {
        let Port { name, size, .. } = *port;
        let of = self.ports.iter().find(|of| of.name == name);
        let (call, frame) = (of.and_then(|of| of.rows), of.and_then(|of| of.frame));
        let mut tensor = real(stored, port, self.model.numeric() == Numeric::I8);
        let Some((count, dropped)) = sequences(&mut tensor, size, call, frame) else {
            let forms = match call.filter(|&call| call > 1) {
                Some(call) => format!("[steps, {size}] or [calls, {call}, {size}]"),
                None => {
                    let frames = frame.map_or_else(String::new, |frame| format!("[frames, {frame}], "));
                    format!("{frames}[steps, {size}] or [n, steps, {size}]")
                }
            };
            let reason = format!("tensor of shape {:?}; the input {name:?} takes {forms}", tensor.shape);
            return Err(DataError::new(file, reason));
        };
        if let Some(at) = tensor.data.iter().position(|value| !value.is_finite()) {
            let (step, value) = (at / size.max(1), tensor.data[at]);
            let reason = format!("the input {name:?} has {value} in step {step}; only finite numbers are allowed");
            return Err(DataError::new(file, reason));
        }
        if count > 1 {
            let rows = tensor.data.chunks(tensor.data.len() / count).map(<[f32]>::to_vec).collect();
            let is_stream = tensor.data.len() == count * size && self.model.schedule() == Schedule::Endless;
            let has_states = self.model.stateful_nodes().next().is_some();
            let note = (is_stream && has_states).then(|| {
                format!(
                    "each of the {count} sequences has one step; one sequence of {count} steps is [{count}, {size}]"
                )
            });
            return Ok(Split { rows, is_list: true, note });
        }
        let (values, note) = whole_calls(tensor.data, port, call, file)?;
        Ok(Split { rows: vec![values], is_list: false, note: dropped.or(note) })
    }
}

/// The number of sequences in a tensor, and a note about frames that do not fill a call, which are dropped. `None` if its
/// shape does not fit. `call` is the number of steps in a call, and `frame` that of features of a frame.
fn sequences(
    tensor: &mut Tensor,
    size: usize,
    call: Option<usize>,
    frame: Option<usize>,
) -> Option<(usize, Option<String>)> {
    if call.is_some_and(|call| call > 1) {
        tensor.shape = in_steps(std::mem::take(&mut tensor.shape), size);
    }
    let of_frames = |own: &[usize]| frame.is_none() || own.last().copied() == frame;
    let is_call = |own: &[usize]| call == Some(1) && elements(own) == Some(size) && of_frames(own);
    let count = match *tensor.shape.as_slice() {
        [only] if only == size => 1,
        [ref calls @ .., steps, last] if last == size && Some(steps) == call && !calls.contains(&0) => 1,
        [ref ones @ .., steps, last] if last == size && steps > 0 && ones.iter().all(|&one| one == 1) => 1,
        [count, steps, last] if last == size && steps > 0 && count > 0 && matches!(call, None | Some(1)) => count,
        [calls, ref own @ ..] if is_call(own) && calls > 0 => 1,
        ref own if is_call(own) => 1,
        [frames, features] if frame == Some(features) && frames >= size / features => {
            let each = size / features;
            let left = frames % each;
            tensor.data.truncate(tensor.data.len() - left * features);
            let dropped = || format!("{left} frames at the end do not fill a call of {each}, and are dropped");
            return Some((1, (left > 0).then(dropped)));
        }
        _ => return None,
    };
    Some((count, None))
}

/// A shape whose last dimension is a step of `size` elements, if its last dimensions are those of a step.
fn in_steps(shape: Vec<usize>, size: usize) -> Vec<usize> {
    let is_step = |at: &usize| elements(&shape[*at..]) == Some(size);
    match (1..shape.len()).find(is_step) {
        Some(at) => [&shape[..at], &[size]].concat(),
        None => shape,
    }
}

/// The number of elements of a shape.
fn elements(shape: &[usize]) -> Option<usize> {
    shape.iter().try_fold(1_usize, |all, &dim| all.checked_mul(dim))
}

/// The sequences in a tensor.
struct Split {
    rows: Vec<Vec<f32>>,
    is_list: bool,
    note: Option<String>,
}

/// Suffix of the names `x`, `y` and `lengths` in this file; `None` without such names, or if they are inputs of the model.
fn suffix(tensors: &BTreeMap<String, Stored>, inputs: &[&str], part: Part) -> Option<&'static str> {
    let first = if part == Part::Train { ["", "_train", "_test"] } else { ["", "_test", "_train"] };
    let has = |suffix: &&str| tensors.contains_key(&format!("x{suffix}"));
    let suffix = first.into_iter().find(has)?;
    let are_inputs = tensors.keys().all(|name| inputs.contains(&name.as_str()));
    (!are_inputs).then_some(suffix)
}

/// The real values of a tensor. An int8 tensor for a model in `i8` holds the model's own integers.
fn real(stored: Stored, port: &Port<'_>, is_i8: bool) -> Tensor {
    let Stored { mut tensor, is_int8 } = stored;
    if is_int8 && is_i8 {
        tensor.data.iter_mut().for_each(|value| *value = (*value - port.zero_point as f32) * port.scale);
    }
    tensor
}

/// Drops the steps at the end that do not fill a call of `rows` steps.
fn whole_calls(
    mut values: Vec<f32>,
    port: &Port<'_>,
    rows: Option<usize>,
    file: &Path,
) -> Result<(Vec<f32>, Option<String>), DataError> {
    let (steps, rows) = (values.len() / port.size.max(1), rows.unwrap_or(1));
    let left = steps % rows;
    if left == steps {
        let reason = format!("has {steps} steps of the input {:?}; a call of the model takes {rows}", port.name);
        return Err(DataError::new(file, reason));
    }
    values.truncate((steps - left) * port.size);
    let dropped = || format!("{left} steps at the end do not fill a call of {rows}, and are dropped");
    Ok((values, (left > 0).then(dropped)))
}
