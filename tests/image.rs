//! Images as a whole: an invalid header, section or payload is refused with details, and a valid image keeps its contents.

use tidegate::internals::cell::CellKind;
use tidegate::internals::image::field::{header, node, nodes, port, ports, schedule, section};
use tidegate::internals::write::{ImageWriter, seal};
use tidegate::{
    BufferTooSmall, ImageBytes, ImageError, Layout, Misaligned, Model, ModelId, Numeric, Schedule, SectionKind,
};
use tidegate_tests::fields::{payload_of, put16, put32, record_of, section_of, u16_at, u32_at};
use tidegate_tests::fuzz;
use tidegate_tests::images::{AlignedBytes, small_models, two_ports, whole};

/// Parses a copy.
pub fn parse(bytes: &[u8]) -> Result<(), ImageError> {
    Model::parse(AlignedBytes::new(bytes).image()).map(drop)
}

pub fn packed() -> Vec<u8> {
    AlignedBytes::pack(&whole(), Numeric::F32).get().to_vec()
}

/// The node index of softmax in [`whole`].
pub const SOFTMAX: usize = 4;

/// The result of parsing [`whole`]'s image after an edit, with a good checksum.
pub fn after(edit: impl FnOnce(&mut Vec<u8>)) -> Result<(), ImageError> {
    let mut bytes = packed();
    edit(&mut bytes);
    // The checksum covers the image length that the header states.
    let len = (u32_at(&bytes, header::IMAGE_LEN.start) as usize).min(bytes.len());
    seal(&mut bytes[..len]);
    parse(&bytes)
}

/// The same after writing a 32-bit word at the offset that `at` returns.
pub fn with32(at: impl FnOnce(&[u8]) -> usize, value: u32) -> Result<(), ImageError> {
    after(|bytes| {
        let at = at(bytes);
        put32(bytes, at, value);
    })
}

pub fn with16(at: impl FnOnce(&[u8]) -> usize, value: u16) -> Result<(), ImageError> {
    after(|bytes| {
        let at = at(bytes);
        put16(bytes, at, value);
    })
}

pub fn with8(at: impl FnOnce(&[u8]) -> usize, value: u8) -> Result<(), ImageError> {
    after(|bytes| {
        let at = at(bytes);
        bytes[at] = value;
    })
}

#[test]
fn a_packed_image_reports_its_model() {
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
    // h; h and c; h; nothing; nothing: twice for two windows, and the clock.
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
            let error = parse(&image.get()[..len]).expect_err("a prefix is refused");
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
fn a_parsed_image_is_written_to_the_same_bytes() {
    for (name, canonical) in small_models() {
        for numeric in Numeric::FLOAT {
            let image = AlignedBytes::pack(&canonical, numeric);
            let (bytes, model) = (image.get(), image.model());
            let kind = |index| {
                let code = u16_at(bytes, header::LEN + index * section::LEN + section::KIND.start);
                SectionKind::ALL.into_iter().find(|kind| kind.code() == code).expect("the packer writes known kinds")
            };
            let count = usize::from(u16_at(bytes, header::SECTION_COUNT.start));
            let sections: Vec<(SectionKind, &[u8])> = (0..count)
                .map(kind)
                .map(|kind| (kind, model.image().section(kind).expect("the section exists")))
                .collect();
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
fn a_misaligned_slice_is_refused_with_the_remainder() {
    let bytes = packed();
    let aligned = AlignedBytes::new(&[0; 16].repeat(bytes.len().div_ceil(16) + 1));
    for remainder in 1..16 {
        let error = ImageBytes::new(&aligned.get()[remainder..]).expect_err("the slice is misaligned");
        assert_eq!(error, Misaligned { remainder });
    }
    assert!(ImageBytes::new(&aligned.get()[16..]).is_ok());
}

#[test]
fn a_damaged_byte_changes_both_checksums() {
    let mut bytes = packed();
    let stored = u32_at(&bytes, header::CRC.start);
    let weights = payload_of(&bytes, SectionKind::Weights);
    bytes[weights] ^= 4;
    let computed = fuzz::crc32(&[&bytes[..header::CRC.start], &bytes[header::CRC.end..]].concat());
    assert_eq!(parse(&bytes), Err(ImageError::BadChecksum { stored, computed }));
    // Parsing the structure alone does not check it.
    assert!(Model::parse_structure(AlignedBytes::new(&bytes).image()).is_ok());
}

#[test]
fn a_wrong_header_is_refused_with_the_value_found() {
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
fn a_wrong_section_table_is_refused_with_the_value_found() {
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
    // A table that extends past the image's own end.
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
    // Control characters, and characters that change the direction of text.
    for unseen in ["\u{1b}", "\u{7f}", "\u{85}", "\u{61c}", "\u{200e}", "\u{202e}", "\u{2066}", "\u{2069}"] {
        let labels = |bytes: &mut Vec<u8>| {
            let start = payload_of(bytes, SectionKind::Labels) + 1;
            bytes[start..start + unseen.len()].copy_from_slice(unseen.as_bytes());
        };
        assert_eq!(after(labels), bad(kind, 1), "{unseen:?}");
    }
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
fn unused_bytes_and_gaps_between_sections_are_zero() {
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
fn errors_read_as_sentences_with_their_numbers() {
    let error = ImageError::BadSlot { node: 3, start: 40, elements: 5 };
    assert_eq!(
        error.to_string(),
        "node 3: the slot of 5 elements at 40 is outside the arena, in use, or not written before it is read"
    );
    let error = ImageError::Truncated { offset: 0, needed: 32 };
    assert_eq!(error.to_string(), "the image ends too soon: it should have 32 bytes");
}

#[test]
fn models_that_differ_in_anything_have_different_ids() {
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
        // Softmax has no matrix, but its numeric is part of the id.
        assert!(!ids[..index].contains(id), "model {index} has the id of an earlier one");
    }
}
