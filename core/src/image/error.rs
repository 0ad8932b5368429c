//! Why a byte slice is not an image.

use core::fmt;

use super::field::{FORMAT_VERSION, MAX_SECTIONS};
use super::{Layout, Numeric, SectionKind};
use crate::detector::DetectorError;
use crate::front_end::FrontEndError;
use crate::text::{NEEDS_FLOATS, Text, error_of_text};
use crate::work::Limit;

/// Why a byte slice is not an image that this build can run. Offsets are in bytes from the start of the slice. Nodes
/// count from 0, and tensors are numbered as in the cell's spec, in an integer numeric as in its integer spec. `needed`
/// is the required value, `given` and `found` are actual values; lengths are in bytes.
///
/// ```
/// use tidegate::{Aligned, ImageBytes, Model};
///
/// let mut image = Aligned(*include_bytes!("../../examples/kws.tgi"));
/// image.0[1000] ^= 1;
/// let error = Model::parse(ImageBytes::from_aligned(&image)).unwrap_err();
/// assert!(error.to_string().starts_with("the image is damaged"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
#[expect(missing_docs, reason = "the variants say what their fields hold")]
pub enum ImageError {
    /// The slice is too short: it must have `needed` bytes from `offset` on.
    Truncated { offset: usize, needed: usize },
    /// The first four bytes are not those of an image.
    BadMagic { found: [u8; 4] },
    /// The image has a format version that this build does not read.
    UnsupportedVersion { found: u16 },
    /// The length in the header is not that of header, table and sections together.
    BadLength { stored: usize, needed: usize },
    /// The checksum in the header is not that of the bytes: a byte has changed since the image was packed.
    BadChecksum { stored: u32, computed: u32 },
    /// This build does not support the numeric with this code.
    UnsupportedNumeric { found: u16 },
    /// This build does not read the weight layout with this code.
    UnsupportedLayout { found: u16 },
    /// This build does not know the section, and must not skip it.
    UnknownSection { kind: u16 },
    /// The image has more sections than the format allows.
    TooManySections { found: u16 },
    /// A required section is missing.
    MissingSection { kind: SectionKind },
    /// A section occurs twice.
    DuplicateSection { kind: u16 },
    /// A section or tensor does not start on a multiple of 16 bytes, or a section does not follow the previous one
    /// directly. The offset of a tensor counts from the start of the weights.
    Misaligned { offset: usize },
    /// A reserved byte, or a byte of the padding between two sections, is not zero.
    NotZero { offset: usize },
    /// The payload of a section is invalid. `offset` is the first invalid byte, counted from the start of the payload.
    BadSection { kind: SectionKind, offset: usize },
    /// This build does not know the cell with this code.
    UnknownCell { node: u32, code: u16 },
    /// The cell with this code has no form in this integer numeric.
    NoIntegerForm { node: u32, code: u16 },
    /// The family that the image is parsed in has no cell with this code and the options of the node.
    OtherFamily { node: u32, code: u16 },
    /// The sizes of a node (input features, units, output features) do not fit each other or its slots.
    BadSize { node: u32, input: u32, hidden: u32, output: u32 },
    /// An extent of a node is out of range, or the number of extents is not that of its cell. `extent` is the index in
    /// the cell's spec, or the number of extents; `found` is the value.
    BadExtent { node: u32, extent: u32, found: u32 },
    /// The cell of a node does not support one of the node's options, activations or numbers.
    BadOption { node: u32 },
    /// A slot, given by its first element and its length, is outside the arena, is both read and written by the node,
    /// or is read before an earlier node or input has written it as a whole.
    BadSlot { node: u32, start: u32, elements: u32 },
    /// A tensor is missing, or extends past the end of the weights: it needs more bytes than there are from its offset
    /// on.
    BadTensor { node: u32, tensor: u32, needed: usize, given: usize },
    /// A row of an integer node is shifted by more than 31 bits.
    BadShift { node: u32, tensor: u32 },
    /// The numbers of state and scratch elements in a node's record are not `state` and `work`, which its cell needs.
    BadMemory { node: u32, state: usize, work: usize },
    /// The factor of a group of weights is not a power of two from 1 to 16.
    BadFactor { node: u32, tensor: u32 },
    /// A weight that pads the columns of a matrix to a number of columns that the layout supports is not zero.
    BadFiller { node: u32, tensor: u32 },
    /// The sum of a row of an integer node could overflow 32 bits. Rows count from 0; `tensor` is the tensor of the rows.
    BadSum { node: u32, tensor: u32, row: u32 },
    /// The settings or tables of the front end are invalid.
    FrontEnd(FrontEndError),
    /// The settings of the detector are invalid.
    Detector(DetectorError),
    /// The front end and the first input have different numbers of features.
    BadFrontEnd { needed: usize, given: usize },
    /// The front end computes in integers, but its scale is not that of the first input, or the numeric is a float one.
    BadFrontEndScale { needed: f32, given: f32 },
    /// The number of labels of the detector is not the number of features of the first output.
    BadDetector { needed: usize, given: usize },
    /// The model exceeds a limit: the states or the arena have 2^26 elements or more, a tensor has more bytes than this
    /// machine can address, a step takes more than 2^36 operations, or the tensors of an integer model, counted for
    /// each node that uses them, have more than twice the bytes of the weights.
    TooLarge { node: u32 },
    /// The model needs more than the [limits](crate::Limits) of the caller.
    OverLimit { limit: Limit, needed: u64, given: u64 },
}

