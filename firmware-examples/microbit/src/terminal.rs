//! The protocol of the serial line, on any line and any pin that implement `embedded_io` and `embedded_hal`.
//!
//! | line | answer |
//! |---|---|
//! | four hexadecimal digits for each feature | `ok`, or the posteriors in the same format if a decision is due |
//! | `reset` | `ok`; the states are reset to zero |
//! | `restart` | `bye` |
//! | anything else | `what?` |
//!
//! If a posterior is above [`THRESHOLD`] and its label is a keyword, the LED is switched on, otherwise off. The state
//! that the pin then reports is printed at the end of the line.

use embedded_hal::digital::StatefulOutputPin;
use embedded_io::{Read, Write};
use tidegate::{Model, State};

/// 0.8, in units of 2^-15 as the posteriors.
const THRESHOLD: i16 = 26_214;
/// The longest valid line: ten features.
const LINE_LEN: usize = 64;

/// A model at the end of a line.
pub struct Terminal<'a, L, const INPUTS: usize, const OUTPUTS: usize> {
    model: &'a Model<'a>,
    state: State<'a>,
    scratch: &'a mut [u32],
    line: L,
}

impl<'a, L: Read + Write, const INPUTS: usize, const OUTPUTS: usize> Terminal<'a, L, INPUTS, OUTPUTS> {
    /// `None` if the memory is too short.
    pub fn new(model: &'a Model<'a>, memory: &'a mut [u32], scratch: &'a mut [u32], line: L) -> Option<Self> {
        Some(Self { model, state: State::new(model, memory).ok()?, scratch, line })
    }

    /// Answers every line. Returns after `restart`, or when the line or the pin fails.
    pub fn serve(&mut self, led: &mut impl StatefulOutputPin) -> Option<()> {
        self.say(b"ready\n")?;
        loop {
            let mut buffer = [0; LINE_LEN];
            let line = self.read_line(&mut buffer)?;
            match line {
                b"restart" => {
                    self.say(b"bye\n")?;
                    return self.line.flush().ok();
                }
                b"reset" => {
                    self.state.reset();
                    self.say(b"ok\n")?;
                }
                digits => match words(digits) {
                    Some(features) => self.step(&features, led)?,
                    None => self.say(b"what?\n")?,
                },
            }
        }
    }

    fn step(&mut self, features: &[i16; INPUTS], led: &mut impl StatefulOutputPin) -> Option<()> {
        let mut posteriors = [0; OUTPUTS];
        if !self.model.step_i16(&mut self.state, self.scratch, features, &mut posteriors).ok()?.has_output() {
            return self.say(b"ok\n");
        }
        for posterior in posteriors {
            self.say(&digits(posterior))?;
        }
        let best = posteriors.iter().zip(self.model.labels()).max_by_key(|(posterior, _)| **posterior);
        let heard = best.filter(|(posterior, label)| **posterior > THRESHOLD && !label.starts_with('_'));
        if let Some((_, label)) = heard {
            self.say(b" ")?;
            self.say(label.as_bytes())?;
        }
        led.set_state(heard.is_some().into()).ok()?;
        let lit = led.is_set_high().ok()?;
        self.say(if lit { b", led on\n" } else { b", led off\n" })
    }

    /// The next line without its end. A line that is too long is truncated.
    fn read_line<'b>(&mut self, buffer: &'b mut [u8; LINE_LEN]) -> Option<&'b [u8]> {
        let mut len = 0;
        loop {
            let mut byte = [0];
            self.line.read_exact(&mut byte).ok()?;
            match byte {
                [b'\n'] => return buffer.get(..len),
                [b'\r'] => {}
                [byte] => {
                    if let Some(slot) = buffer.get_mut(len) {
                        *slot = byte;
                        len += 1;
                    }
                }
            }
        }
    }

    fn say(&mut self, text: &[u8]) -> Option<()> {
        self.line.write_all(text).ok()
    }
}

/// Parses words of four digits each.
fn words<const COUNT: usize>(text: &[u8]) -> Option<[i16; COUNT]> {
    let (groups, rest) = text.as_chunks::<4>();
    if groups.len() != COUNT || !rest.is_empty() {
        return None;
    }
    let mut words = [0; COUNT];
    for (word, group) in words.iter_mut().zip(groups) {
        // The standard library also accepts a sign, which is not a digit.
        let text = str::from_utf8(group).ok().filter(|text| !text.starts_with('+'))?;
        *word = u16::from_str_radix(text, 16).ok()?.cast_signed();
    }
    Some(words)
}

fn digits(word: i16) -> [u8; 4] {
    [12, 8, 4, 0].map(|shift| match (word.cast_unsigned() >> shift & 15) as u8 {
        nibble @ ..10 => b'0' + nibble,
        nibble => b'a' + (nibble - 10),
    })
}
