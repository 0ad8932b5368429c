//! Body of the fuzz target of the interface to C: random calls, in any order, with good and bad pointers and lengths.

#![expect(unsafe_code, reason = "the functions of the interface are unsafe to call")]

use std::ffi::c_char;
use std::mem::{MaybeUninit, size_of};
use std::ptr;

use tidegate_c::*;

use super::{Outcome, aligned, is_large};

/// Bytes of the memory for buffers, which the data and all results share.
const ARENA: usize = 8192;
/// Words that each object owns.
const WORDS: usize = 1 << 12;
/// Maximum number of calls, and bytes of the data for the arguments of each.
const CALLS: usize = 48;
const CALL_BYTES: usize = 24;

/// The objects of a C program, and the words lent to them.
struct Objects {
    model: tidegate_model,
    state: tidegate_state,
    front_end: tidegate_front_end,
    detector: tidegate_detector,
    front_end_i16: tidegate_front_end_i16,
    detector_i16: tidegate_detector_i16,
    words: [Vec<u32>; 5],
}

/// The next arguments: bytes of the data.
struct Arguments<'d> {
    data: std::slice::Iter<'d, u8>,
    arena: *mut u8,
    /// Memory that the call must find among its own: objects, the words lent to them, and the image of a model.
    own: [*mut u8; 3],
}

impl Arguments<'_> {
    fn byte(&mut self) -> usize {
        self.data.next().copied().unwrap_or(0).into()
    }

    /// A pointer to `len` values that exist, or one that must be refused. Most pointers lie in the arena.
    fn pointer<T>(&mut self, len: usize) -> *mut T {
        let room = ARENA.saturating_sub(len.saturating_mul(size_of::<T>()));
        match self.byte() {
            255 => ptr::null_mut(),
            254 => self.arena.wrapping_add(1).cast(),
            // The values would lie beyond the end of the address space.
            253 if len * size_of::<T>() >= 8 => ptr::without_provenance_mut(usize::MAX - 7),
            // An object has room for small results only.
            choice @ 249..=251 if len * size_of::<T>() <= 64 => self.own[choice - 249].cast(),
            choice => self.arena.wrapping_add((choice * 64).min(room) & !15).cast(),
        }
    }

    /// The length that fits, or another one that the arena has room for.
    fn len<T>(&mut self, fits: usize) -> usize {
        let most = ARENA / 2 / size_of::<T>();
        match self.byte() {
            255 => usize::MAX / size_of::<T>(),
            254 => usize::MAX,
            choice @ 192..=253 => choice - 192,
            _ => fits.min(most),
        }
    }

    /// An array: a length, and a pointer to that many values.
    fn array<T>(&mut self, fits: usize) -> (*mut T, usize) {
        let len = self.len::<T>(fits);
        // A length that no memory has is refused before the values are used.
        (self.pointer(if len > ARENA { 0 } else { len }), len)
    }
}

