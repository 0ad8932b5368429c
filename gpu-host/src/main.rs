//! `tidegate-gpu`: trains recurrent networks and leaves canonical weights.

mod gpu;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tidegate::Numeric;
use tidegate_gpu::rnn::Math;
use tidegate_gpu::train::{self, Machine, Place, Settings, TrainError, Trained, Wanted};
use tidegate_tools::data::{DataError, hide_guarded_panics, one_line, write_tensors};
use tidegate_tools::output::write_atomically;
use tidegate_tools::plot::{Curves, curves};

#[derive(Parser)]
#[command(name = "tidegate-gpu", version, about, long_about = None, arg_required_else_help = true)]
#[command(after_help = "Exit codes:    0 done, 1 bad input, 2 bad use")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// Trains recurrent networks; what comes out is a model that `tidegate pack` reads.
#[derive(Subcommand)]
enum Command {
    Train(Box<Args>),
    Record(gpu::RecordArgs),
    Time(gpu::TimeArgs),
}

/// Trains a network, and writes a canonical model and a plot of its curves
///
/// The architecture is a JSON file in PyTorch's words, as `tidegate import` reads it (docs/training.md). Data are an index of
/// sounds (CSV with `file`, `label` and `split`, whose rows `train` are trained on and whose others are held out), `.ts` files,
/// or tensors (.npz, .safetensors) x, y and lengths. A training that was stopped goes on where it was: run the same command.
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
    /// Sequences, or an index of sounds
    #[arg(long, value_name = "FILE")]
    data: PathBuf,
    /// What is held out [default: what DATA says]
    #[arg(long, value_name = "FILE")]
    test: Option<PathBuf>,
    /// JSON file with the architecture, in PyTorch's words
    #[arg(long, value_name = "FILE")]
    arch: PathBuf,
    /// The model that is written
    #[arg(long, value_name = "FILE.safetensors")]
    out: PathBuf,
    /// Curves of the training [default: OUT with .svg]
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// The weights under PyTorch's names as well
    #[arg(long, value_name = "FILE.safetensors")]
    state_dict: Option<PathBuf>,
    /// Where the training is kept while it lasts [default: OUT with .checkpoint]
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,
    /// Weights to begin with, under PyTorch's names
    #[arg(long, value_name = "FILE")]
    init: Option<PathBuf>,
    /// Learn with weights and values rounded as `tidegate pack --numeric` rounds them; what is held out is counted so too
    #[arg(long, value_name = "i8x16|i4x16", value_parser = integers)]
    quantize_aware: Option<Numeric>,
    /// What is trained on and held out, scaled, as tensors that --data reads: copies stand behind the sequence they are of
    #[arg(long, value_name = "FILE.safetensors|FILE.npz")]
    features: Option<PathBuf>,
    /// `precise`, or a JSON file with the front end that sounds go through
    #[arg(long, value_name = "precise|FILE")]
    front_end: Option<PathBuf>,
    /// Copies of each sound, faster or slower, earlier or later, louder or softer and with noise
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = at_most(1000), requires = "front_end")]
    copies: usize,
    /// Label of the clips that are the noise of these copies [default: white noise]
    #[arg(long, value_name = "LABEL", requires = "copies")]
    background: Option<String>,
    /// Times that all sequences are gone through
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = from_one(1_000_000))]
    epochs: usize,
    /// Epochs without a better one on what is held out before it ends; the best one's weights are written then, else the
    /// last one's
    #[arg(long, value_name = "N", value_parser = from_one(1_000_000))]
    patience: Option<usize>,
    /// Sequences of a step
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = from_one(65_536))]
    batch: usize,
    /// Learning rate of Adam
    #[arg(long, value_name = "RATE", default_value_t = 0.002, value_parser = positive)]
    lr: f64,
    /// Learning rate at the end as a share of that at the start, along a half cosine
    #[arg(long, value_name = "SHARE", default_value_t = 1.0, value_parser = not_negative)]
    lr_end: f64,
    /// Decay of the weights (AdamW)
    #[arg(long, value_name = "RATE", default_value_t = 0.0, value_parser = not_negative)]
    weight_decay: f64,
    /// Longest gradient
    #[arg(long, value_name = "NORM", default_value_t = 1.0, value_parser = positive)]
    clip: f64,
    /// Standard deviation of noise on features that are scaled to 1
    #[arg(long, value_name = "DEVIATION", default_value_t = 0.0, value_parser = not_negative)]
    noise: f64,
    /// Leave features as they are: else they are scaled to mean 0 and deviation 1, which goes into the first layer's weights
    #[arg(long)]
    no_scale: bool,
    /// Each sequence goes on where another has ended, as in a stream, for a model that runs without an end
    #[arg(long)]
    carry: bool,
    /// Of everything random
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Where it is trained: `auto` is a GPU where this build has cuDNN and the machine a GPU, else the CPU
    #[arg(long, value_name = "auto|cpu|cuda", default_value = "auto", value_parser = device)]
    device: Wanted,
    /// How exact products are on a GPU
    #[arg(long, value_name = "f32|tf32|bf16", default_value = "f32", value_parser = math)]
    math: Math,
    /// One JSON value on standard output
    #[arg(long)]
    json: bool,
}

