//! `.ts` files of the Time Series Classification archive: a header of `@` lines, then one case per line. The dimensions
//! of a case are separated by `:`, the values of a dimension by `,`; its class follows the last `:`.

use std::path::Path;

use super::{DataError, Examples, read_bytes};

/// Reads the cases of a `.ts` file as sequences; their dimensions become features.
///
/// # Errors
/// If the file cannot be read, or its content is not valid.
pub fn read_series(path: &Path) -> Result<Examples, DataError> {
    let text = String::from_utf8(read_bytes(path)?).map_err(|_| DataError::new(path, "is not text"))?;
    parse(&text).map_err(|Problem { line, reason }| match line {
        Some(line) => DataError::at_line(path, line, reason),
        None => DataError::new(path, reason),
    })
}

/// An error in a file, and its line.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) line: Option<u64>,
    pub(super) reason: String,
}

pub(super) fn parse(text: &str) -> Result<Examples, Problem> {
    let mut series = Examples::default();
    let mut in_data = false;
    for (number, line) in text.lines().enumerate() {
        let problem = |reason: String| Problem { line: Some(number as u64 + 1), reason };
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if in_data {
            let (features, rows, class) = case(line, &series.labels).map_err(problem)?;
            if series.features != 0 && series.features != features {
                let before = series.features;
                return Err(problem(format!("has {features} dimensions, but the cases above have {before}")));
            }
            series.features = features;
            series.sequences.push(rows);
            series.classes.push(class);
            continue;
        }
        let mut words = line.split_whitespace();
        match words.next().map(str::to_ascii_lowercase).as_deref() {
            Some("@data") => in_data = true,
            Some("@classlabel") if words.next() == Some("true") => series.labels = words.map(str::to_owned).collect(),
            Some("@classlabel") => return Err(problem("has no classes".into())),
            Some("@timestamps") if words.next() == Some("true") => {
                return Err(problem("has time stamps, which are not supported".into()));
            }
            Some(word) if word.starts_with('@') => {}
            _ => return Err(problem("is neither a header line nor a case after @data".into())),
        }
    }
    let problem = |reason: &str| Err(Problem { line: None, reason: reason.to_owned() });
    if series.labels.is_empty() {
        return problem("has no `@classLabel true` line with the class names");
    }
    if series.sequences.is_empty() {
        return problem("has no cases after @data");
    }
    Ok(series)
}

fn case(line: &str, labels: &[String]) -> Result<(usize, Vec<f32>, usize), String> {
    let mut dimensions: Vec<&str> = line.split(':').collect();
    let label = dimensions.pop().unwrap_or_default().trim();
    let class = labels.iter().position(|known| known == label);
    let class = class.ok_or_else(|| format!("has class {label:?}, which @classLabel does not list"))?;
    let mut columns: Vec<Vec<f32>> = Vec::new();
    for dimension in &dimensions {
        let number = |text: &str| match text.trim().parse::<f32>() {
            Ok(value) if value.is_finite() => Ok(value),
            _ => Err(format!("contains {:?}, which is not a finite number", text.chars().take(20).collect::<String>())),
        };
        columns.push(dimension.split(',').map(number).collect::<Result<_, _>>()?);
    }
    let steps = columns.first().map_or(0, Vec::len);
    if columns.iter().any(|column| column.len() != steps) || steps == 0 {
        return Err("has dimensions of different lengths".into());
    }
    let rows = (0..steps).flat_map(|step| columns.iter().map(move |column| column[step])).collect();
    Ok((columns.len(), rows, class))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "#made up\n@problemName x\n@timeStamps false\n@classLabel true a b\n@data\n";

    #[test]
    fn dimensions_become_features() {
        let series = parse(&format!("{HEADER}1,2,3:4,5,6:b\n7:8:a\n")).unwrap();
        assert_eq!((series.features, series.labels), (2, vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(series.sequences[0], [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
        assert_eq!(series.classes, [1, 0]);
    }

    #[test]
    fn an_error_names_its_line() {
        let refused = |text: &str| parse(text).err().map(|problem| (problem.line, problem.reason)).unwrap();
        let line = |case: &str| refused(&format!("{HEADER}1,2:3,4:a\n{case}\n"));
        assert_eq!(line("1:2:c"), (Some(7), "has class \"c\", which @classLabel does not list".into()));
        assert_eq!(line("1,x:2,3:a"), (Some(7), "contains \"x\", which is not a finite number".into()));
        assert_eq!(line("1,NaN:2,3:a"), (Some(7), "contains \"NaN\", which is not a finite number".into()));
        assert_eq!(line("1,2:3:a"), (Some(7), "has dimensions of different lengths".into()));
        assert_eq!(line("1,2:a"), (Some(7), "has 1 dimensions, but the cases above have 2".into()));
        assert_eq!(line(":a").0, Some(7));
        assert_eq!(refused("@timeStamps true").0, Some(1));
        assert_eq!(refused("1,2:a").0, Some(1));
        assert_eq!(refused(HEADER).1, "has no cases after @data");
        assert!(refused("@data\n").1.contains("@classLabel"));
    }
}
