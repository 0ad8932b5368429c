//! Which output of a graph is an input's value in the next step: by `--state`, by their names, or because the output
//! holds elements of the input. Elements that an output only moves are delays of layer outputs, and those of recurrent
//! operators must return to their place.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use super::graph::{Output, Session, Stop};
use super::past::{AllDelays, Delays, Past};
use super::proto::{GraphProto, ValueInfo};
use super::value::{Element, Value};
use crate::data::one_line;
use crate::error::ImportError;
use crate::format::state_pairs::{Port, alike, pairs};

/// Maximum number of steps by which a value is delayed.
const MOST_STEPS: usize = 1 << 12;

impl Session<'_> {
    /// Pairs of an input and an output that are one state.
    pub fn pairs(&self, outputs: &[Output]) -> Result<Vec<(usize, usize)>, Stop> {
        let inputs = self.setup.inputs.iter();
        let inputs: Vec<Port> =
            inputs.map(|of| Port { name: of.name.clone(), shape: of.shape.clone(), is_free: !of.whole }).collect();
        let port = |of: &Output| Port { name: of.name.clone(), shape: of.value.shape.clone(), is_free: true };
        let ends: Vec<Port> = outputs.iter().map(port).collect();
        let holds = |input: usize, output: usize| {
            outputs[output].value.elements().iter().any(|element| self.is_of(*element, input))
        };
        pairs(&inputs, &ends, self.setup.states, holds).map_err(Stop::Refused)
    }

    /// Refuses a state that starts from values other than zero unless it is that of an LSTM.
    fn check_starts(&self, outputs: &[Output], pairs: &[(usize, usize)]) -> Result<(), Stop> {
        for (number, input) in self.setup.inputs.iter().enumerate() {
            let held = |&(from, to): &(usize, usize)| {
                let elements = outputs[to].value.elements();
                from == number && elements.into_iter().all(|element| matches!(element, Element::State(..)))
            };
            let is_zero = |values: &Vec<f32>| values.iter().all(|&value| value == 0.0);
            if self.setup.starts.get(&input.name).is_some_and(|start| !is_zero(start)) && !pairs.iter().any(held) {
                return Err(Stop::Refused(ImportError::Refused {
                    found: format!("input {:?} has a default that is not zero", one_line(&input.name)),
                    advice: "only the state of an LSTM may have one; export the graph with zeros, or without the default",
                }));
            }
        }
        Ok(())
    }

    /// Whether an element is one of this input, or the state of an operator that starts with this input.
    fn is_of(&self, element: Element, input: usize) -> bool {
        match element {
            Element::Input(of, _) => of as usize == input,
            Element::State(state, _) => {
                self.states[state as usize].initial.as_ref().is_some_and(|(of, _)| *of == input)
            }
            _ => false,
        }
    }

    /// Finds the states that are delays of layer outputs. Stops the reading if they differ from those known at its start.
    pub fn check_states(&self, outputs: &[Output]) -> Result<Vec<(usize, usize)>, Stop> {
        let pairs = self.pairs(outputs)?;
        self.check_starts(outputs, &pairs)?;
        let mut delays = AllDelays::new();
        for &(input, output) in &pairs {
            // The elements are copied, and each gets a source.
            self.room(&outputs[output].value.shape, false)?;
            self.check_order(input, &outputs[output])?;
            let name = &self.setup.inputs[input].name;
            if self.setup.ports.contains(name) {
                continue;
            }
            if let Some(elements) = self.delays_of(input, &outputs[output]) {
                delays.insert(name.clone(), Delays { output: outputs[output].name.clone(), elements });
            }
        }
        if delays == *self.setup.delays { Ok(pairs) } else { Err(Stop::Delays(delays)) }
    }

    /// The elements of a state as delays; `None` if some are not, or if recurrent operators carry all of them.
    fn delays_of(&self, input: usize, output: &Output) -> Option<Rc<Vec<Past>>> {
        let timed = self.setup.roles.values().any(|role| *role == super::Role::Time);
        if timed || self.setup.windowed {
            return None;
        }
        let elements = output.value.elements();
        let mut known: Vec<Option<Past>> = vec![None; elements.len()];
        for first in 0..elements.len() {
            // Follows elements of the state itself up to one whose source is known.
            let (mut path, mut at) = (Vec::new(), first);
            let mut past = loop {
                match known[at] {
                    // The state of an operator before its last step is not kept.
                    Some(Past::Carried) if !path.is_empty() => return None,
                    Some(past) => break past,
                    None => {}
                }
                if path.len() > MOST_STEPS {
                    return None;
                }
                path.push(at);
                match *elements.get(at)? {
                    Element::Input(of, from) if of as usize == input => at = from as usize,
                    Element::Of(made, of) => {
                        break Past::Of { key: (*self.keys.get(made as usize)?)?, at: of, steps: 0 };
                    }
                    Element::State(..) if path.len() == 1 => break Past::Carried,
                    Element::Number(0.0) => break Past::Zero,
                    _ => return None,
                }
            };
            for at in path.into_iter().rev() {
                if let Past::Of { steps, .. } = &mut past {
                    *steps += 1;
                }
                known[at] = Some(past);
            }
        }
        let mut all: Vec<Past> = known.into_iter().collect::<Option<_>>()?;
        for (at, (past, element)) in all.iter_mut().zip(&elements).enumerate() {
            if element.made().is_some_and(|made| self.carries(made, input, at)) {
                *past = Past::Carried;
            }
        }
        all.iter().any(|past| *past != Past::Carried).then(|| Rc::new(all))
    }

    /// Whether an output of a recurrent operator is the next value of element `at` of an input.
    fn carries(&self, made: u32, input: usize, at: usize) -> bool {
        self.states.iter().any(|of| {
            of.made.0 == made
                && of.state == "hidden"
                && of.initial.as_ref().is_some_and(|(from, places)| *from == input && places.contains(&at))
        })
    }

    /// Checks that each state of an operator returns to the element that it starts with.
    fn check_order(&self, input: usize, output: &Output) -> Result<(), Stop> {
        let name = &self.setup.inputs[input].name;
        for (at, element) in output.value.elements().into_iter().enumerate() {
            let Element::State(state, index) = element else { continue };
            let Some((from, places)) = &self.states[state as usize].initial else { continue };
            if *from != input || places.get(index as usize) != Some(&at) {
                let (place, from) = (places.get(index as usize).copied().unwrap_or(0), &self.setup.inputs[*from].name);
                return Err(Stop::Refused(ImportError::Refused {
                    found: format!(
                        "output {:?} holds at {at} the state that starts with {:?} at {place}, so it is not the next value \
                         of input {:?}; export the states in the order of the inputs, or name the pair, as in --state \
                         {}={}",
                        one_line(&output.name),
                        one_line(from),
                        one_line(name),
                        one_line(from),
                        one_line(&output.name),
                    ),
                    advice: "",
                }));
            }
        }
        Ok(())
    }
}

/// Turns initializers of states into inputs if they are only the values before the first step: an output is the next value.
/// Returns these values.
pub(super) fn starts(
    graph: &GraphProto,
    said: &BTreeMap<String, String>,
    initializers: &mut HashMap<String, Value>,
) -> BTreeMap<String, Vec<f32>> {
    let mut starts = BTreeMap::new();
    let dims = |port: &ValueInfo| -> Option<Vec<i64>> {
        let shape = port.of.as_ref()?.tensor.as_ref()?.shape.as_ref()?;
        shape.dim.iter().map(|dim| dim.value).collect()
    };
    for input in &graph.input {
        let Some(value) = initializers.get(&input.name).filter(|value| !value.whole) else { continue };
        let shape: Vec<i64> = value.shape.iter().map(|&dim| dim as i64).collect();
        let paired = alike(&input.name, graph.output.iter().map(|output| output.name.as_str()));
        let is_state = said.contains_key(&input.name)
            || paired.is_some_and(|k| dims(&graph.output[k]).is_none_or(|dims| dims == shape));
        if let (true, Ok(values)) = (is_state, value.known_floats()) {
            initializers.remove(&input.name);
            starts.insert(input.name.clone(), values);
        }
    }
    starts
}