impl ImageError {
    /// The message. The compiler prints it for [`include_model!`](crate::include_model).
    pub(crate) const fn text(&self) -> Text {
        let text = Text::NEW;
        match *self {
            Self::Truncated { offset: 0, needed } => {
                text.with("the image ends too soon: it should have {} bytes", &[needed])
            }
            Self::Truncated { offset, needed } => {
                text.with("the image ends too soon: it should have {} bytes from byte {} on", &[needed, offset])
            }
            Self::BadMagic { found } => {
                text.text("this is not a flash image: it begins with the bytes ").hex_bytes(found)
            }
            Self::UnsupportedVersion { found } => {
                let versions = [found as usize, FORMAT_VERSION as usize];
                text.with("the image has format version {}, and this build reads version {}", &versions)
            }
            Self::BadLength { stored, needed } => {
                text.with("the header gives a length of {} bytes, but the sections need {}", &[stored, needed])
            }
            Self::BadChecksum { stored, computed } => {
                let text = text.text("the image is damaged: its checksum (CRC-32) is ").hex(computed);
                text.text(", but the header says ").hex(stored)
            }
            Self::UnsupportedNumeric { found } => match Numeric::from_code(found) {
                Some(numeric) => text.text("numeric `").text(numeric.name()).text("` ").text(NEEDS_FLOATS),
                None => text.with("this build does not know numeric code {}", &[found as usize]),
            },
            Self::UnsupportedLayout { found } => layout_text(found),
            Self::UnknownSection { kind } => {
                text.with("this build does not know the required section of kind {}", &[kind as usize])
            }
            Self::TooManySections { found } => {
                let counts = [found as usize, MAX_SECTIONS as usize];
                text.with("the image has {} sections; at most {} are supported", &counts)
            }
            Self::MissingSection { kind } => text.text("the section `").text(kind.name()).text("` is missing"),
            Self::DuplicateSection { kind } => text.with("there are two sections of kind {}", &[kind as usize]),
            Self::Misaligned { offset } => text.with("byte {} is not where a section or tensor can start", &[offset]),
            Self::NotZero { offset } => text.with("byte {} must be zero", &[offset]),
            Self::BadSection { kind, offset } => {
                text.text("the section `").text(kind.name()).with("` is invalid at its byte {}", &[offset])
            }
            Self::UnknownCell { node, code } => {
                of_node(node).with("this build does not know cell code {}", &[code as usize])
            }
            Self::NoIntegerForm { node, code } => {
                of_node(node).with("cell code {} has no form in this integer numeric", &[code as usize])
            }
            Self::OtherFamily { node, code } => {
                of_node(node).with("this firmware is built without cell code {} in this form", &[code as usize])
            }
            Self::BadSize { node, input, hidden, output } => {
                let sizes = [input as usize, hidden as usize, output as usize];
                of_node(node).with("the sizes do not fit together: input {}, hidden {}, output {}", &sizes)
            }
            Self::BadExtent { node, extent, found } => {
                of_node(node).with("extent {} cannot be {}", &[extent as usize, found as usize])
            }
            Self::BadOption { node } => {
                of_node(node).text("an option, activation or number is not one that the cell has")
            }
            Self::BadSlot { node, start, elements } => {
                let text = of_node(node).with("the slot of {} elements at {}", &[elements as usize, start as usize]);
                text.text(" is outside the arena, in use, or not written before it is read")
            }
            Self::BadTensor { node, tensor, needed, given } => {
                let numbers = [tensor as usize, needed, given];
                of_node(node).with("tensor {} needs {} bytes, but only {} are left", &numbers)
            }
            Self::BadShift { node, tensor } => {
                of_node(node).with("a row of tensor {} is shifted by more than 31 bits", &[tensor as usize])
            }
            Self::BadMemory { node, state, work } => {
                of_node(node).with("the record must state {} elements of state and {} of scratch", &[state, work])
            }
            Self::BadFactor { node, tensor } => {
                of_node(node).with("a factor of tensor {} is not 1, 2, 4, 8 or 16", &[tensor as usize])
            }
            Self::BadFiller { node, tensor } => {
                of_node(node).with("the padding of the columns of tensor {} is not zero", &[tensor as usize])
            }
            Self::BadSum { node, tensor, row } => {
                let numbers = [row as usize, tensor as usize];
                of_node(node).with("the sum of row {} of tensor {} could overflow 32 bits", &numbers)
            }
            Self::FrontEnd(error) => error.text(),
            Self::Detector(error) => error.text(),
            Self::BadFrontEnd { needed, given } => {
                text.with("the front end gives {} features, but the first input takes {}", &[given, needed])
            }
            Self::BadFrontEndScale { needed, given } => {
                let text = text.text("the front end has scale ").float(given).text(", but the first input has scale ");
                text.float(needed)
            }
            Self::BadDetector { needed, given } => {
                text.with("the detector has {} labels, but the first output has {} features", &[given, needed])
            }
            Self::TooLarge { node } => of_node(node).text("the model needs more memory or work than is supported"),
            Self::OverLimit { limit, needed, given } => {
                let text = text.text("the model needs ").count(needed).text(" ").text(limit.name());
                text.text(", and the limit is ").count(given)
            }
        }
    }
}

