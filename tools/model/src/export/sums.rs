//! The weights and biases of an image as real numbers: what its integers stand for.

use tidegate::Numeric;
use tidegate::internals::activation::Activation;
use tidegate::internals::cell::{IntegerSpec, Storage, TensorSpec, Unit, is_wide};
use tidegate::internals::node::Node;
use tidegate::internals::quant::{RowBlock, start};

/// 2^32, which multipliers are divided by.
const WHOLE: f64 = 4_294_967_296.0;

/// A node with the scales of its values, which are 1 in a float numeric.
#[derive(Clone, Copy, Debug)]
pub struct Scaled<'s, 'a> {
    pub node: &'s Node<'a>,
    pub numeric: Numeric,
    pub input: f64,
    pub output: f64,
}

/// The tensors of sums by their names: the matrices and the vector of a float node, and the rows of an integer one.
#[derive(Clone, Copy, Debug)]
pub struct Names {
    pub input: &'static str,
    pub recurrent: Option<&'static str>,
    pub bias: &'static str,
    pub rows: &'static str,
}

/// One row of weights.
#[derive(Clone, Debug)]
pub enum Row {
    Floats(Vec<f32>),
    /// The sum of one plane or, if the weights are wide, of two.
    Planes(Vec<Plane>),
}

/// Integer weights and the real value of 1.
#[derive(Clone, Debug)]
pub struct Plane {
    pub weights: Vec<i8>,
    pub step: f32,
}

/// The rows `W x + R h + b`.
#[derive(Clone, Debug, Default)]
pub struct Sums {
    pub input: Vec<Row>,
    /// Empty without a second matrix.
    pub recurrent: Vec<Row>,
    pub bias: Vec<f32>,
}

impl Sums {
    /// These rows in another order, or some of them.
    pub fn rows(rows: &[Row], order: impl IntoIterator<Item = usize>) -> Vec<Row> {
        order.into_iter().map(|row| rows[row].clone()).collect()
    }
}

impl Scaled<'_, '_> {
    /// The sums of a node.
    pub fn sums(&self, names: &Names) -> Sums {
        match self.node.integer_spec() {
            Some(spec) => self.integers(spec, names.rows),
            None => self.floats(names),
        }
    }

    /// A vector of a float node; zeros if it has none.
    pub fn vector(&self, name: &str) -> Vec<f32> {
        let (index, len) = self.shape(name);
        let mut elements = self.node.elements(index).to_vec();
        elements.resize(len, 0.0);
        elements
    }

    /// The index of a tensor of a float node and the number of its rows.
    fn shape(&self, name: &str) -> (usize, usize) {
        let tensors = self.node.spec().tensors;
        let index = tensors.iter().position(|tensor| tensor.name == name).expect("the spec has this tensor");
        (index, rows_of(self.node, &tensors[index]))
    }

    fn floats(&self, names: &Names) -> Sums {
        let recurrent = names.recurrent.map(|name| self.matrix(name)).unwrap_or_default();
        Sums { input: self.matrix(names.input), recurrent, bias: self.vector(names.bias) }
    }

    /// A matrix of a float node, which is stored in blocks of four rows, column by column.
    fn matrix(&self, name: &str) -> Vec<Row> {
        let (index, rows) = self.shape(name);
        let cols = self.node.spec().tensors[index].cols.as_ref().map_or(0, |cols| self.node.dim(cols));
        let bytes = self.node.tensor_of(&self.node.spec().tensors[index], index);
        let element = |at: usize| match self.numeric {
            Numeric::F16 => half::f16::from_le_bytes([bytes[2 * at], bytes[2 * at + 1]]).to_f32(),
            _ => f32::from_le_bytes([bytes[4 * at], bytes[4 * at + 1], bytes[4 * at + 2], bytes[4 * at + 3]]),
        };
        let row = |row: usize| (0..cols).map(|col| element(row / 4 * 4 * cols + 4 * col + row % 4)).collect();
        (0..rows).map(|at| Row::Floats(row(at))).collect()
    }

