#![no_main]

//! A frozen TensorFlow 1 graph is imported, or refused in one line. Seeds: `frameworks/tf1_graph`.

use tidegate_tools::format::{graphdef, tf1};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Err(error) = graphdef::decode(data).and_then(|nodes| tf1::import_graph(&nodes, "x", None)) {
        assert!(!error.to_string().contains('\n'), "{error}");
    }
});
