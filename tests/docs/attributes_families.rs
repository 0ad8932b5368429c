//! Each argument that a class of an `--arch` file may have is tried, for all families without a table of their own and for
//! checkpoints of TensorFlow 1. Golden cases and the checkpoints of `frameworks/tf1_checkpoint*` are the layers that are
//! changed; their tests compare numbers of the frameworks. An argument is *honored* if the model differs or the tensors no
//! longer fit, *harmless* if the model is the same, and *refused* if the error names it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use safetensors::SafeTensors;
use serde_json::json;
use tidegate_model::canonical::Tensor;
use tidegate_model::format::case::Definition;
use tidegate_model::format::description::LayerDescription;
use tidegate_model::format::families::convert_definition;
use tidegate_model::format::{Conversion, Description, Options, import_with};
use tidegate_tests::golden::Case;

use super::outcomes::{Outcome, Table, rows};
use super::trial::{Args, Argument, Base, Tried, accepted, add_bare, arguments, bare, complete, row, words};
use super::{holds, repository};

/// Families whose classes have a table in another page.
const ELSEWHERE: [&str; 5] = ["keras2", "keras3", "onnx", "tf1", "torch"];
/// Maximum number of values of a golden case, so that the trials are fast.
const SMALL: usize = 6000;
/// Maximum number of golden cases that are changed for a class, and of layers of checkpoints.
const BASES: usize = 12;
const LAYERS: usize = 4;

fn listed(folder: &str, end: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(repository().join(folder)).unwrap_or_else(|error| panic!("{folder}: {error}"));
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.expect("the folder can be read").path()).collect();
    found.retain(|path| path.to_string_lossy().ends_with(end));
    found.sort();
    found
}

/// The words in the sources of the importers that take arguments from a case.
fn sources() -> BTreeSet<String> {
    words("tools/model/src/format", "Case<")
}

/// The model, with the outputs that are used in place of its source.
fn convert(definition: Definition<'_>) -> Tried {
    let Conversion { mut model, last_only, .. } = convert_definition(definition).map_err(|error| error.to_string())?;
    model.architecture.source = if last_only { "last output" } else { "every output" }.to_owned();
    Ok(model)
}

/// Tensors of a case without those whose elements are all equal, such as a scale of 1, which may hide an argument.
fn varied(tensor: &Tensor) -> Tensor {
    let mut tensor = tensor.clone();
    if let Some(&first) = tensor.data.first().filter(|first| tensor.data.iter().all(|value| value == *first)) {
        tensor.data.iter_mut().enumerate().for_each(|(k, value)| *value = first + 0.5 / (k + 1) as f32);
    }
    tensor
}

/// A layer that imports with the arguments of a class, under the name of the class.
type Importer<'a> = Rc<dyn Fn(&str, &Args) -> Tried + 'a>;

/// A layer of a golden case or of a checkpoint.
#[derive(Clone)]
struct Given<'a> {
    args: Args,
    import: Importer<'a>,
}

impl<'a> Given<'a> {
    fn base(&self, class: &str, more: &Args, compared: bool) -> Base<'a> {
        let (class, import) = (class.to_owned(), Rc::clone(&self.import));
        let args = self.args.iter().chain(more).map(|(name, value)| (name.clone(), value.clone())).collect();
        Base { args, compared, import: Box::new(move |args| import(&class, args)) }
    }
}

/// The golden cases by family and class.
fn golden(cases: &[Case]) -> BTreeMap<(String, String), Vec<Given<'_>>> {
    let mut all: BTreeMap<(String, String), Vec<Given<'_>>> = BTreeMap::new();
    for case in cases {
        let definition = case.definition();
        let size: usize = definition.params.values().map(|tensor| tensor.data.len()).sum();
        let cls = definition.cls.rsplit('.').next().unwrap_or_default();
        // `sLSTMCell(function=lstm)` is one way to run `sLSTMCell`.
        let cls = cls.split('(').next().unwrap_or_default();
        let of = all.entry((definition.family.clone(), cls.to_owned())).or_default();
        let is_new = of.iter().all(|given| given.args != definition.args);
        if of.is_empty() || is_new && of.len() < BASES && size <= SMALL {
            let args = definition.args.clone();
            let tensors: BTreeMap<String, Tensor> =
                definition.params.iter().map(|(name, tensor)| (name.clone(), varied(tensor))).collect();
            let import = move |cls: &str, args: &Args| {
                let params = tensors.iter().map(|(name, tensor)| (name.clone(), tensor)).collect();
                convert(Definition { cls: cls.to_owned(), args: args.clone(), params, ..definition.clone() })
            };
            of.push(Given { args, import: Rc::new(import) });
        }
    }
    all
}

