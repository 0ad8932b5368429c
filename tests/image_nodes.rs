//! The nodes of images: an invalid node, slot, tensor or size is refused with details, and no valid image has a step that
//! takes too long.

use tidegate::internals::cell::CellKind;
use tidegate::internals::image::Image;
use tidegate::internals::image::field::{self, activation, node, nodes, port, ports, slot};
use tidegate::internals::write::{ImageWriter, seal};
use tidegate::{ImageError, Layout, Numeric, Schedule, SectionKind};
use tidegate_model::canonical;
use tidegate_model::pack::pack_with;
use tidegate_model::quantize::Ranges;
use tidegate_tests::fields::{payload_of, put32, record_of, section_of, slot_of, tensor_of, u32_at};
use tidegate_tests::fuzz::{self, Outcome};
use tidegate_tests::images::{AlignedBytes, over_windows, small_models, two_ports};
use tidegate_tests::random::{Draw, Rng, Variant, chain};

use super::image::{SOFTMAX, after, packed, parse, with16, with32};

/// Node indices of [`whole`](tidegate_tests::images::whole).
const ELMAN: usize = 0;
const LSTM: usize = 1;
const GRU: usize = 2;

#[test]
fn a_wrong_node_is_refused_by_its_number() {
    let at = |index, field: std::ops::Range<usize>| move |bytes: &[u8]| record_of(bytes, index) + field.start;
    let unknown = with16(at(LSTM, node::CELL), 77);
    assert_eq!(unknown, Err(ImageError::UnknownCell { node: 1, code: 77 }));

    let option = |index: usize| Err(ImageError::BadOption { node: index as u32 });
    assert_eq!(with32(at(LSTM, node::OPTIONS), 1 << CellKind::Lstm.spec().options.len()), option(LSTM));
    assert_eq!(with32(at(ELMAN, node::OPTIONS), 1 << 31), option(ELMAN));
    // These cells have one extent. Activations follow it, then parameters.
    let activation =
        |index, k: usize| move |bytes: &[u8]| record_of(bytes, index) + node::LEN + 4 + k * activation::LEN;
    for code in [200, 256, u32::MAX] {
        assert_eq!(with32(activation(GRU, 0), code), option(GRU), "activation {code}");
    }
    let alpha = |bytes: &[u8]| activation(GRU, 1)(bytes) + activation::ALPHA.start;
    assert_eq!(with32(alpha, 1.0_f32.to_bits()), option(GRU), "a parameter that tanh does not have");
    for value in [-1.0_f32, f32::NAN, f32::INFINITY] {
        assert_eq!(with32(activation(LSTM, 3), value.to_bits()), option(LSTM), "{value}");
    }
    let projection_clip = with32(|bytes| activation(LSTM, 3)(bytes) + 4, 1.0_f32.to_bits());
    assert_eq!(projection_clip, option(LSTM), "the clip of a projection without a projection");
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
fn a_wrong_slot_is_refused_with_its_position() {
    let bytes = packed();
    let arena = u32_at(&bytes, payload_of(&bytes, SectionKind::Nodes) + nodes::SLOT_ELEMENTS.start);
    let output = u32_at(&bytes, record_of(&bytes, LSTM) + node::OUTPUT_SLOT.start);
    let input = u32_at(&bytes, slot_of(&bytes, LSTM));
    let bad = |start, elements| Err(ImageError::BadSlot { node: 1, start, elements });
    let at = |field: usize| move |bytes: &[u8]| slot_of(bytes, LSTM) + field;
    assert_eq!(with32(at(slot::START.start), arena), bad(arena, 3), "outside the arena");
    assert_eq!(with32(at(slot::START.start), u32::MAX), bad(u32::MAX, 3));
    assert_eq!(with32(at(slot::ELEMENTS.start), 4), bad(input, 4), "another length than the input");
    assert_eq!(with32(at(slot::START.start), output), bad(output, 3), "the slot that the node writes");
    let at = |bytes: &[u8]| record_of(bytes, LSTM) + node::OUTPUT_SLOT.start;
    for start in [input, input + 2, arena - 2, u32::MAX - 3] {
        assert_eq!(with32(at, start), bad(start, 3), "output at {start}");
    }
    let small = with32(|bytes| payload_of(bytes, SectionKind::Nodes) + nodes::SLOT_ELEMENTS.start, 1);
    assert_eq!(small, Err(ImageError::BadSlot { node: 0, start: 0, elements: 2 }), "an arena of one element");
}

#[test]
fn an_unwritten_slot_is_not_read() {
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
    assert_eq!(input, Err(ImageError::BadSlot { node: 0, start, elements: 2 }), "an input port at another slot");
    let output = ports::LEN + port::LEN;
    let port = after(|bytes| larger(bytes, payload_of(bytes, SectionKind::Ports) + output + port::SLOT.start));
    assert_eq!(
        port,
        Err(ImageError::BadSection { kind: SectionKind::Ports, offset: output }),
        "an output port at another slot"
    );
    // The second input partly overwrites the first, so the first can no longer be read.
    let image = AlignedBytes::pack(&two_ports(), Numeric::F32);
    let mut bytes = image.get().to_vec();
    let (first, second) = (payload_of(&bytes, SectionKind::Ports) + ports::LEN, ports::LEN + port::LEN);
    let overlap = u32_at(&bytes, first + port::SLOT.start) + 1;
    let second = payload_of(&bytes, SectionKind::Ports) + second + port::SLOT.start;
    put32(&mut bytes, second, overlap);
    seal(&mut bytes);
    assert!(matches!(parse(&bytes), Err(ImageError::BadSlot { node: 0, .. })), "{:?}", parse(&bytes));
}

/// In integers, the padding of a slot would overlap the next one or leave the arena.
#[test]
fn a_port_begins_where_a_slot_is_allowed_to() {
    let model = chain(&mut Rng::new(9), 3, &[(Variant::plain("lstm"), 3)], Draw { weights: 1.0, biases: true });
    let ranges = Ranges::new(["in", "n0"].map(|name| (name.to_owned(), 1.0)));
    let bytes = pack_with(&model, Numeric::I8x16, &ranges, Layout::Portable).expect("the model packs");
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
fn a_model_larger_than_the_address_space_is_refused() {
    let arena = |bytes: &[u8]| payload_of(bytes, SectionKind::Nodes) + nodes::SLOT_ELEMENTS.start;
    assert_eq!(with32(arena, 1 << 28), Err(ImageError::TooLarge { node: 0 }));
    assert_eq!(with32(arena, u32::MAX), Err(ImageError::TooLarge { node: 0 }));
    // The greatest number of states of a schedule: 1,024 states of 2^16 elements are 2^26, one too many.
    let projected = |variant: &Variant| variant.options == ["projection"] && variant.params.is_empty();
    let lstm = Variant::all().into_iter().find(projected).expect("the variant exists");
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

/// A large kernel covers one pixel with every tap: an image of 300 bytes whose step would take several days.
#[test]
fn a_step_that_would_take_too_long_is_refused() {
    let mut model = pool_of_one_pixel(60_000);
    let image = AlignedBytes::pack(&model, Numeric::F32);
    let windows = |frames| image.model().with_schedule(Schedule::Windows { frames, every: 1 }).map(drop);
    // 19 states with 60,000² operations each are nearly 2^36.
    assert_eq!((windows(19), windows(20)), (Ok(()), Err(ImageError::TooLarge { node: 0 })));
    let node = &mut model.architecture.nodes[0];
    node.extents.extend([("kernel_height", 60_000), ("pad_top", 59_999)].map(|(name, value)| (name.to_owned(), value)));
    model.validate().expect("padding is narrower than the kernel");
    let image = AlignedBytes::pack(&model, Numeric::F32);
    assert_eq!(parse(image.get()), Err(ImageError::TooLarge { node: 0 }));
}

/// Validation time must not grow with the number of nodes that share a large table.
#[test]
fn a_tensor_shared_by_too_many_nodes_is_not_scanned_for_each() {
    let (vocabulary, size) = (2048, 4096);
    let mut model = small_models().into_iter().find(|(name, _)| name == "embedding").expect("the model exists").1;
    let node = &mut model.architecture.nodes[0];
    (node.hidden_size, node.output_size) = (size, size);
    node.extents.insert("vocabulary".to_owned(), vocabulary);
    model.architecture.outputs[0].size = size;
    let table = canonical::Tensor { shape: vec![vocabulary, size], data: vec![0.5; vocabulary * size] };
    model.tensors.insert("n0.weights".to_owned(), table);
    let ranges = Ranges::new([("n0".to_owned(), 0.5)]);
    let one = AlignedBytes::new(&pack_with(&model, Numeric::I4x16, &ranges, Layout::Portable).expect("it packs"));
    let whole = Image::parse(one.image(), false).expect("the image is valid");
    let payload = |kind: SectionKind| whole.section(kind).expect("the section exists");
    let node = one.model().nodes().next().expect("the image has a node");
    let tensors: usize = (0..4).map(|index| node.tensor_bytes_at(index).len()).sum();
    let (header, record) = payload(SectionKind::Nodes).split_at(nodes::LEN);
    // Alternate nodes have different multipliers, if they are unlike.
    let multiplier = node::LEN + 4;
    let mut other = record.to_vec();
    put32(&mut other, multiplier, u32_at(record, multiplier) - 1);
    let shared = |count: usize, unlike: bool| {
        let mut header = header.to_vec();
        put32(&mut header, nodes::NODE_COUNT.start, count as u32);
        let records: Vec<u8> = (0..count)
            .flat_map(|index| if unlike && index % 2 == 1 { other.as_slice() } else { record })
            .copied()
            .collect();
        let scales = payload(SectionKind::Scales).repeat(count);
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
        writer.write(&mut bytes).expect("the buffer has the image's length");
        parse(&bytes)
    };
    assert!(3 * tensors > 2 * payload(SectionKind::Weights).len());
    assert_eq!(shared(1024, false), Ok(()));
    assert_eq!(shared(2, true), Ok(()));
    assert_eq!(shared(1024, true), Err(ImageError::TooLarge { node: 2 }));
}

fn pool_of_one_pixel(taps: usize) -> canonical::Canonical {
    let draw = Draw { weights: 1.0, biases: true };
    let pool =
        Variant::all().into_iter().find(|variant| variant.kind.spec().name == "pool").expect("the variant exists");
    let mut model = chain(&mut Rng::new(24), 1, &[(pool, 1)], draw);
    let node = &mut model.architecture.nodes[0];
    let extents = [("kernel_width", taps), ("pad_left", taps - 1), ("pad_right", taps - 1), ("out_width", taps)];
    node.extents = extents.map(|(name, value)| (name.to_owned(), value)).into();
    (node.hidden_size, node.output_size) = (1, taps);
    model.architecture.outputs[0].size = taps;
    model.validate().expect("padding is narrower than the kernel");
    model
}

/// The fuzz target skips every step that would run long, whatever the reason.
#[test]
fn excessive_work_is_skipped_even_if_no_weight_shows_it() {
    let tried = |model: &canonical::Canonical| {
        let image = AlignedBytes::pack(model, Numeric::F32);
        fuzz::parse_then_step(&[&[0], image.get()].concat())
    };
    let draw = Draw { weights: 1.0, biases: true };
    // A wide kernel that covers one pixel with every tap.
    for (taps, expected) in [(64, Outcome::Ran), (512, Outcome::TooLarge)] {
        assert_eq!(tried(&pool_of_one_pixel(taps)), expected, "{taps} taps");
    }
    // An unrolled node reads its weights once for each row.
    for (rows, expected) in [(4, Outcome::Ran), (256, Outcome::TooLarge)] {
        let cell = chain(&mut Rng::new(25), 4, &[(Variant::plain("lstm"), 12)], draw);
        let once = AlignedBytes::pack(&cell, Numeric::F32).model().nodes().map(|node| node.macs()).sum::<usize>();
        let model = over_windows(cell, rows, rows, true, false);
        let image = AlignedBytes::pack(&model, Numeric::F32);
        assert_eq!(image.model().nodes().map(|node| node.macs()).sum::<usize>(), rows * once);
        assert_eq!(tried(&model), expected, "{rows} rows");
    }
}
