//! TFLite files whose recurrent layers a converter has taken apart: loops over time, single operators with states as
//! ports, and integer weights beside floats. The files are those of `tests/frameworks/tflite_cells.py` and
//! `tflite_torch.py`.

use std::fs;
use std::path::{Path, PathBuf};

use tidegate::Numeric;
use tidegate_model::backend::Engine;
use tidegate_model::canonical::{Canonical, Tensor};
use tidegate_model::data::read_tensors;
use tidegate_model::error::ImportError;
use tidegate_model::format::onnx::Given;
use tidegate_model::format::{Imported, Options, import_bytes_with};
use tidegate_model::runner;
use tidegate_tests::images::AlignedBytes;
use tidegate_tests::import::{self, ALONE, sample};
use tidegate_tests::oracle::{Bounded, Oracle};
use tidegate_tests::tflite::{Places, by_input};
use tidegate_tests::tolerance::{worse, worst};

const TOLERANCE: f32 = 1e-6;

fn file(name: &str) -> Vec<u8> {
    sample(&format!("tflite/{name}.tflite"))
}

fn imported(name: &str) -> Imported {
    import_bytes_with(&file(name), "x.tflite", &ALONE).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Steps of each sequence and the interpreter's outputs.
fn recorded(name: &str) -> Vec<(Vec<f32>, Vec<f32>)> {
    let read = |end: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("frameworks/tflite/{name}.{end}.safetensors"));
        let Tensor { shape, data } = read_tensors(&path).unwrap().pop_first().unwrap().1;
        data.chunks(data.len() / shape[0]).map(<[f32]>::to_vec).collect::<Vec<_>>()
    };
    read("in").into_iter().zip(read("out")).collect()
}

fn names(begin: &str) -> Vec<String> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("frameworks/tflite");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = files
        .filter_map(|name| name.strip_suffix(".out.safetensors").map(str::to_owned))
        .filter(|name| name.starts_with(begin))
        .collect();
    names.sort();
    names
}

/// The last outputs, as many as are expected, of both engines.
fn outputs(model: &Canonical, input: &[f32], expected: usize) -> [Vec<f32>; 2] {
    let image = AlignedBytes::pack(model, Numeric::F32);
    let model = image.model();
    let inputs = by_input(&model, input);
    let inputs: Vec<&[f32]> = inputs.iter().map(Vec::as_slice).collect();
    [Engine::from(&model), Engine::fused(&model)].map(|engine| {
        let given = runner::run(engine, &inputs, None).unwrap().outputs.remove(0);
        given[given.len() - expected..].to_vec()
    })
}

/// The greatest difference from the interpreter, relative to the largest value if that exceeds 1.
fn far_from_recorded(name: &str, model: &Canonical) -> f32 {
    worst(recorded(name).iter().flat_map(|(input, expected)| {
        let size = worse(1.0, worst(expected.iter().map(|value| value.abs())));
        outputs(model, input, expected.len())
            .map(|given| worst(given.iter().zip(expected).map(|(a, b)| (a - b).abs() / size)))
    }))
}

#[test]
fn layers_that_are_taken_apart_are_within_1e_6_of_the_interpreter() {
    let mut most = 0.0_f32;
    let all = [
        "float_while",
        "float_unrolled",
        "float_words",
        "float_gated",
        "float_ports",
        "float_pools",
        "float_layer_norm",
        "float_two_inputs",
        "float_torch",
    ]
    .map(names)
    .concat();
    for name in &all {
        let far = far_from_recorded(name, &imported(name).model);
        assert!(far <= TOLERANCE, "{name}: {far:e}");
        most = worse(most, far);
    }
    println!("worst error of {} models: {most:.2e}", all.len());
    assert!(all.len() >= 40, "{all:?}");
}

