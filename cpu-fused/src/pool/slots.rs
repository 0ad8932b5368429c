//! The slots of a pool: which streams are live, and the order in which ready streams are stepped.

use core::cmp::Reverse;
use core::fmt;
use core::sync::atomic::{AtomicU32, Ordering};
use std::collections::BinaryHeap;

use super::PoolError;
use super::block::Turn;

/// A stream of a pool. An id is valid until its stream leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StreamId {
    pool: u32,
    slot: u32,
    /// Number of streams that had the slot before.
    generation: u32,
}

impl StreamId {
    /// Index of the stream's state. No other live stream of the pool has the same index, so callers can use it as an
    /// index of their own data about streams.
    pub fn slot(self) -> usize {
        self.slot as usize
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stream {}.{}", self.slot, self.generation)
    }
}

/// The slots of a pool.
#[derive(Debug)]
pub(super) struct Slots {
    /// Distinguishes the pool from all others of this process.
    pool: u32,
    /// Generation of the current or next stream of each slot, and whether the stream is live.
    all: Vec<(u32, bool)>,
    free: BinaryHeap<Reverse<u32>>,
    /// A bit for each slot, set while a call lists its ready streams.
    ready: Vec<u64>,
    /// The row of each slot whose bit is set.
    rows: Vec<u32>,
}

impl Slots {
    pub fn new() -> Self {
        static POOLS: AtomicU32 = AtomicU32::new(0);
        let pool = POOLS.fetch_add(1, Ordering::Relaxed);
        Self { pool, all: Vec::new(), free: BinaryHeap::new(), ready: Vec::new(), rows: Vec::new() }
    }

    /// Number of slots.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Number of live streams.
    pub fn live(&self) -> usize {
        self.all.len() - self.free.len()
    }

    pub fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    /// Adds free slots up to `len`. A pool has fewer than 2^32 slots: each takes more than a byte.
    pub fn grow(&mut self, len: usize) {
        self.free.extend((self.all.len()..len).map(|slot| Reverse(slot as u32)));
        self.free.reserve(len - self.free.len());
        self.all.resize(len, (0, false));
        self.ready.resize(len.div_ceil(64), 0);
        self.rows.resize(len, 0);
    }

    /// Takes the lowest free slot. The caller has checked that there is one.
    pub fn join(&mut self) -> StreamId {
        let Some(Reverse(slot)) = self.free.pop() else { unreachable!("the pool is not full") };
        let (generation, live) = &mut self.all[slot as usize];
        *live = true;
        StreamId { pool: self.pool, slot, generation: *generation }
    }

    pub fn leave(&mut self, id: StreamId) -> Result<(), PoolError> {
        let slot = self.find(id)?;
        self.all[slot] = (id.generation.wrapping_add(1), false);
        self.free.push(Reverse(id.slot));
        Ok(())
    }

    /// The slot of a live stream.
    pub fn find(&self, id: StreamId) -> Result<usize, PoolError> {
        match self.all.get(id.slot()) {
            Some(&(generation, true)) if generation == id.generation && self.pool == id.pool => Ok(id.slot()),
            _ => Err(PoolError::Unknown(id)),
        }
    }

    /// Lists the turns of the ready streams in the order of their slots.
    pub fn turns(&mut self, ready: &[StreamId], turns: &mut Vec<Turn>) -> Result<(), PoolError> {
        turns.clear();
        for (row, &id) in ready.iter().enumerate() {
            let slot = self.find(id)?;
            if turns.last().is_some_and(|turn| turn.slot >= slot) {
                return self.sorted(ready, turns);
            }
            turns.push(Turn { slot, from: row, to: row });
        }
        Ok(())
    }

    /// [`turns`](Self::turns) of streams in any order.
    fn sorted(&mut self, ready: &[StreamId], turns: &mut Vec<Turn>) -> Result<(), PoolError> {
        turns.clear();
        for (row, &id) in ready.iter().enumerate() {
            let marked = self.find(id).and_then(|slot| {
                let (word, bit) = (&mut self.ready[slot / 64], 1 << (slot % 64));
                if *word & bit != 0 {
                    return Err(PoolError::Twice(id));
                }
                *word |= bit;
                self.rows[slot] = row as u32;
                Ok(())
            });
            if marked.is_err() {
                self.ready.fill(0);
                return marked;
            }
        }
        for (index, word) in self.ready.iter_mut().enumerate() {
            while *word != 0 {
                let slot = 64 * index + word.trailing_zeros() as usize;
                *word &= *word - 1;
                let row = self.rows[slot] as usize;
                turns.push(Turn { slot, from: row, to: row });
            }
        }
        Ok(())
    }
}
