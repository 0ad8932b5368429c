//! Ranges that a training learns batch by batch, in place of a calibration.

use std::collections::HashMap;

use safetensors::tensor::{Dtype, SafeTensorError, SafeTensors, TensorView, serialize};
use tidegate::{Layout, Numeric};

use super::distribution::{Element, NUMBERS};
use super::ranges::RowScales;
use super::{Elements, QuantizeError, Quantized, RangeRules, Ranges, RangesError, Seen};
use crate::canonical::Canonical;

/// Factor by which a new batch reduces the weight of earlier batches.
const KEPT: f64 = 0.9;
/// If a batch exceeds a range, the new range exceeds the batch by this factor; if a batch fills less than half of a range, the
/// range shrinks by it. Other ranges stay: a new scale would move all weights to a grid that training has not adapted to.
const GROWTH: f32 = 1.125;
/// A row gets other scales if these make its expected squared error smaller by this factor. The choice among nearly equal
/// ones would change with every batch.
const BETTER: f64 = 1.1;
const RANGE: &str = "range of ";
const OCTAVES: &str = "octaves of ";
const ROWS: &str = "scales of ";
const NUMERIC: &str = "numeric";

/// The ranges of a model's values, as far as training has shown them, and the scales of its weights. Weights are rounded
/// to nearest. The scales stay the same until the next batch that is learnt from.
#[derive(Clone, Debug, PartialEq)]
pub struct Learnt {
    numeric: Numeric,
    ranges: Ranges,
}

/// Why bytes are not learnt ranges.
#[derive(Debug, thiserror::Error)]
#[error("the learnt ranges are damaged: {0}; train again, or load another state")]
pub struct Damaged(String);

/// Why a batch cannot be learnt from.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the error texts explain the variants")]
pub enum LearnError {
    #[error(transparent)]
    Ranges(#[from] RangesError),
    #[error(transparent)]
    Quantize(#[from] QuantizeError),
}

impl Learnt {
    /// Ranges before any batch, for `i8x16` or `i4x16`.
    pub fn new(numeric: Numeric) -> Self {
        Self { numeric, ranges: Ranges::default().nearest() }
    }

    /// The numeric that the ranges are for.
    pub fn numeric(&self) -> Numeric {
        self.numeric
    }

    /// Adds the values of a model, which runs in `f32` over a batch, and chooses the scales of its weights.
    ///
    /// # Errors
    /// Those of [`Seen::measure`], or if a node has no integer form.
    pub fn learn<'s>(
        &mut self,
        model: &Canonical,
        sequences: impl IntoIterator<Item = &'s [&'s [f32]]>,
    ) -> Result<(), LearnError> {
        let newer = Seen::measure_values(model, sequences)?.ranges(&RangeRules::default(), model).nearest();
        if self.is_empty() {
            self.ranges = newer;
        } else {
            self.blend(&newer);
        }
        let present = Quantized::new(model, self.numeric, &self.ranges, Layout::Portable)?;
        let mut free = self.ranges.clone();
        free.set_row_scales([]);
        let chosen = Quantized::new(model, self.numeric, &free, Layout::Portable)?;
        let pairs = present.row_scales().zip(chosen.row_scales());
        let scales: Vec<_> = pairs.map(|(present, chosen)| (present.0.to_owned(), better(present, chosen))).collect();
        self.ranges.set_row_scales(scales);
        Ok(())
    }

    fn blend(&mut self, newer: &Ranges) {
        for name in newer.names() {
            self.ranges.set(name, followed(self.ranges.of(name), newer.of(name)));
        }
        for (name, now) in newer.all_elements() {
            let Elements { distributions, peaks } = self.ranges.elements_mut(name);
            distributions.resize_with(now.distributions.len(), Element::default);
            peaks.resize(now.peaks.len(), 0.0);
            for (before, now) in distributions.iter_mut().zip(&now.distributions) {
                before.shrink(KEPT);
                before.add(now);
            }
            peaks.iter_mut().zip(&now.peaks).for_each(|(before, now)| *before = followed(*before, *now));
        }
    }

    /// Whether no batch was seen.
    pub fn is_empty(&self) -> bool {
        self.ranges.names().next().is_none()
    }

