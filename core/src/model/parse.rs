//! Checks every node, port and section of an image, and that they fit each other, and creates the model.

use super::Model;
use super::family::Family;
use crate::detector::DetectorSettings;
use crate::error::TooManyCells;
use crate::flow::Flow;
use crate::front_end::Mfcc;
use crate::image::field::{MAX_NODES, nodes};
use crate::image::names::first_refused;
use crate::image::read::u32_at;
use crate::image::{Image, ImageBytes, ImageError, SectionKind, not_zero, self_test};
use crate::node::{Cells, Node, Place, Shared};
use crate::port::{self, check_ports};
use crate::schedule::Schedule;
use crate::step::engine;

/// Maximum number of elements of an arena, or of all states together (256 MiB). It bounds the memory that an untrusted
/// image makes a host allocate.
const MAX_ELEMENTS: usize = 1 << 26;

/// Maximum [`work`](Node::work) of a step: about a minute on a desktop computer. An image specifies how often its
/// weights are read, so its size does not bound the work.
const MAX_WORK: u64 = 1 << 36;

/// Maximum number of bytes of tensors whose contents are checked, for each byte of the section. Tensors that nodes share
/// count once per node, unless a node has all tensors of the node before it. The limit keeps `parse` linear.
const MAX_CHECKED: u64 = 2;

impl<'a> Model<'a> {
    /// Checks an image and reads it in place.
    ///
    /// As a `const fn`, it turns a bad image in flash into a compile error. The compiler then evaluates the checksum
    /// and the sums of rows over all bytes, which it allows for images up to about 900 KB (see
    /// [`parse_structure`](Self::parse_structure)).
    ///
    /// # Errors
    /// The first error found, as an [`ImageError`].
    pub const fn parse(bytes: ImageBytes<'a>) -> Result<Self, ImageError> {
        let image = ok!(Image::parse(bytes, true));
        let any = Family::new(image.numeric, image.layout, Cells::NONE, Some(engine(image.numeric)));
        Self::checked::<false>(image, &any)
    }

    /// [`parse`](Self::parse) of an image whose cells, with their options, are those of a family. Firmware that parses
    /// images only with this function contains no other cells:
    ///
    /// ```
    /// use tidegate::{Family, ImageBytes, Model};
    ///
    /// /// The model that the firmware is built with.
    /// const MODEL: Model = tidegate::include_model!("../../examples/kws.tgi");
    /// static FAMILY: Family = match MODEL.family() {
    ///     Ok(family) => family,
    ///     Err(_) => panic!("the model has too many cells"),
    /// };
    ///
    /// # use tidegate::Aligned;
    /// # let downloaded = &Aligned(*include_bytes!("../../examples/kws.tgi")).0;
    /// let model = Model::parse_in(ImageBytes::new(downloaded)?, &FAMILY)?;
    /// assert_eq!(model.id(), MODEL.id());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`parse`](Self::parse); also if numeric, layout, a cell or its options are not those of the family.
    pub const fn parse_in(bytes: ImageBytes<'a>, family: &Family) -> Result<Self, ImageError> {
        let image = ok!(Image::parse(bytes, true));
        if image.numeric as u16 != family.numeric as u16 {
            return Err(ImageError::UnsupportedNumeric { found: image.numeric.code() });
        }
        if image.layout.code() != family.layout.code() {
            return Err(ImageError::UnsupportedLayout { found: image.layout.code() });
        }
        Self::checked::<true>(image, family)
    }

    /// The family of this model's cells, for [`parse_in`](Self::parse_in).
    ///
    /// # Errors
    /// If it has more than 16 cells that differ in kind or options.
    pub const fn family(&self) -> Result<Family, TooManyCells> {
        let mut family = Family::new(self.image.numeric, self.image.layout, self.shared.cells, self.engine);
        let (mut records, mut left) = (self.records, self.node_count);
        while left > 0 {
            if let Ok((node, rest)) = Node::decode(records, &self.shared, Place { node: 0, offset: 0 }) {
                family = ok!(family.with(&node));
                records = rest;
            }
            left -= 1;
        }
        Ok(family)
    }

