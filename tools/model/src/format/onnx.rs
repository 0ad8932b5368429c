//! ONNX models (<https://onnx.ai>): LSTM, GRU and RNN with all of their attributes, and the layers around them.
//!
//! A graph is read for one sequence, element by element: constants are computed, moved elements are tracked, and the
//! remaining operators become layers. The operators show which dimension of an input is time and which one is the
//! batch. Reading starts again whenever such a fact is found, so a graph may be read several times. If every layer
//! needs only the current step, the network is a stream; otherwise it processes windows with as many steps as the input
//! has.

mod choices;
mod conventions;
mod delay;
mod einsum;
mod elementwise;
mod external;
mod gather;
mod graph;
mod hint;
mod interface;
mod kernels;
mod known;
mod layers;
mod learnt;
mod loops;
mod lower;
mod made;
mod moves;
mod past;
#[doc(hidden)] // for tests that write files
pub mod proto;
mod recurrent;
mod rewrite;
mod roles;
mod size;
mod spread;
mod states;
mod stretched;
mod transposed;
mod value;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;

use self::graph::{GraphInput, Output, Session, Setup, Stop, is_whole};
use self::interface::Ends;
pub use self::interface::{Interface, InterfaceError};
use self::learnt::Learnt;
use self::proto::{GraphProto, ModelProto, ValueInfo};
use self::value::{Axis, Value};
use super::refuse::{check_window, err_if, limit_if, unsupported_if};
use super::{Imported, Options};
use crate::budget::Budget;
use crate::canonical::{Canonical, Schedule, Tensor};
use crate::{data::one_line, error::ImportError, error::Result};

const FORMAT: &str = "ONNX model";
const VERSIONS: std::ops::RangeInclusive<i64> = 7..=28;
const MAX_PORTS: usize = 256;
/// Maximum number of elements that all readings of a graph examine together. A node counts as [`graph::NODE`] of them.
const MAX_WORK: usize = 1 << 26;
/// Stand-ins for an open number of steps. The network must not depend on the choice.
const STAND_INS: [usize; 2] = [7, 11];

fn malformed(reason: String) -> ImportError {
    ImportError::Malformed { format: FORMAT, reason: one_line(&reason) }
}

/// The role of an input's dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// Independent sequences.
    Batch,
    /// Steps of a sequence.
    Time,
}

/// Source of the length of each sequence in a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Lens {
    /// An input of the graph.
    Input(usize),
    /// Constants.
    Known(Vec<usize>),
}

/// Information that the user gives about a model, directly or with its inputs.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// Shapes of inputs by name: `--shape`.
    pub shapes: BTreeMap<String, Vec<usize>>,
    /// Inputs that are weights: `--bind`.
    pub bound: BTreeMap<String, Tensor>,
    /// Other tensors at hand, which are bound if a weight is needed.
    pub offered: BTreeMap<String, Tensor>,
    /// Outputs that are the next values of inputs, by the names of the inputs: `--state`.
    pub states: BTreeMap<String, String>,
    /// The folder of the model, for values that are in a file beside it.
    pub folder: Option<PathBuf>,
}

impl Given {
    /// No information.
    pub const NONE: Self = Self {
        shapes: BTreeMap::new(),
        bound: BTreeMap::new(),
        offered: BTreeMap::new(),
        states: BTreeMap::new(),
        folder: None,
    };
}

