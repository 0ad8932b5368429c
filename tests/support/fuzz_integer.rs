//! Bodies of the fuzz targets of integer steps, of saved states, and of the integer front end and detector.

use tidegate::{
    DetectorSettings, ImageBytes, IntegerDetector, IntegerFrontEnd, Mfcc, Model, Sequence, State,
    internals::write::seal,
};

use super::{
    MAX_SAMPLES, MAX_WORDS, Outcome, STEPS, aligned, crc32, is_large, slices, slices_mut, step_on, with_model,
};

/// The scale of the posteriors of an integer detector.
const UNIT: f32 = 1.0 / 32768.0;

/// A byte of flags, then an image. If it is in integers, its steps on integers do not depend on the scratch, and a
/// sequence equals its steps.
pub fn step_i16(data: &[u8]) -> Outcome {
    with_model(data, |model, data| {
        if !model.numeric().is_integer() {
            return Outcome::Refused;
        }
        let inputs: Vec<Vec<i16>> = model.inputs().map(|port| signal(data, (STEPS + 2) * port.size)).collect();
        let stepped = by_steps(model, &inputs, u32::MAX);
        assert!(stepped == by_steps(model, &inputs, 0x0001_8000), "the contents of the scratch show in the results");
        assert!(stepped == as_sequence(model, &inputs), "a sequence equals its steps");
        Outcome::Ran
    })
}

/// Values from the data, then the extremes, and one that no calibrated model sees.
fn signal(data: &[u8], len: usize) -> Vec<i16> {
    let value = |k: usize| i16::from_le_bytes([data[2 * k % data.len()], data[(2 * k + 1) % data.len()]]);
    let rare = [i16::MAX, -i16::MAX, i16::MIN, 0];
    (0..len).map(|k| if k < len * 3 / 4 { value(k) } else { rare[k % rare.len()] }).collect()
}

/// The rows of every output, the state after the last step, and the rows after the end.
type Results = (Vec<Vec<i16>>, Vec<i16>);

fn by_steps(model: &Model<'_>, inputs: &[Vec<i16>], fill: u32) -> Results {
    let (mut memory, mut scratch) = (vec![u32::MAX; model.state_words()], vec![0; model.scratch_words()]);
    let mut state = State::new(model, &mut memory).expect("the memory has the model's own length");
    let mut rows: Vec<Vec<i16>> = model.outputs().map(|_| Vec::new()).collect();
    for t in 0..=STEPS + 2 {
        let mut row: Vec<Vec<i16>> = model.outputs().map(|port| vec![0; port.size]).collect();
        scratch.fill(fill);
        let step = if t < STEPS + 2 {
            let x = slices(inputs, t, STEPS + 2);
            model.step_ports_i16(&mut state, &mut scratch, &x, &mut slices_mut(&mut row))
        } else {
            model.finish_i16(&mut state, &mut scratch, &mut slices_mut(&mut row))
        };
        if step.expect("every length is right").has_output() {
            rows.iter_mut().zip(&row).for_each(|(rows, row)| rows.extend(row));
        }
    }
    (rows, state.values_i16().to_vec())
}

fn as_sequence(model: &Model<'_>, inputs: &[Vec<i16>]) -> Results {
    let (mut memory, mut scratch) = (vec![0; model.state_words()], vec![u32::MAX; model.scratch_words()]);
    let mut state = State::new(model, &mut memory).expect("the memory has the model's own length");
    let mut outputs: Vec<Vec<i16>> = model.outputs().map(|port| vec![0; (STEPS + 2) * port.size]).collect();
    let how = Sequence { finish: true, ..Sequence::ALL };
    let count = model
        .run_ports_i16(&mut state, &mut scratch, &slices(inputs, 0, 1), &mut slices_mut(&mut outputs), &how)
        .expect("every length is right");
    model.outputs().zip(&mut outputs).for_each(|(port, output)| output.truncate(count * port.size));
    (outputs, state.values_i16().to_vec())
}

