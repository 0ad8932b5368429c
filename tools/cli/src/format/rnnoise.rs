//! RNNoise's weights (<https://github.com/xiph/rnnoise>, version 0.1): six layers one after the other, each its inputs, its
//! neurons, its activation, then int8 weights that count 256ths.
//!
//! As bytes, which nnnoiseless has (`.rnn`), or as numbers in text below a line of heading, which the scripts of rnnoise-nu
//! write (`.rnnn`). The layers and what each reads are RNNoise's, whatever their sizes:
//!
//! ```text
//! input_dense     (features)                        42 features
//! vad_gru         (input_dense)
//! vad_output      (vad_gru)                         → vad, 1
//! noise_gru       (input_dense, vad_gru, features)
//! denoise_gru     (vad_gru, noise_gru, features)
//! denoise_output  (denoise_gru)                     → gains, 22
//! ```
//!
//! Weights are Keras's: `[inputs, neurons]`, and `[inputs, 3 · neurons]` of GRUs, blocks z, r, h, the reset before the
//! product. The activation of a GRU is its candidate's; z and r are always sigmoids. RNNoise takes its sigmoid and tanh from
//! a table of 201 values with two terms of a series, which is off by 3e-6 at most; here they are the functions.

use std::collections::BTreeMap;
use std::slice;
use std::str::{FromStr, SplitAsciiWhitespace};

use tidegate::activation::Activation;
use tidegate::cell::CellKind;
use tidegate::gate::{GRU, GRU_KERAS};

use super::weights::{Named, reordered};
use super::{Imported, Layer, Options};
use crate::canonical::{Architecture, Canonical, Node, Port, Schedule, Tensor};
use crate::data::one_line;
use crate::error::ImportError;

/// What it is called.
const FORMAT: &str = "RNNoise model";
/// The first line of the text, before the version.
const HEADING: &[u8] = b"rnnoise-nu model file version";
/// The one that there is.
const VERSION: &[u8] = b"1";
/// What a weight counts.
const SCALE: f32 = 1.0 / 256.0;
/// Most inputs and neurons of a layer that RNNoise reads.
const MOST: usize = 128;
/// Characters of a word that a message shows.
const SHOWN: usize = 20;

/// What goes in and comes out: by name, and how many.
const FEATURES: (&str, usize) = ("features", 42);
const GAINS: (&str, usize) = ("gains", 22);
const VAD: (&str, usize) = ("vad", 1);

/// Whether bytes begin as a file of one of the two forms does.
pub(super) fn is_rnnoise(bytes: &[u8]) -> bool {
    let first = |inputs: u8, neurons: u8| usize::from(inputs) == FEATURES.1 && (1..=MOST).contains(&neurons.into());
    matches!(bytes, &[inputs, neurons, 0..=2, ..] if first(inputs, neurons)) || bytes.starts_with(HEADING)
}

/// The model in bytes of either form.
pub(super) fn import(bytes: &[u8], name: &str, options: &Options) -> Result<Imported, ImportError> {
    if options.description.is_some() {
        return Err(ImportError::Unsupported("--arch with a file whose layers are RNNoise's".into()));
    }
    if options.window.is_some() {
        return Err(ImportError::Unsupported("--window with a model that runs frame by frame".into()));
    }
    let mut file = File { numbers: Numbers::open(bytes)?, nodes: Vec::new(), tensors: BTreeMap::new() };
    let dense = file.layer(CellKind::Dense, "input_dense", &[FEATURES], None)?;
    let vad = file.layer(CellKind::Gru, "vad_gru", &[dense], None)?;
    let noise = file.layer(CellKind::Gru, "noise_gru", &[dense, vad, FEATURES], None)?;
    let denoise = file.layer(CellKind::Gru, "denoise_gru", &[vad, noise, FEATURES], None)?;
    let gains = file.layer(CellKind::Dense, "denoise_output", &[denoise], Some(GAINS.1))?;
    let voice = file.layer(CellKind::Dense, "vad_output", &[vad], Some(VAD.1))?;
    file.numbers.end()?;
    let output = |(name, size): (&str, usize), (from, _): (&str, usize)| port(name, size, from);
    let architecture = Architecture {
        version: 1,
        source: format!("{name}, RNNoise"),
        inputs: vec![port(FEATURES.0, FEATURES.1, "")],
        nodes: file.nodes,
        outputs: vec![output(GAINS, gains), output(VAD, voice)],
        labels: Vec::new(),
        front_end: None,
        schedule: Schedule::Endless,
        detector: None,
        integers: BTreeMap::new(),
    };
    let model = Canonical { architecture, tensors: file.tensors };
    model.validate()?;
    Ok(Imported { model, notes: Vec::new() })
}

fn port(name: &str, size: usize, from: &str) -> Port {
    Port { name: name.to_owned(), size, from: from.to_owned() }
}

fn malformed<T>(reason: impl Into<String>) -> Result<T, ImportError> {
    Err(ImportError::Malformed { format: FORMAT, reason: one_line(&reason.into()) })
}

/// A file as it is read.
struct File<'a> {
    numbers: Numbers<'a>,
    nodes: Vec<Node>,
    tensors: BTreeMap<String, Tensor>,
}

