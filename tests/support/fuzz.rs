//! Bodies of the fuzz targets: pure functions that must neither panic nor run long for any bytes. The targets in
//! `tests/fuzz` include this file, and `fuzz_corpus.rs` replays their corpora on stable Rust.

#[path = "fuzz_c.rs"]
pub mod c;
#[path = "fuzz_fused.rs"]
pub mod fused;
#[path = "fuzz_integer.rs"]
pub mod integer;
#[path = "fuzz_node.rs"]
mod node;

use tidegate::internals::{image::field::header, node::Node, write::seal};
use tidegate::{Batch, Detector, FrontEnd, ImageBytes, Model, Sequence, State};

/// How a target handled its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The bytes are not an image.
    Refused,
    /// The bytes are an image whose model is too large to run here.
    TooLarge,
    /// The bytes are an image whose model has stepped.
    Ran,
}

/// Bits of the first byte of [`parse_then_step`]'s data.
pub mod flag {
    /// Recompute the checksum, so that a mutation gets past it.
    pub const SEAL: u8 = 1;
    /// Write the length of the data into the header before computing the checksum.
    pub const LENGTH: u8 = 2;
    /// The bytes are not an image, but choose an image of a single node.
    pub const NODE: u8 = 4;
}

/// Largest number of state and scratch words, of states, and largest [`work`] of a step that a target runs.
const MAX_WORDS: usize = 1 << 12;
const MAX_STATES: u32 = 256;
const MAX_WORK: usize = 1 << 13;
const STEPS: usize = 6;
/// Maximum number of samples of each kind that are pushed into the front end.
const MAX_SAMPLES: usize = 4096;
/// Offset of the clock in a saved state, after the header of seven words.
const SAVED_CLOCK: usize = 28;

/// Parses the bytes as they are. `parse` and `parse_structure` agree unless a checksum is wrong.
pub fn image_parse(data: &[u8]) -> Outcome {
    let mut buffer = Vec::new();
    let bytes: &[u8] = aligned(&mut buffer, data);
    let Ok(bytes) = ImageBytes::new(bytes) else { panic!("the copy is aligned") };
    let structure = Model::parse_structure(bytes);
    match Model::parse(bytes) {
        Err(_) => Outcome::Refused,
        Ok(model) => {
            assert!(structure.is_ok(), "structure alone is refused: {structure:?}");
            assert!(model.nodes().count() > 0 && model.inputs().count() > 0 && model.outputs().count() > 0);
            assert!(model.inputs().chain(model.outputs()).all(|port| port.size > 0));
            Outcome::Ran
        }
    }
}

/// A byte of flags, then an image. It is either refused, or it steps on finite and non-finite input and its state is
/// saved and restored.
pub fn parse_then_step(data: &[u8]) -> Outcome {
    with_model(data, |model, data| {
        step(model, data);
        sequences(model, data);
        hear(model, data);
        Outcome::Ran
    })
}

