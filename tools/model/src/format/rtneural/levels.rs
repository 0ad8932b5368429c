//! AIDA-X's fields around the layers: gains in decibels, and the sum of input and output.

use serde::Deserialize;
use serde_json::{Map, Value as Json, json};

use super::{Described, malformed_if};
use crate::canonical::Tensor;
use crate::error::Result;
use crate::format::description::{LayerDescription, Size};
use crate::format::refuse::unsupported_if;

/// `y = out_gain (x + network(x))` with x = `in_gain` times the input; without `in_skip` the network alone. Gains and
/// sum are those of the first feature, the sound; others are settings of the amplifier.
#[derive(Default, Deserialize)]
pub(super) struct Levels {
    /// 1 if the input is added to the output.
    in_skip: Option<f64>,
    /// In decibels.
    in_gain: Option<f64>,
    /// In decibels.
    out_gain: Option<f64>,
}

impl Levels {
    /// Adds the layers before and after those of the network.
    pub fn surround(&self, described: &mut Described) -> Result<()> {
        let skips = match self.in_skip {
            None | Some(0.0) => false,
            Some(skip) => {
                unsupported_if(skip != 1.0, format_args!("in_skip = {skip}, other than 0 and 1,"))?;
                true
            }
        };
        let (in_gain, out_gain) = (factor(self.in_gain, "in_gain")?, factor(self.out_gain, "out_gain")?);
        if !skips && in_gain == 1.0 && out_gain == 1.0 {
            return Ok(());
        }
        let Size::One(features) = described.input.size else {
            unsupported_if(true, "a gain or in_skip around a model of images")?;
            return Ok(());
        };
        let mut x = described.input.name.clone();
        if in_gain != 1.0 {
            let gains: Vec<f64> = (0..features).map(|feature| if feature == 0 { in_gain } else { 1.0 }).collect();
            described.layers.insert(0, layer("in_gain", "Rescaling", &[("scale", json!(gains))], &[]));
            x = "in_gain".into();
        }
        if skips {
            let Some(last) = described.layers.last().map(|layer| layer.name.clone()) else { return Ok(()) };
            if features > 1 {
                let first = (0..features).map(|feature| if feature == 0 { 1.0 } else { 0.0 }).collect();
                described.tensors.insert("sound.kernel".into(), Tensor { shape: vec![features, 1], data: first });
                let args = [("units", json!(1)), ("use_bias", json!(false))];
                described.layers.push(layer("sound", "Dense", &args, &[&x]));
                x = "sound".into();
            }
            described.layers.push(layer("in_skip", "Add", &[], &[&last, &x]));
        }
        if out_gain != 1.0 {
            described.layers.push(layer("out_gain", "Rescaling", &[("scale", json!(out_gain))], &[]));
        }
        Ok(())
    }
}

/// The factor of a gain in decibels.
fn factor(gain: Option<f64>, name: &str) -> Result<f64> {
    let Some(gain) = gain else { return Ok(1.0) };
    malformed_if(!(-120.0..=120.0).contains(&gain), format_args!("{name} is {gain}, not from -120 to 120 dB"))?;
    Ok(10.0_f64.powf(gain / 20.0))
}

fn layer(name: &str, class: &str, args: &[(&str, Json)], inputs: &[&str]) -> LayerDescription {
    LayerDescription {
        name: name.to_owned(),
        class: class.to_owned(),
        args: args.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect::<Map<_, _>>(),
        inputs: inputs.iter().map(|&input| input.to_owned()).collect(),
        ..LayerDescription::default()
    }
}
