//! Checks the built pages: every link within the book has a target, anchors included.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::Failure;

/// Counts of pages and links.
pub struct Checked {
    /// Number of pages.
    pub pages: usize,
    /// Number of links and pictures.
    pub links: usize,
}

/// A built page.
struct Page {
    anchors: BTreeSet<String>,
    targets: Vec<String>,
}

/// Checks every page of a folder.
pub fn check(folder: &Path) -> Result<Checked, Failure> {
    let mut files = Vec::new();
    find(folder, &mut files)?;
    let mut pages = BTreeMap::new();
    for file in files {
        let html = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        pages.insert(file, Page::read(&html));
    }
    let (mut links, mut dead) = (0, Vec::new());
    // The page for missing pages has the addresses of the root folder of a server.
    for (file, page) in pages.iter().filter(|(file, _)| !file.ends_with("404.html")) {
        for target in page.targets.iter().filter(|target| !target.contains(':')) {
            links += 1;
            if !leads(&pages, file, target) {
                dead.push(format!("{}: {target}", file.display()));
            }
        }
    }
    if dead.is_empty() {
        Ok(Checked { pages: pages.len(), links })
    } else {
        Err(format!("dead links:\n{}", dead.join("\n")))
    }
}

/// Whether the target of a link is there.
fn leads(pages: &BTreeMap<PathBuf, Page>, from: &Path, target: &str) -> bool {
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let file = match path {
        "" => from.to_owned(),
        path => from.parent().unwrap_or(Path::new("")).join(path),
    };
    let Ok(file) = file.canonicalize() else { return false };
    anchor.is_empty()
        || pages
            .iter()
            .any(|(page, of)| page.canonicalize().is_ok_and(|page| page == file) && of.anchors.contains(anchor))
}

fn find(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let about = |error: std::io::Error| format!("{}: {error}", folder.display());
    for entry in fs::read_dir(folder).map_err(about)? {
        let path = entry.map_err(about)?.path();
        if path.is_dir() {
            find(&path, files)?;
        } else if path.extension().is_some_and(|of| of == "html") {
            files.push(path);
        }
    }
    Ok(())
}

impl Page {
    fn read(html: &str) -> Self {
        let (mut anchors, mut targets) = (BTreeSet::new(), Vec::new());
        for tag in tags(html) {
            anchors.extend(attribute(tag, "id").map(str::to_owned));
            targets.extend(["href", "src"].iter().filter_map(|name| attribute(tag, name)).map(str::to_owned));
        }
        Self { anchors, targets }
    }
}

/// The tags of a page, without those that are text of scripts.
fn tags(html: &str) -> impl Iterator<Item = &str> {
    let mut rest = html;
    std::iter::from_fn(move || {
        let (_, after) = rest.split_once('<')?;
        let (tag, after) = after.split_once('>')?;
        rest = if tag.starts_with("script") {
            after.split_once("</script>").map_or("", |(_, after)| after)
        } else {
            after
        };
        Some(tag)
    })
}

fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    let (_, value) = tag.split_once(&format!(" {name}=\""))?;
    value.split('"').next()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;

    use super::{Page, leads};

    #[test]
    fn anchors_and_targets_are_those_of_tags() {
        let page = Page::read(
            "<h1 id=\"a\"><a class=\"x\" href=\"#a\">b</a></h1><img src=\"c.svg\">\
             <script>if (1 < 2) { '<a href=\"d\">' }</script> &lt;a href=\"e\">",
        );
        assert_eq!(page.anchors, ["a".to_owned()].into());
        assert_eq!(page.targets, ["#a", "c.svg"]);
    }

    #[test]
    fn a_link_needs_its_file_and_its_anchor() {
        let folder = std::env::temp_dir().join(format!("tidegate-book-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let [a, b] = ["a.html", "b.html"].map(|name| folder.join(name));
        fs::write(&a, "").unwrap();
        fs::write(&b, "").unwrap();
        let pages = BTreeMap::from([(a.clone(), Page::read("")), (b, Page::read("<h1 id=\"there\">"))]);
        let found = ["b.html", "b.html#there", "#there", "b.html#gone", "c.html", "../c.html#there"]
            .map(|to| leads(&pages, &a, to));
        assert_eq!(found, [true, true, false, false, false, false]);
        fs::remove_dir_all(&folder).unwrap();
    }
}
