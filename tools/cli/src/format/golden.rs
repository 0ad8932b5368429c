//! Networks from a framework's own tensors and constructor arguments, as golden cases hold them: the metadata say
//! `family`, `cls`, `constructor_args`, `param_names` and `input_names`. What is not known is refused by name, so
//! that no case passes because something was ignored. Batches are the business of who runs it.
//!
//! # How a family adds a class
//!
//! A class is a function that takes every argument and tensor that it reads from the `Case`, and makes a [`Layer`]
//! in the canonical shapes and gate order. The layer says where the case's tensors `initial_*` and `final_*` hold its
//! states ([`Layer::state`], [`At`]): whole, from a feature on, or at an index of a leading dimension. Each element of
//! those tensors must be some state's, or whoever runs the case refuses it.
//!
//! ```ignore
//! fn ugrnn(case: &mut Case<'_>) -> Result<Layer, ImportError> {
//!     let forget_bias = case.number("forget_bias")?.unwrap_or(1.0);
//!     let activation = case.activation("activation", Activation::Tanh)?;
//!     let layer = cells::ugrnn(case.tensor("kernel")?, case.tensor("bias")?, forget_bias, activation)?;
//!     Ok(layer.state("hidden", At::new("state")))       // a tuple: At::new("c"); PyTorch: At::new("h").index(k);
//! }                                                     // TF's [c, h] in one tensor: At::new("state").from(units)
//! ```
//!
//! Then one line in the `match` on `case.cls` of the family's `convert`. A network that is not a chain uses the
//! builder [`Network`]; cells written as calls (`"LSTMCell(5)"`) are read with `Case::cell`; an output that is a
//! state after every step is [`Layer::trace`]; further inputs of the model are input ports of the tensors' names.
//!
//! [`Layer`]: super::layer::Layer
//! [`Layer::state`]: super::layer::Layer::state
//! [`Layer::trace`]: super::layer::Layer::trace
//! [`At`]: super::layer::At

mod arguments;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::{Map, Value};

use super::activation::Names;
use super::call::Call;
use super::network::{Conversion, Network};
use super::weights::Named;
use super::{baselines, edgeml, keras, mingru, ncps, sru, tf1, tf2ops, torch, xlstm};
use crate::canonical::Tensor;
use crate::error::ImportError;
pub(super) use arguments::{agree, unsupported};

/// The model of a case and how the case's tensors go in and out: ports have the names of the tensors (`input`,
/// `output`), nodes are named `lstm`, `gru`, `gru_2`, ...
///
/// # Errors
/// [`ImportError::Unsupported`] for a class, argument, input or tensor that is not read; other errors for tensors
/// that do not fit the class.
pub fn from_case(
    metadata: &HashMap<String, String>,
    tensors: &BTreeMap<String, Tensor>,
) -> Result<Conversion, ImportError> {
    let family = metadata.get("family").map_or("", String::as_str);
    let mut case = Case::new(metadata, tensors)?;
    let network = convert(family, &mut case)?;
    case.finish()?;
    case.check_inputs(&network)?;
    Conversion::new(format!("{family} {}", case.cls), network, case.controls)
}

/// The network of a case of this family.
///
/// # Errors
/// As [`from_case`].
pub(crate) fn convert(family: &str, case: &mut Case<'_>) -> Result<Network, ImportError> {
    match family {
        "baselines" => baselines::convert(case),
        "edgeml" => edgeml::convert(case),
        "mingru" => mingru::convert(case),
        "ncps" => ncps::convert(case),
        "cfc" => ncps::convert_original(case),
        "sru" => sru::convert(case),
        "tf1" => tf1::golden::convert(case),
        "tf2ops" => tf2ops::convert(case),
        "torch" => torch::convert(case),
        "xlstm" => xlstm::convert(case),
        "keras2" | "keras3" => keras::convert(case),
        _ => Err(ImportError::Unsupported(format!("family {family:?}"))),
    }
}

/// What an input of a case that no node reads has to say about the steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// How many steps of each sequence count, or of all: `[batch]` or `[1]`. States stay as they are behind them.
    Length,
    /// `[batch, time]`: 0 where a step does not count. States stay as they are there.
    Mask,
    /// `[batch, time]`: 0 where a step counts.
    Padding,
    /// `[batch, time]`: 1 where every state goes back to zero before the step.
    Reset,
}

