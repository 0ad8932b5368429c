#![doc = include_str!("../../FORMAT.md")]

pub(crate) mod crc;
pub mod error;
pub mod field;
pub(crate) mod layout;
pub(crate) mod read;
pub mod write;

pub use error::{ImageError, Misaligned};
pub use layout::{GROUP, Layout, MAX_FACTOR, factors_at};

use crc::Crc32;
use read::{align_up, slice, u16_at, u32_at, u64_at};

/// Bytes on a 16-byte boundary: `static KWS: &Aligned<[u8]> = &Aligned(*include_bytes!("kws.tgi"));`
#[derive(Clone, Copy, Debug)]
#[repr(C, align(16))]
pub struct Aligned<T: ?Sized>(pub T);

/// Bytes that start on a 16-byte boundary, which a `const fn` cannot check: the type says it.
#[derive(Clone, Copy, Debug)]
pub struct ImageBytes<'a>(&'a [u8]);

impl<'a> ImageBytes<'a> {
    /// Of bytes whose type says that they are aligned.
    pub const fn from_aligned(bytes: &'a Aligned<[u8]>) -> Self {
        Self(&bytes.0)
    }

    /// Of bytes from anywhere: another flash bank, a download.
    ///
    /// # Errors
    /// If they do not start on a multiple of 16.
    pub fn new(bytes: &'a [u8]) -> Result<Self, Misaligned> {
        match bytes.as_ptr().addr() % field::ALIGNMENT {
            0 => Ok(Self(bytes)),
            remainder => Err(Misaligned { remainder }),
        }
    }

    pub(crate) const fn get(self) -> &'a [u8] {
        self.0
    }
}

/// How weights, activations and states are stored and computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Numeric {
    /// f32 throughout.
    F32 = 0,
    /// Matrices in f16, widened on load; everything else f32.
    F16 = 1,
    /// Matrices in i8 with scales a row, everything else in i16 and i32.
    I8x16 = 2,
    /// The same with matrices in i4, of which 32 columns of a row have a factor that makes them i8.
    I4x16 = 4,
    /// As TFLite's integer kernels compute, bit for bit: matrices in i8, what layers give in 8 bits, the cell state of an
    /// LSTM in 16. Slots and states are i16, and hold what TFLite has less its zero point: so 0 stands for 0.0 everywhere.
    I8 = 3,
}

impl Numeric {
    /// Every numeric, in the order of codes.
    pub const ALL: [Self; 5] = [Self::F32, Self::F16, Self::I8x16, Self::I8, Self::I4x16];
    /// Those that compute in f32.
    pub const FLOAT: [Self; 2] = [Self::F32, Self::F16];
    /// Those in integers that a model of floats can be packed in, which [need its ranges](Self::needs_ranges).
    pub const INTEGER: [Self; 2] = [Self::I8x16, Self::I4x16];

    /// Its code in an image.
    pub const fn code(self) -> u16 {
        self as u16
    }

    /// The numeric with this code.
    pub const fn from_code(code: u16) -> Option<Self> {
        match code {
            0 => Some(Self::F32),
            1 => Some(Self::F16),
            2 => Some(Self::I8x16),
            3 => Some(Self::I8),
            4 => Some(Self::I4x16),
            _ => None,
        }
    }

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::I8x16 => "i8x16",
            Self::I4x16 => "i4x16",
            Self::I8 => "i8",
        }
    }

    /// Whether slots and states are i16; else they are f32.
    pub const fn is_integer(self) -> bool {
        match self {
            Self::F32 | Self::F16 => false,
            Self::I8x16 | Self::I4x16 | Self::I8 => true,
        }
    }

    /// Whether a model is packed with how far its values reach. One in [`I8`](Self::I8) is in integers already, and says
    /// itself what they count.
    pub const fn needs_ranges(self) -> bool {
        match self {
            Self::I8x16 | Self::I4x16 => true,
            Self::F32 | Self::F16 | Self::I8 => false,
        }
    }

    /// Slots, states and scratch begin on a multiple of this many elements, and are filled up to one: in an integer
    /// numeric whole words, and as many columns as the layout's kernel reads at once.
    pub(crate) const fn unit(self, layout: Layout) -> usize {
        match (self.is_integer(), layout.columns(self)) {
            (false, _) => 1,
            (true, 1) => 2,
            (true, columns) => columns,
        }
    }

    /// As many elements filled up.
    pub(crate) const fn padded(self, layout: Layout, elements: usize) -> Option<usize> {
        // A power of two: without a division.
        let more = self.unit(layout) - 1;
        match elements.checked_add(more) {
            Some(elements) => Some(elements & !more),
            None => None,
        }
    }

    /// Words that so many elements take, which are padded.
    pub(crate) const fn words(self, elements: usize) -> usize {
        if self.is_integer() { elements.div_ceil(2) } else { elements }
    }
}