    /// The ranges for the packer.
    pub fn ranges(&self) -> &Ranges {
        &self.ranges
    }

    /// The bytes of a safetensors file: for each value its range and the peaks of its elements, and their distributions; for
    /// each tensor of rows the index of the finer part, and the scale and the shift of each row.
    pub fn to_bytes(&self) -> Vec<u8> {
        // `serialize` sorts them.
        let mut tensors: Vec<(String, Dtype, Vec<usize>, Vec<u8>)> = Vec::new();
        for name in self.ranges.names() {
            let elements = self.ranges.elements(name);
            let peaks = elements.map_or(&[][..], |elements| &elements.peaks);
            let range: Vec<u8> =
                [self.ranges.of(name)].iter().chain(peaks).flat_map(|value| value.to_le_bytes()).collect();
            tensors.push((format!("{RANGE}{name}"), Dtype::F32, vec![range.len() / 4], range));
            let octaves = elements.into_iter().flat_map(|elements| &elements.distributions);
            let octaves: Vec<u8> = octaves.flat_map(Element::numbers).flat_map(f64::to_le_bytes).collect();
            tensors.push((format!("{OCTAVES}{name}"), Dtype::F64, vec![octaves.len() / 8], octaves));
        }
        for (name, RowScales { first, scales }) in self.ranges.all_row_scales() {
            let numbers = [*first as f64].into_iter().chain(scales.as_flattened().iter().copied());
            let bytes: Vec<u8> = numbers.flat_map(f64::to_le_bytes).collect();
            tensors.push((format!("{ROWS}{name}"), Dtype::F64, vec![bytes.len() / 8], bytes));
        }
        let views = tensors.iter().map(|(name, dtype, shape, bytes)| {
            (name, TensorView::new(*dtype, shape.clone(), bytes).expect("the shape is that of the bytes"))
        });
        let numeric = HashMap::from([(NUMERIC.to_owned(), self.numeric.name().to_owned())]);
        serialize(views, Some(numeric)).expect("the tensors have names of their own")
    }

    /// Reads what [`to_bytes`](Self::to_bytes) has written for the same numeric.
    ///
    /// # Errors
    /// If [`to_bytes`](Self::to_bytes) has not written the bytes.
    pub fn from_bytes(numeric: Numeric, bytes: &[u8]) -> Result<Self, Damaged> {
        let damaged = |error: SafeTensorError| Damaged(error.to_string());
        let file = SafeTensors::deserialize(bytes).map_err(damaged)?;
        let (_, header) = SafeTensors::read_metadata(bytes).map_err(damaged)?;
        let found = header.metadata().as_ref().and_then(|metadata| metadata.get(NUMERIC));
        if found.is_none_or(|found| found != numeric.name()) {
            let found = found.map_or("nothing", String::as_str);
            return Err(Damaged(format!("they are for {found}, not for {}", numeric.name())));
        }
        let (mut ranges, mut all, mut rows) = (Vec::new(), Vec::new(), Vec::new());
        for (key, view) in file.iter() {
            if let Some(name) = key.strip_prefix(RANGE) {
                let octaves = file.tensor(&format!("{OCTAVES}{name}")).map_err(damaged)?;
                let (range, elements) = elements(view.data(), octaves.data()).ok_or_else(|| refused(name))?;
                ranges.push((name.to_owned(), range));
                all.push((name.to_owned(), elements));
            } else if let Some(name) = key.strip_prefix(ROWS) {
                rows.push((name.to_owned(), row_scales(view.data()).ok_or_else(|| refused(name))?));
            }
        }
        let mut ranges = Ranges::new(ranges).with_elements(all).nearest();
        ranges.set_row_scales(rows);
        Ok(Self { numeric, ranges })
    }
}

/// The range after a batch whose range is `now`.
fn followed(before: f32, now: f32) -> f32 {
    if now > before {
        now * GROWTH
    } else if now < before / 2.0 {
        before / GROWTH
    } else {
        before
    }
}

