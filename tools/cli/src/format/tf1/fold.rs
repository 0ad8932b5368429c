//! Integer expressions that TensorFlow 1 leaves in frozen graphs: shapes, permutations, loop bounds.

use super::graph::Value;
use super::matcher::Matcher;
use crate::error::ImportError;

/// Longest vector that is made: one entry for each time step.
const MAX_LEN: usize = 65_535;
/// Deepest expression that is evaluated; a permutation takes three.
const MAX_DEPTH: usize = 8;

/// A scalar or a vector.
#[derive(Clone, Debug, PartialEq)]
pub struct Ints {
    is_scalar: bool,
    pub data: Vec<i64>,
}

impl Matcher<'_> {
    /// The integer behind a value.
    pub fn scalar(&mut self, value: Value) -> Result<i64, ImportError> {
        match self.fold(value, 0)? {
            Ints { is_scalar: true, data } => Ok(data[0]),
            Ints { data, .. } => self.fail(value, format!("it is a vector of {}, but must be a scalar", data.len())),
        }
    }

    /// The vector of integers behind a value.
    pub fn vector(&mut self, value: Value) -> Result<Vec<i64>, ImportError> {
        match self.fold(value, 0)? {
            Ints { is_scalar: false, data } => Ok(data),
            _ => self.fail(value, "it is a scalar, but must be a vector"),
        }
    }

    fn fold(&mut self, value: Value, depth: usize) -> Result<Ints, ImportError> {
        let (value, op) = self.op(value)?;
        if depth == MAX_DEPTH || self.folds_left == 0 {
            return self.fail(value, "its integer expression is too long");
        }
        self.folds_left -= 1;
        let scalar = |this: &mut Self, value| match this.fold(value, depth + 1)? {
            Ints { is_scalar: true, data } => Ok(data[0]),
            Ints { .. } => this.fail(value, "it must be a scalar"),
        };
        match op {
            "Const" => {
                let (value, proto) = self.proto(value)?;
                let len = proto.dims().map(|dims| dims.iter().product::<usize>());
                if len.is_ok_and(|len| len > MAX_LEN) {
                    return self.fail(value, format!("it has more than {MAX_LEN} values"));
                }
                let (dims, data) = proto.ints().or_else(|reason| self.fail(value, reason))?;
                if dims.len() > 1 {
                    return self.fail(value, "it must be a scalar or a vector");
                }
                Ok(Ints { is_scalar: dims.is_empty(), data: data.into_iter().map(i64::from).collect() })
            }
            "Range" => {
                let [start, limit, delta] = self.expect(value, op)?;
                let (start, limit) = (scalar(self, start)?, scalar(self, limit)?);
                if scalar(self, delta)? != 1 || limit - start > MAX_LEN as i64 {
                    return self.fail(value, format!("it must count up by 1 over at most {MAX_LEN}"));
                }
                Ok(Ints { is_scalar: false, data: (start..limit).collect() })
            }
            "ConcatV2" => {
                let [first, second, axis] = self.expect(value, op)?;
                if scalar(self, axis)? != 0 {
                    return self.fail(value, "its axis must be 0");
                }
                let (mut first, second) = (self.fold(first, depth + 1)?, self.fold(second, depth + 1)?);
                if first.is_scalar || second.is_scalar || first.data.len() + second.data.len() > MAX_LEN {
                    return self.fail(value, format!("it must join vectors of at most {MAX_LEN} together"));
                }
                first.data.extend(second.data);
                Ok(first)
            }
            "StridedSlice" => self.fold_element(value, depth),
            _ => self.fail(value, "its integer value is not known when the network is imported"),
        }
    }

    /// `vector[k]`, which is what a StridedSlice is used for here.
    fn fold_element(&mut self, value: Value, depth: usize) -> Result<Ints, ImportError> {
        let [vector, begin, end, stride] = self.expect(value, "StridedSlice")?;
        for (mask, needed) in
            [("begin_mask", 0), ("end_mask", 0), ("ellipsis_mask", 0), ("new_axis_mask", 0), ("shrink_axis_mask", 1)]
        {
            if self.int(value, mask)?.unwrap_or(0) != needed {
                return self.fail(value, format!("its {mask} must be {needed}"));
            }
        }
        let vector = self.fold(vector, depth + 1)?;
        let mut bound = |value| Ok::<_, ImportError>(self.fold(value, depth + 1)?.data);
        let (begin, end, stride) = (bound(begin)?, bound(end)?, bound(stride)?);
        match (&*begin, &*end, &*stride) {
            (&[begin], &[end], &[1]) if begin.checked_add(1) == Some(end) => {
                let element = usize::try_from(begin).ok().and_then(|index| vector.data.get(index));
                match element {
                    Some(&element) if !vector.is_scalar => Ok(Ints { is_scalar: true, data: vec![element] }),
                    _ => self.fail(value, format!("it takes element {begin} of {}", vector.data.len())),
                }
            }
            _ => self.fail(value, "it must take one element of a vector"),
        }
    }
}