/// The layers of the checkpoints that have an architecture, by class.
fn checkpoints() -> BTreeMap<String, Vec<Given<'static>>> {
    let mut all: BTreeMap<String, Vec<Given<'static>>> = BTreeMap::new();
    for folder in ["tests/frameworks/tf1_checkpoint", "tests/frameworks/tf1_checkpoint_contrib"] {
        for sample in listed(folder, ".golden.safetensors").iter().map(|golden| Sample::of(golden)) {
            for (at, layer) in sample.layers().into_iter().enumerate() {
                let of = all.entry(layer.class.clone()).or_default();
                if of.len() < LAYERS && of.iter().all(|given| given.args != layer.args) {
                    of.push(sample.given(at, layer.args));
                }
            }
        }
    }
    all
}

/// A model of a framework and the options that import it.
#[derive(Clone)]
struct Sample {
    model: PathBuf,
    options: Options,
}

impl Sample {
    fn of(golden: &Path) -> Self {
        let bytes = fs::read(golden).unwrap_or_else(|error| panic!("{}: {error}", golden.display()));
        let (_, header) = SafeTensors::read_metadata(&bytes).expect("the sample is safetensors");
        let metadata = header.metadata().clone().unwrap_or_default();
        let beside = |key: &str| metadata.get(key).map(|name| golden.with_file_name(name));
        let window = metadata.get("window").map(|window| window.parse().expect("a window is a number"));
        let options = Options::new(beside("arch").as_deref(), window).unwrap_or_else(|error| panic!("{error}"));
        Self { model: beside("model").expect("the sample has a model"), options }
    }

    /// The layers of its architecture; empty if the file determines them.
    fn layers(&self) -> Vec<LayerDescription> {
        self.options.description.as_ref().map_or_else(Vec::new, |description| description.layers.clone())
    }

    /// The sample with other arguments, or another class, for the layer at `at`.
    fn given(&self, at: usize, args: Args) -> Given<'static> {
        let sample = self.clone();
        let import = move |class: &str, args: &Args| {
            let mut options = sample.options.clone();
            let layer = options.description.as_mut().map(|description| &mut description.layers[at]);
            let layer = layer.expect("the sample has an architecture");
            (layer.class, layer.args) = (class.to_owned(), args.clone());
            import_with(&sample.model, &options).map(|imported| imported.model).map_err(|error| error.to_string())
        };
        Given { args, import: Rc::new(import) }
    }
}

/// A class of cuDNN's in a checkpoint: the checkpoint, its features, the prefix of the layer, and its tensors if their
/// names are those of another class.
fn cudnn(checkpoint: &str, features: usize, prefix: &str, tensors: &[(&str, &str)]) -> Given<'static> {
    let tensors: BTreeMap<&str, &str> = tensors.iter().copied().collect();
    let description = json!({
        "inputs": [{"name": "x", "size": features}],
        "layers": [{"name": "layer", "class": "", "prefix": prefix, "tensors": tensors}],
    });
    let description = serde_json::from_value(description).expect("it is an architecture");
    let model = repository().join("tests/frameworks/tf1_checkpoint").join(checkpoint);
    let options = Options { description: Some(description), ..Options::default() };
    Sample { model, options }.given(0, Args::new())
}

