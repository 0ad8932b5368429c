//! Writes an image of about 890 KB, for `compile_time.rs`: the largest that DESIGN.md promises to parse in a `const`.

use std::path::Path;
use std::{env, fs};

use tidegate::activation::Activation;
use tidegate::cell::CellKind;
use tidegate::image::write::{ImageWriter, NodeRecord, PortRecord, nodes_header, ports_bytes, write_ports};
use tidegate::image::{Layout, ModelId, SectionKind};
use tidegate::{BufferTooSmall, Numeric};

const INPUT: u32 = 444;
const OUTPUT: u32 = 500;

fn main() -> Result<(), BufferTooSmall> {
    println!("cargo::rerun-if-changed=build.rs");
    let image = image()?;
    assert!((890_000..900_000).contains(&image.len()), "{} bytes", image.len());
    let folder = env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    fs::write(Path::new(&folder).join("large.tgi"), image).expect("OUT_DIR can be written");
    Ok(())
}

/// One dense layer whose weights count from 0, so that a wrong byte would show.
fn image() -> Result<Vec<u8>, BufferTooSmall> {
    let bias = INPUT * OUTPUT * 4;
    let weights: Vec<u8> = (0..INPUT * OUTPUT + OUTPUT).flat_map(|k| (k as f32).to_le_bytes()).collect();
    let record = NodeRecord {
        kind: CellKind::Dense,
        options: 0,
        input_size: INPUT,
        hidden_size: OUTPUT,
        output_size: OUTPUT,
        extents: &[1],
        activations: &[Activation::Identity],
        params: &[],
        numbers: &[],
        unroll: None,
        output_slot: INPUT,
        slots: &[(0, INPUT)],
        tensors: &[Some(0), Some(bias)],
    };
    let mut nodes = nodes_header(1, INPUT + OUTPUT).to_vec();
    let start = nodes.len();
    nodes.resize(start + record.record_bytes(), 0);
    record.write(Numeric::F32, Layout::Portable, &mut nodes[start..])?;
    let (inputs, outputs) = ([PortRecord::float("in", INPUT, 0)], [PortRecord::float("out", OUTPUT, INPUT)]);
    let mut ports = vec![0; ports_bytes(&inputs, &outputs)];
    write_ports(&inputs, &outputs, &mut ports)?;
    let sections: [(SectionKind, &[u8]); 3] =
        [(SectionKind::Nodes, &nodes), (SectionKind::Weights, &weights), (SectionKind::Ports, &ports)];
    let writer = ImageWriter { numeric: Numeric::F32, layout: Layout::Portable, id: ModelId(1), sections: &sections };
    let mut image = vec![0; writer.image_bytes()];
    writer.write(&mut image)?;
    Ok(image)
}
