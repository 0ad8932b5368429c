//! Errors of importers for unsupported golden cases are sentences with the framework's own names.

use std::collections::{BTreeMap, HashMap};

use tidegate_model::canonical::Tensor;
use tidegate_tests::golden;

/// Each family names the unsupported feature as the framework does.
#[test]
fn refusals_of_every_family_are_sentences() {
    let refusal = |family: &str, cls: &str, args: &str, tensors: &[(&str, &[usize])]| {
        let tensor = |shape: &[usize]| Tensor { shape: shape.to_vec(), data: vec![0.5; shape.iter().product()] };
        let names: Vec<&str> = tensors.iter().map(|&(name, _)| name).collect();
        let metadata: HashMap<String, String> = [
            ("family", family),
            ("cls", cls),
            ("constructor_args", args),
            ("param_names", &serde_json::to_string(&names).expect("names are JSON")),
            ("input_names", r#"["input"]"#),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
        let mut tensors: BTreeMap<String, Tensor> =
            tensors.iter().map(|&(name, shape)| (name.to_owned(), tensor(shape))).collect();
        tensors.insert("input".to_owned(), tensor(&[1, 4, 3]));
        golden::from_case(&metadata, &tensors).expect_err(cls).to_string()
    };
    let gru = ("to_hidden_and_gate.weight", &[5, 3][..]);
    for (family, cls, args, tensors, expected) in [
        ("baselines", "gru", "{}", &[][..], r#"class "gru" is not supported"#),
        (
            "cfc",
            "Cfc",
            r#"{"hparams": {"backbone_activation": "mish"}}"#,
            &[],
            r#"argument backbone_activation = "mish" is not supported"#,
        ),
        ("edgeml", "FastRNNCell", "{}", &[], "FastRNNCell without input_size is not supported"),
        (
            "edgeml",
            "FastRNNCell",
            r#"{"update_nonlinearity": "quantSigm8"}"#,
            &[],
            r#"argument update_nonlinearity = "quantSigm8" is not supported"#,
        ),
        ("keras3", "LSTM", "{}", &[], "tensor \"kernel\" is missing"),
        (
            "mingru",
            "minGRU",
            "{}",
            &[gru],
            "to_hidden_and_gate.weight is 5 x 3, but its rows must be 2 blocks of equal height",
        ),
        ("ncps", "CfC", r#"{"mode": "fast"}"#, &[], r#"argument mode = "fast" is not supported"#),
        ("ncps", "LTC", "{}", &[], r#"tensor "rnn_cell.cm" is missing"#),
        ("sru", "SRU", "{}", &[], r#"tensor "rnn_lst.0.weight" is missing"#),
        ("tf1", "GridLSTMCell", r#"{"feature_size": 2}"#, &[], "GridLSTMCell without frequency_skip is not supported"),
        ("tf2ops", "BlockLSTM", "{}", &[], r#"tensor "wci" is missing"#),
        (
            "torch",
            "LSTM",
            "{}",
            &[("weight_ih_l0", &[5, 3])],
            "weight_ih_l0 is 5 x 3, but its rows must be 4 gates of equal height",
        ),
        (
            "torch",
            "LSTM",
            r#"{"hidden_size": 3}"#,
            &[("weight_ih_l0", &[8, 3]), ("weight_hh_l0", &[8, 2]), ("bias_ih_l0", &[8]), ("bias_hh_l0", &[8])],
            "argument hidden_size = 3 with tensors of 2 is not supported",
        ),
        ("xlstm", "sLSTMCell", r#"{"dtype": "bfloat16"}"#, &[], r#"argument dtype = "bfloat16" is not supported"#),
        ("rwkv", "RWKV", "{}", &[], r#"family "rwkv" is not supported"#),
    ] {
        assert_eq!(refusal(family, cls, args, tensors), expected);
    }
}