fn integers(text: &str) -> Result<Numeric, String> {
    let known = [Numeric::I8x16, Numeric::I4x16].into_iter().find(|numeric| numeric.name() == text);
    known.ok_or_else(|| "write i8x16 or i4x16".to_owned())
}

fn device(text: &str) -> Result<Wanted, String> {
    match text {
        "auto" => Ok(Wanted::Auto),
        "cpu" => Ok(Wanted::Cpu),
        "cuda" => Ok(Wanted::Cuda),
        _ => Err("write auto, cpu or cuda".to_owned()),
    }
}

fn math(text: &str) -> Result<Math, String> {
    match text {
        "f32" => Ok(Math::F32),
        "tf32" => Ok(Math::Tf32),
        "bf16" => Ok(Math::Bf16),
        _ => Err("write f32, tf32 or bf16".to_owned()),
    }
}

fn from_one(most: usize) -> impl Fn(&str) -> Result<usize, String> + Clone + Send + Sync + 'static {
    move |text| {
        let number = text.parse().ok().filter(|number| (1..=most).contains(number));
        number.ok_or_else(|| format!("write a number from 1 to {most}"))
    }
}

fn at_most(most: usize) -> impl Fn(&str) -> Result<usize, String> + Clone + Send + Sync + 'static {
    move |text| {
        let number = text.parse().ok().filter(|number| *number <= most);
        number.ok_or_else(|| format!("write a number from 0 to {most}"))
    }
}

fn positive(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| *number > 0.0);
    number.ok_or_else(|| "write a number above 0".to_owned())
}

fn not_negative(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0);
    number.ok_or_else(|| "write a number from 0 on".to_owned())
}

