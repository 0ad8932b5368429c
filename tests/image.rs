//! The door: what is not a whole image is refused with the numbers, and whatever gets past `parse` steps without harm.

use tidegate::cell::CellKind;
use tidegate::image::field::{self, activation, header, node, nodes, port, ports, schedule, section, slot};
use tidegate::image::write::{ImageWriter, seal};
use tidegate::image::{Image, Layout, Misaligned, ModelId, SectionKind};
use tidegate::{BufferTooSmall, ImageBytes, ImageError, Model, Numeric, Schedule};
use tidegate_tests::fields::{payload_of, put16, put32, record_of, section_of, slot_of, tensor_of, u16_at, u32_at};
use tidegate_tests::fuzz::{self, Outcome};
use tidegate_tests::images::{AlignedBytes, over_windows, small_models, two_ports, whole};
use tidegate_tests::random::{Draw, Rng, Variant, chain};
use tidegate_tools::canonical;
use tidegate_tools::pack::pack_with;
use tidegate_tools::quantize::Ranges;

/// Parses a copy.
fn parse(bytes: &[u8]) -> Result<(), ImageError> {
    Model::parse(AlignedBytes::new(bytes).image()).map(drop)
}

fn packed() -> Vec<u8> {
    AlignedBytes::pack(&whole(), Numeric::F32).get().to_vec()
}

/// Nodes of [`whole`].
const ELMAN: usize = 0;
const LSTM: usize = 1;
const GRU: usize = 2;
const SOFTMAX: usize = 4;

/// What parsing says of [`whole`]'s image after an edit, with a good checksum.
fn after(edit: impl FnOnce(&mut Vec<u8>)) -> Result<(), ImageError> {
    let mut bytes = packed();
    edit(&mut bytes);
    // The checksum covers what the header says is the image.
    let len = (u32_at(&bytes, header::IMAGE_LEN.start) as usize).min(bytes.len());
    seal(&mut bytes[..len]);
    parse(&bytes)
}

/// The same, with one 32-bit word written where `at` says.
fn with32(at: impl FnOnce(&[u8]) -> usize, value: u32) -> Result<(), ImageError> {
    after(|bytes| {
        let at = at(bytes);
        put32(bytes, at, value);
    })
}

fn with16(at: impl FnOnce(&[u8]) -> usize, value: u16) -> Result<(), ImageError> {
    after(|bytes| {
        let at = at(bytes);
        put16(bytes, at, value);
    })
}

fn with8(at: impl FnOnce(&[u8]) -> usize, value: u8) -> Result<(), ImageError> {
    after(|bytes| {
        let at = at(bytes);
        bytes[at] = value;
    })
}

#[test]
fn a_packed_image_says_what_its_model_said() {
    let canonical = whole();
    let image = AlignedBytes::pack(&canonical, Numeric::F16);
    let model = image.model();
    assert_eq!((model.numeric(), model.layout()), (Numeric::F16, Layout::Portable));
    assert_eq!(model.schedule(), Schedule::Windows { frames: 3, every: 2 });
    assert_eq!(model.labels().collect::<Vec<_>>(), canonical.architecture.labels);
    assert_eq!(model.node_names().collect::<Vec<_>>(), ["n0", "n1", "n2", "n3", "n4"]);
    assert_eq!(model.nodes().count(), canonical.architecture.nodes.len());
    for (node, canonical) in model.nodes().zip(&canonical.architecture.nodes) {
        assert_eq!(Some(node.kind), CellKind::from_name(&canonical.cell));
        assert_eq!(node.input_size, canonical.input_size);
        assert_eq!((node.hidden_size, node.output_size), (canonical.hidden_size, canonical.output_size));
    }
    let (input, output) = (model.inputs().next(), model.outputs().next());
    assert_eq!(input.map(|port| (port.name, port.size, port.scale, port.zero_point)), Some(("in", 2, 1.0, 0)));
    assert_eq!(output.map(|port| (port.name, port.size)), Some(("out", 3)));
    assert_eq!((model.inputs().count(), model.outputs().count()), (1, 1));
    // h; h, c; h; nothing; nothing, twice for two windows, and the clock.
    assert_eq!((model.state_elements(), model.state_words()), (12, 25));
}

