//! Time, measured by the number of received samples.

/// A clock in milliseconds that wraps at 2^32, as a detector expects. A wrapping count of samples divided by the rate
/// would jump instead, at 16 kHz every 75 hours, and would end refractory times of a detector too early.
#[derive(Debug)]
pub struct Clock {
    sample_rate: u32,
    now_ms: u32,
    /// The part beyond `now_ms`: below `sample_rate`, in units of 1 / (1000 `sample_rate`) s.
    rest: u32,
}

impl Clock {
    /// A clock at 0.
    pub const fn new(sample_rate: u32) -> Self {
        Self { sample_rate, now_ms: 0, rest: 0 }
    }

    /// The time after `samples` more samples, at most four million at once.
    pub const fn after(&mut self, samples: u32) -> u32 {
        let units = self.rest + samples * 1000;
        self.now_ms = self.now_ms.wrapping_add(units / self.sample_rate);
        self.rest = units % self.sample_rate;
        self.now_ms
    }
}
