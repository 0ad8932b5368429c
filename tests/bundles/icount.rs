//! The networks that `cargo xtask icount` counts, with random weights: one recurrent layer each with as many inputs as
//! units, and the models of guitar amplifiers.

use std::io;
use std::path::Path;

use serde_json::{Value, json};
use tidegate::internals::cell::CellKind;
use tidegate::{Layout, Numeric};
use tidegate_model::canonical::Canonical;
use tidegate_model::format::import_bytes_with;
use tidegate_model::load::ImageBuffer;
use tidegate_model::pack::{PackError, pack_with};
use tidegate_model::quantize::Ranges;
use tidegate_tests::bytes::in_bytes;
use tidegate_tests::import::ALONE;
use tidegate_tests::random::{Draw, Rng, Variant, chain};

use crate::Bundle;

/// Name in the table, cell and options.
const CELLS: [(&str, CellKind, &[&str]); 7] = [
    ("lstm", CellKind::Lstm, &[]),
    ("gru", CellKind::Gru, &[]),
    ("gru_reset_after", CellKind::Gru, &["reset_after"]),
    ("elman", CellKind::Elman, &[]),
    ("fast_grnn", CellKind::FastGrnn, &[]),
    ("min_gru", CellKind::MinGru, &[]),
    (WIDE, CellKind::Lstm, &[]),
];
/// An LSTM whose weights have 16 bits in `i8x16`; it is packed in that numeric alone.
const WIDE: &str = "lstm_16_bit";
const SIZES: [usize; 4] = [16, 32, 64, 128];
/// Units of the LSTM of an amplifier, which has one input and one output.
const AMP_UNITS: usize = 12;
/// Samples that an amplifier processes together, a millisecond at 48 kHz, as in `firmware-examples/src/bin/icount.rs`.
const BLOCK: usize = 48;
/// The numerics of the amplifiers.
const OF_AMPS: [Numeric; 2] = [Numeric::F32, Numeric::I8x16];
/// Steps for each measurement. A tick of the timer is 40 instructions, or 5 instructions per step.
const STEPS: u32 = 8;

/// A network and the ranges of its values.
pub struct Network {
    cell: &'static str,
    inputs: usize,
    units: usize,
    /// Steps of a call that is counted: those of a block of an amplifier, otherwise 1.
    samples: usize,
    model: Canonical,
    ranges: Ranges,
    /// The same model for 8-bit integers, if the cell has that form.
    in_bytes: Option<Canonical>,
    /// The only numerics to count, or none to count all.
    numerics: &'static [Numeric],
}

/// All networks that are counted.
pub fn networks() -> Vec<Network> {
    let mut rng = Rng::new(16);
    let pairs = CELLS.iter().flat_map(|cell| SIZES.map(|size| (cell, size)));
    let mut all: Vec<_> = pairs
        .map(|(&(cell, kind, options), size)| {
            let draw = Draw { weights: 2.0, biases: true };
            let model = chain(&mut rng, size, &[(Variant::new(kind, options), size)], draw);
            let inputs = rng.numbers(100 * size, 1.0);
            let mut ranges = Ranges::measure(&model, [[inputs.as_slice()].as_slice()]).expect("a drawn model runs");
            if cell == WIDE {
                ranges.add_wide(model.architecture.nodes.iter().map(|node| node.name.clone()));
            }
            let in_bytes = (kind == CellKind::Lstm && cell != WIDE).then(|| in_bytes(model.clone()));
            let numerics: &[_] = if cell == WIDE { &[Numeric::I8x16] } else { &[] };
            Network { cell, inputs: size, units: size, samples: 1, model, ranges, in_bytes, numerics }
        })
        .collect();
    all.extend([("guitarml_lstm", guitarml(&mut rng)), ("nam_lstm", nam(&mut rng))].map(|(cell, file)| {
        let bytes = serde_json::to_vec(&file).expect("a file in JSON");
        let model = import_bytes_with(&bytes, cell, &ALONE).expect("the importer knows the form").model;
        let inputs = rng.numbers(1000, 1.0);
        let ranges = Ranges::measure(&model, [[inputs.as_slice()].as_slice()]).expect("an imported model runs");
        Network { cell, inputs: 1, units: AMP_UNITS, samples: BLOCK, model, ranges, in_bytes: None, numerics: &OF_AMPS }
    }));
    all
}

