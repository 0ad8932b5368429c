//! Compares the documentation with the code.
//!
//! - The page of a cell names all parts of its spec, and its golden cases exist and contain the cell.
//! - The tables of cells in `README.md` and `docs/cells.md` and the list of cells in `core/FORMAT.md` are generated from the
//!   specs and the golden cases; the tables of instructions and sizes in `docs/accuracy.md` from the records in
//!   `firmware-examples/expected`; those of accuracy and training from the ones in `tests/data/measured`; the table of
//!   `docs/hosts.md` from the newest record of `tools/compare`; the table of lines in `CONTRIBUTING.md` from the source files.
//! - Every other figure with a unit in `README.md` and `docs` is on a short list with the reason for it.
//! - Every link between pages has a target, every page is in the book, and every message on the page of errors is one of
//!   the code.
//! - Every block of code is run by a test, or a list says why not.
//! - The pages of cells follow from the specs, and their equations are those of the module documentation.
//!
//! `TIDEGATE_OVERWRITE_DOCS=1 cargo test --release -p tidegate-tests --test repository docs` writes these tables and the list again.

#[path = "docs/attributes.rs"]
mod attributes;
#[path = "docs/attributes_families.rs"]
mod attributes_families;
#[path = "docs/attributes_onnx.rs"]
mod attributes_onnx;
#[path = "docs/attributes_rtneural.rs"]
mod attributes_rtneural;
#[path = "docs/attributes_tf1.rs"]
mod attributes_tf1;
#[path = "docs/attributes_tflite.rs"]
mod attributes_tflite;
#[path = "docs/attributes_torch.rs"]
mod attributes_torch;
#[path = "docs/blocks.rs"]
mod blocks;
#[path = "docs/book.rs"]
mod book;
#[path = "docs/cells.rs"]
mod cells;
#[path = "docs/equations.rs"]
mod equations;
#[path = "docs/figures.rs"]
mod figures;
#[path = "docs/hosts.rs"]
mod hosts;
#[path = "docs/measured.rs"]
mod measured;
#[path = "docs/outcomes.rs"]
mod outcomes;
#[path = "docs/pages.rs"]
mod pages;
#[path = "docs/trial.rs"]
mod trial;
#[path = "docs/zoo.rs"]
mod zoo;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tidegate::internals::{
    cell::{
        CURVE, CellKind, CellSpec, Dim, IntegerSpec, NumberSpec, Presence, StateSpec, Storage, TensorSpec, UNIT_SCALES,
        Unit, WIDE,
    },
    gate::Gate,
};
use tidegate::{Layout, Numeric};
use tidegate_fused::{FusedModel, Isa};
use tidegate_model::pack::pack_with;
use tidegate_model::quantize::Ranges;
use tidegate_tests::bytes::in_bytes;
use tidegate_tests::golden::cells_of;
use tidegate_tests::images::AlignedBytes;
use tidegate_tests::random::{Draw, Rng, Variant, chain};

/// The headings of a page, in this order. Headings without content for a cell may be missing.
const HEADINGS: [&str; 9] = [
    "Equation",
    "Tensors",
    "Options",
    "Extents",
    "Parameters",
    "Activations",
    "Known as",
    "Deviations",
    "Golden cases",
];

/// The page of a cell: its module documentation.
struct Page {
    /// The headings in the page's order.
    headings: Vec<String>,
    /// The text under each heading. The text before the first heading is under the empty key.
    sections: BTreeMap<String, String>,
}

impl Page {
    fn of(kind: CellKind) -> Self {
        let path = repository().join(format!("core/src/cell/{}.rs", kind.spec().name));
        let source = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let (mut headings, mut sections) = (Vec::new(), BTreeMap::new());
        for line in source.lines().map_while(|line| line.strip_prefix("//!")) {
            match line.strip_prefix(" # ") {
                Some(heading) => headings.push(heading.to_owned()),
                None => {
                    let heading = headings.last().cloned().unwrap_or_default();
                    sections.entry(heading).or_insert_with(String::new).extend([line, "\n"]);
                }
            }
        }
        Self { headings, sections }
    }

    fn section(&self, heading: &str) -> &str {
        self.sections.get(heading).map_or("", String::as_str)
    }

