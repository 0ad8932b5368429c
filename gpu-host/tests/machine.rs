//! Programs that load the stand-in (`gpu-host/stand-in`) in place of CUDA's driver, cuDNN and NCCL.

use std::os::unix::fs::symlink;
use std::process::{Command, Output};

use tempfile::TempDir;

pub const CUDA: [&str; 2] = ["libcuda.so", "libcuda.so.1"];
pub const CUDNN: [&str; 2] = ["libcudnn.so", "libcudnn.so.9"];
/// The device's name as the stand-in reports it.
pub const NAME: &str = "cuDNN 9.99.0 on a stand-in without a GPU";

/// A folder in which the loader finds the stand-in under these names before any other library.
pub struct Machine(pub TempDir);

impl Machine {
    pub fn new(names: &[&str]) -> Self {
        // Cargo builds it as a dependency of the test, into the folder of the test.
        let library = std::env::current_exe().unwrap().with_file_name("libtidegate_gpu_stand_in.so");
        assert!(library.exists(), "cargo has not built {}", library.display());
        let folder = tempfile::tempdir().unwrap();
        for name in names {
            symlink(&library, folder.path().join(name)).unwrap();
        }
        Self(folder)
    }

    /// Makes a program load the stand-in. `cudarc` loads the driver by its name, which the loader looks for in
    /// `LD_LIBRARY_PATH`; the trainer accepts folders there that `TIDEGATE_CUDA_PATH` names too.
    pub fn load_in<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command.env("LD_LIBRARY_PATH", self.0.path()).env("TIDEGATE_CUDA_PATH", self.0.path())
    }

    /// A machine with a driver and cuDNN, but no NCCL.
    pub fn with_cudnn() -> Self {
        Self::new(&[CUDA, CUDNN].concat())
    }
}

/// Exit code and output of a program.
pub struct Said {
    pub code: Option<i32>,
    pub out: Vec<String>,
    pub error: Vec<String>,
}

impl Said {
    pub fn of(done: &Output) -> Self {
        let lines = |bytes: &[u8]| String::from_utf8_lossy(bytes).lines().map(str::to_owned).collect();
        Self { code: done.status.code(), out: lines(&done.stdout), error: lines(&done.stderr) }
    }
}
