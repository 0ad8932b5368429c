//! Each attribute of a layer or operator is imported, and the result is classified. `frameworks/attributes/*.zip` hold a
//! model for each attribute of each supported layer or operator, as its framework wrote it, and the output that the
//! framework computed. An attribute is
//!
//! - honored if the output differs from that of the default and the imported model computes it,
//! - harmless if the output is that of the default and the imported model computes it,
//! - refused if the import fails with an error that names it.
//!
//! Anything else fails the test. The tables in the documentation list the results.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;

use serde::Deserialize;
use serde_json::json;
use tidegate::{Numeric, State};
use tidegate_model::backend::Engine;
use tidegate_model::canonical::{Canonical, Tensor};
use tidegate_model::format::onnx::open;
use tidegate_model::format::{Options, import_bytes_with};
use tidegate_tests::images::AlignedBytes;
use tidegate_tests::import::ALONE;
use tidegate_tests::tolerance::worst;
use zip::ZipArchive;

use super::outcomes::{Outcome, Table, written};
use super::repository;
use super::trial::{Args, Base, accepted, add_bare, arguments, bare, complete, described, row, words};

/// Largest allowed difference from the framework's output.
const TOLERANCE: f32 = 2e-5;

/// The content of `cases.json`.
#[derive(Deserialize)]
pub struct Record {
    framework: String,
    pub cases: Vec<Case>,
}

/// A model, and the output of its framework.
#[derive(Deserialize)]
pub struct Case {
    pub cls: String,
    /// Empty for the model with the default of every attribute; `*_initializer` stands for all names with this ending.
    pub attribute: String,
    value: String,
    pub file: String,
    /// Rows of a step each.
    input: Vec<Vec<f32>>,
    /// Dimensions of the input of an ONNX graph.
    #[serde(default)]
    shape: Vec<usize>,
    output: Vec<f32>,
    /// Dimensions of the output of an ONNX graph.
    #[serde(default)]
    output_shape: Vec<usize>,
}

pub fn archive(name: &str) -> (Record, BTreeMap<String, Vec<u8>>) {
    let path = repository().join(format!("tests/frameworks/attributes/{name}.zip"));
    let file = File::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut archive = ZipArchive::new(file).expect("the file is an archive");
    let mut files = BTreeMap::new();
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).expect("the archive has the entry");
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).expect("the entry can be read");
        files.insert(entry.name().expect("the name is text").into_owned(), bytes);
    }
    let record = files.remove("cases.json").expect("the archive has cases.json");
    (serde_json::from_slice(&record).expect("cases.json is a record"), files)
}

/// The output of a model for all steps, and at the end of the sequence.
fn run(model: &Canonical, rows: &[Vec<f32>]) -> Vec<f32> {
    let image = AlignedBytes::pack(model, model.architecture.numeric_or(Numeric::F32));
    let model = image.model();
    let (mut memory, mut scratch) = (vec![0; model.state_words()], vec![0; model.scratch_words()]);
    let mut state = State::new(&model, &mut memory).expect("the memory has the model's own length");
    let (mut all, mut y) = (Vec::new(), vec![0.0; model.output_size()]);
    // A model without steps takes all rows at once.
    let rows: Vec<f32> = rows.concat();
    let rows: Vec<&[f32]> = rows.chunks(model.input_size()).collect();
    for step in 0..=rows.len() {
        let done = match rows.get(step) {
            Some(row) => model.step_ports(&mut state, &mut scratch, &[row], &mut [&mut y]),
            None => model.finish(&mut state, &mut scratch, &mut [&mut y]),
        };
        if done.expect("every length is right").has_output() {
            all.extend_from_slice(&y);
        }
    }
    all
}

/// The output of the imported model, or the error of the import.
fn imported(case: &Case, bytes: &[u8]) -> Result<Tensor, String> {
    if !case.file.ends_with(".onnx") {
        let model = import_bytes_with(bytes, &case.file, &ALONE).map_err(|error| error.to_string())?.model;
        return Ok(Tensor { shape: Vec::new(), data: run(&model, &case.input) });
    }
    let (imported, interface) = open(bytes, &case.file, &Options::default()).map_err(|error| error.to_string())?;
    let image = AlignedBytes::pack(&imported.model, Numeric::F32);
    let name = interface.sole_input().expect("the graph has one input").to_owned();
    let input = Tensor { shape: case.shape.clone(), data: case.input.concat() };
    let outputs = interface.run(&Engine::from(&image.model()), &[(name, input)].into());
    Ok(outputs.map_err(|error| error.to_string())?.pop_first().expect("the graph has an output").1)
}

/// Whether two outputs differ; their dimensions count if they are known.
fn differ(a: &Tensor, b: &Tensor) -> bool {
    let off = worst(a.data.iter().zip(&b.data).map(|(a, b)| (a - b).abs()));
    a.shape != b.shape || a.data.len() != b.data.len() || !(off <= TOLERANCE)
}

impl Case {
    fn expected(&self) -> Tensor {
        Tensor { shape: self.output_shape.clone(), data: self.output.clone() }
    }
}

