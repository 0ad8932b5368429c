//! Programs that load the stand-in (`gpu-host/stand-in`) in place of CUDA's driver, cuDNN and NCCL.

use std::os::unix::fs::symlink;
use std::process::Output;

use tempfile::TempDir;

pub const CUDA: [&str; 2] = ["libcuda.so", "libcuda.so.1"];
pub const CUDNN: [&str; 2] = ["libcudnn.so", "libcudnn.so.9"];
/// The device's name as the stand-in reports it.
pub const NAME: &str = "cuDNN 9.99.0 on a stand-in without a GPU";

/// A folder for `LD_LIBRARY_PATH`, in which the loader finds the stand-in under these names before any other library.
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
