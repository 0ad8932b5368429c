//! Sequences and batches equal stepping bit for bit, for any model, lengths, resets and initial states.

use tidegate::{
    Batch, BufferTooSmall, Layout, Numeric, PortCount, Runner, Schedule, Sequence, ShapeError, State, StepError,
    WrongLength,
};
use tidegate_model::canonical::{self, Canonical};
use tidegate_model::pack::pack_with;
use tidegate_model::quantize::Ranges;
use tidegate_tests::backend::{self, Backend};
use tidegate_tests::images::{AlignedBytes, over_windows, two_ports, whole};
use tidegate_tests::random::{Draw, Rng, Variant, chain};
use tidegate_tests::tolerance::{Miss, same_bits};

const DRAW: Draw = Draw { weights: 1.5, biases: true };

/// A model of one to three cells of any kind.
fn stack(rng: &mut Rng, all: &[Variant]) -> Canonical {
    let cells: Vec<(Variant, usize)> =
        (0..1 + rng.below(3)).map(|_| (all[rng.below(all.len())].clone(), 1 + rng.below(5))).collect();
    let input = 1 + rng.below(5);
    chain(rng, input, &cells, DRAW)
}

/// A recurrent cell that runs backwards over windows of `length` rows, one every `hop` steps.
fn windowed(rng: &mut Rng, all: &[Variant], length: usize, hop: usize, partial: bool) -> Canonical {
    let recurrent = |variant: &&Variant| {
        // A dense layer before the cell would run over the windows in its place.
        let is_first = (variant.width)(3, 2) == 3;
        is_first && !variant.kind.spec().states.is_empty() && !variant.kind.is_buffered()
    };
    let recurrent: Vec<&Variant> = all.iter().filter(recurrent).collect();
    let cell = recurrent[rng.below(recurrent.len())].clone();
    let model = chain(rng, 3, &[(cell, 2)], DRAW);
    over_windows(model, length, hop, partial, rng.below(2) == 0)
}

/// A number at a port.
trait Sample: Copy {
    /// The content of buffers before a run.
    const UNSET: Self;
    const ZERO: Self;
    /// Random numbers, some of which saturate the gates.
    fn draw(rng: &mut Rng, count: usize) -> Vec<Self>;
    fn same(got: &[Self], expected: &[Self]) -> Result<(), Miss>;
}

impl Sample for f32 {
    const UNSET: Self = f32::NAN;
    const ZERO: Self = 0.0;

    fn draw(rng: &mut Rng, count: usize) -> Vec<Self> {
        rng.numbers(count, 2.0)
    }

    fn same(got: &[Self], expected: &[Self]) -> Result<(), Miss> {
        same_bits(got, expected)
    }
}

impl Sample for i16 {
    const UNSET: Self = i16::MIN;
    const ZERO: Self = 0;

    fn draw(rng: &mut Rng, count: usize) -> Vec<Self> {
        rng.numbers(count, 32767.0).into_iter().map(|value| value as i16).collect()
    }

    fn same(got: &[Self], expected: &[Self]) -> Result<(), Miss> {
        let floats = |numbers: &[i16]| numbers.iter().map(|&number| f32::from(number)).collect::<Vec<_>>();
        same_bits(&floats(got), &floats(expected))
    }
}

fn slices<P>(buffers: &[Vec<P>]) -> Vec<&[P]> {
    buffers.iter().map(Vec::as_slice).collect()
}

fn slices_mut<P>(buffers: &mut [Vec<P>]) -> Vec<&mut [P]> {
    buffers.iter_mut().map(Vec::as_mut_slice).collect()
}

fn saved(state: &State<'_>) -> Vec<u8> {
    let mut bytes = vec![0; state.saved_bytes()];
    assert_eq!(state.save(&mut bytes), Ok(bytes.len()));
    bytes
}

