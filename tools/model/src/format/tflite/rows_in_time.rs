//! Rows along time in a graph with variables: the ring buffers that TFLite builds from variables, concatenations and
//! slices, as windows over the stream of a layer's outputs.
//!
//! In such a graph, dimension 1 of a tensor `[1, rows, ...]` is time. A tensor that operators only assemble is a list of
//! rows: old ones of variables and new ones of this call. A variable whose next value is its last rows and the new ones
//! holds the last rows of that stream, so every list of consecutive rows up to the newest one is a window of the stream.

use std::collections::HashMap;

use super::cut::Cut;
use super::integers::Counts;
use super::lower::{Along, Reader, Trouble, Value};
use super::options::FUSED;
use super::schema::{Operator, Type};
use super::timeline::{Timeline, View, has_rows, rows_and_size};
use super::unsupported;
use super::variables::{self, Variables};
use crate::error::Result;
use crate::format::refuse::{fail_if, unsupported_if};

/// The place of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// In a variable, by its index.
    Old { variable: usize, row: usize },
    /// In a tensor that this call computes or receives.
    New { tensor: usize, row: usize },
}

/// Elements `first` to `first + size` of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row {
    at: At,
    first: usize,
    size: usize,
}

type Rows = Vec<Row>;

/// A variable of the graph.
struct Variable {
    name: String,
    /// Number of rows.
    rows: usize,
    /// Elements of a row.
    size: usize,
    counts: Option<Counts>,
    /// The rows that are assigned to it.
    next: Option<Rows>,
}

/// The state of the pass over the operators that follows the rows.
#[derive(Default)]
struct Pass {
    /// Rows of inputs, and of tensors that operators only assemble.
    lists: HashMap<usize, Rows>,
    /// Names of variables by the tensors of their handles.
    handles: HashMap<usize, String>,
    variables: Vec<Variable>,
}

impl Variable {
    /// The stream whose last rows the variable holds: its tensor, and the first element of each row. An error if the
    /// next value of the variable, which has the index `index`, is anything but its last rows and the new ones.
    fn stream(&self, index: usize, hop: impl Fn(usize) -> usize) -> Result<(usize, usize), String> {
        let next = self.next.as_deref().ok_or("is read, but no operator assigns to it")?;
        let other = "is no ring buffer: its next value is not its last rows and the new ones";
        let Some(&Row { at: At::New { tensor, .. }, first, .. }) = next.last() else { return Err(other.into()) };
        let hop = hop(tensor);
        let expected = |at: usize| match (at + hop).checked_sub(self.rows) {
            None => Row { at: At::Old { variable: index, row: at + hop }, first: 0, size: self.size },
            Some(row) => Row { at: At::New { tensor, row }, first, size: self.size },
        };
        let is_ring = next.len() == self.rows && next.iter().enumerate().all(|(at, row)| *row == expected(at));
        if is_ring { Ok((tensor, first)) } else { Err(other.into()) }
    }
}

impl Pass {
    /// The index of a variable whose value has this shape.
    fn variable(&mut self, name: &str, shape: &[usize], counts: Option<Counts>) -> Result<usize, Trouble> {
        let (rows, size) = rows_and_size(shape);
        let index = self.variables.iter().position(|of| of.name == name).unwrap_or(self.variables.len());
        if index == self.variables.len() {
            self.variables.push(Variable { name: name.to_owned(), rows, size, counts, next: None });
        }
        let of = &self.variables[index];
        let fits = (of.rows, of.size, of.counts) == (rows, size, counts);
        fail_if(!fits, format_args!("variable {name:?} has another shape or scale before"))?;
        Ok(index)
    }

    /// The rows as a part of a stream up to its newest row. `streams` has the stream of each variable.
    fn view(&self, rows: &[Row], streams: &[(usize, usize)], hop: impl Fn(usize) -> usize) -> Result<View, String> {
        // Row 0 is the first new one of this call.
        let place = |row: &Row| match row.at {
            At::New { tensor, row: time } => (tensor, time as i64, row.first, row.size),
            At::Old { variable, row: at } => {
                let ((stream, first), before) = (streams[variable], self.variables[variable].rows as i64);
                (stream, at as i64 - before, first + row.first, row.size)
            }
        };
        let (stream, last, first, size) = rows.last().map(place).ok_or("has no rows")?;
        let (hop, length) = (hop(stream), rows.len());
        let expected = |at: usize| (stream, last - (length - 1 - at) as i64, first, size);
        let follow = rows.iter().enumerate().all(|(at, row)| place(row) == expected(at));
        fail_if(!follow, "has rows that do not follow each other")?;
        fail_if(last != hop as i64 - 1, "does not end with the newest row, as the state of a recurrent cell")?;
        fail_if(length < hop, format_args!("has {length} of the {hop} rows of a call"))?;
        Ok(View { stream, first, size, length, hop })
    }
}

