//! A model over sound and sequences, in memory of its own: what the commands share. All computing is `core`'s.

use std::borrow::Cow;

use tidegate::detector::{DetectorSettings, Event};
use tidegate::front_end::Mfcc;
use tidegate::state::RestoreError;
use tidegate::{Detector, FrontEnd, Model, Schedule, State, StepError};

use crate::score::{Event as Heard, Piece, StreamPlan, StreamScore, score};

/// The features of every frame in `samples`, `[frames, coefficients]`.
pub fn features(mfcc: &Mfcc<'_>, samples: &[i16]) -> Vec<f32> {
    let mut memory = vec![0; mfcc.memory_words()];
    let mut front_end = FrontEnd::new(mfcc, &mut memory).expect("the memory has the front end's own length");
    let (mut rest, mut all) = (samples, Vec::new());
    while !rest.is_empty() {
        rest = &rest[front_end.push(rest)..];
        while let Some(frame) = front_end.next() {
            all.extend_from_slice(frame);
        }
    }
    all
}

/// `samples` cut, or filled up with silence, to what `frames` frames take: what TensorFlow's `DecodeWav` does.
pub fn fit(mfcc: &Mfcc<'_>, samples: &[i16], frames: u32) -> Vec<i16> {
    let settings = mfcc.settings();
    let needed = settings.window_len as usize + (frames.max(1) as usize - 1) * settings.stride_len as usize;
    let mut fitted = samples.to_vec();
    fitted.resize(needed, 0);
    fitted
}

/// What a run over a sequence gave.
#[derive(Debug, Default)]
pub struct Sequence {
    /// For each output, `[steps, size]`.
    pub outputs: Vec<Vec<f32>>,
    /// For each node, `[steps, size]`.
    pub layers: Vec<Vec<f32>>,
    /// The state after the last step, as [`State::save`] has it.
    pub state: Vec<u8>,
}

/// Why a sequence did not run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// An input does not fit.
    #[error(transparent)]
    Step(#[from] StepError),
    /// The initial state is not one of this model.
    #[error(transparent)]
    Restore(#[from] RestoreError),
}

/// Runs a whole sequence from a zero or a saved state as one endless run. `inputs` holds `[steps, size]` for each
/// input of the model.
///
/// # Errors
/// If a saved state is not this model's, or the inputs are not the model's.
pub fn run(model: &Model<'_>, inputs: &[&[f32]], saved: Option<&[u8]>) -> Result<Sequence, RunError> {
    let model = model.with_schedule(Schedule::Endless);
    let (mut memory, mut scratch) = (vec![0; model.state_words()], vec![0; model.scratch_words()]);
    let mut state = State::new(&model, &mut memory).expect("the memory has the model's own length");
    if let Some(saved) = saved {
        state.restore(saved)?;
    }
    let sizes: Vec<usize> = model.inputs().map(|port| port.size).collect();
    let steps = inputs.iter().zip(&sizes).map(|(input, size)| input.len() / size).min().unwrap_or(0);
    let mut outputs: Vec<Vec<f32>> = model.outputs().map(|port| vec![0.0; steps * port.size]).collect();
    let output_sizes: Vec<usize> = model.outputs().map(|port| port.size).collect();
    let mut layers = vec![Vec::new(); model.nodes().count()];
    for step in 0..steps {
        let row = |(input, size): (&&[f32], &usize)| -> Vec<f32> { input[step * size..][..*size].to_vec() };
        let rows: Vec<Vec<f32>> = inputs.iter().zip(&sizes).map(row).collect();
        let rows: Vec<&[f32]> = rows.iter().map(Vec::as_slice).collect();
        let mut out: Vec<&mut [f32]> =
            outputs.iter_mut().zip(&output_sizes).map(|(output, size)| &mut output[step * size..][..*size]).collect();
        let _ = model.step_observed(&mut state, &mut scratch, &rows, &mut out, |node, values| {
            layers[node].extend_from_slice(values);
        })?;
    }
    let mut bytes = vec![0; state.saved_bytes()];
    state.save(&mut bytes).expect("the buffer has the state's own length");
    Ok(Sequence { outputs, layers, state: bytes })
}

/// The class of a clip by itself: the last output of a run over its frames.
///
/// # Errors
/// If the model does not take the front end's features.
pub fn classify(model: &Model<'_>, mfcc: &Mfcc<'_>, samples: &[i16]) -> Result<Vec<f32>, RunError> {
    let features = match model.schedule() {
        Schedule::Endless => features(mfcc, samples),
        Schedule::Windows { frames, .. } => features(mfcc, &fit(mfcc, samples, frames)),
    };
    let outputs = run(model, &[&features], None)?.outputs;
    let classes = model.output_size();
    Ok(outputs.first().and_then(|output| output.rchunks(classes.max(1)).next()).unwrap_or_default().to_vec())
}

/// A step of a stream that had an output.
#[derive(Debug)]
pub struct Decision<'a> {
    /// Samples heard so far.
    pub sample: u64,
    /// The output of the model.
    pub posteriors: &'a [f32],
    /// What the detector made of it.
    pub event: Option<Event>,
}

