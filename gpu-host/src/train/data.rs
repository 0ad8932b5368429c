//! What a network is trained on: sequences of features with a class, from an index of sounds, a `.ts` file, or tensors.
//!
//! | file | what is read | held out |
//! |---|---|---|
//! | index `.csv` | columns `file`, `label`: WAV and FLAC through the front end | rows whose column `split` is not `train`, or another index |
//! | `.ts` | cases and their classes | another `.ts` |
//! | `.npz`, `.safetensors` | `x` `[n, steps, features]`, `y` `[n]` whole numbers from 0, `lengths` `[n]` where sequences are shorter | `x_test`, `y_test`, `lengths_test`, then beside `x_train` ..., or another file |

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use tidegate::Schedule;
use tidegate::front_end::Mfcc;
use tidegate_tools::canonical::Tensor;
use tidegate_tools::data::{Clip, DataError, read_audio_at, read_bytes, read_index, read_index_splits, read_tensors};
use tidegate_tools::progress::{Progress, bar};
use tidegate_tools::runner::heard_features;

use super::{Purpose, TrainError, augment, random, ts};

/// Most classes: scores of a batch are kept for each.
const MAX_CLASSES: usize = 65_535;

/// One sequence.
#[derive(Clone, Debug, PartialEq)]
pub struct Example {
    /// `[steps, features]`: as it is, and changed copies of it.
    pub variants: Vec<Vec<f32>>,
    /// Its class.
    pub class: usize,
}

/// What is wrong with a file, and in which line.
#[derive(Debug)]
pub(super) struct DataProblem {
    pub(super) line: Option<u64>,
    pub(super) reason: String,
}

/// Sequences to train on and others to check with.
#[derive(Clone, Debug, PartialEq)]
pub struct Data {
    /// Names of the classes.
    pub labels: Vec<String>,
    /// Of a step.
    pub features: usize,
    /// To train on.
    pub train: Vec<Example>,
    /// To check with.
    pub held_out: Vec<Example>,
}

impl Data {
    /// As tensors that [`read`] reads, each variant a sequence of its own, behind the sequence that it is of; shorter
    /// ones are filled up with zeros.
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

/// How sounds become sequences.
pub struct Hearing<'a> {
    /// The front end.
    pub mfcc: &'a Mfcc<'a>,
    /// How the network hears a clip.
    pub schedule: Schedule,
    /// Changed copies of each sound to train on.
    pub copies: usize,
    /// Clips of this label are the noise of the copies.
    pub background: Option<&'a str>,
    /// Of the copies.
    pub seed: u64,
}

/// Whether a file lists sounds.
pub fn is_index(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("csv"))
}

/// Reads what is to be trained on from `data`, and what is held out from there or from `test`.
///
/// # Errors
/// If a file cannot be read or nothing is held out; the error names file and reason.
pub fn read(data: &Path, test: Option<&Path>, hearing: Option<&Hearing<'_>>) -> Result<Data, TrainError> {
    let fail = |path: &Path, reason: &str| Err(TrainError::from(DataError::new(path, reason)));
    let is_ts = |path: &Path| path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("ts"));
    let all = match hearing {
        Some(hearing) if is_index(data) => sounds(data, test, hearing)?,
        _ if is_index(data) => return fail(data, "lists sounds: give the --front-end that they go through"),
        Some(_) => return fail(data, "is no index of sounds (.csv): leave --front-end out"),
        None if is_ts(data) => {
            let Some(test) = test else { return fail(data, "has nothing held out: give --test FILE.ts") };
            let (train, held_out) = (series(data)?, series(test)?);
            if train.labels != held_out.labels {
                return fail(test, "has other classes than what is trained on");
            }
            if train.features != held_out.features {
                return fail(test, "has another number of dimensions than what is trained on");
            }
            let ts::Series { labels, examples, features } = train;
            Data { labels, features, train: examples, held_out: held_out.examples }
        }
        None => tensors(data, test)?,
    };
    if all.train.is_empty() || all.held_out.is_empty() {
        let what = if all.train.is_empty() { "to train on" } else { "held out" };
        return fail(data, &format!("has nothing {what}: its column `split` says `train` or another word"));
    }
    Ok(all)
}

fn series(path: &Path) -> Result<ts::Series, TrainError> {
    let bytes = read_bytes(path)?;
    let text = String::from_utf8(bytes).map_err(|_| DataError::new(path, "is not text"))?;
    Ok(ts::parse(&text).map_err(|DataProblem { line, reason }| match line {
        Some(line) => DataError::at_line(path, line, reason),
        None => DataError::new(path, reason),
    })?)
}

