//! States that survive deep sleep: each is saved with the security counter of its image, under a seal.

use core::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha512;
use tidegate::{BufferTooSmall, RestoreError, State};

use crate::trusted::Trusted;

/// First bytes of a save point.
const MAGIC: [u8; 4] = *b"TGSP";
/// Magic, counter and length of the saved state.
const HEADER_BYTES: usize = 12;
/// Bytes of the seal: the first half of HMAC-SHA-512, as RFC 4868 truncates it.
const SEAL_BYTES: usize = 32;

/// Why a save point is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SavePointError {
    /// The bytes are not a save point, for example because the memory has lost its contents.
    NotASavePoint,
    /// The bytes end before the save point does.
    Truncated {
        /// Length of the save point in bytes.
        needed: usize,
        /// Length of the given bytes.
        given: usize,
    },
    /// The save point is damaged, or another key has sealed it.
    BadSeal,
    /// An image with a lower security counter was running when the state was saved.
    OldCounter {
        /// The counter of the save point.
        found: u32,
        /// The counter of the image.
        needed: u32,
    },
    /// The state cannot be restored: another model has saved it.
    State(RestoreError),
}

impl fmt::Display for SavePointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotASavePoint => write!(f, "these bytes are no save point: start from the zero state"),
            Self::Truncated { needed, given } => write!(f, "the save point has {needed} bytes, only {given} are given"),
            Self::BadSeal => {
                write!(f, "the save point is damaged or sealed with another key: start from the zero state")
            }
            Self::OldCounter { found, needed } => write!(
                f,
                "the save point is of an image with security counter {found}, the image has {needed}: start from the zero \
                 state"
            ),
            Self::State(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for SavePointError {}

impl Trusted<'_> {
    /// Length in bytes of a save point of this model.
    pub fn save_point_bytes(&self) -> usize {
        HEADER_BYTES + self.model().saved_bytes() + SEAL_BYTES
    }

    /// Saves a state of this model before deep sleep, and returns the length of the save point in bytes. `key` seals it: a key
    /// that only the device knows excludes forged save points; a constant key detects damage only.
    ///
    /// ```
    /// use tidegate::State;
    /// use tidegate_update::{Active, SavePointError};
    ///
    /// /// Sleeps, and goes on with the same state, or from the zero state if the memory has lost it.
    /// fn sleep(active: &Active<'_>, state: &mut State<'_>, key: &[u8; 32], retained: &mut [u8]) {
    ///     let saved = active.trusted().save(state, key, retained);
    ///     // Deep sleep, and the reset after it.
    ///     if saved.is_err() || active.trusted().restore(state, key, retained).is_err() {
    ///         state.reset();
    ///     }
    /// }
    /// ```
    ///
    /// # Errors
    /// If `out` is shorter than [`save_point_bytes`](Self::save_point_bytes).
    pub fn save(&self, state: &State<'_>, key: &[u8; 32], out: &mut [u8]) -> Result<usize, BufferTooSmall> {
        let saved = state.saved_bytes();
        let (needed, given) = (HEADER_BYTES + saved + SEAL_BYTES, out.len());
        let out = out.get_mut(..needed).ok_or(BufferTooSmall { needed, given })?;
        let (sealed, seal) = out.split_at_mut(HEADER_BYTES + saved);
        let (header, body) = sealed.split_at_mut(HEADER_BYTES);
        header.copy_from_slice(&head(self.signed().counter(), saved));
        state.save(body)?;
        seal.copy_from_slice(&mac(key, sealed).finalize().into_bytes()[..SEAL_BYTES]);
        Ok(needed)
    }

    /// Restores a state that [`save`](Self::save) has written. Bytes after its end are ignored. On an error the state is
    /// unchanged.
    ///
    /// # Errors
    /// The first reason to refuse the save point.
    pub fn restore(&self, state: &mut State<'_>, key: &[u8; 32], bytes: &[u8]) -> Result<(), SavePointError> {
        let (counter, saved) = bytes.first_chunk().and_then(read_head).ok_or(SavePointError::NotASavePoint)?;
        let end = saved.saturating_add(HEADER_BYTES);
        let needed = end.saturating_add(SEAL_BYTES);
        let truncated = SavePointError::Truncated { needed, given: bytes.len() };
        let (sealed, seal) = bytes.get(..needed).and_then(|bytes| bytes.split_at_checked(end)).ok_or(truncated)?;
        mac(key, sealed).verify_truncated_left(seal).map_err(|_| SavePointError::BadSeal)?;
        let needed = self.signed().counter();
        if counter < needed {
            return Err(SavePointError::OldCounter { found: counter, needed });
        }
        let body = sealed.get(HEADER_BYTES..).unwrap_or_default();
        self.model().restore(state, body).map_err(SavePointError::State)
    }
}

/// The header of a save point.
fn head(counter: u32, saved: usize) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    let words = [MAGIC, counter.to_le_bytes(), (saved as u32).to_le_bytes()];
    for (word, value) in header.as_chunks_mut::<4>().0.iter_mut().zip(words) {
        *word = value;
    }
    header
}

/// Counter and length of the saved state.
fn read_head(header: &[u8; HEADER_BYTES]) -> Option<(u32, usize)> {
    let [magic, counter, saved] = header.as_chunks().0 else { return None };
    let saved = usize::try_from(u32::from_le_bytes(*saved)).ok()?;
    (*magic == MAGIC).then(|| (u32::from_le_bytes(*counter), saved))
}

fn mac(key: &[u8; 32], sealed: &[u8]) -> Hmac<Sha512> {
    // HMAC fills short keys with zeros. Keys of a whole block are never refused.
    let mut block = [0; 128];
    if let Some(start) = block.first_chunk_mut() {
        *start = *key;
    }
    let mut mac = Hmac::<Sha512>::new(&block.into());
    mac.update(sealed);
    mac
}
