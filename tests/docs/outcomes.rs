//! Outcomes of the attributes of layers and operators, and the tables of the documentation that list them.

use std::collections::{BTreeMap, BTreeSet};

use super::holds;

/// If an attribute has the same result in at least this many layers, one row lists it for all of them.
const SHARED: usize = 6;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    Honored,
    Harmless,
    Refused,
}

const OUTCOMES: [Outcome; 3] = [Outcome::Honored, Outcome::Harmless, Outcome::Refused];

/// The outcomes of an attribute by the value that was tried.
pub type Values = Vec<(String, Outcome)>;
/// Attributes of each class.
pub type Table = BTreeMap<String, BTreeMap<String, Values>>;

/// The outcome of an attribute whose values all have the same one.
fn single(values: &Values) -> Option<Outcome> {
    let outcomes: BTreeSet<Outcome> = values.iter().map(|(_, outcome)| *outcome).collect();
    outcomes.first().copied().filter(|_| outcomes.len() == 1)
}

/// The attributes with this outcome. An attribute with several outcomes is listed with its values.
fn listed(attributes: &BTreeMap<String, Values>, wanted: Outcome, shared: &BTreeMap<String, Outcome>) -> String {
    let mut names: BTreeSet<String> = BTreeSet::new();
    for (name, values) in attributes.iter().filter(|(name, _)| !shared.contains_key(*name)) {
        for (value, _) in values.iter().filter(|(_, outcome)| *outcome == wanted) {
            let shown = value.replace('\'', "\"");
            names.insert(if single(values).is_some() { format!("`{name}`") } else { format!("`{name} = {shown}`") });
        }
    }
    names.into_iter().collect::<Vec<_>>().join(", ")
}

/// The table of an importer: first a row for the attributes with the same outcome everywhere, then a row for each class.
pub fn rows(table: &Table, what: &str) -> String {
    let mut everywhere: BTreeMap<&str, Vec<Option<Outcome>>> = BTreeMap::new();
    for (name, values) in table.values().flatten() {
        everywhere.entry(name).or_default().push(single(values));
    }
    let alike = |outcomes: &Vec<Option<Outcome>>| {
        let first = outcomes.first().copied().flatten()?;
        (outcomes.len() >= SHARED && outcomes.iter().all(|outcome| *outcome == Some(first))).then_some(first)
    };
    let shared: BTreeMap<String, Outcome> =
        everywhere.iter().filter_map(|(name, outcomes)| Some(((*name).to_owned(), alike(outcomes)?))).collect();
    let mut text = format!("| {what} | honored | harmless | refused |\n|---|---|---|---|\n");
    let common = OUTCOMES.map(|wanted| {
        let names = shared.iter().filter(|(_, outcome)| **outcome == wanted).map(|(name, _)| format!("`{name}`"));
        names.collect::<Vec<_>>().join(", ")
    });
    if !shared.is_empty() {
        text += &row("every one that has it", &common);
    }
    let (with, without): (Vec<_>, Vec<_>) =
        table.iter().partition(|(_, of)| of.keys().any(|name| !shared.contains_key(name)));
    for (class, attributes) in with {
        text += &row(&format!("`{class}`"), &OUTCOMES.map(|wanted| listed(attributes, wanted, &shared)));
    }
    if !without.is_empty() {
        let names = without.iter().map(|(class, _)| format!("`{class}`")).collect::<Vec<_>>().join(", ");
        text += &format!("\nWithout attributes of their own: {names}.\n");
    }
    text
}

fn row(name: &str, cells: &[String; 3]) -> String {
    let cells = cells.iter().map(|cell| if cell.is_empty() { " |".to_owned() } else { format!(" {cell} |") });
    format!("| {name} |{}\n", cells.collect::<String>())
}

/// Compares the block of a page with these results.
pub fn written(page: &str, table: &Table, what: &str) {
    holds(page, "attributes", &rows(table, what));
}
