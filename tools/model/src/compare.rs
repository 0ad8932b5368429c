//! Comparison of an image with its canonical model in `f32`: the error of every layer, and the share of integers that
//! are saturated.

use std::ops::Range;

use tidegate::internals::backend::Turn;
use tidegate::{Model, Values};

use crate::backend::Engine;
use crate::runner::{RunError, Running, rows, step_count};

/// The state whose values are not part of the node's output.
const CELL_STATE: &str = "cell_state";
/// The number of a node that holds the fraction bits of its cell state.
const CELL_BITS: &str = "cell_bits";
/// Name of the tensor with the fraction bits that each unit has in addition to [`CELL_BITS`].
const CELL_SHIFTS: &str = "cell_shifts";

/// Scale of values that cannot leave -1 to 1. Their limits are those of their activation, not a saturation.
const BOUNDED: f32 = 1.0 / 32768.0;

/// Difference of one value from the expected one, over all steps so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Difference {
    /// Name of the value.
    pub name: String,
    /// Greatest absolute error.
    pub max_abs_error: f64,
    /// Sum of the squares of the expected values.
    pub signal: f64,
    /// Sum of the squares of the errors.
    pub noise: f64,
    /// Number of compared elements.
    pub values: u64,
    /// Number of elements at an end of the 16-bit range; for bounded values, only those whose expected value is beyond
    /// -1 to 1. 0 for floats.
    pub saturated: u64,
}

impl Difference {
    fn new(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    /// Signal-to-noise ratio; infinite if all values are equal, and negative infinity if an error is not finite.
    pub fn snr_db(&self) -> f64 {
        match self.noise {
            0.0 => f64::INFINITY,
            noise if noise.is_finite() => 10.0 * (self.signal / noise).log10(),
            _ => f64::NEG_INFINITY,
        }
    }

    /// Share of saturated elements, 0 to 1.
    pub fn saturation(&self) -> f64 {
        self.saturated as f64 / self.values.max(1) as f64
    }

    /// The difference as one line of text.
    pub fn text(&self) -> String {
        format!("{:<12} worst error {:.3e}  {}", self.name, self.max_abs_error, self.ratio())
    }

    /// The signal-to-noise ratio as text.
    pub fn ratio(&self) -> String {
        match (self.values, self.noise) {
            (0, _) => "no values".to_owned(),
            (_, 0.0) => "equal".to_owned(),
            (_, noise) if !noise.is_finite() => "not finite".to_owned(),
            _ => format!("{:.1} dB", self.snr_db()),
        }
    }

    fn add(&mut self, got: &[f32], expected: &[f32]) {
        for (&got, &expected) in got.iter().zip(expected) {
            let error = f64::from(got) - f64::from(expected);
            // NaN counts as an infinite error.
            self.max_abs_error = self.max_abs_error.max(if error.is_nan() { f64::INFINITY } else { error.abs() });
            self.signal += f64::from(expected).powi(2);
            self.noise += error * error;
            self.values += 1;
        }
    }

    fn add_integers(&mut self, got: &[i16], scale: f32, expected: &[f32]) {
        let floats: Vec<f32> = got.iter().map(|&value| f32::from(value) * scale).collect();
        self.add(&floats, expected);
        self.add_saturated(got, scale.to_bits() == BOUNDED.to_bits(), expected);
    }

    /// Adds cell states, each with its scale.
    fn add_cells(&mut self, got: &[i16], scales: &[f32], expected: &[f32]) {
        let floats: Vec<f32> = got.iter().zip(scales).map(|(&value, scale)| f32::from(value) * scale).collect();
        self.add(&floats, expected);
        self.add_saturated(got, false, expected);
    }

    fn add_saturated(&mut self, got: &[i16], bounded: bool, expected: &[f32]) {
        let saturated = |&(&got, &expected): &(&i16, &f32)| {
            got.unsigned_abs() >= i16::MAX.unsigned_abs() && (!bounded || expected.abs() > 1.0)
        };
        self.saturated += got.iter().zip(expected).filter(saturated).count() as u64;
    }
}

/// Comparison of all values.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// Inputs, as quantized by the image.
    pub inputs: Vec<Difference>,
    /// Output of every layer of the model.
    pub layers: Vec<Difference>,
    /// The cell states, `<node>.cell_state`.
    pub states: Vec<Difference>,
    /// All outputs together.
    pub output: Difference,
    /// Number of steps so far.
    pub steps: u64,
}

