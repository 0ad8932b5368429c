//! Finds figures with a unit in `README.md` and `docs`. A measured one belongs to a block that a test writes from its
//! record; the others are on a list here, with the reason.

use std::fs;

use super::pages::prose;
use super::{blocks, repository};

/// Units that follow a number, with or without a space.
const UNITS: [&str; 17] = [
    "%",
    "dB",
    "ns",
    "µs",
    "ms",
    "s",
    "seconds",
    "minutes",
    "KB",
    "KiB",
    "MB",
    "MiB",
    "GB",
    "GiB",
    "clips",
    "instructions",
    "bytes",
];

/// Sentences with figures that are not measured: the page, a part of the sentence, and the reason.
const ALLOWED: [(&str, &str, &str); 51] = [
    ("docs/c.md", "a multiple of 16 bytes", "a rule of the format"),
    ("docs/denoise.md", "Only the first 30 seconds", "a rule of the command"),
    ("docs/denoise.md", "at most 0.1 dB lower", "a bound that denoise.rs holds"),
    ("docs/denoise.md", "rises from 8.0 dB to at least 16.0 dB, and", "a bound that denoise.rs holds"),
    ("docs/denoise.md", "against its results in f32 is at least 30 dB", "a bound that denoise.rs holds"),
    ("docs/faq.md", "a multiple of 16 bytes", "a rule of the format"),
    ("docs/integers.md", "at most 20 fewer of 1,584 clips than in", "a bound that hello_edge_integer.rs holds"),
    ("docs/integers.md", "at most 30 fewer of 1,584 clips than in", "a bound that hello_edge_integer.rs holds"),
    ("docs/integers.md", "up to 131,072.", "a limit of the packer"),
    ("docs/integers.md", "the first 3,000 steps", "a rule of the packer"),
    ("docs/integers.md", "if the output gains 1 dB. - Inputs, states", "a rule of the packer"),
    ("docs/integers.md", "if the output gains 1 dB. - If the output is below 52 dB, `", "a rule of the packer"),
    (
        "docs/integers.md",
        "up to 15 % coarser, so that every weight is rounded differently. Each of these changes must gain 1 dB",
        "a rule of the packer",
    ),
    ("docs/integers.md", "If the output of a small network is below 50 dB", "a rule of the packer"),
    ("docs/integers.md", "the others miss it by at most 10 dB", "a bound that integer_random.rs holds"),
    ("docs/integers.md", "the limit is 3 dB below the reference, or", "a bound that integer_random.rs holds"),
    (
        "docs/integers.md",
        "or 45 dB if that is lower. Of every 20 images, 19 meet",
        "a bound that integer_random.rs holds",
    ),
    ("docs/integers.md", "Below 30 dB at the output, or if more than 1 % of the decisions", "a rule of the packer"),
    ("docs/integers.md", "would forget over 32,768 steps", "the number of 16-bit gates"),
    ("docs/integers.md", "four units take 61 instructions", "counted in the source of the kernel"),
    ("docs/integers.md", "rows take 34 instructions", "counted in the source of the kernel"),
    ("docs/integers.md", "then take 88 instructions", "counted in the source of the kernel"),
    ("docs/integers.md", "for the LSTM, 948 instructions", "a sum of counts in the source of the kernel"),
    ("docs/integers.md", "at most 1 KiB of stack", "a bound that `cargo xtask size` holds"),
    ("docs/rnnoise.md", "a frame of 10 ms", "a definition of RNNoise"),
    ("docs/rnnoise.md", "at least 45 dB", "a bound that import_rnnoise.rs holds"),
    ("docs/running.md", "within 10 % of those counted", "a bound that costs.rs and device.rs hold"),
    ("docs/running.md", "depends on the values, so the tests allow 20 %", "a bound that device.rs holds"),
    ("docs/new.md", "at least 40 ms of sound", "the length of the queue in the templates"),
    ("docs/python.md", "Below 30 dB at the output", "the bound of the warnings of `pack`"),
    ("docs/running.md", "code, flash and RAM are within 10 %", "a bound that `cargo xtask test` holds"),
    ("docs/running.md", "flash is within 10 %. The code", "a bound that `cargo xtask test` holds"),
    ("docs/running.md", "other programs is within a quarter or 3 KiB", "a bound that `cargo xtask test` holds"),
    ("docs/running.md", "decides every 240 ms", "the schedule of the example"),
    ("docs/tflite.md", "none follows for 1,500 ms", "a rule of the importer"),
    ("docs/tflite.md", "from windows of 30 ms that start every", "a definition of microWakeWord"),
    ("docs/tflite.md", "with a step of 10 ms", "a definition of microWakeWord"),
    (
        "docs/training.md",
        "up to 12 % faster or slower, 100 ms earlier or later, 6 dB louder or softer, with noise 6 to 40 dB below",
        "a rule of the trainer",
    ),
    ("docs/training.md", "at least 16 bytes", "a limit of the trainer"),
    ("docs/web.md", "the line is at 5 %", "a rule of the page"),
    ("docs/web.md", "each runtime with gzip | 150 KiB", "a bound that `cargo xtask web` holds"),
    ("docs/web.md", "without the importers | 400 KiB", "a bound that `cargo xtask web` holds"),
    ("docs/web.md", "| 1.4 and 0.6 MB", "a bound that `cargo xtask web` holds"),
    ("docs/web.md", "99th percentile | 1 ms", "a bound that `cargo xtask web` holds"),
    ("docs/web.md", "work of the AudioWorklet | 5 % of a core", "a bound that `cargo xtask web` holds"),
    ("docs/update.md", "a family of firmware: 16 bytes", "a rule of the format"),
    ("docs/update.md", "at most 12 KiB of code and tables on a Cortex-M4", "tests/bars.rs holds it"),
    ("docs/update.md", "received in blocks of 256 bytes use at most 4 KiB", "tests/update.rs holds it"),
    ("docs/update.md", "length of the image (4 bytes)", "a rule of the protocol"),
    ("docs/update.md", "offset (4), at most 128 bytes", "a rule of the protocol"),
    ("docs/update.md", "text for a person, at most 128 bytes", "a rule of the protocol"),
];

