//! The page in the browser and the npm package: builds them into `target/web`, and tests them in Node and in Chromium.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::firmware::{build_command_line, workspace_target_dir};
use crate::hosts::HOST;
use crate::shell::{self, about, cargo, root, run as run_command, shown, step, stream};
use crate::{Failure, install};

const FOLDER: &str = "tools/web";
/// A WebAssembly module in the folder of the package: its file, and the package, the profile and the library with its
/// functions.
struct Module {
    file: &'static str,
    package: &'static str,
    profile: &'static str,
    library: &'static str,
    /// Whether it has vectors of 128 bits.
    has_vectors: bool,
}

const RUNTIME: Module = Module {
    file: "tidegate.wasm",
    package: "tidegate-c",
    profile: "wasm",
    library: "libtidegate_c.a",
    has_vectors: false,
};
const RUNTIME_WITH_VECTORS: Module = Module { file: "tidegate-simd128.wasm", has_vectors: true, ..RUNTIME };
const IMPORTER: Module = Module {
    file: "importer.wasm",
    package: "tidegate-importer",
    profile: "importer",
    library: "libtidegate_importer.a",
    has_vectors: false,
};
/// Seconds of sound from the microphone in `cargo xtask test`, and in `cargo xtask web`. The bars are for the latter.
const SHORT: u32 = 5;
const LONG: u32 = 60;

/// Every image: its file, its model, and the options of `tidegate pack`.
const IMAGES: [(&str, &str, &[&str]); 5] = [
    ("site/gru_s_i8x16.tgi", "hello_edge/GRU_S.pb", INTEGERS),
    ("site/gru_s_f32.tgi", "hello_edge/GRU_S.pb", &["--numeric", "f32"]),
    ("site/okay_nabu.tgi", "wake_word/okay_nabu.json", &[]),
    ("site/silero_vad.tgi", SILERO, &["--shape", "input=1,576", "--numeric", "f32"]),
    (
        "site/silero_vad_i8x16.tgi",
        SILERO,
        &["--shape", "input=1,576", "--numeric", "i8x16", "--calibrate", "assets/silero_vad/chunks.npy"],
    ),
];
const SILERO: &str = "silero_vad/silero_vad_16k_op15.onnx";
/// The functions of tidegate.h that `library.js`, `stream.js` and `tidegate.js` call.
const CALLED: [&str; 25] = [
    "detector_i16_init",
    "detector_i16_push",
    "detector_i16_reset",
    "detector_init",
    "detector_push",
    "detector_reset",
    "front_end_i16_init",
    "front_end_i16_next",
    "front_end_i16_push",
    "front_end_i16_reset",
    "front_end_init",
    "front_end_next",
    "front_end_push",
    "front_end_reset",
    "model_info",
    "model_input",
    "model_label",
    "model_output",
    "model_parse",
    "state_init",
    "state_reset",
    "status_text",
    "step_f32",
    "step_i16",
    "version",
];
/// The functions that `importer.js` calls.
const IMPORTS: [&str; 3] = ["answer", "pack", "request"];
const INTEGERS: &[&str] = &["--numeric", "i8x16", "--calibrate", CLIPS];
const CLIPS: &str = "assets/speech_commands/index.csv";

/// Builds the command line tool, the page and the package, and tests them for a minute of sound. Keeps pictures of the
/// page in `docs` if `pictures` is set.
pub fn run(pictures: bool) -> Result<(), Failure> {
    install::targets()?;
    install::browser()?;
    build_command_line()?;
    modules(&[])?;
    site()?;
    test(LONG, pictures)?;
    shell::result(&format!("serve {} and open it at localhost", built().join("site").display()));
    Ok(())
}

/// The importers without optimization, which takes longer than what the tests do with them. The core stays
/// optimized, because calibration runs it.
pub const UNOPTIMIZED_IMPORTERS: &[&str] =
    &["profile.importer.opt-level=0", "profile.importer.package.tidegate.opt-level=2"];

/// Like [`run`], with an existing command line tool and [`modules`], and for a few seconds of sound. Returns what the tests
/// skip.
pub fn check() -> Result<Vec<String>, Failure> {
    site()?;
    test(SHORT, false)
}

fn built() -> PathBuf {
    workspace_target_dir().join("web")
}

fn tidegate() -> PathBuf {
    workspace_target_dir().join("release/tidegate")
}

