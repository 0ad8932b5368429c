//! The types of the header.

#![deny(unsafe_code)]

use core::ffi::c_char;

use tidegate::{
    Detector, DetectorSettings, FrontEnd, IntegerDetector, IntegerFrontEnd, Limits, Model, Port, Schedule, State, Work,
    front_end::Mfcc,
};

use crate::memory::{Object, Owning, Sealed};

/// The version of this header, 0xMMmmpp: major, minor, patch. `tidegate_version` returns the library's.
pub const TIDEGATE_VERSION: u32 = 0x00_01_00;

/// A model, checked and ready to run. It refers to its image, which must stay unchanged in place as long as the model
/// is used. A model is immutable: states, threads and interrupts may share it.
#[repr(C)]
pub struct tidegate_model {
    private_seal: u64,
    private_words: [usize; 176],
}

/// The state of one stream of a model, in words borrowed from the caller.
#[repr(C)]
pub struct tidegate_state {
    private_seal: u64,
    private_words: [usize; 20],
}

/// A front end, which converts microphone samples to rows of features.
#[repr(C)]
pub struct tidegate_front_end {
    private_seal: u64,
    private_words: [usize; 60],
}

/// A detector, which converts posteriors to events.
#[repr(C)]
pub struct tidegate_detector {
    private_seal: u64,
    private_words: [usize; 20],
}

/// tidegate_front_end without floating point.
#[repr(C)]
pub struct tidegate_front_end_i16 {
    private_seal: u64,
    private_words: [usize; 60],
}

/// tidegate_detector without floating point.
#[repr(C)]
pub struct tidegate_detector_i16 {
    private_seal: u64,
    private_words: [usize; 20],
}

/// Gives every object its value and its seal.
macro_rules! objects {
    ($($object:ident: $value:ty = $seal:literal;)*) => {
        $(impl Object for $object {
            type Value = $value;
            const SEAL: u64 = u64::from_le_bytes(*$seal);
        })*
    };
}

// The number beside a front end is that of the features in a row.
objects! {
    tidegate_model: Model<'static> = b"TGmodel\x01";
    tidegate_state: Owning<State<'static>> = b"TGstate\x01";
    tidegate_front_end: Owning<(FrontEnd<'static, 'static>, usize)> = b"TGfront\x01";
    tidegate_detector: Owning<Detector<'static, 'static>> = b"TGdetec\x01";
    tidegate_front_end_i16: Owning<(IntegerFrontEnd<'static, 'static>, usize)> = b"TGfron16";
    tidegate_detector_i16: Owning<IntegerDetector<'static, 'static>> = b"TGdete16";
}

/// The sizes and properties of a model.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tidegate_info {
    /// A hash over the image's sections; the `..._MODEL_ID` of a header written by `tidegate inspect --c-header`.
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
    /// Number of features of the first input.
    pub input_size: usize,
    /// Number of features of the first output.
    pub output_size: usize,
    /// Number of inputs; see tidegate_model_input.
    pub input_count: usize,
    /// Number of outputs; see tidegate_model_output.
    pub output_count: usize,
    /// Number of labels; see tidegate_model_label. Usually 0 or output_size.
    pub label_count: usize,
    /// Sample rate of the front end in Hz; 0 if the image has no front end.
    pub sample_rate: u32,
    /// Number of samples between two rows of features; 0 if the image has no front end.
    pub stride: u32,
    /// Number of steps in a window, whose end has an output; 0 if the model runs endlessly.
    pub frames: u32,
    /// Number of steps between the starts of two windows; 0 if the model runs endlessly.
    pub every: u32,
    /// Whether the front end computes in integers, as tidegate_front_end_i16 needs.
    pub front_end_integers: bool,
    /// Whether the model computes in integers, as tidegate_step_i16 needs.
    pub integers: bool,
}