#[test]
fn layers_that_are_taken_apart_become_cells() {
    for (name, cells) in [
        ("float_while_lstm", "lstm dense"),
        ("float_while_stack", "lstm gru elman dense"),
        ("float_while_stateful", "lstm dense"),
        ("float_while_half", "lstm dense"),
        ("float_while_one_step", "lstm dense"),
        ("float_ports_lstm", "lstm dense"),
        ("float_ports_gru", "gru gru dense"),
        ("float_ports_torch_lstm", "lstm dense"),
        ("float_ports_torch_gru", "gru dense"),
        ("float_ports_torch_stacked", "lstm gru dense"),
        ("float_ports_torch_layer", "gru dense activation"),
        ("float_ports_torch_alike", "gru dense"),
        ("float_ports_mask", "lstm lstm dense activation"),
        ("float_layer_norm", "layer_norm elman"),
        ("float_unrolled_lstm", "lstm dense"),
        ("float_unrolled_stack", "lstm gru elman dense"),
        ("float_unrolled_gru_reset_before", "gru dense"),
        ("float_unrolled_bidirectional", "window lstm lstm identity dense activation"),
        ("float_unrolled_batch", "lstm dense"),
        ("float_unrolled_hard", "lstm dense"),
        ("float_unrolled_by_hand", "gru dense"),
        ("float_unrolled_torch_lstm", "lstm dense"),
        ("float_unrolled_torch_gru", "gru gru dense"),
        ("float_unrolled_torch_rnn", "window elman elman identity dense"),
        ("float_unrolled_torch_dense", "dense activation lstm dense"),
        ("float_words_while", "embedding lstm dense"),
        ("float_while_conv_both_ways", "window conv lstm lstm identity dense"),
        ("float_while_conv_norm", "window conv layer_norm activation gru dense"),
        ("float_while_repeat", "lstm repeat gru dense"),
        (
            "float_gated_same",
            "window conv scale activation conv scale activation merge dense merge \
             conv scale activation conv scale activation merge dense merge gru dense",
        ),
        ("float_while_tags", "window gru gru identity dense softmax"),
        ("float_while_log", "merge scale activation lstm dense"),
        ("float_while_hard_of_keras_2", "lstm dense"),
        ("float_words_unrolled", "embedding gru dense"),
        ("float_distributed_last", "conv pool dense activation lstm dense"),
        ("float_distributed_steps_of_keras_2", "conv pool dense activation lstm dense"),
        ("float_distributed_both_ways", "window conv pool dense activation gru gru identity dense"),
        ("float_weighed_steps", "dense scale dense activation gather merge gru dense"),
        ("float_normed_steps", "layer_norm lstm layer_norm dense"),
        ("float_normed_then_scaled", "layer_norm scale lstm dense"),
    ] {
        let model = imported(name).model;
        let found: Vec<&str> = model.architecture.nodes.iter().map(|node| node.cell.as_str()).collect();
        assert_eq!(found.join(" "), cells, "{name}");
    }
}

/// Steps that are no recurrent layer with states of zeros over a whole sequence.
#[test]
fn other_steps_than_those_of_an_unrolled_layer_are_refused_with_the_reason() {
    for (name, reason) in [
        ("order", "steps are used in another order than the sequence's"),
        ("part", "4 steps of a sequence are used, but not all"),
        ("initial", "the first step is not that of the same cell with states of zeros"),
        ("weights", "the first step is not that of the same cell with states of zeros"),
    ] {
        let refused = import_bytes_with(&file(&format!("refused_unrolled_{name}")), "x.tflite", &ALONE);
        let text = import::line(&refused.map(drop).expect_err(name), 512);
        assert!(text.contains(&format!("ends steps that do not form an unrolled layer: {reason}; ")), "{name}: {text}");
        assert!(text.contains("convert the network without unroll=True"), "{name}: {text}");
    }
    let refused = import_bytes_with(&file("refused_unrolled_state"), "x.tflite", &ALONE);
    let text = import::line(&refused.map(drop).expect_err("a cell state"), 512);
    assert!(
        text.contains("the last cell state of a recurrent layer, is an output; export the network without"),
        "{text}"
    );
}

/// Keras 2 writes both normalizations alike, except for the number of rows.
#[test]
fn a_normalization_over_all_steps_is_refused() {
    let refused = import_bytes_with(&file("refused_norm_of_all_steps"), "x.tflite", &ALONE);
    let text = import::line(&refused.map(drop).expect_err("a normalization over all steps"), 512);
    assert!(text.contains("it goes over [0, 1, 2] of [1, 18, 1, 1], which is not supported"), "{text}");
}

