//! The memory that reading a file may take. Every reader subtracts the memory that it needs before it uses it, so that a
//! small hostile file is refused instead of taking gigabytes.

use std::sync::atomic::{AtomicU64, Ordering};

/// Memory for each byte of a file. The densest weights that frameworks write in floats have two bytes (f16). Each of them
/// takes at most an f32 in the importer, in the model and in the image, which is 6 bytes for each byte of the file. The
/// file and its unpacked content take the other 2.
const RATIO: u64 = 8;
/// Memory in addition, in bytes. It covers what small files legitimately make: shapes, tables of names, zeros that a
/// file leaves out.
const SPARE: u64 = 64 << 20;
/// The part of the spare memory that readers use without counting it: small tables, and buffers of decoders.
const UNCOUNTED: u64 = 16 << 20;

/// Memory of a weight in bytes: an f32 in the importer, in the model and in the image.
pub(crate) const WEIGHT: usize = 12;

/// The advice in errors of a limit that does not depend on the memory that is allowed.
pub(crate) const FIXED: &str = "a fixed limit that --memory does not lift";

/// The number given to [`allow`], or 0.
static ALLOWED: AtomicU64 = AtomicU64::new(0);

/// Sets how many bytes of memory reading a file may take, in place of 8 times its length and 64 MiB. Applies to all
/// files that this process reads from now on.
pub fn allow(bytes: u64) {
    ALLOWED.store(bytes, Ordering::Relaxed);
}

/// A limit on the bytes of unpacked content, or the memory given to [`allow`] if that is more.
pub(crate) fn or_allowed(limit: u64) -> u64 {
    limit.max(ALLOWED.load(Ordering::Relaxed))
}

/// Memory that the reader of a file may still use.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    given: u64,
    left: u64,
}

impl Budget {
    /// The budget of a file of `len` bytes, which are in memory already.
    pub fn of_file(len: usize) -> Self {
        let len = len as u64;
        let given = match ALLOWED.load(Ordering::Relaxed) {
            0 => len.saturating_mul(RATIO).saturating_add(SPARE),
            allowed => allowed,
        };
        Self { given, left: given.saturating_sub(len + UNCOUNTED) }
    }

    /// The budget of a network over tensors of `count` numbers together, which its layers may share.
    pub fn of_network(count: usize) -> Self {
        let mut budget = Self::of_file(0);
        budget.left = (budget.left / 2).saturating_add((count as u64).saturating_mul(WEIGHT as u64));
        budget
    }

    /// Adds a second file of `len` bytes, which is about to be read into memory.
    pub fn widen(&mut self, len: u64) {
        if ALLOWED.load(Ordering::Relaxed) == 0 {
            self.given = self.given.saturating_add(len.saturating_mul(RATIO));
            self.left = self.left.saturating_add(len.saturating_mul(RATIO));
        }
        self.left = self.left.saturating_sub(len);
    }

    /// Number of bytes that are left.
    pub fn left(&self) -> usize {
        usize::try_from(self.left).unwrap_or(usize::MAX)
    }

    /// Subtracts `count` things of `each` bytes.
    pub fn take(&mut self, count: usize, each: usize) -> Result<(), TooCostly> {
        self.left = self.left.checked_sub((count as u64).saturating_mul(each as u64)).ok_or(self.exceeded())?;
        Ok(())
    }

    /// Adds memory that was taken and is free again.
    pub fn give(&mut self, count: usize, each: usize) {
        self.left = self.left.saturating_add((count as u64).saturating_mul(each as u64)).min(self.given);
    }

    /// The error for a need that exceeds the remaining memory.
    pub fn exceeded(&self) -> TooCostly {
        TooCostly { mib: self.given >> 20 }
    }

    /// Subtracts an upper bound of the memory of a JSON text's values, before they are parsed.
    pub fn take_json(&mut self, text: &[u8]) -> Result<(), TooCostly> {
        // In serde_json, a value takes 32 bytes. A list has room for four values at first, later for twice its length. An
        // object is a tree whose nodes hold eleven names and values; if there are several nodes, each is at least half full.
        const VALUE: usize = 64;
        const LIST: usize = 128;
        const OBJECT: usize = 640;
        const NAMED: usize = 128;
        let (mut cost, mut in_text, mut escaped) = (text.len(), false, false);
        for &byte in text {
            match byte {
                _ if escaped => escaped = false,
                b'\\' if in_text => escaped = true,
                b'"' => in_text = !in_text,
                _ if in_text => {}
                b',' => cost += VALUE,
                b'[' => cost += LIST,
                b'{' => cost += OBJECT,
                b':' => cost += NAMED,
                _ => {}
            }
        }
        self.take(cost, 1)
    }
}

/// A file was refused because reading it would take too much memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it would take more than {mib} MiB of memory")]
pub struct TooCostly {
    mib: u64,
}

impl TooCostly {
    /// What to do about it.
    pub const ADVICE: &'static str = "if you trust the file, allow more with --memory MIB";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_a_multiple_of_the_file_and_a_spare() {
        let mut budget = Budget::of_file(1 << 20);
        assert_eq!(budget.left(), (7 << 20) + (48 << 20));
        budget.take(1 << 20, 55).unwrap();
        assert_eq!(budget.take(1, 1), Err(TooCostly { mib: 72 }));
        budget.give(1, 1);
        budget.take(1, 1).unwrap();
        assert!(budget.take(usize::MAX, usize::MAX).is_err());
    }

    #[test]
    fn json_costs_at_least_its_values() {
        let cost = |text: &str| {
            let mut budget = Budget::of_file(0);
            let before = budget.left();
            budget.take_json(text.as_bytes()).unwrap();
            before - budget.left()
        };
        assert_eq!(cost("[0,0,0]"), 7 + 128 + 2 * 64);
        assert_eq!(cost(r#"{"a":"x,\",{["}"#), 15 + 640 + 128);
    }
}
