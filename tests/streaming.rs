//! Streaming equals sequence, windows equal runs from zero, and a state can be saved, moved and restored: all bit for
//! bit.

use tidegate::{
    BufferTooSmall, Layout, Model, Numeric, PortCount, RestoreError, Schedule, ShapeError, State, StepError,
};
use tidegate_fused::FusedModel;
use tidegate_model::canonical::{self, Canonical};
use tidegate_model::pack::pack_with;
use tidegate_model::quantize::Ranges;
use tidegate_tests::images::{AlignedBytes, two_ports, whole};
use tidegate_tests::oracle::{Bounded, Oracle};
use tidegate_tests::random::{Draw, Rng, Variant, chain};
use tidegate_tests::tolerance::{each_within, same_bits};

const DRAW: Draw = Draw { weights: 1.5, biases: true };

fn variant(cell: &str) -> Variant {
    Variant::all().into_iter().rfind(|variant| variant.kind.spec().name == cell).expect("every cell has variants")
}

/// A small network with every kind of state.
fn network() -> Canonical {
    let cells = [("lstm", 5), ("gru", 4), ("elman", 3), ("dense", 3), ("softmax", 3)];
    chain(&mut Rng::new(11), 3, &cells.map(|(cell, units)| (variant(cell), units)), DRAW)
}

/// Memory for a model.
struct Memory {
    state: Vec<u32>,
    scratch: Vec<u32>,
}

impl Memory {
    fn new(model: &Model<'_>) -> Self {
        Self { state: vec![u32::MAX; model.state_words()], scratch: vec![u32::MAX; model.scratch_words()] }
    }
}

/// Runs steps one by one. Returns an output for every step that has one.
fn steps(model: &Model<'_>, state: &mut State<'_>, scratch: &mut [u32], x: &[f32]) -> Vec<Option<Vec<f32>>> {
    x.chunks(model.input_size())
        .map(|x| {
            let mut y = vec![f32::NAN; model.output_size()];
            let step = model.step_f32(state, scratch, x, &mut y).expect("every length is right");
            assert!(step.has_output() || y.iter().all(|y| y.is_nan()), "no output, but something was written");
            step.has_output().then_some(y)
        })
        .collect()
}

/// The rows of all outputs.
fn rows(outputs: Vec<Option<Vec<f32>>>) -> Vec<f32> {
    outputs.into_iter().flatten().flatten().collect()
}

/// The last output of `frames` steps from a zero state.
fn last_of_run(model: &Model<'_>, x: &[f32]) -> Vec<f32> {
    let endless = model.with_schedule(Schedule::Endless).expect("every model can run endlessly");
    let mut memory = Memory::new(&endless);
    let mut state = State::new(&endless, &mut memory.state).expect("the length is the model's");
    steps(&endless, &mut state, &mut memory.scratch, x).pop().flatten().expect("an endless run has outputs")
}

#[test]
fn a_sequence_split_anywhere_equals_the_whole_sequence() {
    let image = AlignedBytes::pack(&network(), Numeric::F32);
    let model = image.model();
    let len = 12;
    let x = Rng::new(12).numbers(len * model.input_size(), 2.0);
    let mut memory = Memory::new(&model);
    let mut state = State::new(&model, &mut memory.state).expect("the length is the model's");
    let mut whole = vec![0.0; len * model.output_size()];
    assert_eq!(model.run_f32(&mut state, &mut memory.scratch, &x, &mut whole), Ok(len));
    let last = state.values().to_vec();

    state.reset();
    same_bits(&rows(steps(&model, &mut state, &mut memory.scratch, &x)), &whole).expect("steps equal the sequence");
    same_bits(state.values(), &last).expect("the states are equal too");
    for split in 0..=len {
        state.reset();
        let mut parts = vec![0.0; whole.len()];
        let (left, right) = parts.split_at_mut(split * model.output_size());
        let (early, late) = x.split_at(split * model.input_size());
        assert_eq!(model.run_f32(&mut state, &mut memory.scratch, early, left), Ok(split));
        assert_eq!(model.run_f32(&mut state, &mut memory.scratch, late, right), Ok(len - split));
        same_bits(&parts, &whole).unwrap_or_else(|miss| panic!("split at {split}: {miss}"));
        same_bits(state.values(), &last).unwrap_or_else(|miss| panic!("state, split at {split}: {miss}"));
    }
}