impl Reader<'_> {
    /// Follows the rows of a graph with variables. Returns the numbers of the graphs that it calls.
    pub fn follow_rows(&mut self) -> Result<Vec<usize>> {
        let (mut pass, mut variables, model) = (Pass::default(), Variables::default(), self.model);
        let mut per_call = None;
        for &input in &model.main.inputs {
            let (rows, size) = rows_and_size(&model.main.tensors[input].shape()?);
            let known = *per_call.get_or_insert(rows);
            let differ = format_args!("a graph with inputs of {known} and of {rows} rows in one call");
            unsupported_if(known != rows, differ)?;
            self.take_numbers(rows, size_of::<Row>())?;
            let row = |row| Row { at: At::New { tensor: input, row }, first: 0, size };
            pass.lists.insert(input, (0..rows).map(row).collect());
        }
        for operator in &model.main.operators {
            self.follow(operator, &mut pass, &mut variables).map_err(|trouble| self.named(operator, trouble))?;
        }
        let hop = |tensor: usize| if model.main.inputs.contains(&tensor) { pass.lists[&tensor].len() } else { 1 };
        let stream = |(index, of): (usize, &Variable)| {
            of.stream(index, hop).map_err(|reason| unsupported(format!("variable {:?}, which {reason},", of.name)))
        };
        let streams = pass.variables.iter().enumerate().map(stream).collect::<Result<Vec<_>>>()?;
        let views = pass.lists.iter().map(|(&tensor, rows)| (tensor, pass.view(rows, &streams, hop)));
        self.timeline.views = views.collect();
        Ok(variables.called)
    }

    /// Follows the rows through one operator.
    fn follow(&mut self, operator: &Operator<'_>, pass: &mut Pass, variables: &mut Variables) -> Result<(), Trouble> {
        match (operator.op, operator.inputs.as_slice(), operator.outputs.as_slice()) {
            ("CALL_ONCE", [], []) => self.call_once(operator, variables)?,
            ("VAR_HANDLE", [], &[Some(handle)]) => drop(pass.handles.insert(handle, variables::name_of(operator)?)),
            ("READ_VARIABLE", &[Some(handle)], &[Some(output)]) => {
                let name = pass.handles.get(&handle).ok_or("its input is no variable")?.clone();
                let (shape, counts) = (self.shape_of(output)?, self.counts(output)?);
                self.starts_from_zero(&name, output, variables)?;
                let variable = pass.variable(&name, &shape, counts)?;
                let Variable { rows, size, next, .. } = &pass.variables[variable];
                let old = |row| Row { at: At::Old { variable, row }, first: 0, size: *size };
                self.take_numbers(*rows, size_of::<Row>())?;
                let list = next.clone().unwrap_or_else(|| (0..*rows).map(old).collect());
                pass.lists.insert(output, list);
            }
            ("ASSIGN_VARIABLE", &[Some(handle), Some(value)], []) => {
                let name = pass.handles.get(&handle).ok_or("its input is no variable")?.clone();
                let (shape, counts) = (self.shape_of(value)?, self.counts(value)?);
                let variable = pass.variable(&name, &shape, counts)?;
                let twice = pass.variables[variable].next.is_some();
                fail_if(twice, format_args!("variable {name:?} is assigned twice"))?;
                pass.variables[variable].next = Some(self.rows_of(value, pass)?);
            }
            (op, ..) if ["CALL_ONCE", "VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE"].contains(&op) => {
                return Err("its inputs and outputs are not those of its kind".into());
            }
            _ => self.follow_moves(operator, pass)?,
        }
        Ok(())
    }

    /// Follows the rows through an operator that assembles, cuts or reshapes them. Other operators compute.
    fn follow_moves(&mut self, operator: &Operator<'_>, pass: &mut Pass) -> Result<(), Trouble> {
        let lists = match operator.op {
            "CONCATENATION" => self.joined_rows(operator, pass)?,
            "STRIDED_SLICE" => self.cut_rows(operator, pass)?,
            "SPLIT" | "SPLIT_V" => self.split_rows(operator, pass)?,
            "RESHAPE" | "SQUEEZE" | "EXPAND_DIMS" => {
                let (input, output) = (self.input_number(operator, 0)?, self.input_shape(operator)?);
                let same = rows_and_size(&output) == rows_and_size(&self.output_shape(operator)?);
                if same && !self.is_constant(Some(input)) { Some(vec![self.rows_of(input, pass)?]) } else { None }
            }
            _ => None,
        };
        for (list, output) in lists.into_iter().flatten().zip(&operator.outputs) {
            let output = output.ok_or("one of its outputs is missing")?;
            let data = if operator.op == "SPLIT" { 1 } else { 0 };
            let (from, to) = (self.counts(self.input_number(operator, data)?)?, self.counts(output)?);
            fail_if(from != to, "its input and its output differ in scale or zero point")?;
            let (rows, size) = rows_and_size(&self.shape_of(output)?);
            let fits = list.len() == rows && list.iter().all(|row| row.size == size);
            fail_if(!fits, format_args!("its output is not {rows} rows of {size}"))?;
            self.take_numbers(rows, size_of::<Row>())?;
            pass.lists.insert(output, list);
        }
        Ok(())
    }

    /// The rows of a tensor.
    fn rows_of(&mut self, tensor: usize, pass: &Pass) -> Result<Rows, Trouble> {
        if let Some(rows) = pass.lists.get(&tensor) {
            self.take_numbers(rows.len(), size_of::<Row>())?;
            return Ok(rows.clone());
        }
        let (rows, size) = rows_and_size(&self.shape_of(tensor)?);
        let name = self.model.main.tensors[tensor].name()?;
        fail_if(self.is_constant(Some(tensor)), format_args!("{name:?} is a constant beside rows of time"))?;
        fail_if(rows != 1, format_args!("{name:?} has {rows} rows of time, which one call computes together"))?;
        Ok(vec![Row { at: At::New { tensor, row: 0 }, first: 0, size }])
    }

    /// A concatenation along time.
    fn joined_rows(&mut self, operator: &Operator<'_>, pass: &Pass) -> Result<Option<Vec<Rows>>, Trouble> {
        let shape = self.output_shape(operator)?;
        if !has_rows(&shape) || axis_of(operator.option("axis", 0_i32)?, shape.len()) != Some(1) {
            return Ok(None);
        }
        fail_if(operator.option(FUSED, 0_i8)? != 0, format_args!("attribute {FUSED} is not 0"))?;
        let mut rows = Rows::new();
        for index in 0..operator.inputs.len() {
            let number = self.input_number(operator, index)?;
            let differ = self.counts(number)? != self.counts(self.input_number(operator, 0)?)?;
            fail_if(differ, "its inputs differ in scale or zero point")?;
            rows.extend(self.rows_of(number, pass)?);
        }
        Ok(Some(vec![rows]))
    }

    /// A slice along time, or of the last dimension.
    fn cut_rows(&mut self, operator: &Operator<'_>, pass: &Pass) -> Result<Option<Vec<Rows>>, Trouble> {
        let (number, shape) = (self.input_number(operator, 0)?, self.input_shape(operator)?);
        let cuts = self.cuts(operator, &shape)?;
        let mut rows = self.rows_of(number, pass)?;
        for (axis, (cut, &dim)) in cuts.into_iter().zip(&shape).enumerate() {
            let whole = cut == (Cut { first: 0, behind: dim as i64, shrinks: false });
            let fits = !cut.shrinks && 0 <= cut.first && cut.first < cut.behind && cut.behind <= dim as i64;
            let (first, behind) = (cut.first as usize, cut.behind as usize);
            match axis {
                _ if whole => {}
                1 if fits && has_rows(&shape) => rows = rows[first..behind].to_vec(),
                _ if fits && is_channels(axis, &shape) => narrow(&mut rows, first, behind - first),
                _ => return Err(format!("it selects {first} to {behind} of dimension {axis}").into()),
            }
        }
        Ok(Some(vec![rows]))
    }

    /// A split along time, or of the last dimension.
    fn split_rows(&mut self, operator: &Operator<'_>, pass: &Pass) -> Result<Option<Vec<Rows>>, Trouble> {
        let (data, axis) = if operator.op == "SPLIT" { (1, 0) } else { (0, 2) };
        let number = self.input_number(operator, data)?;
        let shape = self.shape_of(number)?;
        let axis = self.integers(operator, axis, Type::I32)?.and_then(|(_, values, _)| values.first().copied());
        let axis =
            axis.and_then(|axis| axis_of(i32::try_from(axis).ok()?, shape.len())).ok_or("its axis is missing")?;
        let sizes: Vec<usize> = if operator.op == "SPLIT" {
            vec![shape[axis] / operator.outputs.len().max(1); operator.outputs.len()]
        } else {
            let sizes = self.integers(operator, 1, Type::I32)?.map(|(_, values, _)| values).unwrap_or_default();
            // One of the sizes may be -1: what the others leave.
            let given: i64 = sizes.iter().filter(|&&size| size > 0).sum();
            let rest = (shape[axis] as i64).saturating_sub(given);
            sizes.into_iter().map(|size| if size == -1 { rest } else { size }.try_into().unwrap_or(0)).collect()
        };
        let sum = sizes.iter().try_fold(0_usize, |all, &size| all.checked_add(size));
        let fits = sum == Some(shape[axis]) && !sizes.contains(&0) && sizes.len() == operator.outputs.len();
        fail_if(!fits, format_args!("it splits {} into {sizes:?}", shape[axis]))?;
        let (along_time, channels) = (axis == 1 && has_rows(&shape), is_channels(axis, &shape));
        fail_if(!along_time && !channels, format_args!("it splits dimension {axis}"))?;
        let (whole, mut first) = (self.rows_of(number, pass)?, 0);
        let mut lists = Vec::new();
        for size in sizes {
            self.take_numbers(whole.len(), size_of::<Row>())?;
            let mut rows = whole.clone();
            if along_time {
                rows = rows[first..first + size].to_vec();
            } else {
                narrow(&mut rows, first, size);
            }
            first += size;
            lists.push(rows);
        }
        Ok(Some(lists))
    }

    /// Refuses a variable whose initial value is not zero, or that is not initialized.
    pub fn starts_from_zero(&self, name: &str, value: usize, variables: &Variables) -> Result<(), Trouble> {
        let tensor = &self.model.main.tensors[value];
        let zero = self.counts(value)?.map_or(0.0, |counts| f64::from(counts.zero_point));
        let known = matches!(tensor.of, Type::F32 | Type::I8);
        fail_if(!known, format_args!("variable {name:?} is of {}", tensor.of.name()))?;
        let initial = variables.initial(name).ok_or_else(|| format!("variable {name:?} is not initialized"))?;
        let fits = initial.of == tensor.of && initial.shape == tensor.shape()?;
        fail_if(!fits, format_args!("variable {name:?} is initialized with another shape or type"))?;
        let is_zero = initial.range == [zero, zero];
        Ok(fail_if(!is_zero, format_args!("the initial value of variable {name:?} is not zero"))?)
    }

    /// The value of a tensor that is a list of rows, as a window of its stream.
    pub fn seen(&mut self, tensor: usize) -> Result<Option<Value>, Trouble> {
        let Some(view) = self.timeline.views.get(&tensor) else { return Ok(None) };
        let name = || self.model.main.tensors[tensor].name();
        let View { stream, first, size, length, hop } = match view {
            Ok(view) => *view,
            Err(reason) => return Err(format!("its input {:?} {reason}", name()?).into()),
        };
        let computed = self.values.get(&stream).cloned();
        let computed = computed.ok_or_else(|| format!("{:?} is not computed by an earlier operator", name().ok()))?;
        let Timeline { parts, windows, .. } = &mut self.timeline;
        let network = &mut self.network;
        let part = if size == computed.features() {
            computed.source
        } else {
            parts.entry([stream, first, size]).or_insert_with(|| network.part(&computed.source, first, size)).clone()
        };
        let source = if length == 1 {
            part
        } else {
            let window = || network.frames(&part, length, hop, length - hop);
            windows.entry([stream, first, size, length, hop]).or_insert_with(window).clone().flat()
        };
        Ok(Some(Value {
            source,
            shape: self.shape_of(tensor)?,
            along: Along::Nothing,
            counts: computed.counts,
            reversed: false,
        }))
    }
}

/// An axis that may count from the end.
pub(super) fn axis_of(axis: i32, dims: usize) -> Option<usize> {
    let axis = if axis < 0 { i64::from(axis) + dims as i64 } else { axis.into() };
    usize::try_from(axis).ok().filter(|&axis| axis < dims)
}

/// Whether a part of this dimension is a part of every row: it is the last, and all others but time are 1.
fn is_channels(axis: usize, shape: &[usize]) -> bool {
    let is_row = |(at, &dim): (usize, &usize)| dim == 1 || at == axis || (at == 1 && has_rows(shape));
    axis > 0 && axis + 1 == shape.len() && shape.iter().enumerate().all(is_row)
}

/// Takes `size` elements of every row from `first` on.
fn narrow(rows: &mut Rows, first: usize, size: usize) {
    for row in rows {
        (row.first, row.size) = (row.first + first, size);
    }
}
