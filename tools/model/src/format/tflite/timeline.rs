//! Tensors of a graph with variables that are rows of streams.

use std::collections::HashMap;

use super::schema::Operator;
use crate::format::network::Source;

/// Rows of a stream up to its newest row: `length` rows at each call, of which `hop` are new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// The tensor whose rows are the stream.
    pub stream: usize,
    pub first: usize,
    pub size: usize,
    pub length: usize,
    pub hop: usize,
}

/// The tensors of a graph with variables that are lists of rows.
#[derive(Default)]
pub struct Timeline {
    pub views: HashMap<usize, Result<View, String>>,
    /// Parts and windows of streams that the network has already.
    pub parts: HashMap<[usize; 3], Source>,
    pub windows: HashMap<[usize; 5], Source>,
}

/// Whether an operator only names, reads, sets or initializes variables.
pub fn is_of_variables(operator: &Operator<'_>) -> bool {
    ["CALL_ONCE", "VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE"].contains(&operator.op)
}

/// Whether dimension 1 counts rows.
pub fn has_rows(shape: &[usize]) -> bool {
    matches!(shape, [1, _, _, ..])
}

/// Number of rows, and of elements in each. Dimension 1 counts rows if there are dimensions behind it.
pub fn rows_and_size(shape: &[usize]) -> (usize, usize) {
    match shape {
        [1, rows, rest @ ..] if has_rows(shape) => (*rows, rest.iter().product()),
        all => (1, all.iter().product()),
    }
}

impl Timeline {
    /// Whether a tensor is a list of rows.
    pub fn has(&self, tensor: usize) -> bool {
        self.views.contains_key(&tensor)
    }
}
