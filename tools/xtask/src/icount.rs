//! Instructions per time step of a layer, and per sample of a guitar amplifier in blocks, on every machine, and of parsing its
//! image, compared with the record in `firmware-examples/expected/icount.json`.
//!
//! QEMU counts the instructions of several calls (`-icount shift=0`, the core's timer). Cycles come from a trace of one
//! call and the tables in `timing`, because QEMU models neither pipelines nor memories.

mod parse;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use object::{Object, ObjectSymbol};
use serde::{Deserialize, Serialize};

use crate::firmware::{self, FAST, Firmware, MACHINES, MPS2_AN386, Machine};
use crate::record::{self, GROWTH_PERCENT, outgrown};
use crate::shell::{self, about, shown, step};
use crate::timing::{self, Table};
use crate::trace::Trace;
use crate::{Failure, install, share};
use parse::Parse;

const PROGRAM: &str = "icount";

/// Cost of a step of one layer on one core.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Figure {
    machine: String,
    target: String,
    core: String,
    cell: String,
    numeric: String,
    layout: String,
    input: u64,
    hidden: u64,
    instructions_per_step: u64,
    instructions_per_mac: f64,
    /// Null for a core without a table.
    modelled_cycles: Option<u64>,
}

/// All figures, and the compiler of the code.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    compiler: String,
    figures: Vec<Figure>,
    parse: Vec<Parse>,
}

/// The counts of one run on all machines.
#[derive(Default)]
struct Counts {
    figures: Vec<Figure>,
    parse: Vec<Parse>,
}

/// Counts, then prints, records or compares.
pub fn run(json: bool, overwrite_expected: bool) -> Result<(), Failure> {
    let counts = counts(&MACHINES.each_ref().map(|machine| machine.core), true)?;
    if json {
        println!("{}", lines(&counts.figures));
        return Ok(());
    }
    print!("{}{}", table(&counts.figures), parse::table(&counts.parse));
    if !overwrite_expected {
        return compare(&counts, &recorded()?);
    }
    let compiler = serde_json::to_string(&compiler()?).expect("a version is JSON");
    let (figures, parse) = (lines(&counts.figures), lines(&counts.parse));
    let text = format!("{{\"compiler\": {compiler}, \"figures\": {figures}, \"parse\": {parse}}}\n");
    record::write(&record_path(), &text)
}

/// Counts the instructions of some cores and compares. Leaves out the cycles, because traces take long.
pub fn check(cores: &[&str]) -> Result<(), Failure> {
    let mut record = recorded()?;
    // Two cores share a machine.
    let counted = |name: &str, target: &str| machines(cores).any(|one| (one.name, one.target) == (name, target));
    record.figures.retain(|figure| counted(&figure.machine, &figure.target));
    record.parse.retain(|parse| counted(&parse.machine, &parse.target));
    compare(&counts(cores, false)?, &record)
}

/// The cores whose instructions are counted today: the Cortex-M4 and another one.
pub fn of_today() -> Result<[&'static str; 2], Failure> {
    let others: Vec<_> = MACHINES.iter().map(|machine| machine.core).filter(|core| *core != MPS2_AN386.core).collect();
    Ok([MPS2_AN386.core, others[share::of_today(others.len())?]])
}

/// The figures as JSON, each on a line.
fn lines<F: Serialize>(figures: &[F]) -> String {
    let line = |figure| serde_json::to_string(figure).expect("figures and names are JSON");
    format!("[\n{}\n]", figures.iter().map(line).collect::<Vec<_>>().join(",\n"))
}

fn record_path() -> PathBuf {
    firmware::expected_dir().join("icount.json")
}

fn recorded() -> Result<Record, Failure> {
    let path = record_path();
    let text =
        shell::read(&path).map_err(|error| format!("{error}. Record it: cargo xtask icount --overwrite-expected"))?;
    serde_json::from_str(&text).map_err(about(&path))
}

pub fn compiler() -> Result<String, Failure> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version =
        Command::new(rustc).arg("--version").output().map_err(|error| format!("cannot ask rustc: {error}"))?;
    Ok(String::from_utf8_lossy(&version.stdout).trim().to_owned())
}

