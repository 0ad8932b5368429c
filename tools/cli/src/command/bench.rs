//! `bench`: the speed of a model on this machine.

mod streams;

use std::hint::black_box;
use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use tidegate::{Batch, Model, Sequence, State};
use tidegate_model::backend::{Engine, Scratch};

use super::args::{JsonArg, ModelArgs};
use super::{Failure, Outcome};

/// Measures the speed of a model on this machine
///
/// One call runs --batch sequences of --steps steps, shared among --threads threads. With --stream, one call is one
/// step. With --streams, one call steps that many live streams once, together in a pool or, with --apart, one after the
/// other. The input is seeded noise, and the state is endless, whatever the schedule of the model. Prints the median time
/// of a call. Compare only medians from the same machine.
#[derive(clap::Args)]
#[command(after_help = "Examples, in the folder of `tidegate demo --keep .`:
  tidegate bench gru_s.tgi --stream
  tidegate bench gru_s.tgi --streams 64
  tidegate bench GRU_S.pb --batch 8 --steps 100 --threads 2 --json")]
pub struct Args {
    #[command(flatten)]
    model: ModelArgs,
    /// Sequences per call
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    batch: u32,
    /// Steps per sequence
    #[arg(long, default_value_t = 25, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    steps: u32,
    /// Threads that share the batch or the streams
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_024))]
    threads: u32,
    /// Time single steps of one stream
    #[arg(long, conflicts_with_all = ["batch", "steps", "threads"])]
    stream: bool,
    /// Time steps of N live streams
    #[arg(long, value_name = "N", conflicts_with_all = ["batch", "steps", "stream"],
        value_parser = clap::value_parser!(u32).range(1..=65_536))]
    streams: Option<u32>,
    /// Step the streams one after the other
    #[arg(long, requires = "streams")]
    apart: bool,
    #[command(flatten)]
    json: JsonArg,
}

/// Maximum number of values in one sequence: 1 GiB.
const MOST_NUMBERS: usize = 1 << 28;
/// Time for all calls.
const BUDGET: Duration = Duration::from_secs(2);
const LEAST_RUNS: usize = 5;
const MOST_RUNS: usize = 100_000;

pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let image = args.model.load()?;
    let model = image.model()?.endless();
    if model.inputs().count() != 1 || model.outputs().count() != 1 {
        return Err(Failure::of(&args.model.file, "has several inputs or outputs; bench runs models with one of each"));
    }
    if let Some(streams) = args.streams {
        return live(args, &model, streams, out);
    }
    let (batch, steps, threads) = if args.stream { (1, 1, 1) } else { (args.batch, args.steps, args.threads) };
    if threads > batch {
        let reason = format!("--threads: {threads} threads cannot share a batch of {batch}: give --batch {threads}");
        return Err(Failure::new(reason));
    }
    if steps as usize * model.input_size() > MOST_NUMBERS {
        let reason = format!("{steps} steps of {} features are too many: give fewer --steps", model.input_size());
        return Err(Failure::of(&args.model.file, reason));
    }
    let input = noise(steps as usize * model.input_size());
    let engine = args.model.engine(&model)?;
    let times = if args.stream { time_steps(&engine, &input) } else { time_batches(&engine, &input, batch, threads) };
    let (median, min, runs) = (times[times.len() / 2], times[0], times.len());
    let per_step = median as f64 / (f64::from(batch) * f64::from(steps));
    if args.json.json {
        let value = json!({
            "numeric": model.numeric().name(), "isa": engine.isa(), "batch": batch, "steps": steps, "threads": threads,
            "median_ns": median, "min_ns": min, "per_step_ns": per_step, "runs": runs,
        });
        writeln!(out, "{value}")?;
    } else {
        let (numeric, isa, file) = (model.numeric().name(), engine.isa(), args.model.file.display());
        writeln!(out, "{file}: {numeric}, {isa}, batch {batch}, {steps} steps, {threads} threads")?;
        let [step, call, least] = [per_step, median as f64, min as f64].map(|ns| ns / 1e3);
        writeln!(out, "{step:.2} us per step; {call:.2} us per call (median of {runs}, minimum {least:.2})")?;
    }
    Ok(())
}

