//! One recurrent layer each, input as wide as the state, weights that are not trivial: what `cargo xtask icount` counts.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use tidegate::image::Layout;
use tidegate::{Numeric, cell::CellKind};
use tidegate_tests::random::{Draw, Rng, Variant, chain};
use tidegate_tools::canonical::{Canonical, Integers};
use tidegate_tools::load::ImageBuffer;
use tidegate_tools::pack::{PackError, pack_with};
use tidegate_tools::quantize::Ranges;

use crate::Bundle;

/// What the table calls it, the cell and its options.
const CELLS: [(&str, CellKind, &[&str]); 6] = [
    ("lstm", CellKind::Lstm, &[]),
    ("gru", CellKind::Gru, &[]),
    ("gru_reset_after", CellKind::Gru, &["reset_after"]),
    ("elman", CellKind::Elman, &[]),
    ("fast_grnn", CellKind::FastGrnn, &[]),
    ("min_gru", CellKind::MinGru, &[]),
];
const SIZES: [usize; 4] = [16, 32, 64, 128];
/// Steps that are measured at a time: a tick of the timer, 40 instructions, is 5 of a step.
const STEPS: u32 = 8;

/// A layer and how far its values reach.
pub struct Network {
    cell: &'static str,
    size: usize,
    model: Canonical,
    ranges: Ranges,
    /// The same as a model that is in integers of 8 bits, if it can be.
    in_bytes: Option<Canonical>,
}

/// All of them.
pub fn networks() -> Vec<Network> {
    let mut rng = Rng::new(16);
    let pairs = CELLS.iter().flat_map(|cell| SIZES.map(|size| (cell, size)));
    pairs
        .map(|(&(cell, kind, options), size)| {
            let draw = Draw { weights: 2.0, biases: true };
            let model = chain(&mut rng, size, &[(Variant::new(kind, options), size)], draw);
            let inputs = rng.numbers(100 * size, 1.0);
            let ranges = Ranges::measure(&model, [[inputs.as_slice()].as_slice()]).expect("a drawn model runs");
            let in_bytes = (kind == CellKind::Lstm).then(|| in_bytes(model.clone()));
            Network { cell, size, model, ranges, in_bytes }
        })
        .collect()
}

/// An LSTM as a converter for TFLite would make it, whose units are powers of two: 2^-7 of what comes in and goes out, 2^-5 of
/// weights, 2^-11 of the cell state.
fn in_bytes(mut model: Canonical) -> Canonical {
    const WEIGHT: f32 = 1.0 / 32.0;
    let value = Integers { scale: 1.0 / 128.0, ..Integers::default() };
    let matrices = ["input_weights", "recurrent_weights"].map(str::to_owned);
    for name in &matrices {
        let tensor = model.tensors.get_mut(&format!("n0.{name}")).expect("an LSTM has its weights");
        tensor.data.iter_mut().for_each(|weight| *weight = (*weight / WEIGHT).round() * WEIGHT);
    }
    let bias = model.tensors["n0.input_bias"].data.iter().map(|bias| (bias * 4096.0).round() as i32);
    let gates = ["input", "forget", "cell", "output"].into_iter().flat_map(|gate| {
        let of = move |part: &str, what: &str| format!("{gate}_gate_{part}_{what}");
        ["input", "recurrent"].into_iter().flat_map(move |part| [(of(part, "factor"), 1 << 30), (of(part, "shift"), 1)])
    });
    let others = [
        ("cell_bits", 11),
        ("cell_clip", 1 << 15),
        ("factor", 1 << 30),
        ("shift", -22),
        ("least", -128),
        ("most", 127),
    ];
    let node = Integers {
        numbers: gates.chain(others.map(|(name, number)| (name.to_owned(), number))).collect(),
        scales: matrices.map(|name| (name, vec![WEIGHT])).into(),
        rows: BTreeMap::from([("bias".to_owned(), bias.collect())]),
        ..value.clone()
    };
    model.architecture.integers = [("in".to_owned(), value), ("n0".to_owned(), node)].into();
    model
}

/// Each in those of these layouts that its numeric has. A line has what the table says of it: cell, numeric, layout, size,
/// multiply-accumulates of a step.
pub fn write(folder: &Path, networks: &[Network], layouts: &[Layout]) -> io::Result<()> {
    let mut bundle = Bundle::new(STEPS);
    for network in networks {
        let bytes = network.in_bytes.iter().map(|model| (Numeric::I8, model));
        for (numeric, model) in Numeric::ALL.map(|numeric| (numeric, &network.model)).into_iter().chain(bytes) {
            for &layout in layouts.iter().filter(|layout| layout.is_of(numeric)) {
                let image = match pack_with(model, numeric, &network.ranges, layout) {
                    Ok(image) => ImageBuffer::new(&image),
                    // What has no form in a numeric has no figures in it.
                    Err(PackError::Quantize(_)) => continue,
                    Err(error) => panic!("{} {}: {error}", network.cell, numeric.name()),
                };
                let model = image.model().expect("the packer's images are whole");
                let macs: usize = model.nodes().map(|node| node.macs()).sum();
                let line = format!("{} {} {} {} {macs}", network.cell, numeric.name(), layout.name(), network.size);
                bundle.push(image.bytes(), &[], &line);
            }
        }
    }
    bundle.write(folder, "icount")
}
