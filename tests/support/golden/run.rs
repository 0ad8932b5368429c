//! A case on its model: each sequence of the batch from its initial state, in every way, against what is expected.

use std::cell::RefCell;
use std::collections::BTreeMap;

use tidegate::Model;
use tidegate_tools::canonical::Tensor;
use tidegate_tools::format::golden::Control;
use tidegate_tools::format::{Conversion, Idle, StatePart};

use super::sequence::{Axes, Rows};
use super::way::{AtOnce, Exact, Stepwise, Way};
use super::{Case, Stop, failed, unsupported};
use crate::tolerance::{each_within, same_bits};

/// A case and all that is found before its first step.
pub struct Run<'r> {
    case: &'r Case,
    conversion: &'r Conversion,
    model: &'r Model<'r>,
    input_axes: Axes,
    output_axes: Axes,
    /// Successive calls, each from the state that the one before left: `None` for the only one.
    calls: Vec<Option<usize>>,
    states: Vec<Place<'r>>,
    traces: Vec<Place<'r>>,
    /// Which elements of which tensors have been used or compared.
    visited: RefCell<BTreeMap<String, Vec<bool>>>,
}

/// A part of the model's states and the part of the case's tensors that holds it.
struct Place<'r> {
    part: &'r StatePart,
    first: usize,
    len: usize,
}

/// What a way gave for one sequence.
struct Got {
    /// For each output, a row for each step of the sequence.
    outputs: Vec<Rows>,
    /// The state after each step that counts.
    seen: Vec<Vec<f32>>,
    last: Vec<f32>,
}

impl<'r> Run<'r> {
    pub fn new(case: &'r Case, conversion: &'r Conversion, model: &'r Model<'r>) -> Result<Self, Stop> {
        let layout = case.metadata.get("layout").map_or("", String::as_str);
        let axes = |which| Axes::parse(layout, which).ok_or_else(|| unsupported(format!("layout {layout:?}")));
        let first = &conversion.model.architecture.inputs[0].name;
        let calls = match case.has_input(first) {
            true => vec![None],
            false => (0..).take_while(|k| case.has_input(&format!("{first}_{k}"))).map(Some).collect(),
        };
        if calls.is_empty() {
            return Err(failed(format!("it has no input {first:?}")));
        }
        let places = |parts: &'r [StatePart]| parts.iter().map(|part| place(model, part)).collect::<Result<_, _>>();
        Ok(Self {
            case,
            conversion,
            model,
            input_axes: axes("input")?,
            output_axes: axes("output")?,
            calls,
            states: places(&conversion.states)?,
            traces: places(&conversion.traces)?,
            visited: RefCell::default(),
        })
    }

    /// Every sequence of the batch; the largest part of the tolerance that was used.
    pub fn whole(&self) -> Result<f64, Stop> {
        let first = called(&self.conversion.model.architecture.inputs[0].name, self.calls[0]);
        let batch = self.sequences(&first, self.input_axes)?.len();
        let mut used = 0.0_f64;
        for entry in 0..batch {
            let part = self.entry(entry).map_err(|stop| match stop {
                Stop::Failed(reason) => Stop::Failed(format!("batch entry {entry}: {reason}")),
                other => other,
            })?;
            used = used.max(part);
        }
        let visited = self.visited.borrow();
        for name in self.case.inputs.iter().chain(&self.case.outputs) {
            if !visited.get(name).is_some_and(|elements| elements.iter().all(|&visited| visited)) {
                return Err(unsupported(format!("{name:?}, or a part of it, has no place in the model")));
            }
        }
        Ok(used)
    }

    fn entry(&self, entry: usize) -> Result<f64, Stop> {
        let initial = self.initial(entry)?;
        let window = self.conversion.window;
        let mut stepwise = Stepwise::new(self.model, window);
        let mut exact = Exact::new(&self.conversion.model, window);
        let mut at_once = AtOnce::new(self.model, window);
        let mut ways: Vec<&mut dyn Way> = vec![&mut stepwise, &mut exact];
        ways.extend(at_once.as_mut().map(|way| way as &mut dyn Way));
        ways.iter_mut().for_each(|way| way.begin(&initial));
        let mut used = 0.0_f64;
        for &call in &self.calls {
            let inputs = self.inputs(entry, call)?;
            let all: Vec<Got> =
                ways.iter_mut().map(|way| self.sequence(*way, entry, &inputs)).collect::<Result<_, _>>()?;
            if let [stepped, _, whole] = all.as_slice() {
                let bits = |got: &Got| got.outputs.concat().concat();
                same_bits(&bits(stepped), &bits(whole))
                    .map_err(|miss| failed(format!("steps differ from the sequence: {miss}")))?;
                same_bits(&stepped.last, &whole.last)
                    .map_err(|miss| failed(format!("final states of steps and sequence differ: {miss}")))?;
            }
            for (got, way) in all.iter().zip(&ways).take(2) {
                let part = self.compare(entry, call, got);
                used = used.max(part.map_err(|stop| match stop {
                    Stop::Failed(reason) => Stop::Failed(format!("{}: {reason}", way.name())),
                    other => other,
                })?);
            }
        }
        Ok(used)
    }

