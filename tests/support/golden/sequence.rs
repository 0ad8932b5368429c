//! Tensors of a golden case as rows: finds the batch axis and the time axis.

use tidegate_model::canonical::Tensor;

/// `[time][features]`; every dimension that is neither batch nor time is a feature, in row-major order.
pub type Rows = Vec<Vec<f32>>;

/// The batch axis and the time axis of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axes {
    batch: usize,
    time: usize,
}

impl Axes {
    /// Parses a case's `layout` for the tensors `which` ("input" or "output"). Accepted forms: `time-major ...`,
    /// `batch-major ...`, `batch_first ...`, `[B,T,I]`, `input [B,T,4H], output [B,N,T,hd] (BNSH)`.
    pub fn parse(layout: &str, which: &str) -> Option<Self> {
        let own = layout.split_once(&format!("{which} [")).map(|(_, dims)| dims);
        if let Some(dims) = own.or_else(|| layout.strip_prefix('[')) {
            let dims: Vec<&str> = dims.split_once(']')?.0.split(',').map(str::trim).collect();
            let axis = |name: &str| dims.iter().position(|dim| *dim == name);
            return Some(Self { batch: axis("B")?, time: axis("T")? });
        }
        if layout.starts_with("time-major") {
            return Some(Self { batch: 1, time: 0 });
        }
        (layout.starts_with("batch-major") || layout.starts_with("batch_first")).then_some(Self { batch: 0, time: 1 })
    }

    /// The sequences of a batch, or `None` if the tensor lacks one of the two axes.
    pub fn sequences(self, tensor: &Tensor) -> Option<Vec<Rows>> {
        let (batch, time) = (*tensor.shape.get(self.batch)?, *tensor.shape.get(self.time)?);
        let mut sequences = vec![vec![Vec::new(); time]; batch];
        for (index, &value) in tensor.data.iter().enumerate() {
            let along = |axis: usize| {
                let stride: usize = tensor.shape[axis + 1..].iter().product();
                index / stride % tensor.shape[axis]
            };
            sequences[along(self.batch)][along(self.time)].push(value);
        }
        Some(sequences)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_layout_is_read() {
        for (layout, which, batch, time) in [
            ("batch-major [B,T,..] (dynamic_rnn)", "input", 0, 1),
            ("batch-major", "output", 0, 1),
            ("batch_first [B,T,I]; states [layers*dirs,B,H], index = layer*dirs+dir", "input", 0, 1),
            ("time-major [T,B,I]; c [layers,B,dir*H]", "output", 1, 0),
            ("[B,T,D]", "input", 0, 1),
            ("input [B,T,4H], output [B,N,T,hd] (BNSH), state [4,B,H]", "input", 0, 1),
            ("input [B,T,4H], output [B,N,T,hd] (BNSH), state [4,B,H]", "output", 0, 2),
        ] {
            assert_eq!(Axes::parse(layout, which), Some(Axes { batch, time }), "{layout}");
        }
        assert_eq!(Axes::parse("as you like it", "input"), None);
        assert_eq!(Axes::parse("[B,I]", "input"), None);
    }

    #[test]
    fn all_axes_but_batch_and_time_are_features() {
        // [B, N, T, hd]
        let tensor = Tensor { shape: vec![1, 2, 3, 2], data: (0..12_u8).map(f32::from).collect() };
        let axes = Axes { batch: 0, time: 2 };
        let rows = [[0.0, 1.0, 6.0, 7.0], [2.0, 3.0, 8.0, 9.0], [4.0, 5.0, 10.0, 11.0]].map(Vec::from).to_vec();
        assert_eq!(axes.sequences(&tensor), Some(vec![rows]));
        // A mask [T, B] has one feature.
        let mask = Tensor { shape: vec![2, 2], data: vec![1.0, 2.0, 3.0, 4.0] };
        let of = |a: f32, b: f32| vec![vec![a], vec![b]];
        assert_eq!(Axes { batch: 1, time: 0 }.sequences(&mask), Some(vec![of(1.0, 3.0), of(2.0, 4.0)]));
        assert_eq!(axes.sequences(&mask), None);
    }
}
