//! A convolution over an image: y[row, col, f] = act(b_f + Σ W[f, tap, c] x[pixel, c]), the channels c of f's group.

use super::image::Image;
use super::sums::dot_of;
use super::{Bounded, Cell};

pub fn step(cell: &Cell<'_>, x: &[Bounded], _: &mut [Bounded]) -> Vec<Bounded> {
    let (image, filters, groups) = (Image::new(cell), cell.hidden_size(), cell.extent("groups"));
    let channels = image.channels / groups;
    let mut y = Vec::new();
    for taps in image.positions() {
        for filter in 0..filters {
            let weights = cell.row("weights", filter, image.taps() * channels);
            let first = filter / (filters / groups) * channels;
            let tap = |&(tap, pixel): &(usize, usize)| {
                (0..channels).map(move |c| (Bounded::exact(weights[tap * channels + c]), x[pixel + first + c]))
            };
            let a = dot_of(cell.element("bias", filter), taps.iter().flat_map(tap));
            y.push(cell.activation("activation", "identity", a));
        }
    }
    y
}

#[cfg(test)]
mod tests {
    use super::super::tests::{model, once};

    #[test]
    fn a_kernel_sees_zeros_around_the_image_and_only_its_group() {
        // 2 x 3 pixels of two channels; 1 x 2 taps, two columns apart, one column of padding on the left.
        let nodes = r#"[{"name": "n", "cell": "conv", "inputs": ["x"], "input_size": 12, "hidden_size": 2,
            "output_size": 8, "extents": {"in_height": 2, "in_width": 3, "in_channels": 2, "kernel_width": 2,
            "dilation_width": 2, "pad_left": 1, "out_height": 2, "out_width": 2, "groups": 2}}]"#;
        let weights = [1.0, 10.0, 100.0, 1000.0];
        let x = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 1.0, 2.0, 3.0];
        let y = once(&model(12, nodes, &[("n.weights", &weights), ("n.bias", &[0.5, 0.0])]), &x);
        assert_eq!(y, [30.5, 4000.0, 51.5, 6200.0, 90.5, 1000.0, 27.5, 3800.0]);
    }

    #[test]
    fn a_kernel_moves_by_its_stride() {
        let nodes = r#"[{"name": "n", "cell": "conv", "inputs": ["x"], "input_size": 5, "hidden_size": 1,
            "output_size": 2, "extents": {"in_height": 5, "kernel_height": 3, "stride_height": 2, "out_height": 2}}]"#;
        let y = once(&model(5, nodes, &[("n.weights", &[1.0, 10.0, 100.0])]), &[1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(y, [321.0, 543.0]);
    }
}