#[test]
fn a_whole_sequence_stays_near_the_oracle() {
    // The carried bound grows with every step, but remains valid.
    let network = network();
    let image = AlignedBytes::pack(&network, Numeric::F32);
    let model = image.model();
    let x = Rng::new(13).numbers(20 * model.input_size(), 1.0);
    let mut memory = Memory::new(&model);
    let mut state = State::new(&model, &mut memory.state).expect("the length is the model's");
    let got = rows(steps(&model, &mut state, &mut memory.scratch, &x));
    let oracle = Oracle::new(&network);
    let exact = oracle.run(&mut vec![Bounded::default(); oracle.state_len()], &x);
    let (values, bounds): (Vec<f64>, Vec<f64>) = exact.iter().map(|bounded| (bounded.value, bounded.error)).unzip();
    each_within(&got, &values, &bounds).expect("within the carried bound");
    each_within(&got, &values, &vec![1e-5; values.len()]).expect("and within 1e-5");
}

#[test]
fn every_window_equals_a_run_of_its_frames_from_zero() {
    let mut network = network();
    let schedules = [(1, 1), (1, 4), (5, 1), (4, 2), (5, 2), (4, 4), (3, 7), (2, 3), (25, 6), (49, 12)];
    for (frames, every) in schedules {
        network.architecture.schedule = canonical::Schedule::Windows { frames, every };
        let image = AlignedBytes::pack(&network, Numeric::F32);
        let model = image.model();
        let states = frames.div_ceil(every) as usize;
        assert_eq!(model.state_words(), 1 + states * model.state_elements(), "{frames}/{every}");
        let len = (3 * frames + 5 * every) as usize;
        let size = model.input_size();
        let x = Rng::new(u64::from(frames)).numbers(len * size, 2.0);
        let mut memory = Memory::new(&model);
        let mut state = State::new(&model, &mut memory.state).expect("the length is the model's");
        let outputs = steps(&model, &mut state, &mut memory.scratch, &x);
        let mut windows = 0;
        for (index, output) in outputs.iter().enumerate() {
            let (frames, every) = (frames as usize, every as usize);
            let ends = (index + 1).checked_sub(frames).filter(|start| start % every == 0);
            assert_eq!(output.is_some(), ends.is_some(), "{frames}/{every}: step {index}");
            if let (Some(output), Some(start)) = (output, ends) {
                let expected = last_of_run(&model, &x[start * size..(start + frames) * size]);
                same_bits(output, &expected).unwrap_or_else(|miss| panic!("{frames}/{every}, step {index}: {miss}"));
                windows += 1;
            }
        }
        assert!(windows >= 3, "{frames}/{every}: {windows} windows");
        // The whole sequence at once writes the same rows.
        state.reset();
        let mut written = vec![0.0; len * model.output_size()];
        assert_eq!(model.run_f32(&mut state, &mut memory.scratch, &x, &mut written), Ok(windows));
        same_bits(&written[..windows * model.output_size()], &rows(outputs)).expect("steps equal the sequence");
    }
}

#[test]
fn windows_continue_for_as_long_as_the_stream_does() {
    let dense = chain(&mut Rng::new(14), 1, &[(variant("elman"), 1)], DRAW);
    let image = AlignedBytes::pack(&dense, Numeric::F32);
    let schedule = Schedule::Windows { frames: 5, every: 3 };
    let model = image.model().with_schedule(schedule).expect("the schedule is valid");
    let x = Rng::new(15).numbers(4000, 1.0);
    let mut memory = Memory::new(&model);
    let mut state = State::new(&model, &mut memory.state).expect("the length is the model's");
    for (index, output) in steps(&model, &mut state, &mut memory.scratch, &x).into_iter().enumerate() {
        let ends = (index + 1).checked_sub(5).filter(|start| start % 3 == 0);
        assert_eq!(output.is_some(), ends.is_some(), "step {index}");
        if let (Some(output), Some(start)) = (output, ends) {
            same_bits(&output, &last_of_run(&model, &x[start..start + 5])).expect("a window equals a run from zero");
        }
    }
}