/// The length of an image in two bytes, the image, then calls. No call panics, a call that fails writes no result, and
/// the image keeps its bytes.
pub fn c_api(data: &[u8]) -> Outcome {
    let Some((len, data)) = data.split_first_chunk() else { return Outcome::Refused };
    let Some((image, calls)) = data.split_at_checked(usize::from(u16::from_le_bytes(*len))) else {
        return Outcome::Refused;
    };
    let mut buffer = Vec::new();
    let image = aligned(&mut buffer, image);
    tidegate::internals::write::seal(image);
    if let Ok(bytes) = tidegate::ImageBytes::new(image)
        && tidegate::Model::parse(bytes).is_ok_and(|model| is_large(&model))
    {
        return Outcome::TooLarge;
    }
    let before = image.to_vec();
    let mut arena = vec![0_u128; ARENA / size_of::<u128>()];
    // SAFETY: zeroed objects are what C declares.
    let mut objects: Box<Objects> = Box::new(unsafe {
        Objects {
            model: MaybeUninit::zeroed().assume_init(),
            state: MaybeUninit::zeroed().assume_init(),
            front_end: MaybeUninit::zeroed().assume_init(),
            detector: MaybeUninit::zeroed().assume_init(),
            front_end_i16: MaybeUninit::zeroed().assume_init(),
            detector_i16: MaybeUninit::zeroed().assume_init(),
            words: std::array::from_fn(|_| vec![u32::MAX; WORDS]),
        }
    });
    let mut stepped = false;
    for (number, bytes) in calls.chunks(CALL_BYTES).take(CALLS).enumerate() {
        let kept = arena.clone();
        let mut arguments =
            Arguments { data: bytes.iter(), arena: arena.as_mut_ptr().cast(), own: [ptr::null_mut(); 3] };
        // A program parses its image first. Later calls may parse it again.
        let call = if number == 0 { 0 } else { arguments.byte() % 26 };
        // SAFETY: every pointer is one of `Arguments`, which exist for the whole call or are refused by their value.
        let status = unsafe { one(call, &mut objects, image, &mut arguments) };
        let succeeded = status == tidegate_status::TIDEGATE_OK;
        assert!(succeeded || arena == kept, "call {call} failed ({status:?}) and has written");
        assert!(*image == *before, "call {call} has changed the image");
        stepped |= succeeded && (20..=24).contains(&call);
    }
    if stepped { Outcome::Ran } else { Outcome::Refused }
}