/// The length of an image in two bytes, the image, then a saved state, whose checksum is recomputed. Either the saved state
/// is refused and the present state keeps its values, or it is restored and saved as the same bytes, and the model runs on.
pub fn restore(data: &[u8]) -> Outcome {
    let Some((len, data)) = data.split_first_chunk() else { return Outcome::Refused };
    let Some((image, saved)) = data.split_at_checked(usize::from(u16::from_le_bytes(*len))) else {
        return Outcome::Refused;
    };
    let mut buffer = Vec::new();
    let image = aligned(&mut buffer, image);
    seal(image);
    let Ok(bytes) = ImageBytes::new(image) else { panic!("the copy is aligned") };
    let Ok(model) = Model::parse(bytes) else { return Outcome::Refused };
    if is_large(&model) {
        return Outcome::TooLarge;
    }
    let mut saved = saved.to_vec();
    saved.resize(model.saved_bytes(), 0);
    let end = saved.len() - 4;
    let crc = crc32(&saved[..end]);
    saved[end..].copy_from_slice(&crc.to_le_bytes());
    let (mut memory, mut scratch) = (vec![0; model.state_words()], vec![u32::MAX; model.scratch_words()]);
    let mut state = State::new(&model, &mut memory).expect("the memory has the model's own length");
    let mut again = vec![0; saved.len()];
    assert_eq!(state.save(&mut again), Ok(saved.len()));
    let before = again.clone();
    let restored = model.restore(&mut state, &saved);
    assert_eq!(state.save(&mut again), Ok(saved.len()));
    if restored.is_err() {
        assert!(again == before, "a refused state has changed the values");
        return Outcome::Refused;
    }
    assert!(again == saved, "the restored state differs from the saved one");
    (0..STEPS).for_each(|_| step_on(&model, &mut state, &mut scratch));
    Outcome::Ran
}

/// The length of a front end's section in two bytes, the section, a detector's section in the same way, then samples
/// and posteriors. Both run in integers.
pub fn listen(data: &[u8]) -> Outcome {
    let section = |data| -> Option<(&[u8], &[u8])> {
        let (len, rest): (&[u8; 2], &[u8]) = <[u8]>::split_first_chunk(data)?;
        rest.split_at_checked(usize::from(u16::from_le_bytes(*len)))
    };
    let Some((front_end, rest)) = section(data) else { return Outcome::Refused };
    let Some((detector, rest)) = section(rest) else { return Outcome::Refused };
    let mut buffer = Vec::new();
    let heard = hears(aligned(&mut buffer, front_end), rest);
    let detected = detects(aligned(&mut buffer, detector), rest);
    if heard || detected { Outcome::Ran } else { Outcome::Refused }
}

fn hears(section: &[u8], data: &[u8]) -> bool {
    let Ok(mfcc) = Mfcc::parse(section) else { return false };
    let Some(mfcc) = mfcc.integer().filter(|mfcc| mfcc.memory_words() <= MAX_WORDS && !data.is_empty()) else {
        return false;
    };
    let mut memory = vec![u32::MAX; mfcc.memory_words()];
    let mut front_end = IntegerFrontEnd::new(&mfcc, &mut memory).expect("the memory has the front end's own length");
    let samples = signal(data, (2 * mfcc.settings().window_len as usize).min(MAX_SAMPLES));
    let mut rest = samples.as_slice();
    while !rest.is_empty() {
        rest = &rest[front_end.push(rest)..];
        while let Some(frame) = front_end.next() {
            assert_eq!(frame.len(), mfcc.settings().coefficients as usize);
        }
    }
    true
}

fn detects(section: &[u8], data: &[u8]) -> bool {
    let Ok(settings) = DetectorSettings::parse(section) else { return false };
    if settings.integer_memory_words() > MAX_WORDS || data.is_empty() {
        return false;
    }
    let mut memory = vec![u32::MAX; settings.integer_memory_words()];
    let mut detector =
        IntegerDetector::new(&settings, UNIT, &mut memory).expect("the memory has the detector's own length");
    let rounds = 2 * STEPS;
    let posteriors = signal(data, rounds * settings.label_count());
    for (round, posteriors) in posteriors.chunks(settings.label_count().max(1)).enumerate() {
        let now = (u32::MAX - 2).wrapping_add(round as u32);
        let event = detector.push(posteriors, now).expect("every label has a posterior");
        assert!(event.is_none_or(|event| event.label < settings.label_count()));
    }
    true
}