#[test]
fn a_saved_state_continues_in_new_memory_bit_for_bit() {
    let mut network = network();
    for schedule in [canonical::Schedule::Endless, canonical::Schedule::Windows { frames: 5, every: 2 }] {
        network.architecture.schedule = schedule;
        let image = AlignedBytes::pack(&network, Numeric::F16);
        let model = image.model();
        let x = Rng::new(16).numbers(20 * model.input_size(), 2.0);
        let mut memory = Memory::new(&model);
        let mut state = State::new(&model, &mut memory.state).expect("the length is the model's");
        let whole = steps(&model, &mut state, &mut memory.scratch, &x);
        for split in 0..20 {
            let (early, late) = x.split_at(split * model.input_size());
            state.reset();
            steps(&model, &mut state, &mut memory.scratch, early);
            let mut saved = vec![0; state.saved_bytes()];
            assert_eq!(state.save(&mut saved), Ok(saved.len()));

            let mut fresh = Memory::new(&model);
            let mut other = State::new(&model, &mut fresh.state).expect("the length is the model's");
            model.restore(&mut other, &saved).expect("the state is of this model");
            let outputs = steps(&model, &mut other, &mut fresh.scratch, late);
            assert_eq!(outputs.len(), 20 - split);
            for (got, expected) in outputs.iter().zip(&whole[split..]) {
                match (got, expected) {
                    (Some(got), Some(expected)) => same_bits(got, expected).expect("the stream continues"),
                    (None, None) => {}
                    _ => panic!("split at {split}: another step has the output"),
                }
            }
        }
    }
}

/// The saved bytes of a model's state after some steps.
fn saved(image: &AlignedBytes) -> Vec<u8> {
    let model = image.model();
    let mut memory = Memory::new(&model);
    let mut state = State::new(&model, &mut memory.state).expect("the length is the model's");
    let x = Rng::new(17).numbers(4 * model.input_size(), 1.0);
    steps(&model, &mut state, &mut memory.scratch, &x);
    let mut bytes = vec![0; state.saved_bytes()];
    assert_eq!(state.save(&mut bytes), Ok(bytes.len()));
    bytes
}

#[test]
fn a_damaged_or_foreign_saved_state_is_refused_and_changes_nothing() {
    let network = network();
    let image = AlignedBytes::pack(&network, Numeric::F32);
    let model = image.model();
    let bytes = saved(&image);
    let mut memory = Memory::new(&model);
    let mut state = State::new(&model, &mut memory.state).expect("the length is the model's");
    state.values_mut().fill(0.25);
    let mut refuse = |bytes: &[u8], expected: Option<RestoreError>, what: &str| {
        let error = model.restore(&mut state, bytes).expect_err(what);
        assert!(expected.is_none_or(|expected| expected == error), "{what}: {error:?}");
        assert!(state.values().iter().all(|&value| value == 0.25), "{what}: the state has changed");
    };
    for bit in 0..8 * bytes.len() {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        refuse(&damaged, None, &format!("bit {bit}"));
    }
    for len in 0..bytes.len() {
        let expected = RestoreError::Truncated { needed: bytes.len(), given: len };
        refuse(&bytes[..len], Some(expected), &format!("{len} bytes"));
    }
    let mut other = network.clone();
    other.tensors.values_mut().next().expect("the model has tensors").data[0] += 1.0;
    refuse(&saved(&AlignedBytes::pack(&other, Numeric::F32)), Some(RestoreError::OtherModel), "another weight");
    refuse(&saved(&AlignedBytes::pack(&network, Numeric::F16)), Some(RestoreError::OtherModel), "another numeric");
    let mut windows = network.clone();
    windows.architecture.schedule = canonical::Schedule::Windows { frames: 4, every: 2 };
    refuse(&saved(&AlignedBytes::pack(&windows, Numeric::F32)), Some(RestoreError::OtherModel), "another schedule");
    // The same image with another schedule, where only the layout of the state differs.
    let rescheduled = model.with_schedule(Schedule::Windows { frames: 4, every: 2 }).expect("the schedule is valid");
    let mut memory = Memory::new(&rescheduled);
    let other = State::new(&rescheduled, &mut memory.state).expect("the length is the model's");
    let mut bytes = vec![0; other.saved_bytes()];
    assert_eq!(other.save(&mut bytes), Ok(bytes.len()));
    refuse(&bytes, Some(RestoreError::OtherForm), "the same model, rescheduled");
    refuse(&[0; 400], Some(RestoreError::NotAState), "zeros");
    refuse(image.get(), Some(RestoreError::NotAState), "an image");
}

