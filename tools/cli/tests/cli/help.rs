//! Help pages: their examples run as they stand, and `import` names every format that it reads.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::board::{Faults, listen};
use super::{Workplace, shipped};

/// The commands that `--help` lists.
pub(super) fn commands(here: &Workplace) -> Vec<String> {
    let help = here.succeed(&["--help"]);
    let (_, list) = help.split_once("Commands:\n").unwrap();
    let (list, _) = list.split_once("\n\n").unwrap();
    let name = |line: &str| line.strip_prefix("  ").filter(|line| !line.starts_with(' ')).map(str::to_owned);
    let names = list.lines().filter_map(name).filter_map(|line| line.split(' ').next().map(str::to_owned));
    names.filter(|name| name != "help").collect()
}

/// The examples of a help page; a line that ends with a backslash goes on.
fn examples(help: &str) -> Vec<String> {
    let (_, text) = help.split_once("Example").unwrap_or_else(|| panic!("no example: {help}"));
    let text = text.replace("\\\n", " ");
    text.lines()
        .filter_map(|line| line.strip_prefix("  "))
        .filter(|line| line.starts_with("tidegate "))
        .map(str::to_owned)
        .collect()
}

/// Each example is given to a shell, in the folder that the help names.
#[test]
fn every_example_of_every_help_runs() {
    let here = Workplace::new();
    here.succeed(&["demo", "--keep", "."]);
    let program = Path::new(env!("CARGO_BIN_EXE_tidegate")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let commands = commands(&here);
    assert!(commands.len() >= 17, "{commands:?}");
    for command in commands {
        let help = here.succeed(&[&command, "--help"]);
        let examples = examples(&help);
        assert!(!examples.is_empty() && here.succeed(&[&command, "-h"]).contains(&examples[0]), "{command}: {help}");
        if command == "flash" {
            // The device of its example.
            here.succeed(&["pack", "GRU_S.pb", "-o", "g.tgi", "--numeric", "f16", "--self-test"]);
            here.succeed(&["sign", "g.tgi", "--key", "key.pem", "-o", "signed.tgi"]);
            listen(&here, &[Faults { off_after: None, lost: &[] }]);
        }
        for example in examples {
            let example = example.replace("/dev/ttyACM0", "board.sock");
            assert!(example.starts_with(&format!("tidegate {command}")), "{example}");
            let done = Command::new("sh")
                .args(["-c", &example])
                .current_dir(here.path(""))
                .env("PATH", &path)
                .output()
                .unwrap();
            let stderr = String::from_utf8_lossy(&done.stderr);
            assert!(done.status.success(), "{example}: {stderr}");
            // Only notes and warnings.
            let is_told = |line: &str| line.starts_with("note: ") || line.starts_with("warning: ");
            assert!(stderr.lines().all(is_told), "{example}: {stderr}");
            let stdout = String::from_utf8_lossy(&done.stdout);
            assert!(
                command != "listen" || stdout.lines().any(|line| line.contains(" s  yes  ")),
                "{example}: {stdout}"
            );
        }
    }
}

/// The demo needs nothing but the program, and leaves nothing without `--keep`.
#[test]
fn the_demo_carries_its_files() {
    let here = Workplace::new();
    let told = here.succeed(&["demo"]);
    assert!(here.names().is_empty(), "{:?}", here.names());
    for line in
        ["21 of 24 clips right", "16 of 20 keywords right, 0 wrong, 0 false alarms", "nothing: `tidegate demo --keep"]
    {
        assert!(told.contains(line), "{line}: {told}");
    }
    let last = told.lines().last().unwrap();
    assert!(last.starts_with("firmware ") && last.contains("left out: its source is in the repository"), "{last}");
    here.succeed(&["demo", "--keep", "kept/here"]);
    for (name, original) in [
        ("GRU_S.pb", "hello_edge/GRU_S.pb"),
        ("LICENSE-hello_edge", "hello_edge/LICENSE"),
        ("weights.rnn", "../tests/rnnoise/weights.rnn"),
        ("COPYING-rnnoise", "../tests/rnnoise/COPYING"),
        ("speech_commands/LICENSE", "speech_commands/LICENSE"),
        ("speech_commands/index.csv", "speech_commands/index.csv"),
    ] {
        assert_eq!(here.read(&format!("kept/here/{name}")), fs::read(shipped(original)).unwrap(), "{name}");
    }
    // A person's own file stays.
    fs::create_dir(here.path("own")).unwrap();
    here.write("own/labels.txt", "up\n");
    here.refuse(&["demo", "--keep", "own"], "own/labels.txt", &["is not overwritten", "give --keep another folder"]);
    // The links in `tools/cli/demo` are copies in the package.
    let index = String::from_utf8(here.read("kept/here/speech_commands/index.csv")).unwrap();
    for clip in index.lines().skip(1).map(|line| line.split(',').next().unwrap()) {
        let kept = here.read(&format!("kept/here/speech_commands/{clip}"));
        assert_eq!(kept, fs::read(shipped(&format!("speech_commands/{clip}"))).unwrap(), "{clip}");
    }
}

/// The endings that the help names, each with a file that is imported.
#[test]
fn the_help_of_import_names_every_format() {
    let here = Workplace::new();
    let help = here.succeed(&["import", "--help"]);
    let frameworks = |name: &str| shipped(&format!("../tests/frameworks/{name}"));
    for (ending, model) in [
        (".onnx", frameworks("onnx/network_keywords.onnx")),
        (".tflite", frameworks("tflite/float_last.tflite")),
        (".json beside the .tflite", shipped("wake_word/okay_nabu.json")),
        (".keras", frameworks("keras3/keywords_conv1d.keras")),
        (".h5", frameworks("keras2/keywords_conv1d.h5")),
        (".pt", frameworks("torch/classifier.pth")),
        (".pth", frameworks("torch/classifier.pth")),
        (".pb", shipped("hello_edge/GRU_S.pb")),
        (".ckpt", frameworks("tf1_checkpoint/cudnn_lstm_2.ckpt.index")),
        ("RTNeural", frameworks("rtneural/lstm.json")),
        (".rnn", shipped("../tests/rnnoise/weights.rnn")),
    ] {
        assert!(help.contains(ending), "{ending}: {help}");
        here.succeed(&["import", &model, "-o", "x.safetensors"]);
    }
    here.succeed(&["import", "x.safetensors", "-o", "y.safetensors"]);
    // The advice for a file of no known format names the same endings.
    here.write("hello", "hello");
    let done = here.run(&["import", "hello", "-o", "z.safetensors"]);
    let advice = String::from_utf8(done.stderr).unwrap();
    for word in advice.split([' ', ',']).filter(|word| word.starts_with('.')) {
        assert!(help.contains(word.trim_end()), "{word}: {help}");
    }
}

#[test]
fn completions_and_manual_pages_have_every_command() {
    let here = Workplace::new();
    let commands = commands(&here);
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = here.succeed(&["completions", shell]);
        assert!(commands.iter().all(|command| script.contains(command.as_str())), "{shell}: {script}");
        assert!(script.contains("at-least") && script.contains("calibrate"), "{shell}");
    }
    here.write("tidegate.bash", here.succeed(&["completions", "bash"]));
    let checked = Command::new("bash").args(["-n", "tidegate.bash"]).current_dir(here.path("")).output().unwrap();
    assert!(checked.status.success() && checked.stderr.is_empty(), "{checked:?}");
    let told = here.succeed(&["man", "man1"]);
    assert!(told.ends_with(" pages in man1\n"), "{told}");
    for page in
        commands.iter().map(|command| format!("man1/tidegate-{command}.1")).chain(["man1/tidegate.1".to_owned()])
    {
        let text = String::from_utf8(here.read(&page)).unwrap();
        assert!(text.contains(".TH ") && text.contains(".SH SYNOPSIS"), "{page}: {text}");
    }
}