/// Indices in the image of the layers of the reference, in order, up to the first layer that the image lacks.
pub fn common_layers(image: &Model<'_>, reference: &Model<'_>) -> Vec<usize> {
    let mut names = image.node_names().enumerate();
    reference.node_names().map_while(|name| names.find(|(_, other)| *other == name).map(|(at, _)| at)).collect()
}

/// Scales of an image's values.
struct Units {
    inputs: Vec<f32>,
    nodes: Vec<f32>,
    /// The name of each node with a cell state, and the scale of each unit's.
    cells: Vec<(String, Vec<f32>)>,
}

impl Units {
    fn of(image: &Model<'_>) -> Self {
        let nodes = image.node_scales().chain(std::iter::repeat(1.0)).take(image.nodes().count()).collect();
        let cells = image.nodes().zip(image.node_names()).filter_map(|(node, name)| {
            node.spec().states.iter().find(|state| state.name == CELL_STATE)?;
            let Some(integer) = node.integer_spec() else {
                return Some((name.to_owned(), vec![1.0; node.hidden_size]));
            };
            let bits = node.number(integer.numbers.iter().position(|number| number.name == CELL_BITS)?);
            let shifts = integer.tensors.iter().position(|tensor| tensor.name == CELL_SHIFTS);
            let shifts = shifts.map_or::<&[u8], _>(&[], |index| node.tensor_bytes_at(index));
            let shifts = shifts.chunks_exact(2).map(|shift| i16::from_le_bytes([shift[0], shift[1]]));
            let scales = shifts.chain(std::iter::repeat(0)).map(|shift| (-(bits + i32::from(shift)) as f32).exp2());
            Some((name.to_owned(), scales.take(node.hidden_size).collect()))
        });
        Self { inputs: image.inputs().map(|port| port.scale).collect(), nodes, cells: cells.collect() }
    }
}

impl Comparison {
    /// Creates an empty comparison.
    pub fn new(image: &Model<'_>, reference: &Model<'_>) -> Self {
        let cells = Units::of(image).cells;
        Self {
            inputs: image.inputs().map(|port| Difference::new(port.name)).collect(),
            layers: reference.node_names().take(common_layers(image, reference).len()).map(Difference::new).collect(),
            states: cells.iter().map(|(node, _)| Difference::new(&format!("{node}.{CELL_STATE}"))).collect(),
            output: Difference::new("output"),
            steps: 0,
        }
    }

