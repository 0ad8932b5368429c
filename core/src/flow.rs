//! The data flow of an image. Every slot is written before it is read, so that no output depends on the previous
//! contents of the scratch, and the same image always has the same results.
//!
//! One pass over the nodes keeps the slots that hold a value, in order. Their number is bounded only by that of the
//! nodes, but the memory for them is fixed. If they do not fit, the pass covers the slots at the start of the arena, and
//! further passes cover the rest. A pass takes time proportional to the nodes and the slots that they read, times the
//! logarithm of the slots kept. An image has so few nodes and inputs that a device needs at most 20 passes, and a host one.

use crate::image::field::{MAX_NODES, MAX_PORTS};
use crate::image::{ImageError, SectionKind};
use crate::node::{Node, Place, Shared};
use crate::port::{Record, port_offset, slot};

/// Number of slots that a pass keeps: 512 bytes of stack on a device. A host needs one pass for any image.
const LIVE: usize = if cfg!(target_os = "none") { 64 } else { 2048 };
const _: () =
    assert!((MAX_NODES as usize + MAX_PORTS as usize).div_ceil(LIVE) <= if cfg!(target_os = "none") { 20 } else { 1 });

/// The nodes and ports, whose slots are within the arena.
#[derive(Clone, Copy)]
pub(crate) struct Flow<'a> {
    pub records: &'a [u8],
    pub shared: &'a Shared<'a>,
    pub node_count: u32,
    pub inputs: &'a [Record],
    pub outputs: &'a [Record],
}

impl Flow<'_> {
    /// Checks that every slot that a node or an output port reads has been written as a whole before: the last write to
    /// any of its elements, by an input or an earlier node, wrote exactly these elements.
    pub const fn check(&self) -> Result<(), ImageError> {
        self.check_keeping::<LIVE>()
    }

    /// [`check`](Self::check) in passes that keep up to `N` slots, at least 1.
    const fn check_keeping<const N: usize>(&self) -> Result<(), ImageError> {
        let mut live = Live::<N>::from(0);
        loop {
            ok!(self.pass(&mut live));
            match live.until {
                None => return Ok(()),
                Some(until) => live = Live::from(until),
            }
        }
    }

    const fn pass<const N: usize>(&self, live: &mut Live<N>) -> Result<(), ImageError> {
        let mut inputs = self.inputs;
        while let [input, rest @ ..] = inputs {
            let (start, elements) = slot(input);
            live.write(start as u32, elements as u32);
            inputs = rest;
        }
        let mut place = Place { node: 0, offset: 0 };
        let mut records = self.records;
        while place.node < self.node_count {
            let (node, rest) = ok!(Node::decode(records, self.shared, place));
            let (steps, mut slots) = (node.steps(), node.slots());
            while let [slot, others @ ..] = slots {
                let (start, row) = Node::read_slot(*slot);
                let (start, elements) = (start as u32, (row * steps) as u32);
                if !live.allows(start, elements) {
                    return Err(ImageError::BadSlot { node: place.node, start, elements });
                }
                slots = others;
            }
            let output = node.output();
            live.write(output.start as u32, (output.end - output.start) as u32);
            place.node += 1;
            records = rest;
        }
        let (mut outputs, mut port) = (self.outputs, self.inputs.len());
        while let [output, rest @ ..] = outputs {
            let (start, elements) = slot(output);
            if !live.allows(start as u32, elements as u32) {
                return Err(ImageError::BadSection { kind: SectionKind::Ports, offset: port_offset(port) });
            }
            outputs = rest;
            port += 1;
        }
        Ok(())
    }
}

/// A free place: a slot that ends after every element.
const FREE: (u32, u32) = (u32::MAX, u32::MAX);

