//! Translates RTNeural's layers to Keras's, with Keras's names for their tensors.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json, json};

use super::{Described, Layer, Size, malformed, malformed_if};
use crate::canonical::{MAX_NODES, MAX_SIZE, Tensor};
use crate::error::{ImportError, Result, Shape};
use crate::format::array::Array;
use crate::format::description::{Input, LayerDescription, Size as Dimensions};
use crate::format::refuse::unsupported_if;

/// Activations that RTNeural supports; it silently ignores any other.
const ACTIVATIONS: [&str; 5] = ["tanh", "relu", "sigmoid", "softmax", "elu"];

/// Types of layers, and the keys of each beside `type`, `activation`, `shape` and `weights`.
const KEYS: [(&str, &[&str]); 10] = [
    ("dense", &[]),
    ("time-distributed-dense", &[]),
    ("lstm", &[]),
    ("gru", &[]),
    ("conv1d", &["kernel_size", "dilation", "groups"]),
    (
        "conv2d",
        &[
            "kernel_size_time",
            "kernel_size_feature",
            "dilation",
            "strides",
            "num_filters_in",
            "num_features_in",
            "num_filters_out",
            "padding",
        ],
    ),
    ("batchnorm", &["epsilon"]),
    ("batchnorm2d", &["epsilon", "num_filters_in", "num_features_in"]),
    ("prelu", &[]),
    ("activation", &[]),
];

/// The input, the layers and the tensors of a model.
pub(super) fn described(in_shape: Vec<Option<usize>>, layers: Vec<Layer>) -> Result<Described> {
    malformed_if(layers.len() > MAX_NODES, format_args!("it has {} layers, more than {MAX_NODES}", layers.len()))?;
    let mut network = Network { frame: frame(&in_shape)?, layers: Vec::new(), tensors: BTreeMap::new() };
    let size = match network.frame.as_slice() {
        &[features] => Dimensions::One(features),
        frame => Dimensions::Shape(frame.to_vec()),
    };
    for (index, layer) in layers.into_iter().enumerate() {
        let name = format!("{}_{index}", layer.class.replace('-', "_"));
        let class = layer.class.clone();
        network.add(&name, layer).map_err(|source| ImportError::Layer { layer: name, class, source: source.into() })?;
    }
    let input = Input { name: "input".into(), size, ..Input::default() };
    Ok(Described { input, layers: network.layers, tensors: network.tensors })
}

/// Dimensions of a frame, without batch and time: its features, or its rows and channels.
fn frame(shape: &[Option<usize>]) -> Result<Vec<usize>> {
    let dims = match shape {
        [_, features] | [_, _, features] => vec![*features],
        [_, _, features, channels] => vec![*features, *channels],
        _ => return malformed(format!("a shape of {} dimensions, but only 2 to 4 are supported", shape.len())),
    };
    let dims: Option<Vec<usize>> = dims.into_iter().collect();
    match dims {
        Some(dims) if dims.iter().all(|dim| (1..=MAX_SIZE).contains(dim)) => Ok(dims),
        _ => malformed(format!("a frame must have 1 to {MAX_SIZE} features")),
    }
}

struct Network {
    /// Dimensions of the next layer's input.
    frame: Vec<usize>,
    layers: Vec<LayerDescription>,
    tensors: BTreeMap<String, Tensor>,
}

impl Network {
    fn add(&mut self, name: &str, layer: Layer) -> Result<()> {
        known_keys(&layer)?;
        let shape = frame(&layer.shape)?;
        let mut args = Map::new();
        let mut set = |name: &str, value: Json| args.insert(name.to_owned(), value);
        let (class, tensors): (&str, &[&str]) = match layer.class.as_str() {
            "dense" | "time-distributed-dense" => {
                set("use_bias", (layer.weights.len() != 1).into());
                ("Dense", &["kernel", "bias"])
            }
            "lstm" => ("LSTM", &["kernel", "recurrent_kernel", "bias"]),
            "gru" => ("GRU", &["kernel", "recurrent_kernel", "bias"]),
            "conv1d" => {
                set("padding", "causal".into());
                set("kernel_size", needed(layer.kernel_size.as_ref(), "kernel_size")?.into());
                set("dilation_rate", needed(layer.dilation.as_ref(), "dilation")?.into());
                set("groups", layer.groups.as_ref().map_or(Ok(1), |groups| needed(Some(groups), "groups"))?.into());
                ("Conv1D", &["kernel", "bias"])
            }
            "conv2d" => {
                self.conv2d(name, &layer, &mut args)?;
                ("Conv2D", &["kernel", "bias"])
            }
            "batchnorm" | "batchnorm2d" => {
                let Some(epsilon) = layer.epsilon else { return malformed("it has no epsilon") };
                if layer.class == "batchnorm2d" {
                    self.follows(&layer)?;
                }
                let affine = layer.weights.len() != 2;
                set("epsilon", json!(epsilon));
                set("scale", affine.into());
                set("center", affine.into());
                let all = &["gamma", "beta", "moving_mean", "moving_variance"];
                ("BatchNormalization", if affine { all } else { &all[2..] })
            }
            "prelu" => ("PReLU", &["alpha"]),
            "activation" => ("Activation", &[]),
            other => return Err(ImportError::Unsupported(format!("a layer of type {other:?}"))),
        };
        let recurrent = matches!(class, "LSTM" | "GRU");
        match layer.activation.as_str() {
            // RTNeural always uses tanh here, regardless of the file.
            "" | "tanh" if recurrent => {}
            other if recurrent || matches!(class, "BatchNormalization" | "PReLU") => {
                unsupported_if(!other.is_empty(), format_args!("activation {other:?} of a {class}"))?;
            }
            "" if class == "Activation" => return malformed("it names no activation"),
            "" => {}
            known if ACTIVATIONS.contains(&known) => {
                args.insert("activation".into(), known.into());
            }
            other => return Err(ImportError::Unsupported(format!("activation {other:?}"))),
        }
        let units = shape.last().copied().unwrap_or_default();
        match class {
            "Dense" | "LSTM" | "GRU" => args.insert("units".into(), units.into()),
            "Conv1D" | "Conv2D" => args.insert("filters".into(), units.into()),
            _ => None,
        };
        if recurrent {
            args.insert("return_sequences".into(), true.into());
        }
        let found = layer.weights.len();
        let fewest = if args.get("use_bias") == Some(&false.into()) { 1 } else { tensors.len() };
        malformed_if(found != fewest, format_args!("it has {found} arrays of weights, but {fewest} are needed"))?;
        for (tensor, Array(mut value)) in tensors.iter().zip(layer.weights) {
            if class == "PReLU" {
                value = slopes(value, units)?;
            }
            self.tensors.insert(format!("{name}.{tensor}"), value);
        }
        self.push(name, class, args);
        if !matches!(class, "Dense" | "LSTM" | "GRU" | "Conv1D" | "Conv2D") && shape != self.frame {
            let (found, frame) = (Shape(shape), Shape(self.frame.clone()));
            return malformed(format!("it outputs {found} for a frame of {frame}"));
        }
        self.frame = shape;
        Ok(())
    }