/// A hash over the sections: two images with the same id hold the same model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct ModelId(pub u64);

/// What a section holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum SectionKind {
    /// Node records; required.
    Nodes,
    /// Tensors; required.
    Weights,
    /// Named inputs and outputs; required.
    Ports,
    /// How a stream is cut into runs; endless without it.
    Schedule,
    /// Names of the classes, each ended by a line feed.
    Labels,
    /// How audio becomes the input.
    FrontEnd,
    /// How posteriors become events.
    Detector,
    /// Names of the nodes, each ended by a line feed.
    Names,
    /// Over every byte of the image but itself; kept for signed images, skipped by this build.
    Signature,
    /// What a unit of each node's output is worth in an integer numeric, for reports: a step does not read it.
    Scales,
}

impl SectionKind {
    /// Every kind.
    pub const ALL: [Self; 10] = [
        Self::Nodes,
        Self::Weights,
        Self::Ports,
        Self::Schedule,
        Self::Labels,
        Self::FrontEnd,
        Self::Detector,
        Self::Names,
        Self::Signature,
        Self::Scales,
    ];

    /// Its code in the section table.
    pub const fn code(self) -> u16 {
        self as u16 + 1
    }

    const fn from_code(code: u16) -> Option<Self> {
        let mut kinds: &[Self] = &Self::ALL;
        while let [kind, rest @ ..] = kinds {
            if kind.code() == code {
                return Some(*kind);
            }
            kinds = rest;
        }
        None
    }

    /// Whether a reader that does not know this kind must refuse the image.
    pub const fn required(self) -> bool {
        matches!(self, Self::Nodes | Self::Weights | Self::Ports)
    }
}

/// The sections of a checked container: header, lengths, table, optionally the checksum. What the payloads
/// mean is checked by [`Model::parse`](crate::Model::parse).
#[derive(Clone, Copy, Debug)]
pub struct Image<'a> {
    /// How weights, activations and states are stored and computed.
    pub numeric: Numeric,
    /// In which order the weights lie.
    pub layout: Layout,
    /// A hash over the sections.
    pub id: ModelId,
    sections: [Option<&'a [u8]>; SectionKind::ALL.len()],
}

impl<'a> Image<'a> {
    /// Checks everything but the payloads. Bytes after the image's own end are ignored: a flash bank is longer.
    ///
    /// # Errors
    /// An [`ImageError`] that says what is wrong, with the numbers.
    pub const fn parse(bytes: ImageBytes<'a>, check_crc: bool) -> Result<Self, ImageError> {
        let bytes = bytes.get();
        let Some(found) = bytes.first_chunk::<4>() else {
            return Err(ImageError::Truncated { offset: 0, needed: field::header::LEN });
        };
        let [a, b, c, d] = field::MAGIC_BYTES;
        if !(found[0] == a && found[1] == b && found[2] == c && found[3] == d) {
            return Err(ImageError::BadMagic { found: *found });
        }
        let (Some(version), Some(count), Some(image_len), Some(numeric), Some(layout), Some(id), Some(stored)) = (
            u16_at(bytes, field::header::VERSION),
            u16_at(bytes, field::header::SECTION_COUNT),
            u32_at(bytes, field::header::IMAGE_LEN),
            u16_at(bytes, field::header::NUMERIC),
            u16_at(bytes, field::header::LAYOUT),
            u64_at(bytes, field::header::MODEL_ID),
            u32_at(bytes, field::header::CRC),
        ) else {
            return Err(ImageError::Truncated { offset: 0, needed: field::header::LEN });
        };
        if version != field::FORMAT_VERSION {
            return Err(ImageError::UnsupportedVersion { found: version });
        }
        let image_len = image_len as usize;
        let (Some((bytes, _)), true) = (bytes.split_at_checked(image_len), image_len >= field::header::LEN) else {
            let needed = if image_len < field::header::LEN { field::header::LEN } else { image_len };
            return Err(ImageError::Truncated { offset: 0, needed });
        };
        if check_crc {
            let (before, after) = bytes.split_at(field::header::CRC.start);
            let (_, after) = after.split_at(field::header::CRC.end - field::header::CRC.start);
            let computed = Crc32::NEW.update(before).update(after).finish();
            if stored != computed {
                return Err(ImageError::BadChecksum { stored, computed });
            }
        }
        if let Some(offset) = not_zero(bytes, field::header::RESERVED.start, field::header::RESERVED.end) {
            return Err(ImageError::NotZero { offset });
        }
        let Some(numeric) = Numeric::from_code(numeric) else {
            return Err(ImageError::UnsupportedNumeric { found: numeric });
        };
        let found = layout;
        let Some(layout) = Layout::from_code(found) else { return Err(ImageError::UnsupportedLayout { found }) };
        if !layout.is_read() || !layout.is_of(numeric) {
            return Err(ImageError::UnsupportedLayout { found });
        }
        match sections(bytes, count) {
            Ok(sections) => Ok(Self { numeric, layout, id: ModelId(id), sections }),
            Err(error) => Err(error),
        }
    }

