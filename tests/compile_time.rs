//! Images that the compiler checks: an image parses in a `const`, and a damaged one is a compile error that states the
//! reason.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

use tidegate::internals::{
    activation::Activation,
    cell::CellKind,
    write::{ImageWriter, NodeRecord, PortRecord, nodes_header, ports_bytes, seal, write_ports},
};
use tidegate::{Layout, Model, ModelId, Numeric, SectionKind, State};
use tidegate_model::pack::pack_with;
use tidegate_model::quantize::Ranges;
use tidegate_tests::images::{AlignedBytes, whole};

const TINY: &[u8] = include_bytes!("../core/examples/kws.tgi");
const MODEL: Model<'static> = tidegate::include_model!("../core/examples/kws.tgi");

#[test]
fn the_committed_image_is_identical_to_the_packers_output() {
    let today = AlignedBytes::pack(&whole(), Numeric::F32);
    assert!(TINY == today.get(), "run: cargo test --release -p tidegate-tests -- --ignored regenerate");
}

#[test]
fn a_model_checked_by_the_compiler_runs_in_arrays_of_its_own_sizes() {
    let (mut memory, mut scratch) = ([0_u32; MODEL.state_words()], [0_u32; MODEL.scratch_words()]);
    let mut state = State::new(&MODEL, &mut memory).expect("the array has the model's length");
    let mut y = [0.0; MODEL.output_size()];
    let mut outputs = 0;
    for t in 0..5 {
        let x = [t as f32; MODEL.input_size()];
        let step = MODEL.step_f32(&mut state, &mut scratch, &x, &mut y).expect("every length is right");
        outputs += usize::from(step.has_output());
    }
    assert_eq!(outputs, 2, "windows of 3 every 2 end at steps 3 and 5");
    assert!((y.iter().sum::<f32>() - 1.0).abs() < 1e-6, "a softmax sums to one: {y:?}");
}

#[test]
fn large_images_of_dense_layers_compute_the_sums() {
    let images = [large(), large_of_integers()];
    let [floats, integers] = images.each_ref().map(|image| image.model());
    let (mut memory, mut scratch) = (vec![0; floats.state_words()], vec![0; floats.scratch_words()]);
    let mut state = State::new(&floats, &mut memory).expect("the buffer has the model's length");
    let (mut x, mut y) = ([0.0; 444], [0.0; 500]);
    x[1] = 1.0;
    assert!(floats.step_f32(&mut state, &mut scratch, &x, &mut y).is_ok());
    // Element [block][col][row]: row 5, column 1 is in block 1. The bias follows the weights.
    assert_eq!(y[5], (4 * 444 + 4 + 1) as f32 + (444 * 500 + 5) as f32);

    let (mut memory, mut scratch) = (vec![0; integers.state_words()], vec![0; integers.scratch_words()]);
    let mut state = State::new(&integers, &mut memory).expect("the buffer has the model's length");
    let (mut x, mut y) = ([0; 880], [0; 1004]);
    x[1] = 1000;
    assert!(integers.step_i16(&mut state, &mut scratch, &x, &mut y).is_ok());
    // Element [block][col][row]: row 5, column 1 is in block 1. The start is the row.
    assert_eq!(y[5], ((((4 * 880 + 4 + 1) % 100) - 50) * 1000 + 5) >> 2);
}

/// The name of a file, its bytes, and the reason in the compile error; none for a good image.
type Case<'b> = (&'static str, &'b [u8], Option<&'b str>);

/// The compiler's messages for a crate that includes every file.
fn messages(cases: &[Case<'_>], target: Option<&str>, features: &str) -> String {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("include_model")
        .join(target.unwrap_or("host"))
        .join(features.trim_matches('"'));
    let core = Path::new(env!("CARGO_MANIFEST_DIR")).join("../core");
    fs::create_dir_all(folder.join("src")).expect("the folder can be made");
    let manifest = format!(
        "[package]\nname = \"include_model\"\nedition = \"2024\"\n[workspace]\n[dependencies]\ntidegate = {{ path = {core:?}, default-features = false, features = [{features}] }}\n"
    );
    fs::write(folder.join("Cargo.toml"), manifest).expect("the folder can be written");
    fs::copy(core.join("../Cargo.lock"), folder.join("Cargo.lock")).expect("the workspace has a lock file");
    let mut source = String::from("#![no_std]\n");
    for (name, bytes, _) in cases {
        fs::write(folder.join("src").join(name), bytes).expect("the folder can be written");
        let constant = name.replace('.', "_").to_uppercase();
        source += &format!("pub const {constant}: tidegate::Model<'static> = tidegate::include_model!({name:?});\n");
    }
    fs::write(folder.join("src/lib.rs"), source).expect("the folder can be written");
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["check", "--release", "--offline", "--color", "never"]).current_dir(&folder);
    // The folder and the profile of the workspace, whose procedural macros are compiled.
    cargo.env("CARGO_TARGET_DIR", Path::new(env!("CARGO_TARGET_TMPDIR")).join(".."));
    cargo.env_remove("RUSTFLAGS");
    if let Some(target) = target {
        cargo.args(["--target", target]);
    }
    let output = cargo.output().expect("cargo runs");
    String::from_utf8(output.stderr).expect("cargo writes UTF-8")
}

