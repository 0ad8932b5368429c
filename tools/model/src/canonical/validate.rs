//! Validation of the canonical model. After [`Canonical::validate`], every later stage may rely on its sizes, names and
//! tensors. The properties of a cell are read from its [`CellSpec`], never repeated here.

use std::collections::{BTreeSet, HashMap};

use tidegate::internals::{
    activation::Activation,
    cell::{CellKind, CellSpec, Dim, Presence, Rule, Sizes, Storage},
    image::field,
};
use tidegate::{DetectorSettings, front_end::MfccSettings};

use super::{Architecture, Canonical, Mfcc, Node, Port, Schedule, Tensor};
use crate::data::is_unseen;
use crate::error::{ModelError, Shape};

/// Maximum number of features, units and frames, as in an image.
pub const MAX_SIZE: usize = field::MAX_SIZE as usize;
/// Maximum number of nodes, as in an image.
pub const MAX_NODES: usize = field::MAX_NODES as usize;
/// Maximum number of inputs, and of outputs, as in an image.
const MAX_PORTS: usize = field::MAX_PORTS as usize;
const MAX_NAME_BYTES: usize = 255;

impl Canonical {
    /// Checks the whole model against the specs of its cells.
    ///
    /// # Errors
    /// If anything is unknown, missing, unused, of the wrong size or not finite; the error names it.
    pub fn validate(&self) -> Result<(), ModelError> {
        let architecture = &self.architecture;
        if architecture.version != 1 {
            return Err(ModelError::Version { found: architecture.version });
        }
        let mut values = check_inputs(&architecture.inputs)?;
        check_count("nodes", architecture.nodes.len(), MAX_NODES)?;
        let mut known = BTreeSet::new();
        for node in &architecture.nodes {
            self.check_node(node, &values, &mut known)?;
            if values.insert(&node.name, node.output_size * node.steps()).is_some() {
                return model(format!("two inputs or nodes are named {:?}", node.name));
            }
        }
        if let Some(tensor) = self.tensors.keys().find(|name| !known.contains(*name)) {
            return Err(ModelError::LeftoverTensor { tensor: tensor.clone() });
        }
        check_outputs(&architecture.outputs, &values)?;
        check_around(architecture)
    }

    fn check_node(
        &self,
        node: &Node,
        values: &HashMap<&str, usize>,
        known: &mut BTreeSet<String>,
    ) -> Result<(), ModelError> {
        let refused = |reason: String| ModelError::Node { node: node.name.clone(), reason };
        check_name(&node.name).map_err(refused)?;
        let kind = CellKind::from_name(&node.cell);
        let spec = kind.ok_or_else(|| refused(format!("there is no cell {:?}", node.cell)))?.spec();
        let options = check_settings(node, spec).map_err(refused)?;
        check_sizes(node, spec, options).map_err(refused)?;
        let mut sum = 0_usize;
        for input in &node.inputs {
            let unknown = || refused(format!("it reads {input:?}, which is neither an input nor an earlier node"));
            let (size, steps) = (values.get(input.as_str()).ok_or_else(unknown)?, node.steps());
            if size % steps != 0 {
                return Err(refused(format!("it reads {input:?}, whose {size} features are not {steps} rows")));
            }
            sum = sum.saturating_add(size / steps);
        }
        if sum != node.input_size {
            let input_size = node.input_size;
            return Err(refused(format!(
                "its inputs have {sum} features together, but its input_size is {input_size}"
            )));
        }
        for tensor in spec.canonical {
            let name = format!("{}.{}", node.name, tensor.name);
            let dim = |dim: &Dim| {
                let size = node.dim(spec, dim).filter(|&size| size <= MAX_SIZE);
                size.ok_or_else(|| refused(format!("its {} is too large", tensor.name)))
            };
            let rows = if tensor.gated { spec.gates.len().max(1) } else { 1 } * dim(&tensor.rows)?;
            let mut needed = vec![rows];
            if let Some(cols) = &tensor.cols {
                needed.push(dim(cols)?);
            }
            match self.tensors.get(&name) {
                None if tensor.presence.required(options) => return Err(ModelError::MissingTensor { tensor: name }),
                None => continue,
                Some(_) if tensor.presence != Presence::Optional && !tensor.presence.required(options) => continue,
                Some(found) => check_tensor(&name, found, needed, node)?,
            }
            let is_index = spec.tensors.iter().any(|of| of.storage == Storage::Index && of.from == [tensor.name]);
            if let (true, Some(found)) = (is_index, self.tensors.get(&name)) {
                check_index(&name, found).map_err(refused)?;
            }
            known.insert(name);
        }
        Ok(())
    }
}

fn model<T>(reason: String) -> Result<T, ModelError> {
    Err(ModelError::Model(reason))
}

