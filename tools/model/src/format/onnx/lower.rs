//! Builds layers over values: finds the layer outputs that the elements of an operand come from, row by row, and adds a
//! layer that reorders them where necessary.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use super::made::{Layered, Made, MadeOf, Operand};
use super::value::{Element, Value, strides};
use super::{Role, graph::Session, graph::Stop};
use crate::budget::WEIGHT;
use crate::canonical::{MAX_NODES, MAX_SIZE};
use crate::error::ImportError;
use crate::format::{layer::Layer, network::Direction, network::Source, refuse::err_if, refuse::fail_if};

/// The most parts of one output in a row that are read one by one.
const MOST_PARTS: usize = 2;

/// Repetitions of an output in a row are merged if it has at most this many features and is repeated at least this many
/// times, because a list of positions is then smaller than a list of inputs.
const MOST_REPEATED: usize = 4;
const LEAST_TIMES: usize = 4;

/// A part of a row.
#[derive(Clone)]
enum Piece {
    /// All features of a row of this output.
    Whole(Made),
    /// Features of a row of this output and constants: their range in the row.
    Some(Made, Range<usize>),
}

/// A step of a sequence, as its layer computes it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Last,
    /// The first step, which a backward layer computes last.
    First,
    Other,
}

impl Step {
    fn of(step: usize, steps: usize, backward: bool) -> Self {
        match (step, backward && steps > 1) {
            (0, true) => Self::First,
            (_, false) if step + 1 == steps => Self::Last,
            _ => Self::Other,
        }
    }
}

