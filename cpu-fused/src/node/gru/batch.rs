//! One step of many sequences of a GRU without options, with the reset after the product. The sums of a block of units
//! stay in the first-level cache until h' has been computed.

use super::{FIRST, GATES, Gru, usual};
use crate::layer::{SEQUENCES, Span};
use crate::lines::Lines;
use crate::node::{block, copy};
use crate::panels::Panels;
use crate::simd::{Simd, Task};
use crate::sums::{Part, block_len, block_of};
use crate::weight::Weight;

/// One step of the sequences of `span.rows`.
pub struct Together<'k, 'r, 's, S, W> {
    pub gru: &'k Gru<S, W>,
    pub recurrent: &'k Panels<W>,
    /// The recurrent bias of n.
    pub new_bias: &'k Lines<f32>,
    pub span: &'r mut Span<'s, f32>,
}

/// Offsets of a sequence's input, state and output.
#[derive(Clone, Copy, Default)]
struct Place {
    x: usize,
    h: usize,
    y: usize,
}

impl<S: Simd, W: Weight> Task for Together<'_, '_, '_, S, W> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { gru, recurrent, new_bias, span } = self;
        let s = gru.s;
        let new_bias: &[S::Lanes] = bytemuck::cast_slice(new_bias.get());
        let Span { source, memory, states, rows, input, output, lens, .. } = span;
        let mut sums: [[S::Lanes; GATES]; SEQUENCES] = [[bytemuck::Zeroable::zeroed(); GATES]; SEQUENCES];
        let mut of_input: [S::Lanes; SEQUENCES] = [bytemuck::Zeroable::zeroed(); SEQUENCES];
        for group in rows.chunks(SEQUENCES) {
            let mut places = [Place::default(); SEQUENCES];
            let places = &mut places[..group.len()];
            for (place, &(h, sequence)) in places.iter_mut().zip(group) {
                let [x, y] = [*input, *output].map(|line| line.at(lens, sequence, 0).start);
                *place = Place { x, h, y };
            }
            for (at, new_bias) in new_bias.iter().enumerate() {
                let units = block(s, at, gru.hidden);
                let of_x = (&gru.input, source.unwrap_or(memory));
                products(s, of_x, at, Some(gru.bias.get()), &mut sums, places, |place| place.x);
                for (sums, of_input) in sums.iter_mut().zip(&mut of_input).take(places.len()) {
                    *of_input = core::mem::replace(&mut sums[FIRST], *new_bias);
                }
                products(s, (recurrent, states), at, None, &mut sums, places, |place| place.h);
                // h keeps its old value until all units have been summed.
                for ((sums, of_input), place) in sums.iter().zip(&of_input).zip(places.iter()) {
                    let sums = [s.load(&sums[0]), s.load(&sums[1]), s.load(&sums[2])];
                    let h = s.load_part(&states[place.h..][units.clone()]);
                    let new = usual(s, s.load(of_input), sums, h);
                    s.store_part(new, &mut memory[place.y..][units.clone()]);
                }
            }
            for place in places.iter() {
                copy(s, &memory[place.y..][..gru.hidden], &mut states[place.h..][..gru.hidden]);
            }
        }
    }
}

/// Adds the products of panel `at` for all sequences of a group: its weights stay in the first-level cache.
#[inline(always)]
fn products<S: Simd, W: Weight>(
    s: S,
    part: Part<'_, W>,
    at: usize,
    start: Option<&[f32]>,
    sums: &mut [[S::Lanes; GATES]],
    places: &[Place],
    operand: impl Fn(&Place) -> usize + Copy,
) {
    let all = bytemuck::cast_slice_mut(sums);
    let mut first = 0;
    while first < places.len() {
        let count = block_len::<S, GATES>(s, places.len() - first);
        let row = |n: usize| ([operand(&places[first + n])], (first + n) * GATES * S::LANES);
        block_of::<S, W, GATES, 1>(s, [part], at, start, all, count, row);
        first += count;
    }
}
