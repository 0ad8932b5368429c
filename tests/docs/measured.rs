//! Tables of the documentation from the records of measured figures (`tests/data/measured`).

use serde_json::Value;
use tidegate_tests::measured::recorded;

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is not a text"))
}

/// `docs/training.md`: the recipes' accuracy.
pub fn recipes() -> String {
    let right = |record: &str| {
        let found = recorded(record);
        let (right, all) = (found["right"].as_u64().expect("a count"), found["held_out"].as_u64().expect("a count"));
        format!("{right} of {all}, {:.1} %", 100.0 * right as f64 / all as f64)
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
