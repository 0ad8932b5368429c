//! Layer normalization of contiguous groups of features (`groups`, one by default), with a gain and a bias for every
//! feature.

use super::sums::{layer_norm, rms_norm};
use super::{Bounded, Cell};

pub fn step(cell: &Cell<'_>, x: &[Bounded], _: &mut [Bounded]) -> Vec<Bounded> {
    let size = x.len() / cell.extent("groups");
    let part = |name: &str, group: usize| cell.tensor(name).map(|data| &data[group * size..][..size]);
    let normalized = |(group, x): (usize, &[Bounded])| {
        let of = if cell.has("rms") { rms_norm } else { layer_norm };
        of(x, cell.param("epsilon"), part("gain", group), part("bias", group))
    };
    x.chunks(size).enumerate().flat_map(normalized).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{model, once};

    #[test]
    fn every_group_has_its_own_mean_and_variance() {
        let nodes = r#"[{"name": "n", "cell": "layer_norm", "inputs": ["x"], "input_size": 4, "hidden_size": 4,
            "output_size": 4, "extents": {"groups": 2}}]"#;
        let model = model(4, nodes, &[("n.gain", &[1.0, 1.0, 2.0, 3.0]), ("n.bias", &[0.0, 0.0, 0.0, 5.0])]);
        assert_eq!(once(&model, &[1.0, 3.0, 50.0, 150.0]), [-1.0, 1.0, -2.0, 8.0]);
    }
}
