//! Images that are parsed in the family of another model: those with the same cells are read as by `Model::parse`, all
//! others are refused.

use tidegate::internals::image::field::header;
use tidegate::internals::write::seal;
use tidegate::{ImageBytes, ImageError, Layout, Model, Numeric, State};
use tidegate_model::canonical::Canonical;
use tidegate_model::pack::pack_with;
use tidegate_model::quantize::Ranges;
use tidegate_tests::images::AlignedBytes;
use tidegate_tests::network::{drawn, node, with};
use tidegate_tests::random::{Draw, Rng};

const DRAW: Draw = Draw { weights: 1.0, biases: true };

fn network(cell: &str, options: &[&str], units: usize, seed: u64) -> Canonical {
    let first = with(node("first", cell, "in", [6, units, units], &[]), options);
    drawn(&mut Rng::new(seed), vec![first, node("dense", "dense", "first", [units, 5, 5], &[])], DRAW)
}

fn packed(model: &Canonical, numeric: Numeric, layout: Layout) -> AlignedBytes {
    let seen = Rng::new(4).numbers(96, 1.0);
    let ranges = Ranges::measure(model, [[seen.as_slice()].as_slice()]).unwrap();
    AlignedBytes::new(&pack_with(model, numeric, &ranges, layout).unwrap())
}

fn outputs(model: &Model<'_>) -> Vec<u32> {
    let (mut memory, mut scratch) = (vec![0; model.state_words()], vec![0; model.scratch_words()]);
    let mut state = State::new(model, &mut memory).unwrap();
    let (mut y, mut all) = (vec![0.0; model.output_size()], Vec::new());
    for input in Rng::new(9).numbers(60, 1.0).chunks(6) {
        assert!(model.step_f32(&mut state, &mut scratch, input, &mut y).unwrap().has_output());
        all.extend(y.iter().map(|y| y.to_bits()));
    }
    all
}

#[test]
fn images_with_the_same_cells_are_read_and_others_are_refused() {
    for numeric in [Numeric::F32, Numeric::I8x16] {
        let own = packed(&network("gru", &[], 8, 1), numeric, Layout::Portable);
        let family = own.model().family().unwrap();
        // Other weights and another size.
        for (units, seed) in [(8, 2), (12, 3)] {
            let image = packed(&network("gru", &[], units, seed), numeric, Layout::Portable);
            let model = Model::parse_in(image.image(), &family).unwrap();
            assert_eq!(outputs(&model), outputs(&image.model()), "{units} units in {numeric:?}");
        }
        for (cell, options) in [("gru", &["reset_after"][..]), ("lstm", &[]), ("gru", &["masked"])] {
            let image = packed(&network(cell, options, 8, 4), numeric, Layout::Portable);
            let refused = Model::parse_in(image.image(), &family).err();
            assert!(matches!(refused, Some(ImageError::OtherFamily { node: 0, .. })), "{refused:?}");
        }
    }
    let own = packed(&network("gru", &[], 8, 1), Numeric::I8x16, Layout::Portable);
    let family = own.model().family().unwrap();
    let floats = packed(&network("gru", &[], 8, 1), Numeric::F32, Layout::Portable);
    let refused = Model::parse_in(floats.image(), &family).err();
    assert_eq!(refused, Some(ImageError::UnsupportedNumeric { found: Numeric::F32.code() }));
    let other = packed(&network("gru", &[], 8, 1), Numeric::I8x16, Layout::CortexM4);
    let refused = Model::parse_in(other.image(), &family).err();
    assert_eq!(refused, Some(ImageError::UnsupportedLayout { found: Layout::CortexM4.code() }));
}

#[test]
fn a_family_reads_no_image_that_the_whole_runtime_refuses() {
    for numeric in [Numeric::F32, Numeric::I8x16] {
        let own = packed(&network("gru", &[], 4, 1), numeric, Layout::Portable);
        let family = own.model().family().unwrap();
        let mut image = AlignedBytes::new(own.get());
        let (mut both, mut neither) = (0, 0);
        for byte in header::LEN..own.get().len() {
            for bit in 0..8 {
                image.get_mut()[byte] ^= 1 << bit;
                seal(image.get_mut());
                let bytes = || ImageBytes::new(image.get()).unwrap();
                match (Model::parse(bytes()), Model::parse_in(bytes(), &family)) {
                    (Ok(_), Ok(_)) => both += 1,
                    (Err(one), Err(other)) if one == other => neither += 1,
                    // A cell that is not in the family is refused before the rest is checked.
                    (_, Err(ImageError::OtherFamily { .. })) => neither += 1,
                    (any, own) => panic!("bit {bit} of byte {byte}: {:?} and {:?}", any.err(), own.err()),
                }
                image.get_mut()[byte] ^= 1 << bit;
            }
        }
        assert!(both > 300 && neither > 300, "{both} and {neither}");
    }
}

#[test]
fn a_family_has_at_most_sixteen_cells() {
    let lstm = [&[][..], &["peephole"], &["coupled"], &["masked"], &["coupled", "peephole"], &["peephole", "masked"]];
    let lstm = lstm.into_iter().chain([&["coupled", "masked"][..], &["coupled", "peephole", "masked"]]);
    let gru = [&[][..], &["reset_after"], &["masked"], &["reset_after", "masked"]];
    let cells = lstm.map(|options| ("lstm", options)).chain(gru.map(|options| ("gru", options)));
    let others = [("elman", &[][..]), ("elman", &["masked"]), ("dense", &[]), ("softmax", &[]), ("identity", &[])];
    let (mut nodes, mut from) = (Vec::new(), "in".to_owned());
    for (index, (cell, options)) in cells.chain(others).enumerate() {
        let name = format!("n{index}");
        nodes.push(with(node(&name, cell, &from, [6, 6, 6], &[]), options));
        from = name;
    }
    let family = |count: usize| {
        let model = drawn(&mut Rng::new(1), nodes[..count].to_vec(), DRAW);
        AlignedBytes::pack(&model, Numeric::F32).model().family().map(drop)
    };
    assert_eq!((family(16), nodes.len()), (Ok(()), 17));
    assert_eq!(family(17).unwrap_err().most, 16);
}