    /// The terms in backticks in a section.
    fn terms(&self, heading: &str) -> impl Iterator<Item = &str> {
        self.section(heading).split('`').skip(1).step_by(2)
    }

    /// The patterns of golden cases that the page names.
    fn golden(&self) -> impl Iterator<Item = &str> {
        self.terms("Golden cases").filter(|term| term.contains("__"))
    }
}

/// Whether a name matches a pattern, in which `*` stands for any text.
fn fits(name: &str, pattern: &str) -> bool {
    match pattern.split_once('*') {
        None => name == pattern,
        Some((start, "")) => name.starts_with(start),
        Some((start, rest)) => {
            name.strip_prefix(start).is_some_and(|name| name.char_indices().any(|(at, _)| fits(&name[at..], rest)))
        }
    }
}

/// The headings with the names of a spec that belong under them.
fn named(spec: &CellSpec) -> [(&'static str, Vec<&'static str>); 5] {
    [
        ("Tensors", spec.canonical.iter().map(|of| of.name).collect()),
        ("Options", spec.options.to_vec()),
        ("Extents", spec.extents.iter().map(|of| of.name).collect()),
        ("Parameters", spec.params.iter().map(|of| of.name).collect()),
        ("Activations", spec.activations.iter().map(|of| of.name).collect()),
    ]
}

/// Families of golden cases, by the start of their names, and their names in `docs/cells.md`.
const SOURCES: [(&str, &str); 12] = [
    ("tf1", "TensorFlow 1"),
    ("tf2ops", "TensorFlow 2 kernels"),
    ("keras2", "Keras 2"),
    ("keras3", "Keras 3"),
    ("torch", "PyTorch"),
    ("edgeml", "EdgeML"),
    ("baselines", "OpenAI baselines"),
    ("mingru", "minGRU"),
    ("xlstm", "xLSTM"),
    ("ncps", "ncps"),
    ("cfc", "CfC's authors"),
    ("sru", "SRU's authors"),
];

/// The table of `docs/cells.md`: each cell, its golden cases by source, and the numerics it runs in.
fn table() -> String {
    let cases = golden_cases();
    let mut table =
        "| cell or layer | golden cases | `f32`, `f16` | `i8x16`, `i4x16` | `i8` | kernels of `cpu-fused`: floats | `i8x16`, `i4x16` | `i8` |\n\
                     |---|---|---|---|---|---|---|---|\n"
            .to_owned();
    for &kind in CellKind::ALL {
        let name = kind.spec().name;
        let mut proofs = Vec::new();
        for (family, source) in SOURCES {
            let count = cases.iter().filter(|(case, cells)| {
                cells.contains(name) && case.split_once("__").is_some_and(|(start, _)| start == family)
            });
            match count.count() {
                0 => {}
                count => proofs.push(format!("{source} ({count})")),
            }
        }
        if Page::of(kind).section("Golden cases").contains("TFLite's interpreter") {
            proofs.push("TFLite".to_owned());
        }
        let proofs = if proofs.is_empty() { "the oracle only".to_owned() } else { proofs.join(", ") };
        let yes = |has: bool| if has { "yes" } else { "no" };
        let (integer, byte) = (yes(kind.integer_spec().is_some()), yes(kind.byte_spec().is_some()));
        let page = if is_layer(kind) { format!("layers.md#{name}") } else { format!("{name}.md") };
        let numerics = [Numeric::F32, Numeric::I8x16, Numeric::I8];
        let kernels = numerics.map(|numeric| kernels(kind, numeric)).join(" | ");
        table += &format!("| [`{name}`](cells/{page}) | {proofs} | yes | {integer} | {byte} | {kernels} |\n");
    }
    table
}

