//! The self-test of an image: an image from the packer passes, every other output fails, and no model is confirmed before
//! it has passed.

use crate::device::{Device, PRODUCT, image as plain_image, off, root, running, send};
use crate::flash::Log;
use tidegate::internals::image::field::self_test as field;
use tidegate::internals::write::seal;
use tidegate::{ImageBytes, ImageError, Layout, Model, Numeric, SectionKind, SelfTestError, State, StepError};
use tidegate_fused::{FusedModel, Isa};
use tidegate_model::canonical::Canonical;
use tidegate_model::pack::pack_with;
use tidegate_model::quantize::Ranges;
use tidegate_model::self_test::with_self_test;
use tidegate_tests::fields::{payload_of, put32};
use tidegate_tests::images::{AlignedBytes, over_windows, small_models};
use tidegate_tests::network::{drawn, node};
use tidegate_tests::random::{Draw, Rng, Variant, chain};
use tidegate_update::{Boot, TestError, UpdateError};

type Small = Device<8, 1024>;

fn network() -> Canonical {
    let nodes = vec![node("lstm", "lstm", "in", [6, 8, 8], &[]), node("dense", "dense", "lstm", [8, 5, 5], &[])];
    drawn(&mut Rng::new(3), nodes, Draw { weights: 1.0, biases: true })
}

fn packed(model: &Canonical, numeric: Numeric) -> Vec<u8> {
    let mut rng = Rng::new(4);
    let seen = rng.numbers(16 * model.architecture.inputs[0].size, 1.0);
    let ranges = Ranges::measure(model, [[seen.as_slice()].as_slice()]).unwrap();
    pack_with(model, numeric, &ranges, Layout::Portable).unwrap()
}

fn run(image: &AlignedBytes) -> Result<(), SelfTestError> {
    let model = image.model();
    let mut memory = vec![0xAAAA_AAAA; model.runner_words()];
    model.self_test().expect("the image has a self-test").run(&mut memory)
}

fn refused(image: &[u8]) -> Option<ImageError> {
    let bytes = AlignedBytes::new(image);
    Model::parse(ImageBytes::new(bytes.get()).unwrap()).err()
}

#[test]
fn the_test_of_the_packer_passes_and_changes_nothing_else() {
    for numeric in [Numeric::F32, Numeric::F16, Numeric::I8x16, Numeric::I4x16] {
        let bare = packed(&network(), numeric);
        assert!(AlignedBytes::new(&bare).model().self_test().is_none());
        let image = AlignedBytes::new(&with_self_test(&bare).unwrap());
        assert_eq!(image.get(), with_self_test(&bare).unwrap(), "the same image gives the same test");
        assert_eq!(run(&image), Ok(()), "{numeric:?}");
        assert_eq!(image.model().id(), AlignedBytes::new(&bare).model().id());
        assert!(with_self_test(image.get()).is_err(), "there is one test");
        // A signature follows the test, and removing it leaves the image.
        let signed = AlignedBytes::new(&root().sign(image.get(), &PRODUCT, 3).unwrap());
        assert_eq!(run(&signed), Ok(()));
        assert_eq!(tidegate_model::sign::unsigned(signed.get()).unwrap(), image.get());
    }
}

#[test]
fn models_over_windows_and_of_every_kind_have_tests() {
    let lstm = chain(&mut Rng::new(1), 3, &[(Variant::plain("lstm"), 2)], Draw { weights: 1.0, biases: true });
    let mut models = small_models();
    models.push(("rows".to_owned(), over_windows(lstm, 40, 40, false, false)));
    let mut tested = 0;
    for (name, model) in models {
        let bare = AlignedBytes::pack(&model, Numeric::F32);
        match with_self_test(bare.get()) {
            Ok(image) => {
                assert_eq!(run(&AlignedBytes::new(&image)), Ok(()), "{name}");
                tested += 1;
            }
            Err(error) => assert!(name == "ports" && error.to_string().contains("one input"), "{name}: {error}"),
        }
    }
    assert!(tested >= 30, "{tested}");
}

