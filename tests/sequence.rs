//! Sequences and batches are steps: whatever the model, the lengths, the resets and the states before, bit for bit.

use tidegate::step::{PortCount, ShapeError, StepError};
use tidegate::{Batch, BufferTooSmall, Numeric, Schedule, Sequence, State, WrongLength};
use tidegate_tests::backend::{self, Backend};
use tidegate_tests::images::{AlignedBytes, over_windows, two_ports};
use tidegate_tests::random::{Draw, Rng, Variant, chain};
use tidegate_tests::tolerance::same_bits;
use tidegate_tools::canonical::{self, Canonical};

const DRAW: Draw = Draw { weights: 1.5, biases: true };

/// One to three cells of any kind.
fn stack(rng: &mut Rng, all: &[Variant]) -> Canonical {
    let cells: Vec<(Variant, usize)> =
        (0..1 + rng.below(3)).map(|_| (all[rng.below(all.len())].clone(), 1 + rng.below(5))).collect();
    let input = 1 + rng.below(5);
    chain(rng, input, &cells, DRAW)
}

/// A recurrent cell that goes backwards through windows of `length` rows, one every `hop` steps.
fn windowed(rng: &mut Rng, all: &[Variant], length: usize, hop: usize, partial: bool) -> Canonical {
    let recurrent = |variant: &&Variant| !variant.kind.spec().states.is_empty() && !variant.kind.is_buffered();
    let recurrent: Vec<&Variant> = all.iter().filter(recurrent).collect();
    let cell = recurrent[rng.below(recurrent.len())].clone();
    let model = chain(rng, 3, &[(cell, 2)], DRAW);
    over_windows(model, length, hop, partial, rng.below(2) == 0)
}

fn slices(buffers: &[Vec<f32>]) -> Vec<&[f32]> {
    buffers.iter().map(Vec::as_slice).collect()
}

fn slices_mut(buffers: &mut [Vec<f32>]) -> Vec<&mut [f32]> {
    buffers.iter_mut().map(Vec::as_mut_slice).collect()
}

fn saved(state: &State<'_>) -> Vec<u8> {
    let mut bytes = vec![0; state.saved_bytes()];
    assert_eq!(state.save(&mut bytes), Ok(bytes.len()));
    bytes
}

/// Sequence `index` of `time` steps, one step after the other; the rows of each output.
fn steps(
    backend: &dyn Backend,
    state: &mut State<'_>,
    inputs: &[Vec<f32>],
    how: &Sequence<'_>,
    index: usize,
    time: usize,
) -> Vec<Vec<Vec<f32>>> {
    let model = backend.model();
    let mut all = vec![Vec::new(); model.outputs().count()];
    let len = how.lens.map_or(time, |lens| lens[index]);
    for t in 0..=len {
        let mut y: Vec<Vec<f32>> = model.outputs().map(|port| vec![f32::NAN; port.size]).collect();
        let step = if t < len {
            if how.resets.is_some_and(|resets| resets[index * time + t]) {
                state.reset();
            }
            let x: Vec<&[f32]> = inputs
                .iter()
                .zip(model.inputs())
                .map(|(x, port)| &x[(index * time + t) * port.size..][..port.size])
                .collect();
            backend.step(state, &x, &mut slices_mut(&mut y))
        } else if how.finish && len > 0 {
            backend.finish(state, &mut slices_mut(&mut y))
        } else {
            break;
        };
        if step.expect("every length is right").has_output() {
            all.iter_mut().zip(y).for_each(|(all, y)| all.push(y));
        }
    }
    all
}

/// The buffer of one output: its rows, or the last one, and zeros.
fn buffer(mut rows: Vec<Vec<f32>>, how: &Sequence<'_>, size: usize, time: usize) -> Vec<f32> {
    if how.last_only {
        return rows.pop().unwrap_or_else(|| vec![0.0; size]);
    }
    let mut buffer = rows.concat();
    buffer.resize(time * size, 0.0);
    buffer
}