/// Classes without a case of their own, the class whose cases fit them, and the arguments that they need in addition.
const ALIKE: [(&str, &str, &str); 6] = [
    ("ConvLSTMCell", "Conv2DLSTMCell", r#"{"conv_ndims": 2}"#),
    ("CudnnParamsFormatConverterRelu", "CudnnParamsFormatConverterTanh", "{}"),
    ("CudnnRNNRelu", "CudnnRNNTanh", "{}"),
    ("Embedding", "embedding_lookup", "{}"),
    ("Reshape", "reshape", "{}"),
    ("reduce_max", "reduce_mean", "{}"),
];

/// Adds the outcomes of a class to the table, and its honored arguments without numbers of the framework to `alone`.
fn add(table: &mut Table, alone: &mut BTreeMap<String, Vec<String>>, class: &str, found: BTreeMap<String, Argument>) {
    for (name, argument) in &found {
        if argument.outcome == Outcome::Honored && !argument.compared {
            alone.entry(class.to_owned()).or_default().push(format!("`{name}`"));
        }
    }
    table.insert(class.to_owned(), row(found));
}

fn page(page: &str, table: &Table, alone: &BTreeMap<String, Vec<String>>, what: &str) {
    let mut text = rows(table, what);
    if !alone.is_empty() {
        let alone: Vec<String> = alone.iter().map(|(class, names)| format!("`{class}` {}", names.join(", "))).collect();
        let _ =
            write!(text, "\nHonored, but no test compares them with numbers of the framework: {}.\n", alone.join("; "));
    }
    holds(page, "attributes", &text);
}

fn cases() -> Vec<Case> {
    listed("tests/golden", ".safetensors").iter().map(|path| Case::open(path)).collect()
}

#[test]
fn every_argument_of_the_other_families_is_honored_harmless_or_refused() {
    let (words, cases) = (sources(), cases());
    let (mut table, mut alone) = (Table::new(), BTreeMap::new());
    for ((family, class), given) in golden(&cases) {
        if !ELSEWHERE.contains(&family.as_str()) {
            let bases: Vec<Base<'_>> = given.iter().map(|given| given.base(&class, &Args::new(), true)).collect();
            let class = format!("{family} {class}");
            add(&mut table, &mut alone, &class, arguments(&class, &bases, &words));
        }
    }
    let empty = |family: &str, cls: &str| {
        let (family, cls) = (family.to_owned(), cls.to_owned());
        convert(Definition { family, cls, input_shape: Some(vec![3]), ..Definition::default() }).err()
    };
    let families = accepted(&words, |family| format!("family {family:?}"), |family| empty(family, ""));
    let mut classes = BTreeSet::new();
    for family in families.iter().filter(|family| !ELSEWHERE.contains(&family.as_str())) {
        let known = accepted(&words, |class| format!("class {class:?}"), |class| empty(family, class));
        classes.extend(known.into_iter().map(|class| format!("{family} {class}")));
    }
    complete("docs/architecture.md", &table, &classes);
    page("docs/architecture.md", &table, &alone, "framework and class");
}

#[test]
fn every_argument_of_tensorflow_1_s_layers_is_honored_harmless_or_refused() {
    let (words, cases) = (sources(), cases());
    let mut all = checkpoints();
    for ((_, class), given) in golden(&cases).into_iter().filter(|((family, _), _)| family == "tf1") {
        all.entry(class).or_default().extend(given);
    }
    let basic =
        ["kernel", "bias"].map(|name| [format!("cell_0/basic_rnn_cell/{name}"), format!("rnn/basic_rnn_cell/{name}")]);
    let basic = basic.each_ref().map(|[to, from]| (to.as_str(), from.as_str()));
    all.insert("CudnnRNNTanh".to_owned(), vec![cudnn("basic_rnn.ckpt", 6, "none", &basic)]);
    all.insert("CudnnGRU".to_owned(), vec![cudnn("cudnn_gru_1.ckpt", 3, "cudnn_gru", &[])]);
    for class in ["DeviceWrapper", "FusedRNNCellAdaptor"] {
        // These wrap a cell, as this one does without its arguments for training.
        let alike = all["DropoutWrapper"].iter().map(|given| {
            let mut given = given.clone();
            given.args.retain(|name, _| name == "cell");
            given
        });
        all.insert(class.to_owned(), alike.collect());
    }
    let mut bases: BTreeMap<String, Vec<Base<'_>>> = BTreeMap::new();
    for (class, given) in &all {
        bases.insert(class.clone(), given.iter().map(|given| given.base(class, &Args::new(), true)).collect());
    }
    for (class, like, more) in ALIKE {
        let more: Args = serde_json::from_str(more).expect("arguments are JSON");
        bases.insert(class.to_owned(), all[like].iter().map(|given| given.base(class, &more, false)).collect());
    }
    let classes = accepted(&words, |class| format!("class {class:?}"), |class| bare("tf1", class, &Args::new()).err());
    let (mut table, mut alone) = (Table::new(), BTreeMap::new());
    for (class, bases) in &bases {
        add(&mut table, &mut alone, class, arguments(class, bases, &words));
    }
    add_bare(&mut table, "tf1", &classes, &words);
    complete("docs/tensorflow1.md", &table, &classes);
    page("docs/tensorflow1.md", &table, &alone, "class");
}

/// Golden cases have all outputs or the last one; in an architecture the argument selects the outputs that are used.
#[test]
fn return_sequences_of_ncps_selects_the_last_output_as_take_does() {
    let case = Case::open(&repository().join("tests/golden/ncps__CfC__nots_i8h4t5b3s.safetensors"));
    let definition = case.definition();
    let tensors: BTreeMap<String, Tensor> =
        definition.params.iter().map(|(name, &tensor)| (name.clone(), tensor.clone())).collect();
    let import = |returned: bool, take: &str| {
        let mut args = definition.args.clone();
        args.insert("return_sequences".to_owned(), returned.into());
        let layer = json!({"name": "cfc", "class": "CfC", "args": args, "prefix": "", "take": take});
        let text = json!({"framework": "ncps", "inputs": [{"name": "x", "size": 8, "steps": 5}], "layers": [layer]});
        let description: Description = serde_json::from_value(text).expect("it is an architecture");
        description.model("torch", &tensors, None, "").unwrap_or_else(|error| panic!("{error}")).model
    };
    assert_eq!(import(false, "sequence"), import(true, "last"));
    assert_ne!(import(false, "sequence"), import(true, "sequence"));
}

#[test]
fn unknown_fields_of_an_architecture_are_refused_by_name() {
    for pointer in ["", "/inputs/0", "/layers/0"] {
        let mut text = json!({"inputs": [{"name": "x", "size": 3}], "layers": [{"name": "y", "class": "Tanh"}]});
        assert!(serde_json::from_value::<Description>(text.clone()).is_ok());
        text.pointer_mut(pointer).expect("the architecture has this part")["unheard_of"] = json!(null);
        let error = serde_json::from_value::<Description>(text).expect_err("the field is unknown").to_string();
        assert!(error.contains("unknown field `unheard_of`"), "{pointer}: {error}");
    }
}
