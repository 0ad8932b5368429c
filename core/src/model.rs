//! A model: an image whose every node, port and section has been checked. After [`Model::parse`] nothing fails.

mod check;

use core::ops::Range;

use crate::detector::DetectorSettings;
use crate::engine::Engine;
use crate::front_end::Mfcc;
use crate::image::{Image, ImageBytes, ImageError, Layout, ModelId, Numeric, SectionKind};
use crate::node::{Node, Place, Shared};
use crate::port::{Ports, Record};
use crate::schedule::Schedule;
use crate::step::StepError;

/// A checked model, read in place from its image.
#[derive(Clone, Copy, Debug)]
pub struct Model<'a> {
    image: Image<'a>,
    schedule: Schedule,
    front_end: Option<Mfcc<'a>>,
    detector: Option<DetectorSettings<'a>>,
    records: &'a [u8],
    shared: Shared<'a>,
    engine: Option<Engine>,
    ports: &'a [u8],
    inputs: &'a [Record],
    outputs: &'a [Record],
    node_count: u32,
    /// Nodes up to the last that has a state.
    stateful_count: u32,
    slot_elements: usize,
    work_elements: usize,
    /// Elements of one state.
    state_elements: usize,
    /// What all nodes do in one step of one state.
    work: u64,
}

impl<'a> Model<'a> {
    /// Checks an image and reads it in place.
    ///
    /// It is a `const fn`, so that a bad image in flash is a compile error; the compiler then walks the bytes for the
    /// checksum and the sums of rows, which it allows for images up to about 900 KB (see
    /// [`parse_structure`](Self::parse_structure)).
    ///
    /// # Errors
    /// An [`ImageError`] that says what is wrong, with the numbers.
    pub const fn parse(bytes: ImageBytes<'a>) -> Result<Self, ImageError> {
        let model = match Image::parse(bytes, true) {
            Ok(image) => Self::from_image(image),
            Err(error) => return Err(error),
        };
        match model {
            Ok(model) => model.check_sums(),
            Err(error) => Err(error),
        }
    }

    /// [`parse`](Self::parse) without the checksum and the sums of rows, for images too large to be walked at compile time.
    ///
    /// # Errors
    /// As [`parse`](Self::parse), but for a damaged weight, and for a row whose sum could leave 32 bits: it then wraps.
    pub const fn parse_structure(bytes: ImageBytes<'a>) -> Result<Self, ImageError> {
        match Image::parse(bytes, false) {
            Ok(image) => Self::from_image(image),
            Err(error) => Err(error),
        }
    }

    /// The same model as one endless run: what runs a sequence from end to end.
    pub const fn endless(self) -> Self {
        Self { schedule: Schedule::Endless, ..self }
    }

    /// The same model without what turns integers into f32 and back, so that a firmware that calls only
    /// [`step_i16`](Self::step_i16) has no code for floats: `step_f32` refuses it. Its front end, which could give f32, is
    /// none: take [`Mfcc::integer`] from the whole model. None if the numeric is a float one.
    pub const fn integers_only(self) -> Option<Self> {
        if self.image.numeric.is_integer() { Some(Self { engine: None, front_end: None, ..self }) } else { None }
    }

    /// The same model under another schedule.
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

    /// How weights, activations and states are stored and computed.
    pub const fn numeric(&self) -> Numeric {
        self.image.numeric
    }

    /// In which order the weights lie.
    pub const fn layout(&self) -> Layout {
        self.image.layout
    }

    /// A hash over the sections.
    pub const fn id(&self) -> ModelId {
        self.image.id
    }

    /// How a stream is cut into runs of the network.
    pub const fn schedule(&self) -> Schedule {
        self.schedule
    }

