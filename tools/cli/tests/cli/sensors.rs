//! Sequences of features in every command that takes data: `[n, steps, features]` in `.npy`, x and y in `.npz` and
//! safetensors, `.ts`, and an index of files. Each sequence runs from a zero state, as a device runs it.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use tidegate_model::canonical::Tensor;
use tidegate_model::data::{UNNAMED, read_tensors, write_tensors};

use super::Workplace;

const STEPS: usize = 7;
const COUNT: usize = 12;
/// Steps of a window, and from one to the next.
const WINDOW: usize = 5;
const EVERY: usize = 2;

/// An LSTM and a linear layer that PyTorch wrote, packed with windows; the same sequences in every form, and their
/// classes.
struct Sensors {
    here: Workplace,
    features: usize,
    x: Vec<f32>,
}

fn model() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/frameworks/torch/classifier.pth").display().to_string()
}

impl Sensors {
    fn new() -> Self {
        let here = Workplace::new();
        let schedule = format!("{WINDOW}/{EVERY}");
        here.succeed(&["pack", &model(), "-o", "f32.tgi", "--numeric", "f32", "--schedule", &schedule]);
        let contents = here.json(&["inspect", "f32.tgi", "--json"]);
        let features = contents["inputs"][0]["size"].as_u64().unwrap() as usize;
        // Values that repeat only after all of them, with a sign that depends on the class.
        let value = |index: usize| {
            let class = index / (STEPS * features) % 2;
            ((index * 7919 % 997) as f32 / 500.0 - 1.0) + if class == 1 { 1.0 } else { -1.0 }
        };
        let x: Vec<f32> = (0..COUNT * STEPS * features).map(value).collect();
        Self { here, features, x }
    }

    fn tensor(&self) -> Tensor {
        Tensor { shape: vec![COUNT, STEPS, self.features], data: self.x.clone() }
    }

    fn sequence(&self, index: usize) -> Tensor {
        let len = STEPS * self.features;
        Tensor { shape: vec![STEPS, self.features], data: self.x[index * len..(index + 1) * len].to_vec() }
    }

    fn write(&self, name: &str, tensors: BTreeMap<String, Tensor>) {
        write_tensors(&self.here.path(name), &tensors).unwrap();
    }

    /// Writes the sequences in every form. Their classes are those of the image, except for one sequence.
    fn write_all(&self) -> Vec<&'static str> {
        let decided = self.decided();
        let y: Vec<usize> =
            decided.iter().enumerate().map(|(index, best)| (best + usize::from(index == 3)) % self.classes()).collect();
        let vector = |data: Vec<f32>| Tensor { shape: vec![data.len()], data };
        let y_tensor = vector(y.iter().map(|&class| class as f32).collect());
        let lengths = vector(vec![STEPS as f32; COUNT]);
        let named = |suffix: &str| {
            BTreeMap::from([
                (format!("x{suffix}"), self.tensor()),
                (format!("y{suffix}"), y_tensor.clone()),
                (format!("lengths{suffix}"), lengths.clone()),
            ])
        };
        self.write("x.npy", BTreeMap::from([(UNNAMED.to_owned(), self.tensor())]));
        self.write("xy.npz", named(""));
        self.write("xy.safetensors", named(""));
        let mut both = named("_test");
        both.extend(named("_train"));
        self.write("both.npz", both);
        let mut index = "file,label\n".to_owned();
        let mut series = format!(
            "@problemName made_up\n@classLabel true {}\n@data\n",
            (0..self.classes()).map(|class| class.to_string()).collect::<Vec<_>>().join(" ")
        );
        for (at, class) in y.iter().enumerate() {
            let name = format!("s{at:02}.{}", if at % 2 == 0 { "npy" } else { "csv" });
            self.write(&name, BTreeMap::from([(UNNAMED.to_owned(), self.sequence(at))]));
            index += &format!("{name},{class}\n");
            let rows = self.sequence(at).data;
            for feature in 0..self.features {
                let column: Vec<String> =
                    rows.iter().skip(feature).step_by(self.features).map(f32::to_string).collect();
                series += &format!("{}:", column.join(","));
            }
            series += &format!("{class}\n");
        }
        self.here.write("index.csv", index);
        self.here.write("all.ts", series);
        vec!["xy.npz", "xy.safetensors", "both.npz", "all.ts", "index.csv"]
    }

    fn classes(&self) -> usize {
        self.here.json(&["inspect", "f32.tgi", "--json"])["outputs"][0]["size"].as_u64().unwrap() as usize
    }

    /// The rows of each sequence by itself.
    fn alone(&self, index: usize) -> Value {
        let name = format!("alone{index}.npy");
        self.write(&name, BTreeMap::from([(UNNAMED.to_owned(), self.sequence(index))]));
        self.here.json(&["run", "f32.tgi", "--input", &name, "--json"])["outputs"][0]["values"].clone()
    }

    /// The greatest class of the last row of each sequence.
    fn decided(&self) -> Vec<usize> {
        let best = |index| {
            let rows: Vec<f64> = self.alone(index).as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect();
            let last = &rows[rows.len() - self.classes()..];
            (0..last.len()).max_by(|a, b| last[*a].total_cmp(&last[*b])).unwrap()
        };
        (0..COUNT).map(best).collect()
    }
}

