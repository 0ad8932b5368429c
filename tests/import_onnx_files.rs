//! ONNX models with a file beside them, quantized ones, tables that integers index, and networks that are larger than their
//! file.

use std::fs;
use std::path::Path;

use tidegate_model::canonical::Canonical;
use tidegate_model::error::ImportError;
use tidegate_model::format::onnx::open;
use tidegate_model::format::onnx::proto::{EntryProto, GraphProto, TensorProto};
use tidegate_model::format::{Options, import_with};
use tidegate_tests::import::{self, ALONE, sample};
use tidegate_tests::onnx::{Tensors, bytes, floats, ints, node, outputs, port, port_of, tensor, values, with};

/// y = x W, with W as given.
fn product(weights: TensorProto) -> Vec<u8> {
    bytes(GraphProto {
        node: vec![node("MatMul", &["x", "W"], &["y"])],
        initializer: vec![weights],
        input: vec![port("x", &[1, 3])],
        output: vec![port("y", &[1, 4])],
        ..GraphProto::default()
    })
}

/// The product with its weights in another file.
fn apart(entries: &[(&str, &str)]) -> Vec<u8> {
    let entry = |&(key, value): &(&str, &str)| EntryProto { key: key.into(), value: value.into() };
    let external_data = entries.iter().map(entry).collect();
    product(TensorProto { external_data, data_location: 1, ..floats("W", &[3, 4], Vec::new()) })
}

fn imported(folder: &Path, file: &[u8]) -> Result<Canonical, ImportError> {
    let path = folder.join("model.onnx");
    fs::write(&path, file).unwrap();
    import_with(&path, &Options::default()).map(|imported| imported.model)
}

#[test]
fn weights_in_a_file_beside_the_model_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let weights = values(12, 0.7);
    let raw: Vec<u8> = weights.iter().flat_map(|value| value.to_le_bytes()).collect();
    fs::write(folder.path().join("w.data"), [[0_u8; 8].as_slice(), &raw].concat()).unwrap();
    let inside = imported(folder.path(), &product(floats("W", &[3, 4], weights))).unwrap();
    let whole = [("location", "w.data"), ("offset", "8"), ("length", "48")];
    assert_eq!(imported(folder.path(), &apart(&whole)).unwrap(), inside);
    // Without a length it is the rest of the file.
    assert_eq!(imported(folder.path(), &apart(&whole[..2])).unwrap(), inside);
}