/// Imports the model in the bytes of a file, with the mapping of its graph's tensors.
///
/// # Errors
/// If the bytes are not an ONNX model or an operation is not supported; the error names node, op and attribute.
pub fn open(bytes: &[u8], name: &str, options: &Options) -> Result<(Imported, Interface)> {
    unsupported_if(options.description.is_some(), "--arch with a file that holds its architecture")?;
    let mut budget = Budget::of_file(bytes.len());
    let mut model = proto::decode(bytes, &mut budget)?;
    graph_of(&model)?;
    let version = version(&model)?;
    let mut len = bytes.len();
    if let Some(graph) = &mut model.graph {
        refuse_quantized(graph)?;
        len = len.saturating_add(external::read(graph, options.onnx.folder.as_deref(), &mut budget)?);
    }
    let mut initializers = HashMap::new();
    for tensor in model.graph.iter_mut().flat_map(|graph| &mut graph.initializer) {
        initializers.insert(tensor.name.clone(), graph::initializer(tensor, &mut budget)?);
        // The raw bytes are not needed any more.
        budget.give(std::mem::take(&mut tensor.raw_data).len(), 1);
    }
    let starts = states::starts(graph_of(&model)?, &options.onnx.states, &mut initializers);
    if let Some(graph) = &mut model.graph {
        rewrite::rewrite(graph, &mut initializers, &mut budget)?;
    }
    let graph = graph_of(&model)?;
    let (work, proposes) = (Cell::new(MAX_WORK), true);
    let reader = Reader { graph, version, options, name, initializers, budget, starts, len, work, proposes };
    let mut learnt = Learnt::default();
    let built = reader.first(&mut learnt)?;
    if reader.has_open_time(&learnt)? {
        let again = reader.build(&mut learnt, false, STAND_INS[1])?;
        if again.model != built.model {
            return Err(ImportError::Refused {
                found: format!(
                    "its result depends on the number of steps, which it leaves open; give it, as in {}",
                    reader.timed_hint(&learnt)?
                ),
                advice: "",
            });
        }
    }
    reader.check_window(&learnt)?;
    let timed = learnt.roles.values().any(|role| *role == Role::Time);
    let timed = timed || learnt.window.is_some() || reader.offers_window();
    unsupported_if(options.window.is_some() && !timed, "--window with a graph whose inputs have no steps")?;
    let bound = options.onnx.bound.keys().map(|name| ("--bind", name));
    for (option, name) in bound.chain(options.onnx.shapes.keys().map(|name| ("--shape", name))) {
        let unknown = !graph.input.iter().any(|input| input.name == *name);
        unsupported_if(unknown, format_args!("{option} of {name:?}, which is not an input of the graph,"))?;
    }
    Ok((Imported { model: built.model, notes: built.notes, assumptions: Vec::new() }, built.interface))
}

pub(super) fn import(bytes: &[u8], name: &str, options: &Options) -> Result<Imported> {
    Ok(open(bytes, name, options)?.0)
}

/// Refuses a model that ONNX Runtime quantized.
fn refuse_quantized(graph: &GraphProto) -> Result<()> {
    let is_quantized = |op: &str| {
        ["QuantizeLinear", "DequantizeLinear", "ConvInteger", "MatMulInteger"].contains(&op)
            || op.starts_with("QLinear")
            || op.starts_with("DynamicQuantize")
            || op.starts_with("QAttention")
    };
    match graph.node.iter().find(|node| is_quantized(&node.op_type)) {
        None => Ok(()),
        Some(node) => Err(ImportError::Refused {
            found: format!("it was quantized by onnxruntime (op {})", one_line(&node.op_type)),
            advice: "import the float model that it was made from: pack quantizes it",
        }),
    }
}

fn graph_of(model: &ModelProto) -> Result<&GraphProto> {
    let graph = model.graph.as_ref().ok_or_else(|| malformed("it has no graph".into()))?;
    if let Some(function) = model.functions.first() {
        return Err(ImportError::Unsupported(format!("function {:?}", one_line(&function.name))));
    }
    unsupported_if(!graph.sparse_initializer.is_empty(), "a sparse initializer")?;
    let many = graph.input.len() > MAX_PORTS + graph.initializer.len() || graph.output.len() > MAX_PORTS;
    limit_if(many, MAX_PORTS, "inputs or outputs")?;
    err_if(graph.output.is_empty(), || malformed("it has no output".into()))?;
    Ok(graph)
}

fn version(model: &ModelProto) -> Result<i64> {
    let own = |domain: &str| matches!(domain, "" | "ai.onnx");
    let found = model.opset_import.iter().find(|set| own(&set.domain)).map_or(1, |set| set.version);
    if VERSIONS.contains(&found) {
        return Ok(found);
    }
    let (least, most) = VERSIONS.into_inner();
    Err(ImportError::Refused {
        found: format!("its operators are of version {found} (opset); {least} to {most} are supported"),
        advice: "export the model with another opset, or convert it with onnx.version_converter",
    })
}

struct Reader<'a> {
    graph: &'a GraphProto,
    version: i64,
    options: &'a Options,
    name: &'a str,
    /// The graph's own constants by name.
    initializers: HashMap<String, Value>,
    /// Memory that is left for one reading.
    budget: Budget,
    /// Values of states before the first step, as in [`Setup`].
    starts: BTreeMap<String, Vec<f32>>,
    /// Length of the file.
    len: usize,
    /// Elements and nodes that may still be examined, over all readings.
    work: Cell<usize>,
    /// Whether its errors propose shapes that it tries.
    proposes: bool,
}

struct Built {
    model: Canonical,
    interface: Interface,
    notes: Vec<String>,
}