impl File<'_> {
    /// The next layer, which reads `from` and has `neurons` if that is given. Gives its name and how many it has.
    fn layer(
        &mut self,
        kind: CellKind,
        name: &'static str,
        from: &[(&str, usize)],
        neurons: Option<usize>,
    ) -> Result<(&'static str, usize), ImportError> {
        let given: usize = from.iter().map(|(_, size)| size).sum();
        let (inputs, units) = (self.numbers.size(name, "inputs")?, self.numbers.size(name, "neurons")?);
        if inputs != given {
            return malformed(format!("{name} has {inputs} inputs, but what it reads is {given} wide"));
        }
        if let Some(needed) = neurons.filter(|&needed| needed != units) {
            return malformed(format!("{name} has {units} neurons; RNNoise has {needed} there"));
        }
        let activation = match self.numbers.next(name, "activation", |byte| byte)? {
            0 => Activation::Tanh,
            1 => Activation::Sigmoid,
            2 => Activation::Relu,
            other => return malformed(format!("{name} has activation {other}, where 0 to 2 are known")),
        };
        let layer = match kind {
            CellKind::Gru => {
                let columns = GRU.len() * units;
                let mut rows = |what, rows| -> Result<Tensor, ImportError> {
                    Ok(reordered(&self.numbers.matrix(name, what, rows, columns)?, GRU_KERAS, GRU))
                };
                let (input, recurrent) = (rows("weights", inputs)?, rows("recurrent weights", units)?);
                let bias = Tensor { shape: vec![columns], ..rows("biases", 1)? };
                let layer = Layer::new(kind, inputs, units).activation("new_activation", activation);
                let layer = layer.tensor("input_weights", input).tensor("recurrent_weights", recurrent);
                layer.tensor("input_bias", bias)
            }
            _ => {
                let weights = self.numbers.matrix(name, "weights", inputs, units)?;
                let bias = Tensor { shape: vec![units], ..self.numbers.matrix(name, "biases", 1, units)? };
                Layer::dense(weights, Some(bias), activation)
            }
        };
        self.nodes.push(layer.node(name, from.iter().map(|&(from, _)| from.to_owned()).collect()));
        self.tensors.extend(layer.tensors.into_iter().map(|(tensor, value)| (format!("{name}.{tensor}"), value)));
        Ok((name, units))
    }
}

/// The numbers of a file, one after the other.
struct Numbers<'a> {
    form: Form<'a>,
    taken: usize,
}

enum Form<'a> {
    Bytes(slice::Iter<'a, u8>),
    Text(SplitAsciiWhitespace<'a>),
}

impl<'a> Numbers<'a> {
    fn open(bytes: &'a [u8]) -> Result<Self, ImportError> {
        let Some(rest) = bytes.strip_prefix(HEADING) else {
            return Ok(Self { form: Form::Bytes(bytes.iter()), taken: 0 });
        };
        let (version, rest) = rest.split_at(rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len()));
        if version.trim_ascii() != VERSION {
            let version: String = String::from_utf8_lossy(version.trim_ascii()).chars().take(SHOWN).collect();
            return malformed(format!("its version is {version:?}, where 1 is known"));
        }
        match str::from_utf8(rest) {
            Ok(text) => Ok(Self { form: Form::Text(text.split_ascii_whitespace()), taken: 0 }),
            Err(_) => malformed("there are other bytes than text below its first line"),
        }
    }

    /// The next number, which is `what` of a layer: a byte as `of_byte` reads it, or a word.
    fn next<T: FromStr>(&mut self, layer: &str, what: &str, of_byte: fn(u8) -> T) -> Result<T, ImportError> {
        self.taken += 1;
        let number = match &mut self.form {
            Form::Bytes(bytes) => bytes.next().map(|&byte| of_byte(byte)),
            Form::Text(words) => match words.next() {
                Some(word) => Some(word.parse().or_else(|_| {
                    let word: String = word.chars().take(SHOWN).collect();
                    malformed(format!("number {}, of {layer}'s {what}, is {word:?}", self.taken))
                })?),
                None => None,
            },
        };
        match number {
            Some(number) => Ok(number),
            None => malformed(format!("it ends within {layer}'s {what}, after {} numbers", self.taken - 1)),
        }
    }

    fn size(&mut self, layer: &str, what: &str) -> Result<usize, ImportError> {
        match self.next(layer, what, |byte| byte).map(usize::from)? {
            size if (1..=MOST).contains(&size) => Ok(size),
            other => malformed(format!("{layer} has {other} {what}, where 1 to {MOST} are read")),
        }
    }

    /// `[rows, columns]`, transposed.
    fn matrix(&mut self, layer: &str, what: &str, rows: usize, columns: usize) -> Result<Tensor, ImportError> {
        let weight = |_| Ok(f32::from(self.next(layer, what, u8::cast_signed)?) * SCALE);
        let data = (0..rows * columns).map(weight).collect::<Result<_, ImportError>>()?;
        Named { name: what, tensor: &Tensor { shape: vec![rows, columns], data } }.transposed(0, rows)
    }

    /// There must be no more.
    fn end(self) -> Result<(), ImportError> {
        let more = match self.form {
            Form::Bytes(bytes) => bytes.len(),
            Form::Text(words) => words.count(),
        };
        if more == 0 { Ok(()) } else { malformed(format!("{more} numbers follow its last layer")) }
    }
}