fn hold(cases: &[Case<'_>], target: Option<&str>, features: &str) {
    let messages = messages(cases, target, features);
    for (name, _, reason) in cases {
        match reason {
            Some(reason) => assert!(messages.contains(&format!("{name}: {reason}")), "{name}: {reason}: {messages}"),
            None => assert!(!messages.contains(&format!("{name}: ")), "{name}: {messages}"),
        }
    }
    // The lint `long_running_const_eval` reports no error of a number.
    assert!(!messages.contains("constant evaluation is taking a long time"), "{messages}");
    let refused = cases.iter().filter(|(_, _, reason)| reason.is_some()).count();
    assert_eq!(messages.matches("error[E0080]").count(), refused, "one error each: {messages}");
}

/// One dense layer of about 890 KB, the largest image that DESIGN.md promises to parse in a `const`. Its weights count up
/// from 0, so that a wrong byte changes the output.
fn large() -> AlignedBytes {
    let (input, output) = (444, 500);
    let bias = input * output * 4;
    let weights: Vec<u8> = (0..input * output + output).flat_map(|k| (k as f32).to_le_bytes()).collect();
    dense(Numeric::F32, [input, output], &weights, &[Some(0), Some(bias)], &[])
}

/// The same in integers: element k is (k modulo 100) - 50, and sums are divided by 4.
fn large_of_integers() -> AlignedBytes {
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
) -> AlignedBytes {
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
    record.write(numeric, Layout::Portable, &mut nodes[start..]).expect("the buffer has its length");
    let (inputs, outputs) = ([PortRecord::float("in", input, 0)], [PortRecord::float("out", output, input)]);
    let mut ports = vec![0; ports_bytes(&inputs, &outputs)];
    write_ports(&inputs, &outputs, &mut ports).expect("the buffer has its length");
    let sections: [(SectionKind, &[u8]); 3] =
        [(SectionKind::Nodes, &nodes), (SectionKind::Weights, weights), (SectionKind::Ports, &ports)];
    let writer = ImageWriter { numeric, layout: Layout::Portable, id: ModelId(1), sections: &sections };
    let mut image = vec![0; writer.image_bytes()];
    writer.write(&mut image).expect("the buffer has its length");
    AlignedBytes::new(&image)
}

/// The tiny image with other bytes at an offset and the right checksum.
fn edited(offset: usize, bytes: &[u8]) -> Vec<u8> {
    let mut image = TINY.to_vec();
    image[offset..offset + bytes.len()].copy_from_slice(bytes);
    seal(&mut image);
    image
}

#[test]
fn the_compile_error_of_a_bad_image_says_why() {
    let mut flipped = TINY.to_vec();
    flipped[TINY.len() / 2] ^= 1;
    let (large, large_of_integers) = (large(), large_of_integers());
    assert!([&large, &large_of_integers].iter().all(|image| (890_000..900_000).contains(&image.get().len())));
    hold(
        &[
            ("whole.tgi", TINY, None),
            ("large.tgi", large.get(), None),
            ("large_of_integers.tgi", large_of_integers.get(), None),
            ("flipped.tgi", &flipped, Some("the image is damaged: its checksum (CRC-32) is ")),
            ("text.tgi", b"hello, world", Some("this is not a flash image: it begins with the bytes 68 65 6c 6c")),
            ("version.tgi", &edited(4, &[9]), Some("the image has format version 9, and this build reads version 1")),
            ("short.tgi", &TINY[..100], Some("the image ends too soon: it should have 1952 bytes")),
            ("layout.tgi", &edited(14, &[77]), Some("this build does not know layout code 77")),
        ],
        None,
        r#""libm""#,
    );
}

#[test]
fn without_a_library_for_floats_the_compile_error_of_a_float_image_names_the_features() {
    let [f32, f16] = Numeric::FLOAT.map(|numeric| AlignedBytes::pack(&whole(), numeric));
    let integer = AlignedBytes::pack(&whole(), Numeric::I8x16);
    let reason = |numeric| format!("numeric `{numeric}` needs the cargo feature `libm` or `micromath`");
    let (of_f32, of_f16) = (reason("f32"), reason("f16"));
    hold(
        &[
            ("integer.tgi", integer.get(), None),
            ("f32.tgi", f32.get(), Some(&of_f32)),
            ("f16.tgi", f16.get(), Some(&of_f16)),
        ],
        None,
        "",
    );
}

#[test]
fn the_compile_error_of_a_layout_names_the_feature() {
    let target = "thumbv7em-none-eabihf";
    let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output().expect("rustc runs").stdout;
    let sysroot = String::from_utf8(sysroot).expect("the path is UTF-8");
    if !Path::new(sysroot.trim()).join("lib/rustlib").join(target).is_dir() {
        println!("SKIP the layouts in a firmware build: the target {target} is not installed");
        return;
    }
    let layout = |layout| pack_with(&whole(), Numeric::I8x16, &Ranges::default(), layout).expect("the model packs");
    use tidegate::Layout;
    let [portable, m0, m4, m55] = Layout::ALL.map(layout);
    hold(
        &[
            ("portable.tgi", &portable, None),
            ("m0.tgi", &m0, Some("layout `cortex-m0` is only for Armv6-M cores")),
            ("m4.tgi", &m4, Some("layout `cortex-m4` needs the cargo feature `dsp` of the crate `tidegate`")),
            ("m55.tgi", &m55, Some("layout `cortex-m55` needs the cargo feature `mve` of the crate `tidegate`")),
        ],
        Some(target),
        r#""libm""#,
    );
}
