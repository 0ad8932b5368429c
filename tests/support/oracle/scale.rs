//! y = g x + b, with gain and bias for each of `channels` interleaved channels.

use super::{Bounded, Cell};

pub fn step(cell: &Cell<'_>, x: &[Bounded], _: &mut [Bounded]) -> Vec<Bounded> {
    let channels = cell.extent("channels");
    assert!(x.len().is_multiple_of(channels), "channels repeat");
    let feature = |(k, x): (usize, &Bounded)| {
        let channel = k % channels;
        let y = cell.tensor("gain").map_or(*x, |gain| x.scaled(gain[channel]));
        y.plus(cell.element("bias", channel))
    };
    x.iter().enumerate().map(feature).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{model, once};

    #[test]
    fn gain_and_bias_repeat_with_the_channels() {
        let nodes = r#"[{"name": "n", "cell": "scale", "inputs": ["x"], "input_size": 4, "hidden_size": 4,
            "output_size": 4, "extents": {"channels": 2}}]"#;
        let model = model(4, nodes, &[("n.gain", &[2.0, 3.0]), ("n.bias", &[0.5, 0.0])]);
        assert_eq!(once(&model, &[1.0, 2.0, 3.0, 4.0]), [2.5, 6.0, 6.5, 12.0]);
    }
}