/// The text of a page, without code, the blocks that tests write, and texts in backticks.
fn typed(page: &str) -> String {
    let mut generated = false;
    let lines = prose(page).filter(|line| {
        let end = line.starts_with("<!-- end of ");
        generated = (generated || line.starts_with("<!-- ")) && !end;
        !generated && !end
    });
    let text = lines.collect::<Vec<_>>().join("\n");
    text.split('`').step_by(2).collect::<Vec<_>>().join("`")
}

/// The positions of figures in a text: a number with a unit, a number with groups of thousands, or a part of a whole such
/// as `3 of 20`.
fn figures(text: &str) -> Vec<usize> {
    let is_number = |c: char| c.is_ascii_digit() || ".,".contains(c);
    let mut found = Vec::new();
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        // Digits within a name, such as those of `f32`, begin no number.
        let begins = c.is_ascii_digit() && !(before.is_alphanumeric() || ".,-_".contains(before));
        before = c;
        if !begins {
            continue;
        }
        let number: &str = &text[at..];
        let number = &number[..number.find(|c| !is_number(c)).unwrap_or(number.len())];
        let rest = text[at + number.len()..].trim_start_matches([' ', '\n', '\u{a0}']);
        let word = &rest[..rest.find(|c: char| !(c.is_alphanumeric() || c == '%')).unwrap_or(rest.len())];
        let digits = number.trim_end_matches(['.', ',']);
        let whole = rest.strip_prefix("of ").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        let ends = digits.len() < number.len();
        if digits.contains(',') || !ends && (UNITS.contains(&word) || whole) {
            found.push(at);
        }
    }
    found
}

/// Text with each run of white space as one space, so that it does not depend on line breaks.
fn on_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn every_figure_is_generated_or_has_a_reason() {
    let (mut wrong, mut used) = (Vec::new(), vec![false; ALLOWED.len()]);
    for page in &blocks::pages() {
        let text = fs::read_to_string(repository().join(page)).unwrap_or_else(|error| panic!("{page}: {error}"));
        let text = on_one_line(&typed(&text));
        let parts: Vec<(usize, usize, usize)> = ALLOWED
            .iter()
            .enumerate()
            .filter(|(_, (of, ..))| of == page)
            .filter_map(|(k, (_, part, _))| text.find(part).map(|at| (k, at, at + part.len())))
            .collect();
        for at in figures(&text) {
            match parts.iter().find(|(_, start, end)| (*start..*end).contains(&at)) {
                Some((k, ..)) => used[*k] = true,
                None => {
                    let around = |at: usize, by: isize| text.floor_char_boundary(at.saturating_add_signed(by));
                    wrong.push(format!("{page}: {}", &text[around(at, -40)..around(at, 50)]));
                }
            }
        }
    }
    let unused =
        ALLOWED.iter().zip(&used).filter(|(_, used)| !**used).map(|((page, part, _), _)| format!("{page}: {part}"));
    let unused: Vec<String> = unused.collect();
    assert!(
        wrong.is_empty(),
        "typed by hand; make a block from a record, or say why in ALLOWED:\n{}",
        wrong.join("\n")
    );
    assert!(unused.is_empty(), "no such figure:\n{}", unused.join("\n"));
}

#[test]
fn figures_have_a_unit_groups_of_thousands_or_a_whole() {
    let parts =
        |text: &str| figures(text).iter().map(|&at| text[at..].chars().take(4).collect()).collect::<Vec<String>>();
    assert_eq!(
        parts("in f32 by 2.2 % and 35dB, 16 of 20, 1,368 right, in 4 ms"),
        ["2.2 ", "35dB", "16 o", "1,36", "4 ms"]
    );
    assert!(parts("i8x16, 0.8, version 2.21.0, 2-3, November 2026, a 16-bit state, 3 states, i4 s").is_empty());
    let page = "a 1 %\n```\n2 %\n```\n<!-- x -->\n3 %\n<!-- end of x -->\n`4 %` 5 %\n";
    assert_eq!(figures(&typed(page)).len(), 2);
}