/// Every step must be one of the sequence, in order.
#[test]
fn repeated_layers_of_steps_in_another_order_are_refused() {
    let refused = import_bytes_with(&file("refused_distributed_order"), "x.tflite", &ALONE);
    let text = import::line(&refused.map(drop).expect_err("steps in another order"), 512);
    assert!(text.contains("joins steps that do not form an unrolled layer: it packs several values"), "{text}");
    assert!(text.contains("convert the network without unroll=True or TimeDistributed"), "{text}");
}

#[test]
fn other_rows_of_a_reversed_sequence_are_refused() {
    let refused = import_bytes_with(&file("refused_reversed_rows"), "x.tflite", &ALONE);
    let text = import::line(&refused.map(drop).expect_err("other rows"), 512);
    assert!(text.contains("it changes the rows of a sequence in reverse order, which is not supported"), "{text}");
}

/// The layer has the form of a simple recurrent one, and its first input and its output have the same shape.
#[test]
fn a_layer_of_two_inputs_is_no_recurrent_layer() {
    let model = imported("float_two_inputs").model;
    assert_eq!(model.architecture.inputs.len(), 2);
}

/// The interpreter and the formulas in f64 differ by no more than the roundings of both, which are of the same size.
#[test]
fn the_interpreter_is_within_the_bound_of_the_oracle() {
    let mut values = 0;
    for name in ["float_while", "float_unrolled", "float_words", "float_ports"].map(names).concat() {
        let model = imported(&name).model;
        let oracle = Oracle::new(&model);
        let sizes: Vec<usize> = model.architecture.inputs.iter().map(|port| port.size).collect();
        for (input, expected) in recorded(&name) {
            let peak = worst(expected.iter().map(|y| f64::from(y.abs())));
            let mut state = vec![Bounded::exact(0.0); oracle.state_len()];
            let rows = input.chunks(sizes.iter().sum());
            let given: Vec<Bounded> = rows
                .filter_map(|mut row| {
                    let part = |&size: &usize| row.split_off(..size).unwrap_or_default();
                    let parts: Vec<&[f32]> = sizes.iter().map(part).collect();
                    oracle.step(&mut state, &parts)
                })
                .flat_map(|mut outputs| outputs.swap_remove(0))
                .collect();
            for (&value, y) in expected.iter().zip(&given[given.len() - expected.len()..]) {
                let far = (f64::from(value) - y.value).abs();
                let bound = 2.0 * y.error + 4.0 * f64::from(f32::EPSILON) * y.value.abs();
                assert!(far <= bound, "{name}: {far:e} > {bound:e}");
                // A looser bound would prove nothing.
                assert!(bound <= 0.1 * peak, "{name}: a bound of {bound:e} for outputs up to {peak:e}");
                values += 1;
            }
        }
    }
    assert!(values > 500, "{values} values");
}

fn with_states(states: &[(&str, &str)]) -> Options {
    let states = states.iter().map(|&(input, output)| (input.to_owned(), output.to_owned())).collect();
    Options { onnx: Given { states, ..Given::NONE }, ..ALONE }
}

