//! Look-up of indices by name, for constants. A name that is not in its list is a compile error.

use super::{CellSpec, ExtentSpec, IntegerSpec, NumberSpec, TensorSpec};

/// The position of the entry with a name in a list; the panic ends the compilation. `name` is a field of the entries.
macro_rules! position {
    ($list:expr, $(.$field:ident,)? $name:expr, $missing:literal) => {{
        let (list, mut index) = ($list, 0);
        while index < list.len() {
            if is(list[index]$(.$field)?, $name) {
                return index;
            }
            index += 1;
        }
        panic!($missing)
    }};
}

/// The index of the option `name`.
pub(crate) const fn option(options: &[&str], name: &str) -> u32 {
    index(options, name) as u32
}

/// The index of `name`.
pub(crate) const fn index(names: &[&str], name: &str) -> usize {
    position!(names, name, "the list has no such name")
}

/// The index of the extent `name`.
pub(crate) const fn extent(extents: &[ExtentSpec], name: &str) -> usize {
    position!(extents, .name, name, "the list has no such extent")
}

/// The index of the number `name`.
pub(crate) const fn number(numbers: &[NumberSpec], name: &str) -> usize {
    position!(numbers, .name, name, "the list has no such number")
}

const fn tensor(tensors: &[TensorSpec], name: &str) -> usize {
    position!(tensors, .name, name, "the spec has no such tensor")
}

impl CellSpec {
    /// The index of the tensor `name` of the image.
    pub(crate) const fn tensor(&self, name: &str) -> usize {
        tensor(self.tensors, name)
    }

    /// The indices of the tensors with these names.
    pub(crate) const fn tensors<const N: usize>(&self, names: [&str; N]) -> [usize; N] {
        let (mut indices, mut k) = ([0; N], 0);
        while k < N {
            indices[k] = self.tensor(names[k]);
            k += 1;
        }
        indices
    }

    /// The index of the parameter `name`.
    pub(crate) const fn param(&self, name: &str) -> usize {
        position!(self.params, .name, name, "the spec has no such parameter")
    }
}

impl IntegerSpec {
    /// The index of the tensor `name` of the image.
    pub(crate) const fn tensor(&self, name: &str) -> usize {
        tensor(self.tensors, name)
    }

    /// The index of the number `name`.
    pub(crate) const fn number(&self, name: &str) -> usize {
        number(self.numbers, name)
    }

    /// This spec, after checking that its tensors have these names. A spec whose tensors refer to each other looks
    /// their indices up in such a list, because a constant cannot depend on itself.
    pub(crate) const fn with_tensors_named(self, names: &[&str]) -> Self {
        assert!(self.tensors.len() == names.len(), "the spec has more or fewer tensors than the list has names");
        let mut index = 0;
        while index < names.len() {
            assert!(is(self.tensors[index].name, names[index]), "a tensor of the spec has another name in the list");
            index += 1;
        }
        self
    }
}

/// Whether two names are equal.
const fn is(name: &str, other: &str) -> bool {
    let (mut name, mut other) = (name.as_bytes(), other.as_bytes());
    while let ([a, rest @ ..], [b, others @ ..]) = (name, other) {
        if *a != *b {
            return false;
        }
        (name, other) = (rest, others);
    }
    name.is_empty() && other.is_empty()
}
