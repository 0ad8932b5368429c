//! Dependencies: their licenses, sources and duplicates, as `deny.toml` allows them, and a bill of materials.
//!
//! `cargo deny check` checks the same and more, but takes minutes to compile.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use spdx::{Expression, ParseMode};

use crate::Failure;
use crate::shell::{cargo, output_within, read, root};

/// `deny.toml`, as far as it is read here.
#[derive(Deserialize)]
struct Deny {
    licenses: Licenses,
    sources: Sources,
    bans: Bans,
}

#[derive(Deserialize)]
struct Licenses {
    allow: Vec<String>,
    exceptions: Vec<Exception>,
}

#[derive(Deserialize)]
struct Exception {
    #[serde(rename = "crate")]
    name: String,
    allow: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Sources {
    allow_registry: Vec<String>,
}

#[derive(Deserialize)]
struct Bans {
    /// `name@version`, with any number of parts of the version.
    skip: Vec<String>,
}

/// A package of `cargo metadata`.
#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    source: Option<String>,
    description: Option<String>,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<Kind>,
}

#[derive(Deserialize)]
struct Kind {
    kind: Option<String>,
}

/// The workspaces whose lock files are checked.
const WORKSPACES: [&str; 3] = [".", "firmware-examples", "tools/book"];

fn metadata(workspace: &str) -> Result<Metadata, Failure> {
    let printed =
        output_within(cargo(workspace, &["metadata", "--format-version", "1", "--locked"]), Duration::from_secs(600))?;
    serde_json::from_str(&printed).map_err(|error| format!("cargo metadata: {error}"))
}

/// Fails with every package that `deny.toml` does not allow.
pub fn check() -> Result<(), Failure> {
    let deny: Deny =
        toml::from_str(&read(&root().join("deny.toml"))?).map_err(|error| format!("deny.toml: {error}"))?;
    let mut refused = BTreeSet::new();
    for workspace in WORKSPACES {
        let packages = metadata(workspace)?.packages;
        refused.extend(packages.iter().filter_map(|package| deny.refuses(package)));
        refused.extend(deny.duplicates(&packages));
    }
    if refused.is_empty() { Ok(()) } else { Err(refused.into_iter().collect::<Vec<_>>().join("\n")) }
}

impl Deny {
    fn refuses(&self, package: &Package) -> Option<String> {
        let source = package.source.as_ref()?;
        let Package { name, version, .. } = package;
        if !self.sources.allow_registry.iter().any(|registry| *source == format!("registry+{registry}")) {
            return Some(format!("{name} {version} is from {source}, which deny.toml does not allow"));
        }
        let Some(license) = &package.license else { return Some(format!("{name} {version} states no license")) };
        let exceptions = self.licenses.exceptions.iter().filter(|exception| exception.name == *name);
        let allowed: BTreeSet<&str> = self
            .licenses
            .allow
            .iter()
            .chain(exceptions.flat_map(|exception| &exception.allow))
            .map(String::as_str)
            .collect();
        let is_allowed = Expression::parse_mode(license, ParseMode::LAX).is_ok_and(|expression| {
            expression.evaluate(|required| required.license.id().is_some_and(|id| allowed.contains(id.name)))
        });
        (!is_allowed).then(|| format!("{name} {version} has the license {license}, which deny.toml does not allow"))
    }

    fn duplicates(&self, packages: &[Package]) -> Vec<String> {
        let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for package in packages.iter().filter(|package| package.source.is_some() && !self.skips(package)) {
            versions.entry(&package.name).or_default().insert(&package.version);
        }
        let several = versions.into_iter().filter(|(_, versions)| versions.len() > 1);
        several.map(|(name, versions)| format!("{name} is there in the versions {versions:?}")).collect()
    }