fn outcome(case: &Case, base: &Case, bytes: &[u8]) -> Result<Outcome, String> {
    match imported(case, bytes) {
        Err(error) if case.attribute.is_empty() => Err(error),
        Err(error) => {
            // Here, the argument of a call and the end of a name are shown with more text around them.
            let name = case.attribute.trim_start_matches("call ").trim_start_matches('*');
            if error.contains(name) {
                Ok(Outcome::Refused)
            } else {
                Err(format!("it is refused without its name: {error}"))
            }
        }
        Ok(output) if differ(&output, &case.expected()) => {
            let (of, wanted) = (output.data.len(), case.output.len());
            let off = worst(output.data.iter().zip(&case.output).map(|(a, b)| (a - b).abs()));
            Err(format!("it computes {of} numbers, {off:e} off the {wanted} of the framework"))
        }
        Ok(_) if differ(&case.expected(), &base.expected()) => Ok(Outcome::Honored),
        Ok(_) => Ok(Outcome::Harmless),
    }
}

/// The results of all cases of an archive, added to `table`. Returns the framework and its version.
fn found(name: &str, table: &mut Table) -> String {
    let (record, files) = archive(name);
    let mut wrong = Vec::new();
    let bases: BTreeMap<&str, &Case> =
        record.cases.iter().filter(|case| case.attribute.is_empty()).map(|case| (case.cls.as_str(), case)).collect();
    for case in &record.cases {
        let Case { cls, attribute, value, file, .. } = case;
        let base = bases.get(cls.as_str()).unwrap_or_else(|| panic!("{name}: {cls} has no case without attributes"));
        match outcome(case, base, &files[file]) {
            Ok(_) if attribute.is_empty() => {
                table.entry(cls.clone()).or_default();
            }
            Ok(outcome) => {
                let values = table.entry(cls.clone()).or_default().entry(attribute.clone()).or_default();
                values.push((value.clone(), outcome));
            }
            Err(reason) => wrong.push(format!("{name} {cls} {attribute} = {value} ({file}): {reason}")),
        }
    }
    assert!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), record.cases.len(), wrong.join("\n"));
    record.framework
}

/// The results for these archives.
pub fn of_archives(archives: &[&str]) -> Table {
    let mut table = Table::new();
    for name in archives {
        println!("{name}: tried with {}", found(name, &mut table));
    }
    table
}

#[test]
fn every_argument_of_keras_s_layers_is_honored_harmless_or_refused() {
    let mut names = words("tools/model/src/format/keras", "");
    // The importer reads the number of axes from the ends of names.
    let ended = names.iter().flat_map(|name| ["1D", "2D", "3D"].map(|axes| format!("{name}{axes}")));
    names.extend(ended.collect::<Vec<_>>());
    // Arguments whose default depends on the version must be given.
    let text = r#"{"recurrent_activation": "sigmoid", "reset_after": true}"#;
    let args: Args = serde_json::from_str(text).expect("arguments are JSON");
    let is_layer = |class: &String| {
        let error = bare("keras3", class, &args).err().unwrap_or_default();
        // A Lambda is known, but refused.
        !error.contains("custom code")
    };
    let mut layers = accepted(&names, |class| format!("class {class:?}"), |class| bare("keras3", class, &args).err());
    layers.retain(is_layer);
    // No class of Keras has these arguments: a file has it for `x[...]`.
    layers.remove("GetItem");
    let mut table = of_archives(&["keras2", "keras3"]);
    let mut words = words("tools/model/src/format", "Case<");
    // The importer itself adds these arguments.
    words.retain(|word| !["each_step", "masked"].contains(&word.as_str()));
    add_bare(&mut table, "keras3", &layers, &words);
    for (class, gates) in [("CuDNNLSTM", 4), ("CuDNNGRU", 3)] {
        let import = Box::new(move |args: &Args| {
            let shapes =
                [("kernel", vec![3, 2 * gates]), ("recurrent_kernel", vec![2, 2 * gates]), ("bias", bias(gates))];
            let tensors = shapes.map(|(name, shape)| (format!("layer/{name}"), counted(shape)));
            described("keras2", class, args, &json!(3), &tensors.into())
        });
        let found = arguments(class, &[Base { args: Args::new(), compared: false, import }], &words);
        table.insert(class.to_owned(), row(found));
    }
    words.remove("return_sequences");
    let class = "AttentionWeightedAverage";
    let import = Box::new(move |args: &Args| {
        let tensors = [("layer/W".to_owned(), counted(vec![3, 1]))];
        described("keras2", class, args, &json!(3), &tensors.into())
    });
    table.insert(
        class.to_owned(),
        row(arguments(class, &[Base { args: Args::new(), compared: false, import }], &words)),
    );
    complete("docs/keras.md", &table, &layers);
    written("docs/keras.md", &table, "layer");
}

/// The shape of the bias of two units of a recurrent layer of cuDNN in Keras.
fn bias(gates: usize) -> Vec<usize> {
    if gates == 3 { vec![2, 2 * gates] } else { vec![2 * gates] }
}

/// A tensor of different numbers.
fn counted(shape: Vec<usize>) -> Tensor {
    let data = (0..shape.iter().product()).map(|k: usize| ((7 * k) % 13 + 1) as f32 / 10.0).collect();
    Tensor { shape, data }
}
