//! Classes and arguments that an importer knows, found by trying every word in the texts of its source: a class or an
//! argument is known if the importer does not refuse it as unknown. A known argument is then tried with values of every
//! type.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde_json::{Map, Value, json};
use tidegate_model::canonical::Canonical;
use tidegate_model::format::{Description, description::Tensors};

use super::outcomes::{Outcome, Table, Values};
use super::pages::files;
use super::repository;

pub type Args = Map<String, Value>;
/// A model, or the text of the import's error.
pub type Tried = Result<Canonical, String>;

/// The words in the texts of the Rust files below a folder that contain `mark`.
pub fn words(folder: &str, mark: &str) -> BTreeSet<String> {
    let mut sources = Vec::new();
    files(&repository().join(folder), "rs", &mut sources);
    let mut words = BTreeSet::new();
    for source in sources {
        let text = fs::read_to_string(&source).unwrap_or_else(|error| panic!("{}: {error}", source.display()));
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        if !code.contains(mark) {
            continue;
        }
        let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        // A quote within a text would only swap texts and code, both of which are words.
        let texts = lines.flat_map(|line| line.split('"').skip(1).step_by(2));
        let parts = texts.flat_map(|text| text.split(|c: char| !(c.is_ascii_alphanumeric() || "_-".contains(c))));
        words.extend(parts.filter(|word| !word.is_empty()).map(str::to_owned));
    }
    words
}

/// The end of the error for an operator that an importer does not know.
pub fn unread(op: &str) -> String {
    format!("op {op}, which this importer does not support")
}

/// The words that an importer accepts: `error` returns the text of its refusal, which names an unknown class by
/// `unknown`.
pub fn accepted(
    words: &BTreeSet<String>,
    unknown: impl Fn(&str) -> String,
    error: impl Fn(&str) -> Option<String>,
) -> BTreeSet<String> {
    let is_known = |word: &&String| !error(word).is_some_and(|error| error.contains(&unknown(word)));
    words.iter().filter(is_known).cloned().collect()
}

/// Fails unless a page has a row for each class that its importer accepts.
#[track_caller]
pub fn complete(page: &str, rows: &Table, accepted: &BTreeSet<String>) {
    assert!(!accepted.is_empty(), "{page}: no word is a class");
    let missing: Vec<&String> = accepted.iter().filter(|class| !rows.contains_key(*class)).collect();
    assert!(missing.is_empty(), "{page} has no row for these, which the importer accepts: {missing:?}");
}

/// A layer of this class over an input of this size, with these tensors.
pub fn described(framework: &str, class: &str, args: &Args, size: &Value, tensors: &Tensors) -> Tried {
    let text = json!({
        "inputs": [{"name": "x", "size": size, "steps": 4}],
        "layers": [
            {"name": "layer", "class": class, "args": args},
            // A network of one layer that passes on its input is no model.
            {"name": "end", "class": "Tanh", "framework": "torch"},
        ],
    });
    let description: Description = serde_json::from_value(text).expect("it is an architecture");
    description.model(framework, tensors, None, "").map(|imported| imported.model).map_err(|error| error.to_string())
}

/// A layer of this class without tensors.
pub fn bare(framework: &str, class: &str, args: &Args) -> Tried {
    described(framework, class, args, &json!(3), &Tensors::new())
}

/// Adds a row for each of these classes that imports without tensors and has none.
pub fn add_bare(table: &mut Table, framework: &str, classes: &BTreeSet<String>, words: &BTreeSet<String>) {
    for class in classes {
        if !table.contains_key(class) && bare(framework, class, &Args::new()).is_ok() {
            let import = Box::new(|args: &Args| bare(framework, class, args));
            let found = arguments(class, &[Base { args: Args::new(), compared: false, import }], words);
            table.insert(class.clone(), row(found));
        }
    }
}

/// A row of a table.
pub fn row(found: BTreeMap<String, Argument>) -> BTreeMap<String, Values> {
    found.into_iter().map(|(name, argument)| (name, vec![(String::new(), argument.outcome)])).collect()
}

/// A layer that imports, with its arguments.
pub struct Base<'a> {
    pub args: Args,
    /// Whether another test compares its output with numbers of the framework.
    pub compared: bool,
    /// Imports the layer with other arguments.
    pub import: Box<dyn Fn(&Args) -> Tried + 'a>,
}

/// An argument and its outcome.
pub struct Argument {
    pub outcome: Outcome,
    /// Whether numbers of the framework are compared for a value other than the default.
    pub compared: bool,
}

/// The arguments with another value at a path: a name, or names of nested objects as in `hparams.minimal`. `None` removes
/// the argument.
fn with(args: &Args, path: &str, value: Option<&Value>) -> Args {
    let mut args = args.clone();
    match (path.split_once('.'), value) {
        (Some((outer, inner)), _) => {
            let object = args.get(outer).and_then(Value::as_object).cloned().unwrap_or_default();
            args.insert(outer.to_owned(), with(&object, inner, value).into());
        }
        (None, Some(value)) => drop(args.insert(path.to_owned(), value.clone())),
        (None, None) => drop(args.remove(path)),
    }
    args
}

