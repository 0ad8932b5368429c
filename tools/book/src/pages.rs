//! Pages: reads the files that pages show, and replaces links and equations.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use mdbook_driver::book::{Book, BookItem, Chapter};

use crate::links::Links;
use crate::{Failure, math};

/// The mark of a page that shows another file of the repository.
const MARK: &str = "<!-- book: ";

/// Gives the pages the text that mdBook reads.
pub fn prepare(repository: &Path, book: &mut Book) -> Result<(), Failure> {
    let shown: BTreeMap<PathBuf, PathBuf> =
        book.chapters().filter_map(|chapter| Some((file(chapter)?, page(chapter)?))).collect();
    let mut failures = Vec::new();
    book.for_each_mut(|item| {
        if let BookItem::Chapter(chapter) = item
            && let Err(failure) = text(repository, &shown, chapter)
        {
            failures.push(format!("{}: {failure}", chapter.name));
        }
    });
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n")) }
}

fn text(repository: &Path, pages: &BTreeMap<PathBuf, PathBuf>, chapter: &mut Chapter) -> Result<(), Failure> {
    let (Some(file), Some(page)) = (file(chapter), page(chapter)) else { return Err("has no file".to_owned()) };
    let text = fs::read_to_string(repository.join(&file)).map_err(|error| format!("{}: {error}", file.display()))?;
    let links = Links { repository, pages, file: &file, page: &page };
    chapter.content = links.replace(&math::replace(&text)?);
    Ok(())
}

/// The page in `docs`, from the root folder.
fn page(chapter: &Chapter) -> Option<PathBuf> {
    Some(Path::new("docs").join(chapter.source_path.as_ref()?))
}

/// The file that a page shows, from the root folder: the page itself, or the file that its mark names.
fn file(chapter: &Chapter) -> Option<PathBuf> {
    let named = chapter.content.lines().find_map(|line| line.strip_prefix(MARK)?.strip_suffix(" -->"));
    named.map(PathBuf::from).or_else(|| page(chapter))
}
