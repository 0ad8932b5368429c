//! Resource variables: their names, and the values with which `CALL_ONCE` initializes them.

use std::collections::{BTreeSet, HashMap};

use super::lower::{Reader, Trouble};
use super::schema::{Graph, Operator, Type, floats, integers};
use crate::format::refuse::fail_if;

/// Memory of an element of an initial value in bytes, while it is read.
const READ: usize = 8;

/// An initial value.
pub struct Initial {
    pub shape: Vec<usize>,
    pub of: Type,
    /// The least and the greatest element.
    pub range: [f64; 2],
}

/// The variables of the graphs that have been read.
#[derive(Default)]
pub struct Variables {
    /// Initial values by the names of the variables.
    initial: HashMap<String, Initial>,
    /// Graphs that were called.
    pub called: Vec<usize>,
}

impl Variables {
    pub fn initial(&self, name: &str) -> Option<&Initial> {
        self.initial.get(name)
    }
}

/// The name of the variable that a `VAR_HANDLE` refers to.
pub fn name_of(operator: &Operator<'_>) -> Result<String, Trouble> {
    let name = operator.text_option("shared_name")?;
    fail_if(name.is_empty(), "attribute shared_name is empty")?;
    let container = operator.text_option("container")?;
    fail_if(!container.is_empty(), format_args!("attribute container is {container:?}, which is not supported"))?;
    Ok(name)
}

/// Removes the variables whose values no output needs, such as the seeds of dropout, with the operators that only compute
/// their next values. Returns the numbers of the graphs that only initialize them.
pub fn remove_unused(graph: &mut Graph<'_>) -> Vec<usize> {
    let (mut names, mut makers) = (HashMap::new(), HashMap::new());
    for (index, operator) in graph.operators.iter().enumerate() {
        makers.extend(operator.outputs.iter().flatten().map(|&output| (output, index)));
        if let ("VAR_HANDLE", &[Some(handle)], Ok(name)) = (operator.op, operator.outputs.as_slice(), name_of(operator))
        {
            names.insert(handle, name);
        }
    }
    let variable = |operator: &Operator<'_>| {
        let handle = match operator.op {
            "VAR_HANDLE" => operator.outputs.first(),
            "READ_VARIABLE" | "ASSIGN_VARIABLE" => operator.inputs.first(),
            _ => None,
        };
        names.get(&handle.copied().flatten()?)
    };
    let mut next = HashMap::<_, Vec<usize>>::new();
    for operator in graph.operators.iter().filter(|operator| operator.op == "ASSIGN_VARIABLE") {
        let values = operator.inputs.iter().flatten().copied();
        next.entry(variable(operator)).or_default().extend(values);
    }
    let (mut open, mut needed, mut used) = (graph.outputs.clone(), BTreeSet::new(), BTreeSet::new());
    // An operator may also give a variable to another graph.
    let others = graph.operators.iter().filter(|of| !matches!(of.op, "READ_VARIABLE" | "ASSIGN_VARIABLE"));
    let given: BTreeSet<_> = others.flat_map(|of| &of.inputs).flatten().filter_map(|input| names.get(input)).collect();
    open.extend(given.iter().filter_map(|name| next.get(&Some(*name))).flatten());
    used.extend(given.into_iter().map(Some));
    while let Some(tensor) = open.pop() {
        let Some(&index) = makers.get(&tensor).filter(|&&index| needed.insert(index)) else { continue };
        let operator = &graph.operators[index];
        open.extend(operator.inputs.iter().flatten());
        if operator.op == "READ_VARIABLE" && used.insert(variable(operator)) {
            open.extend(next.get(&variable(operator)).into_iter().flatten());
        }
    }
    let (mut gone, mut initial) = (BTreeSet::<usize>::new(), Vec::new());
    let keeps = graph.operators.iter().enumerate().map(|(index, operator)| {
        let is_unused = variable(operator).is_some_and(|name| !used.contains(&Some(name)));
        let follows = !needed.contains(&index) && operator.inputs.iter().flatten().any(|input| gone.contains(input));
        let is_gone = is_unused || follows || (operator.op == "CALL_ONCE" && used.is_empty() && !names.is_empty());
        if is_gone && operator.op == "CALL_ONCE" {
            let called = operator.option("init_subgraph_index", 0_i32).ok();
            initial.extend(called.and_then(|index| usize::try_from(index).ok()));
        }
        if is_gone {
            gone.extend(operator.outputs.iter().flatten());
        }
        !is_gone
    });
    let mut keeps = keeps.collect::<Vec<bool>>().into_iter();
    graph.operators.retain(|_| keeps.next().unwrap_or(true));
    initial
}

impl Reader<'_> {
    /// Reads the graph that a `CALL_ONCE` calls. It may only initialize variables with constants.
    pub fn call_once(&mut self, operator: &Operator<'_>, variables: &mut Variables) -> Result<(), Trouble> {
        let index = operator.option("init_subgraph_index", 0_i32)?;
        let index = usize::try_from(index).map_err(|_| format!("it calls graph {index}"))?;
        fail_if(index == 0, "it calls the graph that it is in (attribute init_subgraph_index is 0)")?;
        if variables.called.contains(&index) {
            return Ok(());
        }
        variables.called.push(index);
        let graph = self.model.graph(index, &mut self.budget)?;
        let mut handles = HashMap::new();
        for inner in &graph.operators {
            match (inner.op, inner.inputs.as_slice(), inner.outputs.as_slice()) {
                ("VAR_HANDLE", [], &[Some(handle)]) => drop(handles.insert(handle, name_of(inner)?)),
                ("ASSIGN_VARIABLE", &[Some(handle), Some(value)], []) => {
                    let name = handles.get(&handle).ok_or("it calls a graph that assigns to no variable")?.clone();
                    let initial = self.initial(&graph, value)?;
                    let initial = initial.ok_or_else(|| format!("the initial value of {name:?} is no constant"))?;
                    variables.initial.insert(name, initial);
                }
                _ => {
                    let op = inner.name();
                    return Err(format!("it calls a graph with {op}; only initial values are supported").into());
                }
            }
            inner.check_options()?;
        }
        Ok(())
    }

    fn initial(&mut self, graph: &Graph<'_>, number: usize) -> Result<Option<Initial>, Trouble> {
        let tensor = &graph.tensors[number];
        let (shape, of) = (tensor.shape()?, tensor.of);
        self.take_numbers(shape.iter().product(), READ)?;
        let values = match of {
            Type::F32 => floats(self.model, tensor)?.map(|values| values.into_iter().map(f64::from).collect()),
            _ => integers(self.model, tensor)?.map(|values| values.into_iter().map(|value| value as f64).collect()),
        };
        let range = |values: Vec<f64>| values.iter().fold([f64::MAX, f64::MIN], |[a, b], &x| [a.min(x), b.max(x)]);
        // A NaN is no zero.
        let whole = |values: &Vec<f64>| values.iter().all(|value| value.is_finite());
        Ok(values.filter(whole).map(|values| Initial { shape, of, range: range(values) }))
    }
}
