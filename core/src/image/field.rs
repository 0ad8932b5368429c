//! Every offset of the image format, defined once. `FORMAT.md` describes the same offsets in words.

#![expect(missing_docs, reason = "the names are those of FORMAT.md, which says what each holds")]

use core::ops::Range;

/// The first bytes of every image.
pub const MAGIC_BYTES: [u8; 4] = *b"TGIM";
/// The format version that this build reads and writes.
pub const FORMAT_VERSION: u16 = 1;
/// Sections, tensors and the image itself start and end on multiples of this many bytes.
pub const ALIGNMENT: usize = 16;
/// Maximum number of sections in an image.
pub const MAX_SECTIONS: u16 = 64;
/// Maximum number of nodes in an image.
pub const MAX_NODES: u32 = 1 << 10;
/// Maximum number of inputs, and of outputs, in an image.
pub const MAX_PORTS: u16 = 1 << 8;
/// Maximum number of features or units of a node. A check keeps products of two sizes and an element below 2^32 bytes.
pub const MAX_SIZE: u32 = 1 << 20;

/// The header, at the start of the image.
pub mod header {
    use super::Range;

    pub const MAGIC: Range<usize> = 0..4;
    pub const VERSION: Range<usize> = 4..6;
    pub const SECTION_COUNT: Range<usize> = 6..8;
    /// Length of the whole image in bytes.
    pub const IMAGE_LEN: Range<usize> = 8..12;
    pub const NUMERIC: Range<usize> = 12..14;
    pub const LAYOUT: Range<usize> = 14..16;
    pub const MODEL_ID: Range<usize> = 16..24;
    /// Must be zero.
    pub const RESERVED: Range<usize> = 24..28;
    /// CRC-32 (ISO-HDLC) of every byte of the image except these four.
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
    /// Length in bytes, without the padding that follows.
    pub const PAYLOAD_LEN: Range<usize> = 8..12;
    /// Must be zero.
    pub const RESERVED: Range<usize> = 12..16;
    pub const LEN: usize = 16;
}

/// The payload of the section `nodes`: this header, then the node records.
pub mod nodes {
    use super::Range;

    pub const NODE_COUNT: Range<usize> = 0..4;
    /// Elements of the arena that holds the slots.
    pub const SLOT_ELEMENTS: Range<usize> = 4..8;
    /// Must be zero.
    pub const RESERVED: Range<usize> = 8..16;
    pub const LEN: usize = 16;
}

/// A node record: this header, then the extents, activations, params, slots, and the offset of each tensor of the
/// cell's spec.
pub mod node {
    use super::Range;

    pub const CELL: Range<usize> = 0..2;
    /// Length of the whole record in words.
    pub const RECORD_WORDS: Range<usize> = 2..4;
    /// Bit `k`: option `k` of the cell's spec.
    pub const OPTIONS: Range<usize> = 4..8;
    pub const INPUT_SIZE: Range<usize> = 8..12;
    pub const HIDDEN_SIZE: Range<usize> = 12..16;
    pub const OUTPUT_SIZE: Range<usize> = 16..20;
    /// First arena element of the slot that the node writes.
    pub const OUTPUT_SLOT: Range<usize> = 20..24;
    /// Number of time steps of an unrolled node; 0 if the node is not unrolled.
    pub const UNROLL_STEPS: Range<usize> = 24..28;
    /// Bits of [`unroll`](super::unroll).
    pub const UNROLL_FLAGS: Range<usize> = 28..30;
    pub const SLOT_COUNT: Range<usize> = 30..32;
    /// The four counts must equal the numbers of extents, activations, params and tensors in the cell's spec.
    pub const EXTENT_COUNT: Range<usize> = 32..34;
    pub const ACTIVATION_COUNT: Range<usize> = 34..36;
    pub const PARAM_COUNT: Range<usize> = 36..38;
    pub const TENSOR_COUNT: Range<usize> = 38..40;
    /// Elements of state that the node keeps between steps.
    pub const STATE_ELEMENTS: Range<usize> = 40..44;
    /// Elements of scratch that the node needs for itself, stored so that a step need not compute them.
    pub const WORK_ELEMENTS: Range<usize> = 44..48;
    pub const LEN: usize = 48;
    /// A tensor's offset in the section `weights` if the node does not have the tensor.
    pub const ABSENT: u32 = u32::MAX;
}

/// Flags of an unrolled node.
pub mod unroll {
    /// The last valid row is read first.
    pub const READ_BACKWARDS: u16 = 1;
    /// The first result goes to the last valid row.
    pub const WRITE_BACKWARDS: u16 = 2;
    /// The state is carried from one window to the next.
    pub const STATEFUL: u16 = 4;
    /// Each row has a state of its own, which is carried from step to step. Requires [`STATEFUL`] and no other flag.
    pub const APART: u16 = 8;
    /// All flags; no other bit may be set.
    pub const ALL: u16 = READ_BACKWARDS | WRITE_BACKWARDS | STATEFUL | APART;
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

/// A slot that the node reads.
pub mod slot {
    use super::Range;

    /// First arena element.
    pub const START: Range<usize> = 0..4;
    pub const ELEMENTS: Range<usize> = 4..8;
    pub const LEN: usize = 8;
}

/// The payload of the section `ports`: this header, then the inputs, the outputs, and their names.
pub mod ports {
    use super::Range;

    pub const INPUT_COUNT: Range<usize> = 0..2;
    pub const OUTPUT_COUNT: Range<usize> = 2..4;
    pub const LEN: usize = 4;
}

/// A port.
pub mod port {
    use super::Range;

    /// First arena element.
    pub const SLOT: Range<usize> = 0..4;
    pub const SIZE: Range<usize> = 4..8;
    /// f32; 1.0 in float numerics.
    pub const SCALE: Range<usize> = 8..12;
    /// i32; 0 except in the numeric `i8`.
    pub const ZERO_POINT: Range<usize> = 12..16;
    /// Offset from the first byte of the payload.
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

/// The payload of the section `self_test`: this header, then the inputs of all steps, then the outputs.
pub mod self_test {
    use super::Range;

    pub const STEPS: Range<usize> = 0..4;
    /// Number of steps that have an output.
    pub const OUTPUTS: Range<usize> = 4..8;
    /// Must be zero.
    pub const RESERVED: Range<usize> = 8..16;
    pub const LEN: usize = 16;
    /// Most steps.
    pub const MAX_STEPS: u32 = 1 << 16;
}

/// The payload of the section `signature`, which ends the image.
pub mod signature {
    use super::Range;

    pub const VERSION: Range<usize> = 0..2;
    /// 1: Ed25519.
    pub const ALGORITHM: Range<usize> = 2..4;
    /// Security counter.
    pub const COUNTER: Range<usize> = 4..8;
    pub const KEY_ID: Range<usize> = 8..16;
    pub const PRODUCT: Range<usize> = 16..32;
    /// The only bytes, except those of the CRC, that the signature does not cover.
    pub const SIGNATURE: Range<usize> = 32..96;
    pub const LEN: usize = 96;
}
