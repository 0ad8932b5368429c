//! A convolution of each channel separately: y[row, col, c m + k] = act(b + Σ W[c m + k, tap] x[pixel, c]), with m =
//! `multiplier` filters for each channel.

use super::image::Image;
use super::sums::dot_of;
use super::{Bounded, Cell};

pub fn step(cell: &Cell<'_>, x: &[Bounded], _: &mut [Bounded]) -> Vec<Bounded> {
    let (image, multiplier) = (Image::new(cell), cell.extent("multiplier"));
    assert_eq!(cell.hidden_size(), image.channels * multiplier, "filters");
    let mut y = Vec::new();
    for taps in image.positions() {
        for filter in 0..cell.hidden_size() {
            let weights = cell.row("weights", filter, image.taps());
            let channel = filter / multiplier;
            let terms = taps.iter().map(|&(tap, pixel)| (Bounded::exact(weights[tap]), x[pixel + channel]));
            let a = dot_of(cell.element("bias", filter), terms);
            y.push(cell.activation("activation", "identity", a));
        }
    }
    y
}

#[cfg(test)]
mod tests {
    use super::super::tests::{model, once};

    #[test]
    fn the_filters_of_a_channel_are_adjacent() {
        let nodes = r#"[{"name": "n", "cell": "depthwise_conv", "inputs": ["x"], "input_size": 4, "hidden_size": 4,
            "output_size": 4, "extents": {"in_width": 2, "in_channels": 2, "kernel_width": 2, "out_width": 1,
            "multiplier": 2}}]"#;
        let weights = [1.0, 10.0, 2.0, 20.0, 3.0, 30.0, 4.0, 40.0];
        let y = once(&model(4, nodes, &[("n.weights", &weights)]), &[1.0, 2.0, 3.0, 4.0]);
        assert_eq!(y, [31.0, 62.0, 126.0, 168.0]);
    }
}
