//! Runs a model over audio and sequences with its own memory, for all commands. The backend computes the steps.

use std::borrow::Cow;

use tidegate::{
    Detector, DetectorSettings, Event, FrontEnd, IntegerDetector, IntegerFrontEnd, Model, RestoreError, Schedule,
    State, Step, StepError, Values, front_end::Mfcc,
};

use crate::backend::{Engine, Scratch};
use crate::score::{Event as Heard, Piece, StreamPlan, StreamScore, score};

/// Maximum number of samples of a window, and of numbers that a run keeps (1 GiB), since an image may ask for any
/// amount.
pub const MOST_NUMBERS: usize = 1 << 28;

/// Number of frames in `samples` samples: whole ones, and the zero frames before the first.
pub fn frame_count(mfcc: &Mfcc<'_>, samples: usize) -> usize {
    let settings = mfcc.settings();
    let after_first = samples.checked_sub(settings.window_len as usize);
    after_first.map_or(0, |after_first| after_first / settings.stride_len as usize + 1 + settings.lead_frames as usize)
}

/// Checks that `steps` rows of `numbers` numbers may be kept.
///
/// # Errors
/// If they are more than [`MOST_NUMBERS`].
pub fn check_room(steps: usize, numbers: usize) -> Result<(), RunError> {
    match steps.checked_mul(numbers) {
        Some(all) if all <= MOST_NUMBERS => Ok(()),
        _ => Err(RunError::TooMuch { steps, numbers }),
    }
}

/// The features of every frame in `samples`, `[frames, coefficients]`.
///
/// # Errors
/// If there are more than [`MOST_NUMBERS`] of them.
pub fn features(mfcc: &Mfcc<'_>, samples: &[i16]) -> Result<Vec<f32>, RunError> {
    features_of(mfcc, samples.len(), &mut std::iter::once(Cow::Borrowed(samples)))
}

/// The features of every frame of a stream of clips, `[frames, coefficients]`, as one continuous signal.
///
/// # Errors
/// If there are more than [`MOST_NUMBERS`] of them.
pub fn stream_features(mfcc: &Mfcc<'_>, sounds: &[Vec<i16>], plan: &StreamPlan) -> Result<Vec<f32>, RunError> {
    features_of(mfcc, plan.samples() as usize, &mut plan.pieces().map(|piece| sound(piece, sounds)))
}

/// The front end with the kernels of this host, which give the same bits.
fn on_host<'a>(mfcc: &Mfcc<'a>) -> Mfcc<'a> {
    #[cfg(feature = "fused")]
    return tidegate_fused::host_front_end(mfcc);
    #[cfg(not(feature = "fused"))]
    *mfcc
}

/// The features of a signal of `len` samples, given piece by piece.
fn features_of(
    mfcc: &Mfcc<'_>,
    len: usize,
    pieces: &mut dyn Iterator<Item = Cow<'_, [i16]>>,
) -> Result<Vec<f32>, RunError> {
    check_room(frame_count(mfcc, len), mfcc.settings().coefficients as usize)?;
    let mut memory = vec![0; mfcc.memory_words()];
    let mut front_end = FrontEnd::new(&on_host(mfcc), &mut memory).expect("the memory has the front end's own length");
    let mut all = Vec::new();
    for piece in pieces {
        let mut rest = &*piece;
        while !rest.is_empty() {
            rest = &rest[front_end.push(rest)..];
            while let Some(frame) = front_end.next() {
                all.extend_from_slice(frame);
            }
        }
    }
    Ok(all)
}

/// The samples of a piece of a stream of `sounds`.
fn sound(piece: Piece, sounds: &[Vec<i16>]) -> Cow<'_, [i16]> {
    match piece {
        Piece::Gap(noise) => Cow::Owned(noise),
        Piece::Clip(clip) => Cow::Borrowed(&sounds[clip]),
    }
}

/// The features of a single clip, `[frames, coefficients]`. Leading zero frames only replace frames that a short clip
/// lacks; a clip that is long enough has none.
///
/// # Errors
/// If there are more than [`MOST_NUMBERS`] of them.
pub fn clip_features(mfcc: &Mfcc<'_>, samples: &[i16]) -> Result<Vec<f32>, RunError> {
    let mut features = features(mfcc, samples)?;
    let settings = mfcc.settings();
    let (frames, lead) = (frame_count(mfcc, samples.len()), settings.lead_frames as usize);
    let heard_after_first = frames.saturating_sub(lead + 1);
    features.drain(..lead.min(heard_after_first) * settings.coefficients as usize);
    Ok(features)
}

