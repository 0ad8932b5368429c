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
    let outcome = if import(&bytes).is_ok_and(|model| model == base) { Outcome::Harmless } else { Outcome::Honoured };
    [("squeeze_dims".to_owned(), vec![(String::new(), outcome)])].into()
}

/// The fields for the number of an operator: the older one has one byte.
const NUMBERS: [usize; 2] = [0, 3];

/// The numbers and names of operators in the importer's own list.
fn operators() -> BTreeMap<u8, String> {
    let source = repository().join("tools/model/src/format/tflite/names.rs");
    let source = std::fs::read_to_string(&source).unwrap_or_else(|error| panic!("{}: {error}", source.display()));
    let list = source.split_once("const NAMES: &str = \"\\").and_then(|(_, rest)| rest.split_once('"'));
    let list = list.expect("the importer has a list of operators").0.replace('\\', " ");
    // A custom operator has a name of its own in the file.
    let names = (0..).zip(list.split_ascii_whitespace().map(str::to_owned));
    names.filter(|(_, name)| name != "CUSTOM").collect()
}

/// Operators whose options are not tried yet: `attributes_tflite.py` needs a sample of each.
const NOT_TRIED: &[&str] = &[
    "ADD",
    "ASSIGN_VARIABLE",
    "CALL_ONCE",
    "CONCATENATION",
    "DEPTHWISE_CONV_2D",
    "MUL",
    "READ_VARIABLE",
    "SUB",
    "VAR_HANDLE",
];

#[test]
fn every_option_of_tflite_s_operators_is_honoured_harmless_or_refused() {
    let (record, files) = archive("tflite");
    let operators = operators();
    let case = record.cases.iter().find(|case| case.cls == "SOFTMAX").expect("there is a case of SOFTMAX");
    let whole = &files[&case.file];
    let mut table = of_archives(&["tflite"]);
    let mut accepted = BTreeSet::new();
    for (&code, name) in &operators {
        let unread = codes(whole).into_iter().all(|at| {
            let mut changed = whole.clone();
            NUMBERS.iter().filter_map(|&index| field(whole, at, index)).for_each(|at| changed[at] = code);
            import_bytes_with(&changed, "x.tflite", &ALONE)
                .is_err_and(|error| error.to_string().contains(&unread(name)))
        });
        if !unread {
            accepted.insert(name.clone());
        }
    }
    let reshape = record.cases.iter().find(|case| case.cls == "RESHAPE" && case.attribute == "new_shape");
    table.insert("SQUEEZE".to_owned(), squeeze(files[&reshape.expect("there is a case of RESHAPE").file].clone()));
    // The schema has no options for these; `import_tflite.rs` compares the samples that have them with the interpreter.
    for name in ["DEQUANTIZE", "EXPAND_DIMS", "LOGISTIC", "QUANTIZE", "RELU", "RELU6", "TANH", "TRANSPOSE"] {
        table.insert(name.to_owned(), BTreeMap::new());
    }
    let stale = NOT_TRIED.iter().filter(|name| !accepted.contains(**name) || table.contains_key(**name));
    let stale: Vec<_> = stale.collect();
    assert!(stale.is_empty(), "these need no exception: {stale:?}");
    accepted.retain(|name| !NOT_TRIED.contains(&name.as_str()));
    complete("docs/tflite.md", &table, &accepted);
    written("docs/tflite.md", &table, "operator");
}
