//! The types of the header.

#![deny(unsafe_code)]

use core::ffi::c_char;

use tidegate::detector::DetectorSettings;
use tidegate::front_end::Mfcc;
use tidegate::port::Port;
use tidegate::{Detector, FrontEnd, IntegerDetector, IntegerFrontEnd, Model, Schedule, State};

use crate::memory::{Object, Owning, Sealed};

/// The version of this header, 0xMMmmpp: major, minor, patch. `tidegate_version` tells the library's.
pub const TIDEGATE_VERSION: u32 = 0x00_01_00;

/// A model, checked and ready to run. It refers to the image that it was parsed from, which must stay as it is and where
/// it is for as long as the model is used. Nothing changes a model: states, threads and interrupts may share it.
#[repr(C)]
pub struct tidegate_model {
    private_seal: u64,
    private_words: [usize; 176],
}

/// The state of one stream of a model, in words that it was lent.
#[repr(C)]
pub struct tidegate_state {
    private_seal: u64,
    private_words: [usize; 14],
}

/// A front end: samples of a microphone in, rows of features out.
#[repr(C)]
pub struct tidegate_front_end {
    private_seal: u64,
    private_words: [usize; 48],
}

/// A detector: posteriors in, events out.
#[repr(C)]
pub struct tidegate_detector {
    private_seal: u64,
    private_words: [usize; 14],
}

impl Object for tidegate_model {
    type Value = Model<'static>;
    const SEAL: u64 = u64::from_le_bytes(*b"TGmodel\x01");
}

impl Object for tidegate_state {
    type Value = Owning<State<'static>>;
    const SEAL: u64 = u64::from_le_bytes(*b"TGstate\x01");
}

impl Object for tidegate_front_end {
    /// And the features of a row.
    type Value = Owning<(FrontEnd<'static, 'static>, usize)>;
    const SEAL: u64 = u64::from_le_bytes(*b"TGfront\x01");
}

impl Object for tidegate_detector {
    type Value = Owning<Detector<'static, 'static>>;
    const SEAL: u64 = u64::from_le_bytes(*b"TGdetec\x01");
}

/// tidegate_front_end without a float.
#[repr(C)]
pub struct tidegate_front_end_i16 {
    private_seal: u64,
    private_words: [usize; 46],
}

/// tidegate_detector without a float.
#[repr(C)]
pub struct tidegate_detector_i16 {
    private_seal: u64,
    private_words: [usize; 14],
}

impl Object for tidegate_front_end_i16 {
    /// And the features of a row.
    type Value = Owning<(IntegerFrontEnd<'static, 'static>, usize)>;
    const SEAL: u64 = u64::from_le_bytes(*b"TGfron16");
}

impl Object for tidegate_detector_i16 {
    type Value = Owning<IntegerDetector<'static, 'static>>;
    const SEAL: u64 = u64::from_le_bytes(*b"TGdete16");
}

/// What a model needs and has.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tidegate_info {
    /// A hash over the image's sections: the `..._MODEL_ID` of a header that `tidegate inspect --c-header` wrote.
    pub model_id: u64,
    /// Words that tidegate_state_init needs.
    pub state_words: usize,
    /// Words of scratch that a step needs.
    pub scratch_words: usize,
    /// Bytes that tidegate_state_save writes.
    pub saved_bytes: usize,
    /// Words that tidegate_front_end_init needs; 0 if the image has no front end.
    pub front_end_words: usize,
    /// Words that tidegate_detector_init needs; 0 if the image has no detector.
    pub detector_words: usize,
    /// Words that tidegate_detector_i16_init needs; 0 if the image has no detector.
    pub detector_i16_words: usize,
    /// Features of the first input.
    pub input_size: usize,
    /// Features of the first output.
    pub output_size: usize,
    /// How many inputs there are; see tidegate_model_input.
    pub input_count: usize,
    /// How many outputs there are; see tidegate_model_output.
    pub output_count: usize,
    /// How many labels there are; see tidegate_model_label. 0 or output_size, as a rule.
    pub label_count: usize,
    /// Samples a second that the front end hears; 0 if the image has none.
    pub sample_rate: u32,
    /// Samples from one row of features to the next; 0 if the image has no front end.
    pub stride: u32,
    /// Steps of a window, at the end of which there is an output; 0 if the model runs endlessly.
    pub frames: u32,
    /// Steps from the start of one window to the start of the next; 0 if the model runs endlessly.
    pub every: u32,
    /// Whether the front end is one of integers: then tidegate_front_end_i16 hears without a float.
    pub front_end_integers: bool,
    /// Whether the model computes in integers: then tidegate_step_i16 runs it without a float.
    pub integers: bool,
}

