//! Links of a page: those to other pages stay within the book, those to other files lead to the repository online.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

/// The repository online, before `blob` or `tree`.
const ONLINE: &str = "https://github.com/tidegate/tidegate";

/// Where links of a page lead.
pub struct Links<'a> {
    /// The root folder of the repository.
    pub repository: &'a Path,
    /// The pages of the book: the files that they show, and the pages themselves, both from the root folder.
    pub pages: &'a BTreeMap<PathBuf, PathBuf>,
    /// The file that the page shows. Its links start from here.
    pub file: &'a Path,
    /// The page in `docs`.
    pub page: &'a Path,
}

impl Links<'_> {
    /// The text with other targets. Blocks and spans of code stay.
    pub fn replace(&self, text: &str) -> String {
        let mut is_code = false;
        let mut lines = Vec::new();
        for line in text.split_inclusive('\n') {
            let is_fence = line.trim_start().starts_with("```");
            is_code ^= is_fence;
            lines.push(if is_code || is_fence { line.to_owned() } else { self.line(line) });
        }
        lines.concat()
    }

    fn line(&self, line: &str) -> String {
        let mut parts = line.split("](");
        let mut text = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (target, rest) = part.split_once(')').unwrap_or((part, ""));
            text += &format!("]({}){rest}", self.target(target));
        }
        text
    }

    fn target(&self, target: &str) -> String {
        let (path, anchor) =
            target.split_once('#').map_or((target, String::new()), |(path, anchor)| (path, format!("#{anchor}")));
        if path.is_empty() || path.contains("://") {
            return target.to_owned();
        }
        let file = clean(&folder(self.file).join(path));
        let within = self.pages.get(&file).or_else(|| file.starts_with("docs").then_some(&file));
        match within {
            Some(page) => from(folder(self.page), page) + &anchor,
            None => {
                let kind = if self.repository.join(&file).is_dir() { "tree" } else { "blob" };
                format!("{ONLINE}/{kind}/main/{}{anchor}", file.display())
            }
        }
    }
}

fn folder(file: &Path) -> &Path {
    file.parent().unwrap_or(Path::new(""))
}

/// A path without `.` and `..`.
fn clean(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(clean.pop()),
            Component::CurDir => {}
            part => clean.push(part),
        }
    }
    clean
}

/// The way from a folder to a file.
fn from(folder: &Path, file: &Path) -> String {
    let shared = folder.components().zip(file.components()).take_while(|(a, b)| a == b).count();
    let up = folder.components().skip(shared).map(|_| "..".to_owned());
    let down = file.components().skip(shared).map(|part| part.as_os_str().to_string_lossy().into_owned());
    up.chain(down).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use super::Links;

    #[test]
    fn links_lead_to_pages_or_to_the_repository() {
        let pages = [("docs/c.md", "docs/c.md"), ("core/FORMAT.md", "docs/format.md")];
        let pages = BTreeMap::from(pages.map(|(file, page)| (file.into(), page.into())));
        let replaced = |file: &str, page: &str, text: &str| {
            let [file, page] = [file, page].map(Path::new);
            Links { repository: Path::new("/none"), pages: &pages, file, page }.replace(text)
        };
        let page = "docs/cells/lstm.md";
        assert_eq!(replaced(page, page, "[a](../c.md#b), [d](#e)"), "[a](../c.md#b), [d](#e)");
        assert_eq!(replaced(page, page, "[a](../../core/FORMAT.md)"), "[a](../format.md)");
        let online = "[a](https://github.com/tidegate/tidegate/blob/main/core/src/lib.rs) b";
        assert_eq!(replaced("core/FORMAT.md", "docs/format.md", "[a](src/lib.rs) b"), online);
        assert_eq!(replaced("core/FORMAT.md", "docs/format.md", "![a](../docs/p/x.svg)"), "![a](p/x.svg)");
        assert_eq!(replaced(page, page, "[a](https://b.c/d)"), "[a](https://b.c/d)");
        assert_eq!(replaced(page, page, "```c\nx[0](y.c)\n```\n"), "```c\nx[0](y.c)\n```\n");
    }
}