    /// How audio becomes the input; none where the image does not say.
    pub const fn front_end(&self) -> Option<&Mfcc<'a>> {
        self.front_end.as_ref()
    }

    /// How posteriors become events; none where the image does not say.
    pub const fn detector(&self) -> Option<&DetectorSettings<'a>> {
        self.detector.as_ref()
    }

    /// The sections as they lie in the image.
    pub const fn image(&self) -> &Image<'a> {
        &self.image
    }

    /// Words that [`State::new`](crate::State::new) needs: the clock, then every state of the schedule.
    pub const fn state_words(&self) -> usize {
        1 + self.image.numeric.words(self.state_elements * self.schedule.states() as usize)
    }

    /// Words of scratch that a step needs; its content means nothing between steps.
    pub const fn scratch_words(&self) -> usize {
        self.image.numeric.words(self.slot_elements + self.work_elements)
    }

    /// Elements of one state: what every node keeps, in their order.
    pub const fn state_elements(&self) -> usize {
        self.state_elements
    }

    /// As many elements as a slot of so many has, which fit.
    pub const fn padded(&self, elements: usize) -> usize {
        // A power of two: without a division.
        let more = self.shared.unit - 1;
        elements.wrapping_add(more) & !more
    }

    pub(crate) const fn engine(&self) -> Result<Engine, StepError> {
        match self.engine {
            Some(engine) => Ok(engine),
            None => Err(StepError::IntegersOnly),
        }
    }

    /// Elements of the arena, where the nodes' slots lie.
    pub const fn slot_elements(&self) -> usize {
        self.slot_elements
    }

    /// Elements of scratch that the neediest node has for itself; they begin behind the arena.
    pub const fn work_elements(&self) -> usize {
        self.work_elements
    }

    /// The nodes in execution order.
    pub fn nodes(&self) -> Nodes<'_, 'a> {
        Nodes { records: self.records, shared: &self.shared, left: self.node_count }
    }

    /// The nodes up to the last that has a state: what a step without an output runs.
    pub fn stateful_nodes(&self) -> Nodes<'_, 'a> {
        Nodes { left: self.stateful_count, ..self.nodes() }
    }

    /// Whether there are steps without an output, though the schedule is endless.
    pub fn has_buffer(&self) -> bool {
        self.nodes().any(|node| node.cell.is_buffered())
    }

    /// The inputs, in the order of [`step_ports`](Self::step_ports).
    pub const fn inputs(&self) -> Ports<'a> {
        Ports::new(self.ports, self.inputs)
    }

    /// The outputs, in the order of [`step_ports`](Self::step_ports).
    pub const fn outputs(&self) -> Ports<'a> {
        Ports::new(self.ports, self.outputs)
    }

    /// Features of the first input.
    pub const fn input_size(&self) -> usize {
        self.inputs().first_size()
    }

    /// What a unit of the first input is worth; 1.0 in a float numeric.
    pub const fn input_scale(&self) -> f32 {
        self.inputs().first_scale()
    }

    /// What a unit of the first output is worth; 1.0 in a float numeric.
    pub const fn output_scale(&self) -> f32 {
        self.outputs().first_scale()
    }

    /// Features of the first output.
    pub const fn output_size(&self) -> usize {
        self.outputs().first_size()
    }

    /// Names of the classes, in the order of the output; none where the image has none.
    pub fn labels(&self) -> core::str::Lines<'a> {
        self.lines(SectionKind::Labels)
    }

    /// Names of the nodes, in their order; none where the image has none.
    pub fn node_names(&self) -> core::str::Lines<'a> {
        self.lines(SectionKind::Names)
    }

    /// What a unit of each node's output is worth, node after node; none in a float numeric, or where the image does not
    /// say.
    pub fn node_scales(&self) -> impl Iterator<Item = f32> + use<'a> {
        let payload = self.image.section(SectionKind::Scales).unwrap_or_default();
        payload.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes))
    }

    /// Where one state keeps what `node` has under `name`, a name of its [`CellSpec::states`](crate::cell::CellSpec):
    /// `("lstm", "cell_state")`. None if there is no such node (an image may be without names) or state.
    pub fn state_range(&self, node: &str, name: &str) -> Option<Range<usize>> {
        let mut start = 0;
        for (found, called) in self.nodes().zip(self.node_names()) {
            let mut from = start;
            for state in found.cell.states {
                let to = from + found.dim(&state.len);
                let next = from + found.padded(&state.len);
                if called == node && state.name == name {
                    return Some(from..to);
                }
                from = next;
            }
            start = from;
        }
        None
    }

    fn lines(&self, kind: SectionKind) -> core::str::Lines<'a> {
        let payload = self.image.section(kind).unwrap_or_default();
        core::str::from_utf8(payload).unwrap_or_default().lines()
    }
}

/// The nodes of a model, decoded one by one.
#[derive(Clone, Debug)]
pub struct Nodes<'s, 'a> {
    records: &'a [u8],
    shared: &'s Shared<'a>,
    left: u32,
}

impl Nodes<'_, '_> {
    /// Whether none is left.
    pub(crate) const fn is_empty(&self) -> bool {
        self.left == 0
    }
}

impl<'a> Iterator for Nodes<'_, 'a> {
    type Item = Node<'a>;

    #[inline(always)]
    fn next(&mut self) -> Option<Node<'a>> {
        self.left = self.left.checked_sub(1)?;
        let place = Place { node: 0, offset: 0 };
        let (node, rest) = Node::decode(self.records, self.shared, place).ok()?;
        self.records = rest;
        Some(node)
    }
}

#[cfg(test)]
mod tests {
    use crate::activation::Activation;
    use crate::cell::CellKind;
    use crate::detector::{DetectorSettings, LabelSettings};
    use crate::image::write::{ImageWriter, NodeRecord, PortRecord, nodes_header, write_ports};
    use crate::image::{Aligned, ImageBytes, ImageError, Layout, ModelId, Numeric, SectionKind};
    use crate::step::{ShapeError, StepError};
    use crate::{Model, State};

