//! Circles of files, that is, dependency cycles: files of one crate that use each other, directly or through others. A
//! submodule may use the file that declares it, and re-exports do not count. A circle fails `cargo xtask check`.
//!
//! Only tokens are read: `use` declarations, and paths that start with `crate`, `self`, `super` or a module in scope. A
//! name is followed through re-exports to the file that defines it. Macros are not expanded, and unit tests are skipped.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::{fs, mem};

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};

use crate::Failure;
use crate::shell::{self, root};

/// The source folder of each crate.
const CRATES: [&str; 10] = [
    "core/src",
    "core/update/src",
    "cpu-fused/src",
    "gpu-host/src",
    "gpu-host/stand-in/src",
    "gpu-host/measure/src",
    "tools/model/src",
    "tools/cli/src",
    "tools/python/src",
    "tools/xtask/src",
];

/// Fails with every circle.
pub fn check() -> Result<(), Failure> {
    let mut problems = Vec::new();
    for folder in CRATES.iter().filter(|folder| root().join(folder).is_dir()) {
        let mut files = Vec::new();
        read(&root().join(folder), "", &mut files)?;
        let house = Crate::new(&files)?;
        let ties = |circle: &Vec<usize>| format!("{folder}: a circle of files:\n{}", house.ties(circle));
        problems.extend(house.circles().iter().map(ties));
    }
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n")) }
}

/// Reads every Rust file below `folder`, with its path from the source folder.
fn read(folder: &Path, prefix: &str, files: &mut Vec<(String, String)>) -> Result<(), Failure> {
    for entry in fs::read_dir(folder).map_err(shell::about(folder))? {
        let path = entry.map_err(shell::about(folder))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            read(&path, &format!("{prefix}{name}/"), files)?;
        } else if name.ends_with(".rs") {
            files.push((format!("{prefix}{name}"), shell::read(&path)?));
        }
    }
    Ok(())
}

/// The modules of a crate, one for each file.
#[derive(Debug)]
struct Crate {
    modules: Vec<Module>,
    by_path: BTreeMap<Vec<String>, usize>,
}

#[derive(Debug, Default)]
struct Module {
    file: String,
    /// Module path, empty for the root of the crate.
    path: Vec<String>,
    /// Names that `use` brings into scope, and their paths.
    bindings: BTreeMap<String, Vec<String>>,
    globs: Vec<Vec<String>>,
    items: BTreeSet<String>,
    /// Every path in the file.
    paths: BTreeSet<Vec<String>>,
    uses: BTreeSet<usize>,
}

impl Crate {
    fn new(files: &[(String, String)]) -> Result<Self, Failure> {
        let modules: Result<Vec<_>, _> = files.iter().map(|(file, text)| Module::read(file, text)).collect();
        let mut modules = modules?;
        modules.sort_by(|a, b| a.path.cmp(&b.path));
        let by_path = modules.iter().enumerate().map(|(index, module)| (module.path.clone(), index)).collect();
        let mut house = Self { modules, by_path };
        for index in 0..house.modules.len() {
            let paths = house.modules[index].paths.iter();
            let uses = paths.filter_map(|path| house.resolve(index, path, 0));
            let uses = uses.filter(|&to| !house.belongs_to(index, to)).collect();
            house.modules[index].uses = uses;
        }
        Ok(house)
    }

    /// The file that defines the item at `path`, as seen from a module. `None` for other crates and for the root.
    fn resolve(&self, from: usize, path: &[String], depth: usize) -> Option<usize> {
        let mut at = self.modules[from].path.clone();
        let mut rest = path;
        match rest.first()?.as_str() {
            "crate" => at.clear(),
            "self" => {}
            "super" => {
                at.pop();
            }
            _ => return self.lookup(from, rest, depth),
        }
        rest = &rest[1..];
        while let Some((first, more)) = rest.split_first().filter(|(first, _)| *first == "super") {
            debug_assert_eq!(first, "super");
            at.pop();
            rest = more;
        }
        // The files of a folder without a module of its own are modules of other ones, by `#[path]`.
        if let (None, Some((file, more))) = (self.by_path.get(&at), rest.split_first()) {
            at.push(file.clone());
            rest = more;
        }
        let module = *self.by_path.get(&at)?;
        if rest.is_empty() { self.not_root(module) } else { self.lookup(module, rest, depth).or(self.not_root(module)) }
    }