/// The slots that hold a whole value and start within a part of the arena. They do not overlap.
struct Live<const N: usize> {
    /// First element of the part.
    from: u32,
    /// End of the part; `None` if the part extends to the end of the arena.
    until: Option<u32>,
    /// Start and end of each slot, in ascending order.
    slots: [(u32, u32); N],
    len: usize,
}

impl<const N: usize> Live<N> {
    /// Whether free places hold [`FREE`], so that the search takes the same number of steps for any number of slots. On a
    /// device, whose networks have few slots, these would be more steps than needed.
    const PADDED: bool = N.is_power_of_two() && cfg!(not(target_os = "none"));

    const fn from(from: u32) -> Self {
        Self { from, until: None, slots: [if Self::PADDED { FREE } else { (0, 0) }; N], len: 0 }
    }

    /// The slot at `index`, or one beyond the arena. No index leads to a panic.
    #[inline(always)]
    const fn at(&self, index: usize) -> (u32, u32) {
        match self.slots.split_at_checked(index) {
            Some((_, [slot, ..])) => *slot,
            _ => FREE,
        }
    }

    const fn put(&mut self, index: usize, slot: (u32, u32)) {
        if let Some((_, [place, ..])) = self.slots.split_at_mut_checked(index) {
            *place = slot;
        }
    }

    const fn covers(&self, start: u32) -> bool {
        start >= self.from
            && match self.until {
                Some(until) => start < until,
                None => true,
            }
    }

    /// Index of the first slot that ends after `element`.
    #[inline(always)]
    const fn first_after(&self, element: u32) -> usize {
        if Self::PADDED {
            return self.first_after_of_padded(element);
        }
        // Both outcomes of a comparison take the same path, because a processor cannot predict them.
        let (mut first, mut left) = (0, self.len);
        while left > 0 {
            let half = left.div_ceil(2);
            first += if self.at(first + half - 1).1 <= element { half } else { 0 };
            left -= half;
        }
        first
    }

    /// [`first_after`](Self::first_after) in a table whose free places end after every element. The number of steps and the
    /// places that are read do not depend on a bound, so no comparison is compiled to a branch.
    #[inline(always)]
    const fn first_after_of_padded(&self, element: u32) -> usize {
        if self.slots[N - 1].1 <= element {
            return N;
        }
        let (mut first, mut half) = (0, N / 2);
        while half > 0 {
            let end = self.slots[((first | half) - 1) & (N - 1)].1;
            first |= half * (end <= element) as usize;
            half /= 2;
        }
        first
    }

    /// Whether a slot holds a value, or starts in another part of the arena.
    #[inline(always)]
    const fn allows(&self, start: u32, elements: u32) -> bool {
        if !self.covers(start) {
            return true;
        }
        let index = self.first_after(start);
        let slot = self.at(index);
        index < self.len && slot.0 == start && slot.1 == start + elements
    }

    /// Replaces the slots that overlap the written one.
    const fn write(&mut self, start: u32, elements: u32) {
        let end = start + elements;
        let first = self.first_after(start);
        let mut last = first;
        while last < self.len && self.at(last).0 < end {
            last += 1;
        }
        let mut next = first;
        if self.covers(start) {
            if first == last {
                self.make_room(first, start);
                if !self.covers(start) {
                    return;
                }
                last += 1;
            }
            self.put(first, (start, end));
            next += 1;
        }
        // Closes the gap.
        let mut gap = last - next;
        while gap > 0 && last < self.len {
            self.put(last - gap, self.at(last));
            last += 1;
        }
        self.len -= gap;
        if Self::PADDED {
            while gap > 0 {
                self.put(self.len + gap - 1, FREE);
                gap -= 1;
            }
        }
    }

