//! What is checked of an image at the door: every node, port and section, and that they fit each other.

use super::Model;
use crate::cell::Cells;
use crate::detector::DetectorSettings;
use crate::engine::engine;
use crate::flow::Flow;
use crate::front_end::Mfcc;
use crate::image::field::{MAX_NODES, nodes};
use crate::image::read::u32_at;
use crate::image::{Image, ImageError, Numeric, SectionKind, not_zero};
use crate::node::{Node, Place, Shared};
use crate::port::{self, check_ports};
use crate::schedule::Schedule;

/// Most elements of an arena or of all states together, 256 MiB: a host allocates them for whoever packed the image.
const MAX_ELEMENTS: usize = 1 << 26;

/// Most [`work`](Node::work) of a step: about a minute of a desktop computer. Weights may be gone through as often as
/// an image says, so that its size is no bound.
const MAX_WORK: u64 = 1 << 36;

/// Most bytes of tensors that are gone through, those that nodes share once for each: as many as an image can have.
const MAX_CHECKED: u64 = 1 << 32;

impl<'a> Model<'a> {
    pub(super) const fn from_image(image: Image<'a>) -> Result<Self, ImageError> {
        let Some(payload) = image.section(SectionKind::Nodes) else {
            return Err(ImageError::MissingSection { kind: SectionKind::Nodes });
        };
        let Some(weights) = image.section(SectionKind::Weights) else {
            return Err(ImageError::MissingSection { kind: SectionKind::Weights });
        };
        let Some(ports) = image.section(SectionKind::Ports) else {
            return Err(ImageError::MissingSection { kind: SectionKind::Ports });
        };
        let schedule = match image.section(SectionKind::Schedule) {
            None => Schedule::Endless,
            Some(payload) => match Schedule::parse(payload) {
                Ok(schedule) => schedule,
                Err(offset) => return Err(ImageError::BadSection { kind: SectionKind::Schedule, offset }),
            },
        };
        let front_end = match image.section(SectionKind::FrontEnd) {
            None => None,
            Some(payload) => match Mfcc::parse(payload) {
                Ok(front_end) => Some(front_end),
                Err(error) => return Err(ImageError::FrontEnd(error)),
            },
        };
        let detector = match image.section(SectionKind::Detector) {
            None => None,
            Some(payload) => match DetectorSettings::parse(payload) {
                Ok(detector) => Some(detector),
                Err(error) => return Err(ImageError::Detector(error)),
            },
        };
        let (Some(node_count), Some(slot_elements), Some((_, records))) = (
            u32_at(payload, nodes::NODE_COUNT),
            u32_at(payload, nodes::SLOT_ELEMENTS),
            payload.split_at_checked(nodes::LEN),
        ) else {
            return Err(ImageError::BadSection { kind: SectionKind::Nodes, offset: 0 });
        };
        if let Some(offset) = not_zero(payload, nodes::RESERVED.start, nodes::RESERVED.end) {
            return Err(ImageError::BadSection { kind: SectionKind::Nodes, offset });
        }
        let (inputs, outputs) = port::records(ports);
        let model = Self {
            image,
            schedule,
            front_end,
            detector,
            records,
            shared: Shared {
                weights,
                numeric: image.numeric,
                layout: image.layout,
                unit: image.numeric.unit(image.layout),
                cells: Cells::NONE,
            },
            engine: Some(engine(image.numeric)),
            ports,
            inputs,
            outputs,
            node_count,
            stateful_count: 0,
            // The scratch of the nodes begins on a whole word.
            slot_elements: match image.numeric.padded(image.layout, slot_elements as usize) {
                Some(elements) => elements,
                None => slot_elements as usize,
            },
            work_elements: 0,
            state_elements: 0,
            work: 0,
        };
        let model = match model.check_nodes() {
            Ok(model) => model,
            Err(error) => return Err(error),
        };
        if let Err(offset) = check_ports(ports, model.slot_elements, model.shared.unit, image.numeric) {
            return Err(ImageError::BadSection { kind: SectionKind::Ports, offset });
        }
        let flow = Flow { records, shared: &model.shared, node_count, inputs, outputs };
        if let Err(error) = flow.check() {
            return Err(error);
        }
        if let Err(error) = model.check_ends() {
            return Err(error);
        }
        if let Err(error) = check_lines(&image, SectionKind::Labels) {
            return Err(error);
        }
        if let Err(error) = check_lines(&image, SectionKind::Names) {
            return Err(error);
        }
        if let Err(offset) = model.check_scales() {
            return Err(ImageError::BadSection { kind: SectionKind::Scales, offset });
        }
        Ok(model)
    }

