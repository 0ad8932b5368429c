//! Several processes train one network on CPUs.

use std::net::TcpListener;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use tidegate_model::data::read_tensors;

use crate::lesson::{Lesson, json};

/// Starts `size` processes of the command on a free port.
fn start(lesson: &Lesson, size: usize, out: &str, more: &[&[&str]]) -> Vec<Child> {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let process = |rank: usize| {
        let mut command = lesson.command(out, more[rank % more.len()]);
        place(&mut command, rank, size, port);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    (0..size).map(process).collect()
}

/// Sets the variables that torchrun sets, and removes a secret from the environment, because it would be used.
pub fn place(command: &mut Command, rank: usize, size: usize, port: u16) {
    let numbers = [("RANK", rank), ("LOCAL_RANK", rank), ("WORLD_SIZE", size), ("MASTER_PORT", port.into())];
    command.envs(numbers.map(|(name, number)| (name, number.to_string()))).env("MASTER_ADDR", "127.0.0.1");
    command.env_remove("TIDEGATE_SECRET");
}

pub fn ended(processes: Vec<Child>) -> Vec<Output> {
    processes.into_iter().map(|child| child.wait_with_output().unwrap()).collect()
}

/// Two processes with one part each take the same steps as one with both: a sum of two numbers does not depend on the
/// order. Three processes sum in another order. Only rank 0 writes and reports.
#[test]
fn several_processes_learn_the_same_as_one() {
    let lesson = Lesson::new(8);
    let bytes = |name: &str| std::fs::read(lesson.path(name)).unwrap();
    let more = ["--epochs", "6", "--batch", "64", "--noise", "0.2", "--json"];
    let alone = json(&lesson.train("one.safetensors", &more));
    let two = ended(start(&lesson, 2, "two.safetensors", &[&more]));
    assert_eq!(json(&two[0])["accuracy"], alone["accuracy"]);
    assert!(two[1].status.success() && two[1].stdout.is_empty() && two[1].stderr.is_empty());
    assert_eq!(bytes("two.safetensors"), bytes("one.safetensors"));
    let more = ["--epochs", "6", "--batch", "64", "--carry", "--patience", "2", "--json"];
    let alone = json(&lesson.train("one.safetensors", &more));
    assert_eq!(json(&ended(start(&lesson, 2, "two.safetensors", &[&more]))[0])["accuracy"], alone["accuracy"]);
    assert_eq!(bytes("two.safetensors"), bytes("one.safetensors"));

    // Sums of about 600 numbers in another order differ by up to 600 * 2^-24. Six steps of Adam at a rate of 0.002 turn
    // that into 4e-7. Where the terms of a gradient cancel, the error is up to twenty times larger.
    let more = |out| ["--epochs", "6", "--batch", "96", "--carry", "--json", "--state-dict", out];
    let alone = json(&lesson.train("one.safetensors", &more("one.state.safetensors")));
    let three = ended(start(&lesson, 3, "three.safetensors", &[&more("three.state.safetensors")]));
    assert_eq!(json(&three[0])["accuracy"], alone["accuracy"]);
    let [one, three] = ["one", "three"].map(|name| read_tensors(&lesson.path(&format!("{name}.state.safetensors"))));
    let three = three.unwrap();
    for (name, tensor) in one.unwrap() {
        for (one, three) in tensor.data.iter().zip(&three[&name].data) {
            assert!((one - three).abs() < 1e-5, "{name}: {one} {three}");
        }
    }
}

/// All processes resume from the checkpoint of rank 0.
#[test]
fn several_processes_resume_their_training() {
    let lesson = Lesson::new(8);
    let bytes = |name: &str| std::fs::read(lesson.path(name)).unwrap();
    let more = ["--epochs", "300", "--batch", "64", "--json"];
    assert_eq!(json(&ended(start(&lesson, 2, "whole.safetensors", &[&more])).swap_remove(0))["resumed"], 0);
    let mut processes = start(&lesson, 2, "killed.safetensors", &[&more]);
    while !lesson.path("killed.checkpoint").exists() && processes[0].try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
    processes[1].kill().unwrap();
    let first = ended(processes).swap_remove(0);
    let error = String::from_utf8(first.stderr).unwrap();
    assert_eq!(first.status.code(), Some(1), "it has ended before it could be killed");
    assert!(error.starts_with("tidegate-gpu: lost rank 1") && error.lines().count() == 1, "{error}");
    assert!(!lesson.path("killed.safetensors").exists());
    let again = ended(start(&lesson, 2, "killed.safetensors", &[&more]));
    assert!(json(&again[0])["resumed"].as_u64().unwrap() > 0);
    assert_eq!(bytes("killed.safetensors"), bytes("whole.safetensors"));
}

#[test]
fn processes_with_other_settings_are_refused() {
    let lesson = Lesson::new(4);
    let found = ended(start(&lesson, 2, "a.safetensors", &[&["--epochs", "2"], &["--epochs", "3"]]));
    for (output, rank) in found.iter().zip([1, 0]) {
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1));
        assert!(error.starts_with(&format!("tidegate-gpu: rank {rank} has other settings")), "{error}");
        assert_eq!(error.lines().count(), 1);
    }
    assert!(!lesson.path("a.safetensors").exists() && !lesson.path("a.checkpoint").exists());
    let mut command = lesson.command("a.safetensors", &[]);
    command.env("WORLD_SIZE", "2");
    let error = String::from_utf8(command.output().unwrap().stderr).unwrap();
    assert!(error.starts_with("tidegate-gpu: RANK is \"\""), "{error}");
}

/// A secret that is given must be the same for all; without one, processes of several machines are refused.
#[test]
fn a_process_without_the_secret_is_not_a_rank() {
    let lesson = Lesson::new(4);
    std::fs::write(lesson.path("secret"), "the secret of this training\n").unwrap();
    let more = ["--epochs", "1", "--batch", "64", "--secret-file", "secret"];
    for output in ended(start(&lesson, 2, "two.safetensors", &[&more])) {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let mut processes = start(&lesson, 2, "other.safetensors", &[&more, &["--epochs", "1", "--batch", "64"]]);
    let mut first = processes.remove(0);
    std::thread::sleep(Duration::from_secs(2));
    // Rank 1 looks for the secret of one machine, which rank 0 does not write. Both wait.
    for process in processes.iter_mut().chain([&mut first]) {
        assert!(process.try_wait().unwrap().is_none());
        process.kill().unwrap();
        process.wait().unwrap();
    }
    let mut command = lesson.command("refused.safetensors", &["--epochs", "1", "--batch", "64"]);
    place(&mut command, 0, 2, 29_500);
    let output = command.env("MASTER_ADDR", "0.0.0.0").output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && error.lines().count() == 1, "{error}");
    assert!(error.starts_with("tidegate-gpu: other machines can connect to 0.0.0.0, so all ranks need"), "{error}");
}
