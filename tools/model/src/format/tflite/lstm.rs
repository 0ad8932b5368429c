//! `UNIDIRECTIONAL_SEQUENCE_LSTM`. Its gate order input, forget, cell, output is the canonical one.

use tidegate::internals::gate::{Gate, LSTM};
use tidegate::internals::{activation::Activation, cell::CellKind};

use super::integers::{Counted, Multiplier};
use super::lower::{Along, Reader, Refused, Trouble, Value};
use super::options::FUSED;
use super::schema::{Operator, Type, activation};
use crate::canonical::Tensor;
use crate::error::ImportError;
use crate::format::{layer::Layer, network::Direction, refuse::fail_if};

const _: () = assert!(matches!(LSTM, [Gate::Input, Gate::Forget, Gate::Cell, Gate::Output]));

/// Numbers of the operator's inputs.
mod input {
    pub const X: usize = 0;
    /// First of four, one for each gate.
    pub const INPUT_WEIGHTS: usize = 1;
    /// First of four, one for each gate.
    pub const RECURRENT_WEIGHTS: usize = 5;
    /// First of three, for i, f and o.
    pub const PEEPHOLES: usize = 9;
    /// First of four, one for each gate.
    pub const BIASES: usize = 12;
    pub const PROJECTION_WEIGHTS: usize = 16;
    pub const PROJECTION_BIAS: usize = 17;
    pub const HIDDEN: usize = 18;
    pub const CELL: usize = 19;
    /// First of four, one for each gate.
    pub const GAINS: usize = 20;
}

const GATES: [&str; 4] = ["input", "forget", "cell", "output"];
/// Constant that TFLite adds to a variance: `kNormalizationConstant`.
const EPSILON: f32 = 1e-8;
/// Index of the intermediate tensor that holds the quantization of h before a projection.
const SHOWN: usize = 4;
/// Fractional bits of the preactivations of the gates.
const PREACT_BITS: i32 = 12;

