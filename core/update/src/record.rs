//! Records of the journal. Each holds the whole state of the two banks, so that the newest valid record is the state.

use core::ops::Range;

use crate::bytes::{array, put};
use crate::ed25519::sha512;
use crate::key::{Changes, KeyChange};

/// One of the two banks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bank {
    /// The bank that is flashed in the factory.
    First = 0,
    /// The other bank.
    Second = 1,
}

impl Bank {
    /// The bank that is not this one.
    pub const fn other(self) -> Self {
        match self {
            Self::First => Self::Second,
            Self::Second => Self::First,
        }
    }
}

/// The state of the spare bank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// The bank is not in use.
    #[default]
    Idle = 0,
    /// The bank is being erased for an image.
    Erasing = 1,
    /// The bank is erased, and an image is being received.
    Receiving = 2,
    /// The bank holds a verified image, which runs after the next reset.
    Pending = 3,
    /// The image of the bank runs on trial. After a reset without a confirmation, the active bank runs again.
    Trial = 4,
}

impl Phase {
    /// The phase with this code.
    pub(crate) const fn decode(code: u8) -> Option<Self> {
        Some(match code {
            0 => Self::Idle,
            1 => Self::Erasing,
            2 => Self::Receiving,
            3 => Self::Pending,
            4 => Self::Trial,
            _ => return None,
        })
    }
}

/// Numbers of erases and writes, which predict when the flash wears out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wear {
    /// Number of pages erased, including those of the journal.
    pub erases: u32,
    /// Number of writes of at most 256 bytes.
    pub writes: u32,
}

mod field {
    use super::Range;

    pub const MAGIC: Range<usize> = 0..4;
    pub const SEQUENCE: Range<usize> = 4..8;
    pub const PHASE: Range<usize> = 8..9;
    /// Index of the active bank; 2 if there is none.
    pub const ACTIVE: Range<usize> = 9..10;
    pub const COUNTER: Range<usize> = 12..16;
    pub const IMAGE_LEN: Range<usize> = 16..20;
    pub const ERASES: Range<usize> = 20..24;
    pub const WRITES: Range<usize> = 24..28;
    /// For each slot of keys: serial number (0 if it is empty), key, signature. The product is that of the firmware.
    pub const CHANGES: [Range<usize>; 2] = [32..132, 132..232];
    pub const SERIAL: Range<usize> = 0..4;
    pub const KEY_AND_SIGNATURE: Range<usize> = 4..100;
    /// The first 8 bytes of the SHA-512 over all preceding bytes.
    pub const CHECKSUM: Range<usize> = 248..256;
    pub const LEN: usize = 256;
    pub const MAGIC_BYTES: [u8; 4] = *b"TGJ1";
}

/// The state of the two banks. The keys are stored beside it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    pub sequence: u32,
    pub phase: Phase,
    pub active: Option<Bank>,
    /// The counter of the last confirmed image.
    pub counter: u32,
    /// Length of the image that is being received.
    pub image_len: u32,
    pub wear: Wear,
}

impl Record {
    pub const LEN: usize = field::LEN;

    /// The bytes of the record, with the key changes of the device.
    pub fn encode(&self, changes: &Changes) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        put(&mut bytes, field::MAGIC, &field::MAGIC_BYTES);
        put(&mut bytes, field::SEQUENCE, &self.sequence.to_le_bytes());
        put(&mut bytes, field::PHASE, &[self.phase as u8]);
        put(&mut bytes, field::ACTIVE, &[self.active.map_or(2, |bank| bank as u8)]);
        put(&mut bytes, field::COUNTER, &self.counter.to_le_bytes());
        put(&mut bytes, field::IMAGE_LEN, &self.image_len.to_le_bytes());
        put(&mut bytes, field::ERASES, &self.wear.erases.to_le_bytes());
        put(&mut bytes, field::WRITES, &self.wear.writes.to_le_bytes());
        for (place, change) in field::CHANGES.into_iter().zip(changes) {
            if let (Some(place), Some(change)) = (bytes.get_mut(place), change) {
                put(place, field::SERIAL, &change.serial().to_le_bytes());
                put(place, field::KEY_AND_SIGNATURE, &change.key_and_signature());
            }
        }
        let checksum = checksum(&bytes);
        put(&mut bytes, field::CHECKSUM, &checksum.to_le_bytes());
        bytes
    }

    /// The record with these bytes; `None` if they are not a whole one.
    pub fn decode(bytes: &[u8; Self::LEN]) -> Option<Self> {
        let recorded = u64::from_le_bytes(array(bytes, field::CHECKSUM));
        if array(bytes, field::MAGIC) != field::MAGIC_BYTES || recorded != checksum(bytes) {
            return None;
        }
        let number = |field| u32::from_le_bytes(array(bytes, field));
        let [phase] = array(bytes, field::PHASE);
        let phase = Phase::decode(phase)?;
        let active = match array(bytes, field::ACTIVE) {
            [0] => Some(Bank::First),
            [1] => Some(Bank::Second),
            [2] => None,
            _ => return None,
        };
        Some(Self {
            sequence: number(field::SEQUENCE),
            phase,
            active,
            counter: number(field::COUNTER),
            image_len: number(field::IMAGE_LEN),
            wear: Wear { erases: number(field::ERASES), writes: number(field::WRITES) },
        })
    }

    /// The key changes in the bytes of a record, for a product.
    pub fn changes(bytes: &[u8; Self::LEN], product: [u8; 16]) -> Changes {
        field::CHANGES.map(|place| {
            let place: [u8; 100] = array(bytes, place);
            let serial = u32::from_le_bytes(array(&place, field::SERIAL));
            (serial > 0).then(|| KeyChange::stored(serial, product, &array(&place, field::KEY_AND_SIGNATURE)))
        })
    }

    /// The bank that an update goes to.
    pub fn spare(&self) -> Bank {
        self.active.map_or(Bank::First, Bank::other)
    }

    /// The bank that runs.
    pub fn running(&self) -> Option<Bank> {
        if self.phase == Phase::Trial { Some(self.spare()) } else { self.active }
    }
}

fn checksum(bytes: &[u8; Record::LEN]) -> u64 {
    u64::from_le_bytes(array(&sha512(bytes.get(..field::CHECKSUM.start).unwrap_or_default()), 0..8))
}
