//! The public items of `tidegate`, as rustdoc lists them, compared with a record, so that every change of the public
//! interface appears in the diff of one file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::{Command, ExitCode};

use serde_json::Value;

use crate::Failure;
use crate::firmware::workspace_target_dir;
use crate::record::same_lines;
use crate::shell::{cargo, root, run as run_command};

const RECORD: &str = "core/public-items.txt";
/// Maximum number of items, so that users can learn them all.
const MOST: usize = 60;
const HOW_TO_RECORD: &str = "cargo xtask public --overwrite-expected";

/// Set when cargo runs this program in place of rustdoc.
const WRAPPER: &str = "TIDEGATE_XTASK_IS_RUSTDOC";

/// Runs rustdoc if cargo has called this program in its place. JSON output is unstable, and the variable that allows it
/// is set for rustdoc only: build scripts that see it would run again, and most dependencies would be rebuilt.
pub fn rustdoc() -> Option<ExitCode> {
    std::env::var_os(WRAPPER)?;
    let status = Command::new("rustdoc").args(std::env::args_os().skip(1)).env("RUSTC_BOOTSTRAP", "1").status();
    Some(if status.is_ok_and(|status| status.success()) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Compares the list with the record, or records it.
pub fn run(overwrite_expected: bool) -> Result<(), Failure> {
    let mut rustdoc = cargo(".", &["rustdoc", "--package", "tidegate", "--lib", "--release", "--locked", "--"]);
    let wrapper = std::env::current_exe().map_err(|error| format!("xtask cannot find itself: {error}"))?;
    rustdoc.args(["-Z", "unstable-options", "--output-format", "json"]).env("RUSTDOC", wrapper).env(WRAPPER, "1");
    run_command("rustdoc lists the public items of tidegate", rustdoc)?;
    let path = workspace_target_dir().join("doc/tidegate.json");
    let text = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let json: Value = serde_json::from_slice(&text).map_err(|error| format!("{}: {error}", path.display()))?;
    let (count, list) = Items::of(&json);
    eprintln!("    {count} public items");
    let record = root().join(RECORD);
    if overwrite_expected {
        eprintln!("    recording {}", record.display());
        fs::write(&record, list).map_err(|error| format!("{}: {error}", record.display()))?;
    } else {
        same_lines("rustdoc", &record, &list, HOW_TO_RECORD)?;
    }
    if count <= MOST { Ok(()) } else { Err(format!("tidegate has {count} public items: at most {MOST} are meant")) }
}

/// The items found in the modules.
struct Items<'a> {
    index: &'a Value,
    /// Each item's line by its first path, with its members.
    found: BTreeMap<String, (String, Vec<String>)>,
    seen: BTreeSet<String>,
    sources: BTreeMap<String, Vec<String>>,
}

impl<'a> Items<'a> {
    /// The number of items, and a line for each item and each of its members.
    fn of(json: &'a Value) -> (usize, String) {
        let mut items =
            Items { index: &json["index"], found: BTreeMap::new(), seen: BTreeSet::new(), sources: BTreeMap::new() };
        items.module(&json["root"], "tidegate");
        let mut text = String::new();
        for (path, (kind, members)) in &items.found {
            text += &format!("{kind} {path}\n");
            members.iter().for_each(|member| text += &format!("    {member}\n"));
        }
        (items.found.len(), text)
    }

    fn module(&mut self, id: &Value, path: &str) {
        let Some(module) = find(self.index, id) else { return };
        let children = module["inner"]["module"]["items"].as_array();
        // Items come first, so that each has the path at which it is defined, if that path is public.
        for pass in [false, true] {
            for child in children.into_iter().flatten() {
                let Some(item) = find(self.index, child) else { continue };
                let Some((kind, inner)) = item["inner"].as_object().and_then(|inner| inner.iter().next()) else {
                    continue;
                };
                let name = item["name"].as_str().or(inner["name"].as_str()).unwrap_or_default();
                match kind.as_str() {
                    "use" if pass && inner["is_glob"] == true => self.module(&inner["id"], path),
                    "use" if pass => {
                        self.named(&inner["id"], &format!("{path}::{}", inner["name"].as_str().unwrap_or(name)));
                    }
                    "use" => {}
                    _ if !pass => self.named(child, &format!("{path}::{name}")),
                    _ => {}
                }
            }
        }
    }

    fn named(&mut self, id: &Value, path: &str) {
        let Some(item) = find(self.index, id) else { return };
        if !self.seen.insert(id.to_string()) {
            return;
        }
        let Some((kind, inner)) = item["inner"].as_object().and_then(|inner| inner.iter().next()) else { return };
        if kind == "module" {
            return self.module(id, path);
        }
        let mut members = Vec::new();
        match kind.as_str() {
            "function" | "constant" | "static" | "type_alias" => members.push(self.declaration(item)),
            "struct" => self.members(&inner["kind"]["plain"]["fields"], &mut members),
            "enum" => self.members(&inner["variants"], &mut members),
            "trait" => self.members(&inner["items"], &mut members),
            _ => {}
        }
        let (index, mut traits) = (self.index, Vec::new());
        for implementation in inner["impls"].as_array().into_iter().flatten().filter_map(|id| find(index, id)) {
            let implementation = &implementation["inner"]["impl"];
            if implementation["is_synthetic"] == true || !implementation["blanket_impl"].is_null() {
                continue;
            }
            match implementation["trait"]["path"].as_str() {
                Some(name) => traits.push(name.rsplit("::").next().unwrap_or(name).to_owned()),
                None => self.members(&implementation["items"], &mut members),
            }
        }
        traits.sort_unstable();
        traits.dedup();
        if !traits.is_empty() {
            members.push(format!("impl {}", traits.join(", ")));
        }
        self.found.insert(path.to_owned(), (kind.replace('_', " "), members));
    }

    fn members(&mut self, ids: &Value, members: &mut Vec<String>) {
        let index = self.index;
        for item in ids.as_array().into_iter().flatten().filter_map(|id| find(index, id)) {
            members.push(self.declaration(item));
        }
    }

    /// The declaration of an item in its source, on one line and without its body.
    fn declaration(&mut self, item: &Value) -> String {
        let name = item["name"].as_str().unwrap_or_default();
        let span = &item["span"];
        let (Some(file), Some(begin)) = (span["filename"].as_str(), span["begin"][0].as_u64()) else {
            return name.to_owned();
        };
        let lines = self.sources.entry(file.to_owned()).or_insert_with(|| {
            let text = fs::read_to_string(root().join(file)).unwrap_or_default();
            text.lines().map(str::to_owned).collect()
        });
        let end = span["end"][0].as_u64().unwrap_or(begin) as usize;
        let lines = lines.get(begin as usize - 1..end.min(lines.len())).unwrap_or_default();
        let words: Vec<&str> = lines
            .iter()
            .filter(|line| !line.trim().starts_with("//"))
            .flat_map(|line| line.split_whitespace())
            .collect();
        let text = words.join(" ");
        let body = item["inner"].as_object().is_some_and(|inner| inner.contains_key("function"));
        let text = if body { text.split(" {").next().unwrap_or_default() } else { &text };
        let text = text.trim_end_matches([',', ';']).replace("( ", "(").replace(", )", ")");
        // If a macro generated the item, its source text is not a declaration.
        if text.contains(name) { text } else { name.to_owned() }
    }
}

fn find<'a>(index: &'a Value, id: &Value) -> Option<&'a Value> {
    index.get(id.to_string().trim_matches('"'))
}