#[test]
fn a_checksum_error_reports_both_sums_and_a_short_buffer_its_length() {
    let image = AlignedBytes::pack(&network(), Numeric::F32);
    let model = image.model();
    let mut bytes = saved(&image);
    let stored = u32::from_le_bytes(*bytes.last_chunk().expect("the state has four bytes"));
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    let computed = tidegate_tests::fuzz::crc32(&bytes[..bytes.len() - 4]);
    let mut memory = Memory::new(&model);
    let mut state = State::new(&model, &mut memory.state).expect("the length is the model's");
    assert_eq!(model.restore(&mut state, &bytes), Err(RestoreError::Damaged { stored, computed }));
    let needed = state.saved_bytes();
    let mut short = vec![7; needed - 1];
    assert_eq!(state.save(&mut short), Err(BufferTooSmall { needed, given: needed - 1 }));
    assert!(short.iter().all(|&byte| byte == 7));
    let mut short = vec![0; model.state_words() - 1];
    let error = State::new(&model, &mut short).expect_err("one word is missing");
    assert_eq!(error, BufferTooSmall { needed: model.state_words(), given: model.state_words() - 1 });
}

#[test]
fn a_reset_state_equals_a_new_one() {
    for schedule in [Schedule::Endless, Schedule::Windows { frames: 5, every: 3 }] {
        let image = AlignedBytes::pack(&network(), Numeric::F32);
        let model = image.model().with_schedule(schedule).expect("the schedule is valid");
        let x = Rng::new(18).numbers(11 * model.input_size(), 2.0);
        let mut memory = Memory::new(&model);
        let mut state = State::new(&model, &mut memory.state).expect("the length is the model's");
        let first = rows(steps(&model, &mut state, &mut memory.scratch, &x));
        state.reset();
        let (mut reset, mut new) = (vec![0; state.saved_bytes()], vec![0; state.saved_bytes()]);
        assert!(state.save(&mut reset).is_ok());
        let mut fresh = Memory::new(&model);
        assert!(State::new(&model, &mut fresh.state).expect("the length is the model's").save(&mut new).is_ok());
        assert_eq!(reset, new);
        same_bits(&rows(steps(&model, &mut state, &mut memory.scratch, &x)), &first).expect("the stream starts again");
    }
}

#[test]
fn several_states_take_turns_on_one_scratch() {
    let image = AlignedBytes::pack(&network(), Numeric::F32);
    let model = image.model();
    let size = model.input_size();
    let streams: Vec<Vec<f32>> = (0..3).map(|seed| Rng::new(seed).numbers(9 * size, 2.0)).collect();
    let mut scratch = vec![u32::MAX; model.scratch_words()];
    let mut memories: Vec<Vec<u32>> = streams.iter().map(|_| vec![0; model.state_words()]).collect();
    let mut states: Vec<State<'_>> =
        memories.iter_mut().map(|memory| State::new(&model, memory).expect("the length is the model's")).collect();
    let mut outputs = vec![Vec::new(); streams.len()];
    for t in 0..9 {
        for ((state, stream), output) in states.iter_mut().zip(&streams).zip(&mut outputs) {
            output.extend(rows(steps(&model, state, &mut scratch, &stream[t * size..(t + 1) * size])));
        }
    }
    for (stream, output) in streams.iter().zip(&outputs) {
        let mut memory = Memory::new(&model);
        let mut alone = State::new(&model, &mut memory.state).expect("the length is the model's");
        same_bits(output, &rows(steps(&model, &mut alone, &mut memory.scratch, stream)))
            .expect("streams are independent");
    }
}

#[test]
fn a_model_without_a_state_steps_as_well() {
    let network = chain(&mut Rng::new(19), 3, &[(variant("dense"), 4), (variant("softmax"), 0)], DRAW);
    let image = AlignedBytes::pack(&network, Numeric::F32);
    for schedule in [Schedule::Endless, Schedule::Windows { frames: 2, every: 1 }] {
        let model = image.model().with_schedule(schedule).expect("the schedule is valid");
        assert_eq!((model.state_elements(), model.state_words()), (0, 1));
        let x = Rng::new(20).numbers(4 * 3, 1.0);
        let mut memory = Memory::new(&model);
        let mut state = State::new(&model, &mut memory.state).expect("one word suffices");
        let outputs = steps(&model, &mut state, &mut memory.scratch, &x);
        let mut saved = vec![0; state.saved_bytes()];
        assert!(state.save(&mut saved).is_ok() && model.restore(&mut state, &saved).is_ok());
        for (index, output) in outputs.into_iter().enumerate() {
            let early = schedule != Schedule::Endless && index == 0;
            assert_eq!(output.is_none(), early, "step {index}");
            if let Some(output) = output {
                same_bits(&output, &last_of_run(&model, &x[index * 3..(index + 1) * 3]))
                    .expect("steps are independent");
            }
        }
    }
}