/// The table of `README.md`: cells and layers by the numerics they run in.
fn summary() -> String {
    let mut table = "| cells | layers | `f32`, `f16` | `i8x16`, `i4x16` | `i8` |\n|---|---|---|---|---|\n".to_owned();
    for forms in [(true, true), (true, false), (false, true), (false, false)] {
        let names = |layers: bool| {
            let of = |kind: &&CellKind| (kind.integer_spec().is_some(), kind.byte_spec().is_some()) == forms;
            let kinds = CellKind::ALL.iter().filter(of).filter(|&&kind| is_layer(kind) == layers);
            kinds.map(|kind| format!("`{}`", kind.spec().name)).collect::<Vec<_>>().join(", ")
        };
        let yes = |has: bool| if has { "yes" } else { "no" };
        table += &format!("| {} | {} | yes | {} | {} |\n", names(false), names(true), yes(forms.0), yes(forms.1));
    }
    table
}

/// States whether hosts have a kernel for all, some or no variants of a cell in a numeric.
fn kernels(kind: CellKind, numeric: Numeric) -> &'static str {
    let mut rng = Rng::new(80);
    let packed: Vec<bool> = Variant::all()
        .into_iter()
        .filter(|variant| variant.kind == kind)
        .filter_map(|variant| {
            let model = chain(&mut rng, 6, &[(variant, 6)], Draw { weights: 0.5, biases: true });
            let seen = rng.numbers(8 * model.architecture.inputs[0].size, 1.0);
            let ranges = Ranges::measure(&model, [[seen.as_slice()].as_slice()]).expect("the model runs");
            let model = if numeric == Numeric::I8 { in_bytes(model) } else { model };
            // Not every variant has an integer form.
            let image = AlignedBytes::new(&pack_with(&model, numeric, &ranges, Layout::Portable).ok()?);
            // The same on every machine.
            Some(FusedModel::with_isa(&image.model(), Isa::Scalar).packed().iter().all(|&packed| packed))
        })
        .collect();
    match packed.iter().filter(|&&packed| packed).count() {
        0 => "no",
        count if count == packed.len() => "yes",
        _ => "in part",
    }
}

/// The rows of the table of instructions: name, cores (which all have the same counts), feature with their kernels, numeric,
/// layout.
const COUNTED: [(&str, &[&str], &str, &str, &str); 8] = [
    ("Cortex-M0+", &["m0plus"], "", "i8x16", "cortex-m0"),
    ("Cortex-M3", &["m3"], "`thumb2`", "i8x16", "portable"),
    ("Cortex-M4, M7", &["m4", "m7"], "`dsp`", "i8x16", "cortex-m4"),
    ("Cortex-M4, M7", &["m4", "m7"], "`dsp`", "i4x16", "cortex-m4"),
    ("Cortex-M4, M7", &["m4", "m7"], "`dsp`", "i8", "cortex-m4"),
    ("Cortex-M55", &["m55"], "`mve`", "i8x16", "cortex-m55"),
    ("RV32IMAC", &["rv32"], "", "i8x16", "portable"),
    ("Cortex-M4F", &["m4f"], "`dsp`", "f32", "portable"),
];
/// The columns of the table: input features and units of the LSTM.
const WIDTHS: [u64; 4] = [16, 32, 64, 128];

/// Instructions of a step of a cell with as many inputs as units, from the record of `cargo xtask icount`.
fn instructions(cell: &str, core: &str, numeric: &str, layout: &str, width: u64) -> u64 {
    let record = record("icount.json");
    let figures = record["figures"].as_array().expect("icount.json has figures");
    let is = |of: &&Value| {
        of["cell"] == cell
            && of["core"] == core
            && of["numeric"] == numeric
            && of["layout"] == layout
            && of["input"] == width
            && of["hidden"] == width
    };
    let found: Vec<&Value> = figures.iter().filter(is).collect();
    let [figure] = found.as_slice() else {
        panic!("icount.json has {} figures of {cell} {core} {numeric} {layout} {width}", found.len())
    };
    figure["instructions_per_step"].as_u64().expect("instructions are a whole number")
}

