//! Sizes, counts and offsets of an image at the borders of what their fields hold: `parse` refuses the image, or every
//! range that the model uses is inside the image and its memory. Every field of the structure of an image takes every
//! border value; in short images, every two fields take every two border values, and for `TIDEGATE_MUTATION_SECONDS`
//! (default 1) random fields take random ones.
//!
//! Without optimization a share of them is tried. `cargo xtask hosts` runs this file and the unit tests of `tidegate` on
//! a host of 32 bits with overflow checks, where a sum of two fields can exceed `usize`. On a host of 64 bits it checks
//! the ranges alone.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Instant;
use std::{env, fs};

use tidegate::internals::image::field::{header, section};
use tidegate::internals::write::seal;
use tidegate::{Aligned, ImageBytes, Model, SectionKind, State};

/// Longest image whose fields are changed in pairs, and the longest one.
const SHORT: usize = 1408;
const LONG: usize = 128 << 10;
/// Maximum words of memory, and work, of a model that is run.
const RUN_WORDS: usize = 1 << 12;
const RUN_WORK: u64 = 1 << 16;
/// Words of a front end's section that are fields; values of its tables follow.
const FRONT_END_WORDS: usize = 32;

/// One pair of values in this many is tried. Without optimization, all of them take minutes.
const STRIDE: u64 = if cfg!(debug_assertions) { 61 } else { 1 };

const EXAMPLES: [&str; 7] = [
    "core/examples/many_to_many/lstm.tgi",
    "core/examples/encoder_decoder/lstm.tgi",
    "core/examples/one_to_many/gru.tgi",
    "core/examples/many_to_one/lstm.tgi",
    "core/examples/kws.tgi",
    "firmware-examples/board/kws.tgi",
    "firmware-examples/microbit/kws.tgi",
];

/// An image in aligned memory, of which `len` bytes are used.
struct Image {
    bytes: Box<Aligned<[u8; LONG]>>,
    len: usize,
}

/// A field: its offset, and its width of 2 or 4 bytes.
type Field = (usize, usize);

impl Image {
    fn read(name: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name);
        let read = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut bytes = Box::new(Aligned([0; LONG]));
        bytes.0[..read.len()].copy_from_slice(&read);
        Self { bytes, len: read.len() }
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes.0[..self.len]
    }

    fn get(&self, (at, width): Field) -> u32 {
        let mut value = [0; 4];
        value[..width].copy_from_slice(&self.bytes.0[at..at + width]);
        u32::from_le_bytes(value)
    }

    fn put(&mut self, (at, width): Field, value: u32) {
        self.bytes.0[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
    }

    /// The words of header, table and sections, and their halves, except weights and text.
    fn fields(&self) -> Vec<Field> {
        let half = |at| self.get((at, 2)) as usize;
        let word = |at| self.get((at, 4)) as usize;
        let table = header::LEN + half(header::SECTION_COUNT.start) * section::LEN;
        let mut starts: BTreeSet<usize> = (0..table).step_by(4).collect();
        starts.retain(|&at| at != header::CRC.start);
        for entry in (header::LEN..table).step_by(section::LEN) {
            let (start, len) = (word(entry + section::OFFSET.start), word(entry + section::PAYLOAD_LEN.start));
            let kind = half(entry + section::KIND.start);
            let is = |of: SectionKind| kind == usize::from(of.code());
            if is(SectionKind::Weights) || is(SectionKind::Labels) || is(SectionKind::Names) {
                continue;
            }
            let words = if is(SectionKind::FrontEnd) { (len / 4).min(FRONT_END_WORDS) } else { len / 4 };
            starts.extend((0..words).map(|index| start + 4 * index));
        }
        starts.into_iter().flat_map(|at| [(at, 4), (at, 2), (at + 2, 2)]).collect()
    }

    /// The values that a field takes: small ones, those near powers of two, near the limits of the format, near the
    /// length of the image and its negative, and near its own.
    fn borders(&self, field: Field) -> Vec<u32> {
        let (len, own) = (self.len as u32, self.get(field));
        let most = if field.1 == 2 { u32::from(u16::MAX) } else { u32::MAX };
        let near = |value: u32| [value.wrapping_sub(1), value, value.wrapping_add(1)];
        let mut values: BTreeSet<u32> = [0, own, most].into_iter().flat_map(near).collect();
        if field.1 == 4 {
            let around = [1 << 20, 1 << 26, 1 << 31, len, len.wrapping_neg(), own.wrapping_neg()];
            values.extend(around.into_iter().flat_map(near));
            values.extend([16, 1 << 28, 1 << 30, len - 16, len + 16, own.wrapping_add(16), own.wrapping_sub(16)]);
            values.extend([u32::MAX - 15, u32::MAX / 3, u32::MAX / 24]);
        } else {
            values.extend([1 << 14, 1 << 15]);
        }
        values.into_iter().map(|value| value & most).filter(|&value| value != own).collect()
    }

    /// Parses the image as it is. Returns whether it is accepted.
    fn is_accepted(&mut self) -> bool {
        let len = (self.get((header::IMAGE_LEN.start, 4)) as usize).min(self.len);
        if Model::parse_structure(ImageBytes::from_aligned(&*self.bytes)).is_err() {
            return false;
        }
        seal(&mut self.bytes.0[..len]);
        let Ok(model) = Model::parse(ImageBytes::from_aligned(&*self.bytes)) else { return false };
        check_ranges(&model);
        true
    }
}

