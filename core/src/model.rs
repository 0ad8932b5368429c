//! A model: an image whose nodes, ports and sections have all been checked. After [`Model::parse`] no access can fail.

mod family;
mod limits;
mod parse;

use core::ops::Range;

use crate::detector::DetectorSettings;
use crate::element::Observe;
use crate::error::StepError;
use crate::front_end::{IntegerMfcc, Mfcc};
use crate::image::{Image, Layout, ModelId, Numeric, SectionKind};
use crate::node::{Node, Pass, Place, Shared};
use crate::port::{Buffers, Ports, Record};
use crate::schedule::Schedule;
pub use family::Family;

/// A pass through a model with f32 at its ports: model, words of a state, buffers, pass, observer.
pub(crate) type Engine = fn(&Model<'_>, &mut [u32], Buffers<'_, '_, '_, f32>, Pass, Observe<'_>) -> Option<bool>;

/// A checked model, read in place from its image. A model in flash is a constant that the compiler checks
/// ([`include_model!`](crate::include_model)). A model from anywhere else, such as a download, is checked at run time:
///
/// ```
/// use tidegate::{ImageBytes, Model, State};
///
/// # use tidegate::Aligned;
/// # let downloaded = &Aligned(*include_bytes!("../examples/kws.tgi")).0;
/// let model = Model::parse(ImageBytes::new(downloaded)?)?;
/// assert_eq!((model.input_size(), model.output_size()), (2, 3));
/// assert_eq!(model.labels().nth(1), Some("ja"));
///
/// let (mut memory, mut scratch) = (vec![0; model.state_words()], vec![0; model.scratch_words()]);
/// let mut state = State::new(&model, &mut memory)?;
/// let mut posteriors = [0.0; 3];
/// for frame in [[0.5, -1.0], [1.0, 0.25], [0.0, 0.0]] {
///     if model.step_f32(&mut state, &mut scratch, &frame, &mut posteriors)?.has_output() {
///         println!("{posteriors:?}");
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
    /// Number of nodes up to the last that has a state.
    stateful_count: u32,
    slot_elements: usize,
    work_elements: usize,
    /// Elements of one state.
    state_elements: usize,
    /// The work of all nodes in one step of one state.
    work: u64,
}

impl<'a> Model<'a> {
    /// This model with the endless schedule, which runs a sequence from end to end.
    pub const fn endless(self) -> Self {
        Self { schedule: Schedule::Endless, ..self }
    }

    /// This model without `f32` conversion at the ports, so that firmware which calls only [`step_i16`](Self::step_i16)
    /// and related functions contains no code for floats. Steps in `f32` are refused. The front end and the detector
    /// remain in their integer form: [`integer_front_end`](Self::integer_front_end) and [`detector`](Self::detector).
    /// `None` if the numeric is a float one.
    pub const fn integers_only(self) -> Option<Self> {
        if !self.image.numeric.is_integer() {
            return None;
        }
        let front_end = match self.front_end {
            Some(front_end) => Some(front_end.integers_only()),
            None => None,
        };
        Some(Self { engine: None, front_end, ..self })
    }

    /// The numeric: the number types of weights, activations and states.
    pub const fn numeric(&self) -> Numeric {
        self.image.numeric
    }

    /// The order of the weights.
    pub const fn layout(&self) -> Layout {
        self.image.layout
    }

    /// A hash over the sections.
    pub const fn id(&self) -> ModelId {
        self.image.id
    }

    /// The schedule: how a stream is divided into runs of the network.
    pub const fn schedule(&self) -> Schedule {
        self.schedule
    }