#[test]
fn several_ports_are_served_and_match_the_oracle() {
    let network = two_ports();
    let image = AlignedBytes::pack(&network, Numeric::F32);
    let model = image.model();
    let names = |ports: tidegate::Ports<'_>| ports.map(|port| port.name.to_owned()).collect::<Vec<_>>();
    assert_eq!(
        (names(model.inputs()), names(model.outputs())),
        (vec!["in".to_owned(), "other".to_owned()], vec!["out".to_owned(), "h".to_owned(), "echo".to_owned()],)
    );
    let mut memory = Memory::new(&model);
    let mut state = State::new(&model, &mut memory.state).expect("the length is the model's");
    let oracle = Oracle::new(&network);
    let mut rng = Rng::new(21);
    for round in 0..5 {
        let (a, b) = (rng.numbers(3, 1.0), rng.numbers(5, 1.0));
        let mut exact: Vec<Bounded> = state.values().iter().map(|&value| Bounded::exact(value)).collect();
        let expected = oracle.step(&mut exact, &[&a, &b]).expect("the step has an output");
        let (mut out, mut h, mut echo) = ([0.0; 4], [0.0; 3], [0.0; 3]);
        let mut outputs = [&mut out[..], &mut h, &mut echo];
        let step = model.step_ports(&mut state, &mut memory.scratch, &[&a, &b], &mut outputs);
        assert!(step.expect("every length is right").has_output());
        for (got, expected) in outputs.iter().zip(&expected) {
            let (values, bounds): (Vec<f64>, Vec<f64>) = expected.iter().map(|b| (b.value, b.error)).unzip();
            each_within(got, &values, &bounds).unwrap_or_else(|miss| panic!("round {round}: {miss}"));
        }
        same_bits(&echo, &a).expect("an output may be an input of the model");
    }
}

#[test]
fn a_step_refuses_wrong_buffers_with_their_lengths_and_changes_nothing() {
    let image = AlignedBytes::pack(&two_ports(), Numeric::F32);
    let model = image.model();
    let mut memory = Memory::new(&model);
    let mut state = State::new(&model, &mut memory.state).expect("the length is the model's");
    state.values_mut().fill(0.5);
    let (a, b) = ([0.0; 3], [0.0; 5]);
    let mut refuse = |inputs: &[&[f32]], lens: &[usize], words: usize, expected: StepError| {
        let mut outputs: Vec<Vec<f32>> = lens.iter().map(|&len| vec![9.0; len]).collect();
        let mut slices: Vec<&mut [f32]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
        let step = model.step_ports(&mut state, &mut memory.scratch[..words], inputs, &mut slices);
        assert_eq!(step, Err(expected));
        assert!(state.values().iter().all(|&value| value == 0.5) && outputs.concat().iter().all(|&y| y == 9.0));
    };
    let (full, lens) = (model.scratch_words(), [4, 3, 3]);
    refuse(&[&a], &lens, full, StepError::Inputs(PortCount { needed: 2, given: 1 }));
    refuse(&[&a, &b], &[4, 3], full, StepError::Outputs(PortCount { needed: 3, given: 2 }));
    refuse(&[&a, &a], &lens, full, StepError::Input(ShapeError { port: 1, needed: 5, given: 3 }));
    refuse(&[&a, &b], &[4, 3, 2], full, StepError::Output(ShapeError { port: 2, needed: 3, given: 2 }));
    let short = StepError::Scratch(BufferTooSmall { needed: full, given: full - 1 });
    refuse(&[&a, &b], &lens, full - 1, short);

    let other_image = AlignedBytes::pack(&whole(), Numeric::F32);
    let other = other_image.model();
    let mut memory = Memory::new(&other);
    let mut state = State::new(&other, &mut memory.state).expect("the length is the model's");
    let mut scratch = vec![0; full.max(other.scratch_words())];
    let endless = other.with_schedule(Schedule::Endless).expect("every model can run endlessly");
    let (mut y, x) = ([0.0; 3], [0.0; 2]);
    assert_eq!(endless.step_f32(&mut state, &mut scratch, &x, &mut y), Err(StepError::OtherState));
    assert_eq!(model.step_f32(&mut state, &mut scratch, &x, &mut y), Err(StepError::OtherState));
    assert!(other.step_f32(&mut state, &mut scratch, &x, &mut y).is_ok());
}