/// The integers of the test are those of every backend.
#[test]
fn the_kernels_for_hosts_give_the_bits_of_an_integer_test() {
    let image = AlignedBytes::new(&with_self_test(&packed(&network(), Numeric::I8x16)).unwrap());
    let model = image.model();
    let payload = &image.get()[payload_of(image.get(), SectionKind::SelfTest)..];
    let values: Vec<i16> =
        payload[field::LEN..].as_chunks::<2>().0.iter().map(|element| i16::from_le_bytes(*element)).collect();
    let steps = model.self_test().unwrap().steps();
    let (inputs, outputs) = values.split_at(steps * model.input_size());
    for isa in Isa::available() {
        let fused = FusedModel::with_isa(&model, isa);
        let (mut stream, mut y) = (fused.stream(), vec![0; model.output_size()]);
        for (x, expected) in inputs.chunks(model.input_size()).zip(outputs.chunks(model.output_size())) {
            assert!(stream.step_i16(x, &mut y).unwrap().has_output());
            assert_eq!(y, expected, "{isa}");
        }
    }
}

#[test]
fn every_other_bit_of_an_expected_output_fails() {
    for numeric in [Numeric::F32, Numeric::I8x16] {
        let good = with_self_test(&packed(&network(), numeric)).unwrap();
        let model = AlignedBytes::new(&good);
        let (model, element) = (model.model(), if numeric.is_integer() { 2 } else { 4 });
        let start = payload_of(&good, SectionKind::SelfTest) + field::LEN;
        let outputs = start + element * model.self_test().unwrap().steps() * model.input_size();
        let end = outputs + element * model.self_test().unwrap().outputs() * model.output_size();
        for bit in 0..8 * (end - outputs) {
            let mut image = AlignedBytes::new(&good);
            image.get_mut()[outputs + bit / 8] ^= 1 << (bit % 8);
            seal(image.get_mut());
            let index = bit / 8 / element;
            let (step, element) = (index / model.output_size(), index % model.output_size());
            assert_eq!(run(&image), Err(SelfTestError::Differs { step, element }), "bit {bit}");
        }
    }
}

#[test]
fn a_test_that_is_not_canonical_is_refused() {
    let good = with_self_test(&packed(&network(), Numeric::I8x16)).unwrap();
    assert_eq!(refused(&good), None);
    let start = payload_of(&good, SectionKind::SelfTest);
    let with = |field: usize, value: u32| {
        let mut image = good.clone();
        put32(&mut image, start + field, value);
        seal(&mut image);
        match refused(&image) {
            Some(ImageError::BadSection { kind: SectionKind::SelfTest, offset }) => offset,
            found => panic!("{field} {value}: {found:?}"),
        }
    };
    let (steps, outputs) = (field::STEPS.start, field::OUTPUTS.start);
    assert_eq!([with(steps, 0), with(steps, field::MAX_STEPS + 1), with(steps, u32::MAX)], [steps; 3]);
    assert_eq!([with(outputs, 0), with(outputs, 17), with(outputs, u32::MAX)], [outputs; 3]);
    // Lengths that do not fit the payload are errors that state the required end.
    let len = field::LEN + 2 * 16 * (6 + 5);
    assert_eq!([with(steps, 17), with(outputs, 15)], [len; 2]);
    assert_eq!(with(field::RESERVED.start + 4, 1 << 8), field::RESERVED.start + 5);
    assert_eq!(with(field::LEN + 4, 0x8000), field::LEN + 4);
    let floats = with_self_test(&packed(&network(), Numeric::F32)).unwrap();
    let start = payload_of(&floats, SectionKind::SelfTest) + field::LEN;
    for value in [f32::NAN, f32::INFINITY] {
        let mut image = floats.clone();
        put32(&mut image, start + 8, value.to_bits());
        seal(&mut image);
        let offset = field::LEN + 8;
        assert_eq!(refused(&image), Some(ImageError::BadSection { kind: SectionKind::SelfTest, offset }));
    }
    // Only models with one input and one output have a test.
    let (_, ports) = small_models().into_iter().find(|(name, _)| name == "ports").unwrap();
    let ports = AlignedBytes::pack(&ports, Numeric::F32);
    let image = tidegate_model::sections::append(ports.get(), SectionKind::SelfTest, &[0; 32]).unwrap();
    assert_eq!(refused(&image), Some(ImageError::BadSection { kind: SectionKind::SelfTest, offset: 0 }));
}