    /// The settings of the front end, which converts audio to the input in f32; `None` if the image has no front end,
    /// or the model is [without floats](Self::integers_only).
    pub const fn front_end(&self) -> Option<&Mfcc<'a>> {
        match self.engine {
            Some(_) => self.front_end.as_ref(),
            None => None,
        }
    }

    /// The settings of the front end in integers; `None` if the image has no front end, or one in f32.
    pub const fn integer_front_end(&self) -> Option<IntegerMfcc<'a>> {
        match &self.front_end {
            Some(front_end) if self.image.numeric.is_integer() => front_end.integer(),
            _ => None,
        }
    }

    /// The settings of the detector, which converts posteriors to events; `None` if the image has no detector.
    pub const fn detector(&self) -> Option<&DetectorSettings<'a>> {
        self.detector.as_ref()
    }

    /// The image with its sections.
    #[doc(hidden)]
    pub const fn image(&self) -> &Image<'a> {
        &self.image
    }

    /// Number of words that [`State::new`](crate::State::new) needs: the clock, then every state of the schedule.
    pub const fn state_words(&self) -> usize {
        1 + self.image.numeric.words(self.state_elements * self.schedule.states() as usize)
    }

    /// Number of words of scratch that a step needs. Its contents need not be kept between steps.
    pub const fn scratch_words(&self) -> usize {
        self.image.numeric.words(self.slot_elements + self.work_elements)
    }

    /// Number of elements of one state: the states of all nodes, in their order.
    #[doc(hidden)]
    pub const fn state_elements(&self) -> usize {
        self.state_elements
    }

    /// Rounds `elements` up to the slot granularity. The result must not overflow.
    #[doc(hidden)]
    pub const fn padded(&self, elements: usize) -> usize {
        // The unit is a power of two, so no division is needed.
        let more = self.shared.unit - 1;
        elements.wrapping_add(more) & !more
    }

    pub(crate) const fn engine(&self) -> Result<Engine, StepError> {
        match self.engine {
            Some(engine) => Ok(engine),
            None => Err(StepError::IntegersOnly),
        }
    }

    /// Number of elements of the arena, which holds the nodes' slots.
    #[doc(hidden)]
    pub const fn slot_elements(&self) -> usize {
        self.slot_elements
    }

    /// Number of elements of scratch, the maximum over all nodes. The scratch follows the arena.
    #[doc(hidden)]
    pub const fn work_elements(&self) -> usize {
        self.work_elements
    }

    /// The nodes in execution order.
    #[doc(hidden)]
    pub fn nodes(&self) -> Nodes<'_, 'a> {
        Nodes { records: self.records, shared: &self.shared, left: self.node_count }
    }

    /// Number of nodes.
    pub(crate) const fn node_count(&self) -> usize {
        self.node_count as usize
    }

    /// The nodes up to the last that has a state, which are those that a step without an output runs.
    #[doc(hidden)]
    pub fn stateful_nodes(&self) -> Nodes<'_, 'a> {
        Nodes { left: self.stateful_count, ..self.nodes() }
    }

    /// Whether some node buffers its steps, so that a step may have no output even if the schedule is endless.
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

    /// Number of features of the first input.
    pub const fn input_size(&self) -> usize {
        self.inputs().first_size()
    }

    /// Scale of the first input: the real value of the integer 1; 1.0 in a float numeric.
    pub const fn input_scale(&self) -> f32 {
        self.inputs().first_scale()
    }

    /// Scale of the first output: the real value of the integer 1; 1.0 in a float numeric.
    pub const fn output_scale(&self) -> f32 {
        self.outputs().first_scale()
    }

    /// Number of features of the first output.
    pub const fn output_size(&self) -> usize {
        self.outputs().first_size()
    }

    /// Names of the classes, in the order of the output; empty if the image has none.
    pub fn labels(&self) -> impl Iterator<Item = &'a str> + Clone + use<'a> {
        self.lines(SectionKind::Labels)
    }

    /// Names of the nodes, in their order; empty if the image has none.
    pub fn node_names(&self) -> impl Iterator<Item = &'a str> + Clone + use<'a> {
        self.lines(SectionKind::Names)
    }

    /// Scale of each node's output, in the order of the nodes; empty in a float numeric, and if the image has no
    /// scales.
    pub fn node_scales(&self) -> impl Iterator<Item = f32> + use<'a> {
        let payload = self.image.section(SectionKind::Scales).unwrap_or_default();
        payload.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes))
    }

    /// The position of state `name` of `node` in one state of the model, such as `("lstm", "cell_state")`; `name` is
    /// one of its [`CellSpec::states`](crate::cell::CellSpec). `None` if there is no such node (an image may have no
    /// names) or state. For a node whose rows have states of their own, this is the position of the first row's state.
    pub fn state_range(&self, node: &str, name: &str) -> Option<Range<usize>> {
        self.state_range_of_row(node, name, 0)
    }

    /// [`state_range`](Self::state_range) of one row of a node whose rows have states of their own; other nodes have one
    /// row.
    pub fn state_range_of_row(&self, node: &str, name: &str, row: usize) -> Option<Range<usize>> {
        let mut start = 0;
        for (found, called) in self.nodes().zip(self.node_names()) {
            let own = found.state_elements() / found.cells().max(1);
            let mut from = start + own * row;
            for state in found.cell.states {
                let to = from + found.dim(&state.len);
                let next = from + found.padded(&state.len);
                if called == node && state.name == name && row < found.cells() {
                    return Some(from..to);
                }
                from = next;
            }
            start += found.state_elements();
        }
        None
    }

    fn lines(&self, kind: SectionKind) -> impl Iterator<Item = &'a str> + Clone + use<'a> {
        let mut rest = self.image.section(kind).unwrap_or_default();
        // Every line has an end, as `parse` has checked. `str::lines` would take half a kilobyte of flash.
        core::iter::from_fn(move || {
            let (line, end) = rest.split_at_checked(rest.iter().position(|&byte| byte == b'\n')?)?;
            rest = end.get(1..)?;
            core::str::from_utf8(line).ok()
        })
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
    /// Whether all nodes have been decoded.
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
    use crate::image::{Aligned, ImageBytes, ImageError, Layout, ModelId, Numeric, SectionKind};
    use crate::step::{ShapeError, StepError};
    use crate::write::{ImageWriter, NodeRecord, PortRecord, nodes_header, write_ports};
    use crate::{Model, State};

    /// An Elman cell with `units` units and inputs and zero weights, and one more section.
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
        use crate::front_end::{First, MelCorners, Method, MfccSettings, Spectrum, Window};

        let settings = MfccSettings {
            method: Method::Mfcc,
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
