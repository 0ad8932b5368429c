//! The work of a model, and the limits that an image from elsewhere must keep.

use super::Model;
use crate::image::{ImageBytes, ImageError};
use crate::node::{Node, Place};
use crate::work::{Limit, Limits, Work};

impl<'a> Model<'a> {
    /// The work of one step. In firmware, call it in a `const`, or the firmware contains the descriptions of all cells.
    pub const fn work(&self) -> Work {
        let (mut total, mut place) = (Work::NONE, Place { node: 0, offset: 0 });
        let mut records = self.records;
        while let Ok((node, rest)) = Node::decode(records, &self.shared, place) {
            total = total.plus(node.step_work());
            place.node += 1;
            records = rest;
        }
        total.times(self.schedule().states() as u64)
    }

    /// [`parse`](Self::parse) for images from elsewhere: also refuses a model that needs more than `limits`. Parsing
    /// takes time proportional to the length of the image, whether it is accepted or not.
    ///
    /// # Errors
    /// As [`parse`](Self::parse); [`ImageError::OverLimit`] for the first limit that is exceeded.
    pub const fn parse_within(bytes: ImageBytes<'a>, limits: &Limits) -> Result<Self, ImageError> {
        let model = ok!(Self::parse(bytes));
        let (work, most) = (model.work(), &limits.work);
        let mut needs: &[(Limit, u64, u64)] = &[
            (Limit::Nodes, model.node_count as u64, limits.nodes as u64),
            (Limit::StateWords, model.state_words() as u64, limits.state_words as u64),
            (Limit::ScratchWords, model.scratch_words() as u64, limits.scratch_words as u64),
            (Limit::Macs, work.macs, most.macs),
            (Limit::Curves, work.curves, most.curves),
            (Limit::Moves, work.moves, most.moves),
            (Limit::Bytes, work.bytes, most.bytes),
        ];
        while let [(limit, needed, given), rest @ ..] = needs {
            if *needed > *given {
                return Err(ImageError::OverLimit { limit: *limit, needed: *needed, given: *given });
            }
            needs = rest;
        }
        Ok(model)
    }
}
