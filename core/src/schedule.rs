//! How a stream is divided into runs of the network, and the turn of each state in every step.

use crate::image::field::schedule as field;
use crate::image::read::u32_at;

/// How a stream is divided into runs of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Schedule {
    /// One state, carried on indefinitely. Every step has an output, unless a node buffers its steps
    /// ([`Model::has_buffer`](crate::Model::has_buffer)).
    Endless,
    /// Runs of `frames` steps, each from a zero state, with a new run every `every` steps. `ceil(frames / every)`
    /// states take turns. A step has an output when one of them ends its run.
    Windows {
        /// Steps in a run, at least 1.
        frames: u32,
        /// Steps between the starts of two runs, at least 1.
        every: u32,
    },
}

/// The turn of a state in one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Does nothing: its run has ended or has not begun.
    Rest,
    /// Runs the network.
    Step {
        /// Whether the state is zeroed before this step.
        first: bool,
        /// Whether this step yields the output.
        last: bool,
    },
}

impl Schedule {
    /// Largest number of steps of a run and between runs. The clock counts up to twice the period.
    const MAX_STEPS: u32 = 1 << 20;
    /// Largest number of states that take turns. Every step visits each state.
    pub const MAX_STATES: u32 = 1 << 10;

    pub(crate) const fn parse(payload: &[u8]) -> Result<Self, usize> {
        let (Some(frames), Some(every), field::LEN) =
            (u32_at(payload, field::FRAMES), u32_at(payload, field::EVERY), payload.len())
        else {
            return Err(0);
        };
        let schedule = Self::Windows { frames, every };
        ok!(schedule.check());
        Ok(schedule)
    }

    /// Checks that both lengths are within their limits. The error is the field's offset in the section.
    pub(crate) const fn check(self) -> Result<(), usize> {
        match self {
            Self::Endless => Ok(()),
            Self::Windows { frames, .. } if frames == 0 || frames > Self::MAX_STEPS => Err(field::FRAMES.start),
            Self::Windows { every, .. } if every == 0 || every > Self::MAX_STEPS => Err(field::EVERY.start),
            Self::Windows { .. } if self.states() > Self::MAX_STATES => Err(field::EVERY.start),
            Self::Windows { .. } => Ok(()),
        }
    }

    /// The payload of the schedule section; `None` for an endless schedule.
    #[doc(hidden)]
    pub fn section(self) -> Option<[u8; field::LEN]> {
        let Self::Windows { frames, every } = self else { return None };
        let mut payload = [0; field::LEN];
        payload[field::FRAMES].copy_from_slice(&frames.to_le_bytes());
        payload[field::EVERY].copy_from_slice(&every.to_le_bytes());
        Some(payload)
    }

    /// Number of states that take turns.
    pub const fn states(self) -> u32 {
        match self {
            Self::Endless => 1,
            // `parse` refuses `every: 0`, but a caller can construct it.
            Self::Windows { frames, every: 0 } => frames,
            Self::Windows { frames, every } => frames.div_ceil(every),
        }
    }

    /// The clock after `clock`. The clock starts at 0; once every state has begun, it cycles through one period. A
    /// clock beyond that range, which only forged bytes can restore, returns to it.
    #[doc(hidden)]
    pub const fn tick(self, clock: u32) -> u32 {
        match self {
            Self::Endless => 0,
            Self::Windows { every, .. } => {
                let period = every * self.states();
                if clock >= 2 * period - 1 { period } else { clock + 1 }
            }
        }
    }

    /// The action of state number `state` at `clock`.
    #[doc(hidden)]
    pub const fn turn(self, state: u32, clock: u32) -> Turn {
        match self {
            Self::Endless => Turn::Step { first: false, last: true },
            Self::Windows { frames, every } => {
                let (start, period) = (state * every, every * self.states());
                let Some(since) = clock.checked_sub(start) else { return Turn::Rest };
                let age = if since >= period { since - period } else { since };
                if age >= frames { Turn::Rest } else { Turn::Step { first: age == 0, last: age + 1 == frames } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Schedule, Turn};

    #[test]
    fn windows_of_25_every_6_end_every_6_steps_and_are_whole() {
        let schedule = Schedule::Windows { frames: 25, every: 6 };
        assert_eq!(schedule.states(), 5);
        let (mut clock, mut steps) = (0, [0_u32; 5]);
        for frame in 0..10_000_u32 {
            let mut ended = 0;
            for state in 0..5 {
                if let Turn::Step { first, last } = schedule.turn(state, clock) {
                    let count = &mut steps[state as usize];
                    *count = if first { 1 } else { *count + 1 };
                    assert_eq!(last, *count == 25);
                    ended += u32::from(last);
                }
            }
            assert_eq!(ended, u32::from(frame >= 24 && (frame - 24) % 6 == 0), "frame {frame}");
            clock = schedule.tick(clock);
        }
    }
}
