//! Compares TensorFlow's and Keras's variables with those that the frameworks wrote, and with the importers.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use safetensors::SafeTensors;
use tidegate_gpu::rnn::{Cell, Direction, InputMode, Rnn, Settings};
use tidegate_gpu::saveable::restore;
use tidegate_gpu::weights::{LayerWeights, tensors};
use tidegate_gpu::{keras, tensorflow};
use tidegate_model::canonical::Tensor;
use tidegate_model::data::read_tensors;

use tidegate_model::format::{Description, Options, import_with};
use tidegate_tests::golden::from_case;

fn rnn(cell: Cell, input_size: usize, hidden_size: usize) -> Rnn {
    Rnn::new(Settings::new(cell, input_size, hidden_size)).unwrap()
}

fn case(name: &str) -> (HashMap<String, String>, BTreeMap<String, Tensor>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../tests/golden/{name}.safetensors"));
    let bytes = std::fs::read(&path).unwrap();
    let (_, header) = SafeTensors::read_metadata(&bytes).unwrap();
    (header.metadata().clone().unwrap(), read_tensors(&path).unwrap())
}

/// Canonical weights from cuDNN's tensors, one for each gate and side.
fn of_gates(gates: &[&str], tensors: &BTreeMap<String, Tensor>) -> LayerWeights {
    let stacked = |side: &str| {
        let blocks: Vec<&Tensor> = gates.iter().map(|gate| &tensors[&format!("cudnn/{side}_{gate}")]).collect();
        let mut shape = blocks[0].shape.clone();
        shape[0] *= gates.len();
        Tensor { shape, data: blocks.iter().flat_map(|block| &block.data).copied().collect() }
    };
    LayerWeights::from([
        ("input_weights", stacked("w")),
        ("recurrent_weights", stacked("r")),
        ("input_bias", stacked("b_w")),
        ("recurrent_bias", stacked("b_r")),
    ])
}

/// The variables of the cases were written by `CudnnParamsFormatConverter` of TensorFlow 1.15.
#[test]
fn variables_equal_those_of_tensorflow() {
    let cases: [(_, _, &[&str], _); 3] = [
        ("lstm_i5h7t9b3", rnn(Cell::Lstm, 5, 7), &["i", "f", "c", "o"], "cudnn_compatible_lstm_cell"),
        ("gru_i3h8t12b1", rnn(Cell::Gru, 3, 8), &["r", "u", "c"], "cudnn_compatible_gru_cell"),
        ("tanh_i6h9t11b3", rnn(Cell::RnnTanh, 6, 9), &["h"], "basic_rnn_cell"),
    ];
    for (name, rnn, gates, cell) in cases {
        let (_, tensors) = case(&format!("tf1__CudnnParamsFormatConverter__{name}"));
        let made = tensorflow::to_variables(&rnn, &[of_gates(gates, &tensors)], "").unwrap();
        let needed: BTreeMap<String, Tensor> = tensors
            .into_iter()
            .filter_map(|(name, tensor)| {
                let inner = name.strip_prefix("rnn/")?;
                Some((format!("rnn/multi_rnn_cell/cell_0/{inner}"), tensor))
            })
            .collect();
        assert!(!needed.is_empty() && needed.keys().all(|name| name.contains(cell)));
        assert_eq!(made, needed, "{name}");
    }
}

/// The importer reads the case with code of its own and compares it with the layer that Keras loads.
#[test]
fn variables_equal_those_of_keras_2() {
    for (name, cell, input, hidden) in
        [("CuDNNLSTM__i5h7t9b3", Cell::Lstm, 5, 7), ("CuDNNGRU__i6h9t11b3", Cell::Gru, 6, 9)]
    {
        let rnn = rnn(cell, input, hidden);
        let (metadata, tensors) = case(&format!("keras2__{name}"));
        let model = from_case(&metadata, &tensors).unwrap().model;
        let needed = restore(&rnn, &model).unwrap();
        let own = |(name, tensor): (String, Tensor)| Some((name.strip_prefix("cudnn/")?.to_owned(), tensor));
        let variables: BTreeMap<String, Tensor> = tensors.into_iter().filter_map(own).collect();
        assert_eq!(keras::from_variables(&rnn, &variables).unwrap(), needed, "{name}");
        assert_eq!(keras::to_variables(&rnn, &needed).unwrap(), variables, "{name}");
    }
}

/// Multiples of 1/64, whose sums are exact.
fn weights(rnn: &Rnn) -> Vec<LayerWeights> {
    let mut number = 0_u32;
    let mut next = || {
        number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (number >> 24) as f32 / 64.0 - 2.0
    };
    let mut of = |shape: Vec<usize>| Tensor { data: (0..shape.iter().product()).map(|_| next()).collect(), shape };
    (0..rnn.pseudo_layers()).map(|k| tensors(rnn, k).map(|(name, _, _, shape)| (name, of(shape))).collect()).collect()
}

