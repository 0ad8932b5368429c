//! Operators that only move elements and add no layer.

use super::graph::{Session, Stop};
use super::value::{Data, MAX_RANK, Value, both, len};
use crate::format::refuse::fail_if;

type Inputs = [Option<Value>];

/// The dimension with this number, which may count from the end.
pub(super) fn axis(axis: i64, rank: usize) -> Result<usize, String> {
    let counted = if axis < 0 { axis + rank as i64 } else { axis };
    usize::try_from(counted).ok().filter(|&axis| axis < rank).ok_or_else(|| format!("axis {axis} of {rank} dimensions"))
}

pub(super) fn given(inputs: &Inputs, at: usize) -> Option<Value> {
    inputs.get(at).cloned().flatten()
}

pub(super) fn needed(inputs: &Inputs, at: usize) -> Result<Value, String> {
    given(inputs, at).ok_or_else(|| format!("input {at} is missing"))
}

fn ints_at(inputs: &Inputs, at: usize) -> Result<Option<Vec<i64>>, String> {
    given(inputs, at).map(|value| value.known_ints().map(<[i64]>::to_vec)).transpose()
}

impl Session<'_> {
    /// The outputs of a node that only moves elements; `None` for any other node.
    pub(super) fn moved(&mut self, op: &str, inputs: &Inputs) -> Result<Option<Vec<Value>>, Stop> {
        let one = |value: Value| Ok(Some(vec![value]));
        match op {
            "Identity" => {
                self.attributes("")?;
                one(needed(inputs, 0)?)
            }
            "Dropout" => {
                self.attributes("ratio seed")?;
                let training = ints_at(inputs, 2)?.is_some_and(|training| training.iter().any(|&on| on != 0));
                fail_if(training || self.wanted() > 1, "it drops values, as in training")?;
                one(needed(inputs, 0)?)
            }
            "Transpose" => {
                let x = needed(inputs, 0)?;
                let order = self.attributes("perm")?.ints("perm")?;
                let order = order.unwrap_or_else(|| (0..x.shape.len() as i64).rev().collect());
                let order: Result<Vec<usize>, String> = order.iter().map(|&k| axis(k, x.shape.len())).collect();
                one(x.transposed(&order?)?)
            }
            "Reshape" => one(self.reshape(inputs)?),
            "Flatten" => {
                let x = needed(inputs, 0)?;
                let rank = x.shape.len() as i64;
                let at = self.attributes("axis")?.int("axis", 1)?;
                let at = if at < 0 { at + rank } else { at };
                let at = usize::try_from(at).ok().filter(|&at| at <= rank as usize).ok_or("axis is out of range")?;
                let (rows, cols) = (x.shape[..at].iter().product(), x.shape[at..].iter().product());
                one(x.reshaped(vec![rows, cols])?)
            }
            "Squeeze" | "Unsqueeze" => {
                let x = needed(inputs, 0)?;
                let axes =
                    self.attributes("axes")?.ints("axes")?.map_or_else(|| ints_at(inputs, 1), |axes| Ok(Some(axes)))?;
                one(if op == "Squeeze" { self.squeeze(&x, axes)? } else { unsqueeze(&x, axes)? })
            }
            "Expand" => {
                let (x, to) = (needed(inputs, 0)?, needed(inputs, 1)?);
                self.attributes("")?;
                let to = sizes(to.known_ints()?)?;
                let shape = both(&x.shape, &to)?;
                self.room(&shape, x.is_constant())?;
                one(x.broadcast(&shape)?)
            }
            "Tile" => {
                self.attributes("")?;
                let (mut x, times) = (needed(inputs, 0)?, needed(inputs, 1)?);
                let times = sizes(times.known_ints()?)?;
                fail_if(times.len() != x.shape.len(), "it needs a number for every dimension")?;
                for (k, &times) in times.iter().enumerate().filter(|(_, times)| **times != 1) {
                    self.within_sequence(&x, k)?;
                    let dim = x.shape[k];
                    let mut shape = x.shape.clone();
                    shape[k] = dim.saturating_mul(times);
                    self.room(&shape, x.is_constant())?;
                    let places: Vec<Option<usize>> = (0..dim * times).map(|place| Some(place % dim)).collect();
                    x = x.picked(k, &places, 0.0)?;
                }
                one(x)
            }
            "Concat" => {
                let parts: Result<Vec<Value>, String> = (0..inputs.len()).map(|k| needed(inputs, k)).collect();
                let parts = parts?;
                let first = parts.first().ok_or("it joins nothing")?;
                let attributes = self.attributes("axis")?;
                fail_if(!attributes.has("axis"), "it has no axis")?;
                let at = axis(attributes.int("axis", 0)?, first.shape.len())?;
                if parts.len() == 1 {
                    return one(first.clone());
                }
                self.within_sequence(first, at)?;
                parts.iter().try_for_each(|part| self.same_roles(first, part))?;
                let others: usize =
                    first.shape.iter().enumerate().filter(|(k, _)| *k != at).map(|(_, dim)| dim).product();
                let joined = parts.iter().map(|part| part.shape.get(at).copied().unwrap_or(0));
                let known = parts.iter().all(Value::is_constant);
                self.room(&[joined.fold(0, usize::saturating_add), others], known)?;
                one(concat(&parts, at)?)
            }
            "Slice" => one(self.slice(inputs)?),
            "ReverseSequence" => {
                let (x, lens) = (needed(inputs, 0)?, needed(inputs, 1)?);
                let attributes = self.attributes("batch_axis time_axis")?;
                let at = axis(attributes.int("time_axis", 0)?, x.shape.len())?;
                let steps = x.shape[at];
                let all = lens.known_ints()?.iter().all(|&len| len == steps as i64);
                fail_if(!all, format_args!("its sequence_lens are not all {steps}, the number of steps"))?;
                self.within_sequence(&x, at)?;
                self.room(&x.shape, x.is_constant())?;
                one(x.picked(at, &(0..steps).rev().map(Some).collect::<Vec<_>>(), 0.0)?)
            }
            "Split" => Ok(Some(self.split(inputs)?)),
            "Gather" => {
                let (x, places) = (needed(inputs, 0)?, needed(inputs, 1)?);
                if !places.is_constant() {
                    return Ok(None);
                }
                let at = axis(self.attributes("axis")?.int("axis", 0)?, x.shape.len())?;
                let of = |&place: &i64| axis(place, x.shape[at]).map(Some);
                let picked: Result<Vec<Option<usize>>, String> = places.known_ints()?.iter().map(of).collect();
                let picked = picked.map_err(|_| "an index is out of range")?;
                self.within_sequence(&x, at)?;
                self.room(&[x.len() / x.shape[at].max(1), picked.len()], x.is_constant())?;
                let rows = x.picked(at, &picked, 0.0)?;
                let mut shape = rows.shape.clone();
                shape.splice(at..=at, places.shape.iter().copied());
                let mut axes = rows.axes.clone();
                axes.splice(at..=at, places.shape.iter().map(|_| None));
                one(rows.reshaped(shape)?.with_axes(axes))
            }
            "Pad" => one(self.pad(inputs)?),
            "ScatterND" => one(self.scatter(inputs)?),
            "Where" if given(inputs, 0).is_some_and(|on| on.is_constant()) => self.chosen(inputs),
            _ => Ok(None),
        }
    }

    /// A value with some of its rows replaced.
    fn scatter(&mut self, inputs: &Inputs) -> Result<Value, Stop> {
        let (x, places, new) = (needed(inputs, 0)?, needed(inputs, 1)?, needed(inputs, 2)?);
        let reduction = self.attributes("reduction")?.text("reduction", "none")?;
        fail_if(reduction != "none", format_args!("attribute reduction = {reduction:?}"))?;
        let depth = *places.shape.last().ok_or("its indices have no dimension")?;
        fail_if(depth == 0 || depth > x.shape.len(), format_args!("indices of {depth} dimensions"))?;
        let (rows, shape) = (&places.shape[..places.shape.len() - 1], &x.shape[depth..]);
        let fits = new.shape == [rows, shape].concat();
        fail_if(!fits, format_args!("its updates are {:?} at {:?} of {:?}", new.shape, places.shape, x.shape))?;
        self.room(&x.shape, false)?;
        for k in 0..depth {
            if x.shape[k] > 1 {
                self.within_sequence(&x, k)?;
            }
        }
        let (row, mut elements, new) = (shape.iter().product::<usize>(), x.elements(), new.elements());
        for (place, new) in places.known_ints()?.chunks(depth).zip(new.chunks(row.max(1))) {
            let mut at = 0;
            for (&place, &dim) in place.iter().zip(&x.shape) {
                at = at * dim + axis(place, dim).map_err(|_| "an index is out of range")?;
            }
            elements[at * row..(at + 1) * row].copy_from_slice(new);
        }
        Ok(Value::open(x.shape.clone(), elements).with_axes(x.axes.clone()))
    }

    /// The elements of two values that a constant selects; `None` if both are constants.
    fn chosen(&mut self, inputs: &Inputs) -> Result<Option<Vec<Value>>, Stop> {
        let (on, yes, no) = (needed(inputs, 0)?, needed(inputs, 1)?, needed(inputs, 2)?);
        if yes.is_constant() && no.is_constant() {
            return Ok(None);
        }
        self.attributes("")?;
        let shape = both(&both(&on.shape, &yes.shape)?, &no.shape)?;
        self.room(&shape, false)?;
        let (on, yes, no) = (on.broadcast(&shape)?, yes.broadcast(&shape)?, no.broadcast(&shape)?);
        let axes = yes.axes.iter().zip(&no.axes).map(|(yes, no)| yes.or(*no)).collect();
        let (of_yes, of_no) = (yes.elements(), no.elements());
        let all = on.known_ints()?.iter().zip(of_yes.iter().zip(&of_no));
        let elements = all.map(|(&on, (yes, no))| if on != 0 { *yes } else { *no }).collect();
        Ok(Some(vec![Value::open(shape, elements).with_axes(axes)]))
    }

    fn reshape(&mut self, inputs: &Inputs) -> Result<Value, Stop> {
        let (x, to) = (needed(inputs, 0)?, needed(inputs, 1)?);
        let zero_is_zero = self.attributes("allowzero")?.int("allowzero", 0)? != 0;
        let to = to.known_ints()?.to_vec();
        let mut open = None;
        let mut shape = Vec::new();
        for (k, &dim) in to.iter().enumerate() {
            shape.push(match dim {
                0 if !zero_is_zero => *x.shape.get(k).ok_or("it keeps a dimension that does not exist")?,
                -1 if open.replace(k).is_none() => 1,
                dim => usize::try_from(dim).map_err(|_| format!("a dimension of {dim}"))?,
            });
        }
        if let Some(k) = open {
            let others = len(&shape)?;
            fail_if(others == 0 || x.len() % others != 0, format_args!("{:?} does not fit {to:?}", x.shape))?;
            shape[k] = x.len() / others;
        }
        Ok(x.reshaped(shape)?)
    }

    fn squeeze(&self, x: &Value, axes: Option<Vec<i64>>) -> Result<Value, Stop> {
        let rank = x.shape.len();
        let gone: Vec<usize> = match axes {
            None => (0..rank).filter(|&k| x.shape[k] == 1).collect(),
            Some(axes) => axes.iter().map(|&k| axis(k, rank)).collect::<Result<_, _>>()?,
        };
        if let Some(&k) = gone.iter().find(|&&k| x.shape[k] != 1) {
            return Err(format!("dimension {k} is {}, not 1", x.shape[k]).into());
        }
        for &k in &gone {
            if x.axes[k].is_some_and(|of| self.setup.inputs[of.0].said[of.1].is_some_and(|said| said > 1)) {
                self.within_sequence(x, k)?;
            }
        }
        let kept: Vec<usize> = (0..rank).filter(|k| !gone.contains(k)).collect();
        let shape = kept.iter().map(|&k| x.shape[k]).collect();
        let axes = kept.iter().map(|&k| x.axes[k]).collect();
        Ok(x.reshaped(shape)?.with_axes(axes))
    }

    fn slice(&mut self, inputs: &Inputs) -> Result<Value, Stop> {
        let mut x = needed(inputs, 0)?;
        let rank = x.shape.len();
        self.room(&x.shape, x.is_constant())?;
        let attributes = self.attributes("starts ends axes")?;
        let (starts, ends, axes, steps) = if attributes.has("starts") {
            (attributes.ints("starts")?, attributes.ints("ends")?, attributes.ints("axes")?, None)
        } else {
            (ints_at(inputs, 1)?, ints_at(inputs, 2)?, ints_at(inputs, 3)?, ints_at(inputs, 4)?)
        };
        let (Some(starts), Some(ends)) = (starts, ends) else {
            return Err("it has no starts or no ends".into());
        };
        let axes = axes.unwrap_or_else(|| (0..starts.len() as i64).collect());
        let steps = steps.unwrap_or_else(|| vec![1; starts.len()]);
        let differ = [ends.len(), axes.len(), steps.len()].iter().any(|&len| len != starts.len());
        fail_if(
            differ || starts.len() > rank,
            "starts, ends, axes and steps are of different lengths, or repeat an axis",
        )?;
        for (((&start, &end), &on), &step) in starts.iter().zip(&ends).zip(&axes).zip(&steps) {
            let on = axis(on, rank)?;
            let dim = x.shape[on] as i64;
            fail_if(step == 0 || step == i64::MIN, format_args!("a step of {step}"))?;
            let within = |place: i64| if place < 0 { place.saturating_add(dim) } else { place };
            let places: Vec<Option<usize>> = if step > 0 {
                let (start, end) = (within(start).clamp(0, dim), within(end).clamp(0, dim));
                (start..end).step_by(step as usize).map(|place| Some(place as usize)).collect()
            } else {
                let (start, end) = (within(start).clamp(-1, dim - 1), within(end).clamp(-1, dim - 1));
                (end + 1..=start).rev().step_by(-step as usize).map(|place| Some(place as usize)).collect()
            };
            if places.len() as i64 != dim || step < 0 {
                self.within_sequence(&x, on)?;
                x = x.picked(on, &places, 0.0)?;
            }
        }
        Ok(x)
    }

    fn split(&mut self, inputs: &Inputs) -> Result<Vec<Value>, Stop> {
        let x = needed(inputs, 0)?;
        let attributes = self.attributes("axis split num_outputs")?;
        let at = axis(attributes.int("axis", 0)?, x.shape.len())?;
        let said = attributes.ints("split")?.map_or_else(|| ints_at(inputs, 1), |split| Ok(Some(split)))?;
        let sizes = match said {
            Some(split) => sizes(&split)?,
            None => {
                let parts = attributes.int("num_outputs", self.wanted() as i64)?;
                let parts = usize::try_from(parts).ok().filter(|&parts| parts > 0).ok_or("it has no outputs")?;
                fail_if(parts > self.listed(), format_args!("it has fewer than {parts} outputs"))?;
                let part = x.shape[at].div_ceil(parts);
                (0..parts).map(|k| part.min(x.shape[at].saturating_sub(k * part))).collect()
            }
        };
        fail_if(sizes.len() > self.listed(), format_args!("it has fewer than {} outputs", sizes.len()))?;
        let (dim, sum) = (x.shape[at], sizes.iter().try_fold(0_usize, |sum, &size| sum.checked_add(size)));
        fail_if(sum != Some(dim), format_args!("its parts {sizes:?} do not add up to {dim}"))?;
        self.within_sequence(&x, at)?;
        let mut from = 0;
        let mut parts = Vec::new();
        for size in sizes {
            let places: Vec<Option<usize>> = (from..from + size).map(Some).collect();
            parts.push(x.picked(at, &places, 0.0)?);
            from += size;
        }
        Ok(parts)
    }

    fn pad(&mut self, inputs: &Inputs) -> Result<Value, Stop> {
        let mut x = needed(inputs, 0)?;
        let rank = x.shape.len();
        let attributes = self.attributes("mode pads value")?;
        let mode = attributes.text("mode", "constant")?;
        let pads = match attributes.ints("pads")? {
            Some(pads) => pads,
            None => ints_at(inputs, 1)?.ok_or("it has no pads")?,
        };
        let fill = match given(inputs, 2) {
            None => attributes.float("value", 0.0)?,
            Some(value) => *value.known_floats()?.first().ok_or("its constant is empty")?,
        };
        let axes: Vec<usize> = match ints_at(inputs, 3)? {
            None => (0..rank).collect(),
            Some(axes) => axes.iter().map(|&k| axis(k, rank)).collect::<Result<_, _>>()?,
        };
        fail_if(axes.len() > rank, "its axes name a dimension twice")?;
        fail_if(pads.len() != 2 * axes.len(), format_args!("{} pads for {} dimensions", pads.len(), axes.len()))?;
        for (k, &on) in axes.iter().enumerate() {
            let (before, after) = (pads[k], pads[k + axes.len()]);
            if before == 0 && after == 0 {
                continue;
            }
            self.within_sequence(&x, on)?;
            let dim = x.shape[on] as i64;
            let most = super::value::MAX_ELEMENTS as i64;
            fail_if(before.abs() > most || after.abs() > most, format_args!("pads of {before} and {after}"))?;
            let padded = dim.saturating_add(before).saturating_add(after);
            self.room(&[x.len() / x.shape[on].max(1), usize::try_from(padded).unwrap_or(0)], x.is_constant())?;
            let place = |at: i64| match mode.as_str() {
                _ if (0..dim).contains(&at) => Ok(Some(at)),
                "constant" => Ok(None),
                "edge" if dim > 0 => Ok(Some(at.clamp(0, dim - 1))),
                "reflect" if at < 0 && -at < dim => Ok(Some(-at)),
                "reflect" if at >= dim && 2 * (dim - 1) - at >= 0 => Ok(Some(2 * (dim - 1) - at)),
                "wrap" if dim > 0 => Ok(Some(at.rem_euclid(dim))),
                mode => Err(format!("mode {mode:?} with pads of {before} and {after} around {dim}")),
            };
            let places: Result<Vec<Option<usize>>, String> =
                (-before..dim + after).map(|at| Ok(place(at)?.map(|at| at as usize))).collect();
            x = x.picked(on, &places?, fill)?;
        }
        Ok(x)
    }
}