/// Calls `run` with the model that a byte of flags and an image stand for, and on the bytes after the flags, unless the
/// image is refused or the model is too large to run here.
fn with_model(data: &[u8], run: impl FnOnce(&Model<'_>, &[u8]) -> Outcome) -> Outcome {
    let Some((&flags, data)) = data.split_first().filter(|(_, data)| !data.is_empty()) else { return Outcome::Refused };
    let built = if flags & flag::NODE != 0 { Some(node::image(data)) } else { None };
    let data = match &built {
        Some(None) => return Outcome::TooLarge,
        Some(Some(image)) => image,
        None => data,
    };
    let mut buffer = Vec::new();
    let bytes = aligned(&mut buffer, data);
    if flags & flag::LENGTH != 0
        && let Some(field) = bytes.get_mut(header::IMAGE_LEN)
    {
        field.copy_from_slice(&(data.len() as u32).to_le_bytes());
    }
    if flags & flag::SEAL != 0 {
        // The checksum covers the image length that the header states.
        let len =
            bytes.get(header::IMAGE_LEN).and_then(|len| len.first_chunk()).map_or(0, |&len| u32::from_le_bytes(len));
        if let Some(image) = bytes.get_mut(..len as usize) {
            seal(image);
        }
    }
    let Ok(bytes) = ImageBytes::new(bytes) else { panic!("the copy is aligned") };
    let Ok(model) = Model::parse(bytes) else { return Outcome::Refused };
    if is_large(&model) { Outcome::TooLarge } else { run(&model, data) }
}

/// Whether a step takes more memory or work than a target has time for.
fn is_large(model: &Model<'_>) -> bool {
    let work = model.nodes().fold(0_usize, |sum, node| sum.saturating_add(work(&node)));
    model.state_words() > MAX_WORDS
        || model.scratch_words() > MAX_WORDS
        || model.schedule().states() > MAX_STATES
        || work > MAX_WORK
        || model.inputs().chain(model.outputs()).map(|port| port.size).sum::<usize>() > MAX_WORDS
}

/// Upper bound of a node's work in a step: its multiply-accumulates, counted for every unrolled row and every pass over
/// its weights, and the elements that it moves, counted as often as a kernel without weights visits them.
fn work(node: &Node<'_>) -> usize {
    let taps = node.spec().extents.iter().enumerate().filter(|(_, spec)| spec.name.starts_with("kernel_"));
    let taps = taps.fold(1_usize, |taps, (index, _)| taps.saturating_mul(node.extent(index)));
    let row = taps.saturating_mul(node.output_size).saturating_add(node.input_size);
    let moved = row.saturating_mul(node.steps()).saturating_add(node.state_elements());
    node.macs().saturating_add(moved)
}

/// Pushes samples from the data, then the loudest possible ones, through front end and detector if the image has them.
fn hear(model: &Model<'_>, data: &[u8]) {
    if let Some(mfcc) = model.front_end()
        && mfcc.memory_words() <= MAX_WORDS
    {
        let mut memory = vec![u32::MAX; mfcc.memory_words()];
        let mut front_end = FrontEnd::new(mfcc, &mut memory).expect("the memory has the front end's own length");
        let len = (2 * mfcc.settings().window_len as usize).min(MAX_SAMPLES);
        let quiet = data.iter().cycle().take(len).map(|&byte| i16::from(byte));
        let samples: Vec<i16> = quiet.chain((0..len).map(|k| if k % 2 == 0 { i16::MIN } else { i16::MAX })).collect();
        let mut rest = samples.as_slice();
        while !rest.is_empty() {
            rest = &rest[front_end.push(rest)..];
            while let Some(frame) = front_end.next() {
                assert!(frame.iter().all(|feature| feature.is_finite()), "{frame:?}");
            }
        }
    }
    if let Some(settings) = model.detector()
        && settings.memory_words() <= MAX_WORDS
    {
        let mut memory = vec![u32::MAX; settings.memory_words()];
        let mut detector = Detector::new(settings, &mut memory).expect("the memory has the detector's own length");
        for (round, &byte) in data.iter().cycle().take(STEPS).enumerate() {
            let posteriors = vec![f32::from(byte) / 255.0; settings.label_count()];
            let event = detector
                .push(&posteriors, (u32::MAX - 2).wrapping_add(round as u32))
                .expect("every label has a posterior");
            assert!(event.is_none_or(|event| event.label < settings.label_count()));
        }
    }
}

fn step(model: &Model<'_>, data: &[u8]) {
    let mut memory = vec![u32::MAX; model.state_words()];
    let mut state = State::new(model, &mut memory).expect("the memory has the model's own length");
    let mut saved = vec![0; state.saved_bytes()];
    let seen = trace(model, data, &mut state, u32::MAX, &mut saved);
    let mut memory = vec![0; model.state_words()];
    let mut other = State::new(model, &mut memory).expect("the memory has the model's own length");
    let again = trace(model, data, &mut other, 1.0_f32.to_bits(), &mut saved);
    assert!(seen == again, "the contents of the scratch show in the results");
    let mut scratch = vec![u32::MAX; model.scratch_words()];
    model.restore(&mut state, &saved).expect("a saved state can be restored");
    let mut again = vec![0; saved.len()];
    assert_eq!(state.save(&mut again), Ok(again.len()));
    assert_eq!(saved, again, "the restored state differs from the saved one");
    // A forged clock under a good checksum must be harmless too.
    let end = again.len() - 4;
    again[SAVED_CLOCK..SAVED_CLOCK + 4].fill(u8::MAX);
    let crc = crc32(&again[..end]);
    again[end..].copy_from_slice(&crc.to_le_bytes());
    model.restore(&mut state, &again).expect("the checksum is good");
    step_on(model, &mut state, &mut scratch);
    step_on(model, &mut state, &mut scratch);
    state.reset();
    assert!(state.values().iter().all(|value| value.to_bits() == 0));
}

/// The bits of every output and of the state after it. The scratch is filled with `fill` before each step. The state is
/// saved halfway.
fn trace(model: &Model<'_>, data: &[u8], state: &mut State<'_>, fill: u32, saved: &mut [u8]) -> Vec<u32> {
    // Finite numbers from the data, then infinities, NaN and extreme values.
    let odd = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN, -0.0, 1e-45];
    let number = |k: usize, round: usize| match round {
        0..3 => f32::from(data[k % data.len()]) / 64.0 - 2.0,
        _ => odd[(k + round) % odd.len()],
    };
    let mut trace = Vec::new();
    let mut scratch = vec![0; model.scratch_words()];
    for round in 0..=STEPS {
        let inputs: Vec<Vec<f32>> =
            model.inputs().map(|port| (0..port.size).map(|k| number(k + round, round)).collect()).collect();
        let mut outputs: Vec<Vec<f32>> = model.outputs().map(|port| vec![0.0; port.size]).collect();
        let inputs: Vec<&[f32]> = inputs.iter().map(Vec::as_slice).collect();
        let mut outputs: Vec<&mut [f32]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
        scratch.fill(fill);
        let step = if round < STEPS {
            model.step_ports(state, &mut scratch, &inputs, &mut outputs)
        } else {
            model.finish(state, &mut scratch, &mut outputs)
        };
        trace.push(u32::from(step.expect("every length is right").has_output()));
        outputs.iter().for_each(|output| trace.extend(bits(output)));
        trace.extend(bits(state.values()));
        if round == STEPS / 2 {
            assert_eq!(state.save(saved), Ok(saved.len()));
        }
    }
    trace
}

