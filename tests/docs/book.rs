//! The book: every page is in `docs/SUMMARY.md`, and the messages on `docs/faq.md` are those of the code.

use std::collections::BTreeSet;
use std::fs;

use super::{blocks, pages, repository};

fn read(file: &str) -> String {
    fs::read_to_string(repository().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

#[test]
fn every_page_is_in_the_book_once() {
    let summary = read("docs/SUMMARY.md");
    let listed: Vec<String> = summary
        .lines()
        .filter_map(|line| Some(format!("docs/{}", line.split_once("](")?.1.strip_suffix(')')?)))
        .collect();
    let listed_once: BTreeSet<&String> = listed.iter().collect();
    assert_eq!(listed.len(), listed_once.len(), "a page is listed twice");
    let all = blocks::pages();
    let all: BTreeSet<&String> =
        all.iter().filter(|page| page.starts_with("docs/") && *page != "docs/SUMMARY.md").collect();
    assert_eq!(listed_once, all, "pages in docs/SUMMARY.md, and pages in docs");
}

/// The headings that are messages: all but the questions.
fn messages(page: &str) -> Vec<&str> {
    let (messages, _) = page.split_once("\n## Questions\n").expect("the questions come last");
    messages.lines().filter_map(|line| line.strip_prefix("### ")).collect()
}

#[test]
fn messages_of_the_faq_are_those_of_the_code() {
    let mut files = Vec::new();
    // The tests of the command line hold messages that the code puts together.
    for folder in ["core/src", "tools/model/src", "tools/cli/src", "tools/cli/tests/cli"] {
        pages::files(&repository().join(folder), "rs", &mut files);
    }
    let mut code = String::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        code += &literal(&text);
    }
    let page = read("docs/faq.md");
    let messages = messages(&page);
    assert!(messages.len() >= 25, "{}", messages.len());
    for message in messages {
        let parts: Vec<&str> = message.split('…').map(str::trim).filter(|part| part.len() > 2).collect();
        assert!(parts.iter().any(|part| part.len() >= 12), "{message:?} has no fixed part");
        for part in parts {
            assert!(code.contains(part), "docs/faq.md: {message:?}: nothing in the code says {part:?}");
        }
    }
}

/// Source text as its string literals read: with escaped quotes resolved, and without line breaks inside a literal.
fn literal(source: &str) -> String {
    let mut text = String::new();
    let mut rest = source;
    while let Some((before, after)) = rest.split_once("\\\n") {
        text += before;
        rest = after.trim_start();
    }
    (text + rest).replace("\\\"", "\"")
}

#[test]
fn broken_literals_read_as_one() {
    assert_eq!(literal("\"a \\\n      b \\\"c\\\"\""), "\"a b \"c\"\"");
}