/// A batch and each of its sequences alone against their steps, in a way and from states drawn from `rng`.
fn hold(backend: &dyn Backend, rng: &mut Rng) {
    let model = backend.model();
    let (batch, time) = (rng.below(5), rng.below(9));
    let lens: Vec<usize> = (0..batch).map(|_| rng.below(time + 1)).collect();
    let resets: Vec<bool> = (0..batch * time).map(|_| rng.below(4) == 0).collect();
    let how = Sequence {
        lens: (rng.below(2) == 0).then_some(lens.as_slice()),
        resets: (rng.below(2) == 0).then_some(resets.as_slice()),
        last_only: rng.below(2) == 0,
        finish: rng.below(2) == 0,
    };
    let inputs: Vec<Vec<f32>> = model.inputs().map(|port| rng.numbers(batch * time * port.size, 2.0)).collect();
    let rows = if how.last_only { 1 } else { time };
    let outputs: Vec<Vec<f32>> = model.outputs().map(|port| vec![f32::NAN; batch * rows * port.size]).collect();

    let mut memory = vec![u32::MAX; batch * model.state_words()];
    let mut states = Batch::new(model, batch, &mut memory).expect("as many words as its states have");
    assert_eq!((states.len(), states.is_empty()), (batch, batch == 0));
    for mut state in states.states() {
        // As after some steps: a window counts its rows among its values.
        let before = rng.below(4);
        let x: Vec<Vec<f32>> = model.inputs().map(|port| rng.numbers(before * port.size, 2.0)).collect();
        let mut y: Vec<Vec<f32>> = model.outputs().map(|port| vec![0.0; before * port.size]).collect();
        let run = backend.run(&mut state, &slices(&x), &mut slices_mut(&mut y), &Sequence::ALL);
        assert!(run.is_ok());
    }
    let begun: Vec<Vec<u8>> = states.states().map(|state| saved(&state)).collect();

    let mut got = outputs.clone();
    let written = backend
        .run_batch(&mut states, &slices(&inputs), &mut slices_mut(&mut got), &how)
        .expect("every length is right");

    let mut expected_written = 0;
    for (index, begun) in begun.iter().enumerate() {
        let mut memory = vec![0; model.state_words()];
        let mut state = State::new(model, &mut memory).expect("the memory has the model's own length");
        state.restore(begun).expect("it is the model's own state");
        let expected = steps(backend, &mut state, &inputs, &how, index, time);
        let count = expected[0].len().min(rows);
        expected_written += count;
        let after = saved(&state);
        assert_eq!(saved(&states.state(index).expect("it is there")), after, "state {index} of the batch");

        state.restore(begun).expect("it is the model's own state");
        let own: Vec<&[f32]> = inputs
            .iter()
            .zip(model.inputs())
            .map(|(x, port)| &x[index * time * port.size..][..time * port.size])
            .collect();
        let mut alone: Vec<Vec<f32>> = model.outputs().map(|port| vec![f32::NAN; rows * port.size]).collect();
        let one = Sequence {
            lens: how.lens.map(|lens| &lens[index..=index]),
            resets: how.resets.map(|resets| &resets[index * time..][..time]),
            ..how
        };
        let run = backend.run(&mut state, &own, &mut slices_mut(&mut alone), &one);
        assert_eq!(run, Ok(count));
        assert_eq!(saved(&state), after, "state {index} alone");
        for (((port, expected), alone), got) in model.outputs().zip(expected).zip(&alone).zip(&got) {
            let expected = buffer(expected, &how, port.size, time);
            same_bits(alone, &expected)
                .unwrap_or_else(|miss| panic!("{}, sequence {index} alone, {how:?}: {miss}", backend.name()));
            let own = &got[index * rows * port.size..][..rows * port.size];
            same_bits(own, &expected)
                .unwrap_or_else(|miss| panic!("{}, sequence {index} of {batch}, {how:?}: {miss}", backend.name()));
        }
    }
    assert_eq!(written, expected_written);
    states.reset();
    assert!(states.states().all(|state| state.values().iter().all(|value| value.to_bits() == 0)));
}

#[test]
fn sequences_and_batches_are_their_steps() {
    let all = Variant::all();
    let mut rng = Rng::new(31);
    for round in 0..300 {
        let mut network = match round % 6 {
            0 => windowed(&mut rng, &all, 1 + round % 5, 1 + round % 5, true),
            1 => windowed(&mut rng, &all, 4, 1 + round % 3, false),
            2 => two_ports(),
            _ => stack(&mut rng, &all),
        };
        if round % 4 == 3 {
            let (frames, every) = (1 + rng.below(5) as u32, 1 + rng.below(3) as u32);
            network.architecture.schedule = canonical::Schedule::Windows { frames, every };
        }
        let image = AlignedBytes::pack(&network, if round % 2 == 0 { Numeric::F32 } else { Numeric::F16 });
        for _ in 0..2 {
            backend::all(&image.model()).iter().for_each(|backend| hold(&**backend, &mut rng));
        }
    }
}

