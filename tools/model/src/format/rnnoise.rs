//! RNNoise's weights (<https://github.com/xiph/rnnoise>, version 0.1): six layers in sequence. Each consists of its
//! number of inputs, its number of neurons, its activation, and int8 weights in units of 1/256.
//!
//! The file is either binary, as in nnnoiseless (`.rnn`), or numbers in text after a heading line, as written by the
//! scripts of rnnoise-nu (`.rnnn`). The layers and their connections are always RNNoise's, with any sizes:
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
//! Weights are in Keras order: `[inputs, neurons]`, and `[inputs, 3 · neurons]` for GRUs, with blocks z, r, h and the
//! reset before the product. The activation of a GRU is that of its candidate; z and r are always sigmoids. RNNoise
//! computes sigmoid and tanh from a table of 201 values with two terms of a series, with an error of at most 3e-6; this
//! importer uses the exact functions.

use std::collections::BTreeMap;
use std::slice;
use std::str::{FromStr, SplitAsciiWhitespace};

use tidegate::internals::gate::{GRU, GRU_KERAS};
use tidegate::internals::{activation::Activation, cell::CellKind};

use super::{Imported, Layer, Options, refuse::unsupported_if, weights::Named, weights::reordered};
use crate::canonical::{Architecture, Canonical, Node, Port, Schedule, Tensor};
use crate::{data::one_line, error::ImportError, error::Result};

const FORMAT: &str = "RNNoise model";
/// The first line of the text, before the version.
const HEADING: &[u8] = b"rnnoise-nu model file version";
const VERSION: &[u8] = b"1";
const SCALE: f32 = 1.0 / 256.0;
/// Maximum number of inputs and of neurons that RNNoise reads.
const MOST: usize = 128;
/// Number of characters of a word that a message shows.
const SHOWN: usize = 20;

/// Name and size of an input, an output or a layer.
type Part = (&'static str, usize);
const FEATURES: Part = ("features", 42);
const GAINS: Part = ("gains", 22);
const VAD: Part = ("vad", 1);

/// Whether the bytes start like a file of one of the two forms.
pub(super) fn is_rnnoise(bytes: &[u8]) -> bool {
    let first = |inputs: u8, neurons: u8| usize::from(inputs) == FEATURES.1 && (1..=MOST).contains(&neurons.into());
    matches!(bytes, &[inputs, neurons, 0..=2, ..] if first(inputs, neurons)) || bytes.starts_with(HEADING)
}

pub(super) fn import(bytes: &[u8], name: &str, options: &Options) -> Result<Imported> {
    unsupported_if(options.description.is_some(), "--arch with a file whose layers are RNNoise's")?;
    unsupported_if(options.window.is_some(), "--window with a model that runs frame by frame")?;
    let mut file = File { numbers: Numbers::open(bytes)?, nodes: Vec::new(), tensors: BTreeMap::new() };
    let dense = file.layer(CellKind::Dense, "input_dense", &[FEATURES], None)?;
    let vad = file.layer(CellKind::Gru, "vad_gru", &[dense], None)?;
    let noise = file.layer(CellKind::Gru, "noise_gru", &[dense, vad, FEATURES], None)?;
    let denoise = file.layer(CellKind::Gru, "denoise_gru", &[vad, noise, FEATURES], None)?;
    let gains = file.layer(CellKind::Dense, "denoise_output", &[denoise], Some(GAINS.1))?;
    let voice = file.layer(CellKind::Dense, "vad_output", &[vad], Some(VAD.1))?;
    file.numbers.end()?;
    let output = |(name, size): Part, (from, _): Part| port(name, size, from);
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
    Ok(Imported { model, notes: Vec::new(), assumptions: Vec::new() })
}

fn port(name: &str, size: usize, from: &str) -> Port {
    Port { name: name.to_owned(), size, from: from.to_owned(), ..Port::default() }
}

fn malformed<T>(reason: impl Into<String>) -> Result<T> {
    Err(ImportError::Malformed { format: FORMAT, reason: one_line(&reason.into()) })
}

struct File<'a> {
    numbers: Numbers<'a>,
    nodes: Vec<Node>,
    tensors: BTreeMap<String, Tensor>,
}

impl File<'_> {
    /// Reads the next layer, whose input is `from`, with `neurons` neurons if that is given. Returns its name and
    /// number of neurons.
    fn layer(&mut self, kind: CellKind, name: &'static str, from: &[Part], neurons: Option<usize>) -> Result<Part> {
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
                let mut rows = |what, rows| -> Result<Tensor> {
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

struct Numbers<'a> {
    form: Form<'a>,
    taken: usize,
}

enum Form<'a> {
    Bytes(slice::Iter<'a, u8>),
    Text(SplitAsciiWhitespace<'a>),
}

impl<'a> Numbers<'a> {
    fn open(bytes: &'a [u8]) -> Result<Self> {
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

    /// Reads the next number of a layer, which `what` describes: a byte converted by `of_byte`, or a word of text.
    fn next<T: FromStr>(&mut self, layer: &str, what: &str, of_byte: fn(u8) -> T) -> Result<T> {
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
        let ends = || malformed(format!("it ends within {layer}'s {what}, after {} numbers", self.taken - 1));
        number.map_or_else(ends, Ok)
    }

    fn size(&mut self, layer: &str, what: &str) -> Result<usize> {
        match self.next(layer, what, |byte| byte).map(usize::from)? {
            size if (1..=MOST).contains(&size) => Ok(size),
            other => malformed(format!("{layer} has {other} {what}, where 1 to {MOST} are read")),
        }
    }

    /// `[rows, columns]`, transposed.
    fn matrix(&mut self, layer: &str, what: &str, rows: usize, columns: usize) -> Result<Tensor> {
        let weight = |_| Ok(f32::from(self.next(layer, what, u8::cast_signed)?) * SCALE);
        let data = (0..rows * columns).map(weight).collect::<Result<_>>()?;
        Named { name: what, tensor: &Tensor { shape: vec![rows, columns], data } }.transposed(0, rows)
    }

    fn end(self) -> Result<()> {
        let more = match self.form {
            Form::Bytes(bytes) => bytes.len(),
            Form::Text(words) => words.count(),
        };
        if more == 0 { Ok(()) } else { malformed(format!("{more} numbers follow its last layer")) }
    }
}