    /// Checks every node, and adds up what they need.
    const fn check_nodes(mut self) -> Result<Self, ImageError> {
        let mut place = Place { node: 0, offset: nodes::LEN };
        let mut records = self.records;
        let mut checked = 0;
        while place.node < self.node_count {
            match Node::kind_of(records, place) {
                Ok((kind, options)) => {
                    self.shared.cells = self.shared.cells.with(kind, options, self.image.numeric, self.image.layout);
                    if self.shared.cells.get(kind).is_none() {
                        return Err(ImageError::NoIntegerForm { node: place.node, code: kind.code() });
                    }
                }
                Err(error) => return Err(error),
            }
            let (node, rest) = match Node::decode(records, &self.shared, place) {
                Ok(decoded) => decoded,
                Err(error) => return Err(error),
            };
            if let Err(error) = node.check(place, self.slot_elements) {
                return Err(error);
            }
            let too_large = ImageError::TooLarge { node: place.node };
            checked += checked_bytes(&node, self.image.numeric);
            if checked > MAX_CHECKED {
                return Err(too_large);
            }
            let (Some(state), Some(work)) = (node.needed_state_elements(), node.needed_work_elements()) else {
                return Err(too_large);
            };
            if state != node.state_elements() || work != node.work_elements() {
                return Err(ImageError::BadMemory { node: place.node, state, work });
            }
            let Some(state_elements) = self.state_elements.checked_add(state) else { return Err(too_large) };
            self.state_elements = state_elements;
            self.work = self.work.saturating_add(node.work());
            if state > 0 {
                self.stateful_count = place.node + 1;
            }
            if work > self.work_elements {
                self.work_elements = work;
            }
            if !self.fits() {
                return Err(too_large);
            }
            place.offset += records.len() - rest.len();
            place.node += 1;
            records = rest;
        }
        if self.node_count == 0 || self.node_count > MAX_NODES || !records.is_empty() {
            return Err(ImageError::BadSection { kind: SectionKind::Nodes, offset: place.offset });
        }
        Ok(self)
    }

    /// Checks that no input makes a sum of an integer node wrap.
    pub(super) const fn check_sums(self) -> Result<Self, ImageError> {
        let mut place = Place { node: 0, offset: 0 };
        let mut records = self.records;
        while self.image.numeric.is_integer() && place.node < self.node_count {
            let (node, rest) = match Node::decode(records, &self.shared, place) {
                Ok(decoded) => decoded,
                Err(error) => return Err(error),
            };
            if let Err(error) = node.check_sums(place.node) {
                return Err(error);
            }
            place.node += 1;
            records = rest;
        }
        Ok(self)
    }

    /// A scale for each node, each finite and greater than 0; only in integer numerics. The error is an offset.
    const fn check_scales(&self) -> Result<(), usize> {
        let Some(payload) = self.image.section(SectionKind::Scales) else { return Ok(()) };
        let (scales, rest) = payload.as_chunks::<4>();
        if !self.image.numeric.is_integer() || scales.len() != self.node_count as usize || !rest.is_empty() {
            return Err(0);
        }
        let mut left = scales;
        while let [bytes, others @ ..] = left {
            let scale = f32::from_le_bytes(*bytes);
            if !(scale > 0.0 && scale < f32::INFINITY) {
                return Err(payload.len() - 4 * left.len());
            }
            left = others;
        }
        Ok(())
    }

    /// The front end gives what the first input takes, the detector takes what the first output gives.
    const fn check_ends(&self) -> Result<(), ImageError> {
        if let Some(front_end) = &self.front_end {
            let (needed, given) = (self.input_size(), front_end.settings().coefficients as usize);
            if needed != given {
                return Err(ImageError::BadFrontEnd { needed, given });
            }
            if let Some(given) = front_end.scale() {
                let needed = self.input_scale();
                if !self.image.numeric.is_integer() || needed.to_bits() != given.to_bits() {
                    return Err(ImageError::BadFrontEndScale { needed, given });
                }
            }
        }
        if let Some(detector) = &self.detector {
            let (needed, given) = (self.output_size(), detector.label_count());
            if needed != given {
                return Err(ImageError::BadDetector { needed, given });
            }
        }
        Ok(())
    }

    /// Arena and states stay below [`MAX_ELEMENTS`], and a step, in which every state may take part, within [`MAX_WORK`].
    pub(super) const fn fits(&self) -> bool {
        if self.work.saturating_mul(self.schedule.states() as u64) > MAX_WORK {
            return false;
        }
        match self.state_elements.checked_mul(self.schedule.states() as usize) {
            Some(states) => {
                states < MAX_ELEMENTS && self.slot_elements < MAX_ELEMENTS && self.work_elements < MAX_ELEMENTS
            }
            None => false,
        }
    }
}

/// Bytes of the tensors of a node that is [whole](Node::check), which are gone through in an integer numeric; else none.
const fn checked_bytes(node: &Node<'_>, numeric: Numeric) -> u64 {
    let Some(integer) = node.kind.integer_spec_of(node.options, numeric) else { return 0 };
    let (mut total, mut index) = (0, 0);
    while index < integer.tensors.len() {
        total += node.tensor_bytes_at(index).len() as u64;
        index += 1;
    }
    total
}

/// Text in UTF-8, every line ended by a line feed. No other control character of ASCII: names go to terminals.
const fn check_lines(image: &Image<'_>, kind: SectionKind) -> Result<(), ImageError> {
    let Some(payload) = image.section(kind) else { return Ok(()) };
    let ended = matches!(payload, [.., b'\n']);
    let mut rest = payload;
    while let [byte, others @ ..] = rest {
        if *byte != b'\n' && (*byte < b' ' || *byte == 0x7F) {
            return Err(ImageError::BadSection { kind, offset: payload.len() - rest.len() });
        }
        rest = others;
    }
    match core::str::from_utf8(payload) {
        Ok(_) if ended => Ok(()),
        Ok(_) => Err(ImageError::BadSection { kind, offset: payload.len() }),
        Err(error) => Err(ImageError::BadSection { kind, offset: error.valid_up_to() }),
    }
}