/// # Safety
/// The image and the objects exist; the arena of `a` is [`ARENA`] bytes long.
unsafe fn one(call: usize, objects: &mut Objects, image: &[u8], a: &mut Arguments<'_>) -> tidegate_status {
    let image_start = image.as_ptr().cast_mut();
    let (model, state): (*mut tidegate_model, *mut tidegate_state) = (&raw mut objects.model, &raw mut objects.state);
    // SAFETY: zeroed is a valid value of a struct of integers.
    let mut info: tidegate_info = unsafe { MaybeUninit::zeroed().assume_init() };
    // SAFETY: both objects exist.
    let _ = unsafe { tidegate_model_info(model, &raw mut info) };
    let [of_state, of_front_end, of_detector, of_front_end_i16, of_detector_i16] =
        objects.words.each_mut().map(Vec::as_mut_ptr);
    // A call without a model does not know its image.
    let own = |object: *mut u8, words: *mut u32| [object, words.cast::<u8>(), ptr::null_mut()];
    a.own = match call {
        1..=4 => [model.cast(), model.cast(), image_start],
        7 | 8 => own(state.cast(), of_state),
        9 | 20..=24 => [state.cast(), of_state.cast(), image_start],
        _ => [ptr::null_mut(); 3],
    };
    let words_len =
        |a: &mut Arguments<'_>, needed: usize| if a.byte() == 255 { needed.saturating_sub(1) } else { WORDS };
    // SAFETY: see above.
    unsafe {
        match call {
            0 => {
                let len = if a.byte() < 240 { image.len() } else { a.byte().min(image.len()) };
                tidegate_model_parse(model, image_start, len)
            }
            1 => tidegate_model_info(model, a.pointer(1)),
            2 => tidegate_model_input(model, a.byte(), a.pointer(1)),
            3 => tidegate_model_output(model, a.byte(), a.pointer(1)),
            4 => tidegate_model_label(model, a.byte(), a.pointer::<*const c_char>(1), a.pointer(1)),
            5 | 6 => {
                let len = words_len(a, info.state_words);
                tidegate_state_init(state, model, of_state, len)
            }
            7 => tidegate_state_reset(state),
            8 => {
                let (bytes, len) = a.array(info.saved_bytes);
                tidegate_state_save(state, bytes, len)
            }
            9 => {
                let (bytes, len) = a.array(info.saved_bytes);
                tidegate_state_restore(state, model, bytes, len)
            }
            10 => {
                let (front_end, len) = (&raw mut objects.front_end, words_len(a, info.front_end_words));
                tidegate_front_end_init(front_end, model, of_front_end, len)
            }
            11 => {
                a.own = own((&raw mut objects.front_end).cast(), of_front_end);
                let (samples, len) = a.array(512);
                tidegate_front_end_push(&raw mut objects.front_end, samples, len, a.pointer(1))
            }
            12 => {
                a.own = own((&raw mut objects.front_end).cast(), of_front_end);
                let (features, len) = a.array(info.input_size);
                tidegate_front_end_next(&raw mut objects.front_end, features, len, a.pointer(1))
            }
            13 => {
                let (detector, len) = (&raw mut objects.detector, words_len(a, info.detector_words));
                tidegate_detector_init(detector, model, of_detector, len)
            }
            14 => {
                a.own = own((&raw mut objects.detector).cast(), of_detector);
                let (posteriors, len) = a.array(info.output_size);
                let now = a.byte() as u32;
                tidegate_detector_push(&raw mut objects.detector, posteriors, len, now, a.pointer(1), a.pointer(1))
            }
            15 => {
                let (front_end, len) = (&raw mut objects.front_end_i16, words_len(a, info.front_end_words));
                tidegate_front_end_i16_init(front_end, model, of_front_end_i16, len)
            }
            16 => {
                a.own = own((&raw mut objects.front_end_i16).cast(), of_front_end_i16);
                let (samples, len) = a.array(512);
                tidegate_front_end_i16_push(&raw mut objects.front_end_i16, samples, len, a.pointer(1))
            }
            17 => {
                a.own = own((&raw mut objects.front_end_i16).cast(), of_front_end_i16);
                let (features, len) = a.array(info.input_size);
                tidegate_front_end_i16_next(&raw mut objects.front_end_i16, features, len, a.pointer(1))
            }
            18 => {
                let (detector, len) = (&raw mut objects.detector_i16, words_len(a, info.detector_i16_words));
                tidegate_detector_i16_init(detector, model, of_detector_i16, len)
            }
            19 => {
                a.own = own((&raw mut objects.detector_i16).cast(), of_detector_i16);
                let (posteriors, len) = a.array(info.output_size);
                let now = a.byte() as u32;
                tidegate_detector_i16_push(
                    &raw mut objects.detector_i16,
                    posteriors,
                    len,
                    now,
                    a.pointer(1),
                    a.pointer(1),
                )
            }
            20 | 21 => {
                let (scratch, scratch_len) = a.array(info.scratch_words);
                let ((x, x_len), (y, y_len)) = (a.array(info.input_size), a.array(info.output_size));
                tidegate_step_f32(model, state, scratch, scratch_len, x, x_len, y, y_len, a.pointer(1))
            }
            22 => {
                let (scratch, scratch_len) = a.array(info.scratch_words);
                let ((x, x_len), (y, y_len)) = (a.array(info.input_size), a.array(info.output_size));
                tidegate_step_i16(model, state, scratch, scratch_len, x, x_len, y, y_len, a.pointer(1))
            }
            23 => {
                let (scratch, scratch_len) = a.array(info.scratch_words);
                let (y, y_len) = a.array(info.output_size);
                tidegate_finish_f32(model, state, scratch, scratch_len, y, y_len, a.pointer(1))
            }
            24 => {
                let (scratch, scratch_len) = a.array(info.scratch_words);
                let inputs = [(); TIDEGATE_MOST_PORTS].map(|()| a.array(info.input_size));
                let inputs = inputs.map(|(values, values_len)| tidegate_input_f32 { values, values_len });
                let outputs = [(); TIDEGATE_MOST_PORTS].map(|()| a.array(info.output_size));
                let outputs = outputs.map(|(values, values_len)| tidegate_output_f32 { values, values_len });
                let counts = [info.input_count, info.output_count].map(|count| count.min(TIDEGATE_MOST_PORTS));
                let counts = if a.byte() == 255 { [TIDEGATE_MOST_PORTS; 2] } else { counts };
                let (inputs, outputs) = (inputs.as_ptr(), outputs.as_ptr());
                tidegate_step_ports_f32(
                    model,
                    state,
                    scratch,
                    scratch_len,
                    inputs,
                    counts[0],
                    outputs,
                    counts[1],
                    a.pointer(1),
                )
            }
            _ => {
                // A copy of a state is refused, because two states would own the same words.
                let mut copy = ptr::read(state);
                tidegate_state_reset(&raw mut copy)
            }
        }
    }
}