    /// Checks everything. With `FIXED`, only the cells of the family are accepted; otherwise all cells are.
    const fn checked<const FIXED: bool>(image: Image<'a>, family: &Family) -> Result<Self, ImageError> {
        let model = ok!(Self::from_image::<FIXED>(image, family));
        ok!(model.check_sums::<FIXED>(family));
        Ok(model)
    }

    /// [`parse`](Self::parse) without the checksum and the sums of rows, for images too large to be checked at compile
    /// time.
    ///
    /// # Errors
    /// As [`parse`](Self::parse), except that damaged weights, and rows whose sum could overflow 32 bits, are not
    /// detected. Such a sum wraps.
    pub const fn parse_structure(bytes: ImageBytes<'a>) -> Result<Self, ImageError> {
        let image = ok!(Image::parse(bytes, false));
        let any = Family::new(image.numeric, image.layout, Cells::NONE, Some(engine(image.numeric)));
        Self::from_image::<false>(image, &any)
    }

    /// This model with another schedule.
    ///
    /// # Errors
    /// As [`parse`](Self::parse) of an image with this schedule.
    pub const fn with_schedule(self, schedule: Schedule) -> Result<Self, ImageError> {
        if let Err(offset) = schedule.check() {
            return Err(ImageError::BadSection { kind: SectionKind::Schedule, offset });
        }
        let model = Self { schedule, ..self };
        if model.fits() { Ok(model) } else { Err(ImageError::TooLarge { node: 0 }) }
    }