/// Runs sequence `index` of `time` steps step by step. Returns the rows of each output.
fn steps<P: Sample>(
    backend: &dyn Backend<P>,
    state: &mut State<'_>,
    inputs: &[Vec<P>],
    how: &Sequence<'_>,
    index: usize,
    time: usize,
) -> Vec<Vec<Vec<P>>> {
    let model = backend.model();
    let mut all = vec![Vec::new(); model.outputs().count()];
    let len = how.lens.map_or(time, |lens| lens[index]);
    for t in 0..=len {
        let mut y: Vec<Vec<P>> = model.outputs().map(|port| vec![P::UNSET; port.size]).collect();
        let step = if t < len {
            if how.resets.is_some_and(|resets| resets[index * time + t]) {
                state.reset();
            }
            let x: Vec<&[P]> = inputs
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

/// The expected buffer of one output: its rows, or the last one, then zeros.
fn buffer<P: Sample>(mut rows: Vec<Vec<P>>, how: &Sequence<'_>, size: usize, time: usize) -> Vec<P> {
    if how.last_only {
        return rows.pop().unwrap_or_else(|| vec![P::ZERO; size]);
    }
    let mut buffer = rows.concat();
    buffer.resize(time * size, P::ZERO);
    buffer
}

/// Compares a batch, and each of its sequences alone, with stepping, in a random mode and from random states.
fn hold<P: Sample>(backend: &dyn Backend<P>, rng: &mut Rng) {
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
    let inputs: Vec<Vec<P>> = model.inputs().map(|port| P::draw(rng, batch * time * port.size)).collect();
    let rows = if how.last_only { 1 } else { time };
    let outputs: Vec<Vec<P>> = model.outputs().map(|port| vec![P::UNSET; batch * rows * port.size]).collect();

    let mut memory = vec![u32::MAX; batch * model.state_words()];
    let mut states = Batch::new(model, batch, &mut memory).expect("the memory has the batch's own length");
    assert_eq!((states.len(), states.is_empty()), (batch, batch == 0));
    for mut state in states.states() {
        // The state is one after some steps, because a window stores its number of rows among its values.
        let before = rng.below(4);
        let x: Vec<Vec<P>> = model.inputs().map(|port| P::draw(rng, before * port.size)).collect();
        let mut y: Vec<Vec<P>> = model.outputs().map(|port| vec![P::ZERO; before * port.size]).collect();
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
        model.restore(&mut state, begun).expect("the state is of this model");
        let expected = steps(backend, &mut state, &inputs, &how, index, time);
        let count = expected[0].len().min(rows);
        expected_written += count;
        let after = saved(&state);
        assert_eq!(saved(&states.state(index).expect("the batch has the state")), after, "state {index} of the batch");

        model.restore(&mut state, begun).expect("the state is of this model");
        let own: Vec<&[P]> = inputs
            .iter()
            .zip(model.inputs())
            .map(|(x, port)| &x[index * time * port.size..][..time * port.size])
            .collect();
        let mut alone: Vec<Vec<P>> = model.outputs().map(|port| vec![P::UNSET; rows * port.size]).collect();
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
            P::same(alone, &expected)
                .unwrap_or_else(|miss| panic!("{}, sequence {index} alone, {how:?}: {miss}", backend.name()));
            let own = &got[index * rows * port.size..][..rows * port.size];
            P::same(own, &expected)
                .unwrap_or_else(|miss| panic!("{}, sequence {index} of {batch}, {how:?}: {miss}", backend.name()));
        }
    }
    assert_eq!(written, expected_written);
    states.reset();
    assert!(states.states().all(|state| state.values().iter().all(|value| value.to_bits() == 0)));
    assert!(states.states().all(|state| state.values_i16().iter().all(|&value| value == 0)));
}

#[test]
fn sequences_and_batches_equal_stepping() {
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
fn sequences_and_batches_of_integers_are_their_steps() {
    let all: Vec<Variant> = Variant::all()
        .into_iter()
        .filter(|variant| variant.kind.integer_spec().is_some() && variant.options.is_empty())
        .filter(|variant| variant.activations.is_empty())
        .collect();
    let mut rng = Rng::new(34);
    let (mut held, mut with_windows) = (0, 0);
    for round in 0..300 {
        let mut network = match round % 6 {
            0 => windowed(&mut rng, &all, 1 + round % 5, 1 + round % 5, true),
            1 => windowed(&mut rng, &all, 4, 1 + round % 3, false),
            2 => two_ports(),
            _ => stack(&mut rng, &all),
        };
        let seen: Vec<Vec<f32>> =
            network.architecture.inputs.iter().map(|input| rng.numbers(12 * input.size, 1.0)).collect();
        let Ok(ranges) = Ranges::measure(&network, [slices(&seen).as_slice()]) else { continue };
        if round % 4 == 3 {
            let (frames, every) = (1 + rng.below(5) as u32, 1 + rng.below(3) as u32);
            network.architecture.schedule = canonical::Schedule::Windows { frames, every };
        }
        let numeric = rng.pick(&Numeric::INTEGER);
        // Some sums of some random networks grow beyond what the packer accepts.
        let Ok(packed) = pack_with(&network, numeric, &ranges, Layout::Portable) else { continue };
        let image = AlignedBytes::new(&packed);
        held += 1;
        with_windows += usize::from(image.model().has_buffer());
        for _ in 0..2 {
            hold(&*backend::integers(&image.model()), &mut rng);
        }
    }
    assert!(held > 150 && with_windows > 50, "{held} networks, {with_windows} with windows");
}

#[test]
fn floats_and_integers_are_refused_where_the_model_has_none() {
    let sequence = Sequence { finish: true, ..Sequence::ALL };
    let float = AlignedBytes::pack(&whole(), Numeric::F32);
    let model = float.model();
    let (mut memory, mut scratch) = (vec![0; model.state_words()], vec![0; model.scratch_words()]);
    let mut batch = Batch::new(&model, 1, &mut memory).expect("the memory has the model's own length");
    let run = model.run_batch_i16(&mut batch, &mut scratch, &[&[0; 2]], &mut [&mut [0; 3]], &sequence);
    assert_eq!(run, Err(StepError::FloatModel));
    let mut state = batch.state(0).expect("it is there");
    let run = model.run_i16(&mut state, &mut scratch, &[0; 2], &mut [0; 3]);
    assert_eq!(run, Err(StepError::FloatModel));
    let end = model.finish_i16(&mut state, &mut scratch, &mut [&mut [0; 3]]);
    assert_eq!(end, Err(StepError::FloatModel));

    let integer = AlignedBytes::pack(&whole(), Numeric::I8x16);
    let model = integer.model().integers_only().expect("it is in integers");
    let (mut memory, mut scratch) = (vec![0; model.state_words()], vec![0; model.scratch_words()]);
    let mut batch = Batch::new(&model, 1, &mut memory).expect("the memory has the model's own length");
    let run = model.run_batch(&mut batch, &mut scratch, &[&[0.0; 2]], &mut [&mut [0.0; 3]], &sequence);
    assert_eq!(run, Err(StepError::IntegersOnly));
    let mut state = batch.state(0).expect("it is there");
    let end = model.finish(&mut state, &mut scratch, &mut [&mut [0.0; 3]]);
    assert_eq!(end, Err(StepError::IntegersOnly));
    assert_eq!(model.run_i16(&mut state, &mut scratch, &[0; 6], &mut [0; 9]), Ok(1), "a window has three steps");
}

#[test]
fn a_runner_steps_as_its_model_does() {
    for numeric in [Numeric::F32, Numeric::I8x16] {
        let image = AlignedBytes::pack(&whole(), numeric);
        let model = image.model();
        let mut rng = Rng::new(35);
        let (mut memory, mut scratch) = (vec![0; model.state_words()], vec![0; model.scratch_words()]);
        let mut state = State::new(&model, &mut memory).expect("the memory has the model's own length");
        let mut words = vec![u32::MAX; model.runner_words() + 3];
        let mut runner = Runner::new(&model, words.as_mut_slice()).expect("the memory is long enough");
        for t in 0..20 {
            if t == 10 {
                state.reset();
                runner.reset();
            }
            let (x, mut y) = (rng.numbers(2, 2.0), [f32::NAN; 3]);
            let step = model.step_f32(&mut state, &mut scratch, &x, &mut y).expect("every length is right");
            let output = runner.step(&x).expect("every length is right");
            assert_eq!(output.is_some(), step.has_output());
            output.into_iter().for_each(|output| same_bits(output, &y).expect("the same step"));
            assert_eq!(saved(&runner.state().expect("the memory is long enough")), saved(&state));
            if numeric.is_integer() {
                let (x, mut y) = (<i16 as Sample>::draw(&mut rng, 2), [0; 3]);
                let step = model.step_i16(&mut state, &mut scratch, &x, &mut y).expect("every length is right");
                let output = runner.step_i16(&x).expect("every length is right");
                assert_eq!(output, step.has_output().then_some(&y[..]));
                assert_eq!(runner.finish_i16(), Ok(None), "windows are full or nothing");
            }
        }
        assert_eq!(runner.finish(), Ok(None), "windows are full or nothing");
        let input = StepError::Input(ShapeError { port: 0, needed: 2, given: 3 });
        assert_eq!(runner.step(&[0.0; 3]), Err(input));
        let (needed, given) = (model.runner_words(), model.runner_words() - 1);
        let short = Runner::new(&model, vec![0; given]).expect_err("one word is missing");
        assert_eq!(short, BufferTooSmall { needed, given });
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
    let mut states = Batch::new(&model, batch, &mut memory).expect("the memory has the batch's own length");
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
        same_bits(&alone, &expected).expect("both orders of rows give the same output");
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
    state.part_mut(&model, "n2", "cell_state").expect("the state exists").copy_from_slice(&[1.0, 2.0]);
    assert_eq!(state.values(), [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 2.0]);
    assert_eq!(state.part(&model, "n2", "cell_state"), Some(&[1.0, 2.0][..]));
    assert_eq!(state.part(&model, "n2", "rows"), None);
    let other = model.with_schedule(Schedule::Windows { frames: 2, every: 1 }).expect("the schedule is valid");
    assert_eq!(state.part(&other, "n2", "cell_state"), None, "a state of another schedule");
    assert_eq!(state.part_mut(&other, "n2", "cell_state"), None);
}

#[test]
fn wrong_numbers_and_buffers_are_refused_with_their_lengths_and_nothing_runs() {
    let image = AlignedBytes::pack(&two_ports(), Numeric::F32);
    let model = image.model();
    let (batch, time) = (2, 3);
    let words = batch * model.state_words();
    let mut memory = vec![0; words];
    let short = Batch::new(&model, batch, &mut memory[..words - 1]).expect_err("one word is missing");
    assert_eq!(short, BufferTooSmall { needed: words, given: words - 1 });
    let huge = Batch::new(&model, usize::MAX, &mut memory).expect_err("the memory exceeds the address space");
    assert_eq!(huge, BufferTooSmall { needed: usize::MAX, given: words });

    let mut states = Batch::new(&model, batch, &mut memory).expect("the memory has the batch's own length");
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
    let mut empty = Batch::new(&model, 0, &mut none).expect("an empty batch needs no memory");
    let run = model.run_batch(&mut empty, &mut scratch, &[&[1.0], &[]], &mut [&mut [], &mut [], &mut []], &all);
    assert_eq!(run, Err(input(0, 0, 1)));
    let run = model.run_batch(&mut empty, &mut scratch, &[&[], &[]], &mut [&mut [], &mut [], &mut []], &all);
    assert_eq!(run, Ok(0));

    let other = model.with_schedule(Schedule::Windows { frames: 2, every: 1 }).expect("the schedule is valid");
    let mut memory = vec![0; 2 * other.state_words()];
    let mut states = Batch::new(&other, 2, &mut memory).expect("the memory has the batch's own length");
    let run = model.run_batch(&mut states, &mut scratch, &[&[], &[]], &mut [&mut [], &mut [], &mut []], &all);
    assert_eq!(run, Err(StepError::OtherState));
    for (error, text) in [
        (StepError::Lens(WrongLength { expected: 2, given: 3 }), "3 lengths given for 2 sequences"),
        (StepError::Len { sequence: 1, steps: 3, given: 4 }, "sequence 1 has 3 steps, but the given length is 4"),
        (StepError::Resets(WrongLength { expected: 6, given: 0 }), "0 reset flags given for 6 steps"),
    ] {
        assert_eq!(error.to_string(), text);
    }
}