/// The work of one step: upper bounds, for a step in which every state of the schedule runs.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tidegate_work {
    /// Multiply-accumulates with weights.
    pub macs: u64,
    /// Activations, exponentials and logarithms.
    pub curves: u64,
    /// Elements that are read or moved apart from products with weights.
    pub moves: u64,
    /// Bytes of the image that are read. A tensor that is read several times counts each time.
    pub bytes: u64,
}

/// The most that an image may need, for tidegate_model_parse_within. 0 stands for no limit.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tidegate_limits {
    /// The work of a step.
    pub work: tidegate_work,
    /// Number of nodes.
    pub nodes: usize,
    /// The `state_words` of tidegate_info.
    pub state_words: usize,
    /// The `scratch_words` of tidegate_info.
    pub scratch_words: usize,
}

/// An input or output. Its name is in the image and not null-terminated.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tidegate_port {
    /// Name in UTF-8.
    pub name: *const c_char,
    /// Length of the name in bytes.
    pub name_len: usize,
    /// Number of features.
    pub size: usize,
    /// Real value of one unit of tidegate_step_i16; 1 in a float model.
    pub scale: f32,
    /// The integer that stands for 0.
    pub zero_point: i32,
}

/// Maximum number of inputs, and of outputs, of a step with several.
pub const TIDEGATE_MOST_PORTS: usize = 8;

/// A row for one of several inputs, as long as the input's size.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tidegate_input_f32 {
    /// First value.
    pub values: *const f32,
    /// Number of values.
    pub values_len: usize,
}

/// A buffer for one of several outputs, as long as the output's size.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tidegate_output_f32 {
    /// First value.
    pub values: *mut f32,
    /// Number of values.
    pub values_len: usize,
}

/// tidegate_input_f32 in integers.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tidegate_input_i16 {
    /// First value.
    pub values: *const i16,
    /// Number of values.
    pub values_len: usize,
}

/// tidegate_output_f32 in integers.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tidegate_output_i16 {
    /// First value.
    pub values: *mut i16,
    /// Number of values.
    pub values_len: usize,
}

/// A detected label.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tidegate_event {
    /// Index of the label; see tidegate_model_label.
    pub label: usize,
    /// Mean of the label's last posteriors.
    pub score: f32,
    /// Time of the last of these posteriors in milliseconds.
    pub at_ms: u32,
}

/// tidegate_event without floating point.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tidegate_event_i16 {
    /// Index of the label; see tidegate_model_label.
    pub label: usize,
    /// Time of the last of these posteriors in milliseconds.
    pub at_ms: u32,
    /// Mean of the label's last posteriors, in units of the output's scale.
    pub score: i16,
}

/// The version of the package.
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

impl tidegate_work {
    pub(crate) fn of(model: &Model<'_>) -> Self {
        let Work { macs, curves, moves, bytes } = model.work();
        Self { macs, curves, moves, bytes }
    }
}

impl tidegate_limits {
    pub(crate) fn get(&self) -> Limits {
        let work = |limit: u64| if limit == 0 { u64::MAX } else { limit };
        let size = |limit: usize| if limit == 0 { usize::MAX } else { limit };
        let tidegate_work { macs, curves, moves, bytes } = self.work;
        Limits {
            work: Work { macs: work(macs), curves: work(curves), moves: work(moves), bytes: work(bytes) },
            nodes: size(self.nodes),
            state_words: size(self.state_words),
            scratch_words: size(self.scratch_words),
        }
    }
}

impl tidegate_port {
    pub(crate) fn of(port: Port<'_>) -> Self {
        let Port { name, size, scale, zero_point, .. } = port;
        Self { name: name.as_ptr().cast(), name_len: name.len(), size, scale, zero_point }
    }
}

/// A model in a static, sealed without a call.
#[cfg_attr(not(feature = "image"), expect(dead_code))]
pub(crate) const fn sealed(model: Model<'static>) -> Sealed<Model<'static>> {
    Sealed { seal: tidegate_model::SEAL, value: model }
}