/// The scales of a tensor's rows: the newly chosen ones where they are better, otherwise the present ones. The rows of a
/// tensor can mix both only if the finer part is the same.
fn better((_, present, now): (&str, &RowScales, &[f64]), (_, chosen, other): (&str, &RowScales, &[f64])) -> RowScales {
    let is_better = |now: f64, other: f64| now > BETTER * other;
    if present.first != chosen.first {
        return if is_better(now.iter().sum(), other.iter().sum()) { chosen } else { present }.clone();
    }
    let rows = present.scales.iter().zip(&chosen.scales).zip(now.iter().zip(other));
    let scales = rows.map(|((present, chosen), (now, other))| if is_better(*now, *other) { *chosen } else { *present });
    RowScales { first: present.first, scales: scales.collect() }
}

fn refused(name: &str) -> Damaged {
    Damaged(format!("the numbers of {name:?} are not those of a value"))
}

/// The range of a value and its elements.
fn elements(range: &[u8], octaves: &[u8]) -> Option<(f32, Elements)> {
    let numbers: Vec<f32> = range.as_chunks::<4>().0.iter().map(|number| f32::from_le_bytes(*number)).collect();
    let octaves = doubles(octaves);
    let (&range, peaks) = numbers.split_first().filter(|_| numbers.iter().all(|number| *number >= 0.0))?;
    let distributions: Vec<Element> = octaves.chunks(NUMBERS).filter_map(Element::of_numbers).collect();
    let is_whole = distributions.len() == peaks.len() && octaves.len() == peaks.len() * NUMBERS;
    is_whole.then(|| (range, Elements { distributions, peaks: peaks.to_vec() }))
}

fn row_scales(bytes: &[u8]) -> Option<RowScales> {
    let numbers = doubles(bytes);
    let (&first, scales) = numbers.split_first()?;
    let (scales, []) = scales.as_chunks::<2>() else { return None };
    let is_scale = |&[unit, shift]: &[f64; 2]| {
        unit.is_finite() && unit > 0.0 && (0.0..=31.0).contains(&shift) && shift.fract() == 0.0
    };
    let is_whole = (first == 0.0 || first == 1.0) && scales.iter().all(is_scale);
    is_whole.then(|| RowScales { first: first as usize, scales: scales.to_vec() })
}

