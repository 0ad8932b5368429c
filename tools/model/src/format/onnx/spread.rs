//! Elementwise operators that read one value with several constants, such as the reciprocal deviation of a layer
//! normalization times the gains: the value is copied first.

use tidegate::internals::cell::CellKind;

use super::elementwise::Affine;
use super::made::Layered;
use super::value::{Element, Value, inverse};
use super::{graph::Session, graph::Stop};
use crate::canonical::Tensor;
use crate::format::{layer::Layer, refuse::fail_if};

impl Session<'_> {
    /// `gain · x + shift`, with both given for each position in the value. Copies of a value stand beside each other.
    pub(super) fn spread(&mut self, x: &Value, of: &dyn Fn(usize) -> Affine) -> Result<Value, Stop> {
        let time = self.steps_axis(x);
        let all: Vec<usize> = time.into_iter().chain(self.others(x, time, &[])).collect();
        let moved = x.transposed(&all)?;
        self.room(&[2, moved.len()], false)?;
        let from = Value::ints(x.shape.clone(), (0..x.len() as i64).collect()).transposed(&all)?;
        let numbers: Vec<Affine> = from.known_ints()?.iter().map(|&at| of(at as usize)).collect();
        let elements = self.layer_elements(&moved)?;
        let count = elements.len() / time.map_or(1, |axis| x.shape[axis]);
        let differs = numbers.chunks(count).any(|step| *step != numbers[..count]);
        fail_if(differs, "its constant differs from step to step")?;
        let mut places: Vec<usize> = (0..count).collect();
        places.sort_by_key(|&place| match elements[place] {
            Element::Of(made, at) => (made, at),
            _ => (u32::MAX, place as u32),
        });
        let numbers: Vec<Affine> = places.iter().map(|&place| numbers[place]).collect();
        let copies = places.chunk_by(|&a, &b| elements[a] == elements[b]).map(<[usize]>::len).max().unwrap_or(1);
        let is_period = |period: &usize| numbers.iter().zip(numbers.iter().cycle().skip(*period)).all(|(a, b)| a == b);
        let period = Some(copies).filter(|copies| count.is_multiple_of(*copies)).filter(is_period).unwrap_or(count);
        let sorted = elements.chunks(count).flat_map(|step| places.iter().map(|&place| step[place])).collect();
        let operand = self.of_elements(sorted, time.map(|axis| x.shape[axis]), 1)?;
        let vector = |part: fn(&Affine) -> f32| {
            let data = numbers[..period].iter().map(part).collect();
            Tensor { shape: vec![period], data }
        };
        let layer = Layer::new(CellKind::Scale, count, count).extent("channels", period).option("gain");
        let layer = layer.tensor("gain", vector(|of| of.0)).tensor("bias", vector(|of| of.1));
        let made = self.layered(Layered::plain(layer), &operand)?;
        let mut elements = elements;
        for step in 0..elements.len() / count {
            for (at, &place) in places.iter().enumerate() {
                elements[step * count + place] = Element::Of(made.0, (step * count + at) as u32);
            }
        }
        Ok(Value::open(moved.shape, elements).with_axes(moved.axes).transposed(&inverse(&all))?)
    }
}