fn given<'a>(args: &'a Args, path: &str) -> Option<&'a Value> {
    match path.split_once('.') {
        None => args.get(path),
        Some((outer, inner)) => given(args.get(outer)?.as_object()?, inner),
    }
}

/// The arguments that the importer knows, by path.
fn known(bases: &[Base<'_>], words: &BTreeSet<String>) -> BTreeSet<String> {
    let strange = json!({"strange": [{"strange": 1}]});
    let is_known = |path: &str| {
        let unknown = format!("unknown argument {path} =");
        let tried = |base: &Base<'_>| (base.import)(&with(&base.args, path, Some(&strange)));
        bases.iter().any(|base| !tried(base).is_err_and(|error| error.contains(&unknown)))
    };
    let mut found: BTreeSet<String> = words.iter().filter(|word| is_known(word)).cloned().collect();
    let is_object = |name: &&String| bases.iter().any(|base| base.args.get(*name).is_some_and(Value::is_object));
    let objects: Vec<String> = found.iter().filter(is_object).cloned().collect();
    for object in objects {
        let within = words.iter().map(|word| format!("{object}.{word}"));
        found.extend(within.filter(|path| is_known(path)));
        found.remove(&object);
    }
    found
}

/// The effect of another value of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    /// The model differs, or the tensors no longer fit.
    Other,
    Same,
    /// The error names the argument.
    Refused,
}

impl Base<'_> {
    fn effect(&self, model: &Canonical, path: &str, value: Option<&Value>) -> Effect {
        let name = path.rsplit('.').next().unwrap_or(path);
        match (self.import)(&with(&self.args, path, value)) {
            Ok(other) if other == *model => Effect::Same,
            Err(error) if error.contains(name) => Effect::Refused,
            _ => Effect::Other,
        }
    }
}

/// Values of every type.
fn values() -> Vec<Value> {
    let numbers = [json!(0), json!(1), json!(2), json!(3), json!(7), json!(0.5), json!(-1), json!(1e-5)];
    let texts = ["relu", "tanh", "sigmoid", "linear", "same", "valid", "cpu", "lengths"].map(Value::from);
    let others = [json!(true), json!(false), json!([1]), json!([2, 2]), json!(["x"]), json!({"x": 1}), Value::Null];
    numbers.into_iter().chain(texts).chain(others).collect()
}

/// The type of a value, as importers distinguish types.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "none",
        Value::Bool(_) => "flag",
        Value::Number(number) if number.is_u64() => "size",
        Value::Number(_) => "number",
        Value::String(_) => "text",
        Value::Array(_) => "list",
        Value::Object(_) => "object",
    }
}

/// Tries one argument with all values. It is honored if a value gives another model, and harmless if all values of a
/// type give the same model. Otherwise, only its default and the value that the tensors imply may be accepted.
fn tried(bases: &[Base<'_>], path: &str) -> Argument {
    let mut all = values();
    all.extend(bases.iter().filter_map(|base| given(&base.args, path).cloned()));
    let (mut honored, mut compared, mut harmless) = (false, false, false);
    for base in bases {
        let model = (base.import)(&base.args).unwrap_or_else(|error| panic!("{path}: {error}"));
        let own = given(&base.args, path);
        compared |= base.compared && own.is_some() && base.effect(&model, path, None) != Effect::Same;
        let mut same: BTreeMap<&str, bool> = BTreeMap::new();
        for value in all.iter().filter(|value| Some(*value) != own) {
            // Other values cannot change the outcome.
            if honored {
                break;
            }
            let effect = base.effect(&model, path, Some(value));
            honored |= effect == Effect::Other;
            *same.entry(kind(value)).or_insert(true) &= effect == Effect::Same;
        }
        harmless |= same.iter().any(|(kind, same)| *kind != "none" && *same);
    }
    let outcome = match (honored || compared, harmless) {
        (true, _) => Outcome::Honored,
        (false, true) => Outcome::Harmless,
        (false, false) => Outcome::Refused,
    };
    Argument { outcome, compared }
}

/// The arguments of a class with the outcome of each. An unknown argument must be refused.
pub fn arguments(class: &str, bases: &[Base<'_>], words: &BTreeSet<String>) -> BTreeMap<String, Argument> {
    for base in bases {
        let error = (base.import)(&with(&base.args, "unheard_of", Some(&json!(1)))).err();
        let is_refused = error.as_ref().is_some_and(|error| error.contains("unknown argument unheard_of = 1"));
        assert!(is_refused, "{class} accepts an argument that it does not know: {error:?}");
    }
    known(bases, words).into_iter().map(|path| (path.clone(), tried(bases, &path))).collect()
}

#[test]
fn words_are_those_of_texts() {
    let found = words("tools/model/src/format/rtneural", "KEYS");
    assert!(found.contains("num_filters_in") && found.contains("same"), "{found:?}");
    assert!(!found.contains("malformed_if"), "a name of the code: {found:?}");
}
