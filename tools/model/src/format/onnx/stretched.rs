//! Attention whose operands are read row by row. The copies for each step and the sums over all steps then need no element
//! positions in the image.

use tidegate::internals::{activation::Activation, cell::CellKind};

use super::made::{Layered, Made, Operand};
use super::value::{Element, Value};
use super::{graph::Session, graph::Stop};
use crate::budget::WEIGHT;
use crate::canonical::Tensor;
use crate::error::ImportError;
use crate::format::axis::{Axis, Placed};
use crate::format::layer::Layer;

/// The most steps of a sum or a mean that is a pool. In integers a pool rounds the mean to the unit of its input, 2^-15 of the
/// input's range. A sum over more steps would lose more than 8-bit weights do.
const MOST_STEPS: usize = 256;

/// A value in rows, and a smaller one that meets it: see [`Session::merge_stretched`].
struct Stretched {
    /// The positions of the elements, row by row.
    places: Vec<usize>,
    rows: usize,
    /// The outputs whose rows, side by side, are the rows of the first value.
    parts: Vec<Made>,
    small: Made,
    /// Whether the smaller value meets every row; otherwise each of its elements meets one row.
    is_repeated: bool,
}

impl Session<'_> {
    /// Merges a value in rows with a smaller one, as [`merge`](Self::merge) does: either every row meets the whole smaller
    /// value (a query), or each row meets one element of it (a share).
    pub(super) fn merge_stretched(
        &mut self,
        how: &'static str,
        left: &[Element],
        right: &[Element],
    ) -> Result<Option<Vec<Element>>, Stop> {
        let is_ordered = ["divide", "subtract"].contains(&how);
        let found = self.stretched(left, right);
        let found = found.or_else(|| if is_ordered { None } else { self.stretched(right, left) });
        let Some(Stretched { places, rows, parts, small, is_repeated }) = found else { return Ok(None) };
        let width = places.len() / rows;
        let mut sources = Vec::new();
        for part in parts {
            sources.push(self.in_rows(part, None, rows)?);
        }
        sources.push(if is_repeated {
            let source = self.in_rows(small, None, 1)?;
            self.network.repeated(&source, rows)
        } else {
            let source = self.in_rows(small, None, rows)?;
            self.packed.take(width, WEIGHT).map_err(ImportError::from)?;
            let ones = Tensor { shape: vec![width, 1], data: vec![1.0; width] };
            self.network.add(Layer::dense(ones, None, Activation::Identity), &[&source])
        });
        let operand = Operand { sources, time: None, rows, width: 2 * width };
        let made = self.layered(Layered::plain(Layer::merge(how, 2, width)), &operand)?;
        let mut elements = vec![Element::Number(0.0); places.len()];
        for (at, &place) in places.iter().enumerate() {
            elements[place] = Element::Of(made.0, at as u32);
        }
        Ok(Some(elements))
    }

    fn stretched(&self, whole: &[Element], other: &[Element]) -> Option<Stretched> {
        let small = Made(other.first()?.made()?);
        let (len, few) = (other.len(), self.made[small.0 as usize].len());
        if few < 2 || few >= len || !len.is_multiple_of(few) {
            return None;
        }
        // The positions at which each element of the smaller value stands.
        let mut of_each: Vec<Vec<usize>> = vec![Vec::new(); few];
        for (place, element) in other.iter().enumerate() {
            match *element {
                Element::Of(made, at) if made == small.0 => of_each.get_mut(at as usize)?.push(place),
                _ => return None,
            }
        }
        let times = len / few;
        if of_each.iter().any(|places| places.len() != times) {
            return None;
        }
        let repeated = (0..times).flat_map(|row| of_each.iter().map(move |places| places[row])).collect();
        [(of_each.concat(), few, false), (repeated, times, true)].into_iter().find_map(|(places, rows, is_repeated)| {
            let arranged: Vec<Element> = places.iter().map(|&place| whole[place]).collect();
            let parts = self.parts(&arranged, rows)?;
            Some(Stretched { places, rows, parts, small, is_repeated })
        })
    }

    /// The outputs whose rows, side by side, are these rows. `None` if one occurs twice, as in an outer product.
    fn parts(&self, elements: &[Element], rows: usize) -> Option<Vec<Made>> {
        let width = elements.len() / rows;
        let (mut parts, mut start) = (Vec::new(), 0);
        while start < width {
            let made = elements[start].made()?;
            let len = self.made[made as usize].len();
            let own = len / rows;
            let is_row = |(row, all): (usize, &[Element])| {
                let all = all.get(start..start + own);
                all.is_some_and(|all| (0..own).all(|k| all[k] == Element::Of(made, (row * own + k) as u32)))
            };
            if own == 0
                || parts.contains(&Made(made))
                || !len.is_multiple_of(rows)
                || !elements.chunks(width).enumerate().all(is_row)
            {
                return None;
            }
            parts.push(Made(made));
            start += own;
        }
        Some(parts)
    }

    /// Pools the last dimension of `[channels, count]` to the sum, the mean or the maximum, if the elements are a whole output
    /// stored as `[count, channels]`. Returns the channels.
    pub(super) fn pooled(&mut self, op: &str, elements: &[Element], count: usize) -> Result<Option<Value>, Stop> {
        let Some(Element::Of(made, _)) = elements.first().copied() else { return Ok(None) };
        let channels = elements.len() / count;
        let is_at =
            |(k, element): (usize, &Element)| *element == Element::Of(made, (k % count * channels + k / count) as u32);
        let is_whole = self.made[made as usize].len() == elements.len() && elements.iter().enumerate().all(is_at);
        if channels < 2 || !is_whole || (op != "ReduceMax" && count > MOST_STEPS) {
            return Ok(None);
        }
        let source = self.in_rows(Made(made), None, 1)?;
        let operand = Operand { sources: vec![source], time: None, rows: 1, width: elements.len() };
        let how = if op == "ReduceMax" { "max" } else { "average" };
        let all = (
            Axis { length: count, kernel: count, stride: 1, dilation: 1 },
            Placed { before: 0, after: 0, positions: 1 },
        );
        let one = (Axis { length: 1, kernel: 1, stride: 1, dilation: 1 }, all.1);
        let mut layer = Layer::new(CellKind::Pool, elements.len(), channels).option(how);
        layer = layer.extent("in_channels", channels).over(&[all, one]);
        layer.output_size = channels;
        let pooled = self.layered(Layered::plain(layer), &operand)?.value(vec![channels]);
        Ok(Some(if op == "ReduceSum" { self.affine(&pooled, &|_| (count as f32, 0.0))? } else { pooled }))
    }
}
