//! Replays the corpora of the fuzz targets `image_parse` and `parse_then_step` on stable Rust, and runs seeded
//! mutations of their images.
//!
//! The seeds are images that the packer writes here, in memory. `tests/fuzz/corpus/image_parse.sha256` records their
//! digests. After a change to the format or the packer, this command records the digests of all fuzz targets and
//! `core/examples/kws.tgi` again:
//!
//! ```text
//! cargo test --release -p tidegate-tests -- --ignored regenerate
//! ```
//!
//! The same command writes the inputs that `cargo xtask fuzz` starts from to `target/fuzz/TARGET`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use tidegate::internals::{activation::Activation, cell::CellKind, image::field::header};
use tidegate::{Layout, Model, Numeric, SectionKind};
use tidegate_model::canonical::Canonical;
use tidegate_model::pack::{pack, pack_with};
use tidegate_model::quantize::Ranges;
use tidegate_tests::bytes::in_bytes;
use tidegate_tests::corpus::Corpus;
use tidegate_tests::fields::{put16, put32, section_of, u32_at};
use tidegate_tests::fuzz::{Outcome, flag, image_parse, parse_then_step};
use tidegate_tests::images::{AlignedBytes, small_models, whole};
use tidegate_tests::random::{Draw, Rng, Variant, chain};

/// Every integer numeric in every layout that it has.
fn integers() -> impl Iterator<Item = (Numeric, Layout)> {
    let all = Numeric::INTEGER.into_iter().flat_map(|numeric| Layout::ALL.map(|layout| (numeric, layout)));
    all.filter(|(numeric, layout)| layout.is_of(*numeric))
}

/// Small models that have a form in `i8`: each cell with its default activations, a classifier, a table, and a sum.
fn in_i8() -> Vec<(String, Canonical)> {
    let cells = [("lstm", 3), ("dense", 5), ("softmax", 5)].map(|(cell, units)| (Variant::plain(cell), units));
    let classifier = chain(&mut Rng::new(12), 3, &cells, Draw { weights: 1.0, biases: true });
    let is_default =
        |(_, model): &(String, Canonical)| model.architecture.nodes.iter().all(|of| of.activations.is_empty());
    let curve = Variant::plain("activation").activation("activation", Activation::Sigmoid);
    let curve = chain(&mut Rng::new(13), 3, &[(curve, 3)], Draw { weights: 1.0, biases: true });
    let sum = chain(&mut Rng::new(14), 4, &[(Variant::plain("merge"), 2)], Draw { weights: 1.0, biases: true });
    let others =
        [("classifier", classifier), ("table", curve), ("sum", sum)].map(|(name, model)| (name.to_owned(), model));
    let models = small_models().into_iter().filter(is_default).chain(others);
    models.map(|(name, model)| (name, in_bytes(model))).filter(|(_, model)| pack(model, Numeric::I8).is_ok()).collect()
}

/// Images of these models in every layout.
fn bytes() -> impl Iterator<Item = (String, Vec<u8>)> {
    in_i8().into_iter().flat_map(|(name, model)| {
        Layout::ALL.map(|layout| {
            let image = pack_with(&model, Numeric::I8, &Ranges::default(), layout).expect("the model packs");
            (format!("{name}_{}_{}", Numeric::I8.name(), layout.name()), image)
        })
    })
}

/// Names and images of the seeds: every float numeric, and every integer numeric in every layout for models that have
/// an integer form.
pub fn seeds() -> Vec<(String, Vec<u8>)> {
    let models = small_models();
    let float = models.iter().flat_map(|(name, model)| {
        Numeric::FLOAT
            .map(|numeric| (format!("{name}_{}", numeric.name()), AlignedBytes::pack(model, numeric).get().to_vec()))
    });
    let integer = models.iter().flat_map(|(name, model)| {
        let ranges = Ranges::without_data(model).expect("the model runs on noise");
        integers().filter_map(move |(numeric, layout)| {
            let image = pack_with(model, numeric, &ranges, layout).ok()?;
            Some((format!("{name}_{}_{}", numeric.name(), layout.name()), image))
        })
    });
    float.chain(integer).chain(bytes()).collect()
}

