//! Foreign files: every importer, data files, and whole published networks.

#[path = "../data.rs"]
mod data;
#[path = "../denoise.rs"]
mod denoise;
#[path = "../frameworks.rs"]
mod frameworks;
#[path = "../hello_edge.rs"]
mod hello_edge;
#[path = "../hello_edge_integer.rs"]
mod hello_edge_integer;
#[path = "../import.rs"]
mod import;
#[path = "../import_amps.rs"]
mod import_amps;
#[path = "../import_graph.rs"]
mod import_graph;
#[path = "../import_keras.rs"]
mod import_keras;
#[path = "../import_onnx.rs"]
mod import_onnx;
#[path = "../import_onnx_bind.rs"]
mod import_onnx_bind;
#[path = "../import_onnx_choices.rs"]
mod import_onnx_choices;
#[path = "../import_onnx_einsum.rs"]
mod import_onnx_einsum;
#[path = "../import_onnx_files.rs"]
mod import_onnx_files;
#[path = "../import_onnx_rewrite.rs"]
mod import_onnx_rewrite;
#[path = "../import_onnx_states.rs"]
mod import_onnx_states;
#[path = "../import_rnnoise.rs"]
mod import_rnnoise;
#[path = "../import_rtneural.rs"]
mod import_rtneural;
#[path = "../import_tflite.rs"]
mod import_tflite;
#[path = "../import_tflite_cells.rs"]
mod import_tflite_cells;
#[path = "../import_tflite_deployed.rs"]
mod import_tflite_deployed;
#[path = "../import_torch.rs"]
mod import_torch;
#[path = "../integer_calibration.rs"]
mod integer_calibration;
#[path = "../integer_random.rs"]
mod integer_random;
#[path = "../refusals.rs"]
mod refusals;
#[path = "../tf1_checkpoint.rs"]
mod tf1_checkpoint;
#[path = "../tf1_graphs.rs"]
mod tf1_graphs;
#[path = "../wake_word.rs"]
mod wake_word;
