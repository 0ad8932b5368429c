//! Tables of the documentation from the records of measured figures (`tests/data/measured`, and those of
//! `cargo xtask icount`).

use std::fmt::Write;

use serde_json::Value;
use tidegate_tests::measured::recorded;

use super::{WIDTHS, instructions, thousands};

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is not a text"))
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is not a count"))
}

fn rows(record: &str) -> Vec<Value> {
    recorded(record).as_array().unwrap_or_else(|| panic!("{record} is not a list")).clone()
}

/// Part of a whole in percent, with one digit.
fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole as f64
}

/// `docs/accuracy.md`: correct clips in floats.
pub fn floats() -> String {
    let row = |row: &Value| {
        let counts = ["clips", "tensorflow", "f32", "f16"].map(|column| thousands(number(&row[column])));
        format!("| {} | {} |\n", text(&row["model"]), counts.join(" | "))
    };
    let rows: String = rows("hello_edge").iter().map(row).collect();
    format!("| model | clips | TensorFlow | `f32` | `f16` |\n|---|---|---|---|---|\n{rows}")
}

/// `docs/accuracy.md`: correct clips in integers.
pub fn integers() -> String {
    let row = |row: &Value| {
        let columns = ["clips", "f32", "i8x16", "i8x16 as f32", "i4x16"];
        let counts = columns.map(|column| thousands(number(&row[column])));
        format!("| {} | {} |\n", text(&row["model"]), counts.join(" | "))
    };
    let rows: String = rows("hello_edge_integer").iter().map(row).collect();
    format!(
        "| model | clips | `f32` | `i8x16` | same decision in `i8x16` as in `f32` | `i4x16` |\n\
         |---|---|---|---|---|---|\n{rows}"
    )
}

/// `docs/accuracy.md`: one stream of all clips.
pub fn streams() -> String {
    let all = rows("hello_edge_streams");
    let row = |(schedule, name): (&str, &str)| {
        let of: Vec<&Value> = all.iter().filter(|row| row["schedule"] == schedule).collect();
        let span = |figure: &dyn Fn(&Value) -> f64, digits: usize| {
            let mut figures: Vec<f64> = of.iter().map(|row| figure(row)).collect();
            figures.sort_by(f64::total_cmp);
            let shown: Vec<String> = figures.iter().map(|figure| format!("{figure:.digits$}")).collect();
            match (shown.first(), shown.last()) {
                (Some(least), Some(most)) if least == most => least.clone(),
                (Some(least), Some(most)) => format!("{least} to {most}"),
                _ => panic!("there is no stream of {schedule}"),
            }
        };
        let share = |column: &'static str| move |row: &Value| percent(number(&row[column]), number(&row["keywords"]));
        let hourly = |row: &Value| 60.0 * number(&row["false_alarms"]) as f64 / number(&row["minutes"]) as f64;
        format!(
            "| {name} | {} | {} minutes | {} % | {} % | {} |\n",
            of.len(),
            span(&|row| number(&row["minutes"]) as f64, 0),
            span(&share("right"), 1),
            span(&share("wrong"), 1),
            span(&hourly, 0)
        )
    };
    let schedules = [("windows", "windows of 25 frames every 6, as shipped"), ("endless", "endless")];
    let rows: String = schedules.map(row).concat();
    format!(
        "| schedule | seeds | length | keywords right | keywords wrong | false alarms an hour |\n\
         |---|---|---|---|---|---|\n{rows}"
    )
}

/// `docs/accuracy.md`: instructions of other runtimes.
pub fn other_runtimes() -> String {
    let record = recorded("other_runtimes");
    let list = |value: &Value| value.as_array().expect("a list").clone();
    let widths: String = list(&record["units"]).iter().map(|width| format!(" {width} |")).collect();
    let versions = record["versions"].as_object().expect("an object").iter();
    let versions: Vec<String> = versions.map(|(name, version)| format!("{name} {}", text(version))).collect();
    let row = |row: &Value| {
        let counts = list(&row["instructions"]).into_iter().map(|count| format!(" {} |", thousands(number(&count))));
        let [core, runtime, kind] = ["core", "runtime", "activations"].map(|column| text(&row[column]));
        format!("| {core} | {runtime}, {kind} |{}\n", counts.collect::<String>())
    };
    let rows: String = list(&record["counts"]).iter().map(row).collect();
    format!(
        "{}.\n{}.\n\n| core | kernel |{widths}\n|---|---|---|---|---|---|\n{rows}",
        text(&record["counted"]),
        versions.join(".\n")
    )
}

