//! No sum of an integer image overflows 32 bits: `parse` refuses rows that could, in every layout, and the packer
//! writes none.

use tidegate::internals::{
    activation::Activation,
    cell::CellKind,
    write::{ImageWriter, NodeRecord, PortRecord, nodes_header, ports_bytes, write_ports},
};
use tidegate::{ImageError, Layout, Model, ModelId, Numeric, SectionKind, State};
use tidegate_model::pack::pack_with;
use tidegate_model::quantize::Ranges;
use tidegate_tests::images::AlignedBytes;
use tidegate_tests::random::{Draw, Rng, Variant, chain};

/// Units of the node, and columns of each matrix.
const UNITS: usize = 6;
const COLUMNS: [usize; 2] = [517, UNITS];

/// An Elman cell of [`UNITS`] units whose weights are zero except in one row.
struct Crafted {
    layout: Layout,
    /// The weights of both matrices.
    weights: [Vec<u8>; 2],
    starts: [i32; 8],
    shifts: [u8; 8],
    recurrent_first: i32,
}

impl Crafted {
    fn new(layout: Layout, row: usize, weights: [&[i8]; 2], recurrent_first: bool) -> Self {
        let matrix = |part: usize| {
            let padded = COLUMNS[part].next_multiple_of(layout.columns(Numeric::I8x16));
            let mut bytes = vec![layout.code_of(Numeric::I8x16, 0); 8 * padded];
            for (col, &weight) in weights[part].iter().enumerate() {
                let place = row / 4 * 4 * padded + layout.place(Numeric::I8x16, row % 4, col);
                bytes[place] = layout.code_of(Numeric::I8x16, weight);
            }
            bytes
        };
        let weights = [matrix(0), matrix(1)];
        Self { layout, weights, starts: [0; 8], shifts: [0; 8], recurrent_first: i32::from(recurrent_first) }
    }

    fn image(&self) -> AlignedBytes {
        let [mut weights, recurrent] = self.weights.clone();
        let mut append = |bytes: &[u8]| {
            weights.resize(weights.len().next_multiple_of(16), 0);
            weights.extend(bytes);
            Some((weights.len() - bytes.len()) as u32)
        };
        let rows = self.starts.chunks(4).zip(self.shifts.chunks(4)).flat_map(|(starts, shifts)| {
            let starts = starts.iter().chain(&[1 << 30; 4]).flat_map(|word| word.to_le_bytes());
            starts.chain(shifts.iter().copied()).collect::<Vec<_>>()
        });
        let tensors = [Some(0), append(&recurrent), append(&rows.collect::<Vec<_>>()), None];
        let padded = COLUMNS.map(|size| size.next_multiple_of(self.layout.columns(Numeric::I8x16).max(2)) as u32);
        let [input, units] = COLUMNS.map(|size| size as u32);
        let record = NodeRecord {
            kind: CellKind::Elman,
            options: 0,
            input_size: input,
            hidden_size: units,
            output_size: units,
            extents: &[1],
            activations: &[Activation::Tanh],
            params: &[],
            numbers: &[12, self.recurrent_first, 0],
            unroll: None,
            output_slot: padded[0],
            slots: &[(0, input)],
            tensors: &tensors,
        };
        let mut nodes = nodes_header(1, padded[0] + padded[1]).to_vec();
        let start = nodes.len();
        nodes.resize(start + record.record_bytes(), 0);
        record.write(Numeric::I8x16, self.layout, &mut nodes[start..]).unwrap();
        let (x, y) = ([PortRecord::float("x", input, 0)], [PortRecord::float("y", units, padded[0])]);
        let mut ports = vec![0; ports_bytes(&x, &y)];
        write_ports(&x, &y, &mut ports).unwrap();
        let sections: [(SectionKind, &[u8]); 3] =
            [(SectionKind::Nodes, &nodes), (SectionKind::Weights, &weights), (SectionKind::Ports, &ports)];
        let writer = ImageWriter { numeric: Numeric::I8x16, layout: self.layout, id: ModelId(1), sections: &sections };
        let mut image = vec![0; writer.image_bytes()];
        writer.write(&mut image).unwrap();
        AlignedBytes::new(&image)
    }

    /// The result of `parse`. The image is stepped first, even if `parse` refuses it: sums wrap, and nothing else happens.
    fn parse(&self) -> Result<(), ImageError> {
        let image = self.image();
        let model = Model::parse_structure(image.image()).expect("its structure is valid");
        let (mut memory, mut scratch) = (vec![0; model.state_words()], vec![0; model.scratch_words()]);
        let mut state = State::new(&model, &mut memory).unwrap();
        for x in [i16::MAX, i16::MIN] {
            let stepped = model.step_i16(&mut state, &mut scratch, &[x; COLUMNS[0]], &mut [0; UNITS]);
            assert!(stepped.unwrap().has_output());
        }
        Model::parse(image.image()).map(drop)
    }
}

