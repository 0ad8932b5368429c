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
const OPTIONS: [(&str, u8, &[&str]); 18] = [
    ("CONCATENATION", 10, &["axis", FUSED]),
    ("SPLIT", 35, &["num_splits"]),
    ("SPLIT_V", 79, &["num_splits"]),
    ("CALL_ONCE", 103, &["init_subgraph_index"]),
    ("VAR_HANDLE", 111, &["container", "shared_name"]),
    ("READ_VARIABLE", 112, &[]),
    ("ASSIGN_VARIABLE", 113, &[]),
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

    /// Reads an option that is a text; empty if the file does not have it.
    pub fn text_option(&self, name: &str) -> Result<String, Trouble> {
        /// Maximum number of bytes.
        const MOST: usize = 255;
        let field = self.fields().1.iter().position(|field| *field == name);
        let (Some(options), Some(field)) = (&self.options, field) else { return Ok(String::new()) };
        let bytes = options.bytes(field)?;
        fail_if(bytes.len() > MOST, format_args!("attribute {name} has more than {MOST} bytes"))?;
        let text = std::str::from_utf8(bytes).map_err(|_| format!("attribute {name} is not UTF-8 text"))?;
        Ok(text.to_owned())
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
        let outputs = self.outputs.len();
        let splits = self.option("num_splits", outputs as i32)?;
        let misfit = usize::try_from(splits) != Ok(outputs);
        Ok(fail_if(misfit, format_args!("attribute num_splits is {splits}, but it has {outputs} outputs"))?)
    }

    /// The fused activation of an operator of floats.
    pub fn activation(&self) -> Result<Activation, Trouble> {
        let code = self.option(FUSED, 0_i8)?;
        Ok(activation(code).ok_or_else(|| format!("attribute {FUSED} is {code}"))?)
    }

    /// The fused activation of an operator of floats that only limits its output: the interpreter ignores `TANH`.
    pub fn limit(&self) -> Result<Activation, Trouble> {
        let of = self.activation()?;
        fail_if(of == Activation::Tanh, format_args!("attribute {FUSED} is TANH, which is not supported"))?;
        Ok(of)
    }
}