#[test]
fn a_time_major_batch_is_run_step_by_step() {
    let all = Variant::all();
    let mut rng = Rng::new(32);
    let image = AlignedBytes::pack(&stack(&mut rng, &all), Numeric::F32);
    let model = image.model();
    let (batch, time) = (3, 4);
    let (input, output) = (model.input_size(), model.output_size());
    let x = rng.numbers(time * batch * input, 2.0);
    let (mut memory, mut scratch) = (vec![0; batch * model.state_words()], vec![0; model.scratch_words()]);
    let mut states = Batch::new(&model, batch, &mut memory).expect("as many words as its states have");
    let mut y = vec![f32::NAN; time * batch * output];
    for (x, y) in x.chunks(batch * input).zip(y.chunks_mut(batch * output)) {
        assert_eq!(model.run_batch(&mut states, &mut scratch, &[x], &mut [y], &Sequence::ALL), Ok(batch));
    }
    for index in 0..batch {
        let row = |t: usize, size: usize| (t * batch + index) * size..(t * batch + index + 1) * size;
        let own: Vec<f32> = (0..time).flat_map(|t| x[row(t, input)].to_vec()).collect();
        let expected: Vec<f32> = (0..time).flat_map(|t| y[row(t, output)].to_vec()).collect();
        let mut memory = vec![0; model.state_words()];
        let mut state = State::new(&model, &mut memory).expect("the memory has the model's own length");
        let mut alone = vec![f32::NAN; time * output];
        assert_eq!(model.run_f32(&mut state, &mut scratch, &own, &mut alone), Ok(time));
        same_bits(&alone, &expected).expect("one order of rows or the other");
    }
}

#[test]
fn states_have_names() {
    let cells = [("gru", 4), ("dense", 3), ("lstm", 2)].map(|(cell, units)| (Variant::plain(cell), units));
    let network = chain(&mut Rng::new(33), 3, &cells, DRAW);
    let image = AlignedBytes::pack(&network, Numeric::F32);
    let model = image.model();
    assert_eq!(model.state_range("n0", "hidden"), Some(0..4));
    assert_eq!(model.state_range("n2", "hidden"), Some(4..6));
    assert_eq!(model.state_range("n2", "cell_state"), Some(6..8));
    for (node, name) in [("n0", "cell_state"), ("n1", "hidden"), ("n3", "hidden"), ("", "")] {
        assert_eq!(model.state_range(node, name), None, "{node} {name}");
    }
    let mut memory = vec![0; model.state_words()];
    let mut state = State::new(&model, &mut memory).expect("the memory has the model's own length");
    state.part_mut(&model, "n2", "cell_state").expect("it is there").copy_from_slice(&[1.0, 2.0]);
    assert_eq!(state.values(), [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 2.0]);
    assert_eq!(state.part(&model, "n2", "cell_state"), Some(&[1.0, 2.0][..]));
    assert_eq!(state.part(&model, "n2", "rows"), None);
    let other = model.with_schedule(Schedule::Windows { frames: 2, every: 1 }).expect("a good schedule");
    assert_eq!(state.part(&other, "n2", "cell_state"), None, "a state of another schedule");
    assert_eq!(state.part_mut(&other, "n2", "cell_state"), None);
}