#[test]
fn every_numeric_has_a_code_and_a_name_of_its_own() {
    for (code, numeric) in (0..).zip(Numeric::ALL) {
        assert_eq!((numeric.code(), Numeric::from_code(code)), (code, Some(numeric)), "{}", numeric.name());
        assert_eq!(Numeric::ALL.iter().filter(|other| other.name() == numeric.name()).count(), 1);
        assert_eq!(numeric.is_integer(), !Numeric::FLOAT.contains(&numeric));
        assert_eq!(numeric.needs_ranges(), Numeric::INTEGER.contains(&numeric));
    }
    assert_eq!(Numeric::from_code(Numeric::ALL.len() as u16), None);
}

#[test]
fn every_prefix_of_an_image_is_refused() {
    for numeric in Numeric::FLOAT {
        let image = AlignedBytes::pack(&whole(), numeric);
        for len in 0..image.get().len() {
            let error = parse(&image.get()[..len]).expect_err("a prefix");
            let needed = if len < header::LEN { header::LEN } else { image.get().len() };
            assert_eq!(error, ImageError::Truncated { offset: 0, needed }, "{len} bytes");
        }
    }
}

#[test]
fn every_single_bit_flip_of_an_image_is_refused() {
    for numeric in Numeric::FLOAT {
        for model in [whole(), two_ports()] {
            let image = AlignedBytes::pack(&model, numeric);
            let mut bytes = image.get().to_vec();
            for bit in 0..8 * bytes.len() {
                bytes[bit / 8] ^= 1 << (bit % 8);
                assert!(parse(&bytes).is_err(), "bit {bit} of the {} image", numeric.name());
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
            assert_eq!(parse(&bytes), Ok(()));
        }
    }
}

#[test]
fn bytes_behind_the_image_are_ignored() {
    let mut bytes = packed();
    for more in [1, 15, 16, 4096] {
        bytes.resize(packed().len() + more, 0xA5);
        assert_eq!(parse(&bytes), Ok(()), "{more} bytes more");
    }
}

#[test]
fn what_was_parsed_writes_the_same_bytes() {
    for (name, canonical) in small_models() {
        for numeric in Numeric::FLOAT {
            let image = AlignedBytes::pack(&canonical, numeric);
            let (bytes, model) = (image.get(), image.model());
            let kind = |index| {
                let code = u16_at(bytes, header::LEN + index * section::LEN + section::KIND.start);
                SectionKind::ALL.into_iter().find(|kind| kind.code() == code).expect("the packer writes known kinds")
            };
            let count = usize::from(u16_at(bytes, header::SECTION_COUNT.start));
            let sections: Vec<(SectionKind, &[u8])> =
                (0..count).map(kind).map(|kind| (kind, model.image().section(kind).expect("it is there"))).collect();
            let writer = ImageWriter { numeric, layout: model.layout(), id: model.id(), sections: &sections };
            let mut again = vec![0xA5; bytes.len() + 3];
            assert_eq!(writer.write(&mut again), Ok(bytes.len()), "{name}");
            assert!(again[..bytes.len()] == *bytes, "{name}: the bytes differ");
            let short = writer.write(&mut again[..bytes.len() - 1]);
            assert_eq!(short, Err(BufferTooSmall { needed: bytes.len(), given: bytes.len() - 1 }));
        }
    }
}

#[test]
fn a_slice_off_its_boundary_is_refused_with_the_remainder() {
    let bytes = packed();
    let aligned = AlignedBytes::new(&[0; 16].repeat(bytes.len().div_ceil(16) + 1));
    for remainder in 1..16 {
        let error = ImageBytes::new(&aligned.get()[remainder..]).expect_err("it is off its boundary");
        assert_eq!(error, Misaligned { remainder });
    }
    assert!(ImageBytes::new(&aligned.get()[16..]).is_ok());
}

#[test]
fn a_damaged_byte_shows_in_both_checksums() {
    let mut bytes = packed();
    let stored = u32_at(&bytes, header::CRC.start);
    let weights = payload_of(&bytes, SectionKind::Weights);
    bytes[weights] ^= 4;
    let computed = fuzz::crc32(&[&bytes[..header::CRC.start], &bytes[header::CRC.end..]].concat());
    assert_eq!(parse(&bytes), Err(ImageError::BadChecksum { stored, computed }));
    // Structure alone does not look at it.
    assert!(Model::parse_structure(AlignedBytes::new(&bytes).image()).is_ok());
}

#[test]
fn a_wrong_header_is_refused_with_what_was_found() {
    let len = packed().len();
    let at = |field: std::ops::Range<usize>| move |_: &[u8]| field.start;
    assert_eq!(with32(at(header::MAGIC), 0x464C_457F), Err(ImageError::BadMagic { found: *b"\x7FELF" }));
    assert_eq!(with16(at(header::VERSION), 2), Err(ImageError::UnsupportedVersion { found: 2 }));
    assert_eq!(with16(at(header::NUMERIC), 9), Err(ImageError::UnsupportedNumeric { found: 9 }));
    assert_eq!(with16(at(header::LAYOUT), 9), Err(ImageError::UnsupportedLayout { found: 9 }));
    assert_eq!(with16(at(header::SECTION_COUNT), 65), Err(ImageError::TooManySections { found: 65 }));
    for needed in [len + 16, u32::MAX as usize] {
        let error = with32(at(header::IMAGE_LEN), needed as u32);
        assert_eq!(error, Err(ImageError::Truncated { offset: 0, needed }));
    }
    for short in [0, 31] {
        let error = with32(at(header::IMAGE_LEN), short);
        assert_eq!(error, Err(ImageError::Truncated { offset: 0, needed: header::LEN }));
    }
    let longer = after(|bytes| {
        bytes.resize(len + 16, 0);
        put32(bytes, header::IMAGE_LEN.start, (len + 16) as u32);
    });
    assert_eq!(longer, Err(ImageError::BadLength { stored: len + 16, needed: len }));
    let no_sections = with16(at(header::SECTION_COUNT), 0);
    assert_eq!(no_sections, Err(ImageError::BadLength { stored: len, needed: header::LEN }));
}

#[test]
fn a_wrong_section_table_is_refused_with_what_was_found() {
    let bytes = packed();
    let (entry, offset, _) = section_of(&bytes, SectionKind::Detector);
    assert_eq!(offset + 32, bytes.len(), "the detector is the last section");
    let kind = |entry: usize| move |_: &[u8]| entry + section::KIND.start;
    let twice = with16(kind(entry), SectionKind::Schedule.code());
    assert_eq!(twice, Err(ImageError::DuplicateSection { kind: SectionKind::Schedule.code() }));
    let unknown = |required: u16| {
        after(|bytes| {
            put16(bytes, entry + section::KIND.start, 999);
            put16(bytes, entry + section::REQUIRED.start, required);
        })
    };
    assert_eq!(unknown(0), Ok(()), "an unknown optional section is skipped");
    assert_eq!(unknown(1), Err(ImageError::UnknownSection { kind: 999 }));
    for missing in [SectionKind::Nodes, SectionKind::Weights, SectionKind::Ports] {
        let error = after(|bytes| {
            let (entry, ..) = section_of(bytes, missing);
            put16(bytes, entry + section::KIND.start, 999);
            put16(bytes, entry + section::REQUIRED.start, 0);
        });
        assert_eq!(error, Err(ImageError::MissingSection { kind: missing }));
    }
    for off in [1, 4, 16] {
        let error = with32(|_| entry + section::OFFSET.start, (offset + off) as u32);
        assert_eq!(error, Err(ImageError::Misaligned { offset: offset + off }));
    }
    for needed in [33, u32::MAX] {
        let error = with32(|_| entry + section::PAYLOAD_LEN.start, needed);
        assert_eq!(error, Err(ImageError::Truncated { offset, needed: needed as usize }));
    }
    // A table that reaches past the image's own end.
    let mut head = bytes[..header::LEN + 8].to_vec();
    let len = head.len() as u32;
    put32(&mut head, header::IMAGE_LEN.start, len);
    seal(&mut head);
    assert_eq!(parse(&head), Err(ImageError::Truncated { offset: header::LEN, needed: section::LEN }));
}

#[test]
fn a_wrong_payload_is_refused_with_its_first_wrong_byte() {
    let bad = |kind, offset| Err(ImageError::BadSection { kind, offset });
    let at = |kind, field: usize| move |bytes: &[u8]| payload_of(bytes, kind) + field;
    let kind = SectionKind::Schedule;
    assert_eq!(with32(at(kind, schedule::FRAMES.start), 0), bad(kind, 0));
    assert_eq!(with32(at(kind, schedule::EVERY.start), 0), bad(kind, 4));
    assert_eq!(with32(at(kind, schedule::FRAMES.start), u32::MAX), bad(kind, 0));
    let shorter = after(|bytes| {
        let (entry, offset, len) = section_of(bytes, kind);
        put32(bytes, entry + section::PAYLOAD_LEN.start, 4);
        bytes[offset + 4..offset + len].fill(0);
    });
    assert_eq!(shorter, bad(kind, 0));

    let kind = SectionKind::Labels;
    assert_eq!(with8(at(kind, 3), 0xFF), bad(kind, 3));
    let len = "_silence_\nja\nnein\n".len();
    assert_eq!(with8(at(kind, len - 1), b'!'), bad(kind, len));
    let kind = SectionKind::Names;
    assert_eq!(with8(at(kind, 1), 0xC0), bad(kind, 1));
    assert_eq!(with8(at(kind, 14), b'!'), bad(kind, 15));

    let kind = SectionKind::Ports;
    let output = ports::LEN + port::LEN;
    assert_eq!(with16(at(kind, ports::INPUT_COUNT.start), 0), bad(kind, 0));
    assert_eq!(with16(at(kind, ports::OUTPUT_COUNT.start), 0), bad(kind, 0));
    assert_eq!(with16(at(kind, ports::OUTPUT_COUNT.start), 9), bad(kind, output + port::LEN));
    assert_eq!(with32(at(kind, ports::LEN + port::SIZE.start), 0), bad(kind, ports::LEN));
    assert_eq!(with32(at(kind, output + port::SIZE.start), 1000), bad(kind, output));
    assert_eq!(with32(at(kind, output + port::SLOT.start), u32::MAX), bad(kind, output));
    assert_eq!(with32(at(kind, output + port::NAME_OFFSET.start), u32::MAX), bad(kind, output));
    assert_eq!(with32(at(kind, output + port::NAME_LEN.start), 4), bad(kind, output));
    assert_eq!(with8(at(kind, output + port::LEN), 0x80), bad(kind, ports::LEN));

    let kind = SectionKind::Nodes;
    let end = section_of(&packed(), kind).2;
    assert_eq!(with32(at(kind, nodes::NODE_COUNT.start), 0), bad(kind, nodes::LEN));
    assert_eq!(with32(at(kind, nodes::NODE_COUNT.start), 6), bad(kind, end));
    assert_eq!(with32(at(kind, nodes::NODE_COUNT.start), u32::MAX), bad(kind, end));
    let last = record_of(&packed(), SOFTMAX) - payload_of(&packed(), kind);
    assert_eq!(with32(at(kind, nodes::NODE_COUNT.start), 4), bad(kind, last));
    for words in [0, 1, 11, u16::MAX] {
        assert_eq!(with16(at(kind, nodes::LEN + node::RECORD_WORDS.start), words), bad(kind, nodes::LEN));
    }
    assert_eq!(with16(at(kind, nodes::LEN + node::SLOT_COUNT.start), 100), bad(kind, nodes::LEN));
    assert_eq!(with16(at(kind, nodes::LEN + node::TENSOR_COUNT.start), 2), bad(kind, nodes::LEN));
}

#[test]
fn a_wrong_node_is_refused_by_its_number() {
    let at = |index, field: std::ops::Range<usize>| move |bytes: &[u8]| record_of(bytes, index) + field.start;
    let unknown = with16(at(LSTM, node::CELL), 77);
    assert_eq!(unknown, Err(ImageError::UnknownCell { node: 1, code: 77 }));

    let option = |index: usize| Err(ImageError::BadOption { node: index as u32 });
    assert_eq!(with32(at(LSTM, node::OPTIONS), 1 << CellKind::Lstm.spec().options.len()), option(LSTM));
    assert_eq!(with32(at(ELMAN, node::OPTIONS), 1 << 31), option(ELMAN));
    // These cells have one extent. Their activations follow it, their numbers follow those.
    let activation =
        |index, k: usize| move |bytes: &[u8]| record_of(bytes, index) + node::LEN + 4 + k * activation::LEN;
    for code in [200, 256, u32::MAX] {
        assert_eq!(with32(activation(GRU, 0), code), option(GRU), "activation {code}");
    }
    let alpha = |bytes: &[u8]| activation(GRU, 1)(bytes) + activation::ALPHA.start;
    assert_eq!(with32(alpha, 1.0_f32.to_bits()), option(GRU), "a number that tanh has not");
    for value in [-1.0_f32, f32::NAN, f32::INFINITY] {
        assert_eq!(with32(activation(LSTM, 3), value.to_bits()), option(LSTM), "{value}");
    }
    let projection_clip = with32(|bytes| activation(LSTM, 3)(bytes) + 4, 1.0_f32.to_bits());
    assert_eq!(projection_clip, option(LSTM), "a projection's clip without a projection");
    let malformed = |index: usize| move |bytes: &[u8]| record_of(bytes, index) - payload_of(bytes, SectionKind::Nodes);
    for flags in [1, 8] {
        let offset = malformed(GRU)(&packed());
        let bad = Err(ImageError::BadSection { kind: SectionKind::Nodes, offset });
        assert_eq!(with16(at(GRU, node::UNROLL_FLAGS), flags), bad, "flags without steps, or unknown");
    }

    let size =
        |index: usize, input, hidden, output| Err(ImageError::BadSize { node: index as u32, input, hidden, output });
    assert_eq!(with32(at(ELMAN, node::INPUT_SIZE), 0), size(ELMAN, 0, 3, 3));
    assert_eq!(with32(at(LSTM, node::HIDDEN_SIZE), 0), size(LSTM, 3, 0, 3));
    assert_eq!(with32(at(LSTM, node::OUTPUT_SIZE), 2), size(LSTM, 3, 3, 2), "smaller without a projection");
    assert_eq!(with32(at(SOFTMAX, node::INPUT_SIZE), 2), size(SOFTMAX, 2, 3, 3));
    let large = field::MAX_SIZE + 1;
    assert_eq!(with32(at(ELMAN, node::INPUT_SIZE), large), size(ELMAN, large, 3, 3));

    let memory = |index: usize, state, work| Err(ImageError::BadMemory { node: index as u32, state, work });
    assert_eq!(with32(at(ELMAN, node::STATE_ELEMENTS), 4), memory(ELMAN, 3, 0));
    assert_eq!(with32(at(LSTM, node::WORK_ELEMENTS), 0), memory(LSTM, 6, 3));
}

#[test]
fn a_wrong_slot_is_refused_with_its_place() {
    let bytes = packed();
    let arena = u32_at(&bytes, payload_of(&bytes, SectionKind::Nodes) + nodes::SLOT_ELEMENTS.start);
    let output = u32_at(&bytes, record_of(&bytes, LSTM) + node::OUTPUT_SLOT.start);
    let input = u32_at(&bytes, slot_of(&bytes, LSTM));
    let bad = |start, elements| Err(ImageError::BadSlot { node: 1, start, elements });
    let at = |field: usize| move |bytes: &[u8]| slot_of(bytes, LSTM) + field;
    assert_eq!(with32(at(slot::START.start), arena), bad(arena, 3), "out of the arena");
    assert_eq!(with32(at(slot::START.start), u32::MAX), bad(u32::MAX, 3));
    assert_eq!(with32(at(slot::ELEMENTS.start), 4), bad(input, 4), "not as long as the input");
    assert_eq!(with32(at(slot::START.start), output), bad(output, 3), "where the node writes");
    let at = |bytes: &[u8]| record_of(bytes, LSTM) + node::OUTPUT_SLOT.start;
    for start in [input, input + 2, arena - 2, u32::MAX - 3] {
        assert_eq!(with32(at, start), bad(start, 3), "output at {start}");
    }
    let small = with32(|bytes| payload_of(bytes, SectionKind::Nodes) + nodes::SLOT_ELEMENTS.start, 1);
    assert_eq!(small, Err(ImageError::BadSlot { node: 0, start: 0, elements: 2 }), "an arena of one element");
}

#[test]
fn what_nobody_has_written_is_not_read() {
    let bytes = packed();
    let arena = u32_at(&bytes, payload_of(&bytes, SectionKind::Nodes) + nodes::SLOT_ELEMENTS.start);
    let larger = |bytes: &mut Vec<u8>, field: usize| {
        let elements = payload_of(bytes, SectionKind::Nodes) + nodes::SLOT_ELEMENTS.start;
        put32(bytes, elements, arena + 8);
        put32(bytes, field, arena);
    };
    let node = after(|bytes| larger(bytes, slot_of(bytes, ELMAN) + slot::START.start));
    assert_eq!(node, Err(ImageError::BadSlot { node: 0, start: arena, elements: 2 }), "a node's input");
    let input = after(|bytes| larger(bytes, payload_of(bytes, SectionKind::Ports) + ports::LEN + port::SLOT.start));
    let start = u32_at(&bytes, slot_of(&bytes, ELMAN));
    assert_eq!(input, Err(ImageError::BadSlot { node: 0, start, elements: 2 }), "an input port elsewhere");
    let output = ports::LEN + port::LEN;
    let port = after(|bytes| larger(bytes, payload_of(bytes, SectionKind::Ports) + output + port::SLOT.start));
    assert_eq!(port, Err(ImageError::BadSection { kind: SectionKind::Ports, offset: output }), "an output port");
    // The second input written over the first, in part: who reads the first reads neither.
    let image = AlignedBytes::pack(&two_ports(), Numeric::F32);
    let mut bytes = image.get().to_vec();
    let (first, second) = (payload_of(&bytes, SectionKind::Ports) + ports::LEN, ports::LEN + port::LEN);
    let overlap = u32_at(&bytes, first + port::SLOT.start) + 1;
    let second = payload_of(&bytes, SectionKind::Ports) + second + port::SLOT.start;
    put32(&mut bytes, second, overlap);
    seal(&mut bytes);
    assert!(matches!(parse(&bytes), Err(ImageError::BadSlot { node: 0, .. })), "{:?}", parse(&bytes));
}

/// Of integers: what fills a slot up would lie on the next one, or out of the arena.
#[test]
fn a_port_begins_where_a_slot_may() {
    let model = chain(&mut Rng::new(9), 3, &[(Variant::plain("lstm"), 3)], Draw { weights: 1.0, biases: true });
    let ranges = Ranges::new(["in", "n0"].map(|name| (name.to_owned(), 1.0)));
    let bytes = pack_with(&model, Numeric::I8x16, &ranges, Layout::Portable).expect("it packs");
    assert_eq!(parse(&bytes), Ok(()));
    for offset in [ports::LEN, ports::LEN + port::LEN] {
        let mut bytes = bytes.clone();
        let at = payload_of(&bytes, SectionKind::Ports) + offset + port::SLOT.start;
        let start = u32_at(&bytes, at);
        put32(&mut bytes, at, start + 1);
        seal(&mut bytes);
        assert_eq!(parse(&bytes), Err(ImageError::BadSection { kind: SectionKind::Ports, offset }));
    }
}

#[test]
fn bytes_that_are_kept_or_between_sections_are_zero() {
    let bytes = packed();
    let gap = (header::LEN..bytes.len())
        .find(|&at| {
            let inside = |kind| {
                let (_, offset, len) = section_of(&bytes, kind);
                (offset..offset + len).contains(&at)
            };
            at >= payload_of(&bytes, SectionKind::Nodes) && !SectionKind::ALL[..8].iter().any(|&kind| inside(kind))
        })
        .expect("some section does not end on a multiple of 16");
    let table = header::LEN + section::LEN + section::RESERVED.start;
    for offset in [header::RESERVED.start, header::RESERVED.end - 1, table, table + 3, gap] {
        assert_eq!(with8(|_| offset, 1), Err(ImageError::NotZero { offset }));
    }
    let kind = SectionKind::Nodes;
    for offset in [nodes::RESERVED.start, nodes::RESERVED.end - 1] {
        let error = with8(|bytes| payload_of(bytes, kind) + offset, 1);
        assert_eq!(error, Err(ImageError::BadSection { kind, offset }));
    }
}

#[test]
fn a_wrong_tensor_is_refused_with_the_bytes_it_needs() {
    let bytes = packed();
    let (_, _, weights) = section_of(&bytes, SectionKind::Weights);
    let bad = |node: usize, tensor: u32, needed, given| {
        Err(ImageError::BadTensor { node: node as u32, tensor, needed, given })
    };
    // Recurrent weights of the LSTM: 3 units of 4 gates, 3 columns of f32.
    let recurrent = |bytes: &[u8]| tensor_of(bytes, LSTM, 1);
    let needed = 3 * 4 * 3 * 4;
    let past = (weights - needed + 16) as u32 & !15;
    assert_eq!(with32(recurrent, past), bad(LSTM, 1, needed, weights - past as usize));
    assert_eq!(with32(recurrent, 1 << 31), bad(LSTM, 1, needed, 0));
    assert_eq!(with32(recurrent, node::ABSENT), bad(LSTM, 1, needed, 0), "a tensor that the cell must have");
    assert_eq!(
        with32(|bytes| tensor_of(bytes, LSTM, 3), 0),
        bad(LSTM, 3, 16, weights),
        "a peephole without the option"
    );
    assert_eq!(with32(|bytes| tensor_of(bytes, LSTM, 1), 4), Err(ImageError::Misaligned { offset: 4 }));
    let option = after(|bytes| {
        let at = record_of(bytes, GRU) + node::OPTIONS.start;
        put32(bytes, at, 1);
    });
    assert_eq!(option, bad(GRU, 5, 16, weights - u32_at(&bytes, tensor_of(&bytes, GRU, 5)) as usize));
}

#[test]
fn a_model_beyond_the_address_space_is_refused() {
    let arena = |bytes: &[u8]| payload_of(bytes, SectionKind::Nodes) + nodes::SLOT_ELEMENTS.start;
    assert_eq!(with32(arena, 1 << 28), Err(ImageError::TooLarge { node: 0 }));
    assert_eq!(with32(arena, u32::MAX), Err(ImageError::TooLarge { node: 0 }));
    // As many states as a schedule can have: 1,024 of 2^16 elements are 2^26, one too many.
    let projected = |variant: &Variant| variant.options == ["projection"] && variant.params.is_empty();
    let lstm = Variant::all().into_iter().find(projected).expect("it is there");
    for (hidden, expected) in [(65_535, Err(ImageError::TooLarge { node: 0 })), (65_534, Ok(()))] {
        let draw = Draw { weights: 1.0, biases: false };
        let mut model = chain(&mut Rng::new(24), 1, &[(lstm.clone(), 2)], draw);
        let node = &mut model.architecture.nodes[0];
        (node.hidden_size, node.output_size) = (hidden, 1);
        model.architecture.outputs[0].size = 1;
        for (name, rows, cols) in [("input", 4 * hidden, 1), ("recurrent", 4 * hidden, 1), ("projection", 1, hidden)] {
            let tensor = canonical::Tensor { shape: vec![rows, cols], data: vec![0.0; rows * cols] };
            model.tensors.insert(format!("n0.{name}_weights"), tensor);
        }
        model.architecture.schedule = canonical::Schedule::Windows { frames: 1024, every: 1 };
        assert_eq!(parse(AlignedBytes::pack(&model, Numeric::F32).get()), expected, "{hidden} units");
    }
}

/// One pixel under every tap of a large kernel: an image of 300 bytes, and what would take days.
#[test]
fn a_step_that_would_not_end_is_refused() {
    let mut model = pool_of_one_pixel(60_000);
    let image = AlignedBytes::pack(&model, Numeric::F32);
    let windows = |frames| image.model().with_schedule(Schedule::Windows { frames, every: 1 }).map(drop);
    // 19 states that each do 60,000² are 2^36 nearly.
    assert_eq!((windows(19), windows(20)), (Ok(()), Err(ImageError::TooLarge { node: 0 })));
    let node = &mut model.architecture.nodes[0];
    node.extents.extend([("kernel_height", 60_000), ("pad_top", 59_999)].map(|(name, value)| (name.to_owned(), value)));
    model.validate().expect("padding is narrower than the kernel");
    let image = AlignedBytes::pack(&model, Numeric::F32);
    assert_eq!(parse(image.get()), Err(ImageError::TooLarge { node: 0 }));
}

/// A table that so many nodes share that to look through it for each of them would take as long as one likes.
#[test]
fn a_tensor_that_too_many_nodes_share_is_not_looked_through_for_each() {
    let (vocabulary, size) = (2048, 4096);
    let mut model = small_models().into_iter().find(|(name, _)| name == "embedding").expect("it is there").1;
    let node = &mut model.architecture.nodes[0];
    (node.hidden_size, node.output_size) = (size, size);
    node.extents.insert("vocabulary".to_owned(), vocabulary);
    model.architecture.outputs[0].size = size;
    let table = canonical::Tensor { shape: vec![vocabulary, size], data: vec![0.5; vocabulary * size] };
    model.tensors.insert("n0.weights".to_owned(), table);
    let ranges = Ranges::new([("n0".to_owned(), 0.5)]);
    let one = AlignedBytes::new(&pack_with(&model, Numeric::I4x16, &ranges, Layout::Portable).expect("it packs"));
    let whole = Image::parse(one.image(), false).expect("it is whole");
    let payload = |kind: SectionKind| whole.section(kind).expect("it is there");
    let node = one.model().nodes().next().expect("it is there");
    let tensors: usize = (0..4).map(|index| node.tensor_bytes_at(index).len()).sum();
    let (header, record) = payload(SectionKind::Nodes).split_at(nodes::LEN);
    let shared = |count: usize| {
        let mut header = header.to_vec();
        put32(&mut header, nodes::NODE_COUNT.start, count as u32);
        let (records, scales) = (record.repeat(count), payload(SectionKind::Scales).repeat(count));
        let nodes = [header, records].concat();
        let writer = ImageWriter {
            numeric: Numeric::I4x16,
            layout: Layout::Portable,
            id: whole.id,
            sections: &[
                (SectionKind::Nodes, &nodes),
                (SectionKind::Weights, payload(SectionKind::Weights)),
                (SectionKind::Ports, payload(SectionKind::Ports)),
                (SectionKind::Scales, &scales),
            ],
        };
        let mut bytes = vec![0; writer.image_bytes()];
        writer.write(&mut bytes).expect("as long as it says");
        parse(&bytes)
    };
    let most = (1_u64 << 32) / tensors as u64;
    assert!(most < 1024);
    assert_eq!(shared(2), Ok(()));
    assert_eq!(shared(1024), Err(ImageError::TooLarge { node: most as u32 }));
}

fn pool_of_one_pixel(taps: usize) -> canonical::Canonical {
    let draw = Draw { weights: 1.0, biases: true };
    let pool = Variant::all().into_iter().find(|variant| variant.kind.spec().name == "pool").expect("it is there");
    let mut model = chain(&mut Rng::new(24), 1, &[(pool, 1)], draw);
    let node = &mut model.architecture.nodes[0];
    let extents = [("kernel_width", taps), ("pad_left", taps - 1), ("pad_right", taps - 1), ("out_width", taps)];
    node.extents = extents.map(|(name, value)| (name.to_owned(), value)).into();
    (node.hidden_size, node.output_size) = (1, taps);
    model.architecture.outputs[0].size = taps;
    model.validate().expect("padding is narrower than the kernel");
    model
}

#[test]
fn errors_read_as_sentences_with_their_numbers() {
    let error = ImageError::BadSlot { node: 3, start: 40, elements: 5 };
    assert_eq!(
        error.to_string(),
        "node 3: the slot of 5 elements at 40 is outside the arena, in use, or not written before"
    );
    let error = ImageError::Truncated { offset: 0, needed: 32 };
    assert_eq!(error.to_string(), "the image ends too soon: byte 0 begins something that needs 32 bytes");
}

#[test]
fn two_models_that_differ_in_anything_have_other_ids() {
    let mut ids = Vec::<ModelId>::new();
    for (_, canonical) in small_models() {
        for numeric in Numeric::FLOAT {
            ids.push(AlignedBytes::pack(&canonical, numeric).model().id());
        }
    }
    let mut renamed = whole();
    renamed.architecture.labels[0].push('x');
    ids.push(AlignedBytes::pack(&renamed, Numeric::F32).model().id());
    for (index, id) in ids.iter().enumerate() {
        // Softmax has no matrix, but its numeric counts as well.
        assert!(!ids[..index].contains(id), "model {index} has the id of an earlier one");
    }
}

/// The fuzz target tries no step that would run long, whatever makes it long.
#[test]
fn work_beyond_measure_is_not_tried_though_no_weight_shows_it() {
    let tried = |model: &canonical::Canonical| {
        let image = AlignedBytes::pack(model, Numeric::F32);
        fuzz::parse_then_step(&[&[0], image.get()].concat())
    };
    let draw = Draw { weights: 1.0, biases: true };
    // One pixel, under every tap of a wide kernel in turn.
    for (taps, expected) in [(64, Outcome::Ran), (512, Outcome::TooLarge)] {
        assert_eq!(tried(&pool_of_one_pixel(taps)), expected, "{taps} taps");
    }
    // A node that is unrolled goes through its weights once a row.
    for (rows, expected) in [(4, Outcome::Ran), (256, Outcome::TooLarge)] {
        let cell = chain(&mut Rng::new(25), 4, &[(Variant::plain("lstm"), 12)], draw);
        let once = AlignedBytes::pack(&cell, Numeric::F32).model().nodes().map(|node| node.macs()).sum::<usize>();
        let model = over_windows(cell, rows, rows, true, false);
        let image = AlignedBytes::pack(&model, Numeric::F32);
        assert_eq!(image.model().nodes().map(|node| node.macs()).sum::<usize>(), rows * once);
        assert_eq!(tried(&model), expected, "{rows} rows");
    }
}
