//! Backends for the stacks of a network, and the random numbers of dropout, which do not depend on the backend.

use std::convert::Infallible;

use chacha20::ChaCha8Rng;

use super::uniform;
use crate::cpu::count::Units;
use crate::cpu::{Batch, Dropout, Stack, States, Tape, longest};

/// A backend that runs stacks: [`Cpu`] or a device.
pub trait Stacks {
    /// Values of a forward pass that the backward pass needs.
    type Tape;
    /// Error of the backend.
    type Error;

    /// Runs [`Stack::forward`].
    fn forward(&mut self, given: Given<'_, '_>) -> Result<(Batch, Self::Tape, States), Self::Error>;

    /// Runs [`Stack::backward`] for the stack with this layer number.
    fn backward(
        &mut self,
        numbered: (usize, &Stack),
        params: &[f32],
        tape: Self::Tape,
        outputs: &[f32],
        into: &mut [f32],
    ) -> Result<Vec<f32>, Self::Error>;
}

/// Arguments of [`Stacks::forward`]: the layer, and the arguments of [`Stack::forward`].
pub struct Given<'a, 'd> {
    /// Number of the layer in the network.
    pub number: usize,
    /// The stack.
    pub stack: &'a Stack,
    /// Parameters of the stack, in the [described](crate::layout::Layout::described) layout.
    pub params: &'a [f32],
    /// The input.
    pub batch: &'a Batch,
    /// Initial states; zero if `None`.
    pub from: Option<&'a States>,
    /// Dropout between layers.
    pub dropout: Option<Dropout<'d>>,
    /// Whether [`Stacks::backward`] follows.
    pub learning: bool,
    /// Scales for rounding values to integers.
    pub units: Option<&'a [Units]>,
}

/// The CPU, which cannot fail.
#[derive(Clone, Copy, Debug)]
pub struct Cpu;

impl Stacks for Cpu {
    type Tape = Tape;
    type Error = Infallible;

    fn forward(&mut self, given: Given<'_, '_>) -> Result<(Batch, Tape, States), Infallible> {
        Ok(given.stack.forward(given.params, given.batch, given.from, given.dropout, given.units))
    }

    fn backward(
        &mut self,
        (_, stack): (usize, &Stack),
        params: &[f32],
        tape: Tape,
        outputs: &[f32],
        into: &mut [f32],
    ) -> Result<Vec<f32>, Infallible> {
        Ok(stack.backward(params, &tape, outputs, into))
    }
}

/// Random numbers for dropout. Each part of a batch has its own generator, so that the numbers do not depend on whether
/// parts are computed one by one or together.
pub struct Draws(Vec<(ChaCha8Rng, usize)>);

impl Draws {
    /// Generators of the parts, each with the number of its sequences, in the order of the batch.
    pub const fn new(parts: Vec<(ChaCha8Rng, usize)>) -> Self {
        Self(parts)
    }

    /// Draws a mask for `len` values of a batch `[steps, sequences, features]`: 0 with probability `p`, otherwise `1 /
    /// (1 - p)`, which preserves the mean. Nothing is drawn after the longest sequence of a part.
    pub(super) fn mask(&mut self, p: f32, lengths: &[usize], len: usize) -> Vec<f32> {
        let features = len / (longest(lengths) * lengths.len()).max(1);
        let mut mask = vec![1.0; len];
        let mut first = 0;
        for (random, sequences) in &mut self.0 {
            for step in 0..longest(&lengths[first..first + *sequences]) {
                let from = (step * lengths.len() + first) * features;
                let own = &mut mask[from..from + *sequences * features];
                own.fill_with(|| if uniform(random) < p { 0.0 } else { 1.0 / (1.0 - p) });
            }
            first += *sequences;
        }
        mask
    }
}

#[cfg(test)]
mod tests {
    use chacha20::rand_core::SeedableRng;

    use super::*;

    #[test]
    fn parts_draw_the_same_by_themselves_and_together() {
        let part = |seed, sequences| (ChaCha8Rng::seed_from_u64(seed), sequences);
        let lengths = [3, 1, 2, 2, 1];
        let whole = Draws::new(vec![part(1, 2), part(2, 3)]).mask(0.5, &lengths, 3 * 5 * 4);
        let first = Draws::new(vec![part(1, 2)]).mask(0.5, &lengths[..2], 3 * 2 * 4);
        let second = Draws::new(vec![part(2, 3)]).mask(0.5, &lengths[2..], 2 * 3 * 4);
        let (first, second) = (first.chunks(2 * 4), second.chunks(3 * 4).map(<[f32]>::to_vec));
        let together = first.zip(second.chain([vec![1.0; 3 * 4]])).flat_map(|(a, b)| [a.to_vec(), b].concat());
        assert_eq!(whole, together.collect::<Vec<_>>());
        assert!(whole.contains(&0.0) && whole.contains(&2.0));
    }
}