const fn of_node(node: u32) -> Text {
    Text::NEW.with("node {}: ", &[node as usize])
}

/// Why this build does not read a layout.
const fn layout_text(found: u16) -> Text {
    let Some(layout) = Layout::from_code(found) else {
        return Text::NEW.with("this build does not know layout code {}", &[found as usize]);
    };
    let text = Text::NEW.text("layout `").text(layout.name()).text("` ");
    match layout {
        _ if layout.is_read() => text.text("is not available for the numeric of the image"),
        Layout::CortexM4 => text.text("needs the cargo feature `dsp` of the crate `tidegate`"),
        Layout::CortexM55 => text.text("needs the cargo feature `mve` of the crate `tidegate`"),
        Layout::CortexM0 => {
            text.text("is only for Armv6-M cores such as the Cortex-M0+; pack for `portable` or this core")
        }
        Layout::Portable => text.text("is read by every build"),
    }
}

error_of_text!(ImageError);

impl From<FrontEndError> for ImageError {
    fn from(error: FrontEndError) -> Self {
        Self::FrontEnd(error)
    }
}

/// The bytes do not start on a multiple of 16.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Misaligned {
    /// The address of the first byte, modulo 16.
    pub remainder: usize,
}

impl fmt::Display for Misaligned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an image must start on a multiple of 16 bytes; this one starts {} bytes after one", self.remainder)
    }
}

impl core::error::Error for Misaligned {}