/// A GuitarML file: an LSTM, and a dense layer with one output, to which the input is added.
fn guitarml(rng: &mut Rng) -> Value {
    let rows = 4 * AMP_UNITS;
    let mut matrix = |rows: usize, cols: usize| (0..rows).map(|_| rng.numbers(cols, 0.5)).collect::<Vec<_>>();
    let [input, recurrent, head] = [matrix(rows, 1), matrix(rows, AMP_UNITS), matrix(1, AMP_UNITS)];
    let settings = json!({
        "model": "SimpleRNN", "unit_type": "LSTM", "input_size": 1, "hidden_size": AMP_UNITS, "output_size": 1,
        "num_layers": 1, "skip": 1, "bias_fl": true,
    });
    let tensors = json!({
        "rec.weight_ih_l0": input, "rec.weight_hh_l0": recurrent, "lin.weight": head,
        "rec.bias_ih_l0": rng.numbers(rows, 0.5), "rec.bias_hh_l0": rng.numbers(rows, 0.5),
        "lin.bias": rng.numbers(1, 0.5),
    });
    json!({"model_data": settings, "state_dict": tensors})
}

/// A file of Neural Amp Modeler: an LSTM with an initial state, and a dense layer with one output.
fn nam(rng: &mut Rng) -> Value {
    let rows = 4 * AMP_UNITS;
    // Weights and biases of the rows, the initial state, weights and bias of the head.
    let weights = rows * (1 + AMP_UNITS) + rows + 2 * AMP_UNITS + AMP_UNITS + 1;
    json!({
        "version": "0.5.0", "architecture": "LSTM", "weights": rng.numbers(weights, 0.5),
        "config": {"input_size": 1, "hidden_size": AMP_UNITS, "num_layers": 1},
    })
}

/// Writes each network in each layout that its numeric has. The line of text holds the columns of the table: cell,
/// numeric, layout, inputs, units, steps of a call, multiply-accumulates of a step, bytes of the image.
pub fn write(folder: &Path, networks: &[Network], layouts: &[Layout]) -> io::Result<()> {
    let mut bundle = Bundle::new(STEPS);
    // Amplifiers are counted on the cores with this layout: other cores are too slow for them, and a trace would be long.
    let has_amps = layouts.contains(&Layout::CortexM4);
    for network in networks.iter().filter(|network| network.samples == 1 || has_amps) {
        let of_floats = Numeric::FLOAT.into_iter().chain(Numeric::INTEGER);
        let bytes = network.in_bytes.iter().map(|model| (Numeric::I8, model));
        for (numeric, model) in of_floats.map(|numeric| (numeric, &network.model)).chain(bytes) {
            if !network.numerics.is_empty() && !network.numerics.contains(&numeric) {
                continue;
            }
            for &layout in layouts.iter().filter(|layout| layout.is_of(numeric)) {
                let image = match pack_with(model, numeric, &network.ranges, layout) {
                    Ok(image) => ImageBuffer::new(&image),
                    // A cell without a form in a numeric has no figures for this numeric.
                    Err(PackError::Quantize(_)) => continue,
                    Err(error) => panic!("{} {}: {error}", network.cell, numeric.name()),
                };
                let model = image.model().expect("the packer's images are valid");
                let macs: usize = model.nodes().map(|node| node.macs()).sum();
                let (Network { cell, inputs, units, samples, .. }, bytes) = (network, image.bytes().len());
                let names = [cell, numeric.name(), layout.name()].join(" ");
                let line = format!("{names} {inputs} {units} {samples} {macs} {bytes}");
                bundle.push(image.bytes(), &[], &line);
            }
        }
    }
    bundle.write(folder, "icount")
}
