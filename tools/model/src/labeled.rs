//! Labeled data, and the decisions of models on them.

use std::path::{Path, PathBuf};

use tidegate::Model;

use crate::backend::Engine;
use crate::batch::run_list;
use crate::data::{DataError, is_audio, read_audio_at, read_index};
use crate::inputs::{Inputs, Part, Reader};
use crate::progress::Progress;
use crate::quantize::Decisions;
use crate::runner::classify;
use crate::score::best;
use crate::sound::{front_end_of, labels_of};

/// The class of all examples without the label, for a model that has only one label.
const OTHER: &str = "_other_";

/// Labeled data, and the rule that maps posteriors to a class.
#[derive(Debug)]
pub struct Labeled {
    /// The sounds or sequences.
    pub examples: Vec<Example>,
    /// Names of the classes: the labels of the model; for a single label, that label and `_other_`.
    pub classes: Vec<String>,
    /// For a single label, the minimum posterior.
    threshold: Option<f32>,
    /// The file of the data.
    file: PathBuf,
}

/// One decision to make.
#[derive(Debug)]
pub struct Example {
    source: Source,
    /// Its class, as a position among the classes.
    pub truth: usize,
}

#[derive(Debug)]
enum Source {
    Clip(PathBuf),
    /// `[steps, size]` for each input.
    Sequence(Vec<Vec<f32>>),
}

