//! Frames of the [protocol](crate::wire): a body and its CRC-32, encoded with COBS, so that the byte 0 occurs only between
//! frames.

use cobs::{CobsEncoder, DecodeResult, DecoderState};
use tidegate::internals::crc::Crc32;

/// Maximum length of a body in bytes.
pub(crate) const BODY_BYTES: usize = 134;
const CRC_BYTES: usize = 4;
const CONTENT_BYTES: usize = BODY_BYTES + CRC_BYTES;

/// Length of the longest frame. It begins and ends with a byte 0.
pub const FRAME_BYTES: usize = cobs::max_encoding_length(CONTENT_BYTES) + 2;

/// Writes the frame of a body of at most [`BODY_BYTES`] bytes, and returns its bytes.
pub(crate) fn encode<'f>(body: &[u8], frame: &'f mut [u8; FRAME_BYTES]) -> &'f [u8] {
    frame.fill(0);
    let crc = Crc32::NEW.update(body).finish().to_le_bytes();
    let Some((_, content)) = frame.split_first_mut() else { return &[] };
    let mut encoder = CobsEncoder::new(content);
    let len = match [body, &crc].into_iter().try_for_each(|bytes| encoder.push(bytes)) {
        Ok(()) => encoder.finalize() + 2,
        // The body is too long.
        Err(_) => 0,
    };
    frame.get(..len).unwrap_or_default()
}

/// Finds the frames in the bytes of a line. Damaged frames are skipped.
#[derive(Debug)]
pub struct Frames {
    decoder: DecoderState,
    content: [u8; CONTENT_BYTES],
    /// Number of bytes in `content`; greater than its length if the frame is too long.
    len: usize,
}

impl Default for Frames {
    fn default() -> Self {
        Self::new()
    }
}

impl Frames {
    /// Creates a decoder that has not received anything yet.
    pub const fn new() -> Self {
        Self { decoder: DecoderState::Idle, content: [0; CONTENT_BYTES], len: 0 }
    }

    /// Takes the next byte of the line. If it ends a valid frame, returns the body of the frame.
    pub fn push(&mut self, byte: u8) -> Option<&[u8]> {
        match self.decoder.feed(byte) {
            Ok(DecodeResult::DataStart) | Err(_) => self.len = 0,
            Ok(DecodeResult::NoData) => {}
            Ok(DecodeResult::DataContinue(byte)) => {
                if let Some(place) = self.content.get_mut(self.len) {
                    *place = byte;
                }
                self.len = self.len.saturating_add(1);
            }
            Ok(DecodeResult::DataComplete) => {
                let (body, crc) = self.content.get(..self.len)?.split_last_chunk()?;
                return (Crc32::NEW.update(body).finish() == u32::from_le_bytes(*crc)).then_some(body);
            }
        }
        None
    }
}
