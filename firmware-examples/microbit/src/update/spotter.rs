//! A model that hears the recorded features again and again.

use tidegate::{Model, State};

use crate::{INPUTS, OUTPUTS};

/// Lines of four hexadecimal digits for each feature, and `reset` before each clip.
const FEATURES: &str = include_str!("../../../expected/microbit.in");
/// A label, a space, and four digits for each posterior.
const NOTE_LEN: usize = 16 + 4 * OUTPUTS;

/// A model and its place in the recording.
pub struct Spotter<'m> {
    model: &'m Model<'m>,
    state: State<'m>,
    scratch: &'m mut [u32],
    rest: &'static str,
    note: [u8; NOTE_LEN],
}

impl<'m> Spotter<'m> {
    /// `None` if the memory is too short for the model, or its ports are not those of this firmware.
    pub fn new<'a: 'm>(model: &'m Model<'a>, memory: &'m mut [u32]) -> Option<Self> {
        let (own, scratch) = memory.split_at_mut_checked(model.state_words())?;
        let fits = scratch.len() >= model.scratch_words();
        let fits = fits && (model.input_size(), model.output_size()) == (INPUTS, OUTPUTS);
        let state = State::new(model, own).ok().filter(|_| fits)?;
        Some(Self { model, state, scratch, rest: FEATURES, note: [0; NOTE_LEN] })
    }

    /// Hears the next frame. Gives a note if a decision is due; `None` if the step fails.
    pub fn hear(&mut self) -> Option<Option<&str>> {
        let mut posteriors = [0; OUTPUTS];
        let features = self.next();
        let step = self.model.step_i16(&mut self.state, self.scratch, &features, &mut posteriors).ok()?;
        Some(if step.has_output() { self.note(&posteriors) } else { None })
    }

    /// The features of the next frame. Before each clip, the state is reset.
    fn next(&mut self) -> [i16; INPUTS] {
        loop {
            let (line, rest) = self.rest.split_once('\n').unwrap_or(("", ""));
            self.rest = if rest.is_empty() { FEATURES } else { rest };
            match words(line) {
                Some(features) => return features,
                None => self.state.reset(),
            }
        }
    }

    fn note(&mut self, posteriors: &[i16; OUTPUTS]) -> Option<&str> {
        let (_, label) = posteriors.iter().zip(self.model.labels()).max_by_key(|(posterior, _)| **posterior)?;
        let digits = posteriors.iter().flat_map(|posterior| {
            let word = posterior.cast_unsigned();
            [12, 8, 4, 0].map(|shift| *b"0123456789abcdef".get(usize::from(word >> shift & 15)).unwrap_or(&b'?'))
        });
        let text = label.bytes().chain([b' ']).chain(digits);
        let len = self.note.iter_mut().zip(text).map(|(place, byte)| *place = byte).count();
        self.note.get(..len).and_then(|note| str::from_utf8(note).ok())
    }
}

/// The features of a line; `None` if it has none.
fn words(line: &str) -> Option<[i16; INPUTS]> {
    let (groups, rest) = line.as_bytes().as_chunks::<4>();
    if groups.len() != INPUTS || !rest.is_empty() {
        return None;
    }
    let mut words = [0; INPUTS];
    for (word, group) in words.iter_mut().zip(groups) {
        *word = u16::from_str_radix(str::from_utf8(group).ok()?, 16).ok()?.cast_signed();
    }
    Some(words)
}