    fn push(&mut self, name: &str, class: &str, args: Map<String, Json>) {
        let (name, class) = (name.to_owned(), class.to_owned());
        self.layers.push(LayerDescription { name, class, args, ..LayerDescription::default() });
    }

    /// Checks the size of the input that a layer over features in channels states; returns the number of features.
    fn follows(&self, layer: &Layer) -> Result<usize> {
        let &[features, channels] = &*self.frame else { return malformed("its input has no channels") };
        let said = [&layer.num_features_in, &layer.num_filters_in].map(|size| size.as_ref().and_then(Size::get));
        let names = "num_features_in and num_filters_in";
        let before = format_args!("its {names} differ from the {features} features in {channels} channels before it");
        malformed_if(said != [Some(features), Some(channels)], before)?;
        Ok(features)
    }

    /// A convolution that is causal over frames and may be padded over features. The padding becomes a layer before it.
    fn conv2d(&mut self, name: &str, layer: &Layer, args: &mut Map<String, Json>) -> Result<()> {
        let time = needed(layer.kernel_size_time.as_ref(), "kernel_size_time")?;
        let taps = needed(layer.kernel_size_feature.as_ref(), "kernel_size_feature")?;
        let dilation = needed(layer.dilation.as_ref(), "dilation")?;
        let stride = needed(layer.strides.as_ref(), "strides")?;
        let features = self.follows(layer)?;
        let filters = layer.num_filters_out.as_ref().and_then(Size::get);
        malformed_if(filters != layer.shape.last().copied().flatten(), "num_filters_out differs from its shape")?;
        let around = match layer.padding.as_deref() {
            Some("valid") => 0,
            // Padded as in TensorFlow.
            Some("same") => {
                ((features.div_ceil(stride) - 1).saturating_mul(stride).saturating_add(taps)).saturating_sub(features)
            }
            Some(other) => return Err(ImportError::Unsupported(format!("padding {other:?}"))),
            None => return malformed("it has no padding"),
        };
        malformed_if(around > MAX_SIZE, format_args!("its padding exceeds {MAX_SIZE}"))?;
        if around > 0 {
            let sides = json!([[0, 0], [around / 2, around - around / 2]]);
            self.push(&format!("{name}_zeros"), "ZeroPadding2D", Map::from_iter([("padding".to_owned(), sides)]));
        }
        args.insert("padding".into(), "causal".into());
        args.insert("kernel_size".into(), json!([time, taps]));
        args.insert("dilation_rate".into(), json!([dilation, 1]));
        args.insert("strides".into(), json!([1, stride]));
        Ok(())
    }
}

/// Refuses a key that RTNeural does not read for layers of this type.
fn known_keys(layer: &Layer) -> Result<()> {
    let known = KEYS.iter().find(|(class, _)| layer.class == *class);
    let Some((_, known)) = known else {
        return Err(ImportError::Unsupported(format!("a layer of type {:?}", layer.class)));
    };
    let unknown = layer.keys().into_iter().find(|key| !known.contains(key));
    unknown.map_or(Ok(()), |key| Err(ImportError::Unsupported(format!("{key} of a layer of type {:?}", layer.class))))
}

fn needed(size: Option<&Size>, name: &str) -> Result<usize> {
    match size.map(Size::get) {
        Some(Some(size)) => Ok(size),
        Some(None) => malformed(format!("its {name} must be a number from 1 to {MAX_SIZE}")),
        None => malformed(format!("it has no {name}")),
    }
}

/// The slope of each feature; the file may have a single slope for all.
fn slopes(found: Tensor, features: usize) -> Result<Tensor> {
    let data = match found.data.as_slice() {
        &[one] => vec![one; features],
        all if all.len() == features => found.data,
        all => return malformed(format!("it has {} slopes for {features} features", all.len())),
    };
    Ok(Tensor { shape: vec![features], data })
}
