//! GuitarML's JSON: the settings and the state dict of a recurrent network that PyTorch has trained, `SimpleRNN` of
//! Alec Wright's CoreAudioML.

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;
use serde_json::{Map, Value as Json, json};

use super::description::{Input, LayerDescription, Size};
use super::fields::{Fields, parsed};
use super::{Description, Imported, Options, array::Array, refuse::unsupported_if};
use crate::canonical::{MAX_NODES, MAX_SIZE, Tensor};
use crate::{data::one_line, error::Result};

#[derive(Deserialize)]
struct File {
    model_data: Settings,
    state_dict: HashMap<String, Array>,
}

/// The network is `lin(rec(x))`, plus the first `skip` features of x.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    model: String,
    unit_type: String,
    input_size: usize,
    hidden_size: usize,
    output_size: usize,
    #[serde(default = "one")]
    num_layers: usize,
    #[serde(default)]
    skip: usize,
    #[serde(default = "yes")]
    bias_fl: bool,
}

fn one() -> usize {
    1
}

fn yes() -> bool {
    true
}

pub(super) fn import(bytes: &[u8], fields: &Fields, name: &str, options: &Options) -> Result<Imported> {
    unsupported_if(options.description.is_some(), "--arch with a file that holds its architecture")?;
    unsupported_if(options.window.is_some(), "--window with a model that runs sample by sample")?;
    fields.only(&["model_data", "state_dict"], "model_data")?;
    let File { model_data, state_dict } = parsed(bytes, "GuitarML model")?;
    let mut tensors: BTreeMap<String, Tensor> = state_dict.into_iter().map(|(name, array)| (name, array.0)).collect();
    let description = model_data.described(&mut tensors)?;
    let imported = description.model("torch", &tensors, None, &format!("{name}, GuitarML"))?;
    // The network runs as one endless state.
    Ok(Imported { assumptions: Vec::new(), ..imported })
}

impl Settings {
    fn described(self, tensors: &mut BTreeMap<String, Tensor>) -> Result<Description> {
        let Self { model, unit_type, input_size, hidden_size, output_size, num_layers, skip, bias_fl } = self;
        unsupported_if(model != "SimpleRNN", format_args!("model {:?}, other than SimpleRNN,", one_line(&model)))?;
        let known = ["LSTM", "GRU", "RNN"].contains(&unit_type.as_str());
        unsupported_if(!known, format_args!("unit_type {:?}", one_line(&unit_type)))?;
        for (name, size) in [("input_size", input_size), ("hidden_size", hidden_size), ("output_size", output_size)] {
            let fits = (1..=MAX_SIZE).contains(&size);
            unsupported_if(!fits, format_args!("{name} = {size}"))?;
        }
        unsupported_if(num_layers > MAX_NODES, format_args!("num_layers = {num_layers}"))?;
        let mut layers = vec![
            layer(
                "rec",
                &unit_type,
                json!({"input_size": input_size, "hidden_size": hidden_size, "num_layers": num_layers}),
                &[],
            ),
            layer(
                "lin",
                "Linear",
                json!({"in_features": hidden_size, "out_features": output_size, "bias": bias_fl}),
                &[],
            ),
        ];
        if skip > 0 {
            let misfit = skip != output_size || skip > input_size;
            let sizes = format_args!("skip = {skip} with {input_size} inputs and {output_size} outputs");
            unsupported_if(misfit, sizes)?;
            let mut x = "input";
            if skip < input_size {
                let mut data = vec![0.0; skip * input_size];
                data.iter_mut().step_by(input_size + 1).for_each(|weight| *weight = 1.0);
                tensors.insert("sound.weight".into(), Tensor { shape: vec![skip, input_size], data });
                layers.push(layer("sound", "Linear", json!({"bias": false}), &["input"]));
                x = "sound";
            }
            layers.push(layer("skip", "Add", json!({}), &["lin", x]));
        }
        let input = Input { name: "input".into(), size: Size::One(input_size), ..Input::default() };
        Ok(Description { inputs: vec![input], layers, ..Description::default() })
    }
}

fn layer(name: &str, class: &str, args: Json, inputs: &[&str]) -> LayerDescription {
    let args = match args {
        Json::Object(args) => args,
        _ => Map::new(),
    };
    let inputs = inputs.iter().map(|&input| input.to_owned()).collect();
    LayerDescription { name: name.into(), class: class.into(), args, inputs, ..LayerDescription::default() }
}
