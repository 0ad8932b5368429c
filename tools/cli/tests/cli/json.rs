//! `docs/json.md`: the JSON of every command has the documented shape.

use serde_json::Value;

use super::board::{Faults, listen};
use super::{Workplace, shipped};

/// The page's examples, by the command above each.
fn documented() -> Vec<(String, Value)> {
    let page = std::fs::read_to_string(shipped("../docs/json.md")).unwrap();
    let section = |text: &str| {
        let (title, rest) = text.split_once('\n')?;
        let (_, json) = rest.split_once("```json\n")?;
        let (json, _) = json.split_once("```")?;
        Some((
            title.trim_matches('`').to_owned(),
            serde_json::from_str(json).unwrap_or_else(|e| panic!("{title}: {e}")),
        ))
    };
    page.split("\n## ").skip(1).filter_map(section).collect()
}

/// The first place where values differ in their shape: the names of an object, the first element of an array, the type of
/// anything else. `null` has any shape.
fn difference(documented: &Value, found: &Value, place: &str) -> Option<String> {
    match (documented, found) {
        (Value::Null, _) | (_, Value::Null) => None,
        (Value::Object(a), Value::Object(b)) => {
            let [names, others] = [a, b].map(|object| object.keys().map(String::as_str).collect::<Vec<_>>());
            if names != others {
                return Some(format!("{place}: documented {names:?}, found {others:?}"));
            }
            a.iter().find_map(|(name, value)| difference(value, &b[name], &format!("{place}.{name}")))
        }
        (Value::Array(a), Value::Array(b)) => difference(a.first()?, b.first()?, &format!("{place}[0]")),
        (Value::Bool(_), Value::Bool(_))
        | (Value::Number(_), Value::Number(_))
        | (Value::String(_), Value::String(_)) => None,
        _ => Some(format!("{place}: documented {documented}, found {found}")),
    }
}

#[test]
fn every_command_prints_the_documented_json() {
    let here = Workplace::new();
    let index = "speech_commands/index.csv";
    let commands: [(&str, &[&str]); 23] = [
        ("tidegate demo", &["demo", "--keep", "."]),
        ("tidegate import", &["import", "GRU_S.pb", "-o", "x.safetensors"]),
        ("tidegate pack", &["pack", "GRU_S.pb", "-o", "x.tgi", "--calibrate", index, "--evaluate", index]),
        ("tidegate inspect", &["inspect", "gru_s.tgi"]),
        ("tidegate run", &["run", "gru_s.tgi", "--input", "stream.wav"]),
        ("tidegate eval", &["eval", "gru_s.tgi", "--index", index]),
        ("tidegate eval --stream", &["eval", "gru_s.tgi", "--index", index, "--stream"]),
        ("tidegate listen", &["listen", "gru_s.tgi", "--wav", "stream.wav"]),
        ("tidegate denoise", &["denoise", "noisy.wav", "clean.wav", "--recipe", "rnnoise", "weights.rnn"]),
        ("tidegate verify", &["verify", "gru_s.tgi", "--against", "GRU_S.pb", "--index", index]),
        ("tidegate keygen", &["keygen", "key.pem"]),
        ("tidegate sign", &["sign", "gru_s.tgi", "--key", "key.pem", "-o", "signed.tgi"]),
        ("tidegate sign --digest", &["sign", "gru_s.tgi", "--key", "key.pub.pem", "--digest", "gru_s.msg"]),
        ("tidegate verify-signature", &["verify-signature", "signed.tgi", "--key", "key.pub.pem"]),
        (
            "tidegate change-key",
            &["change-key", "new.pub.pem", "--root", "key.pem", "--serial", "1", "-o", "change.tgk"],
        ),
        ("tidegate flash", &["flash", "tested.tgi", "--port", "board.sock"]),
        ("tidegate bench", &["bench", "gru_s.tgi", "--stream"]),
        ("tidegate bench --streams", &["bench", "gru_s.tgi", "--streams", "3", "--threads", "2"]),
        ("tidegate zoo", &["zoo"]),
        ("tidegate inspect --for", &["inspect", "gru_s.tgi", "--for", "cortex-m4", "--mhz", "120"]),
        ("tidegate new", &["new", "kws", "--model", "gru_s.tgi", "--for", "qemu-m4"]),
        ("tidegate man", &["man", "man1"]),
        ("tidegate run", &["run", "graph.onnx", "--input", "graph.safetensors"]),
    ];
    for (name, file) in
        [("graph.onnx", "network_keywords.onnx"), ("graph.safetensors", "network_keywords.in.safetensors")]
    {
        std::fs::copy(shipped(&format!("../tests/frameworks/onnx/{file}")), here.path(name)).unwrap();
    }
    here.succeed(&["keygen", "new.pem"]);
    let documented = documented();
    for (name, args) in commands {
        if name == "tidegate flash" {
            here.succeed(&["pack", "GRU_S.pb", "-o", "g.tgi", "--numeric", "f16", "--self-test"]);
            here.succeed(&["sign", "g.tgi", "--key", "key.pem", "-o", "tested.tgi"]);
            listen(&here, &[Faults { off_after: None, lost: &[] }]);
        }
        let (_, shape) = documented.iter().find(|(title, _)| title == name).unwrap_or_else(|| panic!("{name}"));
        let mut found = here.json(&[args, &["--json"]].concat());
        // The other fields are those of `tidegate inspect`.
        if name == "tidegate inspect --for" {
            found = serde_json::json!({ "device": found["device"] });
        }
        if std::env::var_os("TIDEGATE_SHOW").is_some() {
            println!("## `{name}`\n{found:#}");
        }
        assert_eq!(difference(shape, &found, name), None);
    }
    for (title, _) in &documented {
        assert!(commands.iter().any(|(name, _)| name == title), "{title} is not tested");
    }
}

/// A name of a file may have bytes that are not UTF-8.
#[cfg(unix)]
#[test]
fn the_json_of_any_path_is_text() {
    use std::os::unix::ffi::OsStrExt;
    let here = Workplace::new();
    let output = std::ffi::OsStr::from_bytes(b"\xff.safetensors");
    let done = here.command(&["import", &super::gru_pb(), "--json", "-o"]).arg(output).output().unwrap();
    let value: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert!(done.status.success() && value["output"].as_str().unwrap().ends_with(".safetensors"));
}

#[test]
fn another_shape_is_noticed() {
    let [a, b, c] = [r#"{"a": [{"b": 1}]}"#, r#"{"a": [{"c": 1}]}"#, r#"{"a": [{"b": "1"}]}"#]
        .map(|text| serde_json::from_str::<Value>(text).unwrap());
    assert_eq!(difference(&a, &a, ""), None);
    assert!(difference(&a, &b, "").unwrap().starts_with(".a[0]: documented"));
    assert!(difference(&a, &c, "").unwrap().starts_with(".a[0].b: documented"));
}
