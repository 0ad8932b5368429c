//! The time of `parse` grows with the length of the image and with nothing else: images made to take long take at most
//! 50 ms at 16 MB.

use std::time::{Duration, Instant};

use tidegate::internals::image::field::{port, ports};
use tidegate::internals::image::{GROUP, factors_at};
use tidegate::internals::write::seal;
use tidegate::{ImageError, Layout, Model, Numeric, SectionKind};
use tidegate_tests::crafted::Crafted;
use tidegate_tests::fields::{payload_of, put32, u32_at};
use tidegate_tests::images::AlignedBytes;

/// Bytes of the images.
const BYTES: usize = 16 << 20;
/// Most slots of a node: its record has at most 65,535 words.
const SLOTS: usize = 32_760;

/// The result of parsing, and the least time of several attempts.
fn parsed(image: &AlignedBytes) -> (Result<(), ImageError>, Duration) {
    let times = (0..7).map(|_| {
        let start = Instant::now();
        let result = Model::parse(image.image()).map(drop);
        (start.elapsed(), result)
    });
    let (time, result) = times.min_by_key(|(time, _)| *time).expect("there are attempts");
    (result, time)
}

/// An image of about `bytes` whose nodes read as many slots as there is room for. First, `live` slots are written.
fn of_slots(bytes: usize, live: usize) -> AlignedBytes {
    let mut image = Crafted::new(Numeric::F32, Layout::Portable);
    let x = image.slot(1);
    let mut slots = vec![(x, 1)];
    slots.extend((1..live).map(|_| (image.identity(&[(x, 1)]), 1)));
    let mut last = x;
    // The order is such that neighboring slots are read far apart.
    let reads: Vec<_> = (0..SLOTS).map(|index| slots[index * 617 % slots.len()]).collect();
    let out = image.slot(SLOTS as u32);
    for _ in 0..(bytes - 56 * live) / (8 * SLOTS) {
        image.elements = out;
        last = image.identity(&reads);
    }
    image.image(&[("x", x, 1)], &[("y", last, SLOTS as u32)])
}

/// An image with text in the sections of labels and names.
fn of_text(text: &str) -> AlignedBytes {
    let mut image = Crafted::new(Numeric::F32, Layout::Portable);
    let x = image.slot(1);
    let y = image.identity(&[(x, 1)]);
    let lines = format!("{}\n", text.repeat(BYTES / 2 / text.len()));
    image.more = vec![(SectionKind::Labels, lines.clone().into()), (SectionKind::Names, lines.into())];
    image.image(&[("x", x, 1)], &[("y", y, 1)])
}

/// Dense layers in integers over one matrix of about `BYTES`, of `columns` columns. They differ in their sizes if
/// `unlike`.
fn of_weights(numeric: Numeric, layout: Layout, columns: u32, nodes: usize, unlike: bool) -> AlignedBytes {
    let mut image = Crafted::new(numeric, layout);
    let block = layout.block_bytes(numeric, columns as usize).expect("it is small");
    let rows = (4 * (BYTES / (block + 36))).min(1 << 20) as u32;
    let group = (layout.columns(numeric) * 2 + 4).min(block);
    let zero = layout.code_of(numeric, 0);
    let mut matrix = vec![if numeric == Numeric::I4x16 { zero << 4 | zero } else { zero }; block * rows as usize / 4];
    if numeric == Numeric::I4x16 {
        assert_eq!(block, group, "one group");
        matrix.chunks_mut(block).for_each(|block| block[group - 4..].fill(1));
    }
    image.weights = matrix;
    image.weights.resize(image.weights.len().next_multiple_of(16), 0);
    let numbers = image.weights.len() as u32;
    image.weights.resize(numbers as usize + 9 * rows as usize, 0);
    let x = image.slot(columns);
    let out = image.elements;
    let mut size = rows;
    for _ in 0..nodes {
        image.elements = out;
        image.dense((x, columns), size, [0, numbers]);
        size -= u32::from(unlike);
    }
    image.elements = out + rows.next_multiple_of(16);
    image.image(&[("x", x, columns)], &[("y", out, size + u32::from(unlike))])
}