impl Labeled {
    /// Reads an index of sounds, or sequences with classes as in [`Reader::read`], for the model in `file`.
    ///
    /// # Errors
    /// If the data cannot be read, have no classes, or have other classes than the model.
    pub fn read(data: &Path, model: &Model<'_>, file: &Path) -> Result<Self, DataError> {
        if data.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("csv")) {
            let clips = read_index(data)?;
            if clips.iter().all(|clip| is_audio(&clip.path)) {
                let names = clips.iter().map(|clip| clip.label.clone()).collect();
                let sources = clips.into_iter().map(|clip| Source::Clip(clip.path)).collect();
                return Self::new(sources, names, labels_of(model, file)?, model, data);
            }
        }
        let reader = Reader { model, ports: &[], file };
        Self::of(reader.read(data, Part::Test)?, model, data)
    }

    /// Takes sequences with classes from `data`.
    ///
    /// # Errors
    /// If they have no classes, or other classes than the model.
    pub fn of(inputs: Inputs, model: &Model<'_>, data: &Path) -> Result<Self, DataError> {
        let Inputs { sequences, classes, labels, .. } = inputs;
        if classes.len() != sequences.len() {
            return Err(DataError::new(data, "has no classes: add a tensor y, or a column `label` to an index"));
        }
        let size = model.output_size();
        let own: Vec<String> = model.labels().map(str::to_owned).collect();
        let known = match (own.len(), size) {
            (0, 1) => vec!["1".to_owned()],
            (0, _) if labels.len() == size => labels.clone(),
            (0, _) => (0..size).map(|class| class.to_string()).collect(),
            _ => own,
        };
        // A class number is an index of the model's classes. With a single output, 1 is the model's class and 0 is any other.
        let name = |class: &usize| match labels.get(*class) {
            Some(label) => label.clone(),
            None if size == 1 => {
                if *class == 1 {
                    known[0].clone()
                } else {
                    OTHER.to_owned()
                }
            }
            None => known.get(*class).cloned().unwrap_or_else(|| class.to_string()),
        };
        let names = classes.iter().map(name).collect();
        Self::new(sequences.into_iter().map(Source::Sequence).collect(), names, known, model, data)
    }

    fn new(
        sources: Vec<Source>,
        mut names: Vec<String>,
        labels: Vec<String>,
        model: &Model<'_>,
        data: &Path,
    ) -> Result<Self, DataError> {
        if let [label] = labels.as_slice() {
            if !names.contains(label) {
                return Err(DataError::new(data, format!("no clip has the model's only label, {label:?}")));
            }
            names.iter_mut().filter(|name| *name != label).for_each(|name| OTHER.clone_into(name));
        } else if let Some(name) = names.iter().find(|name| !labels.contains(name)) {
            let reason = format!("label {name:?} is not one of the model's: {}", labels.join(" "));
            return Err(DataError::new(data, reason));
        }
        let only = (labels.len() == 1).then(|| model.detector().and_then(|detector| detector.label(0)));
        let threshold = only.map(|detected| detected.map_or(0.5, |label| label.threshold));
        let classes: Vec<String> = labels.into_iter().chain(threshold.map(|_| OTHER.to_owned())).collect();
        let class = |name: &String| classes.iter().position(|label| label == name).unwrap_or(0);
        let truths = names.iter().map(class);
        let examples = sources.into_iter().zip(truths).map(|(source, truth)| Example { source, truth }).collect();
        Ok(Self { examples, classes, threshold, file: data.to_owned() })
    }

    /// The decision of each model for an example: for a sound, each with its own front end, in integers or in f32; for a
    /// sequence, from its last output.
    ///
    /// # Errors
    /// If a sound cannot be read, an example gives no output, or the model in `file` has no front end for sounds.
    pub fn decide(&self, example: &Example, engines: &[Engine<'_>], file: &Path) -> Result<Vec<usize>, DataError> {
        let posteriors = match &example.source {
            Source::Clip(clip) => of_clip(clip, engines, file)?,
            Source::Sequence(inputs) => {
                engines.iter().map(|engine| self.of_sequence(inputs, engine)).collect::<Result<Vec<_>, _>>()?
            }
        };
        let decide = |row: &Vec<f32>| self.threshold.map_or_else(|| best(row), |least| usize::from(!(row[0] >= least)));
        Ok(posteriors.iter().map(decide).collect())
    }

    fn of_sequence(&self, inputs: &[Vec<f32>], engine: &Engine<'_>) -> Result<Vec<f32>, DataError> {
        let model = engine.model();
        let rows = run_list(engine, &[inputs.to_vec()]).map_err(|error| DataError::new(&self.file, error))?;
        let output = rows.outputs.first().map_or(&[][..], Vec::as_slice);
        let last = output.rchunks(model.output_size().max(1)).next();
        let short = || DataError::new(&self.file, "has a sequence that ends before the model gives an output");
        Ok(last.ok_or_else(short)?.to_vec())
    }

    /// Compares the decisions of an image and of its model in f32, which was read from `file`.
    ///
    /// # Errors
    /// As [`decide`](Self::decide).
    pub fn decisions(
        &self,
        image: &Model<'_>,
        reference: &Model<'_>,
        file: &Path,
        progress: &dyn Progress,
    ) -> Result<Decisions, DataError> {
        let mut decisions = Decisions { what: self.file.display().to_string(), ..Decisions::default() };
        let evaluated = progress.begin("evaluating", Some(self.examples.len()));
        for example in &self.examples {
            let truth = example.truth;
            if let [got, expected] = self.decide(example, &[Engine::from(image), Engine::from(reference)], file)?[..] {
                decisions.clips += 1;
                decisions.correct += usize::from(got == truth);
                decisions.float_correct += usize::from(expected == truth);
                decisions.same += usize::from(got == expected);
            }
            evaluated();
        }
        Ok(decisions)
    }

    /// The sounds and their labels, for a stream of them.
    ///
    /// # Errors
    /// If the examples are sequences of features.
    pub fn clips(&self) -> Result<Vec<(&PathBuf, &str)>, DataError> {
        let clip = |example| match example {
            &Example { source: Source::Clip(ref path), truth } => Ok((path, self.classes[truth].as_str())),
            Example { source: Source::Sequence(_), .. } => Err(DataError::new(
                &self.file,
                "holds features, but a stream is joined from sounds: leave --stream out",
            )),
        };
        self.examples.iter().map(clip).collect()
    }
}

/// The posteriors of each model for a sound.
fn of_clip(clip: &Path, engines: &[Engine<'_>], file: &Path) -> Result<Vec<Vec<f32>>, DataError> {
    let Some(first) = engines.first() else { return Ok(Vec::new()) };
    let audio = read_audio_at(clip, front_end_of(first.model(), file)?.settings().sample_rate)?;
    let run = |engine: &Engine<'_>| {
        let mfcc = front_end_of(engine.model(), file)?;
        let posteriors = classify(engine, mfcc, &audio.samples).map_err(|error| DataError::new(file, error))?;
        if posteriors.is_empty() {
            return Err(DataError::new(clip, "is shorter than one frame: leave it out of the index"));
        }
        Ok(posteriors)
    };
    engines.iter().map(run).collect()
}
