//! Without a GPU or without the feature `cudnn`, every command fails with one line that says what to do, and writes
//! nothing.

use std::process::Command;

#[test]
fn without_a_gpu_every_command_prints_one_line_with_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("recorded");
    for command in [&["record", "--out", out.to_str().unwrap()][..], &["time"], &["time", "--serve"]] {
        let done = Command::new(env!("CARGO_BIN_EXE_tidegate-gpu-measure")).args(command).output().unwrap();
        let error = String::from_utf8(done.stderr).unwrap();
        if done.status.success() {
            println!("SKIP this machine has a GPU");
            continue;
        }
        assert_eq!(done.status.code(), Some(1), "{command:?}: {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
        assert!(done.stdout.is_empty());
        let advice = match cfg!(feature = "cudnn") {
            true => ["install NVIDIA's driver", "install cuDNN", "CUDA"].iter().any(|advice| error.contains(advice)),
            false => error.contains("--features cudnn"),
        };
        assert!(advice, "{error}");
        assert!(!out.exists());
    }
}
