//! Typed access to the attributes of a node. An absent attribute has the op's default.

use super::{graph::Graph, symbol::fail_if};
use crate::format::graphdef::attr_value::Value as Attr;

/// Attributes of every op: types, and the number of its inputs. The types of constants and inputs are checked where they
/// are read; those of other nodes follow from them.
const OF_TYPES: &str = "DstT Index N SrcT T Taxis Tblock_shape Tcrops Tdim Tidx Tindices Tlen Tmultiples Tpaddings \
                        Tparams Tperm Tshape U dtype element_dtype index_type out_type shape_type";

/// The other attributes of an op, with spaces between their names.
fn known(op: &str) -> &'static str {
    match op {
        "AudioSpectrogram" => "window_size stride magnitude_squared",
        "AvgPool" => "ksize strides padding data_format",
        "BatchMatMul" | "BatchMatMulV2" => "adj_x adj_y grad_x grad_y",
        "BiasAdd" => "data_format",
        "BlockLSTM" | "LSTMBlockCell" => "forget_bias cell_clip use_peephole",
        "BlockLSTMV2" => "cell_clip use_peephole",
        "Cast" => "Truncate",
        "CheckNumerics" | "PreventGradient" => "message",
        "Const" => "value",
        "Conv2D" => "strides use_cudnn_on_gpu padding explicit_paddings data_format dilations",
        "DecodeWav" => "desired_channels desired_samples",
        "DepthwiseConv2dNative" => "strides padding explicit_paddings data_format dilations",
        "Enter" => "frame_name is_constant parallel_iterations",
        "FusedBatchNorm" | "FusedBatchNormV2" | "FusedBatchNormV3" => {
            "epsilon exponential_avg_factor data_format is_training"
        }
        "GatherNd" => "bad_indices_policy",
        "GatherV2" => "batch_dims",
        "LeakyRelu" => "alpha",
        "MatMul" => "transpose_a transpose_b grad_a grad_b",
        "Max" | "Mean" | "Min" | "Prod" | "Sum" => "keep_dims",
        "MaxPool" => "ksize strides padding explicit_paddings data_format",
        "Mfcc" => "upper_frequency_limit lower_frequency_limit filterbank_channel_count dct_coefficient_count",
        "Pack" => "axis",
        "Placeholder" | "PlaceholderWithDefault" => "shape",
        "RandomUniform" => "seed seed2",
        "ReverseSequence" => "seq_dim batch_dim",
        "Split" | "SplitV" => "num_split",
        "Squeeze" => "squeeze_dims",
        "StridedSlice" => "begin_mask end_mask ellipsis_mask new_axis_mask shrink_axis_mask",
        "TensorArrayGatherV3" => "element_shape",
        "TensorArrayV3" => "element_shape dynamic_size clear_after_read identical_element_shapes tensor_array_name",
        "TensorListSetItem" => "resize_if_index_out_of_bounds",
        "TensorListStack" => "num_elements",
        "Unpack" => "num axis",
        _ => "",
    }
}

impl Graph<'_> {
    /// Refuses attributes that the importer does not know. Names that begin with an underscore are remarks of TensorFlow.
    pub fn check_attributes(&self, node: usize) -> Result<(), String> {
        let def = self.nodes[node].def;
        let is_known = |name: &str| {
            let mut names = known(&def.op).split(' ').chain(OF_TYPES.split_ascii_whitespace());
            name.starts_with('_') || names.any(|known| known == name)
        };
        match def.attr.keys().find(|name| !is_known(name)) {
            None => Ok(()),
            Some(name) => Err(format!("the attribute {:.80} is not known", name.escape_debug().to_string())),
        }
    }

    fn typed<T>(&self, node: usize, name: &str, kind: &str, of: fn(&Attr) -> Option<T>) -> Result<Option<T>, String> {
        let attr = self.attr(node, name);
        attr.map(|attr| of(attr).ok_or_else(|| format!("the attribute {name} must be {kind}"))).transpose()
    }

    pub fn maybe_int(&self, node: usize, name: &str) -> Result<Option<i64>, String> {
        self.typed(node, name, "an integer", |attr| if let Attr::Int(int) = attr { Some(*int) } else { None })
    }

    pub fn int(&self, node: usize, name: &str, default: i64) -> Result<i64, String> {
        Ok(self.maybe_int(node, name)?.unwrap_or(default))
    }

    pub fn float(&self, node: usize, name: &str, default: f32) -> Result<f32, String> {
        let of = |attr: &Attr| if let Attr::Float(float) = attr { Some(*float) } else { None };
        Ok(self.typed(node, name, "a number", of)?.unwrap_or(default))
    }

    pub fn flag(&self, node: usize, name: &str, default: bool) -> Result<bool, String> {
        let of = |attr: &Attr| if let Attr::Bool(flag) = attr { Some(*flag) } else { None };
        Ok(self.typed(node, name, "a flag", of)?.unwrap_or(default))
    }

    pub fn must_not(&self, node: usize, names: &[&str]) -> Result<(), String> {
        for name in names {
            fail_if(self.flag(node, name, false)?, format_args!("{name} must be false"))?;
        }
        Ok(())
    }

    pub fn sizes(&self, node: usize, name: &str) -> Result<Option<[usize; 2]>, String> {
        let list = |attr: &Attr| if let Attr::List(list) = attr { Some(list.i.clone()) } else { None };
        let Some(list) = self.typed(node, name, "a list of integers", list)? else { return Ok(None) };
        match *list {
            [1, height @ 1..=65_535, width @ 1..=65_535, 1] => Ok(Some([height as usize, width as usize])),
            _ => Err(format!("its {name} are {list:.80?}, but must be [1, height, width, 1]")),
        }
    }

    pub fn text(&self, node: usize, name: &str, default: &'static str) -> Result<&str, String> {
        match self.attr(node, name) {
            None => Ok(default),
            Some(Attr::Bytes(text)) => Ok(std::str::from_utf8(text).unwrap_or("?")),
            Some(_) => Err(format!("the attribute {name} must be a text")),
        }
    }

    pub fn channels_last(&self, node: usize) -> Result<(), String> {
        fail_if(self.text(node, "data_format", "NHWC")? != "NHWC", "its data_format must be NHWC")
    }
}
