//! Moves elements of layer outputs where no layer can read them in place: parts of rows become a slice, everything else
//! becomes a gather. Neither has weights.

use std::collections::HashMap;
use std::collections::hash_map::{DefaultHasher, Entry};
use std::hash::{Hash, Hasher};

use tidegate::internals::cell::CellKind;

use super::made::Made;
use super::value::Element;
use super::{graph::Session, graph::Stop};
use crate::budget::WEIGHT;
use crate::canonical::{MAX_SIZE, Tensor};
use crate::error::ImportError;
use crate::format::{layer::Layer, network::Source, refuse::err_if, refuse::fail_if};

/// The least number of elements in a row of several outputs that are joined row by row.
const LEAST_ROW: usize = 8;
/// The position that stands for zero.
const NOWHERE: usize = u16::MAX as usize;

/// The position of an element in a row, or a constant.
type Place = Result<usize, f32>;

/// Where the elements of a step come from: a selection of outputs, the same in each of `rows` rows.
struct Plan {
    rows: usize,
    /// The outputs, side by side in a row.
    made: Vec<Made>,
    /// Number of elements in a row of all outputs together.
    row: usize,
    /// For each element of a row of the result, its position in a row of the outputs.
    places: Vec<Place>,
}

impl Session<'_> {
    /// The source of these elements; the elements of a step form one row. Elements that were moved before are not moved again.
    pub(super) fn gathered(&mut self, elements: &[Element], time: Option<usize>) -> Result<Source, Stop> {
        let key = key(elements);
        let known = self.moved.get(&key).and_then(|all| all.iter().find(|(of, at, _)| of == elements && *at == time));
        if let Some((_, _, source)) = known {
            return Ok(source.clone());
        }
        self.room(&[elements.len()], false)?;
        let source = self.gather(elements, time)?;
        self.budget.take(elements.len(), size_of::<Element>()).map_err(ImportError::from)?;
        self.moved.entry(key).or_default().push((elements.to_vec(), time, source.clone()));
        Ok(source)
    }

    fn gather(&mut self, elements: &[Element], time: Option<usize>) -> Result<Source, Stop> {
        let plan = self.plan(elements, time)?;
        let mut parts = Vec::new();
        for &made in &plan.made {
            parts.push(self.in_rows(made, time, plan.rows)?);
        }
        let joined = self.network.concat(&parts);
        let x = self.rowed(joined, time, 1);
        let Plan { rows, row, places, .. } = plan;
        let part = places.len();
        let size = rows * part;
        let first = places.first().and_then(|place| place.ok()).unwrap_or(0);
        let is_slice = places.iter().enumerate().all(|(k, place)| *place == Ok(first + k));
        if is_slice && part == row {
            return Ok(x);
        }
        fail_if(size > MAX_SIZE, format_args!("it has more than {MAX_SIZE} features"))?;
        if is_slice {
            let layer = Layer::new(CellKind::Slice, x.size(), size).extent("rows", rows);
            return Ok(self.network.add(layer.extent("row", row).extent("first", first), &[&x]));
        }
        fail_if(row > NOWHERE, format_args!("it picks elements of {row}, more than {NOWHERE}"))?;
        self.packed.take(part, WEIGHT).map_err(ImportError::from)?;
        let index = places.iter().map(|place| place.unwrap_or(NOWHERE) as f32).collect();
        let layer = Layer::new(CellKind::Gather, x.size(), size).extent("rows", rows);
        let picked = self.network.add(layer.tensor("index", Tensor { shape: vec![part], data: index }), &[&x]);
        let constants: Vec<f32> = places.iter().map(|place| place.err().unwrap_or(0.0)).collect();
        if constants.iter().all(|&value| value == 0.0) {
            return Ok(picked);
        }
        self.packed.take(part, WEIGHT).map_err(ImportError::from)?;
        let layer = Layer::new(CellKind::Scale, size, size).extent("channels", part);
        Ok(self.network.add(layer.tensor("bias", Tensor { shape: vec![part], data: constants }), &[&picked]))
    }

    /// Derives the plan for these elements, with as many equal rows as possible. Every step must have the same structure.
    fn plan(&self, elements: &[Element], time: Option<usize>) -> Result<Plan, Stop> {
        let steps = time.unwrap_or(1);
        let unlike = || Stop::from("its values do not come from the same place in every step".to_owned());
        let step = elements.len() / steps;
        let (own, later) = elements.split_at(step);
        let mut made: Vec<(u32, usize)> = Vec::new();
        let mut index: HashMap<u32, usize> = HashMap::new();
        for of in own.iter().filter_map(|element| element.made()) {
            if let Entry::Vacant(entry) = index.entry(of) {
                entry.insert(made.len());
                made.push((of, self.row_len(of, time, steps).ok_or_else(unlike)?));
            }
        }
        fail_if(made.is_empty(), "it reads only constants")?;
        let len_of = |of: u32| index.get(&of).map(|&index| made[index].1);
        // Whether `far` lies `rows` rows after `near`, if each step of an output is divided into `of` rows.
        let follows = |near: Element, far: Element, rows: usize, of: usize| match (near, far) {
            (Element::Of(a, at), Element::Of(b, to)) => {
                a == b && len_of(a).is_some_and(|len| at as usize + rows * (len / of) == to as usize)
            }
            (Element::Number(a), Element::Number(b)) => a == b,
            _ => false,
        };
        for (t, later) in later.chunks(step).enumerate() {
            err_if(!own.iter().zip(later).all(|(&near, &far)| follows(near, far, t + 1, 1)), unlike)?;
        }
        let fits = |rows: usize| {
            let part = step / rows;
            let within = |element: &Element| match *element {
                Element::Of(of, at) => len_of(of).is_some_and(|len| (at as usize) < len / rows),
                _ => true,
            };
            own[..part].iter().all(within)
                && own
                    .chunks(part)
                    .enumerate()
                    .all(|(r, row)| row.iter().zip(own).all(|(&far, &near)| follows(near, far, r, rows)))
        };
        // The first element of the last row rules out most numbers of rows.
        let may_fit = |rows: usize| follows(own[0], own[step - step / rows], rows - 1, rows);
        let common = made.iter().fold(step, |common, (_, len)| gcd(common, *len));
        let least = if made.len() > 1 { LEAST_ROW } else { 1 };
        let mut best = 1;
        for rows in divisors(common).into_iter().filter(|rows| *rows > 1 && step / rows >= least && may_fit(*rows)) {
            self.work(step)?;
            if fits(rows) {
                best = rows;
                break;
            }
        }
        let mut starts = Vec::new();
        let mut row = 0;
        for (_, len) in &made {
            starts.push(row);
            row += len / best;
        }
        let place = |element: &Element| match *element {
            Element::Of(of, at) => Ok(index.get(&of).map_or(0, |&index| starts[index]) + at as usize),
            Element::Number(value) => Err(value),
            _ => Err(0.0),
        };
        let places = own[..step / best].iter().map(place).collect();
        Ok(Plan { rows: best, made: made.iter().map(|(of, _)| Made(*of)).collect(), row, places })
    }
}

/// The divisors of a number, the greatest first.
fn divisors(number: usize) -> Vec<usize> {
    let small = (1..).take_while(|of| of * of <= number).filter(|of| number.is_multiple_of(*of));
    let mut all: Vec<usize> = small.flat_map(|of| [of, number / of]).collect();
    all.sort_unstable_by(|a, b| b.cmp(a));
    all.dedup();
    all
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn key(elements: &[Element]) -> u64 {
    let mut hash = DefaultHasher::new();
    for element in elements {
        let (tag, of, at) = match *element {
            Element::Number(value) => (0, value.to_bits(), 0),
            Element::Input(of, at) => (1, of, at),
            Element::Of(of, at) => (2, of, at),
            Element::State(of, at) => (3, of, at),
        };
        (tag, of, at).hash(&mut hash);
    }
    hash.finish()
}