fn doubles(bytes: &[u8]) -> Vec<f64> {
    bytes.as_chunks::<8>().0.iter().map(|number| f64::from_le_bytes(*number)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canonical::Tensor;
    use crate::pack::{pack_kept, pack_with};

    /// Numbers from -1 to 1.
    fn numbers(seed: u32, len: usize) -> Vec<f32> {
        let next = |state: &u32| Some(state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223));
        std::iter::successors(next(&seed), next)
            .take(len)
            .map(|state| (state >> 8) as f32 / 8_388_608.0 - 1.0)
            .collect()
    }

    /// A GRU of 40 units over 3 features, and a dense layer.
    fn model(seed: u32) -> Canonical {
        let json = r#"{"version": 1, "source": "", "inputs": [{"name": "x", "size": 3}],
            "nodes": [{"name": "gru", "cell": "gru", "inputs": ["x"], "input_size": 3, "hidden_size": 40,
                "output_size": 40}, {"name": "dense", "cell": "dense", "inputs": ["gru"], "input_size": 40,
                "hidden_size": 2, "output_size": 2}],
            "outputs": [{"name": "y", "size": 2, "from": "dense"}]}"#;
        let tensor = |(name, shape): (&str, &[usize])| {
            let data = numbers(seed + name.len() as u32, shape.iter().product());
            (name.to_owned(), Tensor { shape: shape.to_vec(), data })
        };
        let tensors: [(&str, &[usize]); 5] = [
            ("gru.input_weights", &[120, 3]),
            ("gru.recurrent_weights", &[120, 40]),
            ("gru.input_bias", &[120]),
            ("dense.weights", &[2, 40]),
            ("dense.bias", &[2]),
        ];
        Canonical {
            architecture: serde_json::from_str(json).unwrap(),
            tensors: tensors.into_iter().map(tensor).collect(),
        }
    }

    fn learnt(numeric: Numeric, model: &Canonical, batches: u32) -> Learnt {
        let mut learnt = Learnt::new(numeric);
        assert!(learnt.is_empty());
        for seed in 0..batches {
            let rows: Vec<f32> = numbers(seed, 60).iter().map(|value| 5.0 * value).collect();
            learnt.learn(model, [[rows.as_slice()].as_slice()]).unwrap();
        }
        learnt
    }

    #[test]
    fn the_scales_of_the_same_weights_are_those_that_the_packer_chooses() {
        for numeric in [Numeric::I8x16, Numeric::I4x16] {
            let (model, other) = (model(7), model(8));
            let learnt = learnt(numeric, &model, 1);
            let mut free = learnt.ranges().clone();
            free.set_row_scales([]);
            let packed = |model, ranges| pack_with(model, numeric, ranges, Layout::Portable).unwrap();
            assert!(packed(&model, learnt.ranges()) == packed(&model, &free));
            // Other weights keep the scales.
            assert!(packed(&other, learnt.ranges()) != packed(&other, &free));
            let scales = |model| -> Vec<[f64; 2]> {
                let quantized = Quantized::new(model, numeric, learnt.ranges(), Layout::Portable).unwrap();
                quantized.row_scales().flat_map(|(_, of, _)| of.scales.clone()).collect()
            };
            // Only a row whose sum could wrap gets other scales.
            let kept = scales(&other).iter().zip(scales(&model)).filter(|(other, model)| *other == model).count();
            assert!(kept > 110, "{kept} of 122");
            let (image, kept) = pack_kept(&other, numeric, learnt.ranges()).unwrap();
            assert!(image == packed(&other, learnt.ranges()));
            assert_eq!(kept.weights["gru.recurrent_weights"].len(), 120 * 40);
        }
    }

    #[test]
    fn ranges_grow_at_once_and_shrink_slowly() {
        let model = model(7);
        let mut learnt = Learnt::new(Numeric::I8x16);
        let mut see = |most: f32| {
            learnt.learn(&model, [[[most; 30].as_slice()].as_slice()]).unwrap();
            learnt.ranges().elements("x").unwrap().peaks[0]
        };
        let peaks = [1.0, 0.6, 4.0, 4.4, 1.0].map(&mut see);
        assert_eq!(peaks, [1.0, 1.0, 4.0 * GROWTH, 4.0 * GROWTH, 4.0]);
    }

    #[test]
    fn scales_stay_until_others_are_better() {
        let (before, mut after) = (model(7), model(7));
        let mut learnt = Learnt::new(Numeric::I4x16);
        let rows = numbers(3, 60);
        let mut scales = |model: &Canonical| -> HashMap<String, RowScales> {
            learnt.learn(model, [[rows.as_slice()].as_slice()]).unwrap();
            learnt.ranges().all_row_scales().map(|(name, scales)| (name.to_owned(), scales.clone())).collect()
        };
        let first = scales(&before);
        let weights = &mut after.tensors.get_mut("gru.recurrent_weights").unwrap().data;
        weights.iter_mut().zip(numbers(9, 4800)).for_each(|(weight, move_by)| *weight += 0.002 * move_by);
        assert_eq!(scales(&after), first);
        let weights = &mut after.tensors.get_mut("gru.recurrent_weights").unwrap().data;
        weights.iter_mut().for_each(|weight| *weight *= 0.1);
        assert_ne!(scales(&after), first);
    }

    #[test]
    fn bytes_hold_everything() {
        let learnt = learnt(Numeric::I4x16, &model(7), 2);
        let bytes = learnt.to_bytes();
        assert_eq!(Learnt::from_bytes(Numeric::I4x16, &bytes).unwrap(), learnt);
        let error = Learnt::from_bytes(Numeric::I8x16, &bytes).unwrap_err().to_string();
        assert!(error.contains("they are for i4x16, not for i8x16"), "{error}");
        for end in (0..bytes.len()).step_by(97) {
            assert!(Learnt::from_bytes(Numeric::I4x16, &bytes[..end]).is_err(), "{end}");
        }
        // Every byte of the numbers of a value may be damaged; nothing panics.
        for at in (0..bytes.len()).step_by(61) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0xff;
            let _ = Learnt::from_bytes(Numeric::I4x16, &damaged);
        }
    }
}
