//! `zoo`: networks that people use, and what they cost.

use std::io::Write;

use serde_json::Value;
use tidegate_tools::{grouped, zoo};

use super::args::JsonArg;
use super::{Failure, Outcome};

/// Lists networks that people use, with their sizes, and says how to get each file
#[derive(clap::Args)]
#[command(after_help = "Examples:
  tidegate zoo
  tidegate zoo nabu
  tidegate zoo --json > zoo.json

Nothing is downloaded. With a name, or a part of one, the command says where the files are and how to pack them.")]
pub struct Args {
    /// A name, or a part of one, of networks to describe
    name: Option<String>,
    #[command(flatten)]
    json: JsonArg,
}

pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let all = zoo::entries()?;
    let part = args.name.as_deref().unwrap_or_default().to_lowercase();
    let found: Vec<&zoo::Entry> = all.iter().filter(|entry| entry.name.to_lowercase().contains(&part)).collect();
    if found.is_empty() {
        return Err(Failure::new(format!("no network of the zoo has {part:?} in its name: `tidegate zoo` lists them")));
    }
    if args.json.json {
        let whole: Vec<Value> = serde_json::from_str(zoo::JSON)?;
        let named = whole.into_iter().filter(|entry| found.iter().any(|of| entry["name"] == of.name));
        writeln!(out, "{}", serde_json::to_string_pretty(&named.collect::<Vec<_>>())?)?;
        return Ok(());
    }
    let bytes = |count: u64| grouped(usize::try_from(count).unwrap_or(usize::MAX));
    if args.name.is_none() {
        let width = found.iter().map(|entry| entry.name.len()).max().unwrap_or_default();
        writeln!(out, "{:width$}  {:17}  {:7}  {:>10}  {:>9}", "network", "task", "numeric", "flash", "RAM")?;
        for entry in found {
            let zoo::Entry { name, task, figures, .. } = entry;
            let (flash, ram) = (bytes(figures.flash_bytes), bytes(figures.ram_bytes));
            writeln!(out, "{name:width$}  {task:17}  {:7}  {flash:>10}  {ram:>9}", figures.numeric)?;
        }
        return Ok(());
    }
    for entry in found {
        let zoo::Entry { name, task, origin, source, licence, figures, accuracy, .. } = entry;
        writeln!(out, "{name}: {task}, {licence}")?;
        writeln!(out, "  get      {source}, in the repository {origin} on GitHub")?;
        writeln!(out, "  pack     tidegate {}", entry.packing(&entry.file(), "model.tgi").join(" "))?;
        let (flash, ram) = (bytes(figures.flash_bytes), bytes(figures.ram_bytes));
        writeln!(out, "  needs    {flash} bytes of flash, {ram} bytes of RAM without the stack ({})", figures.numeric)?;
        writeln!(out, "  code     about {} bytes on a Cortex-M4", bytes(figures.code_bytes))?;
        for (core, counts) in &figures.instructions {
            let (step, front_end) = (bytes(counts.step), bytes(counts.front_end));
            let second =
                entry.per_second(core).map_or_else(String::new, |second| format!(", {second:.1} million a second"));
            let beside =
                if counts.front_end > 0 { format!(" and {front_end} for the front end") } else { String::new() };
            writeln!(out, "  {core:7}  {step} instructions a step{beside}{second}")?;
        }
        if let Some(share) = figures.share_of_m4 {
            writeln!(
                out,
                "  busy     {:.1} % of the time on a Cortex-M4 at 120 MHz, by modelled cycles",
                100.0 * share
            )?;
        }
        if let Some(accuracy) = accuracy {
            writeln!(out, "  accuracy {accuracy}")?;
        }
        writeln!(out, "  checked  {}", entry.result)?;
    }
    Ok(())
}
