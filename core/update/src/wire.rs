//! The protocol of updates over a line: what `tidegate flash` asks, and what a device answers. `docs/update.md` specifies
//! it. The sender asks, and waits for the answer with the number of its request. If none comes, it asks again with the same
//! number.

use crate::active::Boot;
use crate::bytes::array;
use crate::frame::{self, BODY_BYTES, FRAME_BYTES};
use crate::record::Phase;
use crate::refusal::Refusal;

/// The version of the protocol that this build speaks.
pub const VERSION: u8 = 1;
/// Maximum number of bytes of an image in a block, in addition to the number, the kind and the offset.
pub const BLOCK_BYTES: usize = BODY_BYTES - 6;
/// Maximum length of a note in bytes.
pub const NOTE_BYTES: usize = BLOCK_BYTES;

/// A request of the sender to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// Which model runs? The answer is [`Answer::About`].
    Hello,
    /// Erase the spare bank for an image of `len` bytes. The answer is [`Answer::Received`].
    Begin {
        /// Length of the image.
        len: u32,
    },
    /// Continue the transfer that was interrupted. The answer is [`Answer::Received`]; the sender compares its digest with
    /// that of the image.
    Resume,
    /// Bytes of the image from an offset on. The answer is [`Answer::Taken`].
    Block {
        /// Offset of the first byte.
        at: u32,
        /// At most [`BLOCK_BYTES`] bytes.
        bytes: &'a [u8],
    },
    /// Verify the complete image. The answer is [`Answer::Done`].
    Finish,
    /// Run the verified image on trial. The answer is [`Answer::Done`].
    Run,
}

/// An answer of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer<'a> {
    /// A description of the device.
    About(About),
    /// A transfer has begun or continues.
    Received {
        /// Length of the image.
        len: u32,
        /// Bytes received so far: the offset of the next block.
        received: u32,
        /// The SHA-512 over the received bytes.
        digest: [u8; 64],
    },
    /// The bytes of a block have been accepted.
    Taken {
        /// Bytes received so far: the offset of the next block.
        received: u32,
    },
    /// The request has been carried out.
    Done,
    /// The request is refused.
    Refused(Refusal),
    /// Text for a person, not an answer to a request: the firmware may send it at any time.
    Note(&'a str),
}

/// A device and the model that it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct About {
    /// The version of its protocol.
    pub version: u8,
    /// The outcome of the last reset or switch.
    pub boot: Boot,
    /// The state of the spare bank.
    pub phase: Phase,
    /// The security counter of the last confirmed image.
    pub counter: u32,
    /// The id of the model that runs, or 0.
    pub model: u64,
    /// Size of the spare bank in bytes.
    pub bank: u32,
}

mod kind {
    pub const HELLO: u8 = 0x01;
    pub const BEGIN: u8 = 0x02;
    pub const RESUME: u8 = 0x03;
    pub const BLOCK: u8 = 0x04;
    pub const FINISH: u8 = 0x05;
    pub const RUN: u8 = 0x06;
    pub const ABOUT: u8 = 0x81;
    pub const RECEIVED: u8 = 0x82;
    pub const TAKEN: u8 = 0x83;
    pub const DONE: u8 = 0x84;
    pub const REFUSED: u8 = 0x85;
    pub const NOTE: u8 = 0x86;
}

impl<'a> Request<'a> {
    /// Writes the frame of the request with this number, and returns its bytes. There are none if a block is too long.
    pub fn encode<'f>(&self, number: u8, frame: &'f mut [u8; FRAME_BYTES]) -> &'f [u8] {
        match *self {
            Self::Hello => encode([number, kind::HELLO], [], frame),
            Self::Begin { len } => encode([number, kind::BEGIN], [&len.to_le_bytes()[..]], frame),
            Self::Resume => encode([number, kind::RESUME], [], frame),
            Self::Block { at, bytes } => encode([number, kind::BLOCK], [&at.to_le_bytes()[..], bytes], frame),
            Self::Finish => encode([number, kind::FINISH], [], frame),
            Self::Run => encode([number, kind::RUN], [], frame),
        }
    }

    /// Decodes the number and the request from the body of a frame; `None` if it is not a request.
    pub fn decode(body: &'a [u8]) -> Option<(u8, Self)> {
        let &[number, kind, ref rest @ ..] = body else { return None };
        let request = match (kind, rest) {
            (kind::HELLO, []) => Self::Hello,
            (kind::BEGIN, &[a, b, c, d]) => Self::Begin { len: u32::from_le_bytes([a, b, c, d]) },
            (kind::RESUME, []) => Self::Resume,
            (kind::BLOCK, &[a, b, c, d, ref bytes @ ..]) if bytes.len() <= BLOCK_BYTES => {
                Self::Block { at: u32::from_le_bytes([a, b, c, d]), bytes }
            }
            (kind::FINISH, []) => Self::Finish,
            (kind::RUN, []) => Self::Run,
            _ => return None,
        };
        Some((number, request))
    }
}

