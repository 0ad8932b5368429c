//! Collects samples into frames and schedules the frames. Shared by both streams.

use super::settings::MfccSettings;

/// The samples of a frame.
#[derive(Clone, Copy)]
pub(super) struct Frame<'s> {
    /// The sample before them; 0 before the first sample of the stream.
    pub before: i16,
    /// The samples in order, in two pieces of the ring.
    pub pieces: [&'s [i16]; 2],
}

/// The next frame.
pub(super) enum Due {
    /// A leading frame whose features are zero.
    Zeros,
    /// The frame in the ring.
    Samples,
}

/// A ring of the samples of one frame.
#[derive(Debug)]
pub(super) struct Frames<'b> {
    /// `[window_len]`, a ring.
    samples: &'b mut [i16],
    stride_len: usize,
    lead_frames: u32,
    /// Position of the oldest sample in the ring.
    oldest: usize,
    /// The sample before the oldest.
    before: i16,
    /// Number of samples in the ring.
    filled: usize,
    /// Number of samples to drop before the next frame starts, if the stride exceeds the window.
    skip: usize,
    /// Number of leading zero frames still due.
    lead: u32,
}

impl<'b> Frames<'b> {
    /// Creates an empty ring for checked settings; `samples` has the length of a frame.
    pub fn new(settings: &MfccSettings, samples: &'b mut [i16]) -> Self {
        let &MfccSettings { stride_len, lead_frames, .. } = settings;
        let stride_len = stride_len as usize;
        Self { samples, stride_len, lead_frames, oldest: 0, before: 0, filled: 0, skip: 0, lead: lead_frames }
    }

    /// Takes samples until a frame is complete and returns the number taken.
    pub fn push(&mut self, samples: &[i16]) -> usize {
        let skipped = self.skip.min(samples.len());
        let (dropped, fresh) = samples.split_at_checked(skipped).unwrap_or_default();
        self.before = dropped.last().copied().unwrap_or(self.before);
        let taken = fresh.len().min(self.samples.len().saturating_sub(self.filled));
        if let Some((wrapped, straight)) = self.samples.split_at_mut_checked(self.oldest) {
            let in_wrapped = self.filled.saturating_sub(straight.len());
            let mut fresh = fresh;
            for free in [straight.get_mut(self.filled..), wrapped.get_mut(in_wrapped..)].into_iter().flatten() {
                let (now, later) = fresh.split_at_checked(free.len()).unwrap_or((fresh, &[]));
                free.iter_mut().zip(now).for_each(|(slot, &sample)| *slot = sample);
                fresh = later;
            }
        }
        self.skip -= skipped;
        self.filled += taken;
        skipped + taken
    }

    /// The frame that is due. Leading zero frames are due once the first frame is complete.
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

    /// The samples of the frame that is due.
    pub fn frame(&self) -> Frame<'_> {
        let (wrapped, straight) = self.samples.split_at_checked(self.oldest).unwrap_or_default();
        Frame { before: self.before, pieces: [straight, wrapped] }
    }

    /// Advances by the stride.
    pub fn advance(&mut self) {
        let window_len = self.samples.len();
        let last = self.oldest + self.stride_len.min(window_len).saturating_sub(1);
        let last = if last >= window_len { last - window_len } else { last };
        self.before = self.samples.get(last).copied().unwrap_or(0);
        self.filled = window_len.saturating_sub(self.stride_len);
        // An empty ring may start anywhere.
        self.oldest = if self.filled == 0 { 0 } else { self.oldest + self.stride_len };
        if self.oldest >= window_len {
            self.oldest -= window_len;
        }
        self.skip = self.stride_len.saturating_sub(window_len);
    }

    /// Drops every sample, as if newly created.
    pub fn reset(&mut self) {
        (self.oldest, self.before, self.filled, self.skip, self.lead) = (0, 0, 0, 0, self.lead_frames);
    }
}