/// `samples` truncated, or padded with silence, to the length of `frames` frames, as TensorFlow's `DecodeWav` does.
///
/// # Errors
/// If the length is more than [`MOST_NUMBERS`].
pub fn fit(mfcc: &Mfcc<'_>, samples: &[i16], frames: u32) -> Result<Vec<i16>, RunError> {
    let settings = mfcc.settings();
    let after_first = u64::from(frames.max(1) - 1) * u64::from(settings.stride_len);
    let needed = u64::from(settings.window_len) + after_first;
    if needed > MOST_NUMBERS as u64 {
        return Err(RunError::LongWindow { frames, samples: needed });
    }
    let mut fitted = samples.to_vec();
    fitted.resize(needed as usize, 0);
    Ok(fitted)
}

/// Results of a run over a sequence.
#[derive(Debug, Default)]
pub struct Sequence {
    /// For each output, `[rows, size]`: one row for every step with an output.
    pub outputs: Vec<Vec<f32>>,
    /// Indices of these steps. The output of an incomplete window at the end has the total number of steps as its index.
    pub steps: Vec<usize>,
    /// For each node, `[rows, size]`: a row for every step, or with a schedule for every step of each window. Nodes
    /// behind the last one with a state run only in steps with an output.
    pub layers: Vec<Vec<f32>>,
    /// The state after the last step, in the format of [`State::save`].
    pub state: Vec<u8>,
}

/// Why a sequence did not run.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the error texts explain the variants and their fields")]
pub enum RunError {
    #[error(transparent)]
    Step(#[from] StepError),
    #[error(transparent)]
    Restore(#[from] RestoreError),
    #[error("a window of {frames} frames is {samples} samples long, but a clip has at most {MOST_NUMBERS}")]
    LongWindow { frames: u32, samples: u64 },
    #[error("{steps} steps of {numbers} numbers each are more than {MOST_NUMBERS}: use a shorter input")]
    TooMuch { steps: usize, numbers: usize },
}

/// Number of steps of a sequence, `[steps, size]` for each input.
pub(crate) fn step_count(inputs: &[&[f32]], sizes: &[usize]) -> usize {
    inputs.iter().zip(sizes).map(|(input, size)| input.len() / size).min().unwrap_or(0)
}

/// The row of each input at a step of the sequence.
pub(crate) fn rows<'i>(inputs: &[&'i [f32]], sizes: &[usize], step: usize) -> Vec<&'i [f32]> {
    inputs.iter().zip(sizes).map(|(input, &size)| &input[step * size..][..size]).collect()
}

/// A model that runs, with its memory.
pub(crate) struct Running<'m, 's> {
    engine: &'m Engine<'m>,
    pub model: &'m Model<'m>,
    pub state: State<'s>,
    scratch: Scratch,
    /// The outputs of the last step that had any.
    pub outputs: Vec<Vec<f32>>,
}

impl<'m, 's> Running<'m, 's> {
    pub fn new(engine: &'m Engine<'m>, memory: &'s mut [u32]) -> Self {
        let model = engine.model();
        let state = State::new(model, memory).expect("the memory has the model's own length");
        let outputs = model.outputs().map(|port| vec![0.0; port.size]).collect();
        Self { engine, model, state, scratch: engine.scratch(), outputs }
    }

    /// Runs one step; returns whether it has outputs.
    pub fn step(&mut self, rows: &[&[f32]], observe: impl FnMut(usize, Values<'_>)) -> Result<bool, RunError> {
        let mut outputs: Vec<&mut [f32]> = self.outputs.iter_mut().map(Vec::as_mut_slice).collect();
        let step = self.engine.step_observed(&mut self.state, &mut self.scratch, rows, &mut outputs, observe)?;
        Ok(step.has_output())
    }

    /// Ends the sequence; returns whether an incomplete window has outputs.
    pub fn finish(&mut self) -> Result<bool, RunError> {
        let mut outputs: Vec<&mut [f32]> = self.outputs.iter_mut().map(Vec::as_mut_slice).collect();
        Ok(self.engine.finish(&mut self.state, &mut self.scratch, &mut outputs)?.has_output())
    }
}

/// Runs a whole sequence from a zero or a saved state, with the schedule of the engine. `inputs` holds `[steps, size]`
/// for each input of the model. An incomplete window of a network without a schedule, such as a bidirectional one, is
/// evaluated as it is.
///
/// # Errors
/// If a saved state or the inputs do not fit the model, or outputs and layers of all steps together are more than
/// [`MOST_NUMBERS`].
pub fn run<'m>(engine: impl Into<Engine<'m>>, inputs: &[&[f32]], saved: Option<&[u8]>) -> Result<Sequence, RunError> {
    run_to(&engine.into(), inputs, saved, true)
}