#[test]
fn wrong_numbers_and_buffers_are_refused_by_number_and_nothing_runs() {
    let image = AlignedBytes::pack(&two_ports(), Numeric::F32);
    let model = image.model();
    let (batch, time) = (2, 3);
    let words = batch * model.state_words();
    let mut memory = vec![0; words];
    let short = Batch::new(&model, batch, &mut memory[..words - 1]).expect_err("one word is missing");
    assert_eq!(short, BufferTooSmall { needed: words, given: words - 1 });
    let huge = Batch::new(&model, usize::MAX, &mut memory).expect_err("nobody has so much memory");
    assert_eq!(huge, BufferTooSmall { needed: usize::MAX, given: words });

    let mut states = Batch::new(&model, batch, &mut memory).expect("as many words as its states have");
    states.states().for_each(|mut state| state.values_mut().fill(0.5));
    let mut scratch = vec![0; model.scratch_words()];
    let mut refuse =
        |inputs: &[usize], outputs: &[usize], how: Sequence<'_>, scratch_len: usize, expected: StepError| {
            let inputs: Vec<Vec<f32>> = inputs.iter().map(|&len| vec![0.0; len]).collect();
            let mut outputs: Vec<Vec<f32>> = outputs.iter().map(|&len| vec![9.0; len]).collect();
            let scratch = &mut scratch[..scratch_len];
            let run = model.run_batch(&mut states, scratch, &slices(&inputs), &mut slices_mut(&mut outputs), &how);
            assert_eq!(run, Err(expected), "{how:?}");
            assert!(states.states().all(|state| state.values().iter().all(|&value| value == 0.5)));
            assert!(outputs.concat().iter().all(|&y| y == 9.0));
        };
    // Features: inputs 3 and 5, outputs 4, 3 and 3.
    let (full, all) = (model.scratch_words(), Sequence::ALL);
    let (x, y, last) = ([18, 30], [24, 18, 18], [8, 6, 6]);
    let input = |port, needed, given| StepError::Input(ShapeError { port, needed, given });
    let output = |port, needed, given| StepError::Output(ShapeError { port, needed, given });
    refuse(&[], &y, all, full, StepError::Inputs(PortCount { needed: 2, given: 0 }));
    refuse(&x, &y[..2], all, full, StepError::Outputs(PortCount { needed: 3, given: 2 }));
    refuse(&[20, 30], &y, all, full, input(0, 6, 2));
    refuse(&[15, 25], &y, all, full, input(0, 6, 3));
    refuse(&[18, 25], &y, all, full, input(1, 30, 25));
    refuse(&x, &[24, 18, 17], all, full, output(2, 18, 17));
    refuse(&x, &[32, 18, 18], all, full, output(0, 24, 32));
    refuse(&x, &y, Sequence { last_only: true, ..all }, full, output(0, 8, 24));
    refuse(&x, &last, all, full, output(0, 24, 8));
    refuse(&x, &y, all, full - 1, StepError::Scratch(BufferTooSmall { needed: full, given: full - 1 }));
    let lens = |lens| Sequence { lens: Some(lens), ..all };
    refuse(&x, &y, lens(&[]), full, StepError::Lens(WrongLength { expected: 2, given: 0 }));
    refuse(&x, &y, lens(&[1, 2, 3]), full, StepError::Lens(WrongLength { expected: 2, given: 3 }));
    refuse(&x, &y, lens(&[3, 4]), full, StepError::Len { sequence: 1, steps: time, given: 4 });
    refuse(&x, &y, lens(&[usize::MAX, 0]), full, StepError::Len { sequence: 0, steps: time, given: usize::MAX });
    let resets = |resets| Sequence { resets: Some(resets), ..all };
    refuse(&x, &y, resets(&[]), full, StepError::Resets(WrongLength { expected: 6, given: 0 }));
    refuse(&x, &y, resets(&[false; 7]), full, StepError::Resets(WrongLength { expected: 6, given: 7 }));

    let (mut none, mut scratch) = ([0; 0], vec![0; full]);
    let mut empty = Batch::new(&model, 0, &mut none).expect("no state, no memory");
    let run = model.run_batch(&mut empty, &mut scratch, &[&[1.0], &[]], &mut [&mut [], &mut [], &mut []], &all);
    assert_eq!(run, Err(input(0, 0, 1)));
    let run = model.run_batch(&mut empty, &mut scratch, &[&[], &[]], &mut [&mut [], &mut [], &mut []], &all);
    assert_eq!(run, Ok(0));

    let other = model.with_schedule(Schedule::Windows { frames: 2, every: 1 }).expect("a good schedule");
    let mut memory = vec![0; 2 * other.state_words()];
    let mut states = Batch::new(&other, 2, &mut memory).expect("as many words as its states have");
    let run = model.run_batch(&mut states, &mut scratch, &[&[], &[]], &mut [&mut [], &mut [], &mut []], &all);
    assert_eq!(run, Err(StepError::OtherState));
    for (error, text) in [
        (StepError::Lens(WrongLength { expected: 2, given: 3 }), "3 lengths of 2 sequences"),
        (StepError::Len { sequence: 1, steps: 3, given: 4 }, "sequence 1 has 3 steps, and its length is given as 4"),
        (StepError::Resets(WrongLength { expected: 6, given: 0 }), "0 resets for 6 steps"),
    ] {
        assert_eq!(error.to_string(), text);
    }
}
