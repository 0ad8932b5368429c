//! The files that the program carries: templates, and the source of the runtime.

include!(concat!(env!("OUT_DIR"), "/templates.rs"));

/// A file of a project: its path there and its content.
pub type File = (String, Vec<u8>);

/// A template with its variables, such as `{{name}}`, replaced.
pub fn render(template: &str, variables: &[(&str, String)]) -> String {
    variables
        .iter()
        .fold(text(template).to_owned(), |text, (name, value)| text.replace(&format!("{{{{{name}}}}}"), value))
}

/// The content of a file in `templates`.
fn text(name: &str) -> &'static str {
    let file = FILES.iter().find(|(file, _)| *file == name);
    let (_, bytes) = file.unwrap_or_else(|| panic!("there is no template {name}"));
    str::from_utf8(bytes).unwrap_or_else(|_| panic!("{name} is not text"))
}

/// The source of the runtime as a package in `vendor/tidegate`.
pub fn runtime() -> Vec<File> {
    let mut files = folder("core-src/", "vendor/tidegate/src/");
    files.push(("vendor/tidegate/Cargo.toml".into(), manifest(text("vendor/core.toml")).into_bytes()));
    files.push(("vendor/tidegate/README.md".into(), text("vendor/core-README.md").into()));
    for name in ["FORMAT.md", "LICENSE-APACHE", "LICENSE-MIT"] {
        files.push((format!("vendor/tidegate/{name}"), text(&format!("vendor/{name}")).into()));
    }
    files
}

/// The source of the library for C, and of its feature `update`, as packages in `vendor/tidegate`, beside [`runtime`].
pub fn library() -> Vec<File> {
    let mut files = folder("capi-src/", "vendor/tidegate/capi/src/");
    files.extend(folder("update-src/", "vendor/tidegate/update/src/"));
    files.push(("vendor/tidegate/update/Cargo.toml".into(), manifest(text("vendor/update.toml")).into_bytes()));
    files.push(("vendor/tidegate/update/README.md".into(), text("vendor/update-README.md").into()));
    let manifest = manifest(text("vendor/capi.toml")) + LIBRARY;
    files.push(("vendor/tidegate/capi/Cargo.toml".into(), manifest.into_bytes()));
    for name in ["tidegate.h", "tidegate_update.h"] {
        files.push((format!("vendor/tidegate/capi/include/{name}"), text(&format!("vendor/{name}")).into()));
    }
    files
}

/// The end of the library's manifest.
const LIBRARY: &str = r#"
[workspace]

[profile.release]
codegen-units = 1
lto = "fat"
opt-level = "s"
panic = "abort"
"#;

fn folder(from: &str, to: &str) -> Vec<File> {
    let from = format!("vendor/{from}");
    let files =
        FILES.iter().filter_map(|(name, bytes)| Some((format!("{to}{}", name.strip_prefix(&from)?), bytes.to_vec())));
    files.collect()
}

/// Sections that a manifest needs outside of the workspace.
const SECTIONS: [&str; 4] = ["[package]", "[lib]", "[features]", "[dependencies]"];

/// A manifest without the sections that only the workspace needs, and with the values inherited from the workspace.
fn manifest(text: &str) -> String {
    let mut kept = String::new();
    let mut keeps = false;
    for line in text.lines() {
        if line.starts_with('[') {
            keeps = SECTIONS.contains(&line);
        }
        if keeps {
            kept += &inherited(line);
            kept.push('\n');
        }
    }
    kept.trim_end().to_owned() + "\n"
}

/// A line, with `workspace = true` replaced by the workspace's value.
fn inherited(line: &str) -> String {
    let of_workspace = |key: &str| {
        let mut values = text_of_workspace().filter_map(|line| line.split_once(" = "));
        values.find(|(name, _)| *name == key).map(|(_, value)| value)
    };
    if let Some(value) = line.strip_suffix(".workspace = true").and_then(|key| Some((key, of_workspace(key)?))) {
        return format!("{} = {}", value.0, value.1);
    }
    let key = line.split(' ').next().unwrap_or_default();
    match of_workspace(key).filter(|_| line.contains("workspace = true")) {
        Some(version) => line.replace("workspace = true", &format!("version = {version}")),
        None => line.to_owned(),
    }
}

fn text_of_workspace() -> impl Iterator<Item = &'static str> {
    text("vendor/workspace.toml").lines()
}