    fn not_root(&self, module: usize) -> Option<usize> {
        (!self.modules[module].path.is_empty()).then_some(module)
    }

    /// The file that defines a name in a module: a submodule, an item or a re-export.
    fn lookup(&self, module: usize, names: &[String], depth: usize) -> Option<usize> {
        // Deeper than any chain of re-exports.
        if depth > 8 {
            return None;
        }
        let (first, rest) = names.split_first()?;
        let of = &self.modules[module];
        let mut child = of.path.clone();
        child.push(first.clone());
        if let Some(&child) = self.by_path.get(&child) {
            return if rest.is_empty() { Some(child) } else { self.lookup(child, rest, depth).or(Some(child)) };
        }
        if let Some(path) = of.bindings.get(first).filter(|path| path.first() != Some(first)) {
            let path: Vec<String> = path.iter().chain(rest).cloned().collect();
            return self.resolve(module, &path, depth + 1);
        }
        if of.items.contains(first) {
            return self.not_root(module);
        }
        of.globs.iter().find_map(|glob| {
            let path: Vec<String> = glob.iter().chain(names).cloned().collect();
            let found = self.resolve(module, &path, depth + 1)?;
            self.modules[found].items.contains(names.last()?).then_some(found)
        })
    }

    /// Groups of files that use each other.
    fn circles(&self) -> Vec<Vec<usize>> {
        let reach: Vec<BTreeSet<usize>> = (0..self.modules.len()).map(|start| self.reachable(start)).collect();
        let mut circles: Vec<Vec<usize>> = Vec::new();
        for start in 0..self.modules.len() {
            let circle: Vec<usize> =
                reach[start].iter().copied().filter(|&other| reach[other].contains(&start)).collect();
            if circle.first() == Some(&start) && circle.len() > 1 {
                circles.push(circle);
            }
        }
        circles
    }

    /// Whether `file` is `other` or one of its submodules.
    fn belongs_to(&self, file: usize, other: usize) -> bool {
        self.modules[file].path.starts_with(&self.modules[other].path)
    }

    fn reachable(&self, start: usize) -> BTreeSet<usize> {
        let (mut found, mut open) = (BTreeSet::new(), vec![start]);
        while let Some(module) = open.pop() {
            open.extend(self.modules[module].uses.iter().filter(|&&next| found.insert(next)));
        }
        found
    }

    /// A line for each file of a circle: the other files of the circle that it uses.
    fn ties(&self, circle: &[usize]) -> String {
        let file = |module: &usize| self.modules[*module].file.as_str();
        let line = |from: &usize| {
            let to: Vec<&str> = self.modules[*from].uses.iter().filter(|to| circle.contains(to)).map(file).collect();
            format!("  {} -> {}\n", file(from), to.join(", "))
        };
        circle.iter().map(line).collect()
    }
}

const ITEMS: [&str; 10] = ["struct", "enum", "union", "trait", "type", "fn", "const", "static", "macro_rules", "mod"];

impl Module {
    fn read(file: &str, text: &str) -> Result<Self, Failure> {
        let mut path: Vec<String> = file.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
        path.pop_if(|name| ["mod", "lib", "main"].contains(&name.as_str()));
        let mut module = Self { file: file.to_owned(), path, ..Self::default() };
        let mut words = Vec::new();
        flatten(text.parse().map_err(shell::about(file.as_ref()))?, &mut words);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        // The depth of braces at which each inline module begins.
        let (mut depth, mut inline) = (0, Vec::new());
        let mut at = 0;
        while at < words.len() {
            let word = words[at];
            let next = |by: usize| words.get(at + by).copied().unwrap_or_default();
            match word {
                "{" => depth += 1,
                "}" => {
                    depth -= 1;
                    inline.pop_if(|began| *began == depth);
                }
                "mod" if next(2) == "{" => inline.push(depth),
                "#" if words[at..].starts_with(&["#", "[", "cfg", "(", "test", ")", "]"]) => {
                    at = end_of_item(&words, at + 7);
                    continue;
                }
                "use" => {
                    let re_export = at.checked_sub(1).is_some_and(|before| ["pub", ")"].contains(&words[before]));
                    at = module.tree(&words, at + 1, &[], (!re_export).then_some(inline.len()));
                }
                _ if ITEMS.contains(&word) => {
                    module.items.insert(next(if next(1) == "!" { 2 } else { 1 }).to_owned());
                }
                _ if next(1) == "::" && at.checked_sub(1).is_none_or(|before| words[before] != "::") => {
                    let mut path = vec![word.to_owned()];
                    while words.get(at + 1) == Some(&"::") && words.get(at + 2).is_some_and(|word| is_name(word)) {
                        path.push(words[at + 2].to_owned());
                        at += 2;
                    }
                    module.mention(path, inline.len());
                }
                _ => {}
            }
            at += 1;
        }
        Ok(module)
    }

