//! Operators that only move elements: the place that each element of a tensor comes from.

use std::collections::HashMap;
use std::rc::Rc;

use super::cells::Place;
use super::cut::Cut;
use super::lower::{Reader, Trouble};
use super::schema::{Operator, Type};
use crate::format::refuse::fail_if;

/// The places that the elements of tensors come from. A tensor without an entry has elements of its own.
pub type Places = HashMap<usize, Rc<Vec<Place>>>;

/// The places that the elements of a tensor come from; for a tensor without an entry, the elements themselves.
fn elements(places: &Places, tensor: usize, shape: &[usize]) -> Rc<Vec<Place>> {
    let own = || Rc::new((0..shape.iter().product::<usize>()).map(|at| (tensor as u32, at as u32)).collect());
    places.get(&tensor).cloned().unwrap_or_else(own)
}

impl Reader<'_> {
    /// The places of all tensors.
    pub fn places(&mut self) -> Result<Places, Trouble> {
        let mut places = Places::new();
        for operator in &self.model.main.operators {
            let moved = match self.moved(operator, &places) {
                // If an output needs this operator, the reader of the whole graph refuses it.
                Err(Trouble::Reason(_)) => Vec::new(),
                moved => moved?,
            };
            for (output, moved) in operator.outputs.iter().zip(moved) {
                let Some(output) = *output else { continue };
                // The file may state another shape.
                if self.shape_of(output)?.iter().product::<usize>() == moved.len() {
                    places.insert(output, Rc::new(moved));
                }
            }
        }
        Ok(places)
    }

    /// The elements of an operator's outputs; nothing if it computes.
    fn moved(&mut self, operator: &Operator<'_>, places: &Places) -> Result<Vec<Vec<Place>>, Trouble> {
        let data = usize::from(operator.op == "SPLIT");
        let Some(number) = self.port(operator, data).filter(|_| is_move(operator.op)) else { return Ok(Vec::new()) };
        operator.limit_is_none()?;
        let shape = self.shape_of(number)?;
        let size =
            operator.outputs.iter().flatten().map(|&output| Ok(self.shape_of(output)?.iter().product::<usize>()));
        let size = size.sum::<Result<usize, Trouble>>()?;
        self.take_numbers(size.saturating_add(shape.iter().product()), size_of::<Place>())?;
        let x = elements(places, number, &shape);
        let axis = |name: &str, rank: usize| -> Result<usize, Trouble> {
            let axis = operator.option(name, 0_i32)?;
            let at = if axis < 0 { i64::from(axis) + rank as i64 } else { axis.into() };
            Ok(usize::try_from(at).ok().filter(|&at| at < rank).ok_or_else(|| format!("attribute {name} is {axis}"))?)
        };
        Ok(match operator.op {
            "RESHAPE" | "SQUEEZE" | "EXPAND_DIMS" => {
                let to: usize = self.output_shape(operator)?.iter().product();
                fail_if(to != x.len(), format_args!("it makes {to} elements of {}", x.len()))?;
                vec![x.to_vec()]
            }
            "STRIDED_SLICE" => {
                let cuts = self.cuts(operator, &shape)?;
                let cut = |Cut { first, behind, .. }: &Cut| (*first, behind.saturating_sub(*first));
                vec![part(&x, &shape, cuts.iter().map(cut))?]
            }
            "UNPACK" => {
                let at = axis("axis", shape.len())?;
                fail_if(
                    operator.outputs.len() != shape[at],
                    format_args!("it unpacks {} of {}", operator.outputs.len(), shape[at]),
                )?;
                pieces(&x, &shape, at, &vec![1; shape[at]])?
            }
            "SPLIT" => {
                let at = self.integers(operator, 0, Type::I32)?.and_then(|(_, values, _)| values.first().copied());
                let at = at.map(|at| if at < 0 { at + shape.len() as i64 } else { at });
                let at = at.and_then(|at| usize::try_from(at).ok()).filter(|&at| at < shape.len());
                let (at, count) = (at.ok_or("its axis is missing")?, operator.outputs.len().max(1));
                pieces(&x, &shape, at, &vec![shape[at] / count; count])?
            }
            "PACK" | "CONCATENATION" => {
                let rank = shape.len() + usize::from(operator.op == "PACK");
                let at = axis("axis", rank)?;
                let mut parts = Vec::new();
                for index in 0..operator.inputs.len() {
                    let number = self.input_number(operator, index)?;
                    let of = self.shape_of(number)?;
                    let fits = of.len() == shape.len();
                    fail_if(!fits, format_args!("its inputs are {shape:?} and {of:?}"))?;
                    // The elements behind the axis.
                    let inner = of[at..].iter().product::<usize>().max(1);
                    self.take_numbers(of.iter().product(), size_of::<Place>())?;
                    parts.push((elements(places, number, &of), inner));
                }
                let outer = shape[..at.min(shape.len())].iter().product();
                let rows = |row: usize| {
                    parts.iter().flat_map(move |(part, inner)| part.iter().skip(row * inner).take(*inner)).copied()
                };
                vec![(0..outer).flat_map(rows).collect()]
            }
            _ => Vec::new(),
        })
    }
}

fn is_move(op: &str) -> bool {
    ["RESHAPE", "SQUEEZE", "EXPAND_DIMS", "STRIDED_SLICE", "UNPACK", "SPLIT", "PACK", "CONCATENATION"].contains(&op)
}

/// The parts of sizes `sizes` along a dimension.
fn pieces(x: &[Place], shape: &[usize], axis: usize, sizes: &[usize]) -> Result<Vec<Vec<Place>>, Trouble> {
    let mut first = 0;
    let mut parts = Vec::new();
    for &size in sizes {
        let cut = |(at, &dim): (usize, &usize)| if at == axis { (first, size as i64) } else { (0, dim as i64) };
        parts.push(part(x, shape, shape.iter().enumerate().map(cut))?);
        first += size as i64;
    }
    Ok(parts)
}

/// The elements of a part, given the first index and the size in each dimension.
fn part(x: &[Place], shape: &[usize], cuts: impl Iterator<Item = (i64, i64)>) -> Result<Vec<Place>, Trouble> {
    let mut taken = vec![0_usize];
    for ((first, size), &dim) in cuts.zip(shape) {
        let fits = first >= 0 && size > 0 && first.checked_add(size).is_some_and(|end| end <= dim as i64);
        fail_if(!fits, format_args!("it selects {size} from {first} on of a dimension of {dim}"))?;
        let range = first as usize..(first + size) as usize;
        taken = taken.into_iter().flat_map(|at| range.clone().map(move |index| at * dim + index)).collect();
    }
    Ok(taken.into_iter().filter_map(|at| x.get(at).copied()).collect())
}

#[cfg(test)]
mod tests {
    use super::{part, pieces};
    use crate::format::tflite::cells::Place;

    #[test]
    fn parts_have_the_elements_of_a_dimension() {
        let x: Vec<Place> = (0..12).map(|at| (7, at)).collect();
        let cuts = [(0, 1), (1, 1), (0, 3), (1, 1)];
        let taken = part(&x, &[1, 2, 3, 2], cuts.into_iter()).unwrap_or_default();
        assert_eq!(taken, [(7, 7), (7, 9), (7, 11)]);
        let halves = pieces(&x, &[2, 6], 1, &[3, 3]).unwrap_or_default();
        assert_eq!(halves[1], [(7, 3), (7, 4), (7, 5), (7, 9), (7, 10), (7, 11)]);
        assert!(part(&x, &[12], [(8, 5)].into_iter()).is_err());
    }
}