/// Builds the program for the targets of some cores.
pub fn build(cores: &[&str]) -> Result<(), Failure> {
    install::targets()?;
    firmware::build_for(FAST, machines(cores).map(|machine| (machine.target, PROGRAM)))
}

fn machines(cores: &[&str]) -> impl Iterator<Item = &'static Machine> {
    MACHINES.iter().filter(|machine| cores.contains(&machine.core))
}

fn counts(cores: &[&str], with_cycles: bool) -> Result<Counts, Failure> {
    install::qemu()?;
    build(cores)?;
    firmware::bundles()?;
    let (mut all, mut outputs) = (Counts::default(), BTreeMap::new());
    for machine in machines(cores) {
        let firmware = Firmware { name: PROGRAM, machine };
        let Counts { mut figures, parse } =
            step(&format!("instructions on {} ({})", machine.name, machine.core), || counted(&firmware, &mut outputs))?;
        if let Some(table) = Table::of(machine.core).filter(|_| with_cycles) {
            let cycles = step(&format!("cycles of {}", machine.core), || modelled(&firmware, table, &figures))?;
            figures.iter_mut().zip(cycles).for_each(|(figure, cycles)| figure.modelled_cycles = Some(cycles));
        }
        all.figures.extend(figures);
        all.parse.extend(parse);
    }
    Ok(all)
}

/// The cases of the bundle: cell, numeric, layout, inputs, units, steps of a call, multiply-accumulates of a step, bytes of
/// the image.
fn cases(machine: &Machine) -> Result<Vec<[String; 8]>, Failure> {
    let path = firmware::bundle_dir(machine.layout).join(format!("{PROGRAM}.txt"));
    let text = shell::read(&path)?;
    let case = |line: &str| <[String; 8]>::try_from(line.split(' ').map(str::to_owned).collect::<Vec<_>>());
    text.lines().map(|line| case(line).map_err(|_| format!("{}: {line}", path.display()))).collect()
}

/// The first output of each network. Other layouts and other cores must give the same output.
type Outputs = BTreeMap<(String, String, u64), String>;

fn counted(firmware: &Firmware, outputs: &mut Outputs) -> Result<Counts, Failure> {
    let machine = firmware.machine;
    let bundle = firmware::bundle_dir(machine.layout).join(format!("{PROGRAM}.bin"));
    let bytes = fs::read(&bundle).map_err(about(&bundle))?;
    let steps = bytes.first_chunk().map_or(0, |&bytes| u32::from_le_bytes(bytes));
    let mut qemu = firmware.qemu();
    qemu.args(["-icount", "shift=0"]);
    let printed = firmware.printed(qemu)?;
    let cases = cases(machine)?;
    if printed.lines().count() != cases.len() || steps == 0 {
        return Err(format!("{} networks, but {} lines:\n{printed}", cases.len(), printed.lines().count()));
    }
    let mut counts = Counts::default();
    for (line, [cell, numeric, layout, input, size, samples, macs, bytes]) in printed.lines().zip(cases) {
        let mut figure = || {
            let (instructions, rest) = line.split_once(' ')?;
            let (parsing, hash) = rest.split_once(' ')?;
            let (parsing, bytes) = (u32::from_str_radix(parsing, 16).ok()?, bytes.parse().ok()?);
            let counted = u64::from(steps) * samples.parse::<u64>().ok()?;
            let instructions = u64::from(u32::from_str_radix(instructions, 16).ok()?) / counted.max(1);
            let (input, size, macs) = (input.parse().ok()?, size.parse().ok()?, macs.parse::<f64>().ok()?);
            let known = outputs.entry((cell.clone(), numeric.clone(), size)).or_insert_with(|| hash.to_owned()) == hash;
            let float = numeric.starts_with('f');
            let figure = Figure {
                machine: machine.name.into(),
                target: machine.target.into(),
                core: if float && machine.core == "m4" { "m4f".into() } else { machine.core.into() },
                cell: cell.clone(),
                numeric: numeric.clone(),
                layout: layout.clone(),
                input,
                hidden: size,
                instructions_per_step: instructions,
                instructions_per_mac: (1000.0 * instructions as f64 / macs).round() / 1000.0,
                modelled_cycles: None,
            };
            let names = [&cell, &numeric, &layout].map(String::as_str);
            counts.parse.extend(Parse::of(machine, &figure.core, names, size, [bytes, parsing.into()]));
            counts.figures.push(figure);
            known.then_some(())
        };
        figure().ok_or_else(|| format!("{cell} {numeric} {layout} {size} printed `{line}`"))?;
    }
    Ok(counts)
}

