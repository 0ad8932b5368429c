//! `tidegate-gpu-measure`: checks and times GPU layers.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tidegate_model::data::one_line;

/// Checks and times the GPU layers of `tidegate-gpu`
#[derive(Parser)]
#[command(name = "tidegate-gpu-measure", version, long_about = None, arg_required_else_help = true)]
#[command(after_help = "Exit codes:    0 done, 1 a check failed or there is no GPU, 2 bad use")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Record(RecordArgs),
    Time(TimeArgs),
}

/// Runs 108 small stacks of layers on a GPU and compares them with the CPU
///
/// The stacks cover all cells, 1 to 3 layers, both directions and all ways to read an input. Outputs must be within
/// 2e-5 of the CPU's, and gradients within 1e-3 of the largest one. Parameter buffers, outputs and gradients are
/// written to a folder, where the tests on machines without a GPU read them.
#[derive(clap::Args)]
#[command(after_help = "Example:  tidegate-gpu-measure record --out gpu-host/measure/tests/recorded")]
struct RecordArgs {
    /// Folder to write to; it gets one file for each cell
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
}

/// Times a forward pass and a training step of LSTM layers on a GPU
///
/// Prints one JSON value with medians of synchronized rounds in milliseconds.
#[derive(clap::Args)]
#[command(after_help = "Example:  tidegate-gpu-measure time > times.json")]
struct TimeArgs {
    /// Time every algorithm that cuDNN has, not only the one that training uses
    #[arg(long, conflicts_with = "serve")]
    algorithms: bool,
    /// Answer requests from standard input, as tests/frameworks/torch_time.py sends them
    #[arg(long)]
    serve: bool,
}

#[cfg(feature = "cudnn")]
mod commands {
    use std::fmt::Display;
    use std::fs::create_dir_all;
    use std::io::{Write, stdin, stdout};

    use tidegate_gpu::device::Device;
    use tidegate_gpu_measure::recorder::{Checked, Found};
    use tidegate_gpu_measure::{record, recorder, timing};
    use tidegate_tools::progress::bar;

    use super::{RecordArgs, TimeArgs};

    fn text(error: impl Display) -> String {
        error.to_string()
    }

    /// Fails if there is no GPU, a file cannot be written, a stack does not run or a check fails.
    pub fn record(args: &RecordArgs) -> Result<(), String> {
        let device = Device::new().map_err(text)?;
        let mut out = stdout().lock();
        let mut say = |line: &str| writeln!(out, "{line}").map_err(text);
        say(device.name())?;
        say("stack                    outputs  to_input to_params  sequences of equal length     inference")?;
        let (mut lines, mut failed, mut elsewhere) = (Ok(()), 0, 0);
        let recording = recorder::record(&device, |checked: &Checked| {
            let (line, holds, described) = line(checked);
            failed += usize::from(!holds);
            elsewhere += usize::from(!described);
            lines = std::mem::replace(&mut lines, Ok(())).and_then(|()| say(&line));
        });
        lines?;
        if !recording.made.is_empty() {
            create_dir_all(&args.out).map_err(|error| format!("{}: {error}", args.out.display()))?;
            record::write(&args.out, &recording).map_err(text)?;
        }
        say(&format!(
            "{} stacks recorded in {}; {failed} failed; {elsewhere} have another parameter layout than described",
            recording.made.len(),
            args.out.display()
        ))?;
        if failed == 0 { Ok(()) } else { Err(format!("{failed} stacks differ from the CPU or do not run")) }
    }

    /// One line of the table, whether all checks passed, and whether the parameters have the described layout.
    fn line(checked: &Checked) -> (String, bool, bool) {
        let found = match &checked.made {
            Ok(found) => found,
            Err(error) => return (format!("{:<24} {error}", checked.name), false, true),
        };
        let Found { difference, even, algorithm, inference, as_described, .. } = found;
        let failed = found.failed();
        let mut line = format!("{:<24}", checked.name);
        for difference in [difference, even] {
            line += &format!(" {:9.1e} {:9.1e} {:9.1e}", difference.outputs, difference.to_input, difference.to_params);
        }
        line += &format!(" {inference:9.1e} {}", algorithm.name());
        if !as_described {
            line += " (other layout)";
        }
        if let Some(part) = &failed {
            line += &format!(" FAILED: {part}");
        }
        (line, failed.is_none(), *as_described)
    }

    /// Fails if there is no GPU, or if it fails.
    pub fn time(args: &TimeArgs) -> Result<(), String> {
        let device = Device::new().map_err(text)?;
        if args.serve {
            return timing::serve(&device, stdin().lock(), stdout().lock()).map_err(text);
        }
        let shown = bar(timing::Shape::all().len() as u64, "timing");
        let found = timing::time(&device, args.algorithms, || shown.advance(1)).map_err(text)?;
        drop(shown);
        writeln!(stdout().lock(), "{found:#}").map_err(text)
    }
}

fn main() -> ExitCode {
    let Cli { command } = Cli::parse();
    #[cfg(feature = "cudnn")]
    let done = match command {
        Command::Record(args) => commands::record(&args),
        Command::Time(args) => commands::time(&args),
    };
    #[cfg(not(feature = "cudnn"))]
    let done: Result<(), String> = match command {
        Command::Record(RecordArgs { out: _ }) | Command::Time(TimeArgs { algorithms: _, serve: _ }) => {
            Err("built without cuDNN: build it with cargo build --release -p tidegate-gpu-measure --features cudnn"
                .into())
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tidegate-gpu-measure: {}", one_line(&error));
            ExitCode::FAILURE
        }
    }
}
