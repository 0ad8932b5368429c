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
const OPTIONS: [(&str, u8, &[&str]); 42] = [
    ("CONCATENATION", 10, &["axis", FUSED]),
    ("AVERAGE_POOL_2D", 5, &["padding", "stride_w", "stride_h", "filter_width", "filter_height", FUSED]),
    ("MAX_POOL_2D", 5, &["padding", "stride_w", "stride_h", "filter_width", "filter_height", FUSED]),
    ("BATCH_MATMUL", 101, &["adj_x", "adj_y", "asymmetric_quantize_inputs"]),
    ("DIV", 29, &[FUSED]),
    ("GATHER", 23, &["axis", "batch_dims"]),
    ("LESS", 41, &[]),
    ("LOGICAL_AND", 62, &[]),
    ("MEAN", 27, &["keep_dims"]),
    ("REDUCE_MAX", 27, &["keep_dims"]),
    ("EXP", 33, &[]),
    ("GELU", 116, &["approximate"]),
    ("LEAKY_RELU", 75, &["alpha"]),
    ("PACK", 59, &["values_count", "axis"]),
    ("PAD", 22, &[]),
    ("BATCH_TO_SPACE_ND", 24, &[]),
    ("SPACE_TO_BATCH_ND", 25, &[]),
    ("REVERSE_V2", 81, &[]),
    ("SLICE", 48, &[]),
    ("TILE", 51, &[]),
    ("SVDF", 6, &["rank", FUSED, "asymmetric_quantize_inputs"]),
    ("SQUARE", 66, &[]),
    ("SQUARED_DIFFERENCE", 76, &[]),
    ("UNPACK", 64, &["num", "axis"]),
    ("WHILE", 93, &["cond_subgraph_index", "body_subgraph_index"]),
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
/// Further options of one byte.
const OF_BYTES: [&str; 4] = ["weights_format", "asymmetric_quantize_inputs", "quantized_bias_type", "approximate"];
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

    /// Whether all options but those of shapes are those of another operator of the same kind.
    pub fn has_options_of(&self, other: &Self) -> Result<bool> {
        for &name in self.fields().1.iter().filter(|name| !matches!(**name, "new_shape" | "squeeze_dims")) {
            // An option of one byte is read as one byte, because the bytes after it belong to other fields.
            let is_byte = name == FUSED || name == "padding" || name.starts_with("keep_") || OF_BYTES.contains(&name);
            let same = match is_byte {
                true => self.option(name, 0_i8)? == other.option(name, 0_i8)?,
                false => self.option(name, i32::MIN)? == other.option(name, i32::MIN)?,
            };
            if !same {
                return Ok(false);
            }
        }
        Ok(true)
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
        let (inputs, outputs) = (self.inputs.len(), self.outputs.len());
        for (name, count, what) in
            [("num_splits", outputs, "outputs"), ("num", outputs, "outputs"), ("values_count", inputs, "inputs")]
        {
            let found = self.option(name, count as i32)?;
            let misfit = usize::try_from(found) != Ok(count);
            fail_if(misfit, format_args!("attribute {name} is {found}, but it has {count} {what}"))?;
        }
        Ok(())
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

    /// Refuses a fused activation.
    pub fn limit_is_none(&self) -> Result<(), Trouble> {
        let of = self.option(FUSED, 0_i8)?;
        Ok(fail_if(of != 0, format_args!("attribute {FUSED} is {of}, which is not supported here"))?)
    }
}