    /// The payload of a section.
    pub const fn section(&self, kind: SectionKind) -> Option<&'a [u8]> {
        self.sections[kind as usize]
    }
}

/// Walks the table: every section aligned, right behind the one before it, known or optional, there once.
const fn sections(bytes: &[u8], count: u16) -> Result<[Option<&[u8]>; SectionKind::ALL.len()], ImageError> {
    if count > field::MAX_SECTIONS {
        return Err(ImageError::TooManySections { found: count });
    }
    let mut found = [None; SectionKind::ALL.len()];
    let mut seen = [0; field::MAX_SECTIONS as usize];
    let mut end = field::header::LEN + count as usize * field::section::LEN;
    let mut index = 0;
    while index < count as usize {
        let entry_offset = field::header::LEN + index * field::section::LEN;
        let Some(entry) = slice(bytes, entry_offset, field::section::LEN) else {
            return Err(ImageError::Truncated { offset: entry_offset, needed: field::section::LEN });
        };
        let (Some(code), Some(required), Some(offset), Some(len)) = (
            u16_at(entry, field::section::KIND),
            u16_at(entry, field::section::REQUIRED),
            u32_at(entry, field::section::OFFSET),
            u32_at(entry, field::section::PAYLOAD_LEN),
        ) else {
            return Err(ImageError::Truncated { offset: entry_offset, needed: field::section::LEN });
        };
        let (offset, len) = (offset as usize, len as usize);
        let expected = align_up(end);
        if !matches!(expected, Some(expected) if expected == offset) {
            return Err(ImageError::Misaligned { offset });
        }
        let Some(payload) = slice(bytes, offset, len) else {
            return Err(ImageError::Truncated { offset, needed: len });
        };
        let reserved = entry_offset + field::section::RESERVED.start;
        if let Some(offset) = not_zero(bytes, reserved, entry_offset + field::section::LEN) {
            return Err(ImageError::NotZero { offset });
        }
        if let Some(offset) = not_zero(bytes, end, offset) {
            return Err(ImageError::NotZero { offset });
        }
        end = offset + len;
        let mut earlier = 0;
        while earlier < index {
            if seen[earlier] == code {
                return Err(ImageError::DuplicateSection { kind: code });
            }
            earlier += 1;
        }
        seen[index] = code;
        match SectionKind::from_code(code) {
            Some(kind) => found[kind as usize] = Some(payload),
            None if required == 0 => {}
            None => return Err(ImageError::UnknownSection { kind: code }),
        }
        index += 1;
    }
    match align_up(end) {
        Some(needed) if needed == bytes.len() => match not_zero(bytes, end, needed) {
            Some(offset) => Err(ImageError::NotZero { offset }),
            None => Ok(found),
        },
        Some(needed) => Err(ImageError::BadLength { stored: bytes.len(), needed }),
        None => Err(ImageError::BadLength { stored: bytes.len(), needed: end }),
    }
}

/// The first byte of `start..end` that is not zero. These ranges are kept, or lie between sections: 15 bytes at most.
pub(crate) const fn not_zero(bytes: &[u8], start: usize, end: usize) -> Option<usize> {
    let mut offset = start;
    while offset < end && offset < bytes.len() {
        if bytes[offset] != 0 {
            return Some(offset);
        }
        offset += 1;
    }
    None
}
