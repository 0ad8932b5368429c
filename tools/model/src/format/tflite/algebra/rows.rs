//! Operators that split and join rows, and operators on the lists of a loop.

use super::{Algebra, Count, Item, Items, MOST_WHOLE};
use crate::format::refuse::fail_if;
use crate::format::tf1::{At, Id};
use crate::format::tflite::cut::cuts;
use crate::format::tflite::lower::Trouble;
use crate::format::tflite::options::FUSED;
use crate::format::tflite::schema::Operator;

impl Algebra<'_, '_> {
    /// The first elements and the sizes of the parts that a row is split into.
    pub(super) fn split(&mut self, operator: &Operator<'_>) -> Items {
        let (data, axis) = if operator.op == "SPLIT" { (1, 0) } else { (0, 2) };
        let (x, shape) = (self.real(operator, data)?, self.shape(operator, data)?);
        let axis = self.whole(operator, axis)?.first().copied().ok_or("its axis is missing")?;
        self.is_row_along(axis, &shape)?;
        let (width, count) = (self.arena.width(x), operator.outputs.len());
        let sizes = if operator.op == "SPLIT" {
            fail_if(!width.is_multiple_of(count.max(1)), format_args!("it splits {width} into {count}"))?;
            vec![width / count.max(1); count]
        } else {
            let sizes = self.whole(operator, 1)?;
            let given = sizes.iter().filter(|&&size| size > 0).fold(0_i64, |sum, &size| sum.saturating_add(size));
            let rest = (width as i64).saturating_sub(given);
            let open = sizes.iter().filter(|&&size| size == -1).count();
            fail_if(open > 1, "it leaves the size of several parts open")?;
            sizes.into_iter().map(|size| usize::try_from(if size == -1 { rest } else { size }).unwrap_or(0)).collect()
        };
        let mut first = 0_usize;
        let mut parts = Vec::new();
        for size in sizes {
            parts.push(match size {
                // Nothing can read a part without elements.
                0 => Item::Whole(Vec::new()),
                _ => Item::Real(self.arena.slice(x, first, size)?),
            });
            first = first.saturating_add(size);
        }
        fail_if(first != width, format_args!("it splits {width} elements into parts of {first}"))?;
        Ok(parts)
    }

    /// Refuses an axis other than the one that has the elements of a row.
    fn is_row_along(&self, axis: i64, shape: &[usize]) -> Result<(), Trouble> {
        let at = if axis < 0 { axis + shape.len() as i64 } else { axis };
        let fits = usize::try_from(at).is_ok_and(|at| shape.get(at) == Some(&shape.iter().product()));
        Ok(fail_if(!fits, format_args!("its axis is {axis} with an input of {shape:?}"))?)
    }

    /// The part of a row, given the first element and the number of elements in each dimension.
    fn part(&mut self, x: Id, shape: &[usize], cuts: impl Iterator<Item = (i64, i64)>) -> Result<Id, Trouble> {
        let mut part = (0, self.arena.width(x));
        for ((first, size), &dim) in cuts.zip(shape) {
            let whole = first == 0 && size == dim as i64;
            let fits = first >= 0 && size > 0 && dim == self.arena.width(x);
            fail_if(!whole && !fits, format_args!("it selects {size} from {first} on of a dimension of {dim}"))?;
            if !whole {
                part = (first as usize, size as usize);
            }
        }
        Ok(self.arena.slice(x, part.0, part.1)?)
    }

    pub(super) fn strided(&mut self, operator: &Operator<'_>) -> Result<Id, Trouble> {
        let (x, shape) = (self.real(operator, 0)?, self.shape(operator, 0)?);
        let lists = [self.whole(operator, 1)?, self.whole(operator, 2)?, self.whole(operator, 3)?];
        let cuts = cuts(operator, &shape, &lists)?;
        self.part(x, &shape, cuts.iter().map(|cut| (cut.first, cut.behind.saturating_sub(cut.first))))
    }

