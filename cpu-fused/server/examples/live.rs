//! How many live streams one core carries, and how long their frames wait.
//!
//! Each stream gets its next frame of sound in real time, at a moment of its own. One thread computes front ends, a
//! [`StreamPool`] and detectors. With `--apart`, it steps every stream by itself.

use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::Parser;
use tidegate::{Detector, FrontEnd, ImageBytes, Model};
use tidegate_fused::{FusedModel, Stream, StreamPool, host_front_end};

/// Most streams of a call.
const BATCH: usize = 256;
/// Every so many streams, one is compared with a stream alone.
const SAMPLED: usize = 500;

/// Steps live streams of a model in real time, and says how long they waited.
#[derive(Debug, Parser)]
#[command(after_help = "Example:\n  cargo run --release -p tidegate-server --example live -- kws.tgi --streams 1000")]
struct Arguments {
    /// An image with a front end and a detector
    image: PathBuf,
    /// Number of streams
    #[arg(long, default_value_t = 1000)]
    streams: usize,
    /// Duration of the sound
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// How long a frame waits for those of other streams, in milliseconds
    #[arg(long, default_value_t = 5)]
    deadline_ms: u64,
    /// Step every stream by itself
    #[arg(long)]
    apart: bool,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments = Arguments::parse();
    let image = std::fs::read(&arguments.image)?;
    let mut words = vec![0_u64; image.len().div_ceil(8)];
    bytemuck::cast_slice_mut(&mut words)[..image.len()].copy_from_slice(&image);
    let model = Model::parse(ImageBytes::new(&bytemuck::cast_slice(&words)[..image.len()])?)?;
    let mfcc = &host_front_end(model.front_end().ok_or("the image has no front end")?);
    let detector = model.detector().ok_or("the image has no detector")?;
    let settings = mfcc.settings();
    let hop = settings.stride_len as usize;
    let period = Duration::from_secs_f64(hop as f64 / f64::from(settings.sample_rate));

    let fused = FusedModel::new(&model);
    let mut pool = StreamPool::with_capacity(&fused, arguments.streams);
    let ids: Vec<_> = (0..arguments.streams).map(|_| pool.join()).collect();
    let mut apart: Vec<Stream<'_, '_>> = (0..arguments.streams)
        .map(|_| fused.stream())
        .take(if arguments.apart { arguments.streams } else { 0 })
        .collect();
    let mut alone: Vec<(usize, Stream<'_, '_>)> =
        (0..arguments.streams).step_by(SAMPLED).map(|stream| (stream, fused.stream())).collect();
    let mut sounds = vec![vec![0; mfcc.memory_words()]; arguments.streams];
    let mut means = vec![vec![0; detector.memory_words()]; arguments.streams];
    let mut front_ends: Vec<_> = sounds.iter_mut().map(|words| FrontEnd::new(mfcc, words)).collect::<Result<_, _>>()?;
    let mut detectors: Vec<_> =
        means.iter_mut().map(|words| Detector::new(detector, words)).collect::<Result<_, _>>()?;
    let noise = noise(1 << 16);

    let (inputs, outputs) = (model.input_size(), model.output_size());
    let (mut ready, mut frames, mut given) = (Vec::new(), Vec::new(), vec![0.0; BATCH * outputs]);
    let mut expected = vec![0.0; outputs];
    let (mut idle, mut waits, mut compared, mut events) = (Duration::ZERO, Vec::new(), 0_u64, 0_u64);
    let memory = resident_kib();
    let start = Instant::now();
    // The frames of all streams in the order in which they are due.
    let count = arguments.streams as u64 * arguments.seconds * 1_000_000 / period.as_micros() as u64;
    let due = |turn: u64| start + Duration::from_nanos(period.as_nanos() as u64 * turn / arguments.streams as u64);
    let deadline = Duration::from_millis(arguments.deadline_ms);
    let mut turn = 0;
    while turn < count {
        let before = Instant::now();
        sleep((due(turn) + deadline).saturating_duration_since(before));
        let now = Instant::now();
        idle += now - before;
        let first = turn;
        ready.clear();
        frames.clear();
        while turn < count && turn - first < BATCH as u64 && due(turn) <= now {
            let stream = (turn % arguments.streams as u64) as usize;
            let from = (stream * 977 + turn as usize / arguments.streams * hop) % (noise.len() - hop);
            let mut rest = &noise[from..from + hop];
            while !rest.is_empty() {
                rest = &rest[front_ends[stream].push(rest)..];
                while let Some(frame) = front_ends[stream].next() {
                    ready.push((stream, turn));
                    frames.extend_from_slice(frame);
                }
            }
            turn += 1;
        }
        let rows = ready.len();
        let output = &mut given[..rows * outputs];
        let has_output: Vec<bool> = if arguments.apart {
            let mut has = Vec::new();
            for (index, (stream, _)) in ready.iter().enumerate() {
                let row = &mut output[index * outputs..(index + 1) * outputs];
                has.push(apart[*stream].step(&frames[index * inputs..(index + 1) * inputs], row)?.has_output());
            }
            has
        } else {
            let called: Vec<_> = ready.iter().map(|(stream, _)| ids[*stream]).collect();
            pool.step(&called, &frames, output)?.iter().map(|step| step.has_output()).collect()
        };
        let done = Instant::now();
        for (index, &(stream, turn)) in ready.iter().enumerate() {
            waits.push(done.saturating_duration_since(due(turn)).as_micros() as u32);
            let row = &output[index * outputs..(index + 1) * outputs];
            if has_output[index] {
                let at_ms = done.duration_since(start).as_millis() as u32;
                events += u64::from(detectors[stream].push(row, at_ms)?.is_some());
            }
            if let Some((_, alone)) = alone.iter_mut().find(|(sampled, _)| *sampled == stream) {
                let step = alone.step(&frames[index * inputs..(index + 1) * inputs], &mut expected)?;
                let same = !step.has_output() || row.iter().zip(&expected).all(|(a, b)| a.to_bits() == b.to_bits());
                if !same {
                    return Err(format!("stream {stream}: differs from a stream alone").into());
                }
                compared += 1;
            }
        }
    }
    let busy = 1.0 - idle.as_secs_f64() / start.elapsed().as_secs_f64();
    waits.sort_unstable();
    let wait = |part: f64| f64::from(waits[((waits.len() - 1) as f64 * part) as usize]) / 1000.0;
    println!(
        "{}",
        serde_json::json!({
            "streams": arguments.streams, "apart": arguments.apart, "seconds": arguments.seconds, "busy": busy,
            "carries": (arguments.streams as f64 / busy) as u64, "frames": waits.len(), "events": events,
            "wait_ms": { "p50": wait(0.5), "p99": wait(0.99), "max": wait(1.0) },
            "resident_kib": [memory, resident_kib()], "steps_compared": compared,
        })
    );
    Ok(())
}

/// Noise with a varying level.
fn noise(samples: usize) -> Vec<i16> {
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) as u16 as i16
    };
    (0..samples).map(|k| next() >> (1 + k / 4000 % 7)).collect()
}

/// Memory of this process, or 0 where the system does not say.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse().unwrap_or(0)
}