#[test]
fn images_of_16_mb_parse_in_50_ms_whatever_they_contain() {
    // This image needs nothing but the checksum, which takes about 8 ms, or longer on a busy machine.
    let mut plain = Crafted::new(Numeric::F32, Layout::Portable);
    let x = plain.slot(1);
    let y = plain.identity(&[(x, 1)]);
    plain.weights = vec![0; BYTES];
    let plain = plain.image(&[("x", x, 1)], &[("y", y, 1)]);
    let mut slow = Vec::new();
    let mut check = |what: &str, image: &AlignedBytes, valid: bool| {
        let measured = || {
            let ((result, time), (_, checksum)) = (parsed(image), parsed(&plain));
            (result, time, time.as_secs_f64() / checksum.as_secs_f64())
        };
        let is_slow = |time: Duration, ratio: f64| time > Duration::from_millis(50) && ratio > 6.0;
        // Other tests run at the same time, so an image counts as slow only if it is slow every time.
        let (mut result, mut time, mut ratio) = measured();
        for _ in 0..4 {
            if is_slow(time, ratio) {
                (result, time, ratio) = measured();
            }
        }
        let bytes = image.get().len();
        eprintln!("{what}: {bytes} bytes, {:.1} ms, {ratio:.1} times the checksum", time.as_secs_f64() * 1e3);
        let expected = matches!(
            (&result, valid),
            (Ok(()), true) | (Err(ImageError::TooLarge { .. } | ImageError::BadSection { .. }), false)
        );
        assert!(expected, "{what}: {result:?}");
        if is_slow(time, ratio) {
            slow.push(format!("{what}: {time:?}, {ratio:.1} times the checksum"));
        }
    };
    check("slots", &of_slots(BYTES, 1), true);
    check("slots of 900 nodes", &of_slots(BYTES, 900), true);
    check("labels", &of_text("label\n"), true);
    check("labels in Chinese", &of_text("\u{4e00}\u{4e01}"), true);
    check("labels in Greek", &of_text("\u{3b1}\u{3b2}"), true);
    check("a matrix", &of_weights(Numeric::I8x16, Layout::Portable, 4096, 1, false), true);
    for layout in [Layout::CortexM0, Layout::CortexM4, Layout::CortexM55] {
        check(&format!("columns of {}", layout.name()), &of_weights(Numeric::I8x16, layout, 17, 1, false), true);
    }
    check("half bytes", &of_weights(Numeric::I4x16, Layout::CortexM4, 7, 1, false), true);
    check("nodes over one matrix", &of_weights(Numeric::I8x16, Layout::Portable, 4096, 1000, false), true);
    check("unlike nodes over one matrix", &of_weights(Numeric::I8x16, Layout::Portable, 4096, 1000, true), false);
    let mut ports = Crafted::new(Numeric::F32, Layout::Portable);
    let x = ports.slot(256);
    let y = ports.identity(&[(x, 256)]);
    let name = "n".repeat(BYTES / 2);
    let (mut inputs, mut outputs) = (vec![("", x, 256); 256], vec![("", y, 256); 256]);
    (inputs[0].0, outputs[0].0) = (&name, &name);
    let image = ports.image(&inputs, &outputs);
    check("names", &image, true);
    // All 512 ports with the long name.
    let mut bytes = image.get().to_vec();
    for index in 1..256 {
        let record = payload_of(&bytes, SectionKind::Ports) + ports::LEN + index * port::LEN;
        let first = u32_at(&bytes, record - index * port::LEN + port::NAME_OFFSET.start);
        put32(&mut bytes, record + port::NAME_OFFSET.start, first);
        put32(&mut bytes, record + port::NAME_LEN.start, name.len() as u32);
    }
    seal(&mut bytes);
    check("names that overlap", &AlignedBytes::new(&bytes), false);
    assert!(slow.is_empty(), "{slow:?}");
}

/// Nodes that read the same tensors in the same way are checked once; the check does not stop at the first node.
#[test]
fn a_tensor_is_checked_in_every_node_that_reads_it_differently() {
    let mut image = Crafted::new(Numeric::I8x16, Layout::Portable);
    image.weights = vec![0; 16 * 4 + 4 * 36];
    // The last block of rows has a shift that no kernel has.
    let shift = image.weights.len() - 1;
    image.weights[shift] = 32;
    let x = image.slot(4);
    let mut last = 0;
    for size in [12, 12, 16] {
        last = image.dense((x, 4), size, [0, 64]);
    }
    let refused = parsed(&image.image(&[("x", x, 4)], &[("y", last, 16)])).0;
    assert_eq!(refused, Err(ImageError::BadShift { node: 2, tensor: 1 }));
    image.weights[shift] = 31;
    assert_eq!(parsed(&image.image(&[("x", x, 4)], &[("y", last, 16)])).0, Ok(()));
}

#[test]
fn a_weight_in_the_padding_of_columns_is_refused_in_every_layout() {
    for (numeric, layout) in [Numeric::I8x16, Numeric::I4x16].into_iter().flat_map(|numeric| {
        Layout::ALL.into_iter().filter(move |layout| layout.is_of(numeric)).map(move |layout| (numeric, layout))
    }) {
        let (columns, zero) = (layout.columns(numeric), layout.code_of(numeric, 0));
        for cols in 1..40 {
            let block = layout.block_bytes(numeric, cols).expect("it is small");
            let halves = numeric == Numeric::I4x16;
            let mut matrix = vec![if halves { zero << 4 | zero } else { zero }; 2 * block];
            if halves {
                for (first, group) in
                    (0..2).flat_map(|first| (0..cols.div_ceil(GROUP)).map(move |group| (first, group)))
                {
                    matrix[first * block + factors_at(block, group)..][..4].fill(1);
                }
            }
            let parse = |matrix: &[u8]| {
                let mut image = Crafted::new(numeric, layout);
                image.weights = matrix.to_vec();
                image.weights.resize(matrix.len().next_multiple_of(16), 0);
                let rows = image.weights.len() as u32;
                image.weights.resize(rows as usize + 2 * 36, 0);
                let x = image.slot(cols as u32);
                let y = image.dense((x, cols as u32), 8, [0, rows]);
                parsed(&image.image(&[("x", x, cols as u32)], &[("y", y, 8)])).0
            };
            assert_eq!(parse(&matrix), Ok(()), "{} {cols}", layout.name());
            for col in 0..cols.next_multiple_of(columns) {
                for row in 0..8 {
                    let place = layout.place(numeric, row % 4, col);
                    let mut matrix = matrix.clone();
                    if halves {
                        matrix[row / 4 * block + place / 2] ^= 1 << (4 * (place % 2));
                    } else {
                        matrix[row / 4 * block + place] ^= 1;
                    }
                    let expected = if col < cols { Ok(()) } else { Err(ImageError::BadFiller { node: 0, tensor: 0 }) };
                    assert_eq!(parse(&matrix), expected, "{} {cols}: {row}, {col}", layout.name());
                }
            }
        }
    }
}
