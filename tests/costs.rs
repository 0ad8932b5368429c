//! The estimates of `tidegate inspect --for` for single layers, beside the instructions that `cargo xtask icount` counts.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tidegate::internals::cell::CellKind;
use tidegate::{Layout, Numeric};
use tidegate_model::canonical::Canonical;
use tidegate_model::cost::Costs;
use tidegate_model::load::ImageBuffer;
use tidegate_model::pack::pack_with;
use tidegate_model::quantize::Ranges;
use tidegate_tests::bytes::in_bytes;
use tidegate_tests::random::{Draw, Rng, Variant, chain};

/// The bound: a tenth of the count, or the instructions of half a layer of 16 units.
const MOST: f64 = 0.1;
const FEW: f64 = 400.0;

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

fn record(path: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(repository(path)).unwrap()).unwrap()
}

fn costs() -> Costs {
    Costs::from_json(&fs::read_to_string(repository("tools/cli/costs.json")).unwrap()).unwrap()
}

fn layout(name: &str) -> Layout {
    Layout::ALL.into_iter().find(|layout| layout.name() == name).unwrap()
}

fn numeric(name: &str) -> Numeric {
    let all = Numeric::FLOAT.into_iter().chain(Numeric::INTEGER).chain([Numeric::I8]);
    all.into_iter().find(|numeric| numeric.name() == name).unwrap()
}

/// Fails with all estimates that are further off than [`MOST`].
fn hold(estimates: &[(String, f64, f64)]) {
    let off: Vec<String> = estimates
        .iter()
        .filter(|(_, estimate, count)| !((estimate - count).abs() <= (MOST * count).max(FEW)))
        .map(|(name, estimate, count)| {
            format!("{name}: {estimate:.0} estimated, {count:.0} counted, {:+.1} %", 100.0 * (estimate / count - 1.0))
        })
        .collect();
    assert!(off.is_empty(), "{} of {}:\n{}", off.len(), estimates.len(), off.join("\n"));
}

#[test]
fn estimates_of_single_layers_are_near_the_counts_of_icount() {
    let costs = costs();
    let (mut models, mut images) = (BTreeMap::new(), BTreeMap::new());
    let mut estimates = Vec::new();
    for figure in record("firmware-examples/expected/icount.json")["figures"].as_array().unwrap() {
        let text = |name: &str| figure[name].as_str().unwrap();
        let number = |name: &str| figure[name].as_f64().unwrap();
        let (cell, size) = (text("cell"), number("hidden") as usize);
        // The figures of an M7 are those of an M4. The FastGRNN of the record multiplies by zeros, which is cheap without an
        // FPU. The model of the LSTM with weights of 16 bits is drawn with other ranges.
        let of_zeros = cell == "fast_grnn" && text("numeric").starts_with('f');
        // Amplifiers have several layers, and their blocks are decoded once.
        let is_amp = number("input") != number("hidden");
        if text("core") == "m7" || cell == "lstm_16_bit" || of_zeros || is_amp {
            continue;
        }
        let (ranges, model) = models.entry((cell, size)).or_insert_with(|| drawn(cell, size));
        let (numeric, layout) = (numeric(text("numeric")), layout(text("layout")));
        let image = images.entry((cell, size, numeric.name(), layout.name())).or_insert_with(|| {
            let bytes = (numeric == Numeric::I8).then(|| in_bytes(model.clone()));
            ImageBuffer::new(&pack_with(bytes.as_ref().unwrap_or(model), numeric, ranges, layout).unwrap())
        });
        let cost = costs.of(&image.model().unwrap(), text("core").trim_end_matches('f')).unwrap();
        assert!(cost.unknown.is_empty(), "{:?}", cost.unknown);
        let name = ["core", "cell", "numeric", "layout"].map(text).join(" ");
        estimates.push((format!("{name} {size}"), cost.step, number("instructions_per_step")));
    }
    assert!(estimates.len() > 500, "{}", estimates.len());
    hold(&estimates);
}

fn drawn(cell: &str, size: usize) -> (Ranges, Canonical) {
    let (kind, options): (_, &[_]) = match cell {
        "gru_reset_after" => (CellKind::Gru, &["reset_after"]),
        _ => (CellKind::from_name(cell).unwrap(), &[]),
    };
    let mut rng = Rng::new(16);
    let model = chain(&mut rng, size, &[(Variant::new(kind, options), size)], Draw { weights: 2.0, biases: true });
    let inputs = rng.numbers(4 * size, 1.0);
    (Ranges::measure(&model, [[inputs.as_slice()].as_slice()]).unwrap(), model)
}
