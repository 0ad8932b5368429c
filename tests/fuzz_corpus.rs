//! Replays the fuzz targets' corpora on stable, mutates images as they do, and writes their seeds.
//!
//! `cargo test -p tidegate-tests --test fuzz_corpus -- --ignored` writes the seeds and `data/tiny.tgi` anew, after the
//! format or the packer has changed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use tidegate::cell::CellKind;
use tidegate::image::field::header;
use tidegate::image::{Layout, SectionKind};
use tidegate::{Model, Numeric};
use tidegate_tests::bytes::in_bytes;
use tidegate_tests::fields::{put16, put32, section_of, u32_at};
use tidegate_tests::fuzz::{Outcome, flag, image_parse, parse_then_step};
use tidegate_tests::images::{AlignedBytes, small_models, whole};
use tidegate_tests::random::{Draw, Rng, Variant, chain};
use tidegate_tools::canonical::Canonical;
use tidegate_tools::pack::{pack, pack_with};
use tidegate_tools::quantize::Ranges;

fn folder(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target)
}

/// Every integer numeric in every layout that it has.
fn integers() -> impl Iterator<Item = (Numeric, Layout)> {
    let all = Numeric::INTEGER.into_iter().flat_map(|numeric| Layout::ALL.map(|layout| (numeric, layout)));
    all.filter(|(numeric, layout)| layout.is_of(*numeric))
}

/// Small models that have a form in `i8`: each cell, with its default activations, and a classifier.
fn in_i8() -> Vec<(String, Canonical)> {
    let cells = [("lstm", 3), ("dense", 5), ("softmax", 5)].map(|(cell, units)| (Variant::plain(cell), units));
    let classifier = chain(&mut Rng::new(12), 3, &cells, Draw { weights: 1.0, biases: true });
    let is_default =
        |(_, model): &(String, Canonical)| model.architecture.nodes.iter().all(|of| of.activations.is_empty());
    let models = small_models().into_iter().filter(is_default).chain([("classifier".to_owned(), classifier)]);
    models.map(|(name, model)| (name, in_bytes(model))).filter(|(_, model)| pack(model, Numeric::I8).is_ok()).collect()
}

/// The same in every layout.
fn bytes() -> impl Iterator<Item = (String, Vec<u8>)> {
    in_i8().into_iter().flat_map(|(name, model)| {
        Layout::ALL.map(|layout| {
            let image = pack_with(&model, Numeric::I8, &Ranges::default(), layout).expect("it packs in one of them");
            (format!("{name}_{}_{}", Numeric::I8.name(), layout.name()), image)
        })
    })
}

/// The seeds of both targets: file name, image. Integers in every layout, of every model that has an integer form.
fn seeds() -> Vec<(String, Vec<u8>)> {
    let models = small_models();
    let float = models.iter().flat_map(|(name, model)| {
        Numeric::FLOAT
            .map(|numeric| (format!("{name}_{}", numeric.name()), AlignedBytes::pack(model, numeric).get().to_vec()))
    });
    let integer = models.iter().flat_map(|(name, model)| {
        let ranges = Ranges::from_noise(model).expect("noise goes in");
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

fn with_flags(image: &[u8]) -> Vec<u8> {
    [&[flag::SEAL], image].concat()
}

fn replay(target: &str, body: fn(&[u8]) -> Outcome) {
    let mut files: Vec<PathBuf> = fs::read_dir(folder(target))
        .expect("the corpus is there")
        .map(|entry| entry.expect("the corpus can be read").path())
        .collect();
    files.sort();
    let mut ran = 0;
    for path in &files {
        println!("{}", path.display()); // the last line names the culprit
        ran += usize::from(body(&fs::read(path).expect("the file can be read")) == Outcome::Ran);
    }
    println!("{target}: {} files, {ran} are images that step", files.len());
    assert!(ran >= seeds().len(), "{ran} of {} seeds are images", seeds().len());
}

#[test]
fn the_corpus_of_image_parse_passes() {
    replay("image_parse", image_parse);
}

#[test]
fn the_corpus_of_parse_then_step_passes() {
    replay("parse_then_step", parse_then_step);
}

/// Bytes that choose nodes, many of each kind.
#[test]
fn nodes_that_bytes_choose_run() {
    let mut rng = Rng::new(21);
    let mut tally = BTreeMap::new();
    for (index, kind) in CellKind::ALL.iter().enumerate() {
        // In floats, and in the integer numerics in every layout.
        let integers = integers().filter(|_| kind.integer_spec().is_some());
        let bytes = Layout::ALL.into_iter().map(|layout| (Numeric::I8, layout)).filter(|_| kind.byte_spec().is_some());
        let how = |(numeric, layout): (Numeric, Layout)| {
            let place = |all: &[Layout]| all.iter().position(|of| *of == layout).expect("one of all");
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
fn the_seeds_are_what_the_packer_writes_today() {
    for (name, image) in seeds() {
        for (target, bytes) in [("image_parse", image.clone()), ("parse_then_step", with_flags(&image))] {
            let path = folder(target).join(&name);
            assert!(fs::read(&path).is_ok_and(|found| found == bytes), "{} is stale: see the top", path.display());
        }
    }
}

#[test]
#[ignore = "writes the seeds and data/tiny.tgi into the repository"]
fn regenerate() {
    for (name, image) in seeds() {
        for (target, bytes) in [("image_parse", image.clone()), ("parse_then_step", with_flags(&image))] {
            fs::create_dir_all(folder(target)).expect("the folder can be made");
            fs::write(folder(target).join(&name), bytes).expect("the file can be written");
        }
    }
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("data");
    fs::create_dir_all(&data).expect("the folder can be made");
    fs::write(data.join("tiny.tgi"), AlignedBytes::pack(&whole(), Numeric::F32).get()).expect("it can be written");
}

/// Fields are set to values that lie on some border, or bytes to anything; then the checksum is made good. The model
/// is refused, or steps, saves and restores without a panic (`support/fuzz.rs`).
#[test]
fn a_hundred_thousand_mutations_under_a_good_checksum_are_refused_or_harmless() {
    const MUTATIONS: usize = 100_000;
    const BORDERS: [u32; 12] = [0, 1, 2, 3, 4, 15, 16, 255, 1 << 20, 1 << 24, i32::MAX as u32, u32::MAX];
    let mut rng = Rng::new(23);
    let models = small_models();
    let float = models
        .iter()
        .flat_map(|(_, model)| Numeric::FLOAT.map(|numeric| AlignedBytes::pack(model, numeric).get().to_vec()));
    // Those that have an integer form, in any layout.
    let integer = models.iter().flat_map(|(_, model)| {
        let ranges = Ranges::from_noise(model).unwrap();
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
            // Seldom a weight: those are arbitrary anyway.
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
    assert!(refused > MUTATIONS / 10 && ran > MUTATIONS / 10, "the mutations miss the point");
}
