//! Training data: sequences of features with a class, from an index of sounds, a `.ts` file or tensors.
//!
//! | file | content | held-out data |
//! |---|---|---|
//! | index `.csv` | columns `file`, `label`: WAV and FLAC files, run through the front end | rows whose column `split` is not `train`, or another index |
//! | `.ts` | cases and their classes | another `.ts` |
//! | `.npz`, `.safetensors` | `x` `[n, steps, features]`, `y` `[n]` integers from 0, and `lengths` `[n]` for shorter sequences | `x_test`, `y_test`, `lengths_test`, in which case the training tensors are `x_train` and so on, or another file |

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use tidegate::Schedule;
use tidegate::front_end::Mfcc;
use tidegate_model::canonical::Tensor;
use tidegate_model::data::{
    Clip, DataError, Examples, read_audio_at, read_index, read_index_splits, read_series, read_tensors,
};
use tidegate_model::runner::heard_features;
use tidegate_tools::progress::bar;

use super::{Purpose, Result, TrainError, augment, random};

/// A sequence with its class.
#[derive(Clone, Debug, PartialEq)]
pub struct Example {
    /// The sequence and its augmented copies, `[steps, features]` each.
    pub variants: Vec<Vec<f32>>,
    pub class: usize,
}

/// Training and held-out sequences.
#[derive(Clone, Debug, PartialEq)]
pub struct Data {
    pub labels: Vec<String>,
    pub features: usize,
    pub train: Vec<Example>,
    pub held_out: Vec<Example>,
}

impl Data {
    /// The data as tensors that [`read`] reads. Each variant becomes a sequence, right after the one that it was made
    /// from. Shorter sequences are padded with zeros.
    pub fn tensors(&self) -> BTreeMap<String, Tensor> {
        let part = |examples: &[Example], suffix: &str| {
            let each = || examples.iter().flat_map(|example| example.variants.iter().map(move |rows| (rows, example)));
            let len = each().map(|(rows, _)| rows.len()).max().unwrap_or(0);
            let mut x = Vec::with_capacity(each().count() * len);
            for (rows, _) in each() {
                x.extend_from_slice(rows);
                x.resize(x.len() + len - rows.len(), 0.0);
            }
            let vector = |data: Vec<f32>| Tensor { shape: vec![data.len()], data };
            let lengths = each().map(|(rows, _)| (rows.len() / self.features) as f32).collect();
            let y = each().map(|(_, example)| example.class as f32).collect();
            let x = Tensor { shape: vec![each().count(), len / self.features, self.features], data: x };
            [("x", x), ("lengths", vector(lengths)), ("y", vector(y))]
                .map(|(name, data)| (name.to_owned() + suffix, data))
        };
        part(&self.train, "_train").into_iter().chain(part(&self.held_out, "_test")).collect()
    }
}

/// How sounds are turned into sequences.
pub struct Hearing<'a> {
    pub mfcc: &'a Mfcc<'a>,
    /// Schedule by which the network runs over a clip.
    pub schedule: Schedule,
    /// Number of augmented copies of each training sound.
    pub copies: usize,
    /// Label of the clips used as noise for the copies.
    pub background: Option<&'a str>,
    pub seed: u64,
}

/// Reads the training data from `data`, and the held-out data from there or from `test`.
pub fn read(data: &Path, test: Option<&Path>, hearing: Option<&Hearing<'_>>) -> Result<Data> {
    let fail = |path: &Path, reason: &str| Err(TrainError::from(DataError::new(path, reason)));
    let is = |wanted: &str| data.extension().is_some_and(|extension| extension.eq_ignore_ascii_case(wanted));
    let all = match hearing {
        Some(hearing) if is("csv") => sounds(data, test, hearing)?,
        _ if is("csv") => return fail(data, "is an index of sounds, which needs a front end: add --front-end"),
        Some(_) => return fail(data, "is not an index of sounds (.csv): remove --front-end"),
        None if is("ts") => {
            let Some(test) = test else { return fail(data, "has no held-out data: add --test FILE.ts") };
            let (train, held_out) = (read_series(data)?, read_series(test)?);
            if train.labels != held_out.labels {
                return fail(test, "has other classes than the training data");
            }
            if train.features != held_out.features {
                return fail(test, "has another number of dimensions than the training data");
            }
            let (labels, features) = (train.labels.clone(), train.features);
            Data { labels, features, train: each(train), held_out: each(held_out) }
        }
        None => tensors(data, test)?,
    };
    if all.train.is_empty() || all.held_out.is_empty() {
        let what = if all.train.is_empty() { "training" } else { "held-out" };
        let reason = format!("has no {what} data: its column `split` must have rows with `train` and rows without");
        return fail(data, &reason);
    }
    Ok(all)
}