/// Cycles of a step of each network, by the core's table. Fails if the traces have a different number of instructions
/// than QEMU has counted.
fn modelled(firmware: &Firmware, table: Table, figures: &[Figure]) -> Result<Vec<u64>, Failure> {
    let path = firmware.elf();
    let bytes = fs::read(&path).map_err(about(&path))?;
    let elf = object::File::parse(bytes.as_slice()).map_err(about(&path))?;
    let mut symbols = elf.symbols();
    // Rust's mangling puts the length of a name before the name.
    let begin = symbols.find(|symbol| symbol.name().is_ok_and(|name| name.contains("11traced_step")));
    let begin = begin.ok_or_else(|| about(&path)("has no `traced_step`"))?.address();

    // The same bundle, with zero steps to count: the program only runs the traced step.
    let file = format!("{PROGRAM}.bin");
    let (from, to) = (firmware::bundle_dir(firmware.machine.layout).join(&file), firmware::bundle_dir("traced"));
    let mut bundle = fs::read(&from).map_err(about(&from))?;
    bundle.iter_mut().take(4).for_each(|byte| *byte = 0);
    fs::create_dir_all(&to).map_err(about(&to))?;
    shell::write(&to.join(file), bundle)?;

    let mut qemu = firmware.qemu();
    qemu.args(["-d", "in_asm,exec,nochain"]).current_dir(&to);
    eprintln!("    {}", shown(&qemu));
    qemu.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = qemu.spawn().map_err(|error| format!("cannot start `{}`: {error}", shown(&qemu)))?;
    let mut log = BufReader::new(child.stderr.take().expect("it was piped"));
    let (mut trace, mut calls, mut line) = (Trace::new(begin as u32), Vec::new(), Vec::new());
    while log.read_until(b'\n', &mut line).map_err(|error| error.to_string())? > 0 {
        if let Some(blocks) = trace.line(String::from_utf8_lossy(&line).trim_end()) {
            calls.push(timing::cycles(table, &blocks)?);
        }
        line.clear();
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    if !status.success() || calls.len() != figures.len() {
        return Err(format!("`{}` ended with {status} after {} of {} steps", shown(&qemu), calls.len(), figures.len()));
    }
    // A call may run several steps.
    for (call, [.., samples, _, _]) in calls.iter_mut().zip(cases(firmware.machine)?) {
        let samples = samples.parse::<u64>().map_or(1, |samples| samples.max(1));
        *call = (call.0 / samples, call.1 / samples);
    }
    for (figure, &(traced, _)) in figures.iter().zip(&calls) {
        let counted = figure.instructions_per_step;
        if traced.abs_diff(counted) > 60 + counted / 100 {
            return Err(format!("{}: {traced} instructions in the trace, {counted} counted", figure.what()));
        }
    }
    Ok(calls.into_iter().map(|(_, cycles)| cycles).collect())
}

impl Figure {
    /// Identifies the network and the core.
    fn key(&self) -> [String; 6] {
        let Self { core, cell, numeric, layout, input, hidden, .. } = self;
        [core.clone(), cell.clone(), numeric.clone(), layout.clone(), input.to_string(), hidden.to_string()]
    }

    fn what(&self) -> String {
        self.key().join(" ")
    }
}

/// Fails if a figure has outgrown its record or has none.
fn compare(counts: &Counts, record: &Record) -> Result<(), Failure> {
    let found = &counts.figures;
    let recorded: BTreeMap<_, _> = record.figures.iter().map(|figure| (figure.key(), figure)).collect();
    let mut grown = parse::grown(&counts.parse, &record.parse);
    for figure in found {
        let Some(recorded) = recorded.get(&figure.key()) else {
            grown.push(format!("{} is not recorded", figure.what()));
            continue;
        };
        let cycles = figure.modelled_cycles.zip(recorded.modelled_cycles).map(|pair| ("cycles", pair));
        let instructions = ("instructions", (figure.instructions_per_step, recorded.instructions_per_step));
        for (what, (found, recorded)) in [instructions].into_iter().chain(cycles) {
            if outgrown(found, recorded) {
                grown.push(format!("{}: {found} {what}, the record has {recorded}", figure.what()));
            }
        }
    }
    if found.len() != record.figures.len() {
        grown.push(format!("{} figures, but the record has {}", found.len(), record.figures.len()));
    }
    if grown.is_empty() {
        eprintln!("    {} figures, none more than {GROWTH_PERCENT} % above its record", found.len());
        return Ok(());
    }
    Err(format!(
        "counts have outgrown their records ({}; this is {}). If this is intended: cargo xtask icount --overwrite-expected\n{}",
        record.compiler,
        compiler()?,
        grown.join("\n")
    ))
}

/// A readable table: a line for each layer on each core, a column for each size.
fn table(figures: &[Figure]) -> String {
    let mut rows: BTreeMap<[&str; 4], Vec<&Figure>> = BTreeMap::new();
    for figure in figures {
        rows.entry([&figure.core, &figure.numeric, &figure.layout, &figure.cell]).or_default().push(figure);
    }
    let mut text = String::from(
        "Instructions per step (per multiply-accumulate), and cycles by the core's table if there is one; input = hidden, or input > hidden\n",
    );
    for ([core, numeric, layout, cell], figures) in &rows {
        text += &format!("{core:7} {numeric:6} {layout:11} {cell:16}");
        for figure in figures {
            let cycles = figure.modelled_cycles.map_or_else(String::new, |cycles| format!(" {cycles} cycles"));
            let Figure { input, hidden, instructions_per_step, instructions_per_mac, .. } = figure;
            let size = if input == hidden { hidden.to_string() } else { format!("{input} > {hidden}") };
            text += &format!(" | {size}: {instructions_per_step} ({instructions_per_mac:.2}){cycles}");
        }
        text += "\n";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Counts, Figure, Record, compare, lines};

    fn figure(instructions: u64, cycles: Option<u64>) -> Figure {
        Figure {
            machine: "mps2-an386".into(),
            target: "thumbv7em-none-eabihf".into(),
            core: "m4".into(),
            cell: "lstm".into(),
            numeric: "i8x16".into(),
            layout: "cortex-m4".into(),
            input: 16,
            hidden: 16,
            instructions_per_step: instructions,
            instructions_per_mac: 2.5,
            modelled_cycles: cycles,
        }
    }

    fn compared(found: &[Figure], recorded: Figure) -> Result<(), String> {
        let counts = Counts { figures: found.to_vec(), parse: Vec::new() };
        compare(&counts, &Record { compiler: "rustc".into(), figures: vec![recorded], parse: Vec::new() })
    }

    #[test]
    fn a_count_may_grow_by_three_percent() {
        assert_eq!(compared(&[figure(1030, Some(2060))], figure(1000, Some(2000))), Ok(()));
        assert_eq!(compared(&[figure(900, None)], figure(1000, Some(2000))), Ok(()));
        let grown = compared(&[figure(1031, Some(2000))], figure(1000, Some(2000))).unwrap_err();
        assert!(grown.contains("m4 lstm i8x16 cortex-m4 16 16: 1031 instructions, the record has 1000"), "{grown}");
        assert!(compared(&[figure(1000, Some(2061))], figure(1000, Some(2000))).unwrap_err().contains("2061 cycles"));
    }

    #[test]
    fn a_figure_missing_on_either_side_is_reported() {
        let other = Figure { cell: "gru".into(), ..figure(10, None) };
        assert!(compared(&[figure(10, None), other.clone()], figure(10, None)).unwrap_err().contains("gru"));
        assert!(compared(&[], figure(10, None)).unwrap_err().contains("0 figures, but the record has 1"));
    }

    #[test]
    fn the_json_has_stable_fields() {
        let value: serde_json::Value = serde_json::from_str(&lines(&[figure(1, None)])).unwrap();
        let mut names: Vec<&String> = value[0].as_object().unwrap().keys().collect();
        names.sort();
        let expected = "cell core hidden input instructions_per_mac instructions_per_step layout machine modelled_cycles numeric target";
        assert_eq!(names, expected.split(' ').collect::<Vec<_>>());
    }
}