/// Front end, model in its schedule, and detector over a stream of samples that comes in blocks.
pub fn listen<B: AsRef<[i16]>, E: From<StepError>>(
    model: &Model<'_>,
    mfcc: &Mfcc<'_>,
    blocks: impl IntoIterator<Item = Result<B, E>>,
    mut decided: impl FnMut(Decision<'_>),
) -> Result<(), E> {
    let mut front_end_memory = vec![0; mfcc.memory_words()];
    let mut front_end = FrontEnd::new(mfcc, &mut front_end_memory).expect("the memory has the front end's own length");
    let (mut memory, mut scratch) = (vec![0; model.state_words()], vec![0; model.scratch_words()]);
    let mut state = State::new(model, &mut memory).expect("the memory has the model's own length");
    let mut detector_memory = vec![0; model.detector().map_or(0, DetectorSettings::memory_words)];
    let mut detector = model.detector().map(|settings| {
        Detector::new(settings, &mut detector_memory).expect("the memory has the detector's own length")
    });
    let mut posteriors = vec![0.0; model.output_size()];
    let (rate, mut sample) = (u64::from(mfcc.settings().sample_rate), 0);
    for block in blocks {
        let block = block?;
        let mut rest = block.as_ref();
        while !rest.is_empty() {
            let taken = front_end.push(rest);
            sample += taken as u64;
            rest = &rest[taken..];
            while let Some(frame) = front_end.next() {
                if !model.step_f32(&mut state, &mut scratch, frame, &mut posteriors)?.has_output() {
                    continue;
                }
                let now_ms = (sample * 1000 / rate) as u32;
                let event = detector.as_mut().and_then(|detector| detector.push(&posteriors, now_ms).ok().flatten());
                decided(Decision { sample, posteriors: &posteriors, event });
            }
        }
    }
    Ok(())
}

/// Hears `sounds`, the clips of `plan` by their number, as the one stream that it orders, and scores the events.
/// `heard` is called as each clip begins.
///
/// # Errors
/// If the model does not take the front end's features.
pub fn score_stream(
    model: &Model<'_>,
    mfcc: &Mfcc<'_>,
    sounds: &[Vec<i16>],
    plan: &StreamPlan,
    labels: &[String],
    mut heard: impl FnMut(),
) -> Result<StreamScore, StepError> {
    let blocks = plan.pieces().map(|piece| match piece {
        Piece::Gap(noise) => Ok(Cow::Owned(noise)),
        Piece::Clip(clip) => {
            heard();
            Ok(Cow::Borrowed(sounds[clip].as_slice()))
        }
    });
    let mut events = Vec::new();
    listen(model, mfcc, blocks, |decision| {
        if let Some(event) = decision.event {
            events.push(Heard { label: event.label, at_sample: decision.sample });
        }
    })
    .map(|()| score(&events, plan, labels))
}