/// The table of instructions of an LSTM.
fn counts() -> String {
    let count =
        |core: &str, numeric: &str, layout: &str, width: u64| instructions("lstm", core, numeric, layout, width);
    let mut table = format!("| core | features |{}\n|---|---|", WIDTHS.map(|width| format!(" {width} |")).concat());
    table += &"---|".repeat(WIDTHS.len());
    table += "\n";
    for (name, cores, features, numeric, layout) in COUNTED {
        let rows: BTreeSet<[u64; WIDTHS.len()]> =
            cores.iter().map(|core| WIDTHS.map(|width| count(core, numeric, layout, width))).collect();
        assert_eq!(rows.len(), 1, "{name} {numeric}: the cores of a row do not count the same: {rows:?}");
        let row = rows.into_iter().flatten().map(|count| format!(" {} |", thousands(count)));
        let features = if features.is_empty() { " |".to_owned() } else { format!(" {features} |") };
        table += &format!("| {name} `{numeric}` |{features}{}\n", row.collect::<String>());
    }
    table
}

/// The rows of the table of sizes: a firmware for the simulated Cortex-M4F and its description.
const MEASURED: [(&str, &str); 6] = [
    ("hello_step", "a small LSTM in f32"),
    ("hello_integer", "the same network in `i8x16`"),
    ("hello_any", "an image parsed at run time, with every cell and layer"),
    ("kws_stream", "front end, GRU_S in five states, detector, all in integers"),
    ("kws_stream_f32", "the same in f32"),
    ("vad", "Silero's voice activity detector, from ONNX, in f32"),
];

/// The table of sizes, from the record of `cargo xtask size`.
fn sizes() -> String {
    let record = record("size.json");
    let all = record.as_array().expect("size.json is a list");
    let mut table = "| firmware for Cortex-M4F, `opt-level = \"s\"` | code (`.text`) | tables and text | image | RAM without stack | stack |\n\
                     |---|---|---|---|---|---|\n"
        .to_owned();
    for (firmware, what) in MEASURED {
        let found: Vec<&Value> =
            all.iter().filter(|size| size["machine"] == "mps2-an386" && size["firmware"] == firmware).collect();
        let [size] = found.as_slice() else { panic!("size.json has {} sizes of {firmware}", found.len()) };
        let columns = ["text_bytes", "rodata_bytes", "weight_bytes", "ram_bytes", "stack_bytes"];
        let columns = columns.map(|column| match size[column].as_u64().expect("a size is a whole number") {
            0 => " 0 |".to_owned(),
            bytes => format!(" {:.1} KiB |", bytes as f64 / 1024.0),
        });
        table += &format!("| `{firmware}`: {what} |{}\n", columns.concat());
    }
    table
}