    /// One sequence in one way. Steps that do not count are left out; the states are reset where the case says.
    fn sequence(&self, way: &mut dyn Way, entry: usize, inputs: &[Rows]) -> Result<Got, Stop> {
        let steps = inputs[0].len();
        let (counts, resets) = self.controls(entry, steps)?;
        let mut seen = Vec::new();
        let mut computed: Vec<Rows> = vec![Rows::new(); self.conversion.model.architecture.outputs.len()];
        let mut start = 0;
        while start < steps {
            if resets[start] != 0.0 {
                way.scale(1.0 - resets[start]);
            }
            let end = (start + 1..steps).find(|&t| resets[t] != 0.0).unwrap_or(steps);
            let counted = |rows: &Rows| (start..end).filter(|&t| counts[t]).map(|t| rows[t].clone()).collect();
            let piece: Vec<Rows> = inputs.iter().map(counted).collect();
            if !piece[0].is_empty() {
                let rows = way.run(&piece, &mut |state| seen.push(state.to_vec()));
                computed.iter_mut().zip(rows).for_each(|(all, rows)| all.extend(rows));
            }
            start = end;
        }
        let window = self.conversion.window.unwrap_or(1);
        let sizes = self.conversion.model.architecture.outputs.iter().map(|port| port.size / window);
        let outputs = computed.into_iter().zip(sizes).map(|(rows, size)| self.spread(rows, &counts, size)).collect();
        Ok(Got { outputs, seen, last: way.state() })
    }

    /// The rows of the steps that count, and what the framework has for the others.
    fn spread(&self, rows: Rows, counts: &[bool], size: usize) -> Rows {
        let mut rows = rows.into_iter();
        let mut last = vec![0.0; size];
        let mut row = |&counts: &bool| {
            match (counts, self.conversion.idle) {
                (true, _) => last = rows.next().expect("a row for every step that counts"),
                (false, Idle::Zero) => last.fill(0.0),
                (false, Idle::Repeat) => {}
            }
            last.clone()
        };
        counts.iter().map(&mut row).collect()
    }

    /// Which steps count, and by how much less than one the states are multiplied before each.
    fn controls(&self, entry: usize, steps: usize) -> Result<(Vec<bool>, Vec<f32>), Stop> {
        let (mut counts, mut resets) = (vec![true; steps], vec![0.0; steps]);
        for (name, control) in &self.conversion.controls {
            let unfit = || failed(format!("{name:?} does not fit the input"));
            if *control == Control::Length {
                let tensor = self.case.tensor(name)?;
                let len = if tensor.data.len() == 1 { tensor.data.first() } else { tensor.data.get(entry) };
                let len = len.map(|&len| len as usize).filter(|&len| len <= steps).ok_or_else(unfit)?;
                counts[len..].fill(false);
                self.visit(name, 0..tensor.data.len());
                continue;
            }
            let values = self.sequences(name, self.input_axes)?.swap_remove(entry);
            if values.len() != steps || values.iter().any(|row| row.len() != 1) {
                return Err(unfit());
            }
            for ((row, counts), reset) in values.iter().zip(&mut counts).zip(&mut resets) {
                match control {
                    Control::Length => {}
                    Control::Mask => *counts &= row[0] != 0.0,
                    Control::Padding => *counts &= row[0] == 0.0,
                    Control::Reset => *reset = row[0],
                }
            }
        }
        Ok((counts, resets))
    }

    /// The sequence of each input port.
    fn inputs(&self, entry: usize, call: Option<usize>) -> Result<Vec<Rows>, Stop> {
        let mut inputs: Vec<Rows> = Vec::new();
        for port in &self.conversion.model.architecture.inputs {
            let name = called(&port.name, call);
            let mut sequences = self.sequences(&name, self.input_axes)?;
            if entry >= sequences.len() {
                return Err(failed(format!("{name:?} has a smaller batch")));
            }
            let rows = sequences.swap_remove(entry);
            if rows.iter().any(|row| row.len() != port.size)
                || inputs.first().is_some_and(|first| first.len() != rows.len())
            {
                return Err(failed(format!("{name:?} does not fit the model")));
            }
            inputs.push(rows);
        }
        Ok(inputs)
    }

    fn sequences(&self, name: &str, axes: Axes) -> Result<Vec<Rows>, Stop> {
        let tensor = self.case.tensor(name)?;
        self.visit(name, 0..tensor.data.len());
        axes.sequences(tensor).ok_or_else(|| unsupported(format!("{name:?} of {} dimensions", tensor.shape.len())))
    }

    /// The states before the first step; zeros where the case has none.
    fn initial(&self, entry: usize) -> Result<Vec<f32>, Stop> {
        let mut values = vec![0.0; self.model.state_elements()];
        for place in &self.states {
            let name = format!("initial_{}", place.part.at.tensor);
            if self.case.has_input(&name) {
                let given = self.part(&name, place, entry)?;
                for (value, given) in values[place.first..].iter_mut().zip(given) {
                    *value = place.part.at.entry.apply(given);
                }
            }
        }
        Ok(values)
    }

