//! An LED that is switched on for a while.

use embedded_hal::digital::OutputPin;

/// Switches an LED on at an event and off some time after it, on any pin.
#[derive(Debug)]
pub struct Led<P> {
    pin: P,
    lit_for_ms: u32,
    lit_at: Option<u32>,
}

impl<P: OutputPin> Led<P> {
    /// Controls `pin`, which is switched off first.
    ///
    /// # Errors
    /// If the pin fails.
    pub fn new(mut pin: P, lit_for_ms: u32) -> Result<Self, P::Error> {
        pin.set_low()?;
        Ok(Self { pin, lit_for_ms, lit_at: None })
    }

    /// Switches on at `now_ms`, for the configured time.
    ///
    /// # Errors
    /// If the pin fails.
    pub fn light(&mut self, now_ms: u32) -> Result<(), P::Error> {
        self.lit_at = Some(now_ms);
        self.pin.set_high()
    }

    /// Switches off when the time has elapsed; returns whether it did.
    ///
    /// # Errors
    /// If the pin fails.
    pub fn tick(&mut self, now_ms: u32) -> Result<bool, P::Error> {
        let due = self.lit_at.is_some_and(|since| now_ms.wrapping_sub(since) >= self.lit_for_ms);
        if due {
            self.lit_at = None;
            self.pin.set_low()?;
        }
        Ok(due)
    }

    /// The pin.
    pub fn pin(&mut self) -> &mut P {
        &mut self.pin
    }
}