fn record(name: &str) -> Value {
    let path = repository().join("firmware-examples/expected").join(name);
    let text = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Checks the text between the marks `<!-- {what} -->` and `<!-- end of {what} -->` of a file, or overwrites it.
fn holds(file: &str, what: &str, expected: &str) {
    between(file, what, expected, |found| found == format!("\n{expected}\n"));
}

/// [`holds`] with the check `is_right` in place of equality.
fn between(file: &str, what: &str, expected: &str, is_right: impl Fn(&str) -> bool) {
    let path = repository().join(file);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{file}: {error}"));
    let [start, end] = [format!("<!-- {what} -->\n"), format!("<!-- end of {what} -->\n")];
    let parts = text.split_once(&start).and_then(|(before, rest)| Some((before, rest.split_once(&end)?)));
    let (before, (found, after)) = parts.unwrap_or_else(|| panic!("{file} lacks the marks of {what}"));
    if std::env::var_os("TIDEGATE_OVERWRITE_DOCS").is_some() {
        fs::write(&path, [before, &start, "\n", expected, "\n", &end, after].concat())
            .unwrap_or_else(|error| panic!("{file}: {error}"));
    } else {
        assert!(
            is_right(found),
            "{file} is out of date; TIDEGATE_OVERWRITE_DOCS=1 updates it. Expected:\n\n{expected}"
        );
    }
}

// One test for all tables of a file: it may write the file.
#[test]
fn tables_are_those_of_specs_golden_cases_and_records() {
    holds("README.md", "summary", &summary());
    holds("docs/cells.md", "cells", &table());
    holds("docs/accuracy.md", "instructions", &counts());
    holds("docs/accuracy.md", "sizes", &sizes());
    holds("docs/accuracy.md", "accuracy in floats", &measured::floats());
    holds("docs/accuracy.md", "accuracy in integers", &measured::integers());
    holds("docs/accuracy.md", "accuracy on streams", &measured::streams());
    holds("docs/accuracy.md", "other runtimes", &measured::other_runtimes());
    holds("docs/integers.md", "GRU and LSTM", &measured::gru_and_lstm());
    holds("docs/hosts.md", "hosts", &hosts::newest_table());
    holds("docs/zoo.md", "zoo", &zoo::table());
    holds("docs/training.md", "recipes", &measured::recipes());
    holds("docs/training.md", "seeds", &measured::seeds());
    holds("docs/training.md", "GPU", &measured::gpu());
}

#[test]
fn numbers_are_grouped_by_thousands_from_the_right() {
    assert_eq!(
        [0, 999, 1000, 12_345, 123_456, 1_234_567].map(thousands).join(" "),
        "0 999 1,000 12,345 123,456 1,234,567"
    );
}

#[test]
fn the_format_agrees_with_the_specs() {
    let nodes: Vec<String> = CellKind::ALL.iter().map(|&kind| node_format(kind)).collect();
    holds("core/FORMAT.md", "cells", &nodes.join("\n"));
}

/// The fields of this cell's node record, in order.
fn node_format(kind: CellKind) -> String {
    let spec = kind.spec();
    let presence = |presence: Presence| match presence {
        Presence::Always => String::new(),
        Presence::Optional => " or 0".to_owned(),
        Presence::With(option) => format!(" with `{}`", spec.options[option as usize]),
        Presence::Without(option) => format!(" without `{}`", spec.options[option as usize]),
        Presence::Late(option) => format!(" with `{}`, not listed without", spec.options[option as usize]),
        Presence::Neither(a, b) => {
            format!(" with neither `{}` nor `{}`", spec.options[a as usize], spec.options[b as usize])
        }
        Presence::WithWithout(with, without) => {
            format!(" with `{}` without `{}`", spec.options[with as usize], spec.options[without as usize])
        }
    };
    let rows = |gates: usize, rows: &Dim| match gates {
        0 | 1 => dim(spec, rows),
        gates => format!("{gates} · {}", dim(spec, rows)),
    };
    let tensor = |of: &TensorSpec| {
        let cols = of.cols.as_ref().map_or_else(String::new, |cols| format!(" × {}", dim(spec, cols)));
        let gates = if of.gates.len() > 1 { format!(" ({})", gates(of.gates)) } else { String::new() };
        format!("`{}` \\[{}{cols}\\]{gates}{}", of.name, rows(of.gates.len(), &of.rows), presence(of.presence))
    };
    let lists = [
        ("options, from bit 0", spec.options.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>()),
        ("extents", spec.extents.iter().map(|of| format!("`{}`", of.name)).collect()),
        ("activations", spec.activations.iter().map(|of| format!("`{}`", of.name)).collect()),
        ("numbers", spec.params.iter().map(|of| format!("`{}`{}", of.name, presence(of.presence))).collect()),
        ("states", spec.states.iter().map(|of| format!("`{}` \\[{}\\]", of.name, dim(spec, &of.len))).collect()),
        ("tensors", spec.tensors.iter().map(tensor).collect()),
    ];
    let lists = lists.iter().filter(|(_, names)| !names.is_empty());
    let lists = lists.map(|(what, names)| format!("- {what}: {}\n", names.join("; ")));
    let of = |what, integer: Option<&IntegerSpec>| {
        integer.map_or_else(String::new, |integer| integer_format(spec, integer, what))
    };
    let (integer, byte) = (of("integers", kind.integer_spec()), of("`i8`", kind.byte_spec()));
    format!("## {} `{}`\n\n{}{integer}{byte}", kind.code(), spec.name, lists.collect::<String>())
}

/// The fields in an integer numeric that differ.
fn integer_format(spec: &CellSpec, integer: &IntegerSpec, what: &str) -> String {
    let presence = |presence: Presence| match presence {
        Presence::With(option) if option >= CURVE => {
            format!(" with `{}` tabulated", spec.activations[(option - CURVE) as usize].name)
        }
        Presence::With(UNIT_SCALES) => " with `unit_scales`".to_owned(),
        Presence::With(option) => format!(" with `{}`", spec.options[option as usize]),
        Presence::Without(option) => format!(" without `{}`", spec.options[option as usize]),
        Presence::Neither(a, b) => {
            format!(" with neither `{}` nor `{}`", spec.options[a as usize], spec.options[b as usize])
        }
        _ => String::new(),
    };
    let name = |index: usize| integer.tensors[index].name;
    let storage = |of: &TensorSpec| match of.storage {
        Storage::Weights(unit) => format!("weights × {}", unit_format(spec, integer, &unit)),
        Storage::F32 => "f32".to_owned(),
        Storage::Rows { input, recurrent, to } => {
            let both = recurrent.map_or_else(String::new, |(index, first)| {
                format!(" and `{}`, which is the finer one where `{}` is 1", name(index), integer.numbers[first].name)
            });
            format!("rows of `{}`{both}, to {}", name(input), units_format(spec, integer, to))
        }
        Storage::Factors { shift, from, to } => {
            let [from, to] = [from, to].map(|unit| unit_format(spec, integer, &unit));
            format!("factors from {from} to {to}, shifted right by `{}`", integer.numbers[shift].name)
        }
        Storage::Shifts => "fraction bits of each unit beyond `cell_bits`".to_owned(),
        Storage::Terms(to) => format!("terms, {}", units_format(spec, integer, to)),
        Storage::Gains(to) => format!("gains, to {}", units_format(spec, integer, to)),
        Storage::Curve => "table".to_owned(),
        Storage::Multipliers => "multipliers".to_owned(),
        Storage::Addends => "addends".to_owned(),
        Storage::Requantized { of } => format!("requantized rows of `{}`", name(of)),
        Storage::Starts { of } => format!("starts of the rows of `{}`", name(of)),
        Storage::Taps => "weights × input, in the layout `portable`".to_owned(),
        Storage::Values => "values".to_owned(),
        Storage::Index => "positions".to_owned(),
    };
    let tensor = |of: &TensorSpec| format!("`{}` ({}){}", of.name, storage(of), presence(of.presence));
    let number = |of: &NumberSpec| {
        let usual = of.usual.map_or_else(String::new, |usual| format!(", usually {usual}"));
        format!("`{}` {} to {}{usual}", of.name, of.least, of.most)
    };
    let (numbers, tensors) = (integer.numbers.iter().map(number), integer.tensors.iter().map(tensor));
    let state = |of: &StateSpec| format!("`{}` \\[{}\\]", of.name, dim(spec, &of.len));
    let states = integer.states.unwrap_or_default().iter().map(state).collect::<Vec<_>>();
    let lists = [("states", states), ("numbers", numbers.collect()), ("tensors", tensors.collect())];
    let options: Vec<&str> = spec
        .options
        .iter()
        .enumerate()
        .map(|(bit, name)| (bit as u32, *name))
        .chain([(UNIT_SCALES, "unit_scales"), (WIDE, "wide")])
        .filter(|(bit, _)| integer.options >> bit & 1 == 1)
        .map(|(_, name)| name)
        .collect();
    let options = if options.is_empty() { "none".to_owned() } else { format!("`{}`", options.join("`, `")) };
    let lists = lists.iter().filter(|(_, names)| !names.is_empty());
    let lists: String = lists.map(|(of, names)| format!("- in {what}, {of}: {}\n", names.join("; "))).collect();
    format!("- in {what}, options: {options}\n{lists}")
}

/// The scale or zero point of each gate, or of all.
fn units_format(spec: &CellSpec, integer: &IntegerSpec, units: &[Unit]) -> String {
    let mut units: Vec<String> = units.iter().map(|unit| unit_format(spec, integer, unit)).collect();
    units.dedup();
    units.join(", then ")
}

fn unit_format(spec: &CellSpec, integer: &IntegerSpec, unit: &Unit) -> String {
    match unit {
        Unit::Input => "input".to_owned(),
        Unit::Output => "output".to_owned(),
        Unit::Q15 => "2^-15".to_owned(),
        Unit::Bits(number) => format!("2^-`{}`", integer.numbers[*number].name),
        Unit::Before { activation, bits, after } => format!(
            "2^-`{}` (`{}` identity or ReLU: {})",
            integer.numbers[*bits].name,
            spec.activations[*activation].name,
            unit_format(spec, integer, after)
        ),
        Unit::When { option, with, without } => {
            let [with, without] = [with, without].map(|unit| unit_format(spec, integer, unit));
            format!("{with} with `{}`, {without} without", spec.options[*option as usize])
        }
    }
}

fn gates(gates: &[Gate]) -> String {
    gates.iter().map(|gate| format!("{gate:?}").to_lowercase()).collect::<Vec<_>>().join(", ")
}

/// A dimension in words.
fn dim(spec: &CellSpec, of: &Dim) -> String {
    let all = |dims: &[Dim], sign: &str| dims.iter().map(|of| dim(spec, of)).collect::<Vec<_>>().join(sign);
    match of {
        Dim::Input => "I".to_owned(),
        Dim::Hidden => "H".to_owned(),
        Dim::Output => "O".to_owned(),
        Dim::Extent(index) => spec.extents[*index].name.to_owned(),
        Dim::Const(number) => number.to_string(),
        Dim::Product(dims) => all(dims, " · "),
        Dim::Sum(dims) => format!("({})", all(dims, " + ")),
        Dim::Quotient([by, of]) => format!("{} / {}", dim(spec, by), dim(spec, of)),
        Dim::When(option, of) => format!("{} with `{}`", dim(spec, of), spec.options[*option as usize]),
        Dim::Unless(option, of) => format!("{} without `{}`", dim(spec, of), spec.options[*option as usize]),
    }
}

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests are in the repository")
}