impl Reader<'_> {
    /// The inputs without an initializer.
    fn inputs(&self) -> impl Iterator<Item = (usize, &ValueInfo)> {
        self.graph.input.iter().enumerate().filter(|(_, input)| !self.initializers.contains_key(&input.name))
    }

    /// Whether an input holds integers, and its dimensions, as given by the file or the user.
    fn said(&self, input: &ValueInfo) -> Result<(bool, Vec<Option<usize>>)> {
        let label = one_line(&input.name);
        let tensor = input.of.as_ref().and_then(|of| of.tensor.as_ref());
        let tensor =
            tensor.ok_or_else(|| ImportError::Unsupported(format!("input {label:?}, which is not a tensor,")))?;
        let whole = is_whole(tensor.elem_type)
            .ok_or_else(|| ImportError::Unsupported(format!("input {label:?} of element type {}", tensor.elem_type)))?;
        let given = self.options.onnx.shapes.get(&input.name);
        let Some(shape) = &tensor.shape else {
            return match given {
                Some(given) => Ok((whole, given.iter().copied().map(Some).collect())),
                None => Err(self.open(&input.name, "the number of its dimensions", &[None; 3])),
            };
        };
        let positive =
            |dim: &proto::DimProto| dim.value.and_then(|dim| usize::try_from(dim).ok()).filter(|&dim| dim > 0);
        let mut dims: Vec<Option<usize>> = shape.dim.iter().map(positive).collect();
        if let Some(given) = given {
            let fits = |(dim, given): (&Option<usize>, &usize)| dim.is_none_or(|dim| dim == *given);
            if given.len() != dims.len() || !dims.iter().zip(given).all(fits) {
                return Err(ImportError::Refused {
                    found: format!("input {label:?} is {}, not {given:?}", written(&dims)),
                    advice: "correct --shape, or the input",
                });
            }
            dims = given.iter().copied().map(Some).collect();
        }
        // An offered tensor may have the steps of a stream as an additional first dimension.
        if let Some(offered) = self.options.onnx.offered.get(&input.name)
            && let Some(more @ 0..=1) = offered.shape.len().checked_sub(dims.len())
        {
            for (dim, &given) in dims.iter_mut().zip(&offered.shape[more..]) {
                *dim = dim.or(Some(given).filter(|&given| given > 0));
            }
        }
        for (dim, known) in dims.iter_mut().zip(self.usual(input).into_iter().flatten()) {
            *dim = dim.or(Some(known));
        }
        Ok((whole, dims))
    }

    /// The shape that the authors of the graph use, unless the user gives a shape or a tensor for this input.
    fn usual(&self, input: &ValueInfo) -> Option<[usize; 2]> {
        let given = &self.options.onnx;
        let shape = input.of.as_ref()?.tensor.as_ref()?.shape.as_ref()?;
        let is_said = shape.dim.iter().all(|dim| dim.value.is_some_and(|dim| dim > 0));
        if is_said || given.shapes.contains_key(&input.name) || given.offered.contains_key(&input.name) {
            return None;
        }
        let rate = given.bound.get("sr").and_then(|rate| rate.data.first().copied());
        conventions::shape(self.graph, &input.name, rate)
    }

    fn open(&self, input: &str, what: &str, dims: &[Option<usize>]) -> ImportError {
        let (label, hint) = (one_line(input), self.shape_hint(input, dims));
        ImportError::Refused {
            found: format!("input {label:?} leaves {what} open; give its shape, as in {hint}"),
            advice: "",
        }
    }

    /// Each input with a dimension over time, and the number of its steps, if it is known.
    fn timed(&self, learnt: &Learnt) -> Result<Vec<(&ValueInfo, Option<usize>)>> {
        let inputs: Vec<&ValueInfo> = self.variable(learnt).collect();
        let timed = learnt.roles.iter().filter(|(_, role)| **role == Role::Time);
        let mut timed: Vec<Axis> = timed.map(|(axis, _)| *axis).collect();
        timed.sort_unstable();
        timed.into_iter().map(|(input, axis)| Ok((inputs[input], self.said(inputs[input])?.1[axis]))).collect()
    }

    /// The option that gives the first open number of steps.
    fn timed_hint(&self, learnt: &Learnt) -> Result<String> {
        let timed = self.timed(learnt)?;
        let open = timed.iter().find(|(_, steps)| steps.is_none());
        open.map_or(Ok("--window N".into()), |(input, _)| Ok(self.shape_hint(&input.name, &self.said(input)?.1)))
    }

    /// Refuses `--window` of another length than that of an input.
    fn check_window(&self, learnt: &Learnt) -> Result<()> {
        let mut timed = self.timed(learnt)?.into_iter();
        timed.try_for_each(|(input, steps)| check_window(&input.name, steps, self.options.window))
    }

    /// Whether the number of steps is not given anywhere.
    fn has_open_time(&self, learnt: &Learnt) -> Result<bool> {
        Ok(self.options.window.is_none() && self.timed(learnt)?.iter().any(|(_, steps)| steps.is_none()))
    }

    /// The inputs that are not bound to constants.
    fn variable(&self, learnt: &Learnt) -> impl Iterator<Item = &ValueInfo> {
        let bound =
            |name: &str| self.options.onnx.bound.contains_key(name) || learnt.constants.iter().any(|of| of == name);
        self.inputs().map(|(_, input)| input).filter(move |input| !bound(&input.name))
    }

    /// Builds the network as a stream, or over a window if it needs all steps and their number is known.
    fn first(&self, learnt: &mut Learnt) -> Result<Built> {
        match self.build(learnt, false, STAND_INS[0]) {
            Err(ImportError::NeedsWindow { .. }) if !self.has_open_time(learnt)? => {
                self.build(learnt, true, STAND_INS[0])
            }
            built => built,
        }
    }

    /// Builds the network. Reads the graph again whenever a new fact is found.
    fn build(&self, learnt: &mut Learnt, windowed: bool, stand_in: usize) -> Result<Built> {
        const MOST_TIMES: usize = 4 * MAX_PORTS;
        // The error before entries of a batch were read as steps.
        let mut before = None;
        'reading: for _ in 0..MOST_TIMES {
            let variable: Vec<&ValueInfo> = self.variable(learnt).collect();
            let mut bound = HashMap::new();
            for (_, input) in self.inputs() {
                let given = &self.options.onnx;
                let offered = || given.offered.get(&input.name).filter(|_| learnt.constants.contains(&input.name));
                if let Some(tensor) = given.bound.get(&input.name).or_else(offered) {
                    let (whole, said) = self.said(input)?;
                    let tensor = filled(tensor.clone(), said.len());
                    let fits = said.len() == tensor.shape.len()
                        && said.iter().zip(&tensor.shape).all(|(said, dim)| said.is_none_or(|said| said == *dim));
                    if !fits {
                        let (label, said) = (one_line(&input.name), written(&said));
                        return Err(ImportError::Refused {
                            found: format!("input {label:?} is {said}, not {:?}", tensor.shape),
                            advice: "correct the file given with --bind, or the input",
                        });
                    }
                    let Tensor { shape, data } = tensor;
                    let value = match whole {
                        true => Value::ints(shape, data.iter().map(|&value| value as i64).collect()),
                        false => Value::floats(shape, data),
                    };
                    bound.insert(input.name.clone(), value);
                }
            }
            let mut notes = Vec::new();
            let mut inputs = Vec::new();
            for (k, input) in variable.iter().enumerate() {
                let (whole, mut said) = self.said(input)?;
                if let Some(usual) = self.usual(input) {
                    let label = one_line(&input.name);
                    notes.push(format!("input {label:?} is assumed to be {usual:?}, as its authors run it (--shape)"));
                }
                let mut shape = Vec::new();
                for (axis, dim) in said.iter_mut().enumerate() {
                    shape.push(match (learnt.roles.get(&(k, axis)), &dim) {
                        (Some(Role::Batch), _) => 1,
                        (_, Some(dim)) => *dim,
                        (Some(Role::Time), None) => {
                            *dim = self.options.window;
                            self.options.window.unwrap_or(stand_in)
                        }
                        (None, None) if learnt.window == Some((k, axis)) => {
                            *dim = self.options.window;
                            self.options.window.unwrap_or(1)
                        }
                        (None, None) => 1,
                    });
                }
                inputs.push(GraphInput { name: input.name.clone(), shape, said, whole });
            }
            let setup = Setup {
                graph: self.graph,
                version: self.version,
                initializers: &self.initializers,
                inputs,
                bound,
                roles: &learnt.roles,
                delays: &learnt.delays,
                ports: &learnt.ports,
                states: &self.options.onnx.states,
                windowed,
                starts: &self.starts,
                work: &self.work,
            };
            let mut budget = self.budget.clone();
            let kept = learnt.delays.values().map(|of| of.elements.len()).sum();
            budget.take(kept, past::KEPT)?;
            let mut session = Session::new(setup, budget, Budget::of_file(self.len));
            let read = session.read().and_then(|outputs| {
                let pairs = session.check_states(&outputs)?;
                let ends = session.finish(&outputs)?;
                Ok((outputs, ends, pairs))
            });
            let (outputs, ends, pairs) = match read {
                Ok(read) => read,
                Err(Stop::Delays(delays)) => {
                    learnt.delays = delays;
                    continue;
                }
                Err(Stop::Port(input)) => {
                    let name = variable[input].name.clone();
                    learnt.delays.remove(&name);
                    learnt.ports.insert(name);
                    continue;
                }
                Err(Stop::Learnt(axis, role)) => {
                    learnt.roles.insert(axis, role);
                    continue;
                }
                Err(stop @ (Stop::Constant(input) | Stop::Choice(input, _))) => {
                    let name = variable[input].name.clone();
                    if !self.options.onnx.offered.contains_key(&name) {
                        let label = one_line(&name);
                        return Err(match stop {
                            Stop::Choice(_, number) => ImportError::Refused {
                                found: format!(
                                    "input {label:?} selects a part of the graph: bind it, as in {}",
                                    hint::bind(&name, &number.to_string())
                                ),
                                advice: "another value selects another part",
                            },
                            _ => ImportError::Refused {
                                found: format!(
                                    "input {label:?} is a weight, which must be known when the model is read; bind it, \
                                     as in {}",
                                    hint::bind(&name, "weights.safetensors")
                                ),
                                advice: "",
                            },
                        });
                    }
                    // The numbers of the following inputs decrease by one.
                    let shifted = std::mem::take(&mut learnt.roles);
                    learnt.roles = shifted
                        .into_iter()
                        .filter(|((of, _), _)| *of != input)
                        .map(|((of, axis), role)| ((if of > input { of - 1 } else { of }, axis), role))
                        .collect();
                    learnt.window = None;
                    learnt.constants.push(name);
                    continue;
                }
                Err(Stop::Refused(error)) => {
                    self.again(error, learnt, &mut before)?;
                    continue;
                }
                Err(Stop::Reason(reason)) => {
                    self.again(malformed(reason), learnt, &mut before)?;
                    continue;
                }
            };
            for (k, input) in session.setup.inputs.iter().enumerate() {
                let is_open = |axis: &usize| input.said[*axis].is_none() && !learnt.roles.contains_key(&(k, *axis));
                for axis in (0..input.said.len()).filter(is_open) {
                    // By convention of all exporters dimension 0 is the batch. Only one sequence runs at a time.
                    if axis > 0 {
                        if self.takes_window(learnt)? {
                            continue 'reading;
                        }
                        return Err(self.open(&input.name, &format!("its dimension {axis}"), &input.said));
                    }
                    notes.push(format!("dimension 0 of input {:?} is open: assumed to be 1", input.name));
                }
            }
            let delayed: BTreeSet<&str> = learnt.delays.keys().map(String::as_str).collect();
            for input in delayed {
                let [input, output] = [input, &learnt.delays[input].output].map(one_line);
                notes.push(format!("{input:?} and {output:?} are a state that the network keeps, from zero on"));
            }
            return self.built(session, &outputs, ends, &pairs, notes);
        }
        Err(malformed("its inputs are used in too many ways".into()))
    }

    fn built(
        &self,
        session: Session<'_>,
        outputs: &[Output],
        ends: Ends,
        pairs: &[(usize, usize)],
        mut notes: Vec<String>,
    ) -> Result<Built> {
        let interface = Interface::new(&session, outputs, &ends, pairs, self.graph);
        let known = |axis: &Axis| session.setup.inputs[axis.0].said[axis.1];
        let times = session.setup.roles.iter().filter(|(_, role)| **role == Role::Time).map(|(axis, _)| known(axis));
        let frames = times.flatten().max().and_then(|steps| u32::try_from(steps).ok()).filter(|&steps| steps > 1);
        let per_window = interface.is_late() && !session.setup.windowed;
        let mut model = session.network.model(format!("{}, ONNX", self.name))?;
        notes.extend(size::note(&model, session.floats));
        if let (Some(frames), true) = (frames, per_window) {
            model.architecture.schedule = Schedule::Windows { frames, every: frames };
            model.validate()?;
        }
        Ok(Built { model, interface, notes })
    }
}

/// A single number as a tensor of `rank` dimensions; any other tensor unchanged.
fn filled(tensor: Tensor, rank: usize) -> Tensor {
    let is_number = tensor.data.len() == 1 && (tensor.shape.is_empty() || rank == 0);
    if is_number { Tensor { shape: vec![1; rank], ..tensor } } else { tensor }
}

/// Dimensions as text, with a question mark for an open one.
fn written(dims: &[Option<usize>]) -> String {
    let dims: Vec<String> = dims.iter().map(|dim| dim.map_or("?".into(), |dim| dim.to_string())).collect();
    format!("[{}]", dims.join(", "))
}
