//! `run`: a model on an input file.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tidegate::{Model, Schedule};
use tidegate_model::backend::Engine;
use tidegate_model::batch::run_list;
use tidegate_model::canonical::Tensor;
use tidegate_model::data::{one_line, prepare_tensors, read_bytes};
use tidegate_model::inputs::{Inputs, Part, Reader};
use tidegate_model::output::{Pending, prepare};
use tidegate_model::runner;
use tidegate_model::score::best;

use super::args::{EndlessArg, JsonArg, ModelArgs, StreamArg};
use super::{Failure, Outcome, check_outputs, graph, print_file_notes, row_text, tensor_json};

/// Runs a model on a sequence, step by step, from a zero or saved state, with its schedule
///
/// The input is [steps, features] in .npy, .npz, .safetensors or .csv, or sound (.wav, .flac) for a model with a front
/// end. If a model has no front end and takes one number a step, the samples of the sound are its steps. The tensors of
/// .npz and .safetensors have the names of the inputs; the other formats hold one tensor without a name. The output is
/// [rows, classes], with a row for every step that has an output: every step of a model with an endless state, the last
/// step of each window of a model with a schedule. Without --output it is printed with the numbers of the steps. If a
/// network needs the whole sequence, such as a bidirectional one, a partial sequence at the end is processed too, unless
/// --state-out is given, because then the sequence continues.
///
/// Many sequences are [n, steps, features], tensors x [n, steps, features] and lengths [n], a .ts file, or an index CSV
/// of files with a sequence each. Each runs from a zero state. The output is [n, rows, classes], with zeros behind the
/// rows of a shorter sequence.
///
/// For a streaming TFLite model the steps may also be grouped as in its own input, such as [calls, 3, 40]. An array of
/// int8 holds the integers of a model in i8, any other array real values.
///
/// For an ONNX graph, inputs and outputs are the tensors of the graph, including batches, states and sequence_lens. If
/// the graph has no time dimension, the input has an additional first dimension for the steps.
#[derive(clap::Args)]
#[command(after_help = "Examples, in the folder of `tidegate demo --keep .`:
  tidegate run gru_s.tgi --input speech_commands/yes/022cd682_nohash_0.flac
  tidegate run gru_s.tgi --input stream.wav --output posteriors.npy --state-out later.state
  tidegate run gru_s.tgi --input stream.wav --state-in later.state --json
  tidegate run GRU_S.pb --backend scalar --input speech_commands/yes/022cd682_nohash_0.flac")]
pub struct Args {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    stream: StreamArg,
    /// Input of the model
    #[arg(long)]
    input: PathBuf,
    /// File to write the output to [default: standard output]
    #[arg(long)]
    output: Option<PathBuf>,
    /// File to write the output of every layer to (.npz or .safetensors)
    #[arg(long, value_name = "FILE")]
    layers: Option<PathBuf>,
    /// State to start from, written by --state-out
    #[arg(long, value_name = "FILE")]
    state_in: Option<PathBuf>,
    /// File to write the state after the last step to
    #[arg(long, value_name = "FILE")]
    state_out: Option<PathBuf>,
    #[command(flatten)]
    endless: EndlessArg,
    #[command(flatten)]
    json: JsonArg,
}

pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let written = [&args.output, &args.layers, &args.state_out].map(Option::as_ref);
    let read: Vec<&Path> = args.model.files().chain([args.input.as_path()]).collect();
    check_outputs(&written, &read)?;
    // A state may be updated in place.
    let state: Vec<&Path> = args.state_in.iter().map(PathBuf::as_path).collect();
    check_outputs(&written[..2], &state)?;
    if graph::is_graph(&args.model.file)? {
        if args.state_in.is_some() || args.state_out.is_some() || args.layers.is_some() {
            let reason =
                "is an ONNX graph, whose states are tensors: pack it to use --state-in, --state-out or --layers";
            return Err(Failure::of(&args.model.file, reason));
        }
        let given = [("--stream", args.stream.stream), ("--endless", args.endless.endless)];
        if let Some((option, _)) = given.into_iter().find(|(_, given)| *given) {
            let reason = format!("is an ONNX graph, which runs as it is: pack it to use {option}");
            return Err(Failure::of(&args.model.file, reason));
        }
        return graph::run(&args.model, &args.input, args.output.as_deref(), &args.json, out);
    }
    let (image, ports) = args.model.load_streamed(&args.stream)?;
    let model = image.model()?;
    let given = Reader { model: &model, ports: &ports, file: &args.model.file }.read(&args.input, Part::Test)?;
    print_file_notes(&args.input, &given.notes);
    let engine = args.endless.of(args.model.engine(&model)?);
    if given.is_list {
        return list(args, &engine, &given, out);
    }
    let inputs: Vec<&[f32]> = given.sequences.iter().flatten().map(Vec::as_slice).collect();
    let saved = match &args.state_in {
        None => None,
        Some(file) => Some(read_bytes(file)?),
    };
    let sequence = match args.state_out {
        None => runner::run(&engine, &inputs, saved.as_deref()),
        Some(_) => runner::run_part(&engine, &inputs, saved.as_deref()),
    };
    let sequence = sequence.map_err(|error| match (&error, &args.state_in) {
        (runner::RunError::Restore(_), Some(file)) => Failure::of(
            file,
            format!("{error}; give a state that --state-out wrote with this model, or leave --state-in out"),
        ),
        _ => Failure::of(&args.input, error),
    })?;
    let outputs = model.outputs().zip(sequence.outputs);
    let outputs: Vec<(String, Tensor)> =
        outputs.map(|(port, data)| (port.name.to_owned(), rows(data, port.size))).collect();
    // No file appears before all are written.
    let mut files = Vec::new();
    if let Some(file) = &args.layers {
        let names = model.node_names().map(str::to_owned);
        let layers = names.zip(model.nodes()).zip(sequence.layers);
        let layers = layers.map(|((name, node), data)| (name, rows(data, node.output_size))).collect();
        files.push(prepare_tensors(file, &layers)?);
    }
    if let Some(file) = &args.state_out {
        files.push(prepare(file, |file| file.write_all(&sequence.state))?);
    }
    if let Some(file) = &args.output {
        files.push(prepare_tensors(file, &outputs.iter().cloned().collect())?);
    }
    if args.json.json {
        let classes: Vec<&str> = model.labels().collect();
        let outputs: Vec<Value> = outputs.iter().map(|(name, tensor)| tensor_json(name, tensor)).collect();
        writeln!(out, "{}", json!({ "steps": sequence.steps, "outputs": outputs, "labels": classes }))?;
    } else if args.output.is_none() {
        print(&model, &outputs, &sequence.steps, out)?;
    }
    files.into_iter().try_for_each(Pending::keep)?;
    Ok(())
}