#[test]
fn states_of_equal_shape_without_names_are_fed_back_by_option_only() {
    let import = |states: &[(&str, &str)]| import_bytes_with(&file("states_lstm"), "x.tflite", &with_states(states));
    let refused = |states: &[(&str, &str)]| import::line(&import(states).map(drop).expect_err("it is refused"), 2048);
    let text = refused(&[]);
    assert!(text.contains("give --state in_h0=output_") && text.contains("name every state"), "{text}");
    // States are named by the signature's names, and by the tensors' names.
    for names in [
        [("in_h0", "output_1"), ("in_c0", "output_2")],
        [
            ("serving_default_in_h0:0", "StatefulPartitionedCall_1:1"),
            ("serving_default_in_c0:0", "StatefulPartitionedCall_1:2"),
        ],
    ] {
        let model = import(&names).unwrap_or_else(|error| panic!("{error}")).model;
        assert_eq!(model.architecture.inputs.len(), 1);
        let far = far_from_recorded("states_lstm", &model);
        assert!(far <= TOLERANCE, "{far:e}");
    }
    let swapped = refused(&[("in_h0", "output_2"), ("in_c0", "output_1")]);
    assert!(swapped.contains("no known recurrent cell carries the state \"in_c0\""), "{swapped}");
    // One named state leaves only one possible partner for the other.
    let model = import(&[("in_h0", "output_1")]).unwrap_or_else(|error| panic!("{error}")).model;
    assert!(far_from_recorded("states_lstm", &model) <= TOLERANCE);
    let other = refused(&[("in_h0", "output_0")]);
    assert!(other.contains("they are [1, 4] and [1, 1, 2]"), "{other}");
    let none = refused(&[("h", "output_1")]);
    assert!(none.contains("the graph has no input \"h\""), "{none}");
}

/// A model with bytes overwritten at the position that `place` returns.
fn changed(name: &str, graph: usize, place: impl FnOnce(&Places) -> usize, to: &[u8]) -> Result<(), ImportError> {
    let mut places = Places { bytes: file(name), graph };
    let at = place(&places);
    assert_ne!(&places.bytes[at..at + to.len()], to);
    places.bytes[at..at + to.len()].copy_from_slice(to);
    import_bytes_with(&places.bytes, "x.tflite", &ALONE).map(drop)
}

#[test]
fn loops_that_are_no_cells_are_refused_with_node_and_operator() {
    const UNKNOWN: &str = "no known cell has this form";
    let input = |operator: usize, index: usize| {
        move |at: &Places| at.target(at.field(at.operator(operator), 1)) + 4 + 4 * index
    };
    let output = |index: usize| move |at: &Places| at.target(at.field(at.graph(), 2)) + 4 + 4 * index;
    let code = |operator: usize| move |at: &Places| at.field(at.operator(operator), 0);
    let option = |index: usize| move |at: &Places| at.field(at.options(1), index);
    // The first number of the loop's first state, its input 3.
    let first_state = |at: &Places| {
        let tensor = at.u32(at.target(at.field(at.operator(1), 1)) + 4 + 4 * 3);
        let buffer = at.u32(at.field(at.tensor(tensor), 2));
        at.target(at.field(at.table(at.target(0), 4, buffer), 0)) + 4
    };
    let word = |value: usize| (value as u32).to_le_bytes();
    let lstm = |graph, place: &dyn Fn(&Places) -> usize, to: &[u8]| changed("float_while_lstm", graph, place, to);
    let body = Places { bytes: file("float_while_lstm"), graph: 2 };
    let of =
        |operator: usize, index: usize| body.u32(body.target(body.field(body.operator(operator), 1)) + 4 + 4 * index);
    let result = |operator: usize| body.u32(body.target(body.field(body.operator(operator), 2)) + 4);
    let kind = |operator: usize| body.u32(body.field(body.operator(operator), 0));
    // Operators 9, 10, 12 are the sigmoids of i, f and o, 11 is f c, 13 tanh(g), 15 c', 17 h', 25 the list of outputs.
    for (error, reason) in [
        (lstm(2, &input(11, 1), &word(of(2, 0))), UNKNOWN),
        (lstm(2, &input(17, 1), &word(result(13))), UNKNOWN),
        (lstm(2, &output(3), &word(result(15))), UNKNOWN),
        (lstm(2, &output(4), &word(result(17))), UNKNOWN),
        (lstm(2, &output(2), &word(2)), "is not known"),
        (lstm(2, &code(10), &word(kind(13))), "gates differ in activation"),
        (lstm(2, &code(15), &word(kind(14))), UNKNOWN),
        (lstm(2, &input(0, 1), &word(0)), "ADD"),
        (lstm(2, &input(4, 1), &word(result(1))), "GATHER"),
        (lstm(2, &input(25, 0), &word(result(23))), "CONCATENATION"),
        (lstm(2, &input(20, 0), &word(5)), "SLICE"),
        (lstm(1, &input(0, 0), &word(6)), "LESS"),
        (lstm(0, &option(1), &word(1)), "not all of its 6 inputs"),
        (lstm(0, &option(1), &word(9)), "it has no element 9"),
        (lstm(0, &first_state, &1.5_f32.to_le_bytes()), "does not start at zero"),
    ] {
        let text = import::line(&error.expect_err(reason), 2048);
        let named = text.contains("(op WHILE): ") || reason.contains("element 9");
        assert!(text.contains(reason) && named, "{reason:?} is not in: {text}");
    }
}