/// Like [`run`], for a sequence that continues after its last step: an incomplete window is not evaluated.
pub fn run_part<'m>(
    engine: impl Into<Engine<'m>>,
    inputs: &[&[f32]],
    saved: Option<&[u8]>,
) -> Result<Sequence, RunError> {
    run_to(&engine.into(), inputs, saved, false)
}

fn run_to(engine: &Engine<'_>, inputs: &[&[f32]], saved: Option<&[u8]>, ends: bool) -> Result<Sequence, RunError> {
    let model = engine.model();
    let mut memory = vec![0; model.state_words()];
    let mut running = Running::new(engine, &mut memory);
    if let Some(saved) = saved {
        model.restore(&mut running.state, saved)?;
    }
    let sizes: Vec<usize> = model.inputs().map(|port| port.size).collect();
    let steps = step_count(inputs, &sizes);
    let output_sizes: Vec<usize> = model.outputs().map(|port| port.size).collect();
    let kept = output_sizes.iter().copied().chain(model.nodes().map(|node| node.output_size));
    check_room(steps, kept.fold(0, usize::saturating_add))?;
    let mut outputs: Vec<Vec<f32>> = vec![Vec::new(); output_sizes.len()];
    let mut layers = vec![Vec::new(); model.nodes().count()];
    let scales: Vec<f32> = model.node_scales().collect();
    let mut given = Vec::new();
    let mut keep = |step: usize, row: &[Vec<f32>]| {
        outputs.iter_mut().zip(row).for_each(|(output, row)| output.extend_from_slice(row));
        given.push(step);
    };
    for step in 0..steps {
        let rows = rows(inputs, &sizes, step);
        let has_output = running.step(&rows, |node, values| match values {
            Values::F32(values) => layers[node].extend_from_slice(values),
            Values::I16(values) => {
                let scale = scales.get(node).copied().unwrap_or(1.0);
                layers[node].extend(values.iter().map(|&value| f32::from(value) * scale));
            }
        })?;
        if has_output {
            keep(step, &running.outputs);
        }
    }
    let mut bytes = vec![0; running.state.saved_bytes()];
    running.state.save(&mut bytes).expect("the buffer has the state's own length");
    if ends && running.finish()? {
        keep(steps, &running.outputs);
    }
    Ok(Sequence { outputs, steps: given, layers, state: bytes })
}

/// Classifies a single clip: returns the last output of a run over its frames. A window covers the first frames of a
/// clip, padded with silence if the clip is too short. If the front end starts with zero frames, the window covers the
/// last frames.
///
/// # Errors
/// If the model does not accept the front end's features, or its window or the outputs of its layers are too large.
pub fn classify<'m>(engine: impl Into<Engine<'m>>, mfcc: &Mfcc<'_>, samples: &[i16]) -> Result<Vec<f32>, RunError> {
    let engine = engine.into();
    let model = engine.model();
    let features = heard_features(model.schedule(), mfcc, samples)?;
    let outputs = run(engine.endless(), &[&features], None)?.outputs;
    let classes = model.output_size();
    Ok(outputs.first().and_then(|output| output.rchunks(classes.max(1)).next()).unwrap_or_default().to_vec())
}

/// The features of a clip that [`classify`] runs over with a schedule, `[frames, coefficients]`.
///
/// # Errors
/// If there are more than [`MOST_NUMBERS`] of them.
pub fn heard_features(schedule: Schedule, mfcc: &Mfcc<'_>, samples: &[i16]) -> Result<Vec<f32>, RunError> {
    let Schedule::Windows { frames, .. } = schedule else { return clip_features(mfcc, samples) };
    let settings = mfcc.settings();
    if settings.lead_frames == 0 {
        return features(mfcc, &fit(mfcc, samples, frames)?);
    }
    let mut features = clip_features(mfcc, samples)?;
    let window = (frames as usize).saturating_mul(settings.coefficients as usize);
    features.drain(..features.len().saturating_sub(window));
    Ok(features)
}