fn main() -> ExitCode {
    let Cli { command } = Cli::parse();
    hide_guarded_panics();
    let done = match command {
        Command::Train(args) => run(&args).map_err(|error| error.to_string()),
        Command::Record(args) => gpu::record(&args),
        Command::Time(args) => gpu::time(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tidegate-gpu: {}", one_line(&error));
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<(), TrainError> {
    let plot = args.plot.clone().unwrap_or_else(|| args.out.with_extension("svg"));
    let checkpoint = args.checkpoint.clone().unwrap_or_else(|| args.out.with_extension("checkpoint"));
    apart(args, &plot, &checkpoint)?;
    let settings = Settings {
        data: args.data.clone(),
        test: args.test.clone(),
        arch: args.arch.clone(),
        front_end: args.front_end.clone(),
        copies: args.copies,
        background: args.background.clone(),
        init: args.init.clone(),
        quantize_aware: args.quantize_aware,
        features: args.features.clone(),
        epochs: args.epochs,
        patience: args.patience,
        batch: args.batch,
        learning_rate: args.lr,
        end_rate: args.lr_end,
        weight_decay: args.weight_decay,
        clip: args.clip,
        noise: args.noise as f32,
        scale: !args.no_scale,
        carry: args.carry,
        seed: args.seed,
        checkpoint: checkpoint.clone(),
    };
    let place = Place::from_env()?;
    // Integers are rounded between steps, which only the CPU's do.
    let wanted = match args.device {
        Wanted::Auto if args.quantize_aware.is_some() => Wanted::Cpu,
        wanted => wanted,
    };
    let (mut machine, reason) = Machine::find(wanted, place.local_rank(), args.math)?;
    if !args.json && place.is_first() {
        let others = if place.size() > 1 { format!(", {} processes", place.size()) } else { String::new() };
        let reason = reason.map_or_else(String::new, |reason| format!(": {reason}"));
        say(args, &format!("training on {}{others}{reason}", machine.name()))?;
    }
    let trained = train::train(&settings, &mut machine, &place)?;
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
            "seed": args.seed,
        });
        return say(args, &json.to_string());
    }
    let chosen = if args.patience.is_some() { ", the best on these" } else { "" };
    say(
        args,
        &format!(
            "{}: {right} of {} held out are right ({:.2} %) after epoch {}{chosen}; best batch {:.1} %; {:.1} s\n\
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

/// Every file that is read or written is another one.
fn apart(args: &Args, plot: &Path, checkpoint: &Path) -> Result<(), DataError> {
    let inputs = [Some(&args.data), args.test.as_ref(), Some(&args.arch), args.init.as_ref(), args.front_end.as_ref()];
    let inputs = inputs.into_iter().flatten().map(PathBuf::as_path);
    let tensors = [args.state_dict.as_deref(), args.features.as_deref()];
    let outputs = [args.out.as_path(), plot, checkpoint].map(Some).into_iter().chain(tensors);
    let mut taken: Vec<PathBuf> = inputs.map(place).collect();
    for output in outputs.flatten() {
        let at = place(output);
        if taken.contains(&at) {
            return Err(DataError::new(output, "is read or written already: give the output another name"));
        }
        taken.push(at);
    }
    Ok(())
}

/// Where a file is, or will be.
fn place(path: &Path) -> PathBuf {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let new = || Some(folder.canonicalize().ok()?.join(path.file_name()?));
    path.canonicalize().ok().or_else(new).unwrap_or_else(|| path.to_owned())
}

fn say(args: &Args, text: &str) -> Result<(), TrainError> {
    match writeln!(io::stdout().lock(), "{text}") {
        // Whoever read the output has had enough.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(DataError::io(&args.out, "told of on standard output", error).into())
        }
        _ => Ok(()),
    }
}

fn draw(path: &Path, args: &Args, trained: &Trained, machine: &str) -> Result<(), DataError> {
    let each = |which: usize| {
        let points = trained.steps.iter().enumerate();
        points.map(move |(k, point)| ((k + 1) as f32, point[which])).collect::<Vec<_>>()
    };
    let per_epoch = trained.steps.len() as f32 / trained.held_out.len().max(1) as f32;
    let checked = |which: usize| {
        let points = trained.held_out.iter().enumerate();
        points.map(move |(k, point)| ((k + 1) as f32 * per_epoch, point[which])).collect::<Vec<_>>()
    };
    let lines = [
        ("right in the batch".to_owned(), each(1)),
        ("right of what is held out".to_owned(), checked(1)),
        ("loss of the batch".to_owned(), each(0)),
        ("loss of what is held out".to_owned(), checked(0)),
    ];
    let name = args.data.file_name().unwrap_or_default().to_string_lossy();
    let title = format!("{name}: {:.2} % right, {:.1} s on {machine}", 100.0 * trained.accuracy(), trained.seconds);
    curves(path, &Curves { title: &title, x_label: "steps", y_label: "share, nats", curves: &lines })
}