/// A class and its arguments.
pub(crate) type InnerLayer = (String, Map<String, Value>);

/// A case of which every argument, parameter and input must be taken.
pub(crate) struct Case<'a> {
    /// What its activations are called.
    pub names: Names,
    /// Class, without its module and what is said about how it was run.
    pub cls: String,
    /// What people should know; some cases say only here how they were run.
    pub notes: String,
    /// The order of its gates, in words.
    pub gate_order: String,
    inputs: BTreeSet<String>,
    outputs: BTreeSet<String>,
    /// Inputs that f32 does not hold exactly: beside `x` there is `x_rest`, what the nearest f32 is short of it.
    rests: BTreeSet<String>,
    controls: Vec<(String, Control)>,
    args: Map<String, Value>,
    /// Arguments that are given as None.
    nulls: BTreeSet<String>,
    /// By their names behind the metadata's `variable_prefix`; without `unused_params`, which no framework reads.
    params: BTreeMap<String, &'a Tensor>,
    sizes: Map<String, Value>,
    /// Of one time step.
    input_shape: Option<Vec<usize>>,
}

impl<'a> Case<'a> {
    fn new(metadata: &HashMap<String, String>, tensors: &'a BTreeMap<String, Tensor>) -> Result<Self, ImportError> {
        let text = |key: &str| metadata.get(key).map_or("", String::as_str);
        let json = |key: &str| {
            let text = metadata.get(key).map_or("null", String::as_str);
            serde_json::from_str(text).map_err(|error| malformed(format!("{key} is not JSON: {error}")))
        };
        let names = |key: &str| -> Result<Vec<String>, ImportError> {
            let names: Option<Vec<String>> =
                serde_json::from_value(json(key)?).map_err(|error| malformed(format!("{key}: {error}")))?;
            Ok(names.unwrap_or_default())
        };
        let object = |key: &str| match json(key)? {
            Value::Object(object) => Ok(object),
            Value::Null => Ok(Map::new()),
            _ => Err(malformed(format!("{key} is not an object"))),
        };
        let prefix = text("variable_prefix");
        let unused = names("unused_params")?;
        let mut params = BTreeMap::new();
        for name in names("param_names")? {
            let tensor = tensors.get(&name).ok_or_else(|| ImportError::MissingTensor { tensor: name.clone() })?;
            // Those may be named as they are behind the prefix that the case's variables share.
            let path = name.strip_prefix(prefix).unwrap_or(&name);
            if !unused.iter().any(|unused| unused == path || *unused == name) {
                params.insert(name, tensor);
            }
        }
        let inputs: BTreeSet<String> = names("input_names")?.into_iter().collect();
        let rests = inputs.iter().filter(|name| tensors.contains_key(&format!("{name}_rest"))).cloned().collect();
        // What stands behind the class says how the framework ran it.
        let cls = text("cls").split_whitespace().next().unwrap_or_default();
        let names_of_activations = Names::of_family(text("family"));
        let (args, nulls) = given(object("constructor_args")?, names_of_activations);
        Ok(Self {
            names: names_of_activations,
            cls: cls.rsplit('.').next().unwrap_or(cls).to_owned(),
            notes: text("notes").to_owned(),
            gate_order: text("gate_order").to_owned(),
            inputs,
            outputs: names("output_names")?.into_iter().collect(),
            rests,
            controls: Vec::new(),
            args,
            nulls,
            params,
            sizes: object("sizes")?,
            input_shape: tensors.get("input").or_else(|| tensors.get("input_0")).and_then(|input| {
                // Behind batch and time, in either order.
                input.shape.get(2..).map(<[usize]>::to_vec)
            }),
        })
    }

    /// A layer of a file: its tensors by their names within it, steps of the sequence if they are known, and the
    /// dimensions of its input at one step.
    pub fn layer(
        family: &str,
        cls: &str,
        args: Map<String, Value>,
        params: BTreeMap<String, &'a Tensor>,
        steps: Option<usize>,
        input_shape: Vec<usize>,
    ) -> Self {
        let names = Names::of_family(family);
        let (args, nulls) = given(args, names);
        Self {
            names,
            cls: cls.rsplit('.').next().unwrap_or(cls).to_owned(),
            notes: String::new(),
            gate_order: String::new(),
            inputs: BTreeSet::new(),
            outputs: BTreeSet::new(),
            rests: BTreeSet::new(),
            controls: Vec::new(),
            args,
            nulls,
            params,
            sizes: steps.map(|steps| ("T".to_owned(), steps.into())).into_iter().collect(),
            input_shape: Some(input_shape),
        }
    }

