//! `include/tidegate.h` is the output of cbindgen for the sources.
//!
//! `TIDEGATE_OVERWRITE_DOCS=1 cargo test -p tidegate-c --test header` regenerates it.

use std::fs;
use std::path::Path;

#[test]
fn the_header_matches_the_sources() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(folder.join("cbindgen.toml")).unwrap();
    let sources = ["status", "types", "lib"].map(|name| folder.join("src").join(name).with_extension("rs"));
    let builder = sources.into_iter().fold(cbindgen::Builder::new().with_config(config), cbindgen::Builder::with_src);
    let mut made = Vec::new();
    builder.generate().unwrap().write(&mut made);
    let (made, path) = (String::from_utf8(made).unwrap(), folder.join("include/tidegate.h"));
    if std::env::var_os("TIDEGATE_OVERWRITE_DOCS").is_some() {
        fs::write(&path, made).unwrap();
    } else {
        let found = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(found == made, "{} is out of date: set TIDEGATE_OVERWRITE_DOCS=1 to regenerate it", path.display());
    }
}
