//! The distribution of the elements of a value: a histogram of each element by octaves.

/// Number of octaves, and the exponent of the lowest.
const OCTAVES: usize = 48;
const LOWEST: i32 = -24;
/// How many [`numbers`](Element::numbers) an element has.
pub const NUMBERS: usize = 3 * OCTAVES;

/// Number of values at which a mean is halved. With fewer values, the mean is shrunk further toward 0.
pub const STEPS_FOR_MEAN: f64 = 16.0;

/// The values of one element. Each octave of magnitudes has a count, a sum and a sum of squares.
#[derive(Clone, Debug, PartialEq)]
pub struct Element([Octave; OCTAVES]);

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Octave {
    count: f64,
    sum: f64,
    squares: f64,
}

impl Default for Element {
    fn default() -> Self {
        Self([Octave::default(); OCTAVES])
    }
}

impl Element {
    /// Adds a value.
    pub fn see(&mut self, value: f32) {
        let exponent = (value.abs().to_bits() >> 23) as i32 - 127;
        let octave = &mut self.0[(exponent - LOWEST).clamp(0, OCTAVES as i32 - 1) as usize];
        octave.count += 1.0;
        octave.sum += f64::from(value);
        octave.squares += f64::from(value) * f64::from(value);
    }

    /// Adds the values of another element.
    pub fn add(&mut self, other: &Self) {
        for (octave, other) in self.0.iter_mut().zip(&other.0) {
            octave.count += other.count;
            octave.sum += other.sum;
            octave.squares += other.squares;
        }
    }

    /// Reduces the weight of the values so far.
    pub fn shrink(&mut self, factor: f64) {
        for octave in &mut self.0 {
            octave.count *= factor;
            octave.sum *= factor;
            octave.squares *= factor;
        }
    }

    /// Count, sum and sum of squares of each octave.
    pub fn numbers(&self) -> impl Iterator<Item = f64> {
        self.0.iter().flat_map(|octave| [octave.count, octave.sum, octave.squares])
    }

    /// The element of these [`numbers`](Self::numbers).
    pub fn of_numbers(numbers: &[f64]) -> Option<Self> {
        let mut element = Self::default();
        let (octaves, []) = numbers.as_chunks::<3>() else { return None };
        if octaves.len() != OCTAVES || !numbers.iter().all(|number| number.is_finite()) {
            return None;
        }
        for (octave, &[count, sum, squares]) in element.0.iter_mut().zip(octaves) {
            *octave = Octave { count, sum, squares };
        }
        Some(element)
    }

    /// The octaves of the element with their cumulative sums.
    pub fn summed(&self) -> Summed {
        let mut below = Octave::default();
        let octaves = self.0.iter().filter(|octave| octave.count > 0.0).map(|octave| {
            below.count += octave.count;
            below.sum += octave.sum;
            below.squares += octave.squares;
            (*octave, below)
        });
        Summed(octaves.collect())
    }
}

/// The octaves of an element that have values, each with the sums of all octaves up to it.
#[derive(Clone, Debug)]
pub struct Summed(Vec<(Octave, Octave)>);

impl Summed {
    /// The mean of the values up to `end`, shrunk toward 0 if there are few, and the mean square of all values, limited to
    /// `end`. An octave counts as a whole.
    pub fn moments(&self, end: f64) -> (f64, f64) {
        let is_below = |(octave, _): &(Octave, Octave)| octave.squares <= octave.count * end * end;
        let count = if self.0.last().is_none_or(is_below) { self.0.len() } else { self.0.partition_point(is_below) };
        let below = count.checked_sub(1).map_or(Octave::default(), |last| self.0[last].1);
        let beyond: f64 = self.0[count..].iter().map(|(octave, _)| octave.count).sum();
        let beyond_squares = if beyond > 0.0 { beyond * end * end } else { 0.0 };
        let square = (below.squares + beyond_squares) / (below.count + beyond).max(1.0);
        (below.sum / (below.count + STEPS_FOR_MEAN), square)
    }
}
