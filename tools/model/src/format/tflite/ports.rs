//! States that are inputs and outputs of a graph of one step, as those of DTLN: the cells that carry them.
//!
//! The elements of a state may be slices of one tensor. The graph shows which elements of outputs are their next values.
//! A slice that operators compute with is a state of a cell if it is one in the cell's normal form. Elements that no cell
//! carries are refused.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::algebra::{Algebra, Item};
use super::cells::{Cells, Found, Place};
use super::lower::{Along, Reader, Trouble, Value};
use super::moves::Places;
use super::schema::{Operator, Type};
use super::unsupported;
use crate::budget::Budget;
use crate::error::{ImportError, Result};
use crate::format::network::Source;
use crate::format::refuse::{err_if, fail_if};
use crate::format::state_pairs::{self, Port};
use crate::format::tf1::{Cell, Expr, Id, find_cell};

/// Maximum number of states that are ports.
const MOST: usize = 64;

impl Reader<'_> {
    /// Finds the states that are ports, and their cells.
    pub fn state_ports(&mut self, named: &BTreeMap<String, String>) -> Result<()> {
        let main = &self.model.main;
        let signature = self.model.signature()?;
        let port = |number: usize, names: &HashMap<usize, String>| {
            let tensor = &main.tensors[number];
            let name = names.get(&number).map_or_else(|| tensor.name(), |name| Ok(name.clone()))?;
            Ok(Port { name, shape: tensor.shape()?, is_free: tensor.of == Type::F32 })
        };
        let ports =
            |numbers: &[usize], names| numbers.iter().map(|&number| port(number, names)).collect::<Result<Vec<_>>>();
        let (inputs, outputs) = (ports(&main.inputs, &signature[0])?, ports(&main.outputs, &signature[1])?);
        // An option may also have the names of the tensors.
        let known = |name: &String, ports: &[Port], numbers: &[usize]| {
            let at = numbers.iter().position(|&number| main.tensors[number].name().is_ok_and(|of| of == *name));
            at.filter(|_| !ports.iter().any(|port| port.name == *name))
                .map_or_else(|| name.clone(), |at| ports[at].name.clone())
        };
        let named = named.iter().map(|(a, b)| (known(a, &inputs, &main.inputs), known(b, &outputs, &main.outputs)));
        let named: &BTreeMap<String, String> = &named.collect();
        let alike = |input: &Port| outputs.iter().any(|output| output.shape == input.shape && input.is_free);
        if named.is_empty() && (inputs.len() < 2 || !inputs.iter().any(alike)) {
            return Ok(());
        }
        let places = self.places().map_err(of_trouble)?;
        let sure = state_pairs::by_option(&inputs, &outputs, named)?;
        let all = state_pairs::pairs(&inputs, &outputs, named, |_, _| true)?;
        let tensors = |pairs: &[(usize, usize)]| -> Vec<(usize, usize)> {
            pairs.iter().map(|&(input, output)| (main.inputs[input], main.outputs[output])).collect()
        };
        let (mut pairs, all) = (tensors(&sure), tensors(&all));
        let mut numbered = tensors(&state_pairs::numbered(&inputs, &outputs));
        numbered.retain(|(input, output)| !all.iter().any(|pair| pair.0 == *input || pair.1 == *output));
        let states = all.len() + numbered.len();
        err_if(states > MOST, || unsupported(format!("a graph of more than {MOST} states as ports")))?;
        let carried = |found: &HashMap<usize, Found>, input: usize, gated: bool| {
            let size = main.tensors[input].shape().map_or(0, |shape| shape.iter().product());
            let carries = found.values().filter(|of| of.is_gated || !gated).flat_map(|of| &of.carries);
            let all: BTreeSet<u32> = carries.filter(|(of, _)| *of as usize == input).map(|(_, at)| *at).collect();
            all.len() == size
        };
        // A pair that no option names must be carried by gated cells: any layer of two inputs may look like a simple one.
        // Pairs with similar names belong together, as those of h and c do.
        let alike = state_pairs::pairs(&inputs, &outputs, named, |_, _| false)?.len();
        let (alike, alone) = all.split_at(alike.min(all.len()));
        let alone = alone.iter().map(std::slice::from_ref);
        // The first port is often not a state, although its output has its shape.
        let later = numbered.get(1..).unwrap_or_default();
        for candidates in std::iter::once(&alike[pairs.len()..]).chain(alone).chain([numbered.as_slice(), later]) {
            let open = candidates.iter().filter(|pair| !pairs.contains(pair)).copied();
            let candidates: Vec<(usize, usize)> = open.collect();
            let more = [pairs.as_slice(), &candidates].concat();
            let found = self.cells(&more, &places)?;
            pairs.extend(candidates.iter().filter(|pair| carried(&found, pair.0, true)));
        }
        let found = self.cells(&pairs, &places)?;
        if let Some(&(input, output)) = pairs.iter().find(|(input, _)| !carried(&found, *input, false)) {
            let name = |ports: &[Port], numbers: &[usize], number: usize| {
                numbers.iter().zip(ports).find(|(of, _)| **of == number).map(|(_, port)| port.name.clone())
            };
            let input = name(&inputs, &main.inputs, input).unwrap_or_default();
            let output = name(&outputs, &main.outputs, output).unwrap_or_default();
            return Err(ImportError::Refused {
                found: format!("no known recurrent cell carries the state {input:?} to {output:?}"),
                advice: "export the states of LSTM, GRU or simple recurrent layers, each as a port or a slice of one",
            });
        }
        let named = |number: usize| main.tensors[number].name().unwrap_or_default();
        let left: Vec<String> = numbered
            .iter()
            .filter(|pair| !pairs.contains(pair) && pair.0 != main.inputs[0])
            .map(|&(input, output)| format!("{:?} and {:?}", named(input), named(output)))
            .collect();
        if !left.is_empty() {
            self.notes.push(format!(
                "{} remain ports of the image, because no known cell carries them; if they are states, --state names them",
                left.join(", ")
            ));
        }
        let free = |input: usize| !pairs.iter().any(|pair| pair.0 == main.inputs[input]);
        let open = |output: usize| !pairs.iter().any(|pair| pair.1 == main.outputs[output]);
        let likely = (0..inputs.len()).filter(|&input| free(input)).find_map(|input| {
            let fits = |output: &usize| open(*output) && outputs[*output].shape == inputs[input].shape;
            Some([inputs[input].name.clone(), outputs[(0..outputs.len()).find(fits)?].name.clone()])
        });
        let inputs: BTreeSet<usize> = pairs.iter().map(|pair| pair.0).collect();
        let outputs: BTreeSet<usize> = pairs.iter().map(|pair| pair.1).collect();
        let needed = (!pairs.is_empty()).then(|| self.needed(&found, &outputs));
        self.cells = Cells { found, inputs, outputs, needed, likely };
        Ok(())
    }

    /// The tensors that the outputs other than states need, without those inside of cells.
    fn needed(&self, found: &HashMap<usize, Found>, states: &BTreeSet<usize>) -> BTreeSet<usize> {
        let main = &self.model.main;
        let mut maker = HashMap::new();
        for operator in &main.operators {
            maker.extend(operator.outputs.iter().flatten().map(|&output| (output, operator)));
        }
        let mut open: Vec<usize> = main.outputs.iter().copied().filter(|output| !states.contains(output)).collect();
        let mut needed = BTreeSet::new();
        while let Some(tensor) = open.pop() {
            if !needed.insert(tensor) {
                continue;
            }
            match (found.get(&tensor), maker.get(&tensor)) {
                (Some(cell), _) => open.extend(&cell.x),
                (None, Some(operator)) => open.extend(operator.inputs.iter().flatten()),
                (None, None) => {}
            }
        }
        needed
    }

    /// The cells that carry elements of these states.
    fn cells(&mut self, pairs: &[(usize, usize)], places: &Places) -> Result<HashMap<usize, Found>> {
        let mut budget: Budget = self.budget.clone();
        let mut next: HashMap<Place, Place> = HashMap::new();
        for &(input, output) in pairs {
            let size = self.model.main.tensors[output].shape()?.iter().product::<usize>();
            budget.take(size, size_of::<[Place; 4]>())?;
            let own = |at: u32| places.get(&output).map_or((output as u32, at), |places| places[at as usize]);
            next.extend((0..size as u32).map(|at| ((input as u32, at), own(at))));
        }
        let main = &self.model.main;
        let mut algebra = Algebra::new(self.model, main, &mut budget);
        // The number of the variable of each state. Several tensors may have the same elements.
        let mut states: HashMap<Vec<Place>, usize> = HashMap::new();
        let mut variables: Vec<Id> = Vec::new();
        let mut tensors: HashMap<Id, usize> = HashMap::new();
        for operator in &main.operators {
            for &input in operator.inputs.iter().flatten() {
                if algebra.items.contains_key(&input) || self.is_constant(Some(input)) {
                    continue;
                }
                let shape = main.tensors[input].shape()?;
                let width = shape.iter().product::<usize>();
                if main.tensors[input].of != Type::F32 || shape.last() != Some(&width) {
                    continue;
                }
                // No state has more elements than all states together.
                let own = || (0..width as u32).map(|at| (input as u32, at)).collect();
                let from: Vec<Place> = match places.get(&input) {
                    _ if width > next.len() => Vec::new(),
                    Some(places) => places.to_vec(),
                    None => own(),
                };
                let id = if let Some(&number) = states.get(&from) {
                    variables[number]
                } else if !from.is_empty() && from.iter().all(|place| next.contains_key(place)) {
                    let id = algebra.state(width).map_err(of_trouble)?;
                    states.insert(from, variables.len());
                    variables.push(id);
                    id
                } else {
                    let made = algebra.arena.make(Expr::Input(input), vec![1, width as i64]);
                    made.map_err(unsupported)?
                };
                algebra.items.insert(input, Item::Real(id));
                tensors.entry(id).or_insert(input);
            }
            // The outputs of an operator that the algebra does not know become inputs of the algebra.
            match algebra.read(operator) {
                Err(Trouble::Whole(error @ ImportError::TooCostly(_))) => return Err(error),
                Err(_) => {}
                Ok(()) => {
                    for &output in operator.outputs.iter().flatten() {
                        if let Some(&Item::Real(id)) = algebra.items.get(&output) {
                            tensors.entry(id).or_insert(output);
                        }
                    }
                }
            }
        }
        let of = |places: &Vec<Place>| -> Option<usize> {
            let all: Vec<Place> = places.iter().map(|place| next[place]).collect();
            let tensor = all.first()?.0;
            let size = main.tensors[tensor as usize].shape().ok()?.iter().product::<usize>();
            let whole = all.iter().copied().eq((0..size as u32).map(|at| (tensor, at)));
            whole.then_some(tensor as usize)
        };
        // By the numbers of the variables: the places of their elements, and the tensors of their next values.
        let mut places = vec![Vec::new(); variables.len()];
        for (of, variable) in states {
            places[variable] = of;
        }
        let after = places.iter().enumerate().filter_map(|(variable, places)| Some((variable, of(places)?)));
        let after: Vec<(usize, usize)> = after.collect();
        let arena = &mut algebra.arena;
        for &(variable, tensor) in &after {
            let Some(&Item::Real(id)) = algebra.items.get(&tensor) else { continue };
            arena.variables[variable].next = Some(id);
        }
        let mut found = HashMap::new();
        let mut used: BTreeSet<usize> = BTreeSet::new();
        for with_state in [true, false] {
            for &(variable, tensor) in &after {
                let Some(&Item::Real(id)) = algebra.items.get(&tensor) else { continue };
                let Some(cell) = find_cell(arena, id).filter(|cell| cell.state.is_some() == with_state) else {
                    continue;
                };
                let number = |id: Id| match *arena.expr(id) {
                    Expr::Variable(number) => Some(number),
                    _ => None,
                };
                let states: Option<Vec<usize>> =
                    [Some(cell.hidden), cell.state.map(|[old, _]| old)].into_iter().flatten().map(number).collect();
                let Some(states) = states.filter(|states| states[0] == variable) else { continue };
                let parts = match arena.expr(cell.x) {
                    Expr::Concat(parts) if !tensors.contains_key(&cell.x) => parts.clone(),
                    _ => vec![cell.x],
                };
                let is_input = |part: &Id| tensors.get(part).copied().filter(|_| number(*part).is_none());
                let Some(x) = parts.iter().map(is_input).collect::<Option<Vec<_>>>() else { continue };
                if states.iter().any(|state| used.contains(state)) {
                    continue;
                }
                let Ok(layer) = cell.cell.layer(arena) else { continue };
                used.extend(&states);
                let carries = states.iter().flat_map(|state| places[*state].iter().copied()).collect();
                let is_gated = !matches!(cell.cell, Cell::Simple { .. });
                found.insert(tensor, Found { layer, x, is_gated, carries, is_hybrid: algebra.hybrid });
            }
        }
        Ok(found)
    }

    /// The output of a cell, if an operator computes it.
    pub fn cell_at(&mut self, operator: &Operator<'_>) -> Result<Option<(usize, Value)>, Trouble> {
        let output = operator.outputs.iter().flatten().find(|output| self.cells.found.contains_key(output));
        let Some((output, found)) = output.and_then(|&output| Some((output, self.cells.found.remove(&output)?))) else {
            return Ok(None);
        };
        self.hybrid |= found.is_hybrid;
        let mut sources = Vec::new();
        for tensor in found.x {
            let value = self.values.get(&tensor).cloned();
            let value = value.ok_or("the input of its cell is not computed by an earlier operator")?;
            fail_if(value.along != Along::Nothing || value.counts.is_some(), "the input of its cell is not one step")?;
            sources.push(value.source);
        }
        let x: Vec<&Source> = sources.iter().collect();
        let source = self.network.add(found.layer, &x);
        let shape = self.shape_of(output)?;
        Ok(Some((output, Value { source, shape, along: Along::Nothing, counts: None, reversed: false })))
    }
}

fn of_trouble(trouble: Trouble) -> ImportError {
    match trouble {
        Trouble::Reason(reason) => unsupported(reason),
        Trouble::Whole(error) => error,
    }
}