fn check_count(what: &str, count: usize, most: usize) -> Result<(), ModelError> {
    if (1..=most).contains(&count) { Ok(()) } else { model(format!("it has {count} {what}, but needs 1 to {most}")) }
}

fn check_name(name: &str) -> Result<(), String> {
    if name.is_empty() || name.len() > MAX_NAME_BYTES || name.chars().any(is_unseen) {
        return Err(format!("a name must have 1 to {MAX_NAME_BYTES} bytes and no control or direction characters"));
    }
    Ok(())
}

fn check_inputs(inputs: &[Port]) -> Result<HashMap<&str, usize>, ModelError> {
    check_count("inputs", inputs.len(), MAX_PORTS)?;
    let mut values = HashMap::new();
    for input in inputs {
        check_port(input).map_err(|reason| ModelError::Model(format!("input {:?}: {reason}", input.name)))?;
        let Port { name, from, .. } = input;
        if !from.is_empty() {
            return model(format!("input {name:?}: it is from {from:?}, but only outputs are from a node"));
        }
        if values.insert(name.as_str(), input.size).is_some() {
            return model(format!("two inputs or nodes are named {name:?}"));
        }
    }
    Ok(values)
}

fn check_outputs(outputs: &[Port], values: &HashMap<&str, usize>) -> Result<(), ModelError> {
    check_count("outputs", outputs.len(), MAX_PORTS)?;
    let mut names = BTreeSet::new();
    for output in outputs {
        check_port(output).map_err(|reason| ModelError::Model(format!("output {:?}: {reason}", output.name)))?;
        let Port { name, size, from, rows, frame } = output;
        if rows.or(*frame).is_some() {
            return model(format!("output {name:?}: only inputs have rows or frames"));
        }
        if !names.insert(name.as_str()) {
            return model(format!("two outputs are named {name:?}"));
        }
        match values.get(from.as_str()) {
            None => return model(format!("output {name:?} is from {from:?}, which does not exist")),
            Some(found) if found != size => {
                return model(format!("output {name:?} has {size} features, but {from:?} has {found}"));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

fn check_port(port: &Port) -> Result<(), String> {
    check_name(&port.name)?;
    check_size("number of rows", port.rows.unwrap_or(1))?;
    let fits = port.frame.is_none_or(|frame| frame > 0 && port.size.is_multiple_of(frame));
    if !fits {
        return Err(format!("its {} features are not whole frames of {}", port.size, port.frame.unwrap_or(0)));
    }
    check_size("size", port.size)
}

fn check_size(what: &str, size: usize) -> Result<(), String> {
    if (1..=MAX_SIZE).contains(&size) {
        return Ok(());
    }
    Err(format!("its {what} is {size}, but must be 1 to {MAX_SIZE}"))
}

/// Checks options, parameters and activations; returns the option bits.
fn check_settings(node: &Node, spec: &CellSpec) -> Result<u32, String> {
    let mut options = 0_u32;
    for option in &node.options {
        let index = spec.options.iter().position(|known| known == option);
        let bit = 1 << index.ok_or_else(|| format!("cell {:?} has no option {option:?}", spec.name))?;
        if options & bit != 0 {
            return Err(format!("option {option:?} is given twice"));
        }
        options |= bit;
    }
    for (param, value) in &node.params {
        let Some(known) = spec.params.iter().find(|known| known.name == param) else {
            return Err(format!("cell {:?} has no parameter {param:?}", spec.name));
        };
        if !(0.0..=f32::MAX).contains(value) {
            return Err(format!("{param} is {value}, but must be finite and not negative"));
        }
        if let (Presence::With(option), true) = (known.presence, *value > 0.0)
            && options >> option & 1 == 0
        {
            return Err(format!("{param} is {value}, which needs the option {:?}", spec.options[option as usize]));
        }
    }
    for (place, activation) in &node.activations {
        if !spec.activations.iter().any(|known| known.name == place) {
            return Err(format!("cell {:?} has no activation named {place:?}", spec.name));
        }
        if let Err(error) = activation.parse::<Activation>() {
            return Err(format!("activation {activation:?}: {error}"));
        }
    }
    Ok(options)
}

fn check_sizes(node: &Node, spec: &CellSpec, options: u32) -> Result<(), String> {
    let (input, hidden, output) = (node.input_size, node.hidden_size, node.output_size);
    check_size("input_size", input)?;
    check_size("hidden_size", hidden)?;
    check_size("output_size", output)?;
    if let Some(unroll) = node.unroll {
        check_size("unroll.steps", unroll.steps)?;
        check_size("unrolled output", output.saturating_mul(unroll.steps))?;
        if CellKind::from_name(spec.name).is_some_and(CellKind::is_buffered) {
            return Err(format!("a {} cannot be unrolled", spec.name));
        }
        if unroll.apart && (!unroll.stateful || unroll.read_backwards || unroll.write_backwards) {
            return Err("rows apart must be stateful and not backwards".to_owned());
        }
    }
    if let Some(name) = node.extents.keys().find(|name| !spec.extents.iter().any(|known| known.name == *name)) {
        return Err(format!("cell {:?} has no extent {name:?}", spec.name));
    }
    let extents = node.extent_bytes(spec);
    let sizes = Sizes { input, hidden, output, options, extents: &extents };
    for (index, known) in spec.extents.iter().enumerate() {
        let (found, least) = (sizes.extent(index), known.least as usize);
        if !(least..=MAX_SIZE).contains(&found) {
            return Err(format!("its {} is {found}, but must be {least} to {MAX_SIZE}", known.name));
        }
    }
    match sizes.broken(spec.rules) {
        None => Ok(()),
        Some(rule) => Err(explain(rule, spec, &sizes)),
    }
}

/// Describes the broken rule in the spec's names.
fn explain(rule: &Rule, spec: &CellSpec, sizes: &Sizes<'_>) -> String {
    let is = |dim: &Dim| match sizes.dim(dim) {
        Some(value) => format!("its {} is {value}", words(dim, spec)),
        None => format!("its {} is too large", words(dim, spec)),
    };
    match rule {
        Rule::Equal(a, b) | Rule::EqualUnless(_, a, b) => format!("{} and {}, but they must be equal", is(a), is(b)),
        Rule::AtMost(a, b) => format!("{} and {}, but it must be at most that", is(a), is(b)),
        Rule::Multiple(a, b) => format!("{} and {}, but it must be a multiple of that", is(a), is(b)),
        Rule::OneOf { options, least } => {
            let names: Vec<&str> = options.iter().map(|&option| spec.options[option as usize]).collect();
            let count = if *least == 0 { "at most one" } else { "exactly one" };
            format!("{count} of the options {} must be on", names.join(", "))
        }
        Rule::Convolved { input, kernel, stride, dilation, output, .. } => format!(
            "a kernel of {} in steps of {}, taps {} apart, over {} does not have {} positions",
            words(kernel, spec),
            words(stride, spec),
            words(dilation, spec),
            words(input, spec),
            words(output, spec),
        ),
    }
}

/// A dimension in the spec's names: `in_height * in_width`.
fn words(dim: &Dim, spec: &CellSpec) -> String {
    let joined = |dims: &[Dim], with: &str| dims.iter().map(|dim| words(dim, spec)).collect::<Vec<_>>().join(with);
    match dim {
        Dim::Input => "input_size".to_owned(),
        Dim::Hidden => "hidden_size".to_owned(),
        Dim::Output => "output_size".to_owned(),
        Dim::Extent(index) => spec.extents[*index].name.to_owned(),
        Dim::Const(value) => value.to_string(),
        Dim::Product(dims) => joined(dims, " * "),
        Dim::Sum(dims) => joined(dims, " + "),
        Dim::Quotient([dividend, divisor]) => format!("{} / {}", words(dividend, spec), words(divisor, spec)),
        Dim::When(_, dim) | Dim::Unless(_, dim) => words(dim, spec),
    }
}

fn check_tensor(name: &str, tensor: &Tensor, needed: Vec<usize>, node: &Node) -> Result<(), ModelError> {
    let len = needed.iter().try_fold(1_usize, |product, &dim| product.checked_mul(dim));
    if tensor.shape != needed || Some(tensor.data.len()) != len {
        return Err(ModelError::Shape {
            tensor: name.to_owned(),
            found: Shape(tensor.shape.clone()),
            hidden: node.hidden_size,
            input: node.input_size,
            needed: Shape(needed),
        });
    }
    match tensor.data.iter().position(|value| !value.is_finite()) {
        Some(index) => Err(ModelError::NotFinite { tensor: name.to_owned(), value: tensor.data[index], index }),
        None => Ok(()),
    }
}

/// Checks that a tensor holds positions.
fn check_index(name: &str, tensor: &Tensor) -> Result<(), String> {
    let is_position = |value: &f32| value.fract() == 0.0 && (0.0..=f32::from(u16::MAX)).contains(value);
    match tensor.data.iter().position(|value| !is_position(value)) {
        None => Ok(()),
        Some(at) => {
            let (value, most) = (tensor.data[at], u16::MAX);
            Err(format!("{name} holds {value} at {at}, but must hold whole numbers from 0 to {most}"))
        }
    }
}

/// Checks everything but the network: labels, front end, schedule, detector.
fn check_around(architecture: &Architecture) -> Result<(), ModelError> {
    let labels = architecture.labels.len();
    for label in &architecture.labels {
        check_name(label).map_err(|reason| ModelError::Model(format!("label {label:?}: {reason}")))?;
    }
    if let Some(output) = architecture.outputs.first().filter(|output| labels > 0 && output.size != labels) {
        return model(format!("there are {labels} labels, but output {:?} has {} features", output.name, output.size));
    }
    if let Some(mfcc) = &architecture.front_end {
        check_mfcc(mfcc, &architecture.inputs[0]).map_err(ModelError::Model)?;
    }
    if let Schedule::Windows { frames, every } = architecture.schedule {
        for (what, value) in [("frames", frames), ("every", every)] {
            check_size(what, value as usize).map_err(|reason| ModelError::Model(format!("schedule: {reason}")))?;
        }
        let (states, most) = (tidegate::Schedule::from(architecture.schedule).states(), tidegate::Schedule::MAX_STATES);
        if states > most {
            return model(format!(
                "schedule: windows of {frames} frames every {every} take {states} states in turn, at most {most} can: \
                 let them start less often"
            ));
        }
    }
    let Some(detector) = &architecture.detector else { return Ok(()) };
    let (mean_of, most) = (detector.mean_of, DetectorSettings::MEAN_OF_LIMIT);
    if !(1..=most).contains(&mean_of) {
        return model(format!("detector: its mean_of is {mean_of}, but must be 1 to {most}"));
    }
    if detector.labels.len() != labels {
        return model(format!("the detector has {} labels, the model {labels}", detector.labels.len()));
    }
    match detector.labels.iter().map(|label| label.threshold).find(|least| !least.is_finite() || *least < 0.0) {
        Some(least) => model(format!("a detector threshold is {least}, but must be finite and not negative")),
        None => Ok(()),
    }
}

/// Checks the front end; `core` defines its limits.
fn check_mfcc(mfcc: &Mfcc, input: &Port) -> Result<(), String> {
    MfccSettings::from(mfcc).check().map_err(|error| error.to_string())?;
    if mfcc.coefficients as usize != input.size {
        let (gives, takes) = (mfcc.coefficients, input.size);
        return Err(format!("front end: it gives {gives} features, but input {:?} has {takes}", input.name));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// A softmax after an MFCC front end.
    fn model() -> Canonical {
        let json = r#"{"version": 1, "source": "", "inputs": [{"name": "x", "size": 10}],
            "nodes": [{"name": "s", "cell": "softmax", "inputs": ["x"],
                "input_size": 10, "hidden_size": 10, "output_size": 10}],
            "outputs": [{"name": "y", "size": 10, "from": "s"}],
            "front_end": {"sample_rate": 16000, "window_len": 640, "stride_len": 320, "fft_len": 1024,
                "mel_bands": 40, "lower_hz": 20, "upper_hz": 4000, "coefficients": 10, "log_floor": 1e-12}}"#;
        Canonical { architecture: serde_json::from_str(json).unwrap(), tensors: BTreeMap::new() }
    }

    fn refused(change: impl FnOnce(&mut Architecture)) -> String {
        let mut model = model();
        change(&mut model.architecture);
        model.validate().unwrap_err().to_string()
    }

    #[test]
    fn a_front_end_has_the_limits_of_core() {
        model().validate().unwrap();
        let front_end =
            |change: fn(&mut Mfcc)| refused(|architecture| change(architecture.front_end.as_mut().unwrap()));
        assert!(front_end(|mfcc| mfcc.fft_len = 4096).starts_with("front end: an FFT of 4096 points"));
        assert!(front_end(|mfcc| mfcc.mel_bands = 200).starts_with("front end: 200 mel bands"));
        assert!(front_end(|mfcc| mfcc.coefficients = 12).contains("it gives 12 features, but input \"x\" has 10"));
    }

    #[test]
    fn nodes_and_ports_are_not_without_number() {
        let nodes = |count: usize| {
            move |architecture: &mut Architecture| {
                let last = architecture.nodes[0].clone();
                let name = |k| Node { name: format!("n{k}"), ..last.clone() };
                architecture.nodes.extend((1..count).map(name));
            }
        };
        let mut whole = model();
        nodes(MAX_NODES)(&mut whole.architecture);
        whole.validate().unwrap();
        assert!(refused(nodes(MAX_NODES + 1)).contains("it has 1025 nodes, but needs 1 to 1024"));
        let port = |k| Port { name: format!("p{k}"), size: 10, ..Port::default() };
        assert!(refused(|architecture| architecture.inputs.extend((1..=MAX_PORTS).map(port))).contains("257 inputs"));
        assert!(refused(|architecture| architecture.outputs.extend((1..=MAX_PORTS).map(port))).contains("257 outputs"));
    }
}
