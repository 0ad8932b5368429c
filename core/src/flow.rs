//! The data flow of an image. Every slot is written before it is read, so that no output depends on the previous
//! contents of the scratch, and the same image always has the same results.

use crate::image::{ImageError, SectionKind};
use crate::node::{Node, Place, Shared};
use crate::port::{Record, port_offset, slot};

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
    /// Checks that every slot that a node or an output port reads has been written as a whole before.
    pub const fn check(&self) -> Result<(), ImageError> {
        let mut place = Place { node: 0, offset: 0 };
        let mut records = self.records;
        while place.node < self.node_count {
            let (node, rest) = ok!(Node::decode(records, self.shared, place));
            let mut index = 0;
            while let Some((start, row)) = node.slot(index) {
                let elements = row * node.steps();
                if !self.is_written(start, elements, place.node) {
                    let (start, elements) = (start as u32, elements as u32);
                    return Err(ImageError::BadSlot { node: place.node, start, elements });
                }
                index += 1;
            }
            place.node += 1;
            records = rest;
        }
        let (mut outputs, mut port) = (self.outputs, self.inputs.len());
        while let [output, rest @ ..] = outputs {
            let (start, elements) = slot(output);
            if !self.is_written(start, elements, self.node_count) {
                return Err(ImageError::BadSection { kind: SectionKind::Ports, offset: port_offset(port) });
            }
            outputs = rest;
            port += 1;
        }
        Ok(())
    }

    /// Whether the last write to any of these elements before node `reader`, by an input or an earlier node, wrote
    /// exactly these elements.
    const fn is_written(&self, start: usize, elements: usize, reader: u32) -> bool {
        let mut written = false;
        let mut inputs = self.inputs;
        while let [input, rest @ ..] = inputs {
            written = after_write(written, (start, elements), slot(input));
            inputs = rest;
        }
        let mut place = Place { node: 0, offset: 0 };
        let mut records = self.records;
        while place.node < reader {
            let Ok((node, rest)) = Node::decode(records, self.shared, place) else { return false };
            written =
                after_write(written, (start, elements), (node.output().start, node.output().end - node.output().start));
            place.node += 1;
            records = rest;
        }
        written
    }
}

/// Whether `slot` holds a whole value after `write`, given whether it did `before`.
const fn after_write(before: bool, slot: (usize, usize), write: (usize, usize)) -> bool {
    let ((start, elements), (from, size)) = (slot, write);
    if start == from && elements == size {
        return true;
    }
    let apart = from >= start + elements || start >= from + size;
    before && apart
}