/// Times steps of live streams, and prints the result.
fn live(args: &Args, model: &Model<'_>, streams: u32, out: &mut dyn Write) -> Outcome {
    let fail = |reason: String| Failure::of(&args.model.file, reason);
    let (count, threads) = (streams as usize, args.threads.min(streams));
    let numbers = model.state_words() + model.scratch_words() + model.input_size() + model.output_size();
    if count * numbers > MOST_NUMBERS {
        return Err(fail(format!("{streams} streams of this model are too many: give fewer --streams")));
    }
    let engine = args.model.engine(model)?;
    let Engine::Fused(fused) = &engine else {
        return Err(fail("--streams needs the fused backend: omit --backend scalar".to_owned()));
    };
    let how = streams::How { streams: count, threads: threads as usize, apart: args.apart };
    let times = streams::time(fused, &noise(count * model.input_size()), how)
        .map_err(|error| fail(format!("cannot start {threads} threads: {error}; give fewer --threads")))?;
    let (median, min, runs) = (times[times.len() / 2], times[0], times.len());
    let per_step = median as f64 / f64::from(streams);
    if args.json.json {
        let value = json!({
            "numeric": model.numeric().name(), "isa": engine.isa(), "streams": streams, "apart": args.apart,
            "threads": threads, "median_ns": median, "min_ns": min, "per_step_ns": per_step, "runs": runs,
        });
        writeln!(out, "{value}")?;
    } else {
        let (numeric, isa, file) = (model.numeric().name(), engine.isa(), args.model.file.display());
        let way = if args.apart { "apart" } else { "together" };
        writeln!(out, "{file}: {numeric}, {isa}, {streams} streams {way}, {threads} threads")?;
        let [step, call, least] = [per_step, median as f64, min as f64].map(|ns| ns / 1e3);
        writeln!(
            out,
            "{step:.2} us per step of a stream; {call:.2} us per call (median of {runs}, minimum {least:.2})"
        )?;
    }
    Ok(())
}

/// Times `call` until the budget is spent. Returns nanoseconds in ascending order.
fn time(mut call: impl FnMut()) -> Vec<u64> {
    let mut times = Vec::new();
    let start = Instant::now();
    while times.len() < LEAST_RUNS || (start.elapsed() < BUDGET && times.len() < MOST_RUNS) {
        let begin = Instant::now();
        call();
        times.push(begin.elapsed().as_nanos() as u64);
    }
    times.sort_unstable();
    times
}

/// Times steps of one stream.
fn time_steps(engine: &Engine<'_>, frame: &[f32]) -> Vec<u64> {
    let model = engine.model();
    let (mut memory, mut scratch) = (vec![0; model.state_words()], engine.scratch());
    let mut output = vec![0.0; model.output_size()];
    let mut state = State::new(model, &mut memory).expect("the memory has the model's own length");
    time(|| {
        let step = engine.step_f32(&mut state, &mut scratch, black_box(frame), &mut output);
        let _ = black_box(step);
    })
}

/// Times batches of sequences, shared among threads.
fn time_batches(engine: &Engine<'_>, input: &[f32], batch: u32, threads: u32) -> Vec<u64> {
    let share = |index| batch / threads + u32::from(index < batch % threads);
    let mut workers: Vec<Worker<'_>> = (0..threads).map(|index| Worker::new(engine, input, share(index))).collect();
    time(|| match workers.as_mut_slice() {
        [only] => only.sequences(),
        many => thread::scope(|scope| {
            for worker in many {
                scope.spawn(move || worker.sequences());
            }
        }),
    })
}

/// The share of one thread.
struct Worker<'m> {
    engine: &'m Engine<'m>,
    /// Sequences in one batch, at most [`MOST_NUMBERS`] values.
    at_once: u32,
    /// Sequences of this thread.
    count: u32,
    input: Vec<f32>,
    states: Vec<u32>,
    scratch: Scratch,
    output: Vec<f32>,
}

impl<'m> Worker<'m> {
    fn new(engine: &'m Engine<'m>, input: &[f32], count: u32) -> Self {
        let model = engine.model();
        let rows = input.len() / model.input_size();
        let numbers = (rows * model.input_size().max(model.output_size())).max(model.state_words());
        let at_once = count.min((MOST_NUMBERS / numbers.max(1)) as u32).max(1);
        Self {
            engine,
            at_once,
            count,
            input: input.repeat(at_once as usize),
            states: vec![0; at_once as usize * model.state_words()],
            scratch: engine.scratch(),
            output: vec![0.0; at_once as usize * rows * model.output_size()],
        }
    }

    /// Runs all sequences, each from a zero state.
    fn sequences(&mut self) {
        let (model, at_once) = (self.engine.model(), self.at_once as usize);
        let mut left = self.count as usize;
        while left > 0 {
            let now = left.min(at_once);
            let mut states = Batch::new(model, now, &mut self.states).expect("as many words as its states have");
            let (of_input, of_output) = (self.input.len() / at_once, self.output.len() / at_once);
            let (input, output) = (&self.input[..of_input * now], &mut self.output[..of_output * now]);
            let run = self.engine.run_batch(
                &mut states,
                &mut self.scratch,
                &[black_box(input)],
                &mut [output],
                &Sequence::ALL,
            );
            let _ = black_box(run);
            left -= now;
        }
        black_box(&self.output);
    }
}

/// Uniform noise in ±1, the same on every run (xorshift, Marsaglia 2003).
fn noise(len: usize) -> Vec<f32> {
    let mut word = 0x9E37_79B9_u32;
    let mut draw = || {
        word ^= word << 13;
        word ^= word >> 17;
        word ^= word << 5;
        word as f32 / (1u32 << 31) as f32 - 1.0
    };
    (0..len).map(|_| draw()).collect()
}
