//! The networks that `cargo xtask icount` counts: one recurrent layer each, with as many inputs as units and random
//! weights.

use std::io;
use std::path::Path;

use tidegate::internals::cell::CellKind;
use tidegate::{Layout, Numeric};
use tidegate_model::canonical::Canonical;
use tidegate_model::load::ImageBuffer;
use tidegate_model::pack::{PackError, pack_with};
use tidegate_model::quantize::Ranges;
use tidegate_tests::bytes::in_bytes;
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
/// Steps for each measurement. A tick of the timer is 40 instructions, or 5 instructions per step.
const STEPS: u32 = 8;

/// A layer and the ranges of its values.
pub struct Network {
    cell: &'static str,
    size: usize,
    model: Canonical,
    ranges: Ranges,
    /// The same model for 8-bit integers, if the cell has that form.
    in_bytes: Option<Canonical>,
}

/// All networks that are counted.
pub fn networks() -> Vec<Network> {
    let mut rng = Rng::new(16);
    let pairs = CELLS.iter().flat_map(|cell| SIZES.map(|size| (cell, size)));
    pairs
        .map(|(&(cell, kind, options), size)| {
            let draw = Draw { weights: 2.0, biases: true };
            let model = chain(&mut rng, size, &[(Variant::new(kind, options), size)], draw);
            let inputs = rng.numbers(100 * size, 1.0);
            let mut ranges = Ranges::measure(&model, [[inputs.as_slice()].as_slice()]).expect("a drawn model runs");
            if cell == WIDE {
                ranges.add_wide(model.architecture.nodes.iter().map(|node| node.name.clone()));
            }
            let in_bytes = (kind == CellKind::Lstm && cell != WIDE).then(|| in_bytes(model.clone()));
            Network { cell, size, model, ranges, in_bytes }
        })
        .collect()
}

/// Writes each network in each layout that its numeric has. The line of text holds the columns of the table: cell,
/// numeric, layout, size, multiply-accumulates of a step, bytes of the image.
pub fn write(folder: &Path, networks: &[Network], layouts: &[Layout]) -> io::Result<()> {
    let mut bundle = Bundle::new(STEPS);
    for network in networks {
        let of_floats = Numeric::FLOAT.into_iter().chain(Numeric::INTEGER);
        let bytes = network.in_bytes.iter().map(|model| (Numeric::I8, model));
        for (numeric, model) in of_floats.map(|numeric| (numeric, &network.model)).chain(bytes) {
            if network.cell == WIDE && numeric != Numeric::I8x16 {
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
                let (size, bytes) = (network.size, image.bytes().len());
                let line = format!("{} {} {} {size} {macs} {bytes}", network.cell, numeric.name(), layout.name());
                bundle.push(image.bytes(), &[], &line);
            }
        }
    }
    bundle.write(folder, "icount")
}