    /// Reads the `use` tree at `at`, inside a number of inline modules, and returns its end. `inline` is `None` for a
    /// re-export, which counts only where its name is used.
    fn tree(&mut self, words: &[&str], mut at: usize, prefix: &[String], inline: Option<usize>) -> usize {
        let mut path = prefix.to_vec();
        loop {
            match words.get(at).copied().unwrap_or(";") {
                "{" => {
                    while !matches!(words.get(at).copied().unwrap_or("}"), "}" | ";") {
                        at = self.tree(words, at + 1, &path, inline);
                    }
                    return at + 1;
                }
                "*" => {
                    if let Some(inline) = inline {
                        self.mention(path.clone(), inline);
                    }
                    if inline.is_none_or(|inline| inline == 0) {
                        self.globs.push(path);
                    }
                    return at + 1;
                }
                "::" => {}
                "as" => {
                    let name = words.get(at + 1).copied().unwrap_or_default();
                    self.bind(name, path, inline);
                    return at + 2;
                }
                "self" if path.len() > 1 => {}
                "," | "}" | ";" => {
                    if let Some(name) = path.last().cloned() {
                        self.bind(&name, path, inline);
                    }
                    return at;
                }
                name => path.push(name.to_owned()),
            }
            at += 1;
        }
    }

    fn bind(&mut self, name: &str, path: Vec<String>, inline: Option<usize>) {
        if inline.is_none_or(|inline| inline == 0) {
            self.bindings.entry(name.to_owned()).or_insert_with(|| path.clone());
        }
        if let Some(inline) = inline {
            self.mention(path, inline);
        }
    }

    /// Adds a path. Each inline module around it takes one `super`.
    fn mention(&mut self, mut path: Vec<String>, inline: usize) {
        for _ in 0..inline {
            match path.first().map(String::as_str) {
                Some("super") if path.get(1).is_some_and(|next| next == "super") => {
                    path.remove(0);
                }
                Some("super") => "self".clone_into(&mut path[0]),
                _ => break,
            }
        }
        self.paths.insert(path);
    }
}

fn is_name(word: &str) -> bool {
    word.starts_with(|first: char| first.is_alphabetic() || first == '_')
}

/// The end of the item that starts at `at`, after its braces or its semicolon.
fn end_of_item(words: &[&str], at: usize) -> usize {
    let mut depth = 0;
    for (index, word) in words.iter().enumerate().skip(at) {
        match *word {
            "{" => depth += 1,
            "}" if depth <= 1 => return index + 1,
            "}" => depth -= 1,
            ";" if depth == 0 => return index + 1,
            _ => {}
        }
    }
    words.len()
}