    /// An Elman cell of so many units and inputs, whose weights are zero, with one more section.
    fn image(units: u32, more: (SectionKind, &[u8])) -> Aligned<[u8; 16384]> {
        let record = NodeRecord {
            kind: CellKind::Elman,
            options: 0,
            input_size: units,
            hidden_size: units,
            output_size: units,
            extents: &[1],
            activations: &[Activation::Identity],
            params: &[0.0],
            numbers: &[],
            unroll: None,
            output_slot: units,
            slots: &[(0, units)],
            tensors: &[Some(0), Some(0), Some(0), None],
        };
        let mut nodes = [0; 128];
        nodes[..16].copy_from_slice(&nodes_header(1, 2 * units));
        let nodes_len = 16 + record.write(Numeric::F32, Layout::Portable, &mut nodes[16..]).unwrap();
        let (x, y) = (PortRecord::float("x", units, 0), PortRecord::float("y", units, units));
        let mut ports = [0; 64];
        let ports_len = write_ports(&[x], &[y], &mut ports).unwrap();
        let sections = [
            (SectionKind::Nodes, &nodes[..nodes_len]),
            (SectionKind::Weights, &[0; 256][..]),
            (SectionKind::Ports, &ports[..ports_len]),
            more,
        ];
        let writer =
            ImageWriter { numeric: Numeric::F32, layout: Layout::Portable, id: ModelId(7), sections: &sections };
        let mut image = Aligned([0; _]);
        writer.write(&mut image.0).unwrap();
        image
    }

    fn parse(image: &Aligned<[u8]>) -> Result<Model<'_>, ImageError> {
        Model::parse(ImageBytes::from_aligned(image))
    }

    #[test]
    fn a_detector_of_other_labels_than_the_output_is_refused() {
        let mut detector = [0; 64];
        let labels = [LabelSettings { threshold: 0.5, refractory_ms: 0 }; 3];
        let len = DetectorSettings::write(1, &labels, &mut detector).unwrap();
        let detector = (SectionKind::Detector, &detector[..len]);
        assert!(parse(&image(3, detector)).is_ok());
        assert_eq!(parse(&image(4, detector)).unwrap_err(), ImageError::BadDetector { needed: 4, given: 3 });
    }

    #[test]
    #[cfg(feature = "libm")]
    fn a_front_end_of_other_features_than_the_input_is_refused() {
        use crate::front_end::{First, MelCorners, MfccSettings, Spectrum, Window};

        let settings = MfccSettings {
            sample_rate: 8000,
            window_len: 4,
            stride_len: 4,
            window: Window::Hann,
            fft_len: 256,
            spectrum: Spectrum::Magnitude,
            mel_bands: 4,
            coefficients: 3,
            lower_hz: 0.0,
            upper_hz: 4000.0,
            bins_per_rate: 256,
            corners: MelCorners::Exact,
            log_floor: 1e-12,
            first: First::Cepstrum,
            lead_frames: 0,
        };
        let mut front_end = [0; 1024];
        let len = settings.write(&mut front_end).unwrap();
        let front_end = (SectionKind::FrontEnd, &front_end[..len]);
        assert!(parse(&image(3, front_end)).is_ok());
        assert_eq!(parse(&image(4, front_end)).unwrap_err(), ImageError::BadFrontEnd { needed: 4, given: 3 });
    }

    #[test]
    fn labels_and_names_that_would_steer_a_terminal_are_refused() {
        for kind in [SectionKind::Labels, SectionKind::Names] {
            assert_eq!(parse(&image(1, (kind, "ja\nn\u{f6}\n".as_bytes()))).map(drop), Ok(()));
            for text in ["ja\n\x1b[2J\n", "ja\n\r\n", "ja\n\x7f\n"] {
                let error = parse(&image(1, (kind, text.as_bytes()))).unwrap_err();
                assert_eq!(error, ImageError::BadSection { kind, offset: 3 });
            }
        }
    }

    #[test]
    fn a_state_of_another_length_is_refused_though_its_model_claims_the_same_id() {
        let (small, large) = (image(3, (SectionKind::Names, b"n\n")), image(4, (SectionKind::Names, b"n\n")));
        let (small, large) = (parse(&small).unwrap(), parse(&large).unwrap());
        let mut memory = [0; 16];
        let mut state = State::new(&small, &mut memory).unwrap();
        let stepped = large.step_f32(&mut state, &mut [0; 8], &[0.0; 4], &mut [0.0; 4]);
        assert_eq!(stepped, Err(StepError::OtherState));
    }

    #[test]
    fn a_sequence_that_ends_within_a_row_is_refused_before_the_first_step() {
        let image = image(2, (SectionKind::Names, b"n\n"));
        let model = parse(&image).unwrap();
        let mut memory = [0; 8];
        let mut state = State::new(&model, &mut memory).unwrap();
        let mut outputs = [9.0; 4];
        let run = model.run_f32(&mut state, &mut [0; 4], &[1.0; 3], &mut outputs);
        assert_eq!(run, Err(StepError::Input(ShapeError { port: 0, needed: 2, given: 1 })));
        assert_eq!(outputs, [9.0; 4]);
    }
}