impl Session<'_> {
    fn needs_window<T>(&self, what: &str) -> Result<T, Stop> {
        Err(ImportError::NeedsWindow { what: what.to_owned() }.into())
    }

    pub fn layered(&mut self, layered: Layered, operand: &Operand) -> Result<Made, Stop> {
        if layered.direction != Direction::Forward && operand.time.is_some() && !self.setup.windowed {
            return self.needs_window("an operator that runs backwards");
        }
        self.budget.take(layered.layer.weights(), size_of::<f32>()).map_err(ImportError::from)?;
        let backward = layered.direction != Direction::Forward && operand.time.is_some();
        let width = layered.layer.output_size;
        let misfit = width == 0 || width > MAX_SIZE || layered.layer.input_size > MAX_SIZE;
        fail_if(misfit, format_args!("it has more than {MAX_SIZE} features, or none"))?;
        self.room(&[operand.time.unwrap_or(1), operand.rows, width], false)?;
        let made = MadeOf {
            time: operand.time,
            rows: operand.rows,
            width,
            backward,
            source: None,
            pending: Some((layered, operand.sources.clone())),
        };
        self.push_keyed(made)
    }

    /// An output that a layer of the current node computes.
    fn push_keyed(&mut self, made: MadeOf) -> Result<Made, Stop> {
        let made = self.push(made)?;
        self.keys[made.0 as usize] = Some(self.key);
        self.by_key.insert(self.key, made.0);
        self.key.1 += 1;
        Ok(made)
    }

    pub(super) fn push(&mut self, made: MadeOf) -> Result<Made, Stop> {
        fail_if(self.made.len() >= 4 * MAX_NODES, format_args!("the network has more than {MAX_NODES} layers"))?;
        self.made.push(made);
        self.keys.push(None);
        Ok(Made(self.made.len() as u32 - 1))
    }

    /// The layer and its inputs, if the layer is not in the network yet.
    pub fn pending_layer(&self, made: Made) -> Option<&(Layered, Vec<Source>)> {
        self.made[made.0 as usize].pending.as_ref()
    }

    /// A copy of a pending output, computed by `layer` instead.
    pub fn variant(&mut self, made: Made, layer: Layer) -> Result<Made, Stop> {
        let mut other = self.made[made.0 as usize].clone();
        self.budget.take(layer.weights(), size_of::<f32>()).map_err(ImportError::from)?;
        if let Some((layered, _)) = &mut other.pending {
            layered.layer = layer;
        }
        self.push_keyed(other)
    }

    /// The source of an output in the network. Adds its layer if necessary.
    pub fn source(&mut self, made: Made) -> Result<Source, Stop> {
        let of = &mut self.made[made.0 as usize];
        if let Some(source) = &of.source {
            return Ok(source.clone());
        }
        let (layered, sources) = of.pending.take().ok_or("it reads a value that no layer computes")?;
        self.packed.take(layered.layer.weights(), WEIGHT).map_err(ImportError::from)?;
        let sources: Vec<&Source> = sources.iter().collect();
        let fresh = std::mem::replace(&mut self.network.fresh, layered.fresh);
        let source = match layered.apart {
            true => self.network.apart(layered.layer, &sources),
            false => self.network.directed(layered.layer, &sources, layered.direction),
        };
        self.network.fresh = fresh;
        of.source = Some(source.clone());
        Ok(source)
    }

    pub fn node_of(&mut self, made: Made) -> Result<String, Stop> {
        Ok(self.source(made)?.name().to_owned())
    }

    /// The network's port for an input, with all of its steps.
    fn port(&mut self, input: u32) -> Result<Made, Stop> {
        if let Some(&made) = self.ports.get(&input) {
            return Ok(made);
        }
        let of = &self.setup.inputs[input as usize];
        let time = self.time_of(input);
        let steps = time.map(|axis| of.shape[axis]);
        let size = of.shape.iter().product::<usize>() / steps.unwrap_or(1).max(1);
        let fits = (1..=MAX_SIZE).contains(&size);
        fail_if(!fits, format_args!("input {:?} has more than {MAX_SIZE} features, or none", of.name))?;
        let mut source = self.network.input(&of.name, size);
        if steps.is_none_or(|steps| steps == 1) && !self.setup.windowed {
            // A call of the graph is a step.
            self.network.called_with(&of.name, 1);
        }
        if let (Some(steps), true) = (steps, self.setup.windowed) {
            let fits = steps.checked_mul(size).is_some_and(|all| all <= MAX_SIZE);
            fail_if(!fits, format_args!("a window of {steps} steps of {size} features is too large"))?;
            source = self.network.window(&source, steps);
        }
        let made = MadeOf { time: steps, rows: 1, width: size, backward: false, source: Some(source), pending: None };
        let made = self.push(made)?;
        self.ports.insert(input, made);
        Ok(made)
    }

    pub fn time_of(&self, input: u32) -> Option<usize> {
        let of = &self.setup.inputs[input as usize];
        (0..of.shape.len()).find(|&axis| self.setup.roles.get(&(input as usize, axis)) == Some(&Role::Time))
    }

    /// The last row of a layer's output over a sequence, or the first row, which is the final one of a backward layer.
    fn last_of(&mut self, made: Made, first: bool) -> Result<Made, Stop> {
        if let Some(&last) = self.ends.get(&(made, first)) {
            return Ok(last);
        }
        let source = self.source(made)?;
        let of = self.made[made.0 as usize].clone();
        let source = if self.setup.windowed {
            self.network.last(&source, first)
        } else if first {
            return self.needs_window("an operator that reads the first step");
        } else {
            source
        };
        let width = of.rows * of.width;
        let last = MadeOf { time: None, rows: 1, width, backward: false, source: Some(source), pending: None };
        let last = self.push(last)?;
        self.ends.insert((made, first), last);
        Ok(last)
    }

    /// Replaces all elements by elements of layer outputs: inputs by their ports, states by the last outputs.
    pub(super) fn of_layers(&mut self, elements: &mut [Element], timed: bool) -> Result<(), Stop> {
        for element in elements.iter_mut() {
            *element = match *element {
                Element::Input(input, index)
                    if self.setup.delays.contains_key(&self.setup.inputs[input as usize].name) =>
                {
                    self.delayed(input, index)?.unwrap_or(*element)
                }
                Element::Input(input, index) => {
                    let port = self.port(input)?;
                    let index = match self.time_of(input) {
                        None => index,
                        Some(axis) => {
                            // Time is the first dimension of a port.
                            let shape = &self.setup.inputs[input as usize].shape;
                            let stride = strides(shape)[axis];
                            let (index, steps) = (index as usize, shape[axis]);
                            let size = shape.iter().product::<usize>() / steps;
                            let step = index / stride % steps;
                            (step * size + index / (stride * steps) * stride + index % stride) as u32
                        }
                    };
                    Element::Of(port.0, index)
                }
                Element::State(state, index) => {
                    let of = self.states[state as usize].clone();
                    fail_if(of.state != "hidden", "it reads Y_c, which is only supported as an output of the graph")?;
                    match self.made[of.made.0 as usize].time {
                        Some(_) => Element::Of(self.last_of(of.made, of.first)?.0, index),
                        // The layer runs over the rows within a step.
                        None => {
                            let made = &self.made[of.made.0 as usize];
                            let row = if of.first || of.apart { 0 } else { made.rows - 1 };
                            Element::Of(of.made.0, (row * made.width) as u32 + index)
                        }
                    }
                }
                other => other,
            };
        }
        if !timed {
            self.of_single_steps(elements)?;
        }
        Ok(())
    }

    /// Reads the last step of a sequence, or the first one, as an output of its own, unless other steps are read as well.
    fn of_single_steps(&mut self, elements: &mut [Element]) -> Result<(), Stop> {
        let sequence = |session: &Self, element: &Element| match *element {
            Element::Of(made, index) => {
                let MadeOf { time, rows, width, backward, .. } = session.made[made as usize];
                let (row, index) = (rows * width, index as usize);
                Some((Made(made), Step::of(index / row, time?, backward), (index % row) as u32))
            }
            _ => None,
        };
        let steps = elements.iter().filter_map(|element| sequence(self, element));
        let whole: HashSet<Made> = steps.filter(|(_, step, _)| *step == Step::Other).map(|(made, ..)| made).collect();
        for element in elements {
            let Some((made, step, at)) = sequence(self, element) else { continue };
            let is_last = step == Step::Last;
            fail_if(is_last && self.lens.is_some(), "it reads the last step of sequences that may end earlier")?;
            if !is_last && !self.setup.windowed {
                return self.needs_window("an operator that reads single steps");
            }
            if !whole.contains(&made) {
                *element = Element::Of(self.last_of(made, !is_last)?.0, at);
            }
        }
        Ok(())
    }

    /// An operand with the dimensions `order` after time: the first `split` of them count rows, the others features.
    pub fn rows(&mut self, value: &Value, order: &[usize], split: usize, time: Option<usize>) -> Result<Operand, Stop> {
        let all: Vec<usize> = time.into_iter().chain(order.iter().copied()).collect();
        let moved = value.transposed(&all)?;
        let steps = time.map(|axis| value.shape[axis]);
        let rows = order[..split].iter().map(|&axis| value.shape[axis]).product();
        self.of_elements(moved.elements(), steps, rows)
    }

    /// An operand with these elements, in this order.
    pub fn of_elements(&mut self, all: Vec<Element>, time: Option<usize>, rows: usize) -> Result<Operand, Stop> {
        let mut elements = all;
        let count = time.unwrap_or(1) * rows;
        fail_if(elements.is_empty() || count == 0 || !elements.len().is_multiple_of(count), "it has no elements")?;
        let width = elements.len() / count;
        self.of_layers(&mut elements, time.is_some())?;
        self.in_windows(&mut elements);
        let pieces = self.pieces(&elements, time, count).map(|pieces| self.joined(pieces, time, count));
        let pieces = pieces.ok().filter(|pieces| are_few(pieces));
        let Some(pieces) = pieces else {
            let source = self.gathered(&elements, time)?;
            let source = self.rowed(source, time, rows);
            return Ok(Operand { sources: vec![source], time, rows, width });
        };
        let mut sources = Vec::new();
        for piece in pieces {
            sources.push(match piece {
                Piece::Whole(made) => self.in_rows(made, time, rows)?,
                Piece::Some(_, range) => {
                    let own: Vec<Element> =
                        elements.chunks(width).flat_map(|row| &row[range.clone()]).copied().collect();
                    let source = self.gathered(&own, time)?;
                    self.rowed(source, time, rows)
                }
            });
        }
        Ok(Operand { sources, time, rows, width })
    }

    /// Elements of an output per row, if `count` rows cover it. An output without time cannot be a part of a sequence:
    /// every step would read the same.
    pub(super) fn row_len(&self, made: u32, time: Option<usize>, count: usize) -> Option<usize> {
        let of = &self.made[made as usize];
        let fits =
            of.len().is_multiple_of(count) && of.time.is_some() == time.is_some() || (count == 1 && of.len() > 0);
        fits.then(|| of.len() / count)
    }

    /// The pieces of the first row. Every other row must have the same structure.
    fn pieces(&self, elements: &[Element], time: Option<usize>, count: usize) -> Result<Vec<Piece>, Stop> {
        let width = elements.len() / count;
        let row_len = |made: u32| self.row_len(made, time, count);
        let unlike = || Stop::from("its values do not come from the same place in every step or row".to_owned());
        let mut pieces = Vec::new();
        // Pieces may be single elements.
        self.room(&[width], false)?;
        let mut at = 0;
        while at < width {
            let start = at;
            let mut from = None;
            while at < width {
                match elements[at] {
                    Element::Of(made, index) => {
                        let row = row_len(made).ok_or_else(unlike)?;
                        let whole = index == 0
                            && at + row <= width
                            && (0..row).all(|k| elements[at + k] == Element::Of(made, k as u32));
                        // A piece cannot consist of constants alone: leading constants share one with this output.
                        if whole && (from.is_some() || at == start) {
                            break;
                        }
                        if from.is_some_and(|from| from != made) {
                            break;
                        }
                        from = Some(made);
                    }
                    Element::Number(_) => {}
                    _ => return Err(unlike()),
                }
                at += 1;
            }
            if at == start {
                let Element::Of(made, _) = elements[at] else { return Err(unlike()) };
                at += row_len(made).ok_or_else(unlike)?;
                pieces.push(Piece::Whole(Made(made)));
            } else {
                let made = from.ok_or_else(|| Stop::from("it reads only constants".to_owned()))?;
                pieces.push(Piece::Some(Made(made), start..at));
            }
        }
        for (r, row) in elements.chunks(width).enumerate() {
            let alike = row.iter().zip(elements).all(|(own, first)| match (*own, *first) {
                (Element::Of(own, at), Element::Of(first, from)) => {
                    own == first && row_len(own).is_some_and(|row| at as usize == from as usize + r * row)
                }
                (own, first) => own == first,
            });
            err_if(!alike, unlike)?;
        }
        Ok(pieces)
    }

    /// The pieces, with the repetitions of a small output merged into one piece.
    fn joined(&self, pieces: Vec<Piece>, time: Option<usize>, count: usize) -> Vec<Piece> {
        let mut joined: Vec<Piece> = Vec::new();
        let (mut rest, mut at) = (pieces.as_slice(), 0);
        while let Some(piece) = rest.first() {
            let (times, len) = match *piece {
                Piece::Some(_, ref range) => (1, range.len()),
                Piece::Whole(made) => {
                    let same = |piece: &&Piece| matches!(piece, Piece::Whole(other) if *other == made);
                    (rest.iter().take_while(same).count(), self.row_len(made.0, time, count).unwrap_or(0))
                }
            };
            let (own, others) = rest.split_at(times);
            match *piece {
                Piece::Whole(made) if len <= MOST_REPEATED && times >= LEAST_TIMES => {
                    joined.push(Piece::Some(made, at..at + times * len));
                }
                _ => joined.extend(own.iter().cloned()),
            }
            at += times * len;
            rest = others;
        }
        joined
    }

    /// Replaces elements of a layer's output by those of its window, if other elements are rows of that window.
    fn in_windows(&self, elements: &mut [Element]) {
        if self.windows.is_empty() {
            return;
        }
        let read: HashSet<u32> = elements.iter().filter_map(|element| element.made()).collect();
        for (key, &(window, depth)) in &self.windows {
            let Some(&layer) = self.by_key.get(key) else { continue };
            if !read.contains(&window.0) || !read.contains(&layer) {
                continue;
            }
            let start = (depth * self.made[layer as usize].len()) as u32;
            for element in elements.iter_mut() {
                if let Element::Of(made, at) = *element
                    && made == layer
                {
                    *element = Element::Of(window.0, start + at);
                }
            }
        }
    }

    /// Whether the elements are complete layer outputs, so that nothing has to be selected.
    pub(super) fn is_whole(&self, elements: &[Element], time: Option<usize>, rows: usize) -> bool {
        let pieces = self.pieces(elements, time, time.unwrap_or(1) * rows);
        pieces.is_ok_and(|pieces| pieces.iter().all(|piece| matches!(piece, Piece::Whole(_))))
    }

    /// The output of a layer, split into `rows` rows.
    pub(super) fn in_rows(&mut self, made: Made, time: Option<usize>, rows: usize) -> Result<Source, Stop> {
        let of = self.made[made.0 as usize].clone();
        let source = self.source(made)?;
        let known = if self.setup.windowed { of.time.unwrap_or(1) } else { 1 };
        let wanted = if self.setup.windowed { time.unwrap_or(1) } else { 1 } * rows;
        if of.time.is_some() && time.is_none() {
            if !self.setup.windowed {
                return self.needs_window("an operator that reads several steps at once");
            }
            self.network.only_full_windows();
        }
        Ok(if known * of.rows == wanted { source } else { self.rowed(source, time, rows) })
    }

    /// A source with each step split into `rows` rows.
    pub(super) fn rowed(&self, source: Source, time: Option<usize>, rows: usize) -> Source {
        match if self.setup.windowed { time.unwrap_or(1) } else { 1 } * rows {
            1 => source.flat(),
            wanted => source.flat().in_rows(wanted),
        }
    }
}

/// Whether each output is read in a few pieces, so that they need not be joined.
fn are_few(pieces: &[Piece]) -> bool {
    let mut counts: HashMap<Made, (usize, bool)> = HashMap::new();
    for piece in pieces {
        let (made, is_part) = match *piece {
            Piece::Whole(made) => (made, false),
            Piece::Some(made, _) => (made, true),
        };
        let (count, has_part) = counts.entry(made).or_default();
        (*count, *has_part) = (*count + 1, *has_part || is_part);
    }
    counts.values().all(|&(count, has_part)| !has_part || count <= MOST_PARTS)
}
