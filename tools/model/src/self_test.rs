//! Writes a self-test into an image: seeded inputs, and the bits of the resulting outputs.

use chacha20::ChaCha8Rng;
use chacha20::rand_core::{Rng, SeedableRng};
use tidegate::internals::image::field::self_test as field;
use tidegate::{Model, Numeric, Schedule, SectionKind, State, Step, StepError};

use crate::load::ImageBuffer;
use crate::sections::{SectionsError, append, has};

/// Seed of the inputs.
const SEED: u64 = 1;
/// Steps of a test, unless a window is longer.
const STEPS: usize = 16;
/// Maximum number of steps until the first output of a model.
const LONGEST: usize = 4096;

/// Why an image cannot have a self-test.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the error texts explain the variants")]
pub enum SelfTestError {
    #[error("a self-test is for models with one input and one output, but this one has {inputs} and {outputs}")]
    Ports { inputs: usize, outputs: usize },
    #[error("the model has no output in {LONGEST} steps, so that it cannot have a self-test")]
    NoOutput,
    #[error("the image has a self-test or a signature: pack the model again")]
    HasOne,
    #[error(transparent)]
    Sections(#[from] SectionsError),
    #[error(transparent)]
    Image(#[from] tidegate::ImageError),
    #[error(transparent)]
    Step(#[from] StepError),
}

/// The image with a self-test. The same image gives the same test.
///
/// # Errors
/// If the model cannot have one.
pub fn with_self_test(image: &[u8]) -> Result<Vec<u8>, SelfTestError> {
    if [SectionKind::SelfTest, SectionKind::Signature].into_iter().any(|kind| has(image, kind)) {
        return Err(SelfTestError::HasOne);
    }
    let buffer = ImageBuffer::new(image);
    let model = buffer.model()?;
    let [inputs, outputs] = [model.inputs().count(), model.outputs().count()];
    if [inputs, outputs] != [1, 1] {
        return Err(SelfTestError::Ports { inputs, outputs });
    }
    let mut rng = ChaCha8Rng::seed_from_u64(SEED);
    let integers =
        |state: &mut State<'_>, scratch: &mut [u32], x: &[i16], y: &mut [i16]| model.step_i16(state, scratch, x, y);
    let floats =
        |state: &mut State<'_>, scratch: &mut [u32], x: &[f32], y: &mut [f32]| model.step_f32(state, scratch, x, y);
    let payload = match model.numeric() {
        Numeric::I8 => {
            let zero_point = model.inputs().next().map_or(0, |port| port.zero_point);
            // TFLite's integers minus the zero point.
            payload(&model, || (i32::from(rng.next_u32() as i8) - zero_point) as i16, integers, i16::to_le_bytes)?
        }
        // Half of the 16-bit range, like features.
        numeric if numeric.is_integer() => payload(&model, || rng.next_u32() as i16 / 2, integers, i16::to_le_bytes)?,
        _ => payload(&model, || f32::from(rng.next_u32() as i16) / 32768.0, floats, f32::to_le_bytes)?,
    };
    Ok(append(image, SectionKind::SelfTest, &payload)?)
}

/// The payload of the section: drawn inputs, and the outputs of `step`.
fn payload<E: Copy + Default, const BYTES: usize>(
    model: &Model<'_>,
    mut draw: impl FnMut() -> E,
    step: impl Fn(&mut State<'_>, &mut [u32], &[E], &mut [E]) -> Result<Step, StepError>,
    bytes: fn(E) -> [u8; BYTES],
) -> Result<Vec<u8>, SelfTestError> {
    let wanted = match model.schedule() {
        Schedule::Windows { frames, .. } => STEPS.max(frames as usize),
        Schedule::Endless => STEPS,
    };
    let (mut memory, mut scratch) = (vec![0; model.state_words()], vec![0; model.scratch_words()]);
    let mut state = State::new(model, &mut memory).map_err(StepError::from)?;
    let (mut inputs, mut outputs, mut steps, mut given) = (Vec::new(), Vec::new(), 0usize, 0u32);
    while steps < wanted || given == 0 {
        if steps == LONGEST.max(wanted) {
            return Err(SelfTestError::NoOutput);
        }
        let input: Vec<E> = (0..model.input_size()).map(|_| draw()).collect();
        let mut output = vec![E::default(); model.output_size()];
        if step(&mut state, &mut scratch, &input, &mut output)?.has_output() {
            outputs.extend(output);
            given += 1;
        }
        inputs.extend(input);
        steps += 1;
    }
    let mut payload = vec![0; field::LEN];
    payload[field::STEPS].copy_from_slice(&(steps as u32).to_le_bytes());
    payload[field::OUTPUTS].copy_from_slice(&given.to_le_bytes());
    payload.extend(inputs.into_iter().chain(outputs).flat_map(bytes));
    Ok(payload)
}