    /// A slice of a row, or of a list before or behind the current step.
    pub(super) fn slice(&mut self, operator: &Operator<'_>) -> Items {
        let shape = self.shape(operator, 0)?;
        let x = self.input(operator, 0)?;
        if let Item::Part { list, from: Count::Is(0), to: Count::Is(len) } = x {
            let (Item::Whole(begin), Item::Whole(size)) = (self.input(operator, 1)?, self.input(operator, 2)?) else {
                return Err("its begin or size is missing".into());
            };
            let others = |counts: &[Count], wanted| counts.iter().skip(1).all(|count| *count == Count::Is(wanted));
            let whole =
                begin.len() == shape.len() && size.len() == shape.len() && others(&begin, 0) && others(&size, -1);
            return match (begin.first(), size.first()) {
                (Some(Count::Is(0)), Some(&to @ Count::Turn(0))) if whole => {
                    Ok(vec![Item::Part { list, from: Count::Is(0), to }])
                }
                (Some(&from @ Count::Turn(1)), Some(Count::Is(-1))) if whole => {
                    Ok(vec![Item::Part { list, from, to: Count::Is(len) }])
                }
                _ => Err("it selects other rows of a list than those before or behind the current step".into()),
            };
        }
        let Item::Real(x) = x else { return Err("its input is not a row of numbers".into()) };
        let (begin, size) = (self.whole(operator, 1)?, self.whole(operator, 2)?);
        fail_if(begin.len() != shape.len() || size.len() != shape.len(), "its begin or size has another rank")?;
        let size = size.iter().zip(&begin).zip(&shape);
        let sizes: Vec<i64> = size
            .map(|((&size, &first), &dim)| if size == -1 { (dim as i64).saturating_sub(first) } else { size })
            .collect();
        Ok(vec![Item::Real(self.part(x, &shape, begin.into_iter().zip(sizes))?)])
    }

    /// Joins rows side by side or integers in order, or writes the row of the current step into a list.
    pub(super) fn concatenation(&mut self, operator: &Operator<'_>) -> Items {
        fail_if(operator.option(FUSED, 0_i8)? != 0, format_args!("attribute {FUSED} is not 0"))?;
        let axis = operator.option("axis", 0_i32)?;
        let parts =
            (0..operator.inputs.len()).map(|index| self.input(operator, index)).collect::<Result<Vec<_>, _>>()?;
        if let [Item::Part { list, from, to }, Item::Real(value), Item::Part { list: other, from: behind, to: end }] =
            parts[..]
        {
            let rows = self.shape(operator, 1)?;
            let fits = axis == 0 && list == other && rows.first() == Some(&1) && matches!(end, Count::Is(_));
            let around = (from, to, behind) == (Count::Is(0), Count::Turn(0), Count::Turn(1));
            fail_if(!fits || !around, "it does not write the row of the current step into a list")?;
            return Ok(vec![Item::Written { list, value }]);
        }
        let mut whole = Vec::new();
        let mut rows = Vec::new();
        for part in parts {
            match part {
                Item::Whole(counts) => whole.extend(counts),
                Item::Real(id) => rows.push(id),
                _ => return Err("it joins other rows of a list than those around the current step".into()),
            }
        }
        match (whole.len(), rows.len()) {
            (1..=MOST_WHOLE, 0) if axis == 0 => Ok(vec![Item::Whole(whole)]),
            (0, 1..) => {
                for index in 0..operator.inputs.len() {
                    self.is_row_along(axis.into(), &self.shape(operator, index)?)?;
                }
                Ok(vec![Item::Real(self.arena.concat(&rows)?)])
            }
            _ => Err(format!("it joins integers and numbers, or many integers, along axis {axis}").into()),
        }
    }

    /// The row of the current step in a sequence.
    pub(super) fn gather(&mut self, operator: &Operator<'_>) -> Result<Id, Trouble> {
        let (axis, batch) = (operator.option("axis", 0_i32)?, operator.option("batch_dims", 0_i32)?);
        match (self.input(operator, 0)?, self.input(operator, 1)?) {
            (Item::Sequence(x), Item::Whole(at)) if axis == 0 && batch == 0 && at == [Count::Turn(0)] => {
                Ok(self.arena.step(x, At::Turn(0))?)
            }
            _ => Err("it does not take the row of the current step out of a sequence".into()),
        }
    }
}
