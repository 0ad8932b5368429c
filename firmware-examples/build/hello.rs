//! The models of the small programs.

use std::error::Error;

use tidegate_model::canonical::{Architecture, Canonical, Node, Port, Tensor};
use tidegate_model::pack::pack_with;
use tidegate_model::quantize::Ranges;
use tidegate_model::tidegate::{Layout, Numeric};

/// Packs the first layer of a model in integers. Its features are within ±4.
pub fn in_integers(mut model: Canonical, layout: Layout) -> Result<Vec<u8>, Box<dyn Error>> {
    let Architecture { nodes, outputs, .. } = &mut model.architecture;
    nodes.truncate(1);
    let [first] = nodes.as_slice() else { return Err("a model without a layer".into()) };
    let own = format!("{}.", first.name);
    outputs[0] = Port { name: "h".into(), size: first.output_size, from: first.name.clone(), ..Port::default() };
    model.tensors.retain(|name, _| name.starts_with(&own));
    let heard: &[f32] = &[4.0, 0.0, -4.0, 1.0, 0.0, 2.0, 0.5, 0.0];
    // Two rows are no distribution.
    let ranges = Ranges::measure(&model, [[heard].as_slice()])?.nearest();
    Ok(pack_with(&model, Numeric::I8x16, &ranges, layout)?)
}

/// GRU 4 → 32 with the reset after the product, as in Keras and cuDNN.
pub fn hello_gru() -> Canonical {
    let mut gru = node("gru", "gru", "features", [4, 32]);
    gru.options = vec!["reset_after".into()];
    let tensors = [
        ("gru.input_weights", tensor(&[96, 4])),
        ("gru.recurrent_weights", tensor(&[96, 32])),
        ("gru.input_bias", tensor(&[96])),
        ("gru.recurrent_bias", tensor(&[96])),
    ];
    chain(vec![gru], ("h", "gru", 32), tensors)
}

/// LSTM 4 → 8, dense → 3, softmax.
pub fn hello() -> Canonical {
    let nodes = vec![
        node("lstm", "lstm", "features", [4, 8]),
        node("dense", "dense", "lstm", [8, 3]),
        node("softmax", "softmax", "dense", [3, 3]),
    ];
    let tensors = [
        ("lstm.input_weights", tensor(&[32, 4])),
        ("lstm.recurrent_weights", tensor(&[32, 8])),
        ("lstm.input_bias", tensor(&[32])),
        ("dense.weights", tensor(&[3, 8])),
        ("dense.bias", tensor(&[3])),
    ];
    chain(nodes, ("posteriors", "softmax", 3), tensors)
}

/// A layer without options.
fn node(name: &str, cell: &str, input: &str, [input_size, output_size]: [usize; 2]) -> Node {
    Node {
        name: name.into(),
        cell: cell.into(),
        inputs: vec![input.into()],
        input_size,
        hidden_size: output_size,
        output_size,
        ..Node::default()
    }
}

/// Steps of 37 modulo 64, in 64ths around zero. They are exact in f32, and no two rows are equal.
fn tensor(shape: &[usize]) -> Tensor {
    let data = (0..shape.iter().product()).map(|k: usize| (k * 37 % 64) as f32 / 64.0 - 0.5);
    Tensor { shape: shape.to_vec(), data: data.collect() }
}

/// A model of layers over four features. The second argument is the output's name, layer and size.
fn chain<const N: usize>(
    nodes: Vec<Node>,
    (output, from, size): (&str, &str, usize),
    tensors: [(&str, Tensor); N],
) -> Canonical {
    let port =
        |name: &str, size: usize, from: &str| Port { name: name.into(), size, from: from.into(), ..Port::default() };
    let architecture = Architecture {
        version: 1,
        source: "hello_step".into(),
        inputs: vec![port("features", 4, "")],
        nodes,
        outputs: vec![port(output, size, from)],
        ..Architecture::default()
    };
    Canonical { architecture, tensors: tensors.map(|(name, tensor)| (name.into(), tensor)).into() }
}
