//! Scores of a model: on single clips ([`Confusion`]), and on clips joined into one stream ([`StreamPlan`], [`score`]).
//! Running the model does not belong here.

use std::fmt;

use chacha20::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};
use serde::Serialize;

/// Maximum delay of a keyword's event after the end of its clip, in tenths of a second. No gap is shorter.
const GRACE_TENTHS: u64 = 6;
/// Shortest and longest gap, in tenths of a second.
const GAP_TENTHS: (u64, u64) = (6, 14);
/// Amplitude of the noise in the gaps: 1e-4 of full scale.
const NOISE: f64 = 1e-4 * 32768.0;

/// A clip's label and its number of samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClipLen {
    /// Class of the clip; a label that begins with `_` is not a keyword.
    pub label: String,
    /// Length in samples.
    pub len: usize,
}

/// A clip and its position in the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Index in the slice passed to [`StreamPlan::new`].
    pub clip: usize,
    /// Class of the clip.
    pub label: String,
    /// First sample in the stream.
    pub start: u64,
    /// One past the last sample in the stream.
    pub end: u64,
}

/// Plan of a stream that contains every clip once, in an order and with gaps drawn from a seed: a gap, a clip, ... a
/// clip, a gap.
///
/// The same clips and seed give the same stream on every machine and in every version. Numbers are derived here from
/// the words of ChaCha8, since the distributions of a crate may change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamPlan {
    sample_rate: u32,
    seed: u64,
    placed: Vec<Placed>,
    len: u64,
}

/// A part of the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Noise between clips.
    Gap(Vec<i16>),
    /// Index of a clip.
    Clip(usize),
}

impl StreamPlan {
    /// Draws the order and the gaps, 0.6 to 1.4 s.
    pub fn new(clips: &[ClipLen], sample_rate: u32, seed: u64) -> Self {
        let mut draw = generator(seed, 0);
        let mut order: Vec<usize> = (0..clips.len()).collect();
        for last in (1..order.len()).rev() {
            // Fisher–Yates shuffle
            order.swap(last, below(&mut draw, last as u64 + 1) as usize);
        }
        let [least, most] = [GAP_TENTHS.0, GAP_TENTHS.1].map(|tenths| tenths * u64::from(sample_rate) / 10);
        let mut gap = || least + below(&mut draw, most - least + 1);
        let (mut at, mut placed) = (gap(), Vec::with_capacity(clips.len()));
        for clip in order {
            let ClipLen { label, len } = &clips[clip];
            let end = at + *len as u64;
            placed.push(Placed { clip, label: label.clone(), start: at, end });
            at = end + gap();
        }
        Self { sample_rate, seed, placed, len: at }
    }

    /// The clips in the order of the stream.
    pub fn placed(&self) -> &[Placed] {
        &self.placed
    }

    /// Number of samples of the whole stream.
    pub fn samples(&self) -> u64 {
        self.len
    }

    /// Duration of the whole stream.
    pub fn seconds(&self) -> f64 {
        self.len as f64 / f64::from(self.sample_rate.max(1))
    }

    /// The stream in order, piece by piece, so that only one gap is in memory.
    pub fn pieces(&self) -> impl Iterator<Item = Piece> + '_ {
        let mut noise = generator(self.seed, 1);
        let mut gap = move |len: u64| {
            // Uniform in the open interval (-1, 1): odd multiples of 2^-32.
            let unit = |word: u32| (2.0 * f64::from(word) + 1.0) / f64::from(1u32 << 31) / 2.0 - 1.0;
            Piece::Gap((0..len).map(|_| (unit(noise.next_u32()) * NOISE).round() as i16).collect())
        };
        let clips = self.placed.iter().map(|clip| (clip.start, Some(Piece::Clip(clip.clip)), clip.end));
        let mut at = 0;
        clips.chain([(self.len, None, self.len)]).flat_map(move |(start, clip, end)| {
            let gap = gap(start - at);
            at = end;
            [Some(gap), clip].into_iter().flatten()
        })
    }
}

/// ChaCha8 with the seed as the first eight bytes of its key; `stream` separates the plan from the noise.
fn generator(seed: u64, stream: u64) -> ChaCha8Rng {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    let mut generator = ChaCha8Rng::from_seed(key);
    generator.set_stream(stream);
    generator
}

/// A uniform number below `bound`, with a bias of less than `bound` in 2^64.
fn below(draw: &mut ChaCha8Rng, bound: u64) -> u64 {
    ((u128::from(draw.next_u64()) * u128::from(bound)) >> 64) as u64
}

/// An event that a detector reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Index of the label in the model. An index without a label matches no keyword.
    pub label: usize,
    /// Number of stream samples processed before the event.
    pub at_sample: u64,
}

