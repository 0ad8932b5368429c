//! `tidegate-gpu`: the command line of the trainer.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tidegate_gpu::rnn::Math;
use tidegate_gpu::train::{self, Machine, Place, Settings, TrainError, Trained, Wanted};
use tidegate_model::budget;
use tidegate_model::data::{DataError, hide_guarded_panics, one_line, write_tensors};
use tidegate_model::output::write_atomically;
use tidegate_tools::plot::{Curves, curves};

/// Trains recurrent networks and writes models for `tidegate pack`
#[derive(Parser)]
#[command(name = "tidegate-gpu", version, long_about = None, arg_required_else_help = true)]
#[command(after_help = "Example:
  tidegate-gpu train --data vowels_TRAIN.ts --test vowels_TEST.ts \\
      --arch lstm.json --out vowels.safetensors

Exit codes:    0 done, 1 bad input, 2 bad use")]
struct Cli {
    /// Memory that reading a file may take, in MiB [default: 8 times the file and 64]
    #[arg(long, global = true, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    memory: Option<u64>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Train(Box<Args>),
}

/// Trains a network and writes a canonical model and a plot of its training curves
///
/// The architecture is a JSON file with PyTorch's layer names and arguments, the same that `tidegate import` reads (see
/// docs/training.md). The data are an index of sounds (a CSV file with the columns `file`, `label` and `split`; rows
/// whose split is `train` are trained on, all others are held out), `.ts` files, or tensors named x, y and lengths
/// (.npz, .safetensors). To resume an interrupted training, run the same command again.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  tidegate-gpu train --data vowels_TRAIN.ts --test vowels_TEST.ts \\
      --arch lstm.json --out vowels.safetensors
  tidegate-gpu train --data index.csv --front-end mfcc.json --arch gru.json \\
      --copies 8 --out kws.safetensors
  torchrun --nproc-per-node 4 --no-python tidegate-gpu train --data index.csv \\
      --front-end mfcc.json --arch gru.json --batch 256 --out kws.safetensors
  tidegate-gpu train --data vowels_TRAIN.ts --test vowels_TEST.ts \\
      --arch lstm.json --init trained.safetensors \\
      --quantize-aware i4x16 --epochs 10 --lr 0.0005 --out vowels_i4.safetensors")]
struct Args {
    #[command(flatten)]
    settings: Settings,
    // Displayed after --arch and before --init, which are the third and the fourth of the settings.
    /// File to write the model to
    #[arg(long, display_order = 2, value_name = "FILE.safetensors")]
    out: PathBuf,
    /// File to write the training curves to [default: OUT with .svg]
    #[arg(long, display_order = 2, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// File to write the weights to under PyTorch's names
    #[arg(long, display_order = 2, value_name = "FILE.safetensors")]
    state_dict: Option<PathBuf>,
    /// File for the state of an unfinished training [default: OUT with .checkpoint]
    #[arg(long, display_order = 3, value_name = "FILE")]
    checkpoint: Option<PathBuf>,
    /// Device to train on; `auto` is a GPU if this build has cuDNN and the machine has a GPU, otherwise the CPU
    #[arg(long, value_name = "auto|cpu|cuda", default_value = "auto", value_parser = device)]
    device: Wanted,
    /// Precision of matrix products on a GPU
    #[arg(long, value_name = "f32|tf32|bf16", default_value = "f32", value_parser = math)]
    math: Math,
    /// File with the secret that all processes of a training share, at least 16 bytes [default: the variable
    /// TIDEGATE_SECRET; neither is needed if all processes are on one machine]
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
    /// Print one JSON value to standard output
    #[arg(long)]
    json: bool,
}

fn device(text: &str) -> Result<Wanted, String> {
    let all = [("auto", Wanted::Auto), ("cpu", Wanted::Cpu), ("cuda", Wanted::Cuda)];
    let known = all.into_iter().find(|(name, _)| *name == text);
    known.map(|(_, wanted)| wanted).ok_or_else(|| "expected auto, cpu or cuda".to_owned())
}

fn math(text: &str) -> Result<Math, String> {
    let known = Math::ALL.into_iter().find(|math| math.name() == text);
    known.ok_or_else(|| "expected f32, tf32 or bf16".to_owned())
}

