//! Keras models: JSON whose values are small in a file and large in memory, shared models, and compressed weights.

use serde_json::json;

use super::{Hostile, hostile, zip};
use crate::hdf5::{DEFLATE, Group, Link, Tensor, file, keras2, zeros};

pub fn all() -> Vec<Hostile> {
    vec![
        hostile("small_objects.keras", of_config(&"{\"a\":0},".repeat(900_000))),
        hostile("small_numbers.keras", of_config(&"0,".repeat(4_000_000))),
        hostile("spaces.keras", spaces()),
        hostile("shared_model.keras", shared_model()),
        hostile("shared_layer.h5", shared_layer()),
        hostile("small_chunks.h5", small_chunks()),
        hostile("repeated_arguments.keras", repeated_arguments()),
        hostile("eight_bits.h5", eight_bits()),
        hostile("deflated.h5", deflated()),
    ]
}

/// A file whose weights are noise, so that it unpacks to less than eight times its length.
fn keras(config: &[u8]) -> Vec<u8> {
    let noise = (0..config.len() as u32 / 24).flat_map(|k| k.wrapping_mul(0x9e37_79b9).rotate_left(7).to_le_bytes());
    let weights: Vec<u8> = noise.collect();
    zip(&[("metadata.json", b"{\"keras_version\":\"3.5.0\"}"), ("config.json", config), ("model.weights.h5", &weights)])
}

fn of_config(items: &str) -> Vec<u8> {
    keras(format!("{{\"class_name\":\"Sequential\",\"config\":{{\"layers\":[{items}0]}}}}").as_bytes())
}

/// A description of 16 MiB of spaces, and nothing else.
fn spaces() -> Vec<u8> {
    zip(&[("metadata.json", b"{}"), ("config.json", &vec![b' '; 16 << 20]), ("model.weights.h5", b"")])
}

/// A model of 4,000 layers, none of which is needed, that is called 4,000 times.
fn shared_model() -> Vec<u8> {
    let layer = |name: &str, class: &str, nodes: serde_json::Value| json!({"class_name": class, "name": name, "config": {"batch_shape": [null, 1]}, "inbound_nodes": nodes});
    let mut inner: Vec<_> = (0..4_000).map(|k| layer(&format!("l{k}"), "Dense", json!([]))).collect();
    inner.push(layer("i", "InputLayer", json!([])));
    let ends = json!([["i", 0, 0]]);
    let model = json!({"layers": inner, "input_layers": ends, "output_layers": ends});
    let calls: Vec<_> =
        (0..4_000).map(|k| if k == 0 { json!([["i", 0, 0, {}]]) } else { json!([["m", k - 1, 0, {}]]) }).collect();
    let mut outer = layer("m", "Functional", json!(calls));
    outer["config"] = model;
    let config = json!({"class_name": "Functional", "config": {
        "layers": [layer("i", "InputLayer", json!([])), outer],
        "input_layers": ends, "output_layers": [["m", 3_999, 0]],
    }});
    keras(config.to_string().as_bytes())
}

/// A layer of a million weights that is called 500 times.
fn shared_layer() -> Vec<u8> {
    let layer = |name: &str, class: &str, calls: Vec<serde_json::Value>| {
        let config = json!({"name": name, "units": 1024, "batch_input_shape": [null, 1024], "activation": "linear"});
        json!({"class_name": class, "name": name, "config": config, "inbound_nodes": calls})
    };
    let calls = (0..500).map(|k| if k == 0 { json!([["i", 0, 0, {}]]) } else { json!([["d", k - 1, 0, {}]]) });
    let mut input = layer("i", "InputLayer", vec![]);
    input["config"] = json!({"name": "i", "batch_input_shape": [null, 1024]});
    let config = json!({"class_name": "Functional", "config": {
        "layers": [input, layer("d", "Dense", calls.collect())],
        "input_layers": [["i", 0, 0]], "output_layers": [["d", 499, 0]],
    }});
    let weights =
        vec![("d/kernel:0".to_owned(), Tensor::of(&[1024, 1024])), ("d/bias:0".to_owned(), Tensor::of(&[1024]))];
    file(&keras2(&config, vec![("i", vec![]), ("d", weights)]))
}

/// Two million chunks of one number each.
fn small_chunks() -> Vec<u8> {
    let tensor = Tensor { shape: vec![2 << 20], data: vec![0; 4], chunk: Some((vec![1], None)), ..Tensor::of(&[1]) };
    weights(vec![tensor], 1 << 19)
}

/// A layer with 1,000 small objects as arguments that is called 500 times.
fn repeated_arguments() -> Vec<u8> {
    let objects: Vec<_> = (0..1_000).map(|_| json!({"a": 0})).collect();
    let layer = |name: &str, class: &str, nodes: serde_json::Value| {
        let config = json!({"batch_shape": [null, 1], "name": name, "rate": objects});
        json!({"class_name": class, "name": name, "config": config, "inbound_nodes": nodes})
    };
    let calls: Vec<_> =
        (0..500).map(|k| if k == 0 { json!([["i", 0, 0, {}]]) } else { json!([["m", k - 1, 0, {}]]) }).collect();
    let config = json!({"class_name": "Functional", "config": {
        "layers": [layer("i", "InputLayer", json!([])), layer("m", "Dropout", json!(calls))],
        "input_layers": [["i", 0, 0]], "output_layers": [["m", 499, 0]],
    }});
    keras(config.to_string().as_bytes())
}

/// Little-endian u8.
const U8: [u8; 12] = [0x10, 0, 0, 0, 1, 0, 0, 0, 0, 0, 8, 0];

/// Deflated bytes, each of which becomes an f32, beside ballast.
fn eight_bits() -> Vec<u8> {
    let len = 1 << 22;
    let chunk = Some((vec![len as u32], Some(DEFLATE)));
    let tensor = Tensor { shape: vec![len as u64], datatype: U8.to_vec(), data: zeros(len), claimed: None, chunk };
    weights((0..8).map(|_| tensor.clone()).collect(), 1 << 20)
}

/// Deflated zeros beside ballast.
fn deflated() -> Vec<u8> {
    weights((0..16).map(|_| Tensor::packed(&[1 << 20])).collect(), 1 << 21)
}

/// Weights without an architecture, and a tensor of `ballast` numbers.
fn weights(tensors: Vec<Tensor>, ballast: usize) -> Vec<u8> {
    let all = tensors.into_iter().chain([Tensor::of(&[ballast])]).enumerate();
    let links = all.map(|(k, tensor)| (format!("t{k}"), Link::Tensor(tensor))).collect();
    file(&Group { texts: vec![("layer_names".into(), vec!["a".into()])], links })
}
