//! The images of the boards are what the packer writes today. To record them:
//! `TIDEGATE_OVERWRITE_EXPECTED=1 cargo test --release -p tidegate-tests --test repository firmware_images`.

use std::path::Path;
use std::{env, fs};

use tidegate::{Layout, Numeric};

use crate::spotter::Spotter;

#[test]
fn boards_have_todays_images() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let spotter = Spotter::read(&repository).unwrap();
    for (file, numeric, layout) in [
        ("board/kws.tgi", Numeric::I8x16, Layout::CortexM4),
        ("microbit/kws.tgi", Numeric::I8x16, Layout::CortexM0),
        ("microbit/kws_i4x16.tgi", Numeric::I4x16, Layout::Portable),
    ] {
        let path = repository.join("firmware-examples").join(file);
        let image = spotter.pack(numeric, layout).unwrap();
        if env::var_os("TIDEGATE_OVERWRITE_EXPECTED").is_some() {
            fs::write(&path, &image).unwrap();
        }
        assert!(fs::read(&path).unwrap() == image, "{} is not what the packer writes", path.display());
    }
}