/// Appends the words and signs of Rust code to `words`, without comments and literals.
fn flatten(tokens: TokenStream, words: &mut Vec<String>) {
    let mut colon = false;
    for token in tokens {
        let joins = mem::take(&mut colon);
        match token {
            TokenTree::Ident(name) => words.push(name.to_string()),
            TokenTree::Punct(sign) if sign.as_char() == ':' && joins => {
                words.pop();
                words.push("::".to_owned());
            }
            TokenTree::Punct(sign) => {
                colon = sign.as_char() == ':' && sign.spacing() == Spacing::Joint;
                words.push(sign.to_string());
            }
            TokenTree::Group(group) => {
                let [open, close] = match group.delimiter() {
                    Delimiter::Brace => ["{", "}"],
                    Delimiter::Parenthesis => ["(", ")"],
                    Delimiter::Bracket => ["[", "]"],
                    Delimiter::None => ["", ""],
                };
                words.push(open.to_owned());
                flatten(group.stream(), words);
                words.push(close.to_owned());
            }
            TokenTree::Literal(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Crate;

    /// The files of each circle of a made-up crate.
    fn circles(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let root = [("lib.rs", "")];
        let files: Vec<_> = root.iter().chain(files).map(|&(file, text)| (file.to_owned(), text.to_owned())).collect();
        let house = Crate::new(&files).unwrap();
        let names = |circle: Vec<usize>| circle.into_iter().map(|module| house.modules[module].file.clone()).collect();
        house.circles().into_iter().map(names).collect()
    }

    #[test]
    fn files_that_use_each_other_are_a_circle() {
        let (a, b) = (("a.rs", "use crate::b::{self, B as Other};"), ("b.rs", "fn f() { crate::a::g::<u8>() }"));
        assert_eq!(circles(&[a, b]), [["a.rs", "b.rs"]]);
        assert!(
            circles(&[a, ("b.rs", "// crate::a::g()\nconst C: (&str, char) = (\"crate::a::g \\\" \", '\"');")])
                .is_empty()
        );
    }

    #[test]
    fn a_circle_may_be_long_and_pass_through_re_exports() {
        let files = [
            ("main.rs", "mod a; mod b; mod c; pub use c::{inner::Deep, *};"),
            ("a/mod.rs", "use super::b::B; pub struct A;"),
            ("b.rs", "use crate::Deep; pub struct B;"),
            ("c.rs", "pub mod inner; pub struct Shown;"),
            ("c/inner.rs", "use crate::a; pub struct Deep;"),
        ];
        assert_eq!(circles(&files), [["a/mod.rs", "b.rs", "c/inner.rs"]]);
        // The same, with the glob.
        let files = files.map(|(file, text)| (file, text.replace("crate::Deep", "crate::Shown")));
        let files = files.each_ref().map(|(file, text)| {
            (*file, if *file == "c.rs" { "use crate::a::A; pub struct Shown;" } else { text.as_str() })
        });
        assert_eq!(circles(&files), [["a/mod.rs", "b.rs", "c.rs"]]);
    }

    #[test]
    fn submodules_may_use_the_file_that_they_belong_to() {
        let parent = ("a.rs", "mod x; mod y; pub use x::X; struct A; fn f() { y::g() }");
        assert!(
            circles(&[parent, ("a/x.rs", "use super::A; use super::y::Y;"), ("a/y.rs", "use super::*;")]).is_empty()
        );
        // Submodules of one file must not form a circle among themselves.
        let siblings = [("a.rs", "mod x; mod y;"), ("a/x.rs", "use super::y::Y;"), ("a/y.rs", "use super::x::X;")];
        assert_eq!(circles(&siblings), [["a/x.rs", "a/y.rs"]]);
    }

    #[test]
    fn files_of_a_folder_without_a_module_may_form_a_circle() {
        let root = ("root.rs", "#[path = \"both/a.rs\"] mod a; #[path = \"both/b.rs\"] mod b;");
        let files = [root, ("both/a.rs", "use super::b::B;"), ("both/b.rs", "m! { fn f() { super::a::g() } }")];
        assert_eq!(circles(&files), [["both/a.rs", "both/b.rs"]]);
    }

    #[test]
    fn unit_tests_do_not_count_and_inline_modules_do() {
        let a = ("a.rs", "use crate::b::B;");
        assert!(circles(&[a, ("b.rs", "#[cfg(test)]\nmod tests { use crate::a; fn f() {} }")]).is_empty());
        assert_eq!(circles(&[a, ("b.rs", "mod inner { use super::super::a::A; }")]), [["a.rs", "b.rs"]]);
        assert!(circles(&[a, ("b.rs", "mod inner { use super::A; }")]).is_empty());
    }
}