#[test]
fn many_sequences_run_as_each_alone() {
    let sensors = Sensors::new();
    let (here, mut files) = (&sensors.here, sensors.write_all());
    files.push("x.npy");
    let rows = (STEPS - WINDOW) / EVERY + 1;
    let expected: Vec<Value> = (0..COUNT).flat_map(|index| sensors.alone(index).as_array().unwrap().clone()).collect();
    for file in files {
        let run = here.json(&["run", "f32.tgi", "--input", file, "--json"]);
        assert_eq!(run["rows"], json!(vec![rows; COUNT]), "{file}");
        assert_eq!(run["outputs"][0]["shape"], json!([COUNT, rows, sensors.classes()]), "{file}");
        assert_eq!(run["outputs"][0]["values"], json!(expected), "{file}");
        here.succeed(&["run", "f32.tgi", "--input", file, "--output", "y.npy"]);
        assert_eq!(read_tensors(&here.path("y.npy")).unwrap()[UNNAMED].shape, [COUNT, rows, sensors.classes()]);
    }
    let printed = here.succeed(&["run", "f32.tgi", "--input", "x.npy"]);
    assert!(
        printed.lines().count() == 1 + COUNT * rows && printed.contains(&format!("[{COUNT} x {rows} x ")),
        "{printed}"
    );
}

#[test]
fn integers_are_calibrated_evaluated_and_verified_on_sequences() {
    let sensors = Sensors::new();
    let (here, files) = (&sensors.here, sensors.write_all());
    let schedule = format!("{WINDOW}/{EVERY}");
    let mut images = Vec::new();
    for file in files.iter().copied().chain(["x.npy"]) {
        let args = ["pack", &model(), "-o", "i.tgi", "--schedule", &schedule, "--calibrate", file, "--json"];
        let packed = here.json(&args);
        assert_eq!(packed["report"]["calibration"]["steps"].as_u64().unwrap_or(84), (COUNT * STEPS) as u64, "{file}");
        images.push(here.read("i.tgi"));
    }
    assert!(images.windows(2).all(|pair| pair[0] == pair[1]), "every form calibrates alike");
    for file in &files {
        let score = here.json(&["eval", "f32.tgi", "--index", file, "--json"]);
        assert_eq!((score["clips"].as_u64(), score["correct"].as_u64()), (Some(12), Some(11)), "{file}");
        let args =
            ["pack", &model(), "-o", "e.tgi", "--schedule", &schedule, "--calibrate", "x.npy", "--evaluate", file];
        let said = here.succeed(&args);
        assert!(said.contains("12"), "{said}");
        let verified = here.json(&["verify", "i.tgi", "--against", &model(), "--input", file, "--json"]);
        assert_eq!(verified["steps"], json!(COUNT * STEPS), "{file}");
        assert!(verified["snr_db"].as_f64().unwrap() > 20.0, "{verified}");
    }
    let by_index = here.json(&["verify", "i.tgi", "--against", &model(), "--index", "index.csv", "--json"]);
    assert_eq!(by_index, here.json(&["verify", "i.tgi", "--against", &model(), "--input", "x.npy", "--json"]));
}

#[test]
fn wrong_sequences_are_refused_in_one_line() {
    let (sensors, model) = (Sensors::new(), model());
    let here = &sensors.here;
    sensors.write_all();
    let (n, size) = (COUNT, sensors.features);
    let narrow = Tensor { shape: vec![n, STEPS * size, 1], data: sensors.x.clone() };
    sensors.write("narrow.npy", BTreeMap::from([(UNNAMED.to_owned(), narrow.clone())]));
    sensors.write("narrow.npz", BTreeMap::from([("x".to_owned(), narrow), ("y".to_owned(), sensors.tensor())]));
    sensors.write(
        "none.npz",
        BTreeMap::from([
            ("x".to_owned(), sensors.tensor()),
            ("lengths".to_owned(), Tensor { shape: vec![n], data: vec![1.0; n] }),
        ]),
    );
    let cases = [
        (vec!["run", "f32.tgi", "--input", "narrow.npy"], "takes [steps, "),
        (vec!["run", "f32.tgi", "--input", "narrow.npz"], "numbers, but x"),
        (
            vec!["run", "f32.tgi", "--input", "x.npy", "--state-out", "s"],
            "holds 12 sequences, and --state-out is for one",
        ),
        (vec!["eval", "f32.tgi", "--index", "none.npz"], "has no classes: add a tensor y"),
        (vec!["eval", "f32.tgi", "--index", "all.ts", "--stream"], "leave --stream out"),
        (
            vec!["verify", "f32.tgi", "--against", &model, "--input", "none.npz"],
            "ends before the model gives an output",
        ),
    ];
    for (args, part) in &cases {
        let done = here.run(args);
        let said = String::from_utf8(done.stderr).unwrap();
        assert!(!done.status.success() && said.contains(part) && said.lines().count() == 1, "{args:?}: {said}");
    }
}
