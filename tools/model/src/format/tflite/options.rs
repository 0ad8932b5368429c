//! The options of operators, by their names in TFLite's schema (`schema.fbs`).

use tidegate::internals::activation::Activation;

use super::flat::Scalar;
use super::lower::Trouble;
use super::schema::{Operator, activation};
use crate::error::Result;
use crate::format::refuse::fail_if;

/// The option for the activation that follows an operator.
pub const FUSED: &str = "fused_activation_function";

/// Operators that have options: the number of their type in the schema's `BuiltinOptions`, and their fields in the order
/// of the schema.
const OPTIONS: [(&str, u8, &[&str]); 11] = [
    ("ADD", 11, &[FUSED, "pot_scale_int16"]),
    (
        "CONV_2D",
        1,
        &["padding", "stride_w", "stride_h", FUSED, "dilation_w_factor", "dilation_h_factor", "quantized_bias_type"],
    ),
    (
        "DEPTHWISE_CONV_2D",
        2,
        &["padding", "stride_w", "stride_h", "depth_multiplier", FUSED, "dilation_w_factor", "dilation_h_factor"],
    ),
    (
        "FULLY_CONNECTED",
        8,
        &[FUSED, "weights_format", "keep_num_dims", "asymmetric_quantize_inputs", "quantized_bias_type"],
    ),
    ("MUL", 21, &[FUSED]),
    ("SUB", 28, &[FUSED, "pot_scale_int16"]),
    ("SOFTMAX", 9, &["beta"]),
    ("RESHAPE", 17, &["new_shape"]),
    ("SQUEEZE", 30, &["squeeze_dims"]),
    ("STRIDED_SLICE", 32, &["begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask", "offset"]),
    (
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        71,
        &[FUSED, "cell_clip", "proj_clip", "time_major", "asymmetric_quantize_inputs", "diagonal_recurrent_tensors"],
    ),
];
/// Values of `quantized_bias_type`: not given, and the type that the importer reads.
const BIAS_TYPES: [i8; 2] = [0, 2];

impl Operator<'_> {
    fn fields(&self) -> (u8, &'static [&'static str]) {
        let known = OPTIONS.iter().find(|(op, ..)| *op == self.op);
        known.map_or((0, &[]), |&(_, of, fields)| (of, fields))
    }

    /// Reads an option, or `default` if the file does not have it.
    pub fn option<T: Scalar>(&self, name: &str, default: T) -> Result<T> {
        let field = self.fields().1.iter().position(|field| *field == name);
        match (&self.options, field) {
            (Some(options), Some(field)) => options.scalar(field, default),
            _ => Ok(default),
        }
    }

    /// Refuses options that the importer does not know, and those that are not supported with any operator.
    pub fn check_options(&self) -> Result<(), Trouble> {
        fail_if(self.has_more_options, "it has options of a kind that is not known (builtin_options_2)")?;
        let Some(options) = &self.options else { return Ok(()) };
        let (of, fields) = self.fields();
        let found = options.fields()?;
        fail_if(found > fields.len(), format_args!("attribute number {} is not known", found.saturating_sub(1)))?;
        let other = found > 0 && self.options_type != of;
        fail_if(other, format_args!("its options are of type {}, not {of}", self.options_type))?;
        let bias = self.option("quantized_bias_type", 0_i8)?;
        fail_if(!BIAS_TYPES.contains(&bias), format_args!("attribute quantized_bias_type is {bias}, not int32"))?;
        Ok(())
    }

    /// The fused activation of an operator of floats.
    pub fn activation(&self) -> Result<Activation, Trouble> {
        let code = self.option(FUSED, 0_i8)?;
        Ok(activation(code).ok_or_else(|| format!("attribute {FUSED} is {code}"))?)
    }
}