/// Score of a model on a stream. `right + wrong + missed = keywords`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StreamScore {
    /// Number of all clips, keywords or not.
    pub clips: usize,
    /// Duration of the stream.
    pub seconds: f64,
    /// Seed of the plan.
    pub seed: u64,
    /// Number of clips whose label does not begin with `_`.
    pub keywords: usize,
    /// Keywords with exactly one event, of their label.
    pub right: usize,
    /// Keywords with an event of another label.
    pub wrong: usize,
    /// The other keywords: no event, or more than one of the right label.
    pub missed: usize,
    /// Events outside of all keywords.
    pub false_alarms: usize,
    /// False alarms per hour, over the whole stream.
    pub false_alarms_per_hour: f64,
    /// Labels of the model.
    pub labels: Vec<String>,
}

/// Scores events, in any order, against the plan of their stream.
///
/// An event belongs to a keyword from the first sample of its clip until 0.6 s after the clip. Since no gap is shorter,
/// an event belongs to at most one keyword. Events of labels that begin with `_` are ignored. A clip whose label the
/// model lacks is a keyword that cannot be right.
pub fn score(events: &[Event], plan: &StreamPlan, labels: &[String]) -> StreamScore {
    let grace = GRACE_TENTHS * u64::from(plan.sample_rate) / 10;
    let mut heard = vec![(0, 0); plan.placed.len()]; // (of its label, of another)
    let mut false_alarms = 0;
    for event in events {
        let name = labels.get(event.label).map_or("", String::as_str);
        if !is_keyword(name) {
            continue;
        }
        let next = plan.placed.partition_point(|clip| clip.start < event.at_sample);
        match next.checked_sub(1).map(|i| (&plan.placed[i], &mut heard[i])) {
            Some((clip, heard)) if is_keyword(&clip.label) && event.at_sample <= clip.end + grace => {
                if clip.label == name {
                    heard.0 += 1;
                } else {
                    heard.1 += 1;
                }
            }
            _ => false_alarms += 1,
        }
    }
    let keywords: Vec<_> = plan.placed.iter().zip(heard).filter(|(clip, _)| is_keyword(&clip.label)).collect();
    let right = keywords.iter().filter(|(_, heard)| *heard == (1, 0)).count();
    let wrong = keywords.iter().filter(|(_, heard)| heard.1 > 0).count();
    let hours = plan.seconds() / 3600.0;
    StreamScore {
        clips: plan.placed.len(),
        seconds: plan.seconds(),
        seed: plan.seed,
        keywords: keywords.len(),
        right,
        wrong,
        missed: keywords.len() - right - wrong,
        false_alarms,
        false_alarms_per_hour: if hours > 0.0 { false_alarms as f64 / hours } else { 0.0 },
        labels: labels.to_vec(),
    }
}

fn is_keyword(label: &str) -> bool {
    !label.starts_with('_')
}

/// The predicted class: the first of the greatest posteriors.
pub fn best(posteriors: &[f32]) -> usize {
    (0..posteriors.len()).fold(0, |best, index| if posteriors[index] > posteriors[best] { index } else { best })
}

/// Confusion matrix of the classes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confusion {
    labels: Vec<String>,
    counts: Vec<Vec<usize>>,
}

/// Output of `eval --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Accuracy {
    /// Number of classified clips.
    pub clips: usize,
    /// Number of correctly classified clips.
    pub correct: usize,
    /// `correct` divided by `clips`; 0 without clips.
    pub accuracy: f64,
    /// `[true][predicted]`
    pub confusion: Vec<Vec<usize>>,
    /// Names of rows and columns.
    pub labels: Vec<String>,
}

impl Confusion {
    /// Creates an empty matrix.
    pub fn new(labels: &[String]) -> Self {
        Self { labels: labels.to_vec(), counts: vec![vec![0; labels.len()]; labels.len()] }
    }

    /// Counts one clip.
    ///
    /// # Panics
    /// If an index is not that of a label.
    pub fn add(&mut self, truth: usize, predicted: usize) {
        self.counts[truth][predicted] += 1;
    }

    /// The counts, `[true][predicted]`, and the accuracy.
    pub fn accuracy(&self) -> Accuracy {
        let clips = self.counts.iter().flatten().sum();
        let correct = self.counts.iter().enumerate().map(|(i, row)| row[i]).sum();
        Accuracy {
            clips,
            correct,
            accuracy: if clips == 0 { 0.0 } else { correct as f64 / clips as f64 },
            confusion: self.counts.clone(),
            labels: self.labels.clone(),
        }
    }
}

