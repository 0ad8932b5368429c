//! Every offset of the image format, once. `FORMAT.md` shows them in words.

#![expect(missing_docs, reason = "the names are those of FORMAT.md, which says what each holds")]

use core::ops::Range;

/// The first bytes of every image.
pub const MAGIC_BYTES: [u8; 4] = *b"TGIM";
/// The format version that this build reads and writes.
pub const FORMAT_VERSION: u16 = 1;
/// Sections, tensors and the image itself start and end on multiples of this many bytes.
pub const ALIGNMENT: usize = 16;
/// Most sections of an image.
pub const MAX_SECTIONS: u16 = 64;
/// Most nodes of an image: `parse` looks at the nodes before each.
pub const MAX_NODES: u32 = 1 << 10;
/// Most inputs and most outputs of an image.
pub const MAX_PORTS: u16 = 1 << 8;
/// Most features or units of a node: products of two sizes and an element stay below 2^32 bytes by a check.
pub const MAX_SIZE: u32 = 1 << 20;

/// The header, at the start of the image.
pub mod header {
    use super::Range;

    pub const MAGIC: Range<usize> = 0..4;
    pub const VERSION: Range<usize> = 4..6;
    pub const SECTION_COUNT: Range<usize> = 6..8;
    /// Bytes of the whole image.
    pub const IMAGE_LEN: Range<usize> = 8..12;
    pub const NUMERIC: Range<usize> = 12..14;
    pub const LAYOUT: Range<usize> = 14..16;
    pub const MODEL_ID: Range<usize> = 16..24;
    /// Zero.
    pub const RESERVED: Range<usize> = 24..28;
    /// CRC-32 (ISO-HDLC) of every byte of the image but these four.
    pub const CRC: Range<usize> = 28..32;
    pub const LEN: usize = 32;
}

/// An entry of the section table, which follows the header.
pub mod section {
    use super::Range;

    pub const KIND: Range<usize> = 0..2;
    /// 1: a reader that does not know the kind must refuse the image. 0: it may skip the section.
    pub const REQUIRED: Range<usize> = 2..4;
    pub const OFFSET: Range<usize> = 4..8;
    /// Bytes, without the padding that follows.
    pub const PAYLOAD_LEN: Range<usize> = 8..12;
    /// Zero.
    pub const RESERVED: Range<usize> = 12..16;
    pub const LEN: usize = 16;
}

/// The payload of the section `nodes`: this, then the node records.
pub mod nodes {
    use super::Range;

    pub const NODE_COUNT: Range<usize> = 0..4;
    /// Elements of the arena that holds the slots.
    pub const SLOT_ELEMENTS: Range<usize> = 4..8;
    /// Zero.
    pub const RESERVED: Range<usize> = 8..16;
    pub const LEN: usize = 16;
}

/// A node record: this, then its extents, activations, params, slots, and the offset of each tensor of its cell's spec.
pub mod node {
    use super::Range;

    pub const CELL: Range<usize> = 0..2;
    /// Words of the whole record.
    pub const RECORD_WORDS: Range<usize> = 2..4;
    /// Bit `k`: option `k` of the cell's spec.
    pub const OPTIONS: Range<usize> = 4..8;
    pub const INPUT_SIZE: Range<usize> = 8..12;
    pub const HIDDEN_SIZE: Range<usize> = 12..16;
    pub const OUTPUT_SIZE: Range<usize> = 16..20;
    /// First element of the slot it writes, in the arena.
    pub const OUTPUT_SLOT: Range<usize> = 20..24;
    /// Time steps that it is unrolled over; 0: it is not.
    pub const UNROLL_STEPS: Range<usize> = 24..28;
    /// Bits of [`unroll`](super::unroll).
    pub const UNROLL_FLAGS: Range<usize> = 28..30;
    pub const SLOT_COUNT: Range<usize> = 30..32;
    /// As many extents, activations, params and tensors as the cell's spec lists.
    pub const EXTENT_COUNT: Range<usize> = 32..34;
    pub const ACTIVATION_COUNT: Range<usize> = 34..36;
    pub const PARAM_COUNT: Range<usize> = 36..38;
    pub const TENSOR_COUNT: Range<usize> = 38..40;
    /// Elements of the state that it keeps.
    pub const STATE_ELEMENTS: Range<usize> = 40..44;
    /// Elements of scratch that it needs for itself: a step need not count them.
    pub const WORK_ELEMENTS: Range<usize> = 44..48;
    pub const LEN: usize = 48;
    /// A tensor's offset in the section `weights` when the node does not have it.
    pub const ABSENT: u32 = u32::MAX;
}

/// Flags of an unrolled node.
pub mod unroll {
    /// The last valid row is read first.
    pub const READ_BACKWARDS: u16 = 1;
    /// The first result goes to the last valid row.
    pub const WRITE_BACKWARDS: u16 = 2;
    /// The state is carried from one run over the rows to the next.
    pub const STATEFUL: u16 = 4;
    /// No other bit is set.
    pub const ALL: u16 = READ_BACKWARDS | WRITE_BACKWARDS | STATEFUL;
}

/// An activation of a node.
pub mod activation {
    use super::Range;

    pub const CODE: Range<usize> = 0..4;
    /// f32
    pub const ALPHA: Range<usize> = 4..8;
    /// f32
    pub const BETA: Range<usize> = 8..12;
    pub const LEN: usize = 12;
}

/// A slot that a node reads.
pub mod slot {
    use super::Range;

    /// First element, in the arena.
    pub const START: Range<usize> = 0..4;
    pub const ELEMENTS: Range<usize> = 4..8;
    pub const LEN: usize = 8;
}

/// The payload of the section `ports`: this, then the inputs, the outputs, and their names.
pub mod ports {
    use super::Range;

    pub const INPUT_COUNT: Range<usize> = 0..2;
    pub const OUTPUT_COUNT: Range<usize> = 2..4;
    pub const LEN: usize = 4;
}

/// A port.
pub mod port {
    use super::Range;

    /// First element, in the arena.
    pub const SLOT: Range<usize> = 0..4;
    pub const SIZE: Range<usize> = 4..8;
    /// f32; 1.0 in float numerics.
    pub const SCALE: Range<usize> = 8..12;
    /// i32; 0 but in the numeric `i8`.
    pub const ZERO_POINT: Range<usize> = 12..16;
    /// From the first byte of the payload.
    pub const NAME_OFFSET: Range<usize> = 16..20;
    pub const NAME_LEN: Range<usize> = 20..24;
    pub const LEN: usize = 24;
}

/// The payload of the section `schedule`.
pub mod schedule {
    use super::Range;

    pub const FRAMES: Range<usize> = 0..4;
    pub const EVERY: Range<usize> = 4..8;
    pub const LEN: usize = 8;
}