/// Weights as these cells store them: the recurrent bias is added to that of the input, except in the candidate of a
/// GRU.
fn summed(rnn: &Rnn, layers: &[LayerWeights]) -> Vec<LayerWeights> {
    let hidden = rnn.settings().hidden_size;
    let apart = if rnn.settings().cell == Cell::Gru { hidden } else { 0 };
    let mut layers = layers.to_vec();
    for layer in &mut layers {
        let mut recurrent = layer["recurrent_bias"].clone();
        let len = recurrent.data.len() - apart;
        for (input, recurrent) in layer.get_mut("input_bias").unwrap().data.iter_mut().zip(&mut recurrent.data[..len]) {
            *input += std::mem::take(recurrent);
        }
        layer.insert("recurrent_bias", recurrent);
    }
    layers
}

#[test]
fn a_checkpoint_is_read_by_the_importer() {
    let folder = tempfile::tempdir().unwrap();
    for cell in Cell::ALL {
        for layers in 1..=3 {
            for direction in [Direction::Unidirectional, Direction::Bidirectional] {
                let rnn = Rnn::new(Settings { layers, direction, ..*rnn(cell, 3, 4).settings() }).unwrap();
                let given = weights(&rnn);
                let variables = tensorflow::to_variables(&rnn, &given, "top/layer").unwrap();
                let needed = summed(&rnn, &given);
                assert_eq!(tensorflow::from_variables(&rnn, &variables, "top/layer").unwrap(), needed);
                let path: PathBuf = folder.path().join("model.ckpt");
                tensorflow::write_checkpoint(&path, &variables).unwrap();
                let both = direction == Direction::Bidirectional;
                let class = match cell {
                    Cell::Lstm => "CudnnLSTM",
                    Cell::Gru => "CudnnGRU",
                    Cell::RnnTanh => "CudnnRNNTanh",
                    Cell::RnnRelu => "CudnnRNNRelu",
                };
                let direction = if both { "bidirectional" } else { "unidirectional" };
                let description: Description = serde_json::from_value(serde_json::json!({
                    "framework": "tf1",
                    "inputs": [{"name": "x", "size": 3}],
                    "layers": [{
                        "name": "rnn", "class": class, "prefix": "top/layer",
                        "args": {"num_layers": layers, "direction": direction},
                    }],
                }))
                .unwrap();
                // The names of LSTM and GRU variables identify the cell.
                let told = matches!(cell, Cell::Lstm | Cell::Gru);
                let options = Options {
                    description: (!told).then_some(description),
                    window: both.then_some(5),
                    ..Options::default()
                };
                let model = import_with(&path, &options).unwrap().model;
                assert_eq!(restore(&rnn, &model).unwrap(), needed, "{rnn:?}");
            }
        }
    }
}

#[test]
fn missing_input_weights_are_the_identity_in_tensorflow() {
    let skip = Rnn::new(Settings { input_mode: InputMode::Skip, ..*rnn(Cell::Gru, 4, 4).settings() }).unwrap();
    let given = summed(&skip, &weights(&skip));
    let mut variables = tensorflow::to_variables(&skip, &given, "").unwrap();
    assert_eq!(tensorflow::from_variables(&skip, &variables, "").unwrap(), given);
    let kernel = "rnn/multi_rnn_cell/cell_0/cudnn_compatible_gru_cell/gates/kernel";
    variables.get_mut(kernel).unwrap().data[1] = 1.0;
    assert!(tensorflow::from_variables(&skip, &variables, "").unwrap_err().to_string().contains("not the identity"));
    variables.remove(kernel);
    assert!(tensorflow::from_variables(&skip, &variables, "").unwrap_err().to_string().contains("gates/kernel"));
}

#[test]
fn settings_that_these_layers_lack_are_refused() {
    let lstm = rnn(Cell::Lstm, 3, 4);
    let projected = Rnn::new(Settings { projected_size: Some(2), ..*lstm.settings() }).unwrap();
    let refused = tensorflow::to_variables(&projected, &weights(&projected), "scope").unwrap_err().to_string();
    assert_eq!(refused, "layer \"scope\" of the model has a projection, which is not supported");
    let clipped = Rnn::new(Settings { cell_clip: Some(1.0), ..*lstm.settings() }).unwrap();
    assert!(tensorflow::to_variables(&clipped, &weights(&clipped), "scope").is_err());
    let two = Rnn::new(Settings { layers: 2, ..*lstm.settings() }).unwrap();
    let plain = rnn(Cell::RnnRelu, 3, 4);
    for other in [projected, clipped, two, plain] {
        assert!(keras::to_variables(&other, &weights(&other)).is_err(), "{other:?}");
    }
    let mut variables = keras::to_variables(&lstm, &weights(&lstm)).unwrap();
    variables.get_mut("bias").unwrap().shape[0] = 16;
    assert!(keras::from_variables(&lstm, &variables).unwrap_err().to_string().contains("it must be 32"));
}
