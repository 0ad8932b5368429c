#![doc = include_str!("../../FORMAT.md")]

pub(crate) mod crc;
pub mod error;
pub mod field;
pub(crate) mod layout;
pub(crate) mod names;
pub(crate) mod read;
pub(crate) mod self_test;

pub use error::{ImageError, Misaligned};
pub use layout::{GROUP, Layout, MAX_FACTOR, factors_at};

use crate::math::HAS_FLOATS;
use crc::Crc32;
use read::{align_up, slice, u16_at, u32_at, u64_at};

/// Bytes on a 16-byte boundary: `static KWS: &Aligned<[u8]> = &Aligned(*include_bytes!("kws.tgi"));`
#[derive(Clone, Copy, Debug)]
#[repr(C, align(16))]
pub struct Aligned<T: ?Sized>(pub T);

/// Bytes that start on a 16-byte boundary. The type carries the proof, because a `const fn` cannot check an address.
#[derive(Clone, Copy, Debug)]
pub struct ImageBytes<'a>(&'a [u8]);

impl<'a> ImageBytes<'a> {
    /// Wraps bytes whose type guarantees the alignment.
    pub const fn from_aligned(bytes: &'a Aligned<[u8]>) -> Self {
        Self(&bytes.0)
    }

    /// Wraps bytes from anywhere, such as another flash bank or a download.
    ///
    /// # Errors
    /// If the bytes do not start on a multiple of 16.
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
#[non_exhaustive]
pub enum Numeric {
    /// f32 throughout.
    F32 = 0,
    /// Matrices in f16, widened on load; everything else f32.
    F16 = 1,
    /// Matrices in i8 with a scale per row, everything else in i16 and i32.
    I8x16 = 2,
    /// As [`I8x16`](Self::I8x16), but with matrices in i4: 32 columns of a row share a factor that widens them to i8.
    I4x16 = 4,
    /// Bit for bit as TFLite's integer kernels: matrices in i8, layer outputs in 8 bits, the cell state of an LSTM in
    /// 16. Slots and states are i16 and hold TFLite's value minus its zero point, so that 0 stands for 0.0 everywhere.
    I8 = 3,
}

impl Numeric {
    /// Every numeric, in the order of codes.
    pub const ALL: [Self; 5] = [Self::F32, Self::F16, Self::I8x16, Self::I8, Self::I4x16];
    /// The numerics that compute in f32.
    pub const FLOAT: [Self; 2] = [Self::F32, Self::F16];
    /// The integer numerics that a float model can be packed in; they [need calibrated ranges](Self::needs_ranges).
    pub const INTEGER: [Self; 2] = [Self::I8x16, Self::I4x16];

    /// The numeric's code in an image.
    pub const fn code(self) -> u16 {
        self as u16
    }

    /// The numeric with this code, or `None` if the code is unknown.
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

    /// The numeric's name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::I8x16 => "i8x16",
            Self::I4x16 => "i4x16",
            Self::I8 => "i8",
        }
    }

    /// Whether this build runs models in this numeric: float numerics need the feature `libm` or `micromath`.
    pub const fn is_read(self) -> bool {
        self.is_integer() || HAS_FLOATS
    }

    /// Whether slots and states are i16; otherwise they are f32.
    pub const fn is_integer(self) -> bool {
        match self {
            Self::F32 | Self::F16 => false,
            Self::I8x16 | Self::I4x16 | Self::I8 => true,
        }
    }

    /// Whether packing needs the ranges of the model's values. A model in [`I8`](Self::I8) is already quantized and
    /// states its own scales.
    pub const fn needs_ranges(self) -> bool {
        match self {
            Self::I8x16 | Self::I4x16 => true,
            Self::F32 | Self::F16 | Self::I8 => false,
        }
    }

    /// Slots, states and scratch start on, and are padded to, a multiple of this many elements: in an integer numeric
    /// whole words, and as many columns as the layout's kernel reads at once.
    pub(crate) const fn unit(self, layout: Layout) -> usize {
        match (self.is_integer(), layout.columns(self)) {
            (false, _) => 1,
            (true, 1) => 2,
            (true, columns) => columns,
        }
    }

    /// Rounds `elements` up to a multiple of [`unit`](Self::unit).
    pub(crate) const fn padded(self, layout: Layout, elements: usize) -> Option<usize> {
        // The unit is a power of two, so no division is needed.
        let more = self.unit(layout) - 1;
        match elements.checked_add(more) {
            Some(elements) => Some(elements & !more),
            None => None,
        }
    }

    /// Number of words that `elements` padded elements take.
    pub(crate) const fn words(self, elements: usize) -> usize {
        if self.is_integer() { elements.div_ceil(2) } else { elements }
    }
}