/// Runs two sequences as a batch, in a mode chosen by the data, then each alone, then step by step. All give the same
/// rows.
fn sequences(model: &Model<'_>, data: &[u8]) {
    const BATCH: usize = 2;
    const TIME: usize = 3;
    let byte = |k: usize| data[k % data.len()];
    let (lens, flags) = ([0, 1].map(|k| usize::from(byte(k)) % (TIME + 1)), byte(BATCH));
    let resets: Vec<bool> = (0..BATCH * TIME).map(|k| byte(BATCH + 1 + k) & 1 == 1).collect();
    let (last_only, finish) = (flags & 1 == 1, flags & 2 == 2);
    let rows = if last_only { 1 } else { TIME };
    let mut memory = vec![u32::MAX; BATCH * model.state_words()];
    let mut scratch = vec![u32::MAX; model.scratch_words()];
    let mut batch = Batch::new(model, BATCH, &mut memory).expect("the memory has the batch's own length");
    let (time_inputs, outputs) = (BATCH * TIME, BATCH * rows);
    let inputs: Vec<Vec<f32>> = model
        .inputs()
        .map(|port| (0..time_inputs * port.size).map(|k| f32::from(byte(k + k / port.size)) / 64.0 - 2.0).collect())
        .collect();
    let mut outputs: Vec<Vec<f32>> = model.outputs().map(|port| vec![0.5; outputs * port.size]).collect();
    let how = Sequence { lens: Some(&lens), resets: Some(&resets), last_only, finish };
    let written = model
        .run_batch(&mut batch, &mut scratch, &slices(&inputs, 0, 1), &mut slices_mut(&mut outputs), &how)
        .expect("every length is right");
    let states: Vec<Vec<u32>> = batch.states().map(|state| bits(state.values())).collect();
    batch.reset();
    let mut alone = 0;
    for (index, mut state) in batch.states().enumerate() {
        let (lens, resets) = (&lens[index..=index], &resets[index * TIME..][..TIME]);
        let how = Sequence { lens: Some(lens), resets: Some(resets), last_only, finish };
        let inputs: Vec<Vec<f32>> = slices(&inputs, index, BATCH).into_iter().map(<[f32]>::to_vec).collect();
        let mut own: Vec<Vec<f32>> = model.outputs().map(|port| vec![0.25; rows * port.size]).collect();
        scratch.fill(0);
        let count = model
            .run_ports(&mut state, &mut scratch, &slices(&inputs, 0, 1), &mut slices_mut(&mut own), &how)
            .expect("every length is right");
        alone += count;
        assert!(bits(state.values()) == states[index], "a state of the batch differs from that of its sequence");
        for (own, output) in own.iter().zip(slices(&outputs, index, BATCH)) {
            assert!(bits(own) == bits(output), "a sequence in a batch equals the sequence alone");
        }
        state.reset();
        let stepped = by_steps(model, &mut state, &inputs, TIME, &how);
        assert!(bits(state.values()) == states[index], "the state after a sequence differs from stepping");
        assert_eq!(count, if last_only { stepped.len().min(1) } else { stepped.len().min(rows) });
        let stepped = if last_only { &stepped[stepped.len() - count..] } else { &stepped[..count] };
        for (k, row) in stepped.iter().enumerate() {
            for (own, row) in slices(&own, k, rows).into_iter().zip(row) {
                assert!(bits(own) == bits(row), "a sequence equals its steps");
            }
        }
        let rest = own.iter().flat_map(|output| &output[count * output.len() / rows..]);
        assert!(rest.map(|value| value.to_bits()).all(|bits| bits == 0), "a row that was not written is not zero");
    }
    assert_eq!(written, alone, "a sequence in a batch equals the sequence alone");
}