impl Reader<'_> {
    pub(super) fn lstm(&mut self, operator: &Operator<'_>) -> Refused {
        let x = self.value_in_any_order(operator, input::X)?;
        let integers = x.reversed && x.counts.is_some();
        fail_if(integers, "it reads integers in reverse order, which is not supported")?;
        let time_major = operator.option("time_major", 0_u8)? != 0;
        let diagonal = operator.option("diagonal_recurrent_tensors", 0_u8)? != 0;
        fail_if(diagonal, "attribute diagonal_recurrent_tensors is set, which is not supported")?;
        let steps_at = usize::from(!time_major);
        let x = match (x.shape.len(), x.along) {
            (2, Along::Nothing) => x,
            (3, Along::Stream(axis) | Along::Rows(axis)) if axis == steps_at => x,
            (3, Along::Nothing) if x.shape[1 - steps_at] == 1 => match x.shape[steps_at] {
                1 => x,
                steps => Value { source: x.source.in_rows(steps), along: Along::Rows(steps_at), ..x },
            },
            _ => {
                let order = if time_major { "[steps, 1, features]" } else { "[1, steps, features]" };
                let reason = format!("with time_major {time_major} its input is to be {order}, but is {:?}", x.shape);
                return Err(reason.into());
            }
        };
        for (index, name) in [(input::HIDDEN, "output_state"), (input::CELL, "cell_state")] {
            let number = self.port(operator, index).ok_or_else(|| format!("its {name} is missing"))?;
            let tensor = &self.model.main.tensors[number];
            let set = !tensor.is_variable || self.model.data(tensor)?.is_some();
            fail_if(set, format_args!("its {name} is not a variable that starts at zero"))?;
        }
        let value = match x.counts {
            None => self.float_lstm(operator, &x)?,
            Some(_) => self.integer_lstm(operator, &x)?,
        };
        let mut shape = x.shape.clone();
        if let Some(last) = shape.last_mut() {
            *last = value.source.size();
        }
        self.has_shape(operator, &shape)?;
        Ok(Value { shape, along: x.along, ..value })
    }

    fn clip(operator: &Operator<'_>, name: &str) -> Result<f32, Trouble> {
        let clip = operator.option(name, 0.0_f32)?;
        if clip >= 0.0 && clip.is_finite() { Ok(clip) } else { Err(format!("attribute {name} is {clip}").into()) }
    }

    fn float_lstm(&mut self, operator: &Operator<'_>, x: &Value) -> Refused {
        let features = x.features();
        let weights = self.floats(operator, input::INPUT_WEIGHTS + 3)?;
        let (shape, _) = weights.ok_or("its input_to_output_weights are missing")?;
        let units = shape.first().copied().unwrap_or(0);
        let projection = self.floats(operator, input::PROJECTION_WEIGHTS)?;
        let size = projection.as_ref().map_or(units, |(shape, _)| shape.first().copied().unwrap_or(0));
        let coupled = self.port(operator, input::INPUT_WEIGHTS).is_none();
        let of_hidden = (input::RECURRENT_WEIGHTS, "recurrent", size);
        let input_weights = self.gates(operator, (input::INPUT_WEIGHTS, "input", features), Some(units), coupled)?;
        let recurrent_weights = self.gates(operator, of_hidden, Some(units), coupled)?;
        let bias = self.gates(operator, (input::BIASES, "gate_bias", units), None, coupled)?;
        let mut layer = Layer::new(CellKind::Lstm, features, units)
            .tensor("input_weights", input_weights)
            .tensor("recurrent_weights", recurrent_weights)
            .tensor("input_bias", bias);
        if coupled {
            layer = layer.option("coupled");
        }
        if self.port(operator, input::PEEPHOLES + 1).is_some() || self.port(operator, input::PEEPHOLES + 2).is_some() {
            layer = layer.option("peephole");
            for (index, name) in ["input_peephole", "forget_peephole", "output_peephole"].into_iter().enumerate() {
                let weights = match self.floats(operator, input::PEEPHOLES + index)? {
                    Some((shape, data)) if shape == [units] => Tensor { shape, data },
                    None if index == 0 && coupled => Tensor { shape: vec![units], data: vec![0.0; units] },
                    _ => return Err(format!("its {name} weights are missing, or not {units}").into()),
                };
                layer = layer.tensor(name, weights);
            }
        }
        if self.port(operator, input::GAINS + 1).is_some() {
            let gains = self.gates(operator, (input::GAINS, "layer_norm_coefficients", units), None, coupled)?;
            layer = layer.option("gate_norm").param("epsilon", EPSILON).tensor("gate_gain", gains);
        }
        let cell_clip = Self::clip(operator, "cell_clip")?;
        if cell_clip > 0.0 {
            layer = layer.param("cell_clip", cell_clip);
        }
        let projection_clip = Self::clip(operator, "proj_clip")?;
        if let Some((shape, data)) = projection {
            let needed = [size, units];
            fail_if(shape != needed, format_args!("its projection_weights are {shape:?}, not {needed:?}"))?;
            let biased = self.port(operator, input::PROJECTION_BIAS).is_some();
            fail_if(biased, "it has a projection_bias, which is not supported")?;
            layer = layer.option("projection").tensor("projection_weights", Tensor { shape, data });
            layer.output_size = size;
            if projection_clip > 0.0 {
                layer = layer.param("projection_clip", projection_clip);
            }
        }
        let activation = operator.activation()?;
        // With this activation, the interpreter never writes the result: its memory keeps the old content.
        fail_if(activation == Activation::Identity, format_args!("attribute {FUSED} is NONE, which is not supported"))?;
        let layer = layer.activation("cell_activation", activation).activation("output_activation", activation);
        let direction = if x.reversed { Direction::Backward } else { Direction::Forward };
        let source = self.network.directed(layer, &[&x.source], direction);
        Ok(Value { source, counts: None, ..x.clone() })
    }

    /// The stacked blocks of four gates; without `rows`, each block is a vector. If `coupled`, the block of the input
    /// gate is zero.
    fn gates(
        &mut self,
        operator: &Operator<'_>,
        (first, name, size): (usize, &str, usize),
        rows: Option<usize>,
        coupled: bool,
    ) -> Result<Tensor, Trouble> {
        let needed: Vec<usize> = rows.into_iter().chain([size]).collect();
        let elements = needed.iter().try_fold(1_usize, |all, &dim| all.checked_mul(dim));
        let mut data = Vec::new();
        for (index, gate) in GATES.iter().enumerate() {
            let block = match self.floats(operator, first + index)? {
                Some((shape, block)) if shape == needed && !(coupled && index == 0) => block,
                Some((shape, _)) => return Err(format!("its {gate} {name} are {shape:?}, not {needed:?}").into()),
                // The length is that of the other gates, which are read next.
                None if coupled && index == 0 => {
                    let elements = elements.unwrap_or(usize::MAX);
                    self.budget.take(elements, size_of::<f32>()).map_err(ImportError::from)?;
                    vec![0.0; elements]
                }
                None => return Err(format!("its {gate} {name} are missing").into()),
            };
            data.extend(block);
        }
        Ok(Tensor { shape: rows.map_or(vec![4 * size], |rows| vec![4 * rows, size]), data })
    }

    fn integer_lstm(&mut self, operator: &Operator<'_>, x: &Value) -> Refused {
        let features = x.features();
        let (Some(input), Some(output)) = (x.counts, self.output_counts(operator)?) else {
            return Err("its input is of int8, but its output is not".into());
        };
        let others = [
            (input::INPUT_WEIGHTS, "no input_to_input_weights (a coupled input gate)", false),
            (input::PEEPHOLES + 1, "peephole weights", true),
            (input::PEEPHOLES + 2, "peephole weights", true),
            (input::PROJECTION_WEIGHTS, "projection_weights", true),
            (input::GAINS + 1, "layer_norm_coefficients", true),
        ];
        for (index, what, there) in others {
            let found = self.port(operator, index).is_some() == there;
            fail_if(found, format_args!("it has {what}, which integers do not support"))?;
        }
        // Unlike the float kernels, the integer kernels support no other activation.
        let code = operator.option(FUSED, 0_i8)?;
        let (other, wanted) = (activation(code) != Some(Activation::Tanh), "not TANH, which integers do not support");
        fail_if(other, format_args!("attribute {FUSED} is {code}, {wanted}"))?;
        let number = |index: usize| self.port(operator, index).ok_or_else(|| format!("its input {index} is missing"));
        let (hidden, cell) = (number(input::HIDDEN)?, number(input::CELL)?);
        let shown = operator.intermediates.get(SHOWN).copied().flatten().ok_or("it has no effective_hidden_scale")?;
        let missing = || "it has states without scales";
        let (hidden, shown) = (self.counts(hidden)?.ok_or_else(missing)?, self.counts(shown)?.ok_or_else(missing)?);
        let differ = hidden.zero_point != output.zero_point || shown.zero_point != output.zero_point;
        fail_if(differ, "the zero points of its output and of its output_state differ, which is not supported")?;
        let of = self.model.main.tensors[cell].of;
        fail_if(of != Type::I16, format_args!("its cell_state is of {}, not int16", of.name()))?;
        let cell = self.counts(cell)?.ok_or_else(missing)?;
        let cell_bits = -cell.scale.log2();
        let fits = cell_bits.fract() == 0.0 && (9.0..=15.0).contains(&cell_bits) && cell.zero_point == 0;
        fail_if(!fits, format_args!("its cell_state has scale {}, not 2^-15 to 2^-9", cell.scale))?;
        // As in C, the quotient is truncated; if it is 0, nothing is clipped.
        let cell_clip = Self::clip(operator, "cell_clip")? / cell.scale;
        let cell_clip = match cell_clip.min(32_767.0) as i32 {
            0 => 1 << 15,
            clip => clip,
        };
        let mut counted = Counted::of(output).number("cell_bits", cell_bits as i32).number("cell_clip", cell_clip);
        let too_far = || "a product of its scales is out of range".to_owned();
        // Computed in f32, the precision of the scales, as TFLite does.
        let preact = (-PREACT_BITS as f32).exp2();
        let mut layer = Layer::new(CellKind::Lstm, features, 0);
        let mut starts = Vec::new();
        let mut scales = [Vec::new(), Vec::new()];
        let mut blocks = [Vec::new(), Vec::new()];
        for (index, gate) in GATES.iter().enumerate() {
            let parts =
                [(input::INPUT_WEIGHTS, "input", input.scale), (input::RECURRENT_WEIGHTS, "recurrent", hidden.scale)];
            for (part, (first, name, of)) in parts.into_iter().enumerate() {
                let Some((shape, data, quantization)) = self.integers(operator, first + index, Type::I8)? else {
                    return Err(format!("its {name}_to_{gate}_weights are missing").into());
                };
                let scale = symmetric(quantization).ok_or_else(|| {
                    format!("its {name}_to_{gate}_weights have a zero point other than 0, or several scales")
                })?;
                if layer.hidden_size == 0 {
                    layer = Layer::new(CellKind::Lstm, features, shape.first().copied().unwrap_or(0));
                }
                let needed = [layer.hidden_size, if part == 0 { features } else { layer.hidden_size }];
                fail_if(shape != needed, format_args!("its {name}_to_{gate}_weights are {shape:?}, not {needed:?}"))?;
                let by = Multiplier::of(f64::from(scale * of / preact)).ok_or_else(too_far)?;
                counted = counted.requantized(&format!("{gate}_gate_{name}_"), by);
                blocks[part].extend(data.iter().map(|&weight| weight as f32 * scale));
                scales[part].push(scale);
            }
            let bias = self.integers(operator, input::BIASES + index, Type::I32)?;
            let (shape, bias, _) = bias.ok_or_else(|| format!("its {gate}_gate_bias is missing"))?;
            let needed = [layer.hidden_size];
            fail_if(shape != needed, format_args!("its {gate}_gate_bias is {shape:?}, not {needed:?}"))?;
            starts.extend(bias.iter().map(|&bias| bias as i32));
        }
        let units = layer.hidden_size;
        let [input_blocks, recurrent_blocks] = blocks;
        let [input_scales, recurrent_scales] = scales;
        let unit_of = |row: usize| input_scales[row / units] * input.scale;
        let bias = starts.iter().enumerate().map(|(row, &start)| start as f32 * unit_of(row)).collect();
        let clip = if cell_clip < 1 << 15 { cell_clip as f32 * cell.scale } else { 0.0 };
        layer = layer
            .tensor("input_weights", Tensor { shape: vec![4 * units, features], data: input_blocks })
            .tensor("recurrent_weights", Tensor { shape: vec![4 * units, units], data: recurrent_blocks })
            .tensor("input_bias", Tensor { shape: vec![4 * units], data: bias });
        if clip > 0.0 {
            layer = layer.param("cell_clip", clip);
        }
        // 2^-15 of the gate times 2^-15 of the activated c.
        let two_fractions = f64::from(-15_i32).exp2();
        let by = (two_fractions / f64::from(shown.scale) * two_fractions) as f32;
        let by = Multiplier::of(by.into()).ok_or_else(too_far)?;
        let counted = counted
            .requantized("", by)
            .limited(output, [-128, 127])
            .scaled("input_weights", input_scales)
            .scaled("recurrent_weights", recurrent_scales)
            .rows("bias", starts);
        let (source, counts) = self.counted(layer, &x.source, Some((output, counted)));
        Ok(Value { source, counts, ..x.clone() })
    }
}

/// The single scale of integers whose zero point is 0.
pub(super) fn symmetric(quantization: Option<super::schema::Quantization>) -> Option<f32> {
    match quantization {
        Some(of) if of.zero_points.iter().all(|&zero_point| zero_point == 0) => match *of.scales {
            [scale] => Some(scale),
            _ => None,
        },
        _ => None,
    }
}