    /// Outputs, traces and final states; the largest part of the tolerance that was used.
    fn compare(&self, entry: usize, call: Option<usize>, got: &Got) -> Result<f64, Stop> {
        let mut used = 0.0_f64;
        for (port, rows) in self.conversion.model.architecture.outputs.iter().zip(&got.outputs) {
            used = used.max(self.compare_rows(&called(&port.name, call), entry, rows)?);
        }
        for place in &self.traces {
            let rows: Rows = got.seen.iter().map(|state| state[place.first..][..place.len].to_vec()).collect();
            used = used.max(self.compare_rows(
                &called(&format!("output_{}", place.part.at.tensor), call),
                entry,
                &rows,
            )?);
        }
        for place in &self.states {
            let tensor = &place.part.at.tensor;
            let name = match call {
                None => format!("final_{tensor}"),
                Some(call) => format!("state_after_{call}_{tensor}"),
            };
            if self.case.has_output(&name) {
                let expected = self.part(&name, place, entry)?;
                let last = &got.last[place.first..][..place.len];
                used = used.max(self.within(&name, self.case.tensor(&name)?, last, &expected)?);
            }
        }
        Ok(used)
    }

    /// An output may end where the steps that count end.
    fn compare_rows(&self, name: &str, entry: usize, rows: &Rows) -> Result<f64, Stop> {
        let mut sequences = self.sequences(name, self.output_axes)?;
        if entry >= sequences.len() {
            return Err(failed(format!("{name:?} has a smaller batch")));
        }
        let expected = sequences.swap_remove(entry);
        let counted = self
            .controls(entry, rows.len())
            .map_or(rows.len(), |(counts, _)| counts.iter().rposition(|&counts| counts).map_or(0, |last| last + 1));
        if expected.len() != rows.len() && expected.len() != counted {
            return Err(failed(format!("{name:?} has {} steps, not {}", expected.len(), rows.len())));
        }
        self.within(name, self.case.tensor(name)?, &rows[..expected.len()].concat(), &expected.concat())
    }

    fn within(&self, name: &str, whole: &Tensor, got: &[f32], expected: &[f32]) -> Result<f64, Stop> {
        let scale = whole.data.iter().fold(1.0_f64, |scale, &value| scale.max(f64::from(value).abs()));
        let expected: Vec<f64> = expected.iter().copied().map(f64::from).collect();
        let bounds = vec![self.case.tolerance * scale; expected.len()];
        each_within(got, &expected, &bounds).map_err(|miss| failed(format!("{name}: {miss}")))
    }

    /// The elements of a tensor that hold a part of a state, for one entry of the batch.
    fn part(&self, name: &str, place: &Place<'_>, entry: usize) -> Result<Vec<f32>, Stop> {
        let tensor = self.case.tensor(name)?;
        let at = &place.part.at;
        let (lead, dims) = match (at.index, tensor.shape.as_slice()) {
            (None, dims) => (0, dims),
            (Some(index), [of, dims @ ..]) if index < *of => (index, dims),
            _ => return Err(unsupported(format!("{name} of shape {:?}", tensor.shape))),
        };
        let [batch, features @ ..] = dims else {
            return Err(unsupported(format!("{name} of shape {:?}", tensor.shape)));
        };
        let features: usize = features.iter().product();
        if entry >= *batch || at.from + place.len > features {
            return Err(failed(format!(
                "{name} of shape {:?} does not hold {} elements from {} on",
                tensor.shape, place.len, at.from
            )));
        }
        let start = (lead * batch + entry) * features + at.from;
        self.visit(name, start..start + place.len);
        Ok(tensor.data[start..start + place.len].to_vec())
    }

    fn visit(&self, name: &str, elements: std::ops::Range<usize>) {
        let mut visited = self.visited.borrow_mut();
        let len = self.case.tensors.get(name).map_or(0, |tensor| tensor.data.len());
        visited.entry(name.to_owned()).or_insert_with(|| vec![false; len])[elements].fill(true);
    }
}

/// Where the model's states hold a part.
fn place<'r>(model: &Model<'_>, part: &'r StatePart) -> Result<Place<'r>, Stop> {
    let mut start = 0;
    for (node, name) in model.nodes().zip(model.node_names()) {
        if name != part.node {
            start += node.state_elements();
            continue;
        }
        for state in node.kind.spec().states {
            let len = node.dim(&state.len);
            if state.name != part.state {
                start += len;
                continue;
            }
            let given = part.at.len.unwrap_or(len.saturating_sub(part.at.first));
            if part.at.first + given > len {
                return Err(failed(format!("{} of {} has {len} elements", part.state, part.node)));
            }
            return Ok(Place { part, first: start + part.at.first, len: given });
        }
    }
    Err(failed(format!("the model has no state {:?} of {:?}", part.state, part.node)))
}

fn called(name: &str, call: Option<usize>) -> String {
    call.map_or_else(|| name.to_owned(), |call| format!("{name}_{call}"))
}
