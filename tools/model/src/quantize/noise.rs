//! Seeded noise that replaces missing calibration data.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use tidegate::internals::cell::{CellKind, Reads};
use tidegate::{Numeric, front_end::Mfcc};

use super::Ranges;
use super::seen::RangesError;
use super::terms::reads;
use crate::canonical::{Canonical, Node, Port};
use crate::pack::PackError;
use crate::runner::clip_features;

const SEED: u64 = 0;
/// Seconds of sound at each loudness.
const SECONDS: usize = 1;
/// Number of sound amplitudes; each is half the previous one, starting at full scale.
const LOUDNESSES: u32 = 12;
/// Number of sequences for a model without a front end, and the minimum number of their steps.
const SEQUENCES: (usize, usize) = (8, 100);
/// Maximum number of steps, for windows of any length.
const MOST_STEPS: usize = 1 << 14;

impl Ranges {
    /// Observes a model that runs over [`noise`]. The errors are those of [`measure`](Self::measure).
    pub fn from_noise(model: &Canonical) -> Result<Self, RangesError> {
        let sequences = noise(model)?;
        let sequences: Vec<Vec<&[f32]>> =
            sequences.iter().map(|inputs| inputs.iter().map(Vec::as_slice).collect()).collect();
        Self::measure(model, sequences.iter().map(Vec::as_slice))
    }
}

/// Number of steps after which every window has been full once, if each node reads the previous one.
fn steps_of_windows(nodes: &[Node]) -> usize {
    let windows = nodes.iter().filter(|node| node.cell == CellKind::Window.spec().name);
    let extent = |node: &Node, name: &str| node.extents.get(name).copied().unwrap_or(1);
    let (steps, _) = windows.fold((1_usize, 1_usize), |(steps, stride), node| {
        let waited = stride.saturating_mul(extent(node, "length").saturating_sub(1));
        (steps.saturating_add(waited), stride.saturating_mul(extent(node, "hop")))
    });
    steps
}

/// Calibration sequences, each `[steps, size]` for each input: noise through the front end at every loudness from full
/// scale down; without a front end, uniform noise between -1 and 1, or row indices for an embedding.
///
/// # Errors
/// If the front end cannot run.
pub fn noise(model: &Canonical) -> Result<Vec<Vec<Vec<f32>>>, RangesError> {
    let architecture = &model.architecture;
    let mut noise = ChaCha8Rng::seed_from_u64(SEED);
    if let Some(front_end) = &architecture.front_end {
        let section = front_end.section(Numeric::I8x16).map_err(PackError::from)?;
        let mfcc = Mfcc::parse(&section).map_err(|error| RangesError::Image(error.into()))?;
        let len = SECONDS * front_end.sample_rate as usize;
        let sound = |halvings: u32| -> Vec<i16> {
            (0..len).map(|_| (noise.next_u32() >> 16) as u16 as i16 >> halvings).collect()
        };
        let sounds: Vec<Vec<i16>> = (0..LOUDNESSES).map(sound).collect();
        return sounds.iter().map(|sound| Ok(vec![clip_features(&mfcc, sound)?])).collect();
    }
    let rows_of_a_table = |input: &Port| {
        let reader = |node: &&Node| reads(node) == Reads::Index && node.inputs.contains(&input.name);
        let node = architecture.nodes.iter().find(reader)?;
        node.extents.get("vocabulary").copied()
    };
    let tables: Vec<Option<usize>> = architecture.inputs.iter().map(rows_of_a_table).collect();
    let (count, least) = SEQUENCES;
    let steps = steps_of_windows(&architecture.nodes).clamp(least, MOST_STEPS);
    let mut number = |table: Option<usize>| match table {
        Some(rows) => (noise.next_u32() as usize % rows.max(1)) as f32,
        None => noise.next_u32() as f32 / (u32::MAX / 2) as f32 - 1.0,
    };
    let mut input = |(port, table): (&Port, &Option<usize>)| -> Vec<f32> {
        (0..steps * port.size).map(|_| number(*table)).collect()
    };
    Ok((0..count).map(|_| architecture.inputs.iter().zip(&tables).map(&mut input).collect()).collect())
}
