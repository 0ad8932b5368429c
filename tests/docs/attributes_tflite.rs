//! The table of TFLite's operators has a row for each one that the importer accepts.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_model::format::import_bytes_with;
use tidegate_tests::import::ALONE;

use super::attributes::{archive, of_archives};
use super::outcomes::{Outcome, Values, written};
use super::repository;
use super::trial::{complete, unread};

/// The position of a field of a table in a TFLite file; `None` if it is absent.
fn field(bytes: &[u8], table: usize, index: usize) -> Option<usize> {
    let vtable = table - i32::from_le_bytes(bytes[table..table + 4].try_into().expect("four bytes")) as usize;
    let number = |at: usize| usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
    let at = 4 + 2 * index;
    (at < number(vtable)).then(|| number(vtable + at)).filter(|&offset| offset > 0).map(|offset| table + offset)
}

fn followed(bytes: &[u8], at: usize) -> usize {
    at + u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")) as usize
}

/// The tables of the operators' numbers in a TFLite file.
fn codes(bytes: &[u8]) -> Vec<usize> {
    let list = followed(bytes, field(bytes, followed(bytes, 0), 1).expect("the model has operators"));
    let len = u32::from_le_bytes(bytes[list..list + 4].try_into().expect("four bytes")) as usize;
    (1..=len).map(|index| followed(bytes, list + 4 * index)).collect()
}

/// The row of `SQUEEZE`, which no sample has: a `RESHAPE` with the number and the options of a `SQUEEZE`.
fn squeeze(mut bytes: Vec<u8>) -> BTreeMap<String, Values> {
    const RESHAPE: u8 = 17;
    let list = |bytes: &[u8], table: usize, index: usize| followed(bytes, field(bytes, table, index).expect("a list"));
    let graph = followed(&bytes, list(&bytes, followed(&bytes, 0), 2) + 4);
    let operators = list(&bytes, graph, 3);
    // The first operator, which reads the input.
    let operator = followed(&bytes, operators + 4);
    let kind = field(&bytes, operator, 3).filter(|&at| bytes[at] == RESHAPE).expect("it is a RESHAPE with options");
    let code = codes(&bytes)[field(&bytes, operator, 0).map_or(0, |at| usize::from(bytes[at]))];
    for index in NUMBERS {
        field(&bytes, code, index).into_iter().for_each(|at| bytes[at] = 43);
    }
    bytes[kind] = 30;
    let options = list(&bytes, operator, 4);
    let dims = list(&bytes, options, 0);
    let import = |bytes: &[u8]| import_bytes_with(bytes, "x.tflite", &ALONE).map(|imported| imported.model);
    let base = import(&bytes).unwrap_or_else(|error| panic!("{error}"));
    bytes[dims + 4] ^= 1;
    // The shape of the output says which dimensions remain.
    let outcome = if import(&bytes).is_ok_and(|model| model == base) { Outcome::Harmless } else { Outcome::Honored };
    [("squeeze_dims".to_owned(), vec![(String::new(), outcome)])].into()
}

/// The fields for the number of an operator. The older field has one byte, and holds 127 for greater numbers.
const NUMBERS: [usize; 2] = [0, 3];

/// The names of operators in the importer's own list, in the order of their numbers.
fn operators() -> Vec<String> {
    let source = repository().join("tools/model/src/format/tflite/names.rs");
    let source = std::fs::read_to_string(&source).unwrap_or_else(|error| panic!("{}: {error}", source.display()));
    let list = source.split_once("const NAMES: &str = \"\\").and_then(|(_, rest)| rest.split_once('"'));
    let list = list.expect("the importer has a list of operators").0.replace('\\', " ");
    list.split_ascii_whitespace().map(str::to_owned).collect()
}

/// The file with another number in place of one operator's.
fn renumbered(whole: &[u8], from: usize, to: usize) -> Vec<u8> {
    let mut changed = whole.to_vec();
    let places = |code| NUMBERS.map(|index| field(whole, code, index).expect("an operator has both numbers"));
    let mut all = codes(whole).into_iter().map(places);
    let [older, newer] = all.find(|[_, newer]| usize::from(whole[*newer]) == from).expect("the model has the operator");
    (changed[older], changed[newer]) = (to.min(127) as u8, to as u8);
    changed
}

#[test]
fn every_option_of_tflite_s_operators_is_honored_harmless_or_refused() {
    let (record, files) = archive("tflite");
    let operators = operators();
    let file_of = |class: &str| {
        let case = record.cases.iter().find(|case| case.cls == class);
        &files[&case.unwrap_or_else(|| panic!("there is no case of {class}")).file]
    };
    let number = |name: &str| operators.iter().position(|of| of == name).expect("the importer has the operator");
    // Some operators are accepted only beside variables.
    let hosts = [("SOFTMAX", file_of("SOFTMAX")), ("DEPTHWISE_CONV_2D", file_of("SPLIT"))];
    let mut table = of_archives(&["tflite"]);
    // A row of int8 is dropped if it equals the row of floats.
    let floats = table.clone();
    let in_floats = |class: &str| class.replace(" (int8)", "").replace(", int8)", ")");
    table.retain(|class, row| in_floats(class) == *class || floats.get(&in_floats(class)) != Some(row));
    let mut accepted = BTreeSet::new();
    // A custom operator has a name of its own.
    for (code, name) in operators.iter().enumerate().filter(|(_, name)| *name != "CUSTOM") {
        let is_unread = hosts.iter().all(|(replaced, whole)| {
            import_bytes_with(&renumbered(whole, number(replaced), code), "x.tflite", &ALONE)
                .is_err_and(|error| error.to_string().contains(&unread(name)))
        });
        if !is_unread {
            accepted.insert(name.clone());
        }
    }
    let reshape = record.cases.iter().find(|case| case.cls == "RESHAPE" && case.attribute == "new_shape");
    table.insert("SQUEEZE".to_owned(), squeeze(files[&reshape.expect("there is a case of RESHAPE").file].clone()));
    // The schema has no options for these; `import_tflite.rs` and `import_tflite_cells.rs` compare the samples that
    // have them with the interpreter.
    for name in [
        "BATCH_TO_SPACE_ND",
        "DEQUANTIZE",
        "EXPAND_DIMS",
        "LOG",
        "PAD",
        "QUANTIZE",
        "REVERSE_V2",
        "SPACE_TO_BATCH_ND",
        "SQUARE",
        "TILE",
        "TRANSPOSE",
    ] {
        table.insert(name.to_owned(), BTreeMap::new());
    }
    println!("{} cases, {} operators accepted", record.cases.len(), accepted.len());
    complete("docs/tflite.md", &table, &accepted);
    written("docs/tflite.md", &table, "operator");
}
