//! Runs of integer models from TFLite, in TFLite's integers.

use tidegate::{Model, Port, State};
use tidegate_fused::FusedModel;

/// The only input and the only output of a model.
///
/// # Panics
/// If it has none.
pub fn ends<'a>(model: &Model<'a>) -> [Port<'a>; 2] {
    [model.inputs().next().expect("an input"), model.outputs().next().expect("an output")]
}

/// The values of a slot for TFLite's integers.
fn values(integers: &[i8], port: &Port<'_>) -> Vec<i16> {
    integers.iter().map(|&integer| i16::from(integer) - port.zero_point as i16).collect()
}

/// TFLite's integers for the values of a slot.
fn integers<'v>(values: &'v [i16], port: &Port<'_>) -> impl Iterator<Item = i8> + use<'v> {
    let zero_point = port.zero_point;
    values.iter().map(move |&value| (i32::from(value) + zero_point) as i8)
}

/// The outputs for a sequence of TFLite's integers, step by step.
///
/// # Panics
/// If the model does not run.
pub fn stepped(model: &Model<'_>, input: &[i8]) -> Vec<i8> {
    let (mut memory, mut scratch) = (vec![0; model.state_words()], vec![0; model.scratch_words()]);
    let mut state = State::new(model, &mut memory).expect("the memory is large enough");
    continued(model, &mut state, &mut scratch, input)
}

/// [`stepped`] from a state.
///
/// # Panics
/// If the model does not run.
pub fn continued(model: &Model<'_>, state: &mut State<'_>, scratch: &mut [u32], input: &[i8]) -> Vec<i8> {
    let [from, to] = ends(model);
    let mut output = vec![0; to.size];
    let mut given = Vec::new();
    for row in input.chunks(from.size) {
        let stepped = model.step_i16(state, scratch, &values(row, &from), &mut output);
        if stepped.expect("the buffers fit").has_output() {
            given.extend(integers(&output, &to));
        }
    }
    given
}

/// The same on `tidegate-fused`.
///
/// # Panics
/// If the model does not run.
pub fn fused(model: &FusedModel<'_>, input: &[i8]) -> Vec<i8> {
    let [from, to] = ends(model.model());
    let mut stream = model.stream();
    let mut output = vec![0; to.size];
    let mut given = Vec::new();
    for row in input.chunks(from.size) {
        if stream.step_i16(&values(row, &from), &mut output).expect("the buffers fit").has_output() {
            given.extend(integers(&output, &to));
        }
    }
    given
}

/// Positions of the fields of a file.
pub struct Places {
    /// The file.
    pub bytes: Vec<u8>,
    /// Number of the graph that operators and tensors belong to.
    pub graph: usize,
}

impl Places {
    /// The number at a position.
    pub fn u32(&self, at: usize) -> usize {
        u32::from_le_bytes(self.bytes[at..at + 4].try_into().unwrap()) as usize
    }

    /// The position that an offset refers to.
    pub fn target(&self, at: usize) -> usize {
        at + self.u32(at)
    }

    /// The position of a field of a table, which must have it.
    pub fn field(&self, table: usize, index: usize) -> usize {
        let layout = (table as i64 - i64::from(self.u32(table) as i32)) as usize;
        let at = layout + 4 + 2 * index;
        table + usize::from(u16::from_le_bytes([self.bytes[at], self.bytes[at + 1]]))
    }

    /// The position of a table in a vector.
    pub fn element(&self, vector: usize, index: usize) -> usize {
        self.target(vector + 4 + 4 * index)
    }

    /// Table `index` of the vector in field `field` of a table.
    pub fn table(&self, table: usize, field: usize, index: usize) -> usize {
        self.element(self.target(self.field(table, field)), index)
    }

    /// The table of the graph.
    pub fn graph(&self) -> usize {
        self.table(self.target(0), 2, self.graph)
    }

    /// The table of an operator.
    pub fn operator(&self, index: usize) -> usize {
        self.table(self.graph(), 3, index)
    }

    /// The table of a tensor.
    pub fn tensor(&self, index: usize) -> usize {
        self.table(self.graph(), 0, index)
    }

    /// The table of an operator's options.
    pub fn options(&self, index: usize) -> usize {
        self.target(self.field(self.operator(index), 4))
    }

    /// The tensor number of input `input` of an operator.
    pub fn input(&self, operator: usize, input: usize) -> usize {
        self.u32(self.target(self.field(self.operator(operator), 1)) + 4 + 4 * input)
    }

    /// The first number of field `field` of a tensor's quantization.
    pub fn counts(&self, tensor: usize, field: usize) -> usize {
        self.target(self.field(self.target(self.field(self.tensor(tensor), 4)), field)) + 4
    }
}

/// The elements of each input port. Each step of `input` holds the elements of all ports side by side.
pub fn by_input(model: &Model<'_>, input: &[f32]) -> Vec<Vec<f32>> {
    let sizes: Vec<usize> = model.inputs().map(|port| port.size).collect();
    let part = |first: usize, size: usize| {
        input.chunks(sizes.iter().sum()).flat_map(|row| &row[first..first + size]).copied().collect()
    };
    sizes.iter().enumerate().map(|(k, &size)| part(sizes[..k].iter().sum(), size)).collect()
}