fn sounds(data: &Path, test: Option<&Path>, hearing: &Hearing<'_>) -> Result<Data> {
    let (train, held_out): (Vec<Clip>, Vec<Clip>) = match test {
        Some(test) => (read_index(data)?, read_index(test)?),
        None => {
            let (train, held_out): (Vec<_>, Vec<_>) =
                read_index_splits(data)?.into_iter().partition(|(_, split)| split == "train");
            let clips = |all: Vec<(Clip, String)>| all.into_iter().map(|(clip, _)| clip).collect();
            (clips(train), clips(held_out))
        }
    };
    let labels: Vec<String> =
        train.iter().map(|clip| clip.label.clone()).collect::<BTreeSet<_>>().into_iter().collect();
    let class = |clip: &Clip| {
        labels.iter().position(|label| *label == clip.label).ok_or_else(|| {
            DataError::new(&clip.path, format!("has class {:?}, which no training clip has", clip.label))
        })
    };
    let classes = |clips: &[Clip]| clips.iter().map(class).collect::<Result<Vec<_>, _>>();
    let (of_train, of_held_out) = (classes(&train)?, classes(&held_out)?);
    let background = hearing.background.map(|label| labels.iter().position(|known| known == label).ok_or(label));
    let background = background.transpose().map_err(|label| {
        DataError::new(data, format!("has no class {label:?} for --background; its classes are {}", labels.join(", ")))
    })?;
    let shown = bar((train.len() + held_out.len()) as u64, "hearing");
    let rate = hearing.mfcc.settings().sample_rate;
    let sound = |clip: &Clip| Ok(read_audio_at(&clip.path, rate)?.samples);
    let sounds = |clips: &[Clip]| clips.iter().map(sound).collect::<Result<Vec<_>, DataError>>();
    let (heard, checked) = (sounds(&train)?, sounds(&held_out)?);
    let noise: Vec<Vec<i16>> =
        heard.iter().zip(&of_train).filter(|(_, class)| Some(**class) == background).map(|(s, _)| s.clone()).collect();
    // The features of sounds and of their augmented copies. Each copy has its own random numbers, so that they do not
    // depend on the number of threads.
    let examples = |sounds: &[Vec<i16>], classes: &[usize], copies: usize| {
        let example = |number: usize| {
            let sound = &sounds[number];
            let features = |sound: &[i16]| heard_features(hearing.schedule, hearing.mfcc, sound);
            let mut variants = vec![features(sound)?];
            for copy in 0..copies {
                let mut random = random(hearing.seed, Purpose::Copies, number as u64, copy as u64);
                variants.push(features(&augment::changed(sound, rate, &noise, &mut random))?);
            }
            shown.advance(1);
            Ok(Example { variants, class: classes[number] })
        };
        super::machine::in_parallel(sounds.len(), example).into_iter().collect::<Result<Vec<_>>>()
    };
    let (train, held_out) = (examples(&heard, &of_train, hearing.copies)?, examples(&checked, &of_held_out, 0)?);
    Ok(Data { labels, features: hearing.mfcc.settings().coefficients as usize, train, held_out })
}

fn tensors(data: &Path, test: Option<&Path>) -> Result<Data> {
    let own = read_tensors(data)?;
    let (train, held_out) = match test {
        Some(test) => (examples(data, &own, "")?, examples(test, &read_tensors(test)?, "")?),
        None if own.contains_key("x_test") => (examples(data, &own, "_train")?, examples(data, &own, "_test")?),
        None => return Err(DataError::new(data, "has no held-out data: add a tensor x_test, or --test FILE").into()),
    };
    if train.0 != held_out.0 {
        let reason = format!("has held-out data with {} features, but training data with {}", held_out.0, train.0);
        return Err(DataError::new(test.unwrap_or(data), reason).into());
    }
    let classes = train.1.iter().map(|example| example.class + 1).max().unwrap_or(0);
    if held_out.1.iter().any(|example| example.class >= classes) {
        let reason = format!("has a held-out class that is not among the {classes} training classes");
        return Err(DataError::new(test.unwrap_or(data), reason).into());
    }
    let labels = (0..classes).map(|class| class.to_string()).collect();
    Ok(Data { labels, features: train.0, train: train.1, held_out: held_out.1 })
}

fn examples(path: &Path, tensors: &BTreeMap<String, Tensor>, suffix: &str) -> Result<(usize, Vec<Example>), DataError> {
    let found = Examples::tensors(path, tensors, suffix)?;
    if found.classes.is_empty() {
        return Err(DataError::new(path, format!("has no tensor y{suffix}")));
    }
    Ok((found.features, each(found)))
}

/// Every sequence with its class.
fn each(examples: Examples) -> Vec<Example> {
    let all = examples.sequences.into_iter().zip(examples.classes);
    all.map(|(rows, class)| Example { variants: vec![rows], class }).collect()
}
