//! Ways to round a row of weights. A search on calibration data takes the best of them.

/// The number of draws of a row that a search tries.
pub const NUMBERS: u32 = 12;
/// The draw that rounds each weight to the nearest value of the usual grid.
pub const NEAREST: u32 = 1;
/// A drawn grid is at most this share coarser than the finest.
const COARSER: f64 = 0.2;

/// The part of a row that has the finest grid of its weights. The grids of the two parts differ by a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finest {
    /// The one with which the expected error of the sum is smaller. Where nothing was observed, the one with which the other
    /// part loses at most half a bit.
    Better,
    /// The part with the greater products.
    Coarse,
    /// The other part.
    Fine,
}

/// A way to round a row of weights.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Draw {
    /// Whether each weight is rounded to the nearest value of its grid, whatever calibration observed.
    pub is_nearest: bool,
    /// The part with the finest grid.
    pub finest: Finest,
    /// The factor by which the grid is coarser than the finest that holds the weights.
    pub grid: f64,
}

impl Draw {
    /// The draw of this number for a row. Draw 0 is the usual way. The first six have the finest grid, and the others have
    /// pseudorandom coarser ones.
    pub fn new(number: u32, row: usize, grid: f64) -> Self {
        let is_nearest = number % 2 == 1;
        let finest = [Finest::Better, Finest::Coarse, Finest::Fine][(number / 2 % 3) as usize];
        let drawn = if number < 6 { 0.0 } else { pseudorandom(u64::from(number) << 32 | row as u64) };
        Self { is_nearest, finest, grid: grid * (1.0 + COARSER * drawn) }
    }
}

/// A number from 0 to 1 for each `from`: the output function of SplitMix64 (Steele, Lea and Flood 2014).
pub fn pseudorandom(from: u64) -> f64 {
    let mut z = from.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    (z >> 32) as f64 / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_differ_and_the_usual_way_is_the_first() {
        assert_eq!(Draw::new(0, 5, 1.5), Draw { is_nearest: false, finest: Finest::Better, grid: 1.5 });
        let nearest = Draw { is_nearest: true, ..Draw::new(0, 5, 1.0) };
        assert_eq!(Draw::new(NEAREST, 5, 1.0), nearest);
        for (number, row) in (0..NUMBERS).flat_map(|number| (0..40).map(move |row| (number, row))) {
            let draw = Draw::new(number, row, 1.0);
            let is_drawn = draw.grid > 1.0 && draw.grid <= 1.0 + COARSER;
            assert!(if number < 6 { draw.grid == 1.0 } else { is_drawn }, "{number} {row}: {draw:?}");
            let mut others = (0..NUMBERS).filter(|&other| other != number);
            assert!(others.all(|other| Draw::new(other, row, 1.0) != draw), "{number} {row}");
        }
    }
}
