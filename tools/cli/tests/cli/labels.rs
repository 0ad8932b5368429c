//! `labels.txt` beside a model, and `--labels`.

use std::fs;

use super::{Workplace, gru_pb, shipped, yes_flac};

fn labels(here: &Workplace, image: &str) -> usize {
    here.json(&["inspect", image, "--json"])["labels"].as_array().unwrap().len()
}

/// A folder with a model of 12 outputs as `m.pb`.
fn with_model() -> Workplace {
    let here = Workplace::new();
    fs::copy(gru_pb(), here.path("m.pb")).unwrap();
    here
}

#[test]
fn labels_beside_a_model_are_used_if_there_is_one_for_each_output_and_a_note_says_so() {
    let here = with_model();
    let pack = ["pack", "m.pb", "-o", "m.tgi", "--numeric", "f32"];
    here.succeed(&pack);
    assert_eq!(labels(&here, "m.tgi"), 0);
    fs::copy(shipped("hello_edge/labels.txt"), here.path("labels.txt")).unwrap();
    let used = "note: m.pb: 12 labels from labels.txt, which is beside the model; --labels none leaves them out\n";
    assert!(here.notes(&pack).contains(used));
    assert_eq!(labels(&here, "m.tgi"), 12);
    // Commands that run a model say it too.
    assert!(here.notes(&["listen", "m.pb", "--wav", &yes_flac()]).contains(used));

    for command in [&pack[..], &["import", "m.pb", "-o", "m.safetensors"]] {
        let notes = here.notes(&[command, &["--labels", "none"]].concat());
        assert!(!notes.contains("labels"), "{notes}");
    }
    assert_eq!(labels(&here, "m.tgi"), 0);

    here.write("labels.txt", "yes\nno\n");
    let unused = "note: m.pb: labels.txt is not used: it has 2 labels, and the model has 12 outputs\n";
    assert!(here.notes(&pack).contains(unused));
    assert_eq!(labels(&here, "m.tgi"), 0);
}

#[test]
fn a_file_of_labels_can_be_given_to_every_command_that_runs_a_model() {
    let here = with_model();
    fs::copy(shipped("hello_edge/labels.txt"), here.path("names.txt")).unwrap();
    for command in [
        &["listen", "m.pb", "--wav", &yes_flac()][..],
        &["eval", "m.pb", "--index", &shipped("speech_commands/index.csv")],
    ] {
        here.refuse(command, "m.pb", &["has no labels for its classes"]);
        here.succeed(&[command, &["--labels", "names.txt"]].concat());
    }
    here.succeed(&["pack", "m.pb", "-o", "m.tgi", "--numeric", "f32", "--labels", "names.txt"]);
    here.refuse(&["inspect", "m.tgi", "--labels", "names.txt"], "m.tgi", &["holds its labels: leave --labels out"]);
}

/// Standard output is for results.
#[test]
fn notes_on_an_import_go_to_standard_error() {
    let here = Workplace::new();
    let model = shipped("../tests/data/small/deployed/mlperf_streaming/str_ww_ref_model.tflite");
    let note = "every layer treats the rows of the window alike";
    for args in [&["import", &model, "-o", "x.safetensors"][..], &["pack", &model, "-o", "x.tgi"], &["inspect", &model]]
    {
        let printed = here.succeed(args);
        assert!(!printed.contains(note), "{printed}");
        assert!(here.notes(args).contains(note));
    }
}
