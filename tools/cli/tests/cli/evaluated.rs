//! `eval` counts what the firmware decides.

use std::fs;

use serde_json::Value;

use crate::{Workplace, shipped};

/// The record of the firmware `kws_trained`, which runs in QEMU, has a line for each of its clips, `clip LABEL is LABEL`.
#[test]
fn eval_counts_the_decisions_of_the_firmware() {
    let here = Workplace::new();
    let record = shipped("../firmware-examples/expected/kws_trained.run");
    let record = fs::read_to_string(record).unwrap();
    let decisions: Vec<[&str; 2]> = record
        .lines()
        .map(|line| match line.split(' ').collect::<Vec<_>>()[..] {
            ["clip", label, "is", decided, ..] => [label, decided],
            _ => panic!("{line}"),
        })
        .collect();
    assert_eq!(decisions.len(), 12);
    // The firmware has the first clip of each label.
    let index = shipped("speech_commands/index.csv");
    let clips = fs::read_to_string(&index).unwrap();
    let folder = index.strip_suffix("index.csv").unwrap();
    let first = |[label, _]: &[&str; 2]| {
        let of = |line: &&str| line.split(',').nth(1) == Some(label);
        format!("{folder}{}\n", clips.lines().find(of).unwrap())
    };
    fs::write(
        here.path("i.csv"),
        decisions.iter().map(first).fold("file,label,word,speaker,split\n".to_owned(), |a, b| a + &b),
    )
    .unwrap();
    let found = here.json(&["eval", &shipped("keywords/keywords.tgi"), "--index", "i.csv", "--json"]);
    let labels: Vec<&str> = found["labels"].as_array().unwrap().iter().map(|label| label.as_str().unwrap()).collect();
    let place = |label: &str| labels.iter().position(|known| *known == label).unwrap();
    let mut confusion = vec![vec![0; labels.len()]; labels.len()];
    for [label, decided] in &decisions {
        confusion[place(label)][place(decided)] += 1;
    }
    assert_eq!(found["confusion"], Value::from(confusion), "eval on the left, the firmware on the right");
    assert_eq!(found["correct"], decisions.iter().filter(|[label, decided]| label == decided).count());
}