/// The quantization step of a row of floats on 8 bits: that of its range, extended to 0. Rounding a value is off by half a
/// step at most, and rounding the zero point by another half.
fn step_of(row: impl Iterator<Item = f64> + Clone) -> f64 {
    (worst(row.clone()) + worst(row.map(|x| -x))) / 255.0
}

#[test]
fn weights_of_int8_beside_floats_are_their_real_values_with_a_note() {
    let Imported { model, notes, .. } = imported("hybrid_dense");
    assert!(notes.iter().any(|note| note.contains("dynamic range quantization")), "{notes:?}");
    let weights = &model.tensors["dense.weights"];
    let [mut rounded, mut most] = [0.0_f64; 2];
    for (input, expected) in recorded("hybrid_dense") {
        let [given, _] = outputs(&model, &input, expected.len());
        for (row, (given, expected)) in input.chunks(32).zip(given.chunks(32).zip(expected.chunks(32))) {
            let step = step_of(row.iter().map(|&x| x.into()));
            for (weights, (a, b)) in weights.data.chunks(32).zip(given.iter().zip(expected)) {
                let bound = weights.iter().map(|weight| f64::from(weight.abs())).sum::<f64>() * step;
                let far = f64::from((a - b).abs());
                assert!(far <= bound, "{far:e} > {bound:e}");
                (rounded, most) = (worse(rounded, far), worse(most, far / bound));
            }
        }
    }
    println!("activations in 8 bits: off by {rounded:.2e} at most, {most:.2} of the bound");
    assert!(rounded > 1e-4, "LiteRT rounds, ours does not");
    assert!(imported("float_while_half").notes.is_empty());
}

/// LiteRT rounds x and h before each product: the oracle's bound for values that are known to a step.
#[test]
fn recurrent_layers_of_int8_beside_floats_are_within_the_rounding_of_activations() {
    for name in ["hybrid_while_lstm", "hybrid_ports_mask"] {
        let model = imported(name).model;
        let (oracle, features) = (Oracle::new(&model), model.architecture.inputs[0].size);
        let lstm = &model.architecture.nodes[0];
        let (units, [mut most, mut widest]) = (lstm.hidden_size, [0.0_f64; 2]);
        for (input, expected) in recorded(name) {
            let mut state = vec![Bounded::exact(0.0); oracle.state_len()];
            for (x, expected) in input.chunks(features).zip(expected.chunks(model.architecture.outputs[0].size)) {
                let hidden = &state[..units];
                let step =
                    step_of(hidden.iter().map(|h| h.value + h.error).chain(hidden.iter().map(|h| h.value - h.error)));
                for h in &mut state[..units] {
                    *h = Bounded::new(h.value, h.error + step);
                }
                let step = step_of(x.iter().map(|&x| x.into()));
                let x = x.iter().map(|&x| Bounded::new(x.into(), step)).collect();
                let y = oracle.step_within(&mut state, vec![x]).unwrap().remove(0);
                for (y, &value) in y.iter().zip(expected) {
                    let far = (f64::from(value) - y.value).abs();
                    assert!(far <= y.error, "{name}: {far:e} > {:e}", y.error);
                    [most, widest] = [worse(most, far), worse(widest, y.error)];
                }
            }
        }
        println!("{name}: off by {most:.2e} at most, the bound is {widest:.2e} at most");
        assert!(most > 1e-5 && widest < 0.1, "LiteRT rounds, ours does not, and the bound says something");
    }
}