fn main() -> ExitCode {
    let Cli { memory, command } = Cli::parse();
    hide_guarded_panics();
    if let Some(mib) = memory {
        budget::allow(mib << 20);
    }
    let Command::Train(args) = command;
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tidegate-gpu: {}", one_line(&error.to_string()));
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<(), TrainError> {
    let plot = args.plot.clone().unwrap_or_else(|| args.out.with_extension("svg"));
    let checkpoint = args.checkpoint.clone().unwrap_or_else(|| args.out.with_extension("checkpoint"));
    apart(args, &plot, &checkpoint)?;
    let place = Place::from_env(args.secret_file.as_deref())?;
    // States are rounded to integers between steps, which only the CPU path does.
    let on_cpu = args.device == Wanted::Auto && args.settings.quantize_aware.is_some();
    let wanted = if on_cpu { Wanted::Cpu } else { args.device };
    let (mut machine, reason) = Machine::find(wanted, place.local_rank(), args.math)?;
    if !args.json && place.is_first() {
        let others = if place.size() > 1 { format!(", {} processes", place.size()) } else { String::new() };
        let reason = reason.map_or_else(String::new, |reason| format!(": {reason}"));
        say(args, &format!("training on {}{others}{reason}", machine.name()))?;
    }
    let trained = train::train(&args.settings, &checkpoint, &mut machine, &place)?;
    if !place.is_first() {
        return Ok(());
    }
    let bytes = trained.model.to_bytes().map_err(|error| DataError::new(&args.out, error))?;
    write_atomically(&args.out, |out| out.write_all(&bytes))?;
    if let Some(path) = &args.state_dict {
        write_tensors(path, &trained.state_dict)?;
    }
    draw(&plot, args, &trained, machine.name())?;
    train::forget(&checkpoint)?;
    let best_batch = trained.steps.iter().map(|[_, accuracy]| *accuracy).fold(0.0, f32::max);
    let right = (f64::from(trained.accuracy()) * trained.checked as f64).round();
    if args.json {
        let json = serde_json::json!({
            "accuracy": right / trained.checked.max(1) as f64,
            "held_out": trained.checked,
            "epoch": trained.epoch,
            "epochs": trained.held_out.len(),
            "steps": trained.steps.len(),
            "best_batch": best_batch,
            "seconds": trained.seconds,
            "resumed": trained.resumed,
            "seed": args.settings.seed,
        });
        return say(args, &json.to_string());
    }
    let chosen = if args.settings.patience.is_some() { ", the best of all epochs" } else { "" };
    say(
        args,
        &format!(
            "{}: {right} of {} held-out sequences correct ({:.2} %) after epoch {}{chosen}; \
             best batch {:.1} %; {:.1} s\n\
             curves: {}",
            args.out.display(),
            trained.checked,
            100.0 * trained.accuracy(),
            trained.epoch,
            100.0 * best_batch,
            trained.seconds,
            plot.display()
        ),
    )
}

/// Checks that no file is used twice among all inputs and outputs.
fn apart(args: &Args, plot: &Path, checkpoint: &Path) -> Result<(), DataError> {
    let inputs = [
        Some(&args.settings.data),
        args.settings.test.as_ref(),
        Some(&args.settings.arch),
        args.settings.init.as_ref(),
        args.settings.front_end.as_ref(),
        args.secret_file.as_ref(),
    ];
    let inputs = inputs.into_iter().flatten().map(PathBuf::as_path);
    let others = [&args.state_dict, &args.settings.features, &args.settings.log].map(Option::as_deref);
    let outputs = [args.out.as_path(), plot, checkpoint].map(Some).into_iter().chain(others);
    let mut taken: Vec<PathBuf> = inputs.map(place).collect();
    for output in outputs.flatten() {
        let at = place(output);
        if taken.contains(&at) {
            return Err(DataError::new(output, "is already used as another input or output: choose a different name"));
        }
        taken.push(at);
    }
    Ok(())
}

/// Absolute path of a file that exists or will be created.
fn place(path: &Path) -> PathBuf {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let new = || Some(folder.canonicalize().ok()?.join(path.file_name()?));
    path.canonicalize().ok().or_else(new).unwrap_or_else(|| path.to_owned())
}

fn say(args: &Args, text: &str) -> Result<(), TrainError> {
    match writeln!(io::stdout().lock(), "{text}") {
        // The reader of the output has closed it.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(DataError::io(&args.out, "reported on standard output", error).into())
        }
        _ => Ok(()),
    }
}

fn draw(path: &Path, args: &Args, trained: &Trained, machine: &str) -> Result<(), DataError> {
    let curve = |points: &[[f32; 2]], steps: f32, which: usize| {
        points.iter().enumerate().map(|(k, point)| ((k + 1) as f32 * steps, point[which])).collect::<Vec<_>>()
    };
    let batches = |which| curve(&trained.steps, 1.0, which);
    let per_epoch = trained.steps.len() as f32 / trained.held_out.len().max(1) as f32;
    let held_out = |which| curve(&trained.held_out, per_epoch, which);
    let lines = [
        ("accuracy, batch".to_owned(), batches(1)),
        ("accuracy, held out".to_owned(), held_out(1)),
        ("loss, batch".to_owned(), batches(0)),
        ("loss, held out".to_owned(), held_out(0)),
    ];
    let name = args.settings.data.file_name().unwrap_or_default().to_string_lossy();
    let title = format!("{name}: {:.2} % correct, {:.1} s on {machine}", 100.0 * trained.accuracy(), trained.seconds);
    let drawn =
        Curves { title: &title, x_label: "steps", y_label: "fraction, nats", curves: &lines, ..Curves::default() };
    curves(path, &drawn)
}