/// The outputs of a sequence, row by row, by single steps.
fn by_steps(
    model: &Model<'_>,
    state: &mut State<'_>,
    inputs: &[Vec<f32>],
    time: usize,
    how: &Sequence<'_>,
) -> Vec<Vec<Vec<f32>>> {
    let mut scratch = vec![u32::MAX; model.scratch_words()];
    let mut rows = Vec::new();
    let len = how.lens.map_or(time, |lens| lens[0]);
    for t in 0..len {
        if how.resets.is_some_and(|resets| resets[t]) {
            state.reset();
        }
        let mut row: Vec<Vec<f32>> = model.outputs().map(|port| vec![0.0; port.size]).collect();
        let step = model.step_ports(state, &mut scratch, &slices(inputs, t, time), &mut slices_mut(&mut row));
        if step.expect("every length is right").has_output() {
            rows.push(row);
        }
    }
    let mut row: Vec<Vec<f32>> = model.outputs().map(|port| vec![0.0; port.size]).collect();
    if how.finish
        && len > 0
        && model.finish(state, &mut scratch, &mut slices_mut(&mut row)).expect("every length is right").has_output()
    {
        rows.push(row);
    }
    rows
}

/// Part `index` of each buffer when it is cut into `parts`.
fn slices<T>(buffers: &[Vec<T>], index: usize, parts: usize) -> Vec<&[T]> {
    let of = |buffer: &Vec<T>| buffer.len() / parts;
    buffers.iter().map(|buffer| &buffer[index * of(buffer)..][..of(buffer)]).collect()
}

fn slices_mut<T>(buffers: &mut [Vec<T>]) -> Vec<&mut [T]> {
    buffers.iter_mut().map(Vec::as_mut_slice).collect()
}

/// The bits of the values, with every NaN replaced by the same one.
fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| if value.is_nan() { f32::NAN.to_bits() } else { value.to_bits() }).collect()
}

fn step_on(model: &Model<'_>, state: &mut State<'_>, scratch: &mut [u32]) {
    let inputs: Vec<Vec<f32>> = model.inputs().map(|port| vec![0.5; port.size]).collect();
    let mut outputs: Vec<Vec<f32>> = model.outputs().map(|port| vec![0.0; port.size]).collect();
    let inputs: Vec<&[f32]> = inputs.iter().map(Vec::as_slice).collect();
    let mut outputs: Vec<&mut [f32]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
    model.step_ports(state, scratch, &inputs, &mut outputs).map(drop).expect("every length is right");
}

/// CRC-32/ISO-HDLC, bit by bit.
pub fn crc32(bytes: &[u8]) -> u32 {
    let bit = |crc: u32| if crc & 1 == 1 { crc >> 1 ^ 0xEDB8_8320 } else { crc >> 1 };
    !bytes.iter().fold(u32::MAX, |crc, &byte| (0..8).fold(crc ^ u32::from(byte), |crc, _| bit(crc)))
}

/// A copy on a 16-byte boundary.
fn aligned<'b>(buffer: &'b mut Vec<u8>, data: &[u8]) -> &'b mut [u8] {
    *buffer = vec![0; data.len() + 16];
    let start = buffer.as_ptr().align_offset(16);
    let bytes = &mut buffer[start..start + data.len()];
    bytes.copy_from_slice(data);
    bytes
}