    fn skips(&self, package: &Package) -> bool {
        self.bans.skip.iter().filter_map(|skip| skip.split_once('@')).any(|(name, version)| {
            let rest = package.version.strip_prefix(version);
            name == package.name && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
    }
}

/// Prints the bill of materials of a package of the workspace, in CycloneDX 1.5: every package that is linked into it.
pub fn bill(package: &str) -> Result<(), Failure> {
    let Metadata { packages, resolve } = metadata(".")?;
    let by_id: BTreeMap<&str, &Package> = packages.iter().map(|package| (package.id.as_str(), package)).collect();
    let edges: BTreeMap<&str, &[Dependency]> =
        resolve.nodes.iter().map(|node| (node.id.as_str(), node.deps.as_slice())).collect();
    let top = packages.iter().find(|of| of.name == package && of.source.is_none());
    let top = top.ok_or_else(|| format!("the workspace has no package {package}: cargo metadata lists them"))?;
    // Dependencies that are linked, not those of tests and build scripts.
    let linked = |id: &str| -> Vec<&str> {
        let deps = edges.get(id).copied().unwrap_or_default().iter();
        let deps = deps.filter(|of| of.dep_kinds.iter().any(|kind| kind.kind.is_none()));
        deps.map(|of| of.pkg.as_str()).collect()
    };
    let (mut found, mut waiting) = (BTreeSet::new(), vec![top.id.as_str()]);
    while let Some(id) = waiting.pop() {
        if found.insert(id) {
            waiting.extend(linked(id));
        }
    }
    let purl = |of: &Package| format!("pkg:cargo/{}@{}", of.name, of.version);
    let component = |of: &Package| {
        json!({
            "type": "library",
            "bom-ref": purl(of),
            "name": of.name,
            "version": of.version,
            "description": of.description,
            "purl": purl(of),
            "licenses": of.license.iter().map(|license| json!({ "expression": license.replace('/', " OR ") })).collect::<Vec<_>>(),
        })
    };
    let of = |id: &&str| by_id.get(id).copied();
    let components: Vec<Value> = found.iter().filter_map(of).filter(|of| of.id != top.id).map(component).collect();
    let depends = |of: &Package| json!({ "ref": purl(of), "dependsOn": linked(&of.id).iter().filter_map(|id| by_id.get(id)).map(|of| purl(of)).collect::<Vec<_>>() });
    let dependencies: Vec<Value> = found.iter().filter_map(of).map(depends).collect();
    let bill = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": component(top) },
        "components": components,
        "dependencies": dependencies,
    });
    println!("{}", serde_json::to_string_pretty(&bill).map_err(|error| error.to_string())?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Deny, Package};

    fn deny() -> Deny {
        toml::from_str(
            "[licenses]\nallow = ['MIT']\n[[licenses.exceptions]]\ncrate = 'odd'\nallow = ['MPL-2.0']\n\
             [sources]\nallow-registry = ['https://registry']\n[bans]\nskip = ['twice@1']",
        )
        .unwrap()
    }

    fn package(name: &str, version: &str, license: &str, source: &str) -> Package {
        let some = |text: &str| Some(text.to_owned());
        let (name, version) = (name.to_owned(), version.to_owned());
        Package { id: String::new(), name, version, license: some(license), source: some(source), description: None }
    }

    #[test]
    fn licenses_and_sources_that_are_not_listed_are_refused() {
        let refused = |name, license, source| deny().refuses(&package(name, "1.0.0", license, source)).is_some();
        assert!(!refused("a", "MIT OR GPL-3.0", "registry+https://registry"));
        assert!(!refused("a", "Unlicense/MIT", "registry+https://registry"));
        assert!(!refused("odd", "MPL-2.0", "registry+https://registry"));
        assert!(refused("a", "MPL-2.0", "registry+https://registry"));
        assert!(refused("a", "MIT AND GPL-3.0", "registry+https://registry"));
        assert!(refused("a", "MIT", "git+https://registry"));
    }

    #[test]
    fn two_versions_are_refused_unless_one_is_listed() {
        let of = |name, versions: [&str; 2]| {
            versions.map(|version| package(name, version, "MIT", "registry+https://registry"))
        };
        assert!(deny().duplicates(&of("twice", ["1.2.0", "2.0.0"])).is_empty());
        assert_eq!(deny().duplicates(&of("twice", ["11.0.0", "2.0.0"])).len(), 1);
        assert_eq!(deny().duplicates(&of("a", ["1.0.0", "2.0.0"])).len(), 1);
    }
}
