//! The pages of cells in `docs/cells`: all but their equations is generated from the module documentation, the specs and
//! the golden cases. The equations are typed in LaTeX and compared with those of the module documentation.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use tidegate::internals::cell::{CellKind, IntegerSpec, UNIT_SCALES, WIDE};

use super::{HEADINGS, Page, equations, fits, golden_cases, holds, is_layer, repository};

/// The start and the end of the block with the equation in a cell's module documentation.
const BLOCK: (&str, &str) = (" ```text\n", " ```\n");

/// The equation of a cell, and the text after it.
fn equation(page: &Page) -> (String, String) {
    let (_, rest) = page.section("Equation").split_once(BLOCK.0).expect("a section `# Equation` has a block of text");
    let (equation, notes) = rest.split_once(BLOCK.1).expect("the block has an end");
    (plain(equation), plain(notes))
}

/// Lines of module documentation without the space at their start.
fn plain(section: &str) -> String {
    let lines = section.lines().map(|line| line.strip_prefix(' ').unwrap_or(line));
    lines.collect::<Vec<_>>().join("\n").trim_matches('\n').to_owned()
}

/// Links of rustdoc as links of a page in `docs/cells`: to cells and layers, to files of cells, or none.
fn linked(text: &str) -> String {
    let mut parts = text.split("](super::");
    let mut linked = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once(')').expect("a link has an end");
        let kind = CellKind::ALL.iter().find(|kind| kind.spec().name == name);
        let target = match kind {
            Some(&kind) if is_layer(kind) => format!("layers.md#{name}"),
            Some(_) => format!("{name}.md"),
            None => format!("../../core/src/cell/{name}.rs"),
        };
        linked += &format!("]({target}){rest}");
    }
    // Links to the other items of `tidegate` are their names.
    while let Some((before, rest)) = linked.split_once("](crate::") {
        let (start, name) = before.rsplit_once('[').expect("a link has a start");
        let (_, rest) = rest.split_once(')').expect("a link has an end");
        linked = [start, name, rest].concat();
    }
    linked
}

/// A section of the module documentation under a heading of this level.
fn section(page: &Page, heading: &str, level: &str) -> String {
    match plain(page.section(heading)) {
        text if text.is_empty() => String::new(),
        text => format!("{level} {heading}\n\n{}\n\n", linked(&text)),
    }
}

/// The page of a cell after its equation.
fn after_equation(kind: CellKind, cases: &[(String, BTreeSet<String>)]) -> String {
    let (name, page) = (kind.spec().name, Page::of(kind));
    let notes = linked(&equation(&page).1);
    let mut text = if notes.is_empty() { String::new() } else { notes + "\n\n" };
    if primes(&page.sections) {
        text += "In sentences and tables a prime marks the new value, as in c' for c at the time t.\n\n";
    }
    for heading in HEADINGS.into_iter().filter(|heading| !["Equation", "Golden cases"].contains(heading)) {
        text += &section(&page, heading, "##");
    }
    text += &format!("## Numerics\n\nIn `f32` and `f16` with every option.\n{}\n", integers(kind));
    text += &format!(
        "| | |\n|---|---|\n| bytes of its node | [{name}](../../core/FORMAT.md#{}-{name}) in the image format |\n\
         | code | [core/src/cell/{name}.rs](../../core/src/cell/{name}.rs) |\n\
         | the same cell in f64, with error bounds | \
         [tests/support/oracle/{name}.rs](../../tests/support/oracle/{name}.rs) |\n\n",
        kind.code()
    );
    text + &golden(&page, name, cases)
}

/// Whether a page names values with a prime outside its equation.
fn primes(sections: &BTreeMap<String, String>) -> bool {
    let sections = sections.iter().map(|(heading, text)| match heading.as_str() {
        "Equation" => text.split_once(BLOCK.1).map_or("", |(_, notes)| notes),
        _ => text.as_str(),
    });
    let words = sections.flat_map(|text| text.split(|c: char| !(c.is_alphanumeric() || c == '\'')));
    words.into_iter().any(|word| word.ends_with('\'') && word.chars().count() == 2)
}