    /// Runs the image and the reference over a sequence, `[steps, size]` for each input, from a zero state, with the
    /// schedules of the engines, which must be the same. `stepped` is called after each step with the comparison so far.
    /// Returns the last outputs, the image's first; `None` if no step had an output.
    ///
    /// # Errors
    /// If the inputs do not fit the model.
    pub fn run<'m>(
        &mut self,
        image: impl Into<Engine<'m>>,
        reference: impl Into<Engine<'m>>,
        inputs: &[&[f32]],
        mut stepped: impl FnMut(&Self),
    ) -> Result<Option<[Vec<f32>; 2]>, RunError> {
        let (image, reference) = (image.into(), reference.into());
        let words = |engine: &Engine<'_>| vec![0; engine.model().state_words()];
        let (mut image_memory, mut reference_memory) = (words(&image), words(&reference));
        let units = Units::of(image.model());
        let places = common_layers(image.model(), reference.model());
        let mut image = Running::new(&image, &mut image_memory);
        let mut reference = Running::new(&reference, &mut reference_memory);
        let sizes: Vec<usize> = image.model.inputs().map(|port| port.size).collect();
        let steps = step_count(inputs, &sizes);
        let mut expected = vec![Expected::default(); reference.model.nodes().count()];
        let (mut last, mut clock) = (None, 0);
        for step in 0..=steps {
            let given = if step < steps {
                let rows = rows(inputs, &sizes, step);
                self.add_inputs(&rows, &units, image.model.numeric().is_integer());
                let given = self.step(&mut image, &mut reference, &rows, &units, &places, &mut expected)?;
                self.add_states(&image, &reference, &units, clock);
                clock = image.model.schedule().tick(clock);
                self.steps += 1;
                given
            } else {
                image.finish()? & reference.finish()?
            };
            if given {
                for (got, expected) in image.outputs.iter().zip(&reference.outputs) {
                    self.output.add(got, expected);
                }
                last = Some([image.outputs.concat(), reference.outputs.concat()]);
            }
            if step < steps {
                stepped(self);
            }
        }
        Ok(last)
    }

    fn step(
        &mut self,
        image: &mut Running<'_, '_>,
        reference: &mut Running<'_, '_>,
        rows: &[&[f32]],
        units: &Units,
        places: &[usize],
        expected: &mut [Expected],
    ) -> Result<bool, RunError> {
        expected.iter_mut().for_each(Expected::clear);
        let reference_gives = reference.step(rows, |node, values| {
            if let Values::F32(values) = values {
                expected[node].push(values);
            }
        })?;
        let gives = image.step(rows, |node, values| {
            let Some(layer) = places.iter().position(|&place| place == node) else { return };
            let expected = expected[layer].next();
            match values {
                Values::F32(values) => self.layers[layer].add(values, expected),
                Values::I16(values) => self.layers[layer].add_integers(values, units.nodes[node], expected),
            }
        })?;
        Ok(gives && reference_gives)
    }

    fn add_inputs(&mut self, rows: &[&[f32]], units: &Units, integers: bool) {
        for ((input, row), &unit) in self.inputs.iter_mut().zip(rows).zip(&units.inputs) {
            if integers {
                let most = f32::from(i16::MAX);
                let counted: Vec<i16> = row.iter().map(|x| (x / unit).round().clamp(-most, most) as i16).collect();
                input.add_integers(&counted, unit, row);
            } else {
                input.add(row, row);
            }
        }
    }

    /// Adds the cell states of the windows that ran at `clock`.
    fn add_states(&mut self, image: &Running<'_, '_>, reference: &Running<'_, '_>, units: &Units, clock: u32) {
        let schedule = image.model.schedule();
        for window in (0..schedule.states()).filter(|&window| schedule.turn(window, clock) != Turn::Rest) {
            for (of, (node, unit)) in self.states.iter_mut().zip(&units.cells) {
                let Some(expected) = place(reference.model, node, window) else { continue };
                let Some(expected) = reference.state.values().get(expected) else { continue };
                let Some(got) = place(image.model, node, window) else { continue };
                if image.model.numeric().is_integer() {
                    of.add_cells(image.state.values_i16().get(got).unwrap_or_default(), unit, expected);
                } else {
                    of.add(image.state.values().get(got).unwrap_or_default(), expected);
                }
            }
        }
    }
}

/// The range of a node's cell state in the values of a model's states. Each window has its own.
fn place(model: &Model<'_>, node: &str, window: u32) -> Option<Range<usize>> {
    let Range { start, end } = model.state_range(node, CELL_STATE)?;
    let behind = window as usize * model.state_elements();
    Some(behind + start..behind + end)
}

/// The outputs of a node of the reference in one step: a row for each window that ran.
#[derive(Clone, Debug, Default)]
struct Expected {
    values: Vec<f32>,
    row_len: usize,
    /// Number of values that [`next`](Self::next) has returned.
    taken: usize,
}

impl Expected {
    fn clear(&mut self) {
        self.values.clear();
        self.taken = 0;
    }

    fn push(&mut self, row: &[f32]) {
        self.values.extend_from_slice(row);
        self.row_len = row.len();
    }

    /// The next row; empty after the last one.
    fn next(&mut self) -> &[f32] {
        let row = self.taken..self.taken + self.row_len;
        self.taken = row.end;
        self.values.get(row).unwrap_or_default()
    }
}

/// The difference between two points of the same comparison.
pub fn between(later: &Difference, earlier: &Difference) -> Difference {
    Difference {
        name: later.name.clone(),
        max_abs_error: later.max_abs_error,
        signal: later.signal - earlier.signal,
        noise: later.noise - earlier.noise,
        values: later.values - earlier.values,
        saturated: later.saturated - earlier.saturated,
    }
}

#[cfg(test)]
mod tests {
    use super::Difference;

    #[test]
    fn values_that_are_not_finite_have_the_worst_ratio() {
        for (got, expected) in [(f32::INFINITY, 1.0), (1.0, f32::INFINITY), (f32::NAN, 1.0), (f32::NAN, f32::NAN)] {
            let mut difference = Difference::new("y");
            difference.add(&[0.5, got], &[0.5, expected]);
            assert!(difference.snr_db() == f64::NEG_INFINITY, "{got} in place of {expected}: {}", difference.snr_db());
            assert!(difference.text().ends_with("worst error inf  not finite"), "{}", difference.text());
        }
    }
}