/// An input or output. Text is not ended by a zero byte; it lies in the image.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tidegate_port {
    /// Its name in UTF-8.
    pub name: *const c_char,
    /// Bytes of the name.
    pub name_len: usize,
    /// Features.
    pub size: usize,
    /// What a unit of tidegate_step_i16 is worth; 1 in a float model.
    pub scale: f32,
    /// The integer that stands for 0.
    pub zero_point: i32,
}

/// Most inputs, and most outputs, of a step with several.
pub const TIDEGATE_MOST_PORTS: usize = 8;

/// The row that goes into one of several inputs, as long as the input's size.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tidegate_input_f32 {
    /// Where it begins.
    pub values: *const f32,
    /// How many values there are.
    pub values_len: usize,
}

/// The room for the row of one of several outputs, as long as the output's size.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tidegate_output_f32 {
    /// Where it begins.
    pub values: *mut f32,
    /// How many values there are.
    pub values_len: usize,
}

/// tidegate_input_f32 in integers.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tidegate_input_i16 {
    /// Where it begins.
    pub values: *const i16,
    /// How many values there are.
    pub values_len: usize,
}

/// tidegate_output_f32 in integers.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tidegate_output_i16 {
    /// Where it begins.
    pub values: *mut i16,
    /// How many values there are.
    pub values_len: usize,
}

/// A label was detected.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tidegate_event {
    /// Its number; see tidegate_model_label.
    pub label: usize,
    /// The mean of its last posteriors.
    pub score: f32,
    /// The time given with the last of them, milliseconds.
    pub at_ms: u32,
}

/// tidegate_event without a float.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tidegate_event_i16 {
    /// Its number; see tidegate_model_label.
    pub label: usize,
    /// The time given with the last of them, milliseconds.
    pub at_ms: u32,
    /// The mean of its last posteriors, in 2^-15.
    pub score: i16,
}

/// The version that cargo knows.
const fn number(text: &str) -> u32 {
    let (mut digits, mut number) = (text.as_bytes(), 0);
    while let [digit, rest @ ..] = digits {
        number = 10 * number + (*digit - b'0') as u32;
        digits = rest;
    }
    number
}

const _: () = assert!(
    TIDEGATE_VERSION
        == number(env!("CARGO_PKG_VERSION_MAJOR")) << 16
            | number(env!("CARGO_PKG_VERSION_MINOR")) << 8
            | number(env!("CARGO_PKG_VERSION_PATCH")),
    "TIDEGATE_VERSION is not the package's version"
);

impl tidegate_info {
    pub(crate) fn of(model: &Model<'_>) -> Self {
        let (frames, every) = match model.schedule() {
            Schedule::Endless => (0, 0),
            Schedule::Windows { frames, every } => (frames, every),
        };
        let front_end = model.front_end();
        Self {
            model_id: model.id().0,
            state_words: model.state_words(),
            scratch_words: model.scratch_words(),
            saved_bytes: model.saved_bytes(),
            front_end_words: front_end.map_or(0, Mfcc::memory_words),
            detector_words: model.detector().map_or(0, DetectorSettings::memory_words),
            detector_i16_words: model.detector().map_or(0, DetectorSettings::integer_memory_words),
            input_size: model.input_size(),
            output_size: model.output_size(),
            input_count: model.inputs().count(),
            output_count: model.outputs().count(),
            label_count: model.labels().count(),
            sample_rate: front_end.map_or(0, |front_end| front_end.settings().sample_rate),
            stride: front_end.map_or(0, |front_end| front_end.settings().stride_len),
            frames,
            every,
            front_end_integers: front_end.is_some_and(|front_end| front_end.integer().is_some()),
            integers: model.numeric().is_integer(),
        }
    }
}

impl tidegate_port {
    pub(crate) fn of(port: Port<'_>) -> Self {
        let Port { name, size, scale, zero_point, .. } = port;
        Self { name: name.as_ptr().cast(), name_len: name.len(), size, scale, zero_point }
    }
}

/// A model of a static: the seal without a run.
#[cfg_attr(not(feature = "image"), expect(dead_code))]
pub(crate) const fn sealed(model: Model<'static>) -> Sealed<Model<'static>> {
    Sealed { seal: tidegate_model::SEAL, value: model }
}
