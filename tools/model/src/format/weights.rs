//! Weight conversions of the importers: checks of shape, transposes, blocks of rows. Every function checks its tensor,
//! so that importers read like the equations.

use tidegate::internals::gate::{Gate, LSTM, permutation};

use crate::canonical::Tensor;
use crate::error::{ImportError, Result, Shape};

const FORGET: usize = 1;

const _: () = assert!(matches!(LSTM[FORGET], Gate::Forget));

/// A foreign tensor and its name for error messages.
#[derive(Clone, Copy, Debug)]
pub struct Named<'a> {
    pub name: &'a str,
    pub tensor: &'a Tensor,
}

impl Named<'_> {
    pub fn refuse<T>(self, needed: String) -> Result<T> {
        let found = Shape(self.tensor.shape.clone());
        Err(ImportError::Shape { tensor: self.name.to_owned(), found, needed })
    }

    /// Rows and columns, both at least 1.
    pub fn matrix(self) -> Result<(usize, usize)> {
        match *self.tensor.shape {
            [rows, cols] if rows > 0 && cols > 0 && rows.checked_mul(cols) == Some(self.tensor.data.len()) => {
                Ok((rows, cols))
            }
            _ => self.refuse("it must be a matrix".into()),
        }
    }

    /// The tensor, checked to have this shape.
    pub fn shaped(self, shape: &[usize], units: usize) -> Result<Tensor> {
        let len = shape.iter().try_fold(1_usize, |product, &dim| product.checked_mul(dim));
        if self.tensor.shape != shape || len != Some(self.tensor.data.len()) {
            return self.refuse(format!("a cell of {units} units needs {}", Shape(shape.to_vec())));
        }
        Ok(self.tensor.clone())
    }

    /// All values as a vector, checked to have this length.
    pub fn flat(self, len: usize) -> Result<Tensor> {
        if self.tensor.data.len() != len {
            return self.refuse(format!("{len} values are needed"));
        }
        Ok(Tensor { shape: vec![len], data: self.tensor.data.clone() })
    }

    /// Number of units of a kernel with `gates` blocks of columns.
    pub fn units(self, gates: usize) -> Result<usize> {
        let (_, cols) = self.matrix()?;
        if cols % gates != 0 {
            return self.refuse(format!("its columns must be {gates} gates of equal width"));
        }
        Ok(cols / gates)
    }

    /// A kernel [input + recurrent, gates * units] as canonical input and recurrent weights, in its own gate order.
    pub fn split_kernel(self, recurrent: usize) -> Result<(Tensor, Tensor)> {
        let (rows, _) = self.matrix()?;
        match rows.checked_sub(recurrent) {
            None | Some(0) => {
                self.refuse(format!("it must have more than {recurrent} rows: those of x, then those of h"))
            }
            Some(input) => Ok((self.transposed(0, input)?, self.transposed(input, rows)?)),
        }
    }

    /// Rows `from..to` of a matrix, transposed.
    pub fn transposed(self, from: usize, to: usize) -> Result<Tensor> {
        let (rows, cols) = self.matrix()?;
        debug_assert!(from < to && to <= rows);
        let mut data = Vec::with_capacity((to - from) * cols);
        for col in 0..cols {
            data.extend(self.tensor.data[from * cols..to * cols].iter().skip(col).step_by(cols));
        }
        Ok(Tensor { shape: vec![cols, to - from], data })
    }
}

/// The row blocks of `tensor`, one for each gate, in another order.
pub fn reordered<const N: usize>(tensor: &Tensor, from: [Gate; N], to: [Gate; N]) -> Tensor {
    let block = tensor.data.len() / N;
    let data = permutation(from, to).iter().flat_map(|&k| &tensor.data[k * block..(k + 1) * block]).copied().collect();
    Tensor { shape: tensor.shape.clone(), data }
}

/// Concatenates parts along their first dimension. The other dimensions must be equal.
pub fn stacked<'a>(parts: impl IntoIterator<Item = &'a Tensor>) -> Tensor {
    let mut parts = parts.into_iter();
    let mut whole = parts.next().cloned().unwrap_or_else(|| zeros(0));
    for part in parts {
        debug_assert_eq!(whole.shape[1..], part.shape[1..]);
        whole.shape[0] += part.shape[0];
        whole.data.extend(&part.data);
    }
    whole
}

/// The weights of a convolution, `[filters, channels, taps]`, in the order `[filters, taps, channels]`.
pub fn channels_last(weights: &[f32], channels: usize, taps: usize) -> Vec<f32> {
    let by_tap =
        |filter: &[f32]| (0..taps).flat_map(|tap| filter.iter().skip(tap).step_by(taps).copied()).collect::<Vec<_>>();
    weights.chunks(channels * taps).flat_map(by_tap).collect()
}

/// Adds a forget bias to an LSTM's bias in canonical gate order.
pub fn add_forget_bias(bias: &mut Tensor, forget_bias: f32) {
    let units = bias.data.len() / LSTM.len();
    for value in &mut bias.data[FORGET * units..(FORGET + 1) * units] {
        *value += forget_bias;
    }
}

pub fn zeros(len: usize) -> Tensor {
    Tensor { shape: vec![len], data: vec![0.0; len] }
}
