//! The parts of dimensions that slices select.

use super::lower::Trouble;
use super::schema::Operator;
use crate::format::refuse::fail_if;

/// The part of a dimension that a slice selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    pub first: i64,
    pub behind: i64,
    /// Whether the output lacks the dimension.
    pub shrinks: bool,
}

/// The part of each dimension that a `STRIDED_SLICE` selects. `lists` are its begin, its end and its strides.
pub(super) fn cuts(operator: &Operator<'_>, dims: &[usize], lists: &[Vec<i64>]) -> Result<Vec<Cut>, Trouble> {
    let mask = |name: &str| operator.option(name, 0_i32);
    let set = [("ellipsis_mask", mask("ellipsis_mask")? != 0), ("new_axis_mask", mask("new_axis_mask")? != 0)];
    // With an offset, the ends count from the beginnings.
    let offset = ("offset", operator.option("offset", 0_u8)? != 0);
    for (name, is_set) in set.into_iter().chain([offset]) {
        fail_if(is_set, format_args!("attribute {name} is set, which is not supported"))?;
    }
    let (begins, ends, shrinks) = (mask("begin_mask")?, mask("end_mask")?, mask("shrink_axis_mask")?);
    for (index, list) in lists.iter().enumerate() {
        let misfit = list.len() != dims.len();
        fail_if(misfit, format_args!("its input {} has no number for each dimension of its input", index + 1))?;
    }
    let [begin, end, strides] = lists else { return Err("its begin, end or strides are missing".into()) };
    let cut = |(axis, &dim): (usize, &usize)| {
        let (bit, size) = (1 << axis, dim as i64);
        let from = |at: i64| if at < 0 { at.saturating_add(size) } else { at };
        let shrinks = shrinks & bit != 0;
        let first = if begins & bit != 0 && !shrinks { 0 } else { from(begin[axis]) };
        let behind = match () {
            () if shrinks => first.saturating_add(1),
            () if ends & bit != 0 => size,
            () => from(end[axis]).min(size),
        };
        let stride = strides[axis];
        fail_if(stride != 1, format_args!("its stride {axis} is {stride}, which is not supported"))?;
        Ok(Cut { first, behind, shrinks })
    };
    dims.iter().enumerate().map(cut).collect()
}

/// The part of each dimension that a `SLICE` selects. `lists` are its begin and its sizes, where -1 is all that follows.
pub(super) fn parts(dims: &[usize], lists: &[Vec<i64>]) -> Result<Vec<Cut>, Trouble> {
    let misfit = lists.iter().any(|list| list.len() != dims.len());
    fail_if(misfit, "its begin or its size has no number for each dimension of its input")?;
    let [begin, size] = lists else { return Err("its begin or its size is missing".into()) };
    let cut = |((&first, &size), &dim): ((&i64, &i64), &usize)| {
        let behind = if size == -1 { dim as i64 } else { first.saturating_add(size) };
        Cut { first, behind, shrinks: false }
    };
    Ok(begin.iter().zip(size).zip(dims).map(cut).collect())
}