    const fn from_image<const FIXED: bool>(image: Image<'a>, family: &Family) -> Result<Self, ImageError> {
        let payload = ok!(image.required(SectionKind::Nodes));
        let weights = ok!(image.required(SectionKind::Weights));
        let ports = ok!(image.required(SectionKind::Ports));
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
        let mut model = Self {
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
                cells: family.cells,
            },
            engine: family.engine,
            ports,
            inputs,
            outputs,
            node_count,
            stateful_count: 0,
            // The scratch of the nodes follows the arena, aligned to a word.
            slot_elements: match image.numeric.padded(image.layout, slot_elements as usize) {
                Some(elements) => elements,
                None => slot_elements as usize,
            },
            work_elements: 0,
            state_elements: 0,
            work: 0,
        };
        ok!(model.check_nodes::<FIXED>(family));
        if let Err(offset) = check_ports(ports, model.slot_elements, model.shared.unit, image.numeric) {
            return Err(ImageError::BadSection { kind: SectionKind::Ports, offset });
        }
        let flow = Flow { records, shared: &model.shared, node_count, inputs, outputs };
        ok!(flow.check());
        ok!(model.check_ends());
        ok!(check_lines(&image, SectionKind::Labels));
        ok!(check_lines(&image, SectionKind::Names));
        if let Err(offset) = model.check_scales() {
            return Err(ImageError::BadSection { kind: SectionKind::Scales, offset });
        }
        if let Err(offset) = model.check_self_test() {
            return Err(ImageError::BadSection { kind: SectionKind::SelfTest, offset });
        }
        Ok(model)
    }

    /// Checks every node, and adds up their states, scratch and work.
    const fn check_nodes<const FIXED: bool>(&mut self, family: &Family) -> Result<(), ImageError> {
        let mut place = Place { node: 0, offset: nodes::LEN };
        let mut records = self.records;
        let (mut checked, mut previous) = (0, None);
        while place.node < self.node_count {
            let (kind, options) = ok!(Node::kind_of(records, place));
            if FIXED {
                // A cell that is not in the family is named before its record is decoded.
                ok!(family.specs(kind, options, place));
            } else {
                self.shared.cells = self.shared.cells.with(kind, options, self.image.numeric, self.image.layout);
                if self.shared.cells.get(kind).is_none() {
                    return Err(ImageError::NoIntegerForm { node: place.node, code: kind.code() });
                }
            }
            let (node, rest) = ok!(Node::decode(records, &self.shared, place));
            let specs = if FIXED { ok!(family.specs(kind, options, place)) } else { node.specs() };
            ok!(node.check(specs, place, self.slot_elements));
            let too_large = ImageError::TooLarge { node: place.node };
            if self.image.numeric.is_integer() && is_new(&node, &previous) {
                checked += node.content_bytes(specs);
                if checked > MAX_CHECKED * self.shared.weights.len() as u64 {
                    return Err(too_large);
                }
                ok!(node.check_contents(specs, place.node));
            }
            previous = Some(node);
            let (Some(state), Some(work)) = (node.needed_state_elements(), node.needed_work_elements(specs)) else {
                return Err(too_large);
            };
            if state != node.state_elements() || work != node.work_elements() {
                return Err(ImageError::BadMemory { node: place.node, state, work });
            }
            let Some(state_elements) = self.state_elements.checked_add(state) else { return Err(too_large) };
            self.state_elements = state_elements;
            self.work = self.work.saturating_add(node.work(specs));
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
        Ok(())
    }

    /// Checks that no input makes a sum of an integer node wrap.
    const fn check_sums<const FIXED: bool>(&self, family: &Family) -> Result<(), ImageError> {
        let mut place = Place { node: 0, offset: 0 };
        let (mut records, mut previous) = (self.records, None);
        while self.image.numeric.is_integer() && place.node < self.node_count {
            let (node, rest) = ok!(Node::decode(records, &self.shared, place));
            if is_new(&node, &previous) {
                let specs = if FIXED { ok!(family.specs(node.kind, node.options, place)) } else { node.specs() };
                ok!(node.check_sums(specs, place.node));
            }
            previous = Some(node);
            place.node += 1;
            records = rest;
        }
        Ok(())
    }

    /// Checks that there is a scale for each node, finite and greater than 0, and only in integer numerics. The error
    /// is an offset.
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

    /// Checks the self-test, which only models with one input and one output have. The error is an offset.
    const fn check_self_test(&self) -> Result<(), usize> {
        let Some(payload) = self.image.section(SectionKind::SelfTest) else { return Ok(()) };
        if self.inputs.len() != 1 || self.outputs.len() != 1 {
            return Err(0);
        }
        self_test::check(payload, self.image.numeric.is_integer(), [self.input_size(), self.output_size()])
    }

    /// Checks that the front end matches the first input, and the detector the first output.
    const fn check_ends(&self) -> Result<(), ImageError> {
        if let Some(front_end) = &self.front_end {
            let (needed, given) = (self.input_size(), front_end.settings().coefficients as usize);
            if needed != given {
                return Err(ImageError::BadFrontEnd { needed, given });
            }
            if let Some(given) = front_end.scale() {
                let needed = self.input_scale();
                // In floats, only the features of `Method::Micro` are integers times a scale.
                let fits = match self.image.numeric.is_integer() {
                    true => needed.to_bits() == given.to_bits(),
                    false => front_end.settings().method.is_micro(),
                };
                if !fits {
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

    /// Whether arena and states are below [`MAX_ELEMENTS`], and a step, in which every state may run, is within
    /// [`MAX_WORK`].
    const fn fits(&self) -> bool {
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

/// Whether the tensors of a node are not those of the node before it.
const fn is_new(node: &Node<'_>, previous: &Option<Node<'_>>) -> bool {
    match previous {
        Some(previous) => !node.has_tensors_of(previous),
        None => true,
    }
}

/// Checks that a section is [text](first_refused) in which a line feed ends every line.
const fn check_lines(image: &Image<'_>, kind: SectionKind) -> Result<(), ImageError> {
    let Some(payload) = image.section(kind) else { return Ok(()) };
    match first_refused(payload, true) {
        Some(offset) => Err(ImageError::BadSection { kind, offset }),
        None if matches!(payload, [.., b'\n']) => Ok(()),
        None => Err(ImageError::BadSection { kind, offset: payload.len() }),
    }
}