impl<'a> Answer<'a> {
    /// Writes the frame of the answer to the request with this number, and returns the bytes of the frame. There are none if
    /// a note is too long.
    pub fn encode<'f>(&self, number: u8, frame: &'f mut [u8; FRAME_BYTES]) -> &'f [u8] {
        match *self {
            Self::About(about) => encode([number, kind::ABOUT], [&about.encode()[..]], frame),
            Self::Received { len, received, ref digest } => {
                encode([number, kind::RECEIVED], [&len.to_le_bytes()[..], &received.to_le_bytes(), digest], frame)
            }
            Self::Taken { received } => encode([number, kind::TAKEN], [&received.to_le_bytes()[..]], frame),
            Self::Done => encode([number, kind::DONE], [], frame),
            Self::Refused(refusal) => encode([number, kind::REFUSED], [&refusal.encode()[..]], frame),
            Self::Note(text) => encode([number, kind::NOTE], [text.as_bytes()], frame),
        }
    }

    /// Decodes the number of the request and the answer from the body of a frame; `None` if it is not an answer.
    pub fn decode(body: &'a [u8]) -> Option<(u8, Self)> {
        let &[number, kind, ref rest @ ..] = body else { return None };
        let field = |at: usize| u32::from_le_bytes(array(rest, at..at + 4));
        let answer = match (kind, rest.len()) {
            (kind::ABOUT, _) => Self::About(About::decode(rest.try_into().ok()?)?),
            (kind::RECEIVED, 72) => Self::Received { len: field(0), received: field(4), digest: array(rest, 8..72) },
            (kind::TAKEN, 4) => Self::Taken { received: field(0) },
            (kind::DONE, 0) => Self::Done,
            (kind::REFUSED, _) => Self::Refused(Refusal::decode(rest.try_into().ok()?)?),
            (kind::NOTE, _) => Self::Note(str::from_utf8(rest).ok()?),
            _ => return None,
        };
        Some((number, answer))
    }
}

impl<'a> Answer<'a> {
    /// The answer without a borrow, or the text of a note.
    ///
    /// # Errors
    /// If this is a note.
    pub fn reply(self) -> Result<Answer<'static>, &'a str> {
        Ok(match self {
            Self::Note(text) => return Err(text),
            Self::About(about) => Answer::About(about),
            Self::Received { len, received, digest } => Answer::Received { len, received, digest },
            Self::Taken { received } => Answer::Taken { received },
            Self::Done => Answer::Done,
            Self::Refused(refusal) => Answer::Refused(refusal),
        })
    }
}

impl About {
    const LEN: usize = 19;

    fn encode(&self) -> [u8; Self::LEN] {
        let boot = BOOTS.iter().position(|boot| *boot == self.boot).unwrap_or(0) as u8;
        let mut bytes = [0; Self::LEN];
        let fields = [self.version, boot, self.phase as u8].into_iter().chain(self.counter.to_le_bytes());
        let fields = fields.chain(self.model.to_le_bytes()).chain(self.bank.to_le_bytes());
        bytes.iter_mut().zip(fields).for_each(|(place, byte)| *place = byte);
        bytes
    }

    fn decode(bytes: &[u8; Self::LEN]) -> Option<Self> {
        let [version, boot, phase, rest @ ..] = bytes;
        Some(Self {
            version: *version,
            boot: *BOOTS.get(usize::from(*boot))?,
            phase: Phase::decode(*phase)?,
            counter: u32::from_le_bytes(array(rest, 0..4)),
            model: u64::from_le_bytes(array(rest, 4..12)),
            bank: u32::from_le_bytes(array(rest, 12..16)),
        })
    }
}

/// The outcomes of a reset, by their codes.
const BOOTS: [Boot; 4] = [Boot::Empty, Boot::Confirmed, Boot::Trial, Boot::Reverted];

/// Writes the frame of a body with a number, a kind and fields.
fn encode<'f, const COUNT: usize>(head: [u8; 2], fields: [&[u8]; COUNT], frame: &'f mut [u8; FRAME_BYTES]) -> &'f [u8] {
    let mut body = [0; BODY_BYTES];
    let mut len = 0;
    for field in [&head[..]].into_iter().chain(fields) {
        let Some(place) = body.get_mut(len..len + field.len()) else { return &[] };
        place.iter_mut().zip(field).for_each(|(place, byte)| *place = *byte);
        len += field.len();
    }
    frame::encode(body.get(..len).unwrap_or_default(), frame)
}
