//! Images that the compiler checks: this file compiles only if they parse in a `const`. A damaged image is a compile error
//! that states the reason.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

use tidegate::internals::write::seal;
use tidegate::{Aligned, ImageBytes, Model, Numeric, State};
use tidegate_model::pack::pack_with;
use tidegate_model::quantize::Ranges;
use tidegate_tests::images::{AlignedBytes, whole};

const TINY: &[u8] = include_bytes!("../core/examples/kws.tgi");
const MODEL: Model<'static> = tidegate::include_model!("../core/examples/kws.tgi");

/// About 890 KB, written by `build.rs`: near the limit of `long_running_const_eval` in a program that does not allow it.
static LARGE: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/large.tgi")));
const LARGE_MODEL: Model<'static> = match Model::parse(ImageBytes::from_aligned(LARGE)) {
    Ok(model) => model,
    Err(_) => panic!("large.tgi is not a valid image"),
};

/// An integer image, whose rows are summed as well.
const INTEGER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/large_integer.tgi"));
const INTEGER_MODEL: Model<'static> = tidegate::include_model!(concat!(env!("OUT_DIR"), "/large_integer.tgi"));

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
fn an_image_of_890_kb_parses_in_a_const() {
    assert!(LARGE.0.len() > 890_000);
    assert_eq!((LARGE_MODEL.input_size(), LARGE_MODEL.output_size()), (444, 500));
    let mut scratch = [0_u32; LARGE_MODEL.scratch_words()];
    let mut memory = [0_u32; LARGE_MODEL.state_words()];
    let mut state = State::new(&LARGE_MODEL, &mut memory).expect("the array has the model's length");
    let mut x = [0.0; LARGE_MODEL.input_size()];
    x[1] = 1.0;
    let mut y = [0.0; LARGE_MODEL.output_size()];
    assert!(LARGE_MODEL.step_f32(&mut state, &mut scratch, &x, &mut y).is_ok());
    // Element [block][col][row]: row 5, column 1 is in block 1. The bias follows the weights.
    assert_eq!(y[5], (4 * 444 + 4 + 1) as f32 + (444 * 500 + 5) as f32);
}

#[test]
fn an_image_of_890_kb_of_integers_parses_in_a_const() {
    assert!(INTEGER.len() > 890_000);
    let mut scratch = [0_u32; INTEGER_MODEL.scratch_words()];
    let mut memory = [0_u32; INTEGER_MODEL.state_words()];
    let mut state = State::new(&INTEGER_MODEL, &mut memory).expect("the array has the model's length");
    let mut x = [0; INTEGER_MODEL.input_size()];
    x[1] = 1000;
    let mut y = [0; INTEGER_MODEL.output_size()];
    assert!(INTEGER_MODEL.step_i16(&mut state, &mut scratch, &x, &mut y).is_ok());
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
    let refused = cases.iter().filter(|(_, _, reason)| reason.is_some()).count();
    assert_eq!(messages.matches("error[E0080]").count(), refused, "one error each: {messages}");
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
    hold(
        &[
            ("whole.tgi", TINY, None),
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