/// The forms of a cell in integers, with their options.
fn integers(kind: CellKind) -> String {
    let form = |numerics: &str, spec: Option<&IntegerSpec>| match spec {
        None => format!("- {numerics}: no\n"),
        Some(spec) => {
            let options: Vec<String> = kind
                .spec()
                .options
                .iter()
                .enumerate()
                .map(|(bit, name)| (bit as u32, *name))
                .chain([(UNIT_SCALES, "unit_scales"), (WIDE, "wide")])
                .filter(|(bit, _)| spec.options >> bit & 1 == 1)
                .map(|(_, name)| format!("`{name}`"))
                .collect();
            let options = if options.is_empty() { "none".to_owned() } else { options.join(", ") };
            format!("- {numerics}: yes; options: {options}\n")
        }
    };
    format!("\n{}{}", form("`i8x16`, `i4x16`", kind.integer_spec()), form("`i8`", kind.byte_spec()))
}

/// The golden cases of a cell, counted by pattern.
fn golden(page: &Page, name: &str, cases: &[(String, BTreeSet<String>)]) -> String {
    let mut rows = String::new();
    for pattern in page.golden() {
        let count = cases.iter().filter(|(case, cells)| fits(case, pattern) && cells.contains(name)).count();
        rows += &format!("| `{pattern}` | {count} |\n");
    }
    match rows.as_str() {
        "" => match plain(page.section("Golden cases")).as_str() {
            "None." | "None of its own." => {
                "## Golden cases\n\nNone: no framework has this cell. The oracle checks it.\n".to_owned()
            }
            other => format!("## Golden cases\n\n{other}\n"),
        },
        rows => format!(
            "## Golden cases\n\nResults that the frameworks computed, in [tests/golden](../../tests/golden).\n\n\
             | files | number |\n|---|---|\n{rows}"
        ),
    }
}

/// The list of layers, with their equations.
fn layers() -> String {
    let layers = CellKind::ALL.iter().filter(|&&kind| is_layer(kind)).map(|&kind| {
        let (name, page) = (kind.spec().name, Page::of(kind));
        let (equation, notes) = equation(&page);
        let summary = linked(&plain(page.section("")));
        let mut text = format!("## {name}\n\n{summary}\n\n```text\n{equation}\n```\n\n{}\n\n", linked(&notes));
        for heading in ["Tensors", "Options", "Extents", "Parameters", "Activations", "Known as"] {
            text += &section(&page, heading, "###");
        }
        format!("{}\n\n[Code](../../core/src/cell/{name}.rs)\n", text.trim_end())
    });
    layers.collect::<Vec<_>>().join("\n")
}

fn cells() -> impl Iterator<Item = (CellKind, String)> {
    let cells = CellKind::ALL.iter().filter(|&&kind| !is_layer(kind));
    cells.map(|&kind| (kind, format!("docs/cells/{}.md", kind.spec().name)))
}

#[test]
fn pages_of_cells_follow_from_specs_and_golden_cases() {
    let cases = golden_cases();
    for (kind, file) in cells() {
        holds(&file, "summary", &format!("{}\n", linked(&plain(Page::of(kind).section("")))));
        holds(&file, "cell", &after_equation(kind, &cases));
    }
    holds("docs/cells/layers.md", "layers", &layers());
    let page = fs::read_to_string(repository().join("core/README.md")).unwrap();
    let others = format!("LSTM, GRU and {} other recurrent cells", cells().count() - 2);
    assert!(page.contains(&others), "core/README.md lacks {others:?}");
}

#[test]
fn equations_of_pages_are_those_of_the_code() {
    let mut wrong = Vec::new();
    for (kind, file) in cells() {
        let text = fs::read_to_string(repository().join(&file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        let blocks = text.split("```math\n").skip(1).filter_map(|rest| rest.split("```").next());
        let latex = blocks.collect::<Vec<_>>().concat();
        let expected = equations::bare(&equation(&Page::of(kind)).0);
        let found = equations::read(&latex, &expected);
        if found != expected {
            wrong.push(format!("{file}:\n  is     {found}\n  not    {expected}"));
        }
    }
    assert!(wrong.is_empty(), "other equations than in the module documentation:\n{}", wrong.join("\n"));
}

#[test]
fn links_of_rustdoc_become_links_of_pages() {
    assert_eq!(
        linked(
            "[`gru`](super::gru), [scale](super::scale), [LSTM](super::mixed_memory), [`Model::finish`](crate::Model::finish)."
        ),
        "[`gru`](gru.md), [scale](layers.md#scale), [LSTM](../../core/src/cell/mixed_memory.rs), `Model::finish`."
    );
}
