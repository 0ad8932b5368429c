//! `.csv` files as matrices: rows of numbers after an optional header.

use std::io::{self, Write};

use super::Reason;
use crate::budget::{Budget, TooCostly};
use crate::canonical::Tensor;

/// Reads a matrix, `[rows, columns]`. The first row is a header if none of its fields is a number.
pub(super) fn parse(bytes: &[u8]) -> Result<Tensor, Reason> {
    let mut reader =
        csv::ReaderBuilder::new().has_headers(false).flexible(true).trim(csv::Trim::All).from_reader(bytes);
    let mut record = csv::StringRecord::new();
    let (mut columns, mut rows, mut data) = (None, 0, Vec::with_capacity(fields(bytes)?));
    while reader.read_record(&mut record).map_err(|e| csv_reason(&e))? {
        let line = record.position().map_or(0, csv::Position::line);
        let first = columns.is_none();
        let expected = *columns.get_or_insert(record.len());
        if record.len() != expected {
            return Err(Reason::at_line(line, format!("has {} columns; the first row has {expected}", record.len())));
        }
        if first && record.iter().all(|field| field.parse::<f32>().is_err()) && record.iter().any(|f| !f.is_empty()) {
            continue;
        }
        for (column, field) in (1..).zip(&record) {
            data.push(number(field).map_err(|e| Reason::at_line(line, format!("column {column}: {e}")))?);
        }
        rows += 1;
    }
    match (columns, rows) {
        (Some(columns), 1..) => Ok(Tensor { shape: vec![rows, columns], data }),
        _ => Err("has no row of numbers".into()),
    }
}

/// An upper bound of the number of fields, if there is memory for them and for the longest row.
fn fields(bytes: &[u8]) -> Result<usize, TooCostly> {
    let mut budget = Budget::of_file(bytes.len());
    let separators = |bytes: &[u8]| bytes.iter().filter(|&&byte| byte == b',').count() + 1;
    let (mut all, mut most) = (0, 0);
    for row in bytes.split(|&byte| byte == b'\n' || byte == b'\r') {
        all += separators(row);
        most = most.max(row.len() + size_of::<usize>() * separators(row));
    }
    // The reader's row grows by doubling, and is copied once without the spaces around its fields. Quotes may join rows.
    budget.take(all, size_of::<f32>())?;
    budget.take(most, 4)?;
    Ok(all)
}

fn number(field: &str) -> Result<f32, String> {
    let value: f32 = field.parse().map_err(|_| match field {
        "" => "is empty".to_owned(),
        _ => format!("`{}` is not a number", super::shortened(field)),
    })?;
    match value.is_infinite() && field.bytes().any(|b| b.is_ascii_digit()) {
        true => Err(format!("`{}` exceeds the range of f32", super::shortened(field))),
        false => Ok(value),
    }
}

/// Converts an error of the CSV reader, with its line.
pub(super) fn csv_reason(error: &csv::Error) -> Reason {
    let text = match error.kind() {
        csv::ErrorKind::Utf8 { .. } => "is not UTF-8 text".to_owned(),
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("has {len} columns; the header has {expected_len}")
        }
        _ => error.to_string(),
    };
    Reason { line: error.position().map(csv::Position::line), text }
}

/// Writes the rows of a matrix without a header. Every number is the shortest text that reads back as the same `f32`.
pub(super) fn write(tensor: &Tensor, out: &mut dyn Write) -> io::Result<()> {
    let columns = tensor.shape.last().copied().unwrap_or(1).max(1);
    for row in tensor.data.chunks(columns) {
        for (i, value) in row.iter().enumerate() {
            write!(out, "{}{value:?}", if i == 0 { "" } else { "," })?;
        }
        writeln!(out)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(text: &str) -> String {
        parse(text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn a_header_is_optional() {
        let with = parse(b"a, b\n1,2\n-3e-2, 4\n").unwrap();
        assert_eq!(with, parse(b"1,2\r\n-0.03,4").unwrap());
        assert_eq!((with.shape, with.data), (vec![2, 2], vec![1., 2., -0.03, 4.]));
    }

    #[test]
    fn errors_name_line_and_column() {
        assert_eq!(reason("1,2\n3,x\n"), "line 2: column 2: `x` is not a number");
        assert_eq!(reason("1,2\n3\n"), "line 2: has 1 columns; the first row has 2");
        assert_eq!(reason("1,x\n"), "line 1: column 2: `x` is not a number");
        assert_eq!(reason("1,\n"), "line 1: column 2: is empty");
        assert_eq!(reason("1e39\n"), "line 1: column 1: `1e39` exceeds the range of f32");
        assert_eq!(reason("a,b\n"), "has no row of numbers");
        assert_eq!(reason(""), "has no row of numbers");
    }
}