/// Checks every range of a model in numbers that do not wrap, then runs it.
fn check_ranges(model: &Model<'_>) {
    let scratch = 2 * model.scratch_words() as u64;
    let mut states = 0;
    for node in model.nodes() {
        let steps = node.steps() as u64;
        let output = node.output();
        assert!(output.start < output.end && output.end as u64 <= scratch);
        assert_eq!((output.end - output.start) as u64, node.output_size as u64 * steps);
        let slots = (0..).map_while(|index| node.slot(index));
        assert!(slots.clone().all(|(start, row)| row > 0 && start as u64 + row as u64 * steps <= scratch));
        assert_eq!(slots.map(|(_, row)| row as u64).sum::<u64>(), node.input_size as u64);
        let tensors = node.integer_spec().map_or(node.spec().tensors, |spec| spec.tensors);
        for (index, spec) in tensors.iter().enumerate() {
            assert_eq!(spec.presence.required(node.options), !node.tensor_bytes_at(index).is_empty(), "tensor {index}");
        }
        states += node.state_elements() as u64;
    }
    assert_eq!(states, model.state_elements() as u64);
    assert!(states * u64::from(model.schedule().states()) <= 2 * (model.state_words() as u64 - 1) + 1);
    for port in model.inputs().chain(model.outputs()) {
        assert!(port.size > 0 && port.size as u64 <= scratch);
    }
    assert!(model.labels().all(|label| label.len() <= LONG));
    let work = model.work();
    if model.state_words().max(model.scratch_words()) <= RUN_WORDS && work.macs + work.moves <= RUN_WORK {
        run(model);
    }
}

fn run(model: &Model<'_>) {
    let (mut memory, mut scratch) = (vec![0; model.state_words()], vec![u32::MAX; model.scratch_words()]);
    let mut state = State::new(model, &mut memory).unwrap();
    let inputs: Vec<Vec<f32>> = model.inputs().map(|port| vec![0.5; port.size]).collect();
    let inputs: Vec<&[f32]> = inputs.iter().map(Vec::as_slice).collect();
    let mut outputs: Vec<Vec<f32>> = model.outputs().map(|port| vec![0.0; port.size]).collect();
    let mut outputs: Vec<&mut [f32]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
    assert!(model.step_ports(&mut state, &mut scratch, &inputs, &mut outputs).is_ok());
}

#[test]
fn no_field_at_a_border_leads_out_of_an_image() {
    // The last ones have weights that take long to check without optimization.
    for name in &EXAMPLES[..if cfg!(debug_assertions) { 5 } else { 7 }] {
        let mut image = Image::read(name);
        let whole = image.bytes().to_vec();
        assert!(image.is_accepted(), "{name}");
        let (mut accepted, mut count) = (0, 0);
        for field in image.fields() {
            for value in image.borders(field) {
                image.put(field, value);
                accepted += u32::from(image.is_accepted());
                count += 1;
                image.bytes.0[..whole.len()].copy_from_slice(&whole);
            }
        }
        println!("{name}: {accepted} of {count} images are accepted");
        assert!(0 < accepted && accepted < count / 2, "{name}");
    }
}

#[test]
fn no_two_fields_at_borders_lead_out_of_an_image() {
    for name in EXAMPLES {
        let mut image = Image::read(name);
        if image.len > SHORT {
            continue;
        }
        let whole = image.bytes().to_vec();
        let fields: Vec<(Field, Vec<u32>)> = image.fields().into_iter().map(|f| (f, image.borders(f))).collect();
        let (mut accepted, mut count) = (0_u64, 0_u64);
        for (index, (first, values)) in fields.iter().enumerate() {
            for &value in values {
                for (second, others) in &fields[index + 1..] {
                    for &other in others {
                        count += 1;
                        if !count.is_multiple_of(STRIDE) {
                            continue;
                        }
                        image.put(*first, value);
                        image.put(*second, other);
                        accepted += u64::from(image.is_accepted());
                        image.put(*second, number(&whole, *second));
                        image.put(*first, number(&whole, *first));
                    }
                }
            }
        }
        let tried = count / STRIDE;
        println!("{name}: {accepted} of {tried} images are accepted");
        assert!(0 < accepted && accepted < tried / 2, "{name}");
    }
}

#[test]
fn random_fields_at_borders_do_not_lead_out_of_an_image() {
    let seconds: f64 = env::var("TIDEGATE_MUTATION_SECONDS").map_or(1.0, |text| text.parse().unwrap());
    let mut images: Vec<(Image, Vec<Field>)> = EXAMPLES[..5]
        .iter()
        .map(|name| {
            let image = Image::read(name);
            let fields = image.fields();
            (image, fields)
        })
        .collect();
    // SplitMix64 (Steele, Lea and Flood 2014).
    let mut seed = 26_u64;
    let mut any = move |most: usize| {
        seed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (seed ^ seed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ mixed >> 31) as usize % most
    };
    let (start, count) = (Instant::now(), images.len());
    let (mut accepted, mut tried) = (0_u64, 0_u64);
    while start.elapsed().as_secs_f64() < seconds {
        let (image, fields) = &mut images[any(count)];
        let whole = image.bytes().to_vec();
        let mut value = 0;
        for _ in 0..2 + any(5) {
            let field = fields[any(fields.len())];
            // Rules of sizes often need the same value twice.
            if value == 0 || any(2) == 0 {
                let values = image.borders(field);
                value = values[any(values.len())];
            }
            image.put(field, value);
        }
        accepted += u64::from(image.is_accepted());
        tried += 1;
        image.bytes.0[..whole.len()].copy_from_slice(&whole);
    }
    println!("{accepted} of {tried} images are accepted");
}

fn number(bytes: &[u8], (at, width): Field) -> u32 {
    let mut value = [0; 4];
    value[..width].copy_from_slice(&bytes[at..at + width]);
    u32::from_le_bytes(value)
}
