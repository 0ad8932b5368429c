//! The corpora of the fuzz targets. Seeds are generated in memory and checked against recorded digests; only inputs
//! that a fuzzer found are files.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// The inputs that every test run replays through one fuzz target.
#[derive(Debug)]
pub struct Corpus {
    /// Name of the fuzz target.
    pub target: &'static str,
    /// The generated inputs, by name.
    pub seeds: BTreeMap<String, Vec<u8>>,
}

impl Corpus {
    /// Files in `tests/fuzz/corpus/TARGET`: inputs that once made the target fail. Most targets have none.
    fn finds(&self) -> BTreeMap<String, Vec<u8>> {
        let Ok(files) = fs::read_dir(recorded().join(self.target)) else { return BTreeMap::new() };
        let paths = files.map(|entry| entry.expect("the folder of finds is readable").path());
        let name = |path: &Path| path.file_name().expect("a file has a name").to_string_lossy().into_owned();
        paths.map(|path| (name(&path), fs::read(&path).expect("a find is readable"))).collect()
    }

    /// Runs `body` on every seed and every find. Returns how many of them it accepts.
    pub fn replay(&self, body: impl Fn(&[u8]) -> bool) -> usize {
        let finds = self.finds();
        let inputs: Vec<_> = self.seeds.iter().chain(&finds).collect();
        let mut accepted = 0;
        for (name, bytes) in &inputs {
            println!("{}/{name}", self.target); // after a panic, the last line names the input
            accepted += usize::from(body(bytes));
        }
        println!("{}: {accepted} of {} inputs accepted", self.target, inputs.len());
        accepted
    }

    /// The seeds as `sha256sum` lists them.
    fn digests(&self) -> String {
        let hex = |bytes: &[u8]| Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        self.seeds.iter().map(|(name, bytes)| format!("{}  {name}\n", hex(bytes))).collect()
    }

    fn digests_path(&self) -> PathBuf {
        recorded().join(format!("{}.sha256", self.target))
    }

    /// Checks that the generator still makes the seeds whose digests are recorded, and no others.
    pub fn is_as_recorded(&self) {
        let path = self.digests_path();
        let recorded = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let generated = self.digests();
        let missing = |here: &str, there: &str| -> Vec<String> {
            here.lines().filter(|line| !there.lines().any(|other| other == *line)).map(str::to_owned).collect()
        };
        let (gone, new) = (missing(&recorded, &generated), missing(&generated, &recorded));
        assert!(
            recorded == generated,
            "the seeds differ from {}; recorded: {gone:#?}; generated: {new:#?}. If the change is intended, record \
             them again: cargo test --release -p tidegate-tests -- --ignored regenerate",
            path.display()
        );
    }

    /// Checks the digests, runs `body` on every input, and checks that it accepts all seeds but `refused`.
    pub fn passes(&self, refused: usize, body: impl Fn(&[u8]) -> bool) {
        self.is_as_recorded();
        let accepted = self.replay(body);
        assert!(accepted + refused >= self.seeds.len(), "{accepted} of {} seeds are accepted", self.seeds.len());
    }

    /// Records the digests of the seeds and writes the inputs for `cargo fuzz`.
    pub fn regenerate(&self) {
        fs::write(self.digests_path(), self.digests()).expect("the digests can be written");
        self.write_inputs();
    }

    /// Writes seeds and finds to `target/fuzz/TARGET`, the folder that `cargo fuzz run` starts from.
    pub fn write_inputs(&self) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/fuzz").join(self.target);
        fs::create_dir_all(&folder).expect("the folder can be created");
        for (name, bytes) in self.seeds.iter().chain(&self.finds()) {
            fs::write(folder.join(name), bytes).expect("the input can be written");
        }
        println!("{}: {} seeds", folder.display(), self.seeds.len());
    }
}

/// The folder of digests and finds.
fn recorded() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus")
}