/// A step of a stream with an output.
#[derive(Debug)]
pub struct Decision<'a> {
    /// Number of samples so far.
    pub sample: u64,
    /// The output of the model.
    pub posteriors: &'a [f32],
    /// The detector's event, if any.
    pub event: Option<Event>,
}

/// Runs front end, model with its schedule, and detector over a stream of samples in blocks. All stages use integers if
/// the image has them, as on a device.
pub fn listen<'m, B: AsRef<[i16]>, E: From<StepError>>(
    engine: impl Into<Engine<'m>>,
    mfcc: &Mfcc<'_>,
    blocks: impl IntoIterator<Item = Result<B, E>>,
    mut decided: impl FnMut(Decision<'_>),
) -> Result<(), E> {
    let engine = engine.into();
    let model = engine.model();
    let mut front_end_memory = vec![0; mfcc.memory_words()];
    let mut ears = Ears::new(model, mfcc, &mut front_end_memory);
    let (mut memory, mut scratch) = (vec![0; model.state_words()], engine.scratch());
    let mut state = State::new(model, &mut memory).expect("the memory has the model's own length");
    let mut detector_memory = vec![0; model.detector().map_or(0, DetectorSettings::memory_words)];
    let integer = matches!(ears, Ears::Integer { .. });
    let mut judge = model.detector().map(|settings| Judge::new(settings, model, integer, &mut detector_memory));
    let mut posteriors = vec![0.0; model.output_size()];
    let (rate, mut sample) = (u64::from(mfcc.settings().sample_rate), 0);
    for block in blocks {
        let block = block?;
        let mut rest = block.as_ref();
        while !rest.is_empty() {
            let taken = ears.push(rest);
            sample += taken as u64;
            rest = &rest[taken..];
            while let Some(step) = ears.step(&engine, &mut state, &mut scratch, &mut posteriors) {
                if !step?.has_output() {
                    continue;
                }
                let now_ms = (sample * 1000 / rate) as u32;
                let event = judge.as_mut().and_then(|judge| judge.push(&posteriors, ears.integers(), now_ms));
                decided(Decision { sample, posteriors: &posteriors, event });
            }
        }
    }
    Ok(())
}

/// Front end and model: samples in, posteriors out.
enum Ears<'a, 'b> {
    Float(FrontEnd<'a, 'b>),
    Integer { front_end: IntegerFrontEnd<'a, 'b>, posteriors: Vec<i16> },
}

impl<'a, 'b> Ears<'a, 'b> {
    fn new(model: &Model<'_>, mfcc: &Mfcc<'a>, memory: &'b mut [u32]) -> Self {
        const LEN: &str = "the memory has the front end's own length";
        let mfcc = on_host(mfcc);
        match mfcc.integer() {
            Some(integer) if model.numeric().is_integer() && mfcc.scale() == Some(model.input_scale()) => {
                let front_end = IntegerFrontEnd::new(&integer, memory).expect(LEN);
                Self::Integer { front_end, posteriors: vec![0; model.output_size()] }
            }
            _ => Self::Float(FrontEnd::new(&mfcc, memory).expect(LEN)),
        }
    }

    fn push(&mut self, samples: &[i16]) -> usize {
        match self {
            Self::Float(front_end) => front_end.push(samples),
            Self::Integer { front_end, .. } => front_end.push(samples),
        }
    }

    /// Runs one step over the next frame, if there is one.
    fn step(
        &mut self,
        engine: &Engine<'_>,
        state: &mut State<'_>,
        scratch: &mut Scratch,
        output: &mut [f32],
    ) -> Option<Result<Step, StepError>> {
        match self {
            Self::Float(front_end) => Some(engine.step_f32(state, scratch, front_end.next()?, output)),
            Self::Integer { front_end, posteriors } => {
                let step = engine.step_i16(state, scratch, front_end.next()?, posteriors);
                for (value, &integer) in output.iter_mut().zip(posteriors.iter()) {
                    *value = f32::from(integer) * engine.model().output_scale();
                }
                Some(step)
            }
        }
    }

