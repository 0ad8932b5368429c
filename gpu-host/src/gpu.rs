//! The commands that need a GPU.

use std::path::PathBuf;

/// Writes down what a GPU makes of a matrix of small stacks
///
/// Parameter buffers, outputs and gradients of all cells, 1 to 3 layers, both directions and all ways to read an input, compared
/// with the CPU path: outputs within 2e-5, gradients within 1e-3 of the largest.
#[derive(clap::Args)]
#[command(after_help = "Example:  tidegate-gpu record --out gpu-host/tests/recorded")]
pub struct RecordArgs {
    /// Where the files go, one for each cell
    #[arg(long, value_name = "FOLDER")]
    pub out: PathBuf,
}

/// Times a forward pass and a training step of LSTM layers on a GPU
///
/// One JSON value on standard output: milliseconds, medians of synchronized rounds.
#[derive(clap::Args)]
#[command(after_help = "Example:  tidegate-gpu time > times.json")]
pub struct TimeArgs {
    /// Every algorithm that cuDNN has, not only the one that is used
    #[arg(long, conflicts_with = "serve")]
    pub algorithms: bool,
    /// Answer requests from standard input (tests/frameworks/torch_time.py)
    #[arg(long)]
    pub serve: bool,
}

#[cfg(feature = "cudnn")]
mod with {
    use std::fmt::Display;
    use std::fs::create_dir_all;
    use std::io::{Write, stdin, stdout};

    use tidegate_gpu::device::Device;
    use tidegate_gpu::recorder::{Checked, Found};
    use tidegate_gpu::{record, recorder, timing};
    use tidegate_tools::progress::bar;

    use super::{RecordArgs, TimeArgs};

    fn text(error: impl Display) -> String {
        error.to_string()
    }

    /// Runs the command `record`.
    ///
    /// # Errors
    /// If there is no GPU, a file cannot be written, a stack does not run or a bar is broken.
    pub fn record(args: &RecordArgs) -> Result<(), String> {
        let device = Device::new().map_err(text)?;
        let mut out = stdout().lock();
        let mut say = |line: &str| writeln!(out, "{line}").map_err(text);
        say(device.name())?;
        say("task                     outputs  to_input to_params  the same of even sequences    inference")?;
        let (mut lines, mut broken, mut apart) = (Ok(()), 0, 0);
        let recording = recorder::record(&device, |checked: &Checked| {
            let (line, holds, described) = line(checked);
            broken += usize::from(!holds);
            apart += usize::from(!described);
            lines = std::mem::replace(&mut lines, Ok(())).and_then(|()| say(&line));
        });
        lines?;
        if !recording.made.is_empty() {
            create_dir_all(&args.out).map_err(|error| format!("{}: {error}", args.out.display()))?;
            record::write(&args.out, &recording).map_err(text)?;
        }
        say(&format!(
            "{} stacks recorded in {}; {broken} break a bar; of {apart} cuDNN has the parameters elsewhere than described",
            recording.made.len(),
            args.out.display()
        ))?;
        if broken == 0 { Ok(()) } else { Err(format!("{broken} stacks do not run as on the CPU")) }
    }

    /// Of the table; whether all bars hold, and whether parameters are where they are described.
    fn line(checked: &Checked) -> (String, bool, bool) {
        let found = match &checked.made {
            Ok(found) => found,
            Err(error) => return (format!("{:<24} {error}", checked.name), false, true),
        };
        let Found { apart, even, algorithm, inference, as_described, .. } = found;
        let broken = found.broken();
        let mut line = format!("{:<24}", checked.name);
        for apart in [apart, even] {
            line += &format!(" {:9.1e} {:9.1e} {:9.1e}", apart.outputs, apart.to_input, apart.to_params);
        }
        line += &format!(" {inference:9.1e} {}", algorithm.name());
        if !as_described {
            line += " (elsewhere)";
        }
        if let Some(part) = &broken {
            line += &format!(" BROKEN: {part}");
        }
        (line, broken.is_none(), *as_described)
    }

    /// Runs the command `time`.
    ///
    /// # Errors
    /// If there is no GPU, or it fails.
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

#[cfg(feature = "cudnn")]
pub use with::{record, time};

#[cfg(not(feature = "cudnn"))]
const WITHOUT: &str = "this build has no cuDNN: build it with cargo build --release -p tidegate-gpu --features cudnn";

/// Says what is missing.
///
/// # Errors
/// Always.
#[cfg(not(feature = "cudnn"))]
pub fn record(_: &RecordArgs) -> Result<(), String> {
    Err(WITHOUT.to_owned())
}

/// Says what is missing.
///
/// # Errors
/// Always.
#[cfg(not(feature = "cudnn"))]
pub fn time(_: &TimeArgs) -> Result<(), String> {
    Err(WITHOUT.to_owned())
}