#[test]
fn every_cell_with_an_integer_form_is_among_the_seeds_in_every_layout() {
    let seeds: Vec<Vec<u8>> = seeds().into_iter().map(|(_, image)| image).collect();
    let seeds: Vec<AlignedBytes> = seeds.iter().map(|image| AlignedBytes::new(image)).collect();
    let models: Vec<_> = seeds.iter().map(AlignedBytes::model).filter(|model| model.numeric().is_integer()).collect();
    for kind in CellKind::ALL.iter().filter(|kind| kind.integer_spec().is_some()) {
        for lies in integers() {
            let so = |model: &&Model<'_>| (model.numeric(), model.layout()) == lies;
            let has = models.iter().filter(so).any(|model| model.nodes().any(|node| node.kind == *kind));
            assert!(has, "{} {lies:?}", kind.spec().name);
        }
    }
    for kind in CellKind::ALL.iter().filter(|kind| kind.byte_spec().is_some()) {
        for layout in Layout::ALL {
            let so = |model: &&Model<'_>| (model.numeric(), model.layout()) == (Numeric::I8, layout);
            let has = models.iter().filter(so).any(|model| model.nodes().any(|node| node.kind == *kind));
            assert!(has, "{} in i8, {}", kind.spec().name, layout.name());
        }
    }
}

/// The corpora of both targets. A seed of `parse_then_step` is a byte of flags followed by a seed of `image_parse`, so
/// the digests of the latter cover both.
fn corpora() -> [Corpus; 2] {
    let images: BTreeMap<String, Vec<u8>> = seeds().into_iter().collect();
    let flagged = images.iter().map(|(name, image)| (name.clone(), [&[flag::SEAL], image.as_slice()].concat()));
    let flagged = Corpus { target: "parse_then_step", seeds: flagged.collect() };
    [Corpus { target: "image_parse", seeds: images }, flagged]
}

#[test]
fn the_seeds_are_identical_to_the_packers_output() {
    corpora()[0].is_as_recorded();
}

#[test]
fn the_corpus_of_image_parse_passes() {
    let [images, _] = corpora();
    assert!(images.replay(|data| image_parse(data) == Outcome::Ran) >= images.seeds.len(), "a seed is refused");
    images.mutate(image_parse);
}

#[test]
fn the_corpus_of_parse_then_step_passes() {
    let [_, flagged] = corpora();
    assert!(flagged.replay(|data| parse_then_step(data) == Outcome::Ran) >= flagged.seeds.len(), "a seed is refused");
    flagged.mutate(parse_then_step);
}

/// Runs nodes that random bytes choose, many of each kind.
#[test]
fn nodes_that_random_bytes_choose_run() {
    let mut rng = Rng::new(21);
    let mut tally = BTreeMap::new();
    for (index, kind) in CellKind::ALL.iter().enumerate() {
        // In floats, and in the integer numerics in every layout.
        let integers = integers().filter(|_| kind.integer_spec().is_some());
        let bytes = Layout::ALL.into_iter().map(|layout| (Numeric::I8, layout)).filter(|_| kind.byte_spec().is_some());
        let how = |(numeric, layout): (Numeric, Layout)| {
            let place = |all: &[Layout]| all.iter().position(|of| *of == layout).expect("the layout is in the list");
            let numeric = match numeric {
                Numeric::I4x16 => 1,
                Numeric::I8 => 2,
                _ => 0,
            };
            2 | place(&Layout::ALL) << 2 | numeric << 4
        };
        for how in [0].into_iter().chain(integers.chain(bytes).map(how)) {
            let ran = tally.entry((kind.spec().name, how)).or_insert(0);
            for _ in 0..if cfg!(debug_assertions) { 100 } else { 2000 } {
                let mut data = vec![flag::NODE, index as u8, how as u8 | rng.below(2) as u8];
                data.extend((0..64).map(|_| rng.below(256) as u8));
                *ran += usize::from(parse_then_step(&data) == Outcome::Ran);
            }
        }
    }
    println!("{tally:?}");
    assert!(tally.values().all(|&ran| ran > 5), "{tally:?}");
}

