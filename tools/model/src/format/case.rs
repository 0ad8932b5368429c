//! A class of a framework with its constructor arguments and parameters. Importers take arguments and tensors from it
//! one by one and make layers in canonical shapes and gate order. Anything that remains is refused by name, so that
//! nothing is ignored silently.
//!
//! # How a family adds a class
//!
//! A class is a function that takes its arguments and tensors from the `Case` and makes a [`Layer`]. The layer states
//! which tensors `initial_*` and `final_*` of a golden case hold its states ([`Layer::state`], [`At`]): a whole tensor,
//! the part from a feature on, or one index of a leading dimension.
//!
//! ```ignore
//! fn ugrnn(case: &mut Case<'_>) -> Result<Layer> {
//!     let forget_bias = case.number("forget_bias")?.unwrap_or(1.0);
//!     let activation = case.activation("activation", Activation::Tanh)?;
//!     let layer = cells::ugrnn(case.tensor("kernel")?, case.tensor("bias")?, forget_bias, activation)?;
//!     Ok(layer.state("hidden", At::new("state")))       // a tuple: At::new("c"); PyTorch: At::new("h").index(k);
//! }                                                     // TF's [c, h] in one tensor: At::new("state").from(units)
//! ```
//!
//! Then add one line to the `match` on `case.cls` in the family's `convert`. A network that is not a chain uses the
//! builder [`Network`]; cells written as calls (`"LSTMCell(5)"`) are read with `Case::cell`; an output that is a
//! state after every step is [`Layer::trace`]; further inputs of the model are input ports with the tensors' names.
//!
//! [`Layer`]: super::layer::Layer
//! [`Layer::state`]: super::layer::Layer::state
//! [`Layer::trace`]: super::layer::Layer::trace
//! [`At`]: super::layer::At

mod arguments;

use std::collections::{BTreeSet, HashMap};

use serde_json::{Map, Value};

use super::network::{Control, Conversion, Network};
use super::{activation::Names, call::Call, weights::Named};
use crate::{canonical::Tensor, error::ImportError, error::Result};
pub(super) use arguments::{agree, unsupported};

/// A layer or network of one class, as its framework defines it.
#[derive(Clone, Debug, Default)]
pub struct Definition<'a> {
    /// The framework, as in `--arch` files: `torch`, `tf1`, `keras3`.
    pub family: String,
    /// The class; the part before the last `.` is its module and is not read.
    pub cls: String,
    /// Arguments of its constructor, by name.
    pub args: Map<String, Value>,
    /// Parameters by their names within the class.
    pub params: HashMap<String, &'a Tensor>,
    /// Dimensions of the input at one step, if known.
    pub input_shape: Option<Vec<usize>>,
    /// Sizes that are known in addition to the arguments: `T` is the number of steps of a sequence.
    pub sizes: Map<String, Value>,
    /// Names of the inputs, if known. All of them must be read.
    pub inputs: BTreeSet<String>,
    /// Names of the outputs, if known.
    pub outputs: BTreeSet<String>,
    /// Inputs `x` that `f32` does not hold exactly. A tensor `x_rest` holds the rounding error.
    pub rests: BTreeSet<String>,
    /// Free text; for some classes only this says how the network was run.
    pub notes: String,
    /// The order of the gates, in words.
    pub gate_order: String,
}

pub(crate) type InnerLayer = (String, Map<String, Value>);

/// A definition whose arguments, parameters and inputs must all be consumed.
pub(crate) struct Case<'a> {
    /// The family's names of activations.
    pub names: Names,
    /// The class, without its module.
    pub cls: String,
    /// Free text; for some classes only this says how the network was run.
    pub notes: String,
    /// The order of the gates, in words.
    pub gate_order: String,
    inputs: BTreeSet<String>,
    outputs: BTreeSet<String>,
    rests: BTreeSet<String>,
    controls: Vec<(String, Control)>,
    args: Map<String, Value>,
    /// Arguments whose value is None.
    nulls: BTreeSet<String>,
    params: HashMap<String, &'a Tensor>,
    sizes: Map<String, Value>,
    input_shape: Option<Vec<usize>>,
}

