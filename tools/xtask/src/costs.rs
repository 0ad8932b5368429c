//! The costs of every kind of layer on every core, for `tidegate inspect --for`: counts the instructions of small networks
//! under QEMU, and writes weights of their terms into `tools/cli/costs.json`.

use std::array;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::code::Program;
use crate::firmware::{self, FAST, Firmware, MACHINES, Machine};
use crate::record;
use crate::shell::{self, about, root, step};
use crate::{Failure, icount, install};

const PROGRAM: &str = "zoo";
/// Terms of a cost: see `tidegate_model::cost`.
const TERMS: usize = 6;
type Terms = [f64; TERMS];

#[derive(Deserialize, Serialize)]
struct Costs {
    compiler: String,
    cores: BTreeMap<String, Core>,
}

#[derive(Default, Deserialize, Serialize)]
struct Core {
    base: BTreeMap<String, f64>,
    layers: BTreeMap<String, Figures>,
    front_ends: BTreeMap<String, Figures>,
    /// Bytes of code and constants, and the functions that need them, by their names in [`Figures::code`] and by what
    /// they are for.
    code: Vec<(u64, BTreeSet<String>)>,
}

#[derive(Deserialize, Serialize)]
struct Figures {
    instructions: Terms,
    #[serde(skip_serializing_if = "Option::is_none")]
    cycles: Option<f64>,
    #[serde(default, skip_serializing_if = "is_zero")]
    stack: u64,
    /// The function in the record of code.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    code: String,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A network and its counts.
struct Sample {
    terms: Terms,
    step: f64,
    front_end: f64,
    stack: u64,
}

/// Counts on every core, or on those that are named, and writes the record.
pub fn run(cores: &[String]) -> Result<(), Failure> {
    // The M7 has the instructions of the M4.
    let counted_cores = || MACHINES.iter().filter(|machine| machine.core != "m7");
    if let Some(name) = cores.iter().find(|&name| !counted_cores().any(|machine| machine.core == name)) {
        let known: Vec<&str> = counted_cores().map(|machine| machine.core).collect();
        return Err(format!("{name}: costs are counted on {}", known.join(", ")));
    }
    install::targets()?;
    install::qemu()?;
    let machines =
        || counted_cores().filter(|machine| cores.is_empty() || cores.iter().any(|name| name == machine.core));
    firmware::build_for(FAST, machines().map(|machine| (machine.target, PROGRAM)))?;
    firmware::build_bundles()?;
    let mut write = Command::new(firmware::workspace_target_dir().join("release/bundles"));
    write.arg(folder()).arg("costs");
    shell::run("writing networks of every kind", write)?;
    let path = root().join("tools/cli/costs.json");
    let mut costs: Costs = serde_json::from_str(&shell::read(&path)?).map_err(about(&path))?;
    costs.compiler = icount::compiler()?;
    for machine in machines() {
        let samples = step(&format!("costs on {}", machine.core), || counted(machine))?;
        costs.cores.insert(machine.core.to_owned(), fitted(machine.core, samples)?);
    }
    // Overwrites the programs for speed.
    for machine in machines() {
        let core = costs.cores.entry(machine.core.to_owned()).or_default();
        step(&format!("code on {}", machine.core), || measure_code(machine, core))?;
    }
    let text = serde_json::to_string(&costs).expect("figures and names are JSON");
    // A line for each kind.
    let text = text.replace("},\"", "},\n\"").replace("{\"f", "{\n\"f") + "\n";
    record::write(&path, &text)
}

/// Fills in the code of a core, measured in a build for small size.
fn measure_code(machine: &'static Machine, core: &mut Core) -> Result<(), Failure> {
    firmware::build_with_relocations(machine, PROGRAM)?;
    let firmware = Firmware { name: PROGRAM, machine };
    let program = Program::read(&firmware.elf())?;
    // Without steps the program prints addresses only.
    let from = folder().join(machine.layout);
    let folder = folder().join(format!("{}_code", machine.core));
    fs::create_dir_all(&folder).map_err(about(&folder))?;
    let file = from.join(format!("{PROGRAM}.bin"));
    let mut bytes = fs::read(&file).map_err(about(&file))?;
    bytes.get_mut(..4).ok_or("the networks are missing")?.fill(0);
    shell::write(&folder.join(format!("{PROGRAM}.bin")), bytes)?;
    let mut qemu = machine.qemu(&firmware.elf());
    qemu.current_dir(&folder);
    let printed = shell::output_within(qemu, firmware::TIME_LIMIT)?;
    let list = shell::read(&from.join(format!("{PROGRAM}.txt")))?;
    if printed.lines().count() != list.lines().count() {
        return Err(format!("{} networks, but {} lines", list.lines().count(), printed.lines().count()));
    }
    let mut roots = BTreeMap::<String, BTreeSet<usize>>::new();
    let parts = [
        ("floats", "f32", "11advance_f32", "9front_end6stream"),
        ("integers", "i16", "14step_ports_i16", "14integer_stream"),
    ];
    for (numbers, type_name, step, front_end) in parts {
        // One function for each number type is enough: the others are for other ports.
        let steps = program.named(&["8tidegate4step", step]);
        roots.entry(format!("step {numbers}")).or_default().extend(steps.first());
        roots
            .entry(format!("front end {numbers}"))
            .or_default()
            .extend(program.named(&["8tidegate9front_end", front_end]));
        roots
            .entry(format!("detector {numbers}"))
            .or_default()
            .extend(program.named(&[&format!("3zoo12detected_{type_name}")]));
    }
    if let Some((name, _)) = roots.iter().find(|(_, symbols)| symbols.is_empty()) {
        return Err(format!("{PROGRAM} has no function for the code of {name}"));
    }
    for (line, network) in printed.lines().zip(list.lines()) {
        let numbers: Vec<&str> = line.split(' ').collect();
        let words: Vec<&str> = network.split(' ').collect();
        let kind = words.split_last_chunk::<TERMS>().map(|(kind, _)| kind.join(" ")).unwrap_or_default();
        let [.., layer, front_end] = numbers.as_slice() else { return Err(format!("{network} printed `{line}`")) };
        let (figures, address) = match kind.strip_prefix("front_end ") {
            Some(kind) => (core.front_ends.get_mut(kind), front_end),
            None => (core.layers.get_mut(&kind), layer),
        };
        let address = u64::from_str_radix(address, 16).map_err(|error| format!("`{line}`: {error}"))?;
        let symbol = program.at(address & !1).ok_or_else(|| format!("{network}: no function at {address:#x}"))?;
        if let Some(figures) = figures {
            figures.code = format!("{symbol}");
            roots.entry(figures.code.clone()).or_default().insert(symbol);
        }
    }
    let mut needed = BTreeMap::<usize, BTreeSet<String>>::new();
    for (name, roots) in roots {
        for symbol in program.closure(roots) {
            needed.entry(symbol).or_default().insert(name.clone());
        }
    }
    let mut parts = BTreeMap::<BTreeSet<String>, u64>::new();
    for (symbol, names) in needed {
        *parts.entry(names).or_default() += program.bytes(symbol);
    }
    core.code = parts.into_iter().map(|(names, bytes)| (bytes, names)).collect();
    Ok(())
}

fn folder() -> PathBuf {
    firmware::target_dir().join("costs")
}

/// Counts the networks of a machine's layout, by kind.
fn counted(machine: &'static Machine) -> Result<BTreeMap<String, Vec<Sample>>, Failure> {
    let folder = folder().join(machine.layout);
    let firmware = Firmware { name: PROGRAM, machine };
    let mut qemu = machine.qemu(&firmware.elf());
    qemu.current_dir(&folder).args(["-icount", "shift=0"]);
    let printed = shell::output_within(qemu, 10 * firmware::TIME_LIMIT)?;
    let file = folder.join(format!("{PROGRAM}.bin"));
    let bytes = fs::read(&file).map_err(about(&file))?;
    let steps = bytes.first_chunk().map_or(1, |&bytes| u32::from_le_bytes(bytes));
    let list = shell::read(&folder.join(format!("{PROGRAM}.txt")))?;
    if printed.lines().count() != list.lines().count() {
        return Err(format!("{} networks, but {} lines", list.lines().count(), printed.lines().count()));
    }
    let mut all = BTreeMap::<String, Vec<Sample>>::new();
    for (line, network) in printed.lines().zip(list.lines()) {
        let sample = || {
            let numbers: Vec<u64> =
                line.split(' ').map(|n| u64::from_str_radix(n, 16)).collect::<Result<_, _>>().ok()?;
            let words: Vec<&str> = network.split(' ').collect();
            let (kind, terms) = words.split_last_chunk::<TERMS>()?;
            let terms: Vec<f64> = terms.iter().map(|term| term.parse()).collect::<Result<_, _>>().ok()?;
            let [step, front_end, stack, ..] = numbers[..] else { return None };
            let sample = Sample {
                terms: terms.try_into().ok()?,
                step: step as f64 / f64::from(steps),
                front_end: front_end as f64,
                stack,
            };
            Some((kind.join(" "), sample))
        };
        let (kind, sample) = sample().ok_or_else(|| format!("{network} printed `{line}`"))?;
        all.entry(kind).or_default().push(sample);
    }
    Ok(all)
}

/// The weights of a core.
fn fitted(name: &str, samples: BTreeMap<String, Vec<Sample>>) -> Result<Core, Failure> {
    let mut core = Core::default();
    // A step of one layer, and of two of the same kind and size.
    for (kind, two) in samples.iter().filter_map(|(kind, two)| Some((kind.strip_prefix("two ")?, two))) {
        let numeric = kind.split(' ').nth(1).unwrap_or_default();
        let two = &two[0];
        let one = samples.get(kind).and_then(|one| one.iter().find(|one| one.terms == two.terms));
        let one = one.ok_or_else(|| format!("{kind}: no single layer"))?;
        core.base.insert(numeric.to_owned(), (2.0 * one.step - two.step).max(0.0));
    }
    let ratios = cycle_ratios(name)?;
    for (kind, samples) in samples {
        if kind.starts_with("two ") {
            continue;
        }
        if let Some(kind) = kind.strip_prefix("front_end ") {
            let pairs: Vec<_> = samples.iter().map(|sample| (sample.terms, sample.front_end)).collect();
            core.front_ends.insert(
                kind.to_owned(),
                Figures { instructions: fit(&pairs), cycles: None, stack: 0, code: String::new() },
            );
            continue;
        }
        let words: Vec<&str> = kind.split(' ').collect();
        let base = core.base.get(words[1]).copied().unwrap_or_default();
        let pairs: Vec<_> = samples.iter().map(|sample| (sample.terms, sample.step - base)).collect();
        let stack = samples.iter().map(|sample| sample.stack).max().unwrap_or_default();
        let cell = words[0].split(['+', '/']).next().unwrap_or_default();
        let ratio = ratios
            .get(&(cell.to_owned(), words[1].to_owned()))
            .or_else(|| ratios.get(&(String::new(), words[1].to_owned())));
        let cycles = ratio.copied().map(rounded);
        core.layers.insert(kind, Figures { instructions: fit(&pairs), cycles, stack, code: String::new() });
    }
    Ok(core)
}

/// Modelled cycles for an instruction, by cell and numeric, from the record of `cargo xtask icount`; an empty name stands
/// for the mean of all cells.
fn cycle_ratios(core: &str) -> Result<BTreeMap<(String, String), f64>, Failure> {
    let path = firmware::expected_dir().join("icount.json");
    let record: Value = serde_json::from_str(&shell::read(&path)?).map_err(about(&path))?;
    let mut all = BTreeMap::<(String, String), Vec<f64>>::new();
    for figure in record["figures"].as_array().into_iter().flatten() {
        let text = |name: &str| figure[name].as_str().unwrap_or_default();
        let pair = figure["modelled_cycles"].as_f64().zip(figure["instructions_per_step"].as_f64());
        let is_layer = figure["input"] == figure["hidden"];
        if let Some((cycles, instructions)) = pair.filter(|_| is_layer && text("core").trim_end_matches('f') == core) {
            for cell in ["", text("cell")] {
                all.entry((cell.to_owned(), text("numeric").to_owned())).or_default().push(cycles / instructions);
            }
        }
    }
    Ok(all.into_iter().map(|(key, ratios)| (key, ratios.iter().sum::<f64>() / ratios.len() as f64)).collect())
}

/// The weights of the terms with the least sum of squared relative errors. No weight is negative, so that a larger network
/// never has smaller costs.
fn fit(samples: &[(Terms, f64)]) -> Terms {
    let mut used = [true; TERMS];
    loop {
        let weights = least_squares(samples, used);
        let least = (0..TERMS).min_by(|&a, &b| weights[a].total_cmp(&weights[b])).expect("there are terms");
        if weights[least] >= 0.0 {
            return weights.map(rounded);
        }
        used[least] = false;
    }
}

/// Four digits.
fn rounded(weight: f64) -> f64 {
    format!("{weight:.3e}").parse().expect("a number that was just written")
}

/// Least squares over relative errors by the normal equations. A small term on the diagonal makes the solution unique where
/// terms are proportional to each other.
fn least_squares(samples: &[(Terms, f64)], used: [bool; TERMS]) -> Terms {
    let mut rows = [[0.0; TERMS + 1]; TERMS];
    for (terms, value) in samples.iter().filter(|(_, value)| *value > 0.0) {
        let scaled: Terms = array::from_fn(|i| if used[i] { terms[i] / value } else { 0.0 });
        for i in 0..TERMS {
            for j in 0..TERMS {
                rows[i][j] += scaled[i] * scaled[j];
            }
            rows[i][TERMS] += scaled[i];
        }
    }
    for (i, row) in rows.iter_mut().enumerate() {
        row[i] = if row[i] > 0.0 { row[i] * (1.0 + 1e-9) } else { 1.0 };
    }
    // Symmetric and positive definite, so elimination needs no pivots.
    for i in 0..TERMS {
        let (done, below) = rows.split_at_mut(i + 1);
        for row in below {
            let factor = row[i] / done[i][i];
            row.iter_mut().zip(&done[i]).skip(i).for_each(|(x, pivot)| *x -= factor * pivot);
        }
    }
    let mut weights = [0.0; TERMS];
    for i in (0..TERMS).rev() {
        let known: f64 = (i + 1..TERMS).map(|j| rows[i][j] * weights[j]).sum();
        weights[i] = (rows[i][TERMS] - known) / rows[i][i];
    }
    weights
}

#[cfg(test)]
mod tests {
    use super::{TERMS, fit};

    #[test]
    fn weights_of_exact_sums_are_found_and_none_is_negative() {
        let terms = |n: f64, m: f64| [1.0, 1.0, n, 5.0 * n, m, n * m];
        let cost = |[a, _, _, c, d, e]: [f64; TERMS]| 300.0 * a + 7.0 * c + 2.0 * d + 1.5 * e;
        let samples: Vec<_> = [(4.0, 4.0), (8.0, 3.0), (20.0, 64.0), (64.0, 20.0), (32.0, 32.0), (5.0, 90.0)]
            .map(|(n, m)| (terms(n, m), cost(terms(n, m))))
            .into();
        let weights = fit(&samples);
        assert!(weights.iter().all(|&weight| weight >= 0.0), "{weights:?}");
        for n in [16.0, 128.0] {
            let found: f64 = weights.iter().zip(terms(n, n)).map(|(weight, term)| weight * term).sum();
            assert!((found / cost(terms(n, n)) - 1.0).abs() < 1e-3, "{weights:?} {n}");
        }
    }
}