#[test]
#[ignore = "records the digests of the seeds and core/examples/kws.tgi, and writes the seeds to target/fuzz"]
fn regenerate() {
    let [images, flagged] = corpora();
    images.regenerate();
    flagged.write_inputs();
    let image = Path::new(env!("CARGO_MANIFEST_DIR")).join("../core/examples/kws.tgi");
    fs::write(image, AlignedBytes::pack(&whole(), Numeric::F32).get()).expect("the image can be written");
}

/// Fields are set to border values, or bytes to random values, and the checksum is recomputed. The model is refused, or
/// it steps, saves and restores without a panic (`support/fuzz.rs`).
#[test]
fn a_hundred_thousand_mutations_under_a_good_checksum_are_refused_or_harmless() {
    const MUTATIONS: usize = 100_000;
    const BORDERS: [u32; 12] = [0, 1, 2, 3, 4, 15, 16, 255, 1 << 20, 1 << 24, i32::MAX as u32, u32::MAX];
    let mut rng = Rng::new(23);
    let models = small_models();
    let float = models
        .iter()
        .flat_map(|(_, model)| Numeric::FLOAT.map(|numeric| AlignedBytes::pack(model, numeric).get().to_vec()));
    // Every model that has an integer form, in every layout.
    let integer = models.iter().flat_map(|(_, model)| {
        let ranges = Ranges::without_data(model).unwrap();
        let each = Numeric::INTEGER.into_iter().flat_map(|numeric| Layout::ALL.map(|layout| (numeric, layout)));
        let each = each.filter(|&(numeric, layout)| layout.is_of(numeric));
        each.map(|(numeric, layout)| pack_with(model, numeric, &ranges, layout)).collect::<Vec<_>>()
    });
    let integer: Vec<Vec<u8>> = integer.flatten().collect();
    assert!(integer.len() >= 4 * 6, "{}", integer.len());
    let images: Vec<Vec<u8>> = float.chain(integer).chain(bytes().map(|(_, image)| image)).collect();
    let (mut refused, mut too_large, mut ran) = (0, 0, 0);
    for _ in 0..MUTATIONS {
        let mut data = vec![flag::SEAL];
        data.extend(&images[rng.below(images.len())]);
        let bytes = &mut data[1..];
        let (_, weights, weights_len) = section_of(bytes, SectionKind::Weights);
        for _ in 0..1 + rng.below(3) {
            // Weights are seldom changed, because any value is valid.
            let mut at = rng.below(bytes.len());
            if (weights..weights + weights_len).contains(&at) && rng.below(4) > 0 {
                at = header::LEN + rng.below(weights - header::LEN);
            }
            match rng.below(4) {
                0 => bytes[at] = rng.bits() as u8,
                1 => bytes[at] ^= 1 << rng.below(8),
                2 => put16(bytes, at & !1, rng.pick(&BORDERS) as u16),
                _ => {
                    let at = (at & !3).min(bytes.len() - 4);
                    let old = u32_at(bytes, at);
                    let near = [old.wrapping_add(1), old.wrapping_sub(1), old.wrapping_mul(2), old ^ 0x10];
                    let value = if rng.below(2) == 0 { rng.pick(&BORDERS) } else { rng.pick(&near) };
                    put32(bytes, at, value);
                }
            }
        }
        match parse_then_step(&data) {
            Outcome::Refused => refused += 1,
            Outcome::TooLarge => too_large += 1,
            Outcome::Ran => ran += 1,
        }
    }
    println!("{MUTATIONS} mutations: {refused} refused, {too_large} too large to try, {ran} ran");
    assert!(refused > MUTATIONS / 10 && ran > MUTATIONS / 10, "too few mutations are refused or run");
}