/// 2^31 - 1 - 32767 · 127 · 516
const ROOM: i32 = 196_603;

#[test]
fn a_row_of_one_part_is_refused_from_the_first_start_that_could_overflow() {
    for (layout, row) in Layout::ALL.into_iter().flat_map(|layout| (0..UNITS).map(move |row| (layout, row))) {
        for (sign, weight) in [(1, 127), (-1, 127), (1, -127)] {
            // All weights are in the coarser part; those of the finer part are zero.
            let mut crafted = Crafted::new(layout, row, [&[weight; 516], &[]], true);
            let refused = Err(ImageError::BadSum { node: 0, tensor: 2, row: row as u32 });
            crafted.starts[row] = sign * ROOM;
            assert_eq!(crafted.parse(), Ok(()), "{} {row}", layout.name());
            crafted.starts[row] = sign * (ROOM + 1);
            assert_eq!(crafted.parse(), refused, "{} {row}", layout.name());
        }
        let crafted = Crafted::new(layout, row, [&[-128; 517], &[]], false);
        assert!(matches!(crafted.parse(), Err(ImageError::BadSum { node: 0, tensor: 2, .. })), "{}", layout.name());
    }
}

#[test]
fn the_finer_part_counts_after_its_shift_and_must_fit_before_it() {
    for layout in Layout::ALL {
        let refused = Err(ImageError::BadSum { node: 0, tensor: 2, row: 5 });
        for recurrent_first in [false, true] {
            // The coarser part has 32767 · 65532, the finer at most 32767 · 24.
            let weights: [&[i8]; 2] = if recurrent_first { [&[127; 516], &[4; 6]] } else { [&[1; 24], &[127; 6]] };
            let coarse: i64 = if recurrent_first { 127 * 516 } else { 127 * 6 };
            let mut crafted = Crafted::new(layout, 5, weights, recurrent_first);
            let most = |start: i64, shift: u8| ((start + 32767 * 24 + (1 << shift) - 1) >> shift) + 32767 * coarse;
            for shift in [0, 1, 2, 3, 9, 30, 31] {
                crafted.shifts[5] = shift;
                for start in [0, 4 * 196_603 - 32767 * 24, 4 * 196_603 - 32767 * 24 + 1, (1 << 31) - 1 - 32767 * 24] {
                    for sign in [1, -1] {
                        crafted.starts[5] = sign * start as i32;
                        let fits = most(start, shift) < 1 << 31;
                        let expected = if fits { Ok(()) } else { refused };
                        assert_eq!(crafted.parse(), expected, "{} {shift} {start}", layout.name());
                    }
                }
                // The finer sum must fit before any shift.
                crafted.starts[5] = i32::MAX - 32767 * 24 + 1;
                assert_eq!(crafted.parse(), refused, "{} {shift}", layout.name());
            }
        }
    }
}

#[test]
fn the_packer_enlarges_scales_and_writes_no_row_that_is_refused() {
    let mut rng = Rng::new(3);
    for (cell, bias) in
        ["dense", "elman", "lstm", "gru"].into_iter().flat_map(|cell| [0.0, 1e4, -1e6].map(|b| (cell, b)))
    {
        let draw = Draw { weights: 1.0, biases: true };
        let mut model = chain(&mut rng, 2100, &[(Variant::plain(cell), 5)], draw);
        // Every weight of a row is as large as the largest: 2,100 times 127 times 32,767 would be 2^33.
        for (name, tensor) in &mut model.tensors {
            let is_bias = name.ends_with("bias");
            tensor.data.iter_mut().for_each(|value| *value = if is_bias { bias } else { value.signum() });
        }
        let ranges = Ranges::without_data(&model).unwrap();
        let all = Numeric::INTEGER.into_iter().flat_map(|numeric| Layout::ALL.map(|layout| (numeric, layout)));
        for (numeric, layout) in all.filter(|&(numeric, layout)| layout.is_of(numeric)) {
            let image = AlignedBytes::new(&pack_with(&model, numeric, &ranges, layout).unwrap());
            let what = format!("{cell} {bias} {} {}", numeric.name(), layout.name());
            assert_eq!(Model::parse(image.image()).map(drop), Ok(()), "{what}");
        }
    }
}