#[test]
fn a_sequence_refuses_a_ragged_input_and_a_short_output() {
    let image = AlignedBytes::pack(&network(), Numeric::F32);
    let model = image.model();
    let mut memory = Memory::new(&model);
    let mut state = State::new(&model, &mut memory.state).expect("the length is the model's");
    let mut y = [0.0; 6];
    let ragged = model.run_f32(&mut state, &mut memory.scratch, &[0.0; 7], &mut [0.0; 9]);
    assert_eq!(ragged, Err(StepError::Input(ShapeError { port: 0, needed: 3, given: 1 })));
    let short = model.run_f32(&mut state, &mut memory.scratch, &[0.0; 9], &mut y);
    assert_eq!(short, Err(StepError::Output(ShapeError { port: 0, needed: 9, given: 6 })));
    assert!(state.values().iter().all(|&value| value == 0.0), "neither sequence ran in part");
    assert_eq!(model.run_f32(&mut state, &mut memory.scratch, &[], &mut []), Ok(0));
}

#[test]
fn a_schedule_set_by_hand_is_checked_like_one_in_an_image() {
    use tidegate::ImageError;
    use tidegate::SectionKind;
    let image = AlignedBytes::pack(&network(), Numeric::F32);
    let model = image.model();
    let with = |frames, every| model.with_schedule(Schedule::Windows { frames, every }).map(drop);
    let bad = |offset| Err(ImageError::BadSection { kind: SectionKind::Schedule, offset });
    assert_eq!(with(0, 1), bad(0));
    assert_eq!(with(1, 0), bad(4));
    assert_eq!(with(u32::MAX, 1), bad(0));
    assert_eq!(with(1, u32::MAX), bad(4));
    assert_eq!(with(1025, 1), bad(4), "1,025 states");
    assert_eq!(with(1024, 1), Ok(()));
    assert_eq!(with(1 << 20, 1 << 20), Ok(()));
    assert_eq!(with((1 << 20) + 1, 1 << 20), bad(0));
}

/// The padding of states is in places that only the model knows, and no kernel reads it.
#[test]
fn a_saved_state_whose_padding_is_not_zero_is_refused() {
    let lstm = chain(&mut Rng::new(9), 3, &[(Variant::plain("lstm"), 3)], Draw { weights: 1.0, biases: true });
    let ranges = Ranges::new(["in", "n0"].map(|name| (name.to_owned(), 1.0)));
    for layout in Layout::ALL {
        let image = AlignedBytes::new(&pack_with(&lstm, Numeric::I8x16, &ranges, layout).expect("the model packs"));
        let model = image.model();
        let (mut memory, mut others) = (vec![0; model.state_words()], vec![0; model.state_words()]);
        let mut state = State::new(&model, &mut memory).expect("the length is the model's");
        let mut other = State::new(&model, &mut others).expect("the length is the model's");
        let (mut saved, padded) = (vec![0; model.saved_bytes()], model.padded(3));
        let fused = FusedModel::new(&model);
        for element in 0..2 * padded {
            state.values_i16_mut().fill(0);
            state.values_i16_mut()[element] = 1;
            state.save(&mut saved).expect("the length is the model's");
            other.reset();
            let restored = model.restore(&mut other, &saved);
            let first = element / padded * padded + 3;
            let is_padding = element >= first;
            let expected = if is_padding { Err(RestoreError::Padding { element: first }) } else { Ok(()) };
            assert_eq!(restored, expected, "{} {element}", layout.name());
            assert_eq!(other.values_i16()[element], i16::from(!is_padding), "{} {element}", layout.name());
            assert_eq!(fused.stream().restore(&saved), expected, "{} {element}", layout.name());
        }
    }
}