/// `docs/integers.md`: instructions of a GRU as a share of those of an LSTM.
pub fn gru_and_lstm() -> String {
    let cores = [
        ("Cortex-M0+ `i8x16`", "m0plus", "i8x16", "cortex-m0"),
        ("Cortex-M3 `i8x16`", "m3", "i8x16", "portable"),
        ("Cortex-M4 `i8x16`", "m4", "i8x16", "cortex-m4"),
        ("Cortex-M55 `i8x16`", "m55", "i8x16", "cortex-m55"),
        ("Cortex-M4F `f32`", "m4f", "f32", "portable"),
    ];
    let row = |(name, core, numeric, layout): (&str, &str, &str, &str)| {
        let cell = |width: u64| {
            let of = |cell: &str| instructions(cell, core, numeric, layout, width) as f64;
            let lstm = of("lstm");
            format!(" {:.2}, {:.2} |", of("gru_reset_after") / lstm, of("gru") / lstm)
        };
        format!("| {name} |{}\n", WIDTHS.map(cell).concat())
    };
    format!(
        "| core |{}\n|---|---|---|---|---|\n{}",
        WIDTHS.map(|width| format!(" {width} |")).concat(),
        cores.map(row).concat()
    )
}

/// `docs/training.md`: the recipes' accuracy.
pub fn recipes() -> String {
    let right = |record: &str| {
        let found = recorded(record);
        let (right, all) = (number(&found["right"]), number(&found["held_out"]));
        format!("{right} of {all}, {:.1} %", percent(right, all))
    };
    let batch = recorded("mnist_rows")["best_batch"].as_f64().expect("a share");
    format!(
        "| recipe | held out, correct |\n|---|---|\n\
         | Japanese vowels | {} |\n| MNIST by rows | {}; the best batch {:.1} % |\n\
         | keywords, the shipped image in `i8x16` | {} |\n",
        right("japanese_vowels"),
        right("mnist_rows"),
        100.0 * batch,
        right("keywords")
    )
}

/// `docs/training.md`: the same trainings here and in PyTorch.
pub fn seeds() -> String {
    let record = recorded("torch_seeds");
    let seeds = record["seeds"].as_array().expect("a list");
    let row = |row: &Value| {
        let [ours, torch] = ["tidegate", "torch"].map(|who| format!("{} of {}", row[who], record["held_out"]));
        format!("| {} | {ours} | {torch} | {} |\n", row["seed"], text(&row["apart"]))
    };
    let rows: String = seeds.iter().map(row).collect();
    format!(
        "| seed | Tidegate | PyTorch {} | largest difference of a weight |\n|---|---|---|---|\n{rows}",
        text(&record["versions"]["torch"])
    )
}

/// `docs/training.md`: LSTM layers on a GPU, here and in PyTorch.
pub fn gpu() -> String {
    let record = recorded("torch_time");
    let rows = record["rows"].as_array().expect("a list");
    let of = |math: &'static str| rows.iter().filter(move |row| row["shape"][6] == math);
    let figure = |row: &Value, path: &str| row.pointer(path).and_then(Value::as_f64).expect("a figure");
    let row = |(f32, tf32): (&Value, &Value)| {
        let [batch, steps, inputs, hidden, layers, directions] = [0, 1, 2, 3, 4, 5].map(|at| number(&f32["shape"][at]));
        assert_eq!(f32["shape"].as_array().map(|all| &all[..6]), tf32["shape"].as_array().map(|all| &all[..6]));
        // The page says that both give the same bits.
        let apart = [f32, tf32].into_iter().flat_map(|row| row["apart"].as_object().expect("differences").values());
        assert_eq!(apart.filter(|apart| **apart == 0.0).count(), 8, "{}", f32["shape"]);
        let mut cells = format!("| {batch} x {steps} | {inputs}, {hidden} | {layers} | {directions} ");
        for mode in ["forward", "training"] {
            let [ours, torch, ratio] =
                ["ours_ms", "torch_ms", "ratio"].map(|name| figure(f32, &format!("/{mode}/{name}")));
            let in_tf32 = figure(tf32, &format!("/{mode}/ratio"));
            write!(cells, "| {ours:.2} | {torch:.2} | {ratio:.2} | {in_tf32:.2} ").expect("a text grows");
        }
        format!("{cells}| {:.0}x |\n", figure(f32, "/cells_ratio"))
    };
    let table: String = of("f32").zip(of("tf32")).map(row).collect();
    assert_eq!(table.lines().count() * 2, rows.len());
    format!(
        "{}:\n\n| batch x steps | features, units | layers | directions | forward, ms | PyTorch | ratio | in tf32 | training, ms \
         | PyTorch | ratio | in tf32 | cell by cell |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|\n{table}",
        text(&record["made_by"])
    )
}