/// A hash over numeric and sections, computed by the packer and not verified. Images from the packer with the same id hold
/// the same model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct ModelId(pub u64);

/// The kind of a section.
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
    /// How a stream is divided into runs; optional, endless by default.
    Schedule,
    /// Names of the classes, each terminated by a line feed.
    Labels,
    /// Settings of the front end, which converts audio to features.
    FrontEnd,
    /// Settings of the detector, which converts posteriors to events.
    Detector,
    /// Names of the nodes, each terminated by a line feed.
    Names,
    /// A signature over every byte of the image except its own and the checksum. [`Model::parse`](crate::Model::parse)
    /// skips it; the crate `tidegate-update` verifies it.
    Signature,
    /// The scale of each node's output in an integer numeric, for reports. A step does not read it.
    Scales,
    /// Inputs and the outputs that they must give, bit for bit: [`Model::self_test`](crate::Model::self_test).
    SelfTest,
}

impl SectionKind {
    /// Every kind of section.
    #[rustfmt::skip]
    pub const ALL: [Self; 11] = [
        Self::Nodes, Self::Weights, Self::Ports, Self::Schedule, Self::Labels, Self::FrontEnd, Self::Detector,
        Self::Names, Self::Signature, Self::Scales, Self::SelfTest,
    ];

    /// The kind's code in the section table.
    pub const fn code(self) -> u16 {
        self as u16 + 1
    }

    /// The kind's name in `FORMAT.md` and in error messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nodes => "nodes",
            Self::Weights => "weights",
            Self::Ports => "ports",
            Self::Schedule => "schedule",
            Self::Labels => "labels",
            Self::FrontEnd => "front_end",
            Self::Detector => "detector",
            Self::Names => "names",
            Self::Signature => "signature",
            Self::Scales => "scales",
            Self::SelfTest => "self_test",
        }
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

/// The sections of a checked container: header, lengths, table, and optionally the checksum.
/// [`Model::parse`](crate::Model::parse) checks the payloads.
#[derive(Clone, Copy, Debug)]
pub struct Image<'a> {
    /// How weights, activations and states are stored and computed.
    pub numeric: Numeric,
    /// The order of the weights.
    pub layout: Layout,
    /// A hash over the sections.
    pub id: ModelId,
    /// The whole image.
    pub bytes: &'a [u8],
    sections: [Option<&'a [u8]>; SectionKind::ALL.len()],
}

impl<'a> Image<'a> {
    /// Checks everything except the payloads. Bytes after the end of the image are ignored: a flash bank may be longer.
    ///
    /// # Errors
    /// The first error found, as an [`ImageError`].
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
        if !numeric.is_read() {
            return Err(ImageError::UnsupportedNumeric { found: numeric.code() });
        }
        let found = layout;
        let Some(layout) = Layout::from_code(found) else { return Err(ImageError::UnsupportedLayout { found }) };
        if !layout.is_read() || !layout.is_of(numeric) {
            return Err(ImageError::UnsupportedLayout { found });
        }
        Ok(Self { numeric, layout, id: ModelId(id), bytes, sections: ok!(sections(bytes, count)) })
    }

    /// The payload of the section of this kind, if the image has one.
    pub const fn section(&self, kind: SectionKind) -> Option<&'a [u8]> {
        self.sections[kind as usize]
    }

    /// The payload of a section that every image has.
    pub(crate) const fn required(&self, kind: SectionKind) -> Result<&'a [u8], ImageError> {
        match self.section(kind) {
            Some(payload) => Ok(payload),
            None => Err(ImageError::MissingSection { kind }),
        }
    }
}

/// Checks the section table: every section is aligned, follows the previous one directly, is known or optional, and
/// occurs once.
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

/// Offset of the first nonzero byte in `start..end`. These ranges are reserved fields or padding, at most 15 bytes.
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