#[test]
fn a_test_without_enough_memory_or_with_other_outputs_fails() {
    let image = AlignedBytes::new(&with_self_test(&packed(&network(), Numeric::I8x16)).unwrap());
    let model = image.model();
    let test = model.self_test().unwrap();
    // Without room for the output.
    let short = test.run(&mut vec![0; model.state_words() + model.scratch_words()]);
    assert!(matches!(short, Err(SelfTestError::Step(StepError::Scratch(_)))), "{short:?}");
    // A stream that was not begun from zero would differ: the test resets the state.
    let mut memory = vec![0; model.runner_words()];
    State::new(&model, &mut memory).unwrap().values_i16_mut().fill(999);
    assert_eq!(test.run(&mut memory), Ok(()));
    let lstm = chain(&mut Rng::new(1), 3, &[(Variant::plain("lstm"), 2)], Draw { weights: 1.0, biases: true });
    let windows = over_windows(lstm, 4, 4, false, false);
    let image = with_self_test(AlignedBytes::pack(&windows, Numeric::F32).get()).unwrap();
    let start = payload_of(&image, SectionKind::SelfTest);
    let payload = &image[start..];
    let bare = tidegate_model::sections::without_last(&image).unwrap();
    // Two of four windows, though the other two have outputs as well.
    let outputs = u32::from_le_bytes(payload[field::OUTPUTS].try_into().unwrap());
    assert_eq!(outputs, 4);
    let out = 4 * AlignedBytes::new(&image).model().output_size();
    let inputs = field::LEN + 4 * 16 * 3;
    // And five, though only four steps have an output.
    for expected in [2, 5] {
        let mut other = payload[..inputs + 4 * out].to_vec();
        other.resize(inputs + expected * out, 0);
        put32(&mut other, field::OUTPUTS.start, expected as u32);
        let other = tidegate_model::sections::append(&bare, SectionKind::SelfTest, &other).unwrap();
        assert_eq!(run(&AlignedBytes::new(&other)), Err(SelfTestError::Outputs { expected }));
    }
}

/// An image with a self-test, and one whose test it does not pass.
fn tested_image(counter: u32, passes: bool) -> Vec<u8> {
    let mut image = with_self_test(&packed(&network(), Numeric::I8x16)).unwrap();
    if !passes {
        let last = payload_of(&image, SectionKind::SelfTest) + field::LEN + 2 * 16 * (6 + 5) - 1;
        image[last] ^= 1;
        seal(&mut image);
    }
    root().sign(&image, &PRODUCT, counter).unwrap()
}

#[test]
fn a_model_is_confirmed_only_after_its_test() {
    let first = plain_image(2000, 1);
    let log = Log::default();
    let mut slots = Small::new(8 << 10, &log).flashed(&first).open().unwrap();
    let mut rng = Rng::new(1);
    let mut memory = vec![0; 4096];
    // The active model has no test; the firmware has tested it.
    let stale = slots.split().0.unwrap().tested_by_firmware().unwrap();
    assert_eq!(slots.split().0.unwrap().self_test(&mut memory), Err(TestError::NoSelfTest));

    send(&mut slots, &tested_image(2, false), &mut rng).unwrap();
    slots.switch().unwrap();
    {
        let (active, mut updater) = slots.split();
        let active = active.unwrap();
        assert!(matches!(active.self_test(&mut memory), Err(TestError::Failed(SelfTestError::Differs { .. }))));
        assert_eq!(active.tested_by_firmware(), Err(TestError::HasSelfTest));
        assert_eq!(updater.confirm(stale), Err(UpdateError::NotTested));
    }
    // Without a reset, and with one.
    slots.revert().unwrap();
    assert_eq!((slots.boot(), running(&mut slots)), (Boot::Reverted, (1, first.clone())));
    assert_eq!(slots.revert(), Err(UpdateError::NoTrial));
    let mut slots = off(slots).open().unwrap();
    assert_eq!((slots.boot(), running(&mut slots)), (Boot::Confirmed, (1, first)));

    let good = tested_image(2, true);
    send(&mut slots, &good, &mut rng).unwrap();
    let mut slots = off(slots).open().unwrap();
    {
        let (active, mut updater) = slots.split();
        let tested = active.unwrap().self_test(&mut memory).unwrap();
        updater.confirm(tested).unwrap();
        assert_eq!(updater.confirm(tested), Err(UpdateError::NoTrial));
    }
    assert_eq!(running(&mut off(slots).open().unwrap()), (2, good));
}
