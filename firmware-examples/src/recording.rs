//! The shipped clips in flash.

include!(concat!(env!("OUT_DIR"), "/clips.rs"));

/// Samples of a block: 10 ms at 16 kHz.
pub const BLOCK_LEN: usize = 160;
/// Zeros after every clip: 0.6 s.
pub const GAP_LEN: usize = 9600;
/// The samples of one transfer of the microphone.
pub type Block = [i16; BLOCK_LEN];

/// A recorded word.
#[derive(Debug)]
pub struct Clip {
    /// The spoken word.
    pub label: &'static str,
    /// i16, little-endian.
    bytes: &'static [u8],
}

impl Clip {
    /// The samples, in order.
    pub fn samples(&self) -> impl ExactSizeIterator<Item = i16> {
        self.bytes.as_chunks().0.iter().map(|&sample| i16::from_le_bytes(sample))
    }
}

/// Clips, each with its gap, block by block; the last block is padded with zeros.
#[derive(Debug)]
pub struct Blocks {
    clips: &'static [Clip],
    clip: usize,
    /// Index of the next sample in the clip and its gap.
    sample: usize,
}

impl Blocks {
    /// The blocks of these clips.
    pub const fn of(clips: &'static [Clip]) -> Self {
        Self { clips, clip: 0, sample: 0 }
    }

    fn next_sample(&mut self) -> Option<i16> {
        let (samples, _) = self.clips.get(self.clip)?.bytes.as_chunks();
        let sample = samples.get(self.sample).copied().map_or(0, i16::from_le_bytes);
        self.sample += 1;
        if self.sample == samples.len() + GAP_LEN {
            (self.clip, self.sample) = (self.clip + 1, 0);
        }
        Some(sample)
    }
}

impl Iterator for Blocks {
    type Item = Block;

    fn next(&mut self) -> Option<Block> {
        let mut block = [0; BLOCK_LEN];
        let (first, rest) = block.split_first_mut()?;
        *first = self.next_sample()?;
        for slot in rest {
            *slot = self.next_sample().unwrap_or(0);
        }
        Some(block)
    }
}

/// Number of blocks of these clips.
pub fn block_count(clips: &[Clip]) -> usize {
    clips.iter().map(|clip| clip.bytes.len() / 2 + GAP_LEN).sum::<usize>().div_ceil(BLOCK_LEN)
}