/// Runs each of several sequences from a zero state.
fn list(args: &Args, engine: &Engine<'_>, given: &Inputs, out: &mut dyn Write) -> Outcome {
    let options =
        [("--state-in", &args.state_in), ("--state-out", &args.state_out), ("--layers", &args.layers)].into_iter();
    if let Some((option, _)) = options.into_iter().find(|(_, file)| file.is_some()) {
        let reason = format!("holds {} sequences, and {option} is for one: leave it out", given.sequences.len());
        return Err(Failure::of(&args.input, reason));
    }
    let model = engine.model();
    let rows = run_list(engine, &given.sequences).map_err(|error| Failure::of(&args.input, error))?;
    let (most, count) = (rows.most(), rows.counts.len());
    let tensor = |(index, port): (usize, tidegate::Port<'_>)| {
        let data = rows.padded(index, port.size).map_err(|error| Failure::of(&args.input, error))?;
        Ok((port.name.to_owned(), Tensor { shape: vec![count, most, port.size], data }))
    };
    let outputs = model.outputs().enumerate().map(tensor).collect::<Result<Vec<_>, Failure>>()?;
    let written = match &args.output {
        Some(file) => Some(prepare_tensors(file, &outputs.iter().cloned().collect())?),
        None => None,
    };
    if args.json.json {
        let classes: Vec<&str> = model.labels().collect();
        let outputs: Vec<Value> = outputs.iter().map(|(name, tensor)| tensor_json(name, tensor)).collect();
        writeln!(out, "{}", json!({ "rows": rows.counts, "outputs": outputs, "labels": classes }))?;
    } else if args.output.is_none() {
        print_list(model, &outputs, &rows.counts, out)?;
    }
    Ok(written.map_or(Ok(()), Pending::keep)?)
}

/// Prints the rows of every sequence, each with the number of the sequence.
fn print_list(model: &Model<'_>, outputs: &[(String, Tensor)], counts: &[usize], out: &mut dyn Write) -> Outcome {
    let labels: Vec<&str> = model.labels().collect();
    for (name, tensor) in outputs {
        let [_, most, size] = tensor.shape[..] else { continue };
        writeln!(out, "{} [{} x {most} x {size}]", one_line(name), counts.len())?;
        for (sequence, (rows, count)) in tensor.data.chunks((most * size).max(1)).zip(counts).enumerate() {
            for row in rows.chunks(size.max(1)).take(*count) {
                let label = labels.get(best(row)).map(|label| format!("  {label}")).unwrap_or_default();
                writeln!(out, "{sequence:5} {}{label}", row_text(row))?;
            }
        }
    }
    Ok(())
}

fn rows(data: Vec<f32>, size: usize) -> Tensor {
    Tensor { shape: vec![data.len() / size.max(1), size], data }
}

/// Prints the outputs in the order of the model.
fn print(model: &Model<'_>, outputs: &[(String, Tensor)], steps: &[usize], out: &mut dyn Write) -> Outcome {
    if steps.is_empty() {
        let remedy = if model.schedule() == Schedule::Endless { "" } else { "; --endless runs without windows" };
        writeln!(out, "no output: the input is shorter than the window of the model{remedy}")?;
    }
    let labels: Vec<&str> = model.labels().collect();
    for (name, tensor) in outputs {
        let size = tensor.shape.last().copied().unwrap_or(1).max(1);
        writeln!(out, "{} [{} x {size}]", one_line(name), tensor.data.len() / size)?;
        for (step, row) in steps.iter().zip(tensor.data.chunks(size)) {
            let label = labels.get(best(row)).map(|label| format!("  {label}")).unwrap_or_default();
            writeln!(out, "{step:5} {}{label}", row_text(row))?;
        }
    }
    Ok(())
}
