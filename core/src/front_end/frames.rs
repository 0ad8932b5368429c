//! Samples as they come, frames of them as they are due: what every stream has in common.

use super::settings::MfccSettings;

/// The samples of a frame in order: they lie in two pieces.
pub(super) type Frame<'s> = [&'s [i16]; 2];

/// What comes next.
pub(super) enum Due {
    /// A frame of zeros, as features.
    Zeros,
    /// The frame that the ring holds.
    Samples,
}

/// A ring of the samples of one frame.
#[derive(Debug)]
pub(super) struct Frames<'b> {
    /// [window_len], a ring.
    samples: &'b mut [i16],
    stride_len: usize,
    lead_frames: u32,
    /// Where the oldest sample is in the ring, or will be.
    oldest: usize,
    /// How many samples the ring holds.
    filled: usize,
    /// How many samples to drop before the next frame starts (a stride longer than the window).
    skip: usize,
    /// How many frames of zeros come before the next.
    lead: u32,
}

impl<'b> Frames<'b> {
    /// Of settings within their limits, in as many samples as a frame has.
    pub fn new(settings: &MfccSettings, samples: &'b mut [i16]) -> Self {
        let &MfccSettings { stride_len, lead_frames, .. } = settings;
        let stride_len = stride_len as usize;
        Self { samples, stride_len, lead_frames, oldest: 0, filled: 0, skip: 0, lead: lead_frames }
    }

    /// Takes samples until a frame is complete; returns how many it took.
    pub fn push(&mut self, samples: &[i16]) -> usize {
        let skipped = self.skip.min(samples.len());
        let fresh = samples.get(skipped..).unwrap_or(&[]);
        let taken = fresh.len().min(self.samples.len().saturating_sub(self.filled));
        if let Some((wrapped, straight)) = self.samples.split_at_mut_checked(self.oldest) {
            for (slot, &sample) in straight.iter_mut().chain(wrapped).skip(self.filled).zip(fresh) {
                *slot = sample;
            }
        }
        self.skip -= skipped;
        self.filled += taken;
        skipped + taken
    }

    /// What is due; frames of zeros come once the first frame is there.
    pub fn due(&mut self) -> Option<Due> {
        if self.filled < self.samples.len() {
            return None;
        }
        Some(match self.lead.checked_sub(1) {
            Some(lead) => {
                self.lead = lead;
                Due::Zeros
            }
            None => Due::Samples,
        })
    }

    /// The frame that is due.
    pub fn frame(&self) -> Frame<'_> {
        let (wrapped, straight) = self.samples.split_at_checked(self.oldest).unwrap_or_default();
        [straight, wrapped]
    }

    /// Moves on by the stride.
    pub fn advance(&mut self) {
        let window_len = self.samples.len();
        self.filled = window_len.saturating_sub(self.stride_len);
        // Where nothing is kept, any place is the oldest's.
        self.oldest = if self.filled == 0 { 0 } else { self.oldest + self.stride_len };
        if self.oldest >= window_len {
            self.oldest -= window_len;
        }
        self.skip = self.stride_len.saturating_sub(window_len);
    }

    /// Forgets every sample, as if new.
    pub fn reset(&mut self) {
        (self.oldest, self.filled, self.skip, self.lead) = (0, 0, 0, self.lead_frames);
    }
}
