//! A small data set that is easy to learn, for the command `train`.

use std::path::PathBuf;
use std::process::{Command, Output};

use tempfile::TempDir;
use tidegate_model::canonical::Tensor;
use tidegate_model::data::write_tensors;

pub const STEPS: usize = 6;
pub const FEATURES: usize = 2;

/// A folder with data that are easy to learn, and an architecture.
pub struct Lesson(TempDir);

impl Lesson {
    pub fn new(hidden: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let arch = serde_json::json!({
            "framework": "torch",
            "inputs": [{"name": "x", "size": FEATURES, "steps": STEPS}],
            "layers": [
                {"name": "gru", "class": "GRU", "args": {"hidden_size": hidden, "num_layers": 2, "dropout": 0.2}, "take": "last"},
                {"name": "drop", "class": "Dropout", "args": {"p": 0.1}},
                {"name": "fc", "class": "Linear", "args": {"out_features": 3}},
                {"name": "softmax", "class": "Softmax"}
            ]
        });
        std::fs::write(folder.path().join("arch.json"), arch.to_string()).unwrap();
        let tensors = [("train", 96), ("test", 30)].into_iter().flat_map(|(suffix, count)| {
            let (x, y, lengths) = sequences(count);
            [(format!("x_{suffix}"), x), (format!("y_{suffix}"), y), (format!("lengths_{suffix}"), lengths)]
        });
        write_tensors(&folder.path().join("data.npz"), &tensors.collect()).unwrap();
        Self(folder)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn command(&self, out: &str, more: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate-gpu"));
        command.current_dir(self.0.path()).args(["train", "--out", out]).args(more);
        if !more.contains(&"--device") {
            command.args(["--device", "cpu"]);
        }
        for [option, file] in [["--data", "data.npz"], ["--arch", "arch.json"]] {
            if !more.contains(&option) {
                command.args([option, file]);
            }
        }
        command
    }

    pub fn train(&self, out: &str, more: &[&str]) -> Output {
        self.command(out, more).output().unwrap()
    }

    pub fn refused(&self, more: &[&str]) -> String {
        let output = self.train("refused.safetensors", more);
        assert_eq!(output.status.code(), Some(1), "{more:?}");
        assert!(
            output.stderr.starts_with(b"tidegate-gpu: ") && output.stderr.trim_ascii().len() + 1 == output.stderr.len()
        );
        assert_eq!(output.stderr.iter().filter(|&&byte| byte == b'\n').count(), 1);
        assert!(!self.path("refused.safetensors").exists());
        String::from_utf8(output.stderr).unwrap()
    }
}

/// Waves of three frequencies with small variations.
pub fn sequences(count: usize) -> (Tensor, Tensor, Tensor) {
    let mut x = Vec::new();
    let (mut y, mut lengths) = (Vec::new(), Vec::new());
    for k in 0..count {
        let length = STEPS - k % 3;
        for step in 0..STEPS {
            let phase = (step * (k % 3 + 1)) as f32 * 0.9 + (k * 7 % 10) as f32 * 0.03;
            let row = [100.0 + 20.0 * phase.sin(), 0.01 * phase.cos()];
            x.extend(if step < length { row } else { [0.0; FEATURES] });
        }
        y.push((k % 3) as f32);
        lengths.push(length as f32);
    }
    let vector = |data: Vec<f32>| Tensor { shape: vec![count], data };
    (Tensor { shape: vec![count, STEPS, FEATURES], data: x }, vector(y), vector(lengths))
}

pub fn json(output: &Output) -> serde_json::Value {
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    serde_json::from_slice(&output.stdout).unwrap()
}
