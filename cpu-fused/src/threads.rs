//! Batches on several threads, with the feature `threads`. Each thread runs some of the sequences, with the same bits
//! as one thread.

use core::ops::Range;

use rayon::iter::{IntoParallelIterator, ParallelIterator};
use tidegate::{Batch, Sequence, StepError};

use crate::model::{FusedModel, Scratch};

/// Scratch for every thread of a pool.
#[derive(Debug)]
pub struct ParScratch(Vec<Scratch>);

/// The work of one thread.
struct Share<'s, 'i, 'o> {
    words: &'s mut [u32],
    scratch: &'s mut Scratch,
    inputs: Vec<&'i [f32]>,
    outputs: Vec<&'o mut [f32]>,
    how: Sequence<'s>,
    batch: usize,
}

impl FusedModel<'_> {
    /// Allocates scratch for [`par_run_batch`](Self::par_run_batch) in the current rayon pool.
    pub fn par_scratch(&self) -> ParScratch {
        ParScratch((0..rayon::current_num_threads().max(1)).map(|_| self.scratch()).collect())
    }

    /// [`run_batch`](Self::run_batch) on the threads of the current rayon pool (the global one outside any pool), with the same
    /// bits. The sequences are divided so that all threads run about the same number of steps.
    ///
    /// ```
    /// # use tidegate::{Aligned, Batch, ImageBytes, Model, Sequence};
    /// # use tidegate_fused::FusedModel;
    /// # static IMAGE: &Aligned<[u8]> = &Aligned(*include_bytes!("../examples/lstm.tgi"));
    /// # let model = Model::parse(ImageBytes::from_aligned(IMAGE))?;
    /// # let fused = FusedModel::new(&model);
    /// # let (sequences, x) = (8, vec![0.5; 8 * 3 * model.input_size()]);
    /// # let mut y = vec![0.0; 8 * 3 * model.output_size()];
    /// let mut memory = vec![0; sequences * model.state_words()];
    /// let mut batch = Batch::new(&model, sequences, &mut memory)?;
    /// let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build()?;
    /// pool.install(|| {
    ///     let mut scratch = fused.par_scratch();
    ///     fused.par_run_batch(&mut batch, &mut scratch, &[&x], &mut [&mut y], &Sequence::ALL)
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`run_batch`](Self::run_batch).
    pub fn par_run_batch(
        &self,
        batch: &mut Batch<'_>,
        scratch: &mut ParScratch,
        inputs: &[&[f32]],
        outputs: &mut [&mut [f32]],
        sequence: &Sequence<'_>,
    ) -> Result<usize, StepError> {
        let len = batch.len();
        let mut words = batch.words_mut(&self.model)?;
        let Some(first) = scratch.0.first_mut() else { unreachable!("a pool has a thread") };
        self.check_scratch(first)?;
        let (_, time) = self.model.check_sequences(len, first.words.get_mut(), inputs, outputs, sequence)?;
        let mut left: Vec<&mut [f32]> = outputs.iter_mut().map(|output| &mut **output).collect();
        let mut shares = Vec::new();
        for (range, scratch) in ranges(sequence.lens, len, scratch.0.len()).zip(&mut scratch.0) {
            let count = range.len();
            let (own, others) = words.split_at_mut(count * self.model.state_words());
            words = others;
            // A port has the same number of elements for every sequence.
            let of = |all: usize| all / len * range.start..all / len * range.end;
            let outputs = left.iter_mut().map(|output| {
                let elements = output.len() / (len - range.start) * count;
                output.split_off_mut(..elements).unwrap_or_default()
            });
            shares.push(Share {
                words: own,
                scratch,
                inputs: inputs.iter().map(|input| &input[of(input.len())]).collect(),
                outputs: outputs.collect(),
                how: Sequence {
                    lens: sequence.lens.map(|lens| &lens[range.clone()]),
                    resets: sequence.resets.map(|resets| &resets[range.start * time..range.end * time]),
                    ..*sequence
                },
                batch: count,
            });
        }
        let run = |share: Share<'_, '_, '_>| {
            let Share { words, scratch, inputs, mut outputs, how, batch } = share;
            self.sequences(batch, words, scratch, &inputs, &mut outputs, &how)
        };
        shares.into_par_iter().map(run).sum()
    }
}

/// Divides the sequences into at most `threads` ranges of about the same number of steps.
fn ranges(lens: Option<&[usize]>, batch: usize, threads: usize) -> impl Iterator<Item = Range<usize>> {
    let steps = move |sequence: usize| lens.map_or(1, |lens| lens[sequence]);
    let all: usize = (0..batch).map(steps).sum();
    let (mut begin, mut done) = (0, 0);
    (1..=threads).filter_map(move |thread| {
        let start = begin;
        // Ends the range at the number of sequences whose steps are closest to the thread's share.
        while begin < batch && (thread == threads || 2 * done + steps(begin) <= 2 * all * thread / threads) {
            done += steps(begin);
            begin += 1;
        }
        (start < begin).then_some(start..begin)
    })
}

#[cfg(test)]
mod tests {
    use super::ranges;

    #[test]
    fn shares_are_all_sequences_and_have_about_as_many_steps() {
        let even: Vec<_> = ranges(None, 64, 2).collect();
        assert_eq!(even, [0..32, 32..64]);
        let uneven: Vec<_> = ranges(Some(&[9, 1, 1, 1, 1, 1, 2, 2]), 8, 2).collect();
        assert_eq!(uneven, [0..1, 1..8]);
        for (batch, threads) in [(0, 3), (1, 3), (3, 3), (7, 4), (5, 1)] {
            let lens: Vec<usize> = (0..batch).map(|index| index * 7 % 4).collect();
            let all: Vec<usize> = ranges(Some(&lens), batch, threads).flatten().collect();
            assert_eq!(all, (0..batch).collect::<Vec<_>>());
            assert!(ranges(Some(&lens), batch, threads).count() <= threads);
        }
    }
}
