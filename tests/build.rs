//! Writes images of about 890 KB for `compile_time.rs`, in floats and in integers: the largest size that DESIGN.md
//! promises to parse in a `const`.

use std::path::Path;
use std::{env, fs};

use tidegate::internals::{
    activation::Activation,
    cell::CellKind,
    write::{ImageWriter, NodeRecord, PortRecord, nodes_header, ports_bytes, write_ports},
};
use tidegate::{BufferTooSmall, Layout, ModelId, Numeric, SectionKind};

fn main() -> Result<(), BufferTooSmall> {
    println!("cargo::rerun-if-changed=build.rs");
    let folder = env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    for (name, image) in [("large.tgi", float()?), ("large_integer.tgi", integer()?)] {
        assert!((890_000..900_000).contains(&image.len()), "{} bytes", image.len());
        fs::write(Path::new(&folder).join(name), image).expect("OUT_DIR can be written");
    }
    Ok(())
}

/// One dense layer whose weights count up from 0, so that a wrong byte changes the output.
fn float() -> Result<Vec<u8>, BufferTooSmall> {
    let (input, output) = (444, 500);
    let bias = input * output * 4;
    let weights: Vec<u8> = (0..input * output + output).flat_map(|k| (k as f32).to_le_bytes()).collect();
    dense(Numeric::F32, [input, output], &weights, &[Some(0), Some(bias)], &[])
}

/// The same in integers: element k is (k modulo 100) - 50, and sums are divided by 4.
fn integer() -> Result<Vec<u8>, BufferTooSmall> {
    let (input, output) = (880, 1004);
    let mut weights: Vec<u8> = (0..input * output).map(|k| (k % 100) as u8).map(|k| k.wrapping_sub(50)).collect();
    let rows = weights.len() as u32;
    for block in 0..output as i32 / 4 {
        let starts = [0, 1, 2, 3].map(|row| 4 * block + row);
        weights.extend(starts.into_iter().chain([1 << 30; 4]).chain([0]).flat_map(i32::to_le_bytes));
    }
    dense(Numeric::I8x16, [input, output], &weights, &[Some(0), Some(rows), None], &[12, 0])
}

fn dense(
    numeric: Numeric,
    [input, output]: [u32; 2],
    weights: &[u8],
    tensors: &[Option<u32>],
    numbers: &[i32],
) -> Result<Vec<u8>, BufferTooSmall> {
    let record = NodeRecord {
        kind: CellKind::Dense,
        options: 0,
        input_size: input,
        hidden_size: output,
        output_size: output,
        extents: &[1],
        activations: &[Activation::Identity],
        params: &[],
        numbers,
        unroll: None,
        output_slot: input,
        slots: &[(0, input)],
        tensors,
    };
    let mut nodes = nodes_header(1, input + output).to_vec();
    let start = nodes.len();
    nodes.resize(start + record.record_bytes(), 0);
    record.write(numeric, Layout::Portable, &mut nodes[start..])?;
    let (inputs, outputs) = ([PortRecord::float("in", input, 0)], [PortRecord::float("out", output, input)]);
    let mut ports = vec![0; ports_bytes(&inputs, &outputs)];
    write_ports(&inputs, &outputs, &mut ports)?;
    let sections: [(SectionKind, &[u8]); 3] =
        [(SectionKind::Nodes, &nodes), (SectionKind::Weights, weights), (SectionKind::Ports, &ports)];
    let writer = ImageWriter { numeric, layout: Layout::Portable, id: ModelId(1), sections: &sections };
    let mut image = vec![0; writer.image_bytes()];
    writer.write(&mut image)?;
    Ok(image)
}