/// Builds the WebAssembly modules with changed settings of their profiles, in folders of their own, so that this can run
/// beside other builds.
pub fn modules(settings: &[&str]) -> Result<(), Failure> {
    let package = root().join(FOLDER).join("package");
    let runtime = CALLED.map(|function| format!("tidegate_{function}"));
    link(&RUNTIME, &runtime, settings, &package)?;
    link(&RUNTIME_WITH_VECTORS, &runtime, settings, &package)?;
    link(&IMPORTER, &IMPORTS.map(|function| format!("tidegate_importer_{function}")), settings, &package)
}

/// Writes the page, the package and the images to one folder.
fn site() -> Result<(), Failure> {
    let package = root().join(FOLDER).join("package");
    let site = built().join("site");
    let _ = fs::remove_dir_all(&site);
    copy_files(&root().join(FOLDER).join("page"), &site)?;
    copy_files(&package, &site.join("tidegate"))?;
    for (image, model, options) in IMAGES {
        let mut pack = Command::new(tidegate());
        pack.current_dir(root())
            .args(["pack", &format!("assets/{model}"), "-o"])
            .arg(built().join(image))
            .args(options);
        run_command(&format!("packing {image}"), pack)?;
    }
    Ok(())
}

/// Links a module with some functions. Other functions would only add to the download.
fn link(module: &Module, functions: &[String], settings: &[&str], folder: &Path) -> Result<(), Failure> {
    let Module { file, package, profile, library, has_vectors } = module;
    let mut build = cargo(".", &["build", "--package", package, "--locked", "--profile", profile]);
    build.args(["--target", install::BROWSER]);
    build.args(settings.iter().flat_map(|setting| ["--config", setting]));
    // Each build overwrites the library of the one before, so a module is linked right after its build. The modules share
    // what cargo compiles for the host.
    let target_dir = workspace_target_dir().join("modules");
    if *has_vectors {
        let flags = format!("target.{}.rustflags=['-C', 'target-feature=+simd128']", install::BROWSER);
        build.args(["--config", &flags]);
    }
    build.arg("--target-dir").arg(&target_dir);
    run_command(&format!("{package} for {file}"), build)?;
    let sysroot = install::sysroot()?;
    let mut linker = Command::new(sysroot.join("lib/rustlib").join(HOST).join("bin/rust-lld"));
    linker.args(["-flavor", "wasm", "--no-entry", "--gc-sections", "--strip-all", "--compress-relocations", "-O2"]);
    linker.args(["--stack-first", "-z", "stack-size=1048576"]);
    linker.args(functions.iter().map(|function| format!("--export={function}")));
    linker.arg(target_dir.join(install::BROWSER).join(profile).join(library));
    linker.arg("-o").arg(folder.join(file));
    run_command(&format!("linking {file}"), linker)
}

/// Returns the lines that say SKIP.
fn test(seconds: u32, pictures: bool) -> Result<Vec<String>, Failure> {
    let command = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(program);
        command
            .current_dir(root().join(FOLDER))
            .args(arguments)
            .env("TIDEGATE", tidegate())
            .env("TIDEGATE_WEB", built());
        command
    };
    // The versions in package.json are exact, so a lock file would add only addresses.
    let install = ["install", "--no-package-lock", "--no-audit", "--no-fund"];
    run_command("installing what the tests in Chromium need", command("npm", &install))?;
    run_command("sounds and what `tidegate` hears in them", command("node", &["test/prepare.js"]))?;
    let mut tests =
        command("node", &["--test", "--test-reporter=spec", "test/package.test.js", "test/browser.test.js"]);
    tests.env("TIDEGATE_WEB_SECONDS", seconds.to_string());
    if pictures {
        tests.env("TIDEGATE_WEB_PICTURES", root().join("docs/web"));
    }
    step("the package in Node, the page in Chromium", || {
        let (typed, mut skipped) = (shown(&tests), Vec::new());
        let succeeded = stream(tests, |line| {
            shell::result(line);
            skipped.extend(line.starts_with("SKIP ").then(|| line.to_owned()));
        })?;
        if succeeded { Ok(skipped) } else { Err(format!("`{typed}` failed")) }
    })
}

/// Copies the files of a folder, without its folders.
fn copy_files(from: &Path, to: &Path) -> Result<(), Failure> {
    fs::create_dir_all(to).map_err(about(to))?;
    for entry in fs::read_dir(from).map_err(about(from))? {
        let path = entry.map_err(about(from))?.path();
        if let Some(name) = path.file_name().filter(|_| path.is_file()) {
            copy(&path, &to.join(name))?;
        }
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<(), Failure> {
    fs::copy(from, to).map(drop).map_err(about(from))
}