#[test]
fn files_elsewhere_and_parts_that_do_not_exist_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("w.data"), [0; 40]).unwrap();
    for (entries, reason) in [
        (&[("location", "v.data")][..], r#"in the file "v.data", which is not beside the model"#),
        (&[("location", "../w.data")], "which is not the name of a file in its folder"),
        (&[("location", "/etc/passwd")], "which is not the name of a file in its folder"),
        (&[("location", "..")], "which is not the name of a file in its folder"),
        (&[("location", "")], "which is not the name of a file in its folder"),
        (&[], "its values are in another file without a name"),
        (&[("location", "w.data"), ("length", "48")], r#"end after "w.data" does, which has 40 bytes"#),
        (&[("location", "w.data"), ("offset", "18446744073709551615"), ("length", "2")], "end after"),
        (&[("location", "w.data"), ("offset", "-1")], r#"the offset of its values is "-1""#),
        (&[("location", "w.data")], "its shape needs 48 bytes, but it holds 40"),
    ] {
        let line = import::line(&imported(folder.path(), &apart(entries)).unwrap_err(), 512);
        assert!(line.contains(reason) && line.contains(r#"initializer "W""#), "{reason:?} is not in: {line}");
    }
    // Bytes without a path have no folder.
    let error = open(&apart(&[("location", "w.data")]), "x.onnx", &ALONE).expect_err("it must be refused");
    assert!(import::line(&error, 512).contains(r#"the file "w.data""#));
}

#[test]
fn models_that_onnx_runtime_quantized_are_refused_by_that_name() {
    for op in ["DynamicQuantizeLinear", "QLinearConv", "DynamicQuantizeLSTM", "DequantizeLinear", "MatMulInteger"] {
        let graph = GraphProto {
            node: vec![node(op, &["x", "zero_point"], &["y"])],
            initializer: vec![TensorProto {
                data_type: 3,
                int32_data: vec![0],
                name: "zero_point".into(),
                ..TensorProto::default()
            }],
            input: vec![port("x", &[1, 3])],
            output: vec![port("y", &[1, 3])],
            ..GraphProto::default()
        };
        let line = import::line(&open(&bytes(graph), "x.onnx", &ALONE).expect_err("it must be refused"), 512);
        assert!(line.starts_with(&format!("it was quantized by onnxruntime (op {op})")), "{line}");
        assert!(line.contains("the float model that it was made from"), "{line}");
    }
}

#[test]
fn integers_select_rows_of_a_table() {
    let graph = |axis| GraphProto {
        node: vec![with(node("Gather", &["table", "i"], &["y"]), "axis", axis)],
        initializer: vec![floats("table", &[5, 3], values(15, 0.6))],
        input: vec![port_of("i", &[2, 4], 7)],
        output: vec![port("y", &[2, 4, 3])],
        ..GraphProto::default()
    };
    let index = [0.0, 3.0, 1.0, 1.0, 4.0, 2.0, 0.0, 4.0];
    let inputs: Tensors = [tensor("i", &[2, 4], index.to_vec())].into();
    let (imported, given) = outputs(&bytes(graph(0)), &ALONE, &inputs);
    assert!(imported.model.architecture.nodes.iter().any(|node| node.cell == "embedding"));
    let table = values(15, 0.6);
    let expected: Vec<f32> = index.iter().flat_map(|&row| table[3 * row as usize..][..3].to_vec()).collect();
    assert_eq!(given.unwrap()["y"].data, expected);
    let line = import::line(&open(&bytes(graph(1)), "x.onnx", &ALONE).expect_err("it must be refused"), 512);
    assert!(line.contains("selects by an input, but not rows of a table"), "{line}");
}

#[test]
fn a_network_larger_than_its_graph_says_so_and_where() {
    let graph = |size: usize| GraphProto {
        node: vec![with(node("ReduceSum", &["x", "one"], &["y"]), "keepdims", 0)],
        initializer: vec![ints("one", &[1])],
        input: vec![port("x", &[1, size])],
        output: vec![port("y", &[1])],
        ..GraphProto::default()
    };
    let notes = |size| open(&bytes(graph(size)), "x.onnx", &ALONE).unwrap().0.notes;
    assert_eq!(notes(8192), ["its weights take 32768 bytes in f32: 32768 of them are in dense (dense)"]);
    assert!(notes(64).is_empty());
}

/// The voice activity detector in the form of Silero v4: reflected edges, parts of a spectrum and joined rows have no
/// weights.
#[test]
fn moved_elements_take_no_weights() {
    let options = Options {
        onnx: tidegate_model::format::onnx::Given {
            shapes: [("input".to_owned(), vec![1, 64])].into(),
            bound: [tensor("sr", &[], vec![16_000.0])].into(),
            ..tidegate_model::format::onnx::Given::NONE
        },
        ..Options::default()
    };
    let imported = open(&sample("onnx/stream_spectrum_16000.onnx"), "x.onnx", &options).unwrap().0;
    assert!(imported.notes.iter().all(|note| !note.contains("its weights take")), "{:?}", imported.notes);
    let weights = |cells: &[&str]| -> usize {
        let nodes = imported.model.architecture.nodes.iter().filter(|node| cells.contains(&node.cell.as_str()));
        let of = |name: &str| {
            let own = imported
                .model
                .tensors
                .iter()
                .filter(|(tensor, _)| tensor.split_once('.').is_some_and(|of| of.0 == name));
            own.map(|(_, tensor)| tensor.data.len()).sum::<usize>()
        };
        nodes.map(|node| of(&node.name)).sum()
    };
    assert_eq!(weights(&["slice", "identity", "merge", "activation"]), 0);
    // Reflected edges of the samples and of the means take 72 and 15 positions; the level is subtracted from 72 values.
    assert_eq!(weights(&["gather"]), 72 + 15 + 72);
    // The graph lacks only these products: means over 9 bins, 9 frames and 2 frames, each with or without a
    // bias.
    assert!((9 + 9 + 2..9 + 9 + 2 + 3).contains(&weights(&["dense"])));
}
