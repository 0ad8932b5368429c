//! Bands of features, padded with zeros beyond the first and the last feature.

use super::{Bounded, Cell};

/// Length of h and c of every band.
pub fn state_len(cell: &Cell<'_>) -> usize {
    2 * cell.extent("bands") * cell.hidden_size()
}

/// The features of every band, from low to high.
pub fn bands(cell: &Cell<'_>, x: &[Bounded]) -> Vec<Vec<Bounded>> {
    let zeros = |name| vec![Bounded::default(); cell.extent(name)];
    let padded = [zeros("pad_before"), x.to_vec(), zeros("pad_after")].concat();
    let (size, hop, first) = (cell.extent("band_size"), cell.extent("band_hop"), cell.extent("first"));
    (0..cell.extent("bands")).map(|k| padded[first + k * hop..][..size].to_vec()).collect()
}