/// A text table: one row for each true class, one column for each predicted class, `.` for zero.
impl fmt::Display for Confusion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const CORNER: &str = "true \\ predicted";
        let cell = |&n: &usize| if n == 0 { ".".to_owned() } else { n.to_string() };
        let chars = |text: &str| text.chars().count();
        let first = self.labels.iter().map(|label| chars(label)).chain([chars(CORNER)]).max().unwrap_or(0);
        let widest = |i: usize| self.counts.iter().map(|row| cell(&row[i]).len()).max().unwrap_or(0);
        let widths: Vec<usize> = self.labels.iter().enumerate().map(|(i, l)| chars(l).max(widest(i))).collect();
        write!(f, "{CORNER:first$}")?;
        for (label, width) in self.labels.iter().zip(&widths) {
            write!(f, "  {label:>width$}")?;
        }
        writeln!(f)?;
        for (label, row) in self.labels.iter().zip(&self.counts) {
            write!(f, "{label:first$}")?;
            for (count, width) in row.iter().zip(&widths) {
                write!(f, "  {:>width$}", cell(count))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: u32 = 1000;

    fn labels() -> Vec<String> {
        ["_silence_", "yes", "no"].map(String::from).to_vec()
    }

    fn plan(clips: &[(&str, u64, u64)]) -> StreamPlan {
        let placed = clips.iter().enumerate();
        let placed = placed.map(|(clip, &(label, start, end))| Placed { clip, label: label.into(), start, end });
        StreamPlan { sample_rate: RATE, seed: 7, placed: placed.collect(), len: 3_600_000 }
    }

    /// Right, wrong, missed and false alarms of a stream with the clips yes 1000..2000, no 3000..4000, _silence_
    /// 5000..6000.
    fn scored(events: &[(usize, u64)]) -> [usize; 4] {
        let plan = plan(&[("yes", 1000, 2000), ("no", 3000, 4000), ("_silence_", 5000, 6000)]);
        let events: Vec<_> = events.iter().map(|&(label, at_sample)| Event { label, at_sample }).collect();
        let score = score(&events, &plan, &labels());
        assert_eq!((score.clips, score.keywords, score.seed), (3, 2, 7));
        assert_eq!(score.right + score.wrong + score.missed, score.keywords);
        assert!((score.false_alarms_per_hour - score.false_alarms as f64).abs() < 1e-9, "the stream is one hour");
        [score.right, score.wrong, score.missed, score.false_alarms]
    }

    #[test]
    fn every_case_of_the_rule() {
        assert_eq!(scored(&[]), [0, 0, 2, 0]);
        assert_eq!(scored(&[(1, 1500), (2, 3500)]), [2, 0, 0, 0]);
        assert_eq!(scored(&[(2, 3500), (1, 1500)]), [2, 0, 0, 0], "in any order");
        assert_eq!(scored(&[(1, 2600)]), [1, 0, 1, 0], "0.6 s after the end");
        assert_eq!(scored(&[(1, 2601)]), [0, 0, 2, 1], "later is elsewhere");
        assert_eq!(scored(&[(1, 1001)]), [1, 0, 1, 0], "one sample heard");
        assert_eq!(scored(&[(1, 1000)]), [0, 0, 2, 1], "nothing heard");
        assert_eq!(scored(&[(2, 1500)]), [0, 1, 1, 0], "another label");
        assert_eq!(scored(&[(1, 1400), (2, 1500)]), [0, 1, 1, 0], "its label and another");
        assert_eq!(scored(&[(1, 1400), (1, 1500)]), [0, 0, 2, 0], "its label twice: missed");
        assert_eq!(scored(&[(1, 5500)]), [0, 0, 2, 1], "on a clip without a keyword");
        assert_eq!(scored(&[(0, 1500), (0, 5500), (0, 9999)]), [0, 0, 2, 0], "never events");
    }

    #[test]
    fn a_seed_gives_one_stream_for_ever() {
        let clips: Vec<_> = (0..50).map(|i| ClipLen { label: "yes".into(), len: 900 + i }).collect();
        let plan = StreamPlan::new(&clips, RATE, 42);
        assert_eq!(plan, StreamPlan::new(&clips, RATE, 42));
        assert_ne!(plan.placed, StreamPlan::new(&clips, RATE, 43).placed);
        let mut seen: Vec<usize> = plan.placed.iter().map(|p| p.clip).collect();
        let (mut at, mut noise) = (0, Vec::new());
        for piece in plan.pieces() {
            match piece {
                Piece::Clip(clip) => at += clips[clip].len as u64,
                Piece::Gap(gap) => {
                    assert!((600..=1400).contains(&gap.len()));
                    at += gap.len() as u64;
                    noise.extend(gap);
                }
            }
        }
        assert_eq!(at, plan.samples());
        assert_eq!((noise.iter().min(), noise.iter().max()), (Some(&-3), Some(&3)));
        // Recorded values: a change of them would change the benchmark.
        assert_eq!(seen[..5], [29, 14, 4, 24, 41]);
        assert_eq!(noise[..8], [3, 2, -1, -2, -1, 1, 1, -3]);
        seen.sort_unstable();
        assert_eq!(seen, (0..50).collect::<Vec<_>>());
    }

    #[test]
    fn the_table_is_aligned() {
        let mut confusion = Confusion::new(&labels());
        for (truth, predicted) in [(0, 0), (1, 1), (1, 2), (2, 2)] {
            confusion.add(truth, predicted);
        }
        let accuracy = confusion.accuracy();
        assert_eq!((accuracy.clips, accuracy.correct, accuracy.accuracy), (4, 3, 0.75));
        assert_eq!(
            confusion.to_string(),
            "true \\ predicted  _silence_  yes  no\n\
             _silence_                 1    .   .\n\
             yes                       .    1   1\n\
             no                        .    .   1\n"
        );
    }
}