fn sizes(dims: &[i64]) -> Result<Vec<usize>, String> {
    dims.iter().map(|&dim| usize::try_from(dim).map_err(|_| format!("a dimension of {dim}"))).collect()
}

fn unsqueeze(x: &Value, axes: Option<Vec<i64>>) -> Result<Value, String> {
    let axes = axes.ok_or("it has no axes")?;
    let rank = x.shape.len() + axes.len();
    fail_if(rank > MAX_RANK, format_args!("it has more than {MAX_RANK} dimensions"))?;
    let new: Vec<usize> = axes.iter().map(|&k| axis(k, rank)).collect::<Result<_, _>>()?;
    let (mut shape, mut kept) = (Vec::new(), Vec::new());
    let mut old = x.shape.iter().zip(&x.axes);
    for k in 0..rank {
        if new.contains(&k) {
            shape.push(1);
            kept.push(None);
        } else {
            let (&dim, &of) = old.next().ok_or("its axes name a dimension twice")?;
            shape.push(dim);
            kept.push(of);
        }
    }
    match old.next() {
        Some(_) => Err("its axes name a dimension twice".into()),
        None => Ok(x.reshaped(shape)?.with_axes(kept)),
    }
}

pub(super) fn concat(parts: &[Value], at: usize) -> Result<Value, String> {
    let first = &parts[0];
    let fits = |part: &Value| {
        part.shape.len() == first.shape.len()
            && part.shape.iter().zip(&first.shape).enumerate().all(|(k, (a, b))| k == at || a == b)
    };
    if let Some(other) = parts.iter().find(|part| !fits(part)) {
        return Err(format!("its parts are {:?} and {:?}", first.shape, other.shape));
    }
    let mut shape = first.shape.clone();
    shape[at] = parts.iter().map(|part| part.shape[at]).sum();
    len(&shape)?;
    let before: usize = shape[..at].iter().product();
    let mut axes: Vec<_> = (0..shape.len()).map(|k| parts.iter().find_map(|part| part.axes[k])).collect();
    axes[at] = None;
    let value = if parts.iter().all(|part| matches!(part.data, Data::Ints(_))) {
        let all: Vec<&[i64]> = parts.iter().map(Value::known_ints).collect::<Result<_, _>>()?;
        Value::ints(shape, joined(&all, before))
    } else if parts.iter().all(Value::is_constant) {
        let all: Vec<Vec<f32>> = parts.iter().map(Value::known_floats).collect::<Result<_, _>>()?;
        Value::floats(shape, joined(&all, before))
    } else {
        let all: Vec<Vec<_>> = parts.iter().map(Value::elements).collect();
        Value::open(shape, joined(&all, before))
    };
    let mut value = value.with_axes(axes);
    value.padded = parts.iter().any(|part| part.padded);
    Ok(value)
}

/// The rows of all parts, `count` in each, side by side.
fn joined<T: Copy, P: AsRef<[T]>>(parts: &[P], count: usize) -> Vec<T> {
    let row = |part: &[T], k: usize| k * (part.len() / count)..(k + 1) * (part.len() / count);
    let part = move |k: usize, part: &[T]| part[row(part, k)].to_vec();
    (0..count).flat_map(|k| parts.iter().flat_map(move |of| part(k, of.as_ref()))).collect()
}