/// Every golden case in the repository with the cells of its model.
fn golden_cases() -> Vec<(String, BTreeSet<String>)> {
    let folder = repository().join("tests/golden");
    let files = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = files.map(|entry| entry.expect("the folder can be read").path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "safetensors"));
    files.sort();
    let name = |path: &Path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    files.iter().map(|path| (name(path), cells_of(path))).collect()
}

fn is_layer(kind: CellKind) -> bool {
    kind.code() >= 32
}

#[test]
fn every_cell_has_a_page_that_names_all_its_parts() {
    let mut missing = Vec::new();
    for &kind in CellKind::ALL {
        let (spec, page) = (kind.spec(), Page::of(kind));
        let mut lacks = |what: String| missing.push(format!("{}.rs: {what}", spec.name));
        if page.section("").trim().is_empty() || !page.section("Equation").contains("```text") {
            lacks("a summary and a section `# Equation` with the formulas".into());
        }
        for (heading, names) in named(spec) {
            let terms: BTreeSet<&str> = page.terms(heading).collect();
            names
                .iter()
                .filter(|&name| !terms.contains(name))
                .for_each(|name| lacks(format!("`{name}` under # {heading}")));
        }
        if !is_layer(kind) && (page.section("Known as").is_empty() || page.section("Golden cases").is_empty()) {
            lacks("the sections `# Known as` and `# Golden cases`".into());
        }
    }
    assert!(missing.is_empty(), "the pages lack:\n{}", missing.join("\n"));
}

#[test]
fn every_page_has_its_sections_in_the_same_order() {
    for &kind in CellKind::ALL {
        let headings = Page::of(kind).headings;
        let ordered: Vec<&str> = HEADINGS.into_iter().filter(|known| headings.iter().any(|of| of == known)).collect();
        assert_eq!(headings, ordered, "{}.rs", kind.spec().name);
    }
}

#[test]
fn the_golden_cases_of_a_page_are_those_of_its_cell() {
    let cases = golden_cases();
    let mut wrong = Vec::new();
    for &kind in CellKind::ALL {
        let (name, page) = (kind.spec().name, Page::of(kind));
        for pattern in page.golden() {
            if !cases.iter().any(|(case, cells)| fits(case, pattern) && cells.contains(kind.spec().name)) {
                wrong.push(format!("{name}.rs: no case of {pattern} has the cell"));
            }
        }
        for (case, _) in cases.iter().filter(|(_, cells)| cells.contains(kind.spec().name) && !is_layer(kind)) {
            if !page.golden().any(|pattern| fits(case, pattern)) {
                wrong.push(format!("{name}.rs: does not name {case}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
