//! The headers in `include` are the output of cbindgen for the sources.
//!
//! `TIDEGATE_OVERWRITE_DOCS=1 cargo test -p tidegate-c --test header` regenerates them.

use std::fs;
use std::path::Path;

#[test]
fn the_headers_match_the_sources() {
    matches("tidegate.h", "cbindgen.toml", &["status", "types", "lib"]);
    matches("tidegate_update.h", "cbindgen-update.toml", &["update"]);
}

/// Compares a header with the output for a configuration and sources.
fn matches(header: &str, config: &str, sources: &[&str]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(folder.join(config)).unwrap();
    let sources = sources.iter().map(|name| folder.join("src").join(name).with_extension("rs"));
    let builder = sources.fold(cbindgen::Builder::new().with_config(config), cbindgen::Builder::with_src);
    let mut made = Vec::new();
    builder.generate().unwrap().write(&mut made);
    let (made, path) = (String::from_utf8(made).unwrap(), folder.join("include").join(header));
    if std::env::var_os("TIDEGATE_OVERWRITE_DOCS").is_some() {
        fs::write(&path, made).unwrap();
    } else {
        let found = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(found == made, "{} is out of date: set TIDEGATE_OVERWRITE_DOCS=1 to regenerate it", path.display());
    }
}
