//! The published crates: each is packed as for the registry and compiled from its package alone, with the other packages in
//! place of the registry's. `cargo publish --dry-run` does the same, but generates code for every dependency once more.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::Failure;
use crate::firmware::workspace_target_dir;
use crate::shell::{cargo, is_ci, root, run as run_command, shown};

/// Files that every package must contain.
const FILES: [&str; 4] = ["Cargo.toml", "LICENSE-APACHE", "LICENSE-MIT", "README.md"];

/// The packages' workspace. Its profile, and the features that `as-in-workspace` asks for, are those of the main workspace,
/// so that both share the dependencies that they have compiled.
const WORKSPACE: &str = "\
[workspace]
resolver = \"3\"
members = [\"tidegate*\", \"as-in-workspace\"]

[profile.release]
lto = \"off\"

[profile.release.package]
syn.opt-level = 0

[patch.crates-io]
";

/// The member that asks for the features which other crates of the main workspace need.
const FEATURES: &str = "\
[package]
name = \"as-in-workspace\"
version = \"0.0.0\"
edition = \"2024\"
publish = false

[lib]
path = \"lib.rs\"

[dependencies]
bytes = \"1\"
either = \"1\"
rustix = { version = \"1\", features = [\"pty\"] }
smallvec = { version = \"1\", features = [\"const_generics\", \"const_new\"] }
tokio = { version = \"1\", features = [\"io-util\", \"macros\", \"net\", \"rt-multi-thread\", \"signal\", \"sync\", \"time\"] }
zeroize = { version = \"1\", features = [\"zeroize_derive\"] }

[build-dependencies]
syn = { version = \"3\", features = [\"extra-traits\", \"full\", \"visit-mut\"] }
syn-2 = { package = \"syn\", version = \"2\", features = [\"extra-traits\", \"full\", \"visit\"] }
";

/// Fails with the first package that lacks a file or does not compile, and if the stated Rust version is not the one
/// that CI builds with.
pub fn check() -> Result<(), Failure> {
    let mut metadata = cargo(".", &["metadata", "--format-version", "1", "--no-deps", "--locked"]);
    let output = metadata.output().map_err(|error| format!("`{}`: {error}", shown(&metadata)))?;
    let metadata: Value = serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata: {error}"))?;
    let published: Vec<(&str, &str)> = metadata["packages"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|package| package["publish"].is_null())
        .filter_map(|package| Some((package["name"].as_str()?, package["version"].as_str()?)))
        .collect();
    rust_version(&metadata)?;

    // A package keeps its name when its content changes, so packages of earlier runs must be deleted.
    let folder = workspace_target_dir().join("package");
    let _ = fs::remove_dir_all(&folder);
    let mut pack = cargo(".", &["package", "--no-verify", "--allow-dirty", "--locked", "--quiet"]);
    pack.args(published.iter().flat_map(|(name, _)| ["--package", name]));
    run_command("packing the published crates", pack)?;

    let mut workspace = WORKSPACE.to_owned();
    for (name, version) in &published {
        let package = format!("{name}-{version}");
        // With the times in the archive, cargo would take the files for those of an earlier run.
        let mut extract = Command::new("tar");
        extract.current_dir(&folder).args(["-xzmf", &format!("{package}.crate")]);
        run_command(&format!("unpacking {package}"), extract)?;
        if let Some(missing) = FILES.iter().find(|file| !folder.join(&package).join(file).is_file()) {
            return Err(format!("the package of {name} has no {missing}"));
        }
        workspace += &format!("{name} = {{ path = \"{package}\" }}\n");
    }
    let write = |file: &str, text: &[u8]| {
        let path = folder.join(file);
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
    };
    let features = folder.join("as-in-workspace");
    fs::create_dir_all(&features).map_err(|error| format!("{}: {error}", features.display()))?;
    write("as-in-workspace/Cargo.toml", FEATURES.as_bytes())?;
    write("as-in-workspace/lib.rs", b"")?;
    let lock = root().join("Cargo.lock");
    write("Cargo.lock", &fs::read(&lock).map_err(|error| format!("{}: {error}", lock.display()))?)?;
    for (name, version) in &published {
        let _ = fs::rename(folder.join(format!("{name}-{version}.crate")), folder.join(format!("{name}.crate")));
    }
    write("Cargo.toml", workspace.as_bytes())?;
    let mut compile = cargo(".", &["check", "--workspace", "--release"]);
    compile.current_dir(&folder).env("CARGO_TARGET_DIR", workspace_target_dir());
    run_command("the packages compile", compile)
}

/// The `rust-version` of the crates is the toolchain that CI tests, because no older one is tested.
fn rust_version(metadata: &Value) -> Result<(), Failure> {
    let stated = metadata["packages"][0]["rust_version"].as_str().unwrap_or_default();
    let rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into())).arg("--version").output();
    let text = rustc.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let used = text.split_whitespace().nth(1).unwrap_or_default();
    if used == stated || used.strip_prefix(stated).is_some_and(|rest| rest.starts_with('.')) {
        return Ok(());
    }
    let difference =
        format!("Cargo.toml states rust-version {stated}, but this is {used}: only the stated one is tested");
    if is_ci() {
        return Err(difference);
    }
    eprintln!("NOTE {difference}");
    Ok(())
}