    /// Moves the slots from `index` on up by one place. If no place is free, the part becomes shorter by its last slot,
    /// which may be the new slot that starts at `start`.
    const fn make_room(&mut self, index: usize, start: u32) {
        if self.len == N {
            if index == N {
                self.until = Some(start);
                return;
            }
            self.len -= 1;
            self.until = Some(self.at(self.len).0);
        }
        let mut place = self.len;
        while place > index {
            self.put(place, self.at(place - 1));
            place -= 1;
        }
        self.len += 1;
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::Live;

    /// An access to the arena.
    #[derive(Clone, Copy, Debug)]
    enum Access {
        Read(u32, u32),
        Write(u32, u32),
    }

    /// Whether each read is of a slot that was the last write to all of its elements, by remembering the write of each
    /// element.
    fn naive(accesses: &[Access]) -> bool {
        let mut writes = [usize::MAX; 64];
        let mut slots = Vec::new();
        accesses.iter().all(|access| match *access {
            Access::Write(start, elements) => {
                writes[start as usize..(start + elements) as usize].fill(slots.len());
                slots.push((start, elements));
                true
            }
            Access::Read(start, elements) => {
                let found = &writes[start as usize..(start + elements) as usize];
                found.iter().all(|&write| slots.get(write) == Some(&(start, elements)))
                    && found.iter().all(|&write| write == found[0])
            }
        })
    }

    /// The result of [`naive`], computed in passes that keep up to `N` slots. Also returns the number of passes.
    fn in_passes<const N: usize>(accesses: &[Access]) -> (bool, usize) {
        let (mut live, mut passes) = (Live::<N>::from(0), 1);
        loop {
            for access in accesses {
                match *access {
                    Access::Write(start, elements) => live.write(start, elements),
                    Access::Read(start, elements) if !live.allows(start, elements) => return (false, passes),
                    Access::Read(..) => {}
                }
            }
            match live.until {
                None => return (true, passes),
                Some(until) => live = Live::from(until),
            }
            passes += 1;
        }
    }

    #[test]
    fn every_size_of_the_table_finds_what_remembering_each_element_finds() {
        let mut seed = 1_u64;
        let mut next = |below: u32| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as u32 % below
        };
        let mut good = 0;
        for round in 0..200_000 {
            let mut accesses: Vec<Access> = Vec::new();
            let (length, longest) = (1 + next(24), 1 + next(9));
            for _ in 0..length {
                let written = |access: &Access| match *access {
                    Access::Write(start, elements) => Some((start, elements)),
                    Access::Read(..) => None,
                };
                let known: Vec<_> = accesses.iter().filter_map(written).collect();
                let elements = 1 + next(longest);
                let fresh = (next(64 - elements), elements);
                // Most reads are of slots that were written, so that many programs are valid.
                accesses.push(match (next(3), known.len()) {
                    (0, 1..) if next(8) > 0 => {
                        let (start, elements) = known[next(known.len() as u32) as usize];
                        Access::Read(start, elements)
                    }
                    (0, _) => Access::Read(fresh.0, fresh.1),
                    _ => Access::Write(fresh.0, fresh.1),
                });
            }
            let expected = naive(&accesses);
            good += u32::from(expected);
            assert_eq!(in_passes::<1>(&accesses).0, expected, "{round} {accesses:?}");
            assert_eq!(in_passes::<2>(&accesses).0, expected, "{round} {accesses:?}");
            assert_eq!(in_passes::<5>(&accesses).0, expected, "{round} {accesses:?}");
            assert_eq!(in_passes::<64>(&accesses), (expected, 1), "{round} {accesses:?}");
        }
        assert!((40_000..160_000).contains(&good), "{good} programs are valid");
    }

    #[test]
    fn passes_are_no_more_than_slots_over_the_table_and_one() {
        let accesses: Vec<_> = (0..64).map(|start| Access::Write(start, 1)).collect();
        assert_eq!(in_passes::<1>(&accesses), (true, 64));
        assert_eq!(in_passes::<8>(&accesses), (true, 8));
        assert_eq!(in_passes::<63>(&accesses), (true, 2));
        assert_eq!(in_passes::<64>(&accesses), (true, 1));
    }
}