impl<'a> Case<'a> {
    pub fn new(definition: Definition<'a>) -> Self {
        let names = Names::of_family(&definition.family);
        let (args, nulls) = given(definition.args, names);
        let cls = definition.cls.rsplit('.').next().unwrap_or(&definition.cls).to_owned();
        let Definition { params, input_shape, sizes, inputs, outputs, rests, notes, gate_order, .. } = definition;
        let controls = Vec::new();
        Self {
            names,
            cls,
            notes,
            gate_order,
            inputs,
            outputs,
            rests,
            controls,
            args,
            nulls,
            params,
            sizes,
            input_shape,
        }
    }

    /// Builds the model of the network that the family created from this case.
    pub fn conversion(self, family: &str, network: Network) -> Result<Conversion> {
        self.finish()?;
        self.check_inputs(&network)?;
        Conversion::new(format!("{family} {}", self.cls), network, self.controls)
    }

    /// Reads a parameter that is a vector of this length.
    pub fn vector(&mut self, name: &str, len: usize) -> Result<Tensor> {
        let tensor = self.tensor(name)?;
        Named { name, tensor }.shaped(&[len], len)
    }

    /// Reads the parameter called `path`, or the one whose name ends in `/path` or `.path` in the fewest scopes: a
    /// wrapper's own `kernel`, not that of the cell inside.
    pub fn tensor(&mut self, path: &str) -> Result<&'a Tensor> {
        self.optional(path)?.ok_or_else(|| ImportError::MissingTensor { tensor: path.to_owned() })
    }

    /// Like [`Case::tensor`], if it is present.
    pub fn optional(&mut self, path: &str) -> Result<Option<&'a Tensor>> {
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

    /// Whether there is a parameter with exactly this name; it is not consumed.
    pub fn has_tensor(&self, path: &str) -> bool {
        self.params.contains_key(path)
    }

    /// The first path segment of a parameter that starts with this text.
    pub fn segment(&self, begins: &str) -> Option<String> {
        let segment = |path: &String| path.split('/').find(|segment| segment.starts_with(begins)).map(str::to_owned);
        self.params.keys().filter(|path| segment(path).is_some()).min().and_then(segment)
    }

    /// Like [`Case::tensor`], with its name.
    pub fn named<'n>(&mut self, path: &'n str) -> Result<Named<'n>>
    where
        'a: 'n,
    {
        Ok(Named { name: path, tensor: self.tensor(path)? })
    }

    /// Returns the parameter with exactly this name without consuming it.
    pub fn peek(&self, path: &str) -> Result<&'a Tensor> {
        self.params.get(path).copied().ok_or_else(|| ImportError::MissingTensor { tensor: path.to_owned() })
    }

    /// A cell within this case: `call` is its constructor call, `"LSTMCell(5, use_peepholes=True)"`. Its parameters are
    /// those whose paths contain the segments of `scope` in this order, as early as in any path; they are named by the
    /// rest of the path. `read` must consume all of them and all arguments.
    pub fn cell<T>(&mut self, call: &str, scope: &[&str], read: impl FnOnce(&mut Case<'a>) -> Result<T>) -> Result<T> {
        let Call { cls, mut args } = Call::parse(call)?;
        args.retain(|_, value| !value.is_null());
        self.scoped(cls, args, scope, read)
    }

    /// Like [`Case::cell`], for a class whose arguments are given separately.
    pub fn scoped<T>(
        &mut self,
        cls: String,
        args: Map<String, Value>,
        scope: &[&str],
        read: impl FnOnce(&mut Case<'a>) -> Result<T>,
    ) -> Result<T> {
        // Number of segments before the rest of the path.
        let depth = |path: &str| {
            let mut segments = path.split('/').enumerate();
            scope.iter().try_fold(0, |_, part| segments.find(|(_, segment)| segment == part).map(|(at, _)| at + 1))
        };
        let nearest = self.params.keys().filter_map(|path| depth(path)).min();
        // Sorted, because the last of several paths with the same rest counts.
        let own: BTreeSet<String> =
            self.params.keys().filter(|path| nearest.is_some() && depth(path) == nearest).cloned().collect();
        let rest = |path: &str| path.split('/').skip(nearest.unwrap_or(0)).collect::<Vec<_>>().join("/");
        let params = own.iter().filter_map(|path| Some((rest(path), self.params.remove(path)?))).collect();
        let outer = Definition {
            params,
            notes: self.notes.clone(),
            gate_order: self.gate_order.clone(),
            sizes: self.sizes.clone(),
            input_shape: self.input_shape.clone(),
            ..Definition::default()
        };
        let mut inner = Case { names: self.names, cls, args, ..Case::new(outer) };
        let result = read(&mut inner)?;
        inner.finish()?;
        Ok(result)
    }

    /// Consumes the control input of this name, if the case has it.
    pub fn control(&mut self, input: &str, control: Control) {
        if self.has_input(input) {
            self.inputs.remove(input);
            self.controls.push((input.to_owned(), control));
        }
    }

    /// Whether the case has an input of this name. An input port of this name consumes it.
    pub fn has_input(&self, name: &str) -> bool {
        self.inputs.contains(name)
    }

    pub fn has_output(&self, name: &str) -> bool {
        self.outputs.contains(name)
    }

    /// Whether the difference of this input from its nearest `f32` is given, under its name and `_rest`.
    pub fn has_rest(&self, input: &str) -> bool {
        self.rests.contains(input)
    }

    pub fn steps(&self) -> Result<usize> {
        self.noted_size("T").ok_or_else(|| ImportError::NeedsWindow { what: self.cls.clone() })
    }

    /// A size that is known in addition to the arguments.
    pub fn noted_size(&self, name: &str) -> Option<usize> {
        self.sizes.get(name).and_then(Value::as_u64).and_then(|size| usize::try_from(size).ok())
    }

    /// Number of input features at one step, over all dimensions.
    pub fn input_size(&self) -> Result<usize> {
        Ok(self.input_shape()?.iter().product())
    }

    /// Dimensions of the input at one step.
    pub fn input_shape(&self) -> Result<Vec<usize>> {
        self.input_shape
            .clone()
            .ok_or_else(|| ImportError::Unsupported(format!("{} without an input over time", self.cls)))
    }

    pub fn unknown_class<T>(&self) -> Result<T> {
        Err(ImportError::Unsupported(format!("class {:?}", self.cls)))
    }

    /// Rejects anything that was not consumed. The text of the error names an argument with its value.
    pub fn finish(&self) -> Result<()> {
        if let Some((name, value)) = self.args.iter().next() {
            let reason = format!("unknown argument {} = {value}", name.escape_debug());
            return Err(ImportError::Unsupported(reason));
        }
        let left = self.params.keys().min();
        left.map_or(Ok(()), |name| Err(ImportError::Unsupported(format!("tensor {name:?} of {}", self.cls))))
    }

    /// Rejects a case with an input that is neither an initial state, nor consumed by [`Case::control`], nor an input
    /// port: `input`, or `input_0`, `input_1`, ... for successive calls.
    fn check_inputs(&self, network: &Network) -> Result<()> {
        let known = |name: &str| {
            let call = name.rsplit_once('_').filter(|(_, call)| call.parse::<usize>().is_ok());
            name.starts_with("initial_")
                || network.has_input(name)
                || call.is_some_and(|(port, _)| network.has_input(port))
        };
        let unknown = self.inputs.iter().find(|name| !known(name));
        unknown.map_or(Ok(()), |name| Err(ImportError::Unsupported(format!("{} with an input {name:?}", self.cls))))
    }
}

/// Separates the arguments that are None from the others. None means the default in every supported class, except that
/// it means no activation in Keras.
fn given(mut args: Map<String, Value>, names: Names) -> (Map<String, Value>, BTreeSet<String>) {
    let is_linear =
        |name: &str, value: &Value| value.is_null() && name.ends_with("activation") && names.none_is_linear();
    for (_, value) in args.iter_mut().filter(|(name, value)| is_linear(name, value)) {
        *value = "linear".into();
    }
    let nulls = args.iter().filter(|(_, value)| value.is_null()).map(|(name, _)| name.clone()).collect();
    args.retain(|_, value| !value.is_null());
    (args, nulls)
}