    /// Takes a parameter that is a vector of this length.
    pub fn vector(&mut self, name: &str, len: usize) -> Result<Tensor, ImportError> {
        let tensor = self.tensor(name)?;
        Named { name, tensor }.shaped(&[len], len)
    }

    /// Takes the parameter that is called `path`, or the one whose name ends in `/path` or `.path` in the fewest scopes: a
    /// wrapper's own `kernel`, not that of the cell within.
    pub fn tensor(&mut self, path: &str) -> Result<&'a Tensor, ImportError> {
        self.optional(path)?.ok_or_else(|| ImportError::MissingTensor { tensor: path.to_owned() })
    }

    /// As [`Case::tensor`], if it is there.
    pub fn optional(&mut self, path: &str) -> Result<Option<&'a Tensor>, ImportError> {
        if let Some(tensor) = self.params.remove(path) {
            return Ok(Some(tensor));
        }
        let ends = |name: &str| name.strip_suffix(path).is_some_and(|scope| scope.ends_with(['/', '.']));
        let scopes = |name: &str| name.matches(['/', '.']).count();
        let mut names: Vec<&String> = self.params.keys().filter(|name| ends(name)).collect();
        names.sort_by_key(|name| scopes(name));
        match names.as_slice() {
            [] => Ok(None),
            [first, second, ..] if scopes(first) == scopes(second) => {
                Err(ImportError::Unsupported(format!("several tensors named {path:?}")))
            }
            [first, ..] => {
                let name = (*first).clone();
                Ok(self.params.remove(&name))
            }
        }
    }

    /// Whether there is a parameter of just this name; it is not taken.
    pub fn has_tensor(&self, path: &str) -> bool {
        self.params.contains_key(path)
    }

    /// The first part of a parameter's path that begins so.
    pub fn segment(&self, begins: &str) -> Option<String> {
        let mut segments = self.params.keys().flat_map(|path| path.split('/'));
        segments.find(|segment| segment.starts_with(begins)).map(str::to_owned)
    }

    /// As [`Case::tensor`], with its name.
    pub fn named<'n>(&mut self, path: &'n str) -> Result<Named<'n>, ImportError>
    where
        'a: 'n,
    {
        Ok(Named { name: path, tensor: self.tensor(path)? })
    }

    /// Looks at a parameter, of which this is the whole name.
    pub fn peek(&self, path: &str) -> Result<&'a Tensor, ImportError> {
        self.params.get(path).copied().ok_or_else(|| ImportError::MissingTensor { tensor: path.to_owned() })
    }

    /// Takes a parameter that the framework needs to be there but does not read with these arguments.
    pub fn unread(&mut self, path: &str) -> Result<(), ImportError> {
        self.tensor(path).map(drop)
    }

    /// A cell within this case: `call` is how its constructor was called, `"LSTMCell(5, use_peepholes=True)"`; it has
    /// the parameters whose paths hold the segments of `scope` in this order, as near the front as any path does, under
    /// what stands behind them. `read` must take all of them and all arguments.
    pub fn cell<T>(
        &mut self,
        call: &str,
        scope: &[&str],
        read: impl FnOnce(&mut Case<'a>) -> Result<T, ImportError>,
    ) -> Result<T, ImportError> {
        let Call { cls, mut args } = Call::parse(call)?;
        args.retain(|_, value| !value.is_null());
        self.scoped(cls, args, scope, read)
    }

    /// As `Case::cell`, of a class whose arguments are given apart from it.
    pub fn scoped<T>(
        &mut self,
        cls: String,
        args: Map<String, Value>,
        scope: &[&str],
        read: impl FnOnce(&mut Case<'a>) -> Result<T, ImportError>,
    ) -> Result<T, ImportError> {
        // How many segments go before what stands behind the scope.
        let depth = |path: &str| {
            let mut segments = path.split('/').enumerate();
            scope.iter().try_fold(0, |_, part| segments.find(|(_, segment)| segment == part).map(|(at, _)| at + 1))
        };
        let nearest = self.params.keys().filter_map(|path| depth(path)).min();
        let params = self
            .params
            .extract_if(.., |path, _| nearest.is_some() && depth(path) == nearest)
            .map(|(path, tensor)| (path.split('/').skip(nearest.unwrap_or(0)).collect::<Vec<_>>().join("/"), tensor))
            .collect();
        let mut inner = Case {
            names: self.names,
            cls,
            notes: self.notes.clone(),
            gate_order: self.gate_order.clone(),
            inputs: BTreeSet::new(),
            outputs: BTreeSet::new(),
            rests: BTreeSet::new(),
            controls: Vec::new(),
            args,
            nulls: BTreeSet::new(),
            params,
            sizes: self.sizes.clone(),
            input_shape: self.input_shape.clone(),
        };
        let result = read(&mut inner)?;
        inner.finish()?;
        Ok(result)
    }

    /// Takes the input of this name, if the case has it, which says something about the steps.
    pub fn control(&mut self, input: &str, control: Control) {
        if self.has_input(input) {
            self.inputs.remove(input);
            self.controls.push((input.to_owned(), control));
        }
    }

    /// Whether the case has an input of this name. It is taken by an input port of that name.
    pub fn has_input(&self, name: &str) -> bool {
        self.inputs.contains(name)
    }

    /// Whether the case has an output of this name.
    pub fn has_output(&self, name: &str) -> bool {
        self.outputs.contains(name)
    }

    /// Whether beside this input there is what the nearest f32 is short of it, under its name and `_rest`.
    pub fn has_rest(&self, input: &str) -> bool {
        self.rests.contains(input)
    }

    /// Steps of the case's sequences.
    pub fn steps(&self) -> Result<usize, ImportError> {
        self.noted_size("T").ok_or_else(|| ImportError::NeedsWindow { what: self.cls.clone() })
    }

    /// A size that the case notes beside its arguments.
    pub fn noted_size(&self, name: &str) -> Option<usize> {
        self.sizes.get(name).and_then(Value::as_u64).and_then(|size| usize::try_from(size).ok())
    }

    /// Features of the input at one step, in all its dimensions.
    pub fn input_size(&self) -> Result<usize, ImportError> {
        Ok(self.input_shape()?.iter().product())
    }

    /// Dimensions of the input at one step.
    pub fn input_shape(&self) -> Result<Vec<usize>, ImportError> {
        self.input_shape.clone().ok_or_else(|| malformed("it has no input over time".into()))
    }

    /// The class is not read.
    pub fn unknown_class<T>(&self) -> Result<T, ImportError> {
        Err(ImportError::Unsupported(format!("class {:?}", self.cls)))
    }

    /// Refuses what was not taken.
    pub fn finish(&self) -> Result<(), ImportError> {
        if let Some((name, value)) = self.args.iter().next() {
            return Err(unsupported(name, value));
        }
        match self.params.keys().next() {
            Some(name) => Err(ImportError::Unsupported(format!("tensor {name:?} of {}", self.cls))),
            None => Ok(()),
        }
    }

    /// Refuses a case with an input that is neither an initial state, nor taken by [`Case::control`], nor an input
    /// port: `input`, or `input_0`, `input_1`, ... for successive calls.
    fn check_inputs(&self, network: &Network) -> Result<(), ImportError> {
        let known = |name: &str| {
            let call = name.rsplit_once('_').filter(|(_, call)| call.parse::<usize>().is_ok());
            name.starts_with("initial_")
                || network.has_input(name)
                || call.is_some_and(|(port, _)| network.has_input(port))
        };
        match self.inputs.iter().find(|name| !known(name)) {
            Some(name) => Err(ImportError::Unsupported(format!("{} with an input {name:?}", self.cls))),
            None => Ok(()),
        }
    }
}

/// Arguments without those that are None, and which these are. None means "as if it were not given" in every class that
/// is read, but no activation in Keras.
fn given(mut args: Map<String, Value>, names: Names) -> (Map<String, Value>, BTreeSet<String>) {
    for (_, value) in args.iter_mut().filter(|(name, value)| value.is_null() && name.ends_with("activation")) {
        if names.none_is_linear() {
            *value = "linear".into();
        }
    }
    let nulls = args.iter().filter(|(_, value)| value.is_null()).map(|(name, _)| name.clone()).collect();
    args.retain(|_, value| !value.is_null());
    (args, nulls)
}

fn malformed(reason: String) -> ImportError {
    ImportError::Malformed { format: "golden case", reason }
}