fn sounds(data: &Path, test: Option<&Path>, hearing: &Hearing<'_>) -> Result<Data, TrainError> {
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
            DataError::new(&clip.path, format!("is of class {:?}, of which nothing is trained on", clip.label))
        })
    };
    let classes = |clips: &[Clip]| clips.iter().map(class).collect::<Result<Vec<_>, _>>();
    let (of_train, of_held_out) = (classes(&train)?, classes(&held_out)?);
    let background = hearing.background.map(|label| labels.iter().position(|known| known == label).ok_or(label));
    let background = background.transpose().map_err(|label| {
        DataError::new(data, format!("has no class {label:?} to be the background; it has {}", labels.join(", ")))
    })?;
    let paths = |clips: &[Clip]| clips.iter().map(|clip| clip.path.clone()).collect::<Vec<PathBuf>>();
    let shown = bar((train.len() + held_out.len()) as u64, "hearing");
    let sound = |paths: &[PathBuf]| {
        let rate = hearing.mfcc.settings().sample_rate;
        paths.iter().map(|path| Ok(read_audio_at(path, rate)?.samples)).collect::<Result<Vec<_>, DataError>>()
    };
    let (heard, checked) = (sound(&paths(&train))?, sound(&paths(&held_out))?);
    let noise: Vec<Vec<i16>> =
        heard.iter().zip(&of_train).filter(|(_, class)| Some(**class) == background).map(|(s, _)| s.clone()).collect();
    let train = variants(hearing, &heard, &of_train, &noise, hearing.copies, &shown)?;
    let held_out = variants(hearing, &checked, &of_held_out, &noise, 0, &shown)?;
    Ok(Data { labels, features: hearing.mfcc.settings().coefficients as usize, train, held_out })
}

/// The features of sounds and of changed copies of them. Each copy has numbers of its own, however many threads there
/// are.
fn variants(
    hearing: &Hearing<'_>,
    sounds: &[Vec<i16>],
    classes: &[usize],
    noise: &[Vec<i16>],
    copies: usize,
    shown: &Progress,
) -> Result<Vec<Example>, TrainError> {
    let rate = hearing.mfcc.settings().sample_rate;
    let example = |number: usize| {
        let sound = &sounds[number];
        let features = |sound: &[i16]| heard_features(hearing.schedule, hearing.mfcc, sound);
        let mut variants = vec![features(sound)?];
        for copy in 0..copies {
            let mut random = random(hearing.seed, Purpose::Copies, number as u64, copy as u64);
            variants.push(features(&augment::changed(sound, rate, noise, &mut random))?);
        }
        shown.advance(1);
        Ok(Example { variants, class: classes[number] })
    };
    super::machine::in_parallel(sounds.len(), example).into_iter().collect()
}

fn tensors(data: &Path, test: Option<&Path>) -> Result<Data, TrainError> {
    let own = read_tensors(data)?;
    let (train, held_out) = match test {
        Some(test) => (examples(data, &own, "")?, examples(test, &read_tensors(test)?, "")?),
        None if own.contains_key("x_test") => (examples(data, &own, "_train")?, examples(data, &own, "_test")?),
        None => return Err(DataError::new(data, "has nothing held out: no x_test in it, and no --test FILE").into()),
    };
    if train.0 != held_out.0 {
        let reason = format!("has {} features held out, but {} to train on", held_out.0, train.0);
        return Err(DataError::new(test.unwrap_or(data), reason).into());
    }
    let classes = train.1.iter().map(|example| example.class + 1).max().unwrap_or(0);
    if held_out.1.iter().any(|example| example.class >= classes) {
        let reason = format!("has a class held out beyond the {classes} that are trained");
        return Err(DataError::new(test.unwrap_or(data), reason).into());
    }
    let labels = (0..classes).map(|class| class.to_string()).collect();
    Ok(Data { labels, features: train.0, train: train.1, held_out: held_out.1 })
}

fn examples(path: &Path, tensors: &BTreeMap<String, Tensor>, suffix: &str) -> Result<(usize, Vec<Example>), DataError> {
    let fail = |reason: String| DataError::new(path, reason);
    let tensor = |name: &str| tensors.get(&format!("{name}{suffix}"));
    let needed = |name: &str| tensor(name).ok_or_else(|| fail(format!("has no tensor `{name}{suffix}`")));
    let (x, y) = (needed("x")?, needed("y")?);
    let &[count, steps, features] = x.shape.as_slice() else {
        return Err(fail(format!("x{suffix} must be [n, steps, features]; it is {:?}", x.shape)));
    };
    if count == 0 || steps == 0 || features == 0 {
        return Err(fail(format!("x{suffix} is empty")));
    }
    let whole = |name: &str, tensor: &Tensor, least: usize, most: usize| {
        if tensor.data.len() != count {
            return Err(fail(format!("{name}{suffix} has {} numbers, x{suffix} {count} sequences", tensor.data.len())));
        }
        let number = |&value: &f32| match value {
            _ if value.fract() == 0.0 && (least as f32..=most as f32).contains(&value) => Ok(value as usize),
            _ => Err(fail(format!("{name}{suffix} has {value}; it must hold whole numbers from {least} to {most}"))),
        };
        tensor.data.iter().map(number).collect::<Result<Vec<usize>, _>>()
    };
    let classes = whole("y", y, 0, MAX_CLASSES - 1)?;
    let lengths = match tensor("lengths") {
        Some(lengths) => whole("lengths", lengths, 1, steps)?,
        None => vec![steps; count],
    };
    if let Some(value) = x.data.iter().find(|value| !value.is_finite()) {
        return Err(fail(format!("x{suffix} has {value}")));
    }
    let all = x.data.chunks_exact(steps * features).zip(lengths).zip(classes);
    let example = |((rows, length), class): ((&[f32], usize), usize)| Example {
        variants: vec![rows[..length * features].to_vec()],
        class,
    };
    Ok((features, all.map(example).collect()))
}
