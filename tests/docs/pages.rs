//! Checks the Markdown files of the repository: links have targets, and figures that follow from the source files are
//! correct.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::{between, repository, thousands};

/// The address of this repository, before a path in it.
const ONLINE: [&str; 2] =
    ["https://github.com/tidegate/tidegate/blob/main/", "https://github.com/tidegate/tidegate/tree/main/"];

/// Files of the repository with this extension, without build folders, packages of npm, links, and those whose name begins
/// with a dot.
pub fn files(folder: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for entry in entries {
        let path = entry.expect("the folder can be read").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_left_out = name == "target" || name == "node_modules" || name.starts_with('.');
        if is_left_out || path.is_symlink() {
            continue;
        }
        if path.is_dir() {
            files(&path, extension, found);
        } else if path.extension().is_some_and(|of| of == extension) {
            found.push(path);
        }
    }
}

/// The lines of a page outside its code blocks.
pub fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut code = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        code ^= fence;
        !code && !fence
    })
}

/// The anchors of a page's headings, as GitHub makes them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text).filter(|line| line.starts_with('#'));
    let anchor = |heading: &str| {
        let kept = heading.trim_start_matches('#').trim().chars().flat_map(char::to_lowercase);
        kept.filter(|&c| c.is_alphanumeric() || "-_ ".contains(c)).map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(anchor).collect()
}

/// The targets of a line's links, `[text](target)`.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split(')').next())
}

#[test]
fn every_link_of_a_page_has_a_target() {
    let mut pages = Vec::new();
    files(repository(), "md", &mut pages);
    let (mut wrong, mut links) = (Vec::new(), 0);
    for page in &pages {
        let text = fs::read_to_string(page).unwrap_or_else(|error| panic!("{}: {error}", page.display()));
        for link in prose(&text).flat_map(targets) {
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let online = ONLINE.iter().find_map(|start| path.strip_prefix(start));
            let target = match online {
                Some(path) => repository().join(path),
                None if path.contains("://") => continue,
                None if path.is_empty() => page.clone(),
                None => page.parent().expect("a page lies in a folder").join(path),
            };
            links += 1;
            let is_there = match anchor {
                "" => target.exists(),
                anchor => fs::read_to_string(&target).is_ok_and(|text| anchors(&text).contains(anchor)),
            };
            if !is_there {
                wrong.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(links > 100, "only {links} links were found in {} pages", pages.len());
    assert!(wrong.is_empty(), "these links have no target:\n{}", wrong.join("\n"));
}

#[test]
fn links_and_anchors_are_found() {
    assert_eq!(targets("see [a](b.md#c) and [`d`](e/f.rs), [g]").collect::<Vec<_>>(), ["b.md#c", "e/f.rs"]);
    let page = "# What runs\n```sh\n# a comment\n```\n## `i8`: TFLite's, `x_y`\n";
    assert_eq!(anchors(page), ["what-runs", "i8-tflites-x_y"].map(str::to_owned).into());
}

#[test]
fn readme_names_the_oldest_rust_that_builds_this() {
    let [manifest, readme] = ["Cargo.toml", "README.md"].map(|name| {
        let path = repository().join(name);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"))
    });
    let version = manifest.split_once("rust-version = \"").and_then(|(_, rest)| rest.split_once('"'));
    let (version, _) = version.expect("the workspace has a rust-version");
    assert!(readme.contains(&format!("Rust {version} or later")), "README.md does not name Rust {version}");
}

/// CONTRIBUTING names functions behind links to their files: ``[text](file.rs), `function` ``.
#[test]
fn functions_that_contributing_names_are_in_the_files_it_links_to() {
    let text = fs::read_to_string(repository().join("CONTRIBUTING.md")).expect("CONTRIBUTING.md can be read");
    let mut found = 0;
    for rest in text.lines().flat_map(|line| line.split("](").skip(1)) {
        let Some((file, function)) = rest.split_once("), `") else { continue };
        let function = function.split('`').next().unwrap_or_default();
        let source = fs::read_to_string(repository().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        let is_there = ["(", "<"].iter().any(|end| source.contains(&format!("fn {function}{end}")));
        assert!(is_there, "{file} has no function `{function}`");
        found += 1;
    }
    assert!(found >= 5, "only {found} functions were found");
}

/// The table in `CONTRIBUTING.md` counts lines of Rust outside tests, with a row for each package of the workspace and
/// for the other folders with Rust code. Numbers may be off by a twentieth, so that small changes need no new table.
#[test]
fn the_table_of_lines_is_right() {
    let manifest = fs::read_to_string(repository().join("Cargo.toml")).expect("the workspace has a manifest");
    let members = manifest.split_once("\nmembers = [").and_then(|(_, rest)| rest.split_once(']'));
    let members = members.expect("the workspace has members").0.split('"').skip(1).step_by(2);
    let mut rows: Vec<(&str, usize, usize)> =
        members.chain(["firmware-examples", "tools/book", "tools/compare"]).map(|folder| (folder, 0, 0)).collect();
    let mut sources = Vec::new();
    files(repository(), "rs", &mut sources);
    for source in sources {
        let path = source.strip_prefix(repository()).expect("the file is of the repository");
        if path.iter().any(|part| part == "tests") {
            continue;
        }
        // Packages may contain other packages: `core/capi` does not count for `core`.
        let row = rows.iter_mut().filter(|row| path.starts_with(row.0)).max_by_key(|row| row.0.len());
        let row = row.unwrap_or_else(|| panic!("no row of the table has {}", path.display()));
        let text = fs::read_to_string(&source).unwrap_or_else(|error| panic!("{}: {error}", source.display()));
        row.1 += 1;
        row.2 += text.lines().count();
    }
    rows.retain(|row| row.1 > 0);
    let row = |name: &str, files: usize, lines: usize| {
        format!("| {name} | {} | {} |\n", thousands(files as u64), thousands(lines as u64))
    };
    let mut table = "| folder | files | lines |\n|---|---|---|\n".to_owned();
    for (folder, files, lines) in &rows {
        table += &row(&format!("`{folder}`"), *files, *lines);
    }
    let sum = |count: fn(&(&str, usize, usize)) -> usize| rows.iter().map(count).sum();
    table += &row("together", sum(|row| row.1), sum(|row| row.2));
    between("CONTRIBUTING.md", "lines", &table, |found| {
        let ([words, numbers], [expected_words, expected]) = (cells(found), cells(&table));
        let near = |(found, expected): (&String, &String)| {
            let [found, expected] = [found, expected].map(|number| number.parse::<f64>().unwrap_or(f64::INFINITY));
            (found - expected).abs() <= 0.05 * expected + 2.0
        };
        words == expected_words && numbers.len() == expected.len() && numbers.iter().zip(&expected).all(near)
    });
}

/// The cells of a table: words, and numbers without their commas.
fn cells(table: &str) -> [Vec<String>; 2] {
    let cells = table.split('|').map(|cell| cell.trim().replace(',', "")).filter(|cell| !cell.is_empty());
    let (numbers, words) = cells.partition(|cell| cell.parse::<f64>().is_ok());
    [words, numbers]
}