    /// The last posteriors, if they are integers.
    fn integers(&self) -> &[i16] {
        match self {
            Self::Float(_) => &[],
            Self::Integer { posteriors, .. } => posteriors,
        }
    }
}

/// Detector: posteriors in, events out.
enum Judge<'a, 'b> {
    Float(Detector<'a, 'b>),
    Integer { detector: IntegerDetector<'a, 'b>, scale: f32 },
}

impl<'a, 'b> Judge<'a, 'b> {
    /// Outputs that are not posteriors are handled in `f32`.
    fn new(settings: &DetectorSettings<'a>, model: &Model<'_>, integer: bool, memory: &'b mut [u32]) -> Self {
        const LEN: &str = "the memory has the detector's own length";
        let scale = model.output_scale();
        if integer && [1.0 / 32768.0, 1.0 / 256.0].contains(&scale) {
            let detector = IntegerDetector::new(settings, scale, memory).expect(LEN);
            return Self::Integer { detector, scale };
        }
        Self::Float(Detector::new(settings, memory).expect(LEN))
    }

    fn push(&mut self, posteriors: &[f32], integers: &[i16], now_ms: u32) -> Option<Event> {
        match self {
            Self::Float(detector) => detector.push(posteriors, now_ms).ok().flatten(),
            Self::Integer { detector, scale } => {
                let event = detector.push(integers, now_ms).ok().flatten()?;
                Some(Event { label: event.label, score: f32::from(event.score) * *scale, at_ms: event.at_ms })
            }
        }
    }
}

/// Runs the model over the stream that `plan` joins from `sounds`, which are its clips by index, and scores the events.
/// `heard` is called at the start of each clip.
///
/// # Errors
/// If the model does not accept the front end's features.
pub fn score_stream(
    engine: &Engine<'_>,
    mfcc: &Mfcc<'_>,
    sounds: &[Vec<i16>],
    plan: &StreamPlan,
    labels: &[String],
    heard: &dyn Fn(),
) -> Result<StreamScore, StepError> {
    let blocks = plan.pieces().map(|piece| {
        if matches!(piece, Piece::Clip(_)) {
            heard();
        }
        Ok(sound(piece, sounds))
    });
    let mut events = Vec::new();
    listen(engine, mfcc, blocks, |decision| {
        if let Some(event) = decision.event {
            events.push(Heard { label: event.label, at_sample: decision.sample });
        }
    })
    .map(|()| score(&events, plan, labels))
}

#[cfg(test)]
mod tests {
    use tidegate::front_end::{First, MelCorners, Method, MfccSettings, Spectrum, Window};

    use super::*;

    #[test]
    fn windows_and_inputs_beyond_all_measure_are_refused() {
        let settings = MfccSettings {
            method: Method::Mfcc,
            sample_rate: 16_000,
            window_len: 256,
            stride_len: 65_536,
            window: Window::Hann,
            fft_len: 256,
            spectrum: Spectrum::Magnitude,
            mel_bands: 20,
            coefficients: 10,
            lower_hz: 20.0,
            upper_hz: 4000.0,
            bins_per_rate: 256,
            corners: MelCorners::Exact,
            log_floor: 1e-12,
            first: First::Cepstrum,
            lead_frames: 0,
        };
        let mut section = vec![0; settings.section_len().unwrap()];
        settings.write(&mut section).unwrap();
        let mfcc = Mfcc::parse(&section).unwrap();
        let error = fit(&mfcc, &[1; 300], 1_048_560).unwrap_err();
        assert!(matches!(error, RunError::LongWindow { samples: 68_718_362_880, .. }), "{error}");
        let fitted = fit(&mfcc, &[1; 300], 2).unwrap();
        assert_eq!((fitted.len(), frame_count(&mfcc, fitted.len())), (256 + 65_536, 2));
        assert_eq!(fitted.iter().filter(|sample| **sample == 1).count(), 300);
        assert_eq!(fit(&mfcc, &[1; 300], 1).unwrap(), [1; 256]);
        assert_eq!((frame_count(&mfcc, 255), frame_count(&mfcc, 256)), (0, 1));
        assert!(check_room(1 << 20, 1 << 8).is_ok());
        for (steps, numbers) in [(1 << 20, (1 << 8) + 1), (usize::MAX, 2)] {
            assert!(matches!(check_room(steps, numbers), Err(RunError::TooMuch { .. })));
        }
    }
}
