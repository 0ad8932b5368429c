//! Runs every golden case: compares results of the frameworks with those of importer, packer and `core` together, and
//! of the f64 oracle. `cargo test --release -p tidegate-tests --test golden -- --nocapture`

mod work;

use std::path::{Path, PathBuf};

use tidegate_tests::golden::{Verdict, run_file};
use tidegate_tests::tolerance::worse;

#[test]
fn every_golden_case_that_is_supported_passes() {
    let folder = std::env::var_os("TIDEGATE_GOLDEN_DIR")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("golden"), PathBuf::from);
    let cases = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut cases: Vec<PathBuf> = cases
        .map(|entry| entry.expect("the folder can be read").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "safetensors"))
        .collect();
    cases.sort();
    let (mut passed, mut most) = (0, 0.0_f64);
    let (mut failed, mut unsupported) = (Vec::new(), Vec::new());
    for path in &cases {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        match run_file(path) {
            Verdict::Passed(used) => {
                passed += 1;
                most = worse(most, used);
            }
            Verdict::Failed(reason) => failed.push(format!("{name}: {reason}")),
            Verdict::Unsupported(reason) => unsupported.push(format!("{name}: {reason}")),
        }
    }
    for line in &unsupported {
        println!("unsupported {line}");
    }
    for line in &failed {
        println!("failed {line}");
    }
    println!("{passed} passed, {} failed, {} unsupported", failed.len(), unsupported.len());
    println!("{}: passed cases use {:.0} % of their tolerance at most", folder.display(), 100.0 * most);
    assert!(failed.is_empty(), "{} cases failed", failed.len());
    // Cases in `TIDEGATE_GOLDEN_DIR` may have cells that are not supported; cases in the repository may not.
    let is_elsewhere = std::env::var_os("TIDEGATE_GOLDEN_DIR").is_some();
    assert!(is_elsewhere || unsupported.is_empty(), "{} cases are not supported", unsupported.len());
    assert!(passed > 0, "no case in {} passed", folder.display());
}