    fn integers(&self, spec: &IntegerSpec, name: &str) -> Sums {
        let index = spec.tensors.iter().position(|tensor| tensor.name == name).expect("the spec has these rows");
        let tensor = &spec.tensors[index];
        let Storage::Rows { input, recurrent, to } = tensor.storage else { return Sums::default() };
        let (rows, gates) = (rows_of(self.node, tensor), tensor.gates.len().max(1));
        let is_wide = is_wide(self.node.options);
        let sets = if is_wide && recurrent.is_some() { 2 } else { 1 };
        let blocks = self.node.rows(index, sets * rows.next_multiple_of(4));
        let of = |matrix: usize, plane: usize, row: usize, unit: f64| Plane {
            weights: self
                .node
                .weights_of_plane(&spec.tensors[matrix], matrix, plane, row)
                .map(|weight| weight as i8)
                .collect(),
            step: (unit / self.operand(&spec.tensors[matrix])) as f32,
        };
        let mut sums = Sums::default();
        for row in 0..rows {
            let to = self.unit(if to.len() == gates { to[row % gates] } else { to[0] });
            let constants = |set: usize| Constants::of(&blocks[set * blocks.len() / sets + row / 4], row % 4, to);
            let first = constants(0);
            let wide = |matrix, of_row: &Constants| {
                Row::Planes(vec![of(matrix, 0, row, of_row.coarse), of(matrix, 1, row, of_row.fine())])
            };
            let narrow = |matrix, unit| Row::Planes(vec![of(matrix, 0, row, unit)]);
            let bias = match recurrent {
                None if is_wide => {
                    sums.input.push(wide(input, &first));
                    first.bias()
                }
                None => {
                    let first = Constants { shift: 0, ..first };
                    sums.input.push(narrow(input, first.coarse));
                    first.bias()
                }
                Some((recurrent, _)) if is_wide => {
                    let second = constants(1);
                    sums.input.push(wide(input, &first));
                    sums.recurrent.push(wide(recurrent, &second));
                    first.bias() + second.bias()
                }
                Some((recurrent, finer)) => {
                    let units = [first.fine(), first.coarse];
                    let [of_input, of_recurrent] =
                        if self.node.number(finer) == 0 { units } else { [units[1], units[0]] };
                    sums.input.push(narrow(input, of_input));
                    sums.recurrent.push(narrow(recurrent, of_recurrent));
                    first.bias()
                }
            };
            sums.bias.push(bias as f32);
        }
        sums
    }

    /// The factors of an integer node: a vector that multiplies values of one unit and gives another.
    pub fn factors(&self, name: &str) -> Vec<f32> {
        let Some(spec) = self.node.integer_spec() else { return self.vector(name) };
        let index = spec.tensors.iter().position(|tensor| tensor.name == name).expect("the spec has these factors");
        let Storage::Factors { shift, from, to } = spec.tensors[index].storage else { return Vec::new() };
        let one = f64::from(-self.node.number(shift)).exp2() * self.unit(to) / self.unit(from);
        let factors = self
            .node
            .tensor_of(&spec.tensors[index], index)
            .as_chunks::<2>()
            .0
            .iter()
            .map(|bytes| i16::from_le_bytes(*bytes));
        factors.take(rows_of(self.node, &spec.tensors[index])).map(|factor| (f64::from(factor) * one) as f32).collect()
    }

    /// The real value of 1 of the values that a matrix multiplies.
    fn operand(&self, matrix: &TensorSpec) -> f64 {
        match matrix.storage {
            Storage::Weights(unit) => self.unit(unit),
            _ => self.input,
        }
    }

    /// The real value of 1 in a unit.
    fn unit(&self, unit: Unit) -> f64 {
        let bits = |number: usize| f64::from(-self.node.number(number)).exp2();
        match unit {
            Unit::Input => self.input,
            Unit::Output => self.output,
            Unit::Q15 => f64::from(-15).exp2(),
            Unit::Bits(number) => bits(number),
            Unit::Before { activation, bits: number, after } => match self.node.activation(activation) {
                Activation::Identity | Activation::Relu => self.unit(*after),
                _ => bits(number),
            },
            Unit::When { option, with, without } => self.unit(if self.node.has(option) { *with } else { *without }),
        }
    }
}

/// The constants of a row: `⌊(⌊(start + fine) / 2^shift⌋ + coarse) · multiplier / 2^32⌋` in the unit `to`.
#[derive(Clone, Copy)]
struct Constants {
    start: i32,
    shift: u32,
    /// The real value of 1 in the coarser sum.
    coarse: f64,
    to: f64,
}

impl Constants {
    fn of(block: &RowBlock, row: usize, to: f64) -> Self {
        let &[_, _, _, _, a, b, c, d, shifts] = block;
        let coarse = f64::from([a, b, c, d][row]) / WHOLE * to;
        Self { start: start(block)[row], shift: u32::from(shifts.to_le_bytes()[row]), coarse, to }
    }

    /// The real value of 1 in the finer sum.
    fn fine(&self) -> f64 {
        self.coarse / f64::from(self.shift).exp2()
    }

    /// The term that is added. Rounding down loses half a unit on average, which the start makes up for.
    fn bias(&self) -> f64 {
        let half = if self.shift > 0 { f64::from(self.shift - 1).exp2() } else { 0.0 };
        (f64::from(self.start) - half) * self.fine() - self.to / 2.0
    }
}

/// The number of rows of a tensor.
fn rows_of(node: &Node<'_>, tensor: &TensorSpec) -> usize {
    node.dim(&tensor.rows) * tensor.gates.len().max(1)
}
