//! `AVERAGE_POOL_2D`, `MAX_POOL_2D`, and `MEAN` and `REDUCE_MAX` over all rows and columns.

use tidegate::internals::cell::CellKind;

use super::conv::SAME;
use super::integers::{Counted, Counts, LIMITS, Multiplier};
use super::lower::{Along, Reader, Refused, Trouble, Value};
use super::schema::{Operator, Type};
use crate::format::{axis::Axis, layer::Layer, refuse::fail_if};

/// The greatest power of two of a mean's count that TFLite takes out of its division.
const MOST_SHIFT: i32 = 32;

/// A pool's image axes: length, kernel and stride of the rows, and those of the columns.
type Axes = [[usize; 3]; 2];

impl Reader<'_> {
    pub(super) fn pool(&mut self, operator: &Operator<'_>) -> Refused {
        let x = self.image(operator)?;
        let &[1, height, width, channels] = x.shape.as_slice() else {
            return Err(format!("its input is {:?}, not [1, height, width, channels]", x.shape).into());
        };
        let number = |name: &str| -> Result<usize, Trouble> {
            let value = operator.option(name, 0_i32)?;
            let size = usize::try_from(value).ok().filter(|&size| size > 0);
            Ok(size.ok_or_else(|| format!("attribute {name} is {value}"))?)
        };
        let padding = operator.option("padding", SAME)?;
        fail_if(!(0..=1).contains(&padding), format_args!("attribute padding is {padding}"))?;
        let rows = [height, number("filter_height")?, number("stride_h")?];
        let cols = [width, number("filter_width")?, number("stride_w")?];
        let how = if operator.op == "MAX_POOL_2D" { "max" } else { "average" };
        self.same_counts(operator, &x)?;
        let counted = x.counts.map(|counts| (counts, of_pool(counts, counts.zero_point, Multiplier::NONE)));
        let value = self.pooled(x, [rows, cols], channels, (how, padding == SAME), counted)?;
        self.has_shape(operator, &value.shape)?;
        self.activated(operator, value)
    }

    /// The mean or the maximum over all dimensions but the first and the last.
    pub(super) fn reduction(&mut self, operator: &Operator<'_>) -> Refused {
        let x = self.image(operator)?;
        let axes = self.integers(operator, 1, Type::I32)?.map(|(_, axes, _)| axes).unwrap_or_default();
        let rank = x.shape.len() as i64;
        let mut over: Vec<i64> =
            axes.iter().map(|&axis| if axis < 0 { axis.saturating_add(rank) } else { axis }).collect();
        over.sort_unstable();
        let channels_first = rank > 2 && over.iter().copied().eq(2..rank) && x.shape[1] > 1;
        let x = if channels_first {
            let order: Vec<usize> = [0].into_iter().chain(2..x.shape.len()).chain([1]).collect();
            over = (1..rank - 1).collect();
            self.reordered(x, &order)?
        } else {
            x
        };
        let (1 | 2, [1, inner @ .., channels]) = (over.len(), x.shape.as_slice()) else {
            return Err(format!("it goes over {axes:?} of {:?}, which is not supported", x.shape).into());
        };
        let all = over.iter().copied().eq(1..rank - 1);
        fail_if(!all, format_args!("it goes over {axes:?} of {:?}, not over all rows", x.shape))?;
        let (rows, channels) = (inner.iter().product::<usize>(), *channels);
        let shape = self.output_shape(operator)?;
        let kept =
            shape.iter().filter(|&&dim| dim != 1).product::<usize>() == channels && shape.last() == Some(&channels);
        fail_if(!kept, format_args!("its output is {shape:?}"))?;
        let how = if operator.op == "MEAN" { "average" } else { "max" };
        let counted = match (x.counts, self.output_counts(operator)?) {
            (None, None) => None,
            (Some(input), Some(output)) if how == "max" => {
                fail_if(input != output, "its input and its output differ in scale or zero point")?;
                Some((output, of_pool(output, output.zero_point, Multiplier::NONE)))
            }
            (Some(input), Some(output)) => {
                let by = of_mean(input, output, rows).ok_or("the quotient of its scales is out of range")?;
                Some((output, of_pool(output, 0, by)))
            }
            _ => return Err("only one of its input and its output is of int8".into()),
        };
        let value = self.pooled(x, [[rows, rows, 1], [1, 1, 1]], channels, (how, false), counted)?;
        Ok(Value { shape, ..value })
    }

    /// The input of an operator as a whole.
    fn image(&mut self, operator: &Operator<'_>) -> Refused {
        let x = self.value(operator, 0)?;
        Ok(self.flat(x))
    }

    /// Pools over axes with a length, a kernel and a stride.
    fn pooled(
        &mut self,
        x: Value,
        axes: Axes,
        channels: usize,
        (how, same): (&'static str, bool),
        counted: Option<(Counts, Counted)>,
    ) -> Refused {
        let placed = |[length, kernel, stride]: [usize; 3]| {
            let axis = Axis { length, kernel, stride, dilation: 1 };
            let placed = if same { axis.same() } else { axis.padded(0, 0) };
            placed.map(|placed| (axis, placed)).ok_or("its kernel is too large")
        };
        let (rows, cols) = (placed(axes[0])?, placed(axes[1])?);
        let positions = rows.1.positions.checked_mul(cols.1.positions);
        let size = positions.and_then(|positions| positions.checked_mul(channels)).ok_or("it is too large")?;
        let mut layer = Layer::new(CellKind::Pool, x.features(), channels).option(how).extent("in_channels", channels);
        layer = layer.over(&[rows, cols]);
        layer.output_size = size;
        let shape = vec![1, rows.1.positions, cols.1.positions, channels];
        let (source, counts) = self.counted(layer, &x.source, counted);
        Ok(Value { source, shape, along: Along::Nothing, counts, ..x })
    }
}

/// The integers of a pool. Without a factor, an average is a quotient of integers that include the zero point.
fn of_pool(output: Counts, zero_point: i32, by: Multiplier) -> Counted {
    Counted::of(output).number("zero_point", zero_point).requantized("", by).limited(output, LIMITS)
}

/// The scale of a mean: the quotient of the scales by the count. TFLite divides the factor, not the sum. `None` if it is
/// out of range.
fn of_mean(input: Counts, output: Counts, count: usize) -> Option<Multiplier> {
    let Multiplier { factor, shift } = Multiplier::of(f64::from(input.scale) / f64::from(output.scale))?;
    let lift = i32::try_from(count.checked_ilog2()?).ok()?.min(MOST_SHIFT).min(31 + shift);
    let factor = (i64::from(factor) << u32::try_from(lift).ok()?) / i64::try_from(count).ok()?;
    let factor = i32::try_from(factor).ok().filter(|&factor| factor > 0)?;
    Some(Multiplier { factor, shift: shift - lift })
}
