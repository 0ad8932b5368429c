//! The `max` or `average` of the pixels under the kernel, for each channel. Padding does not count.

use super::image::Image;
use super::sums::mean;
use super::{Bounded, Cell};

pub fn step(cell: &Cell<'_>, x: &[Bounded], _: &mut [Bounded]) -> Vec<Bounded> {
    let image = Image::new(cell);
    let average = cell.has("average");
    assert!(average != cell.has("max"), "a pool is a max or an average");
    let mut y = Vec::new();
    for taps in image.positions() {
        for channel in 0..image.channels {
            let seen: Vec<Bounded> = taps.iter().map(|&(_, pixel)| x[pixel + channel]).collect();
            let max = || seen.iter().copied().reduce(Bounded::max).expect("the kernel overlaps the image");
            y.push(if average { mean(&seen) } else { max() });
        }
    }
    y
}

#[cfg(test)]
mod tests {
    use super::super::tests::{model, once};

    fn pool(option: &str) -> Vec<f64> {
        let nodes = format!(
            r#"[{{"name": "n", "cell": "pool", "inputs": ["x"], "input_size": 6, "hidden_size": 2, "output_size": 4,
                "options": ["{option}"], "extents": {{"in_height": 3, "in_channels": 2, "kernel_height": 2,
                "stride_height": 2, "pad_bottom": 1, "out_height": 2}}}}]"#
        );
        once(&model(6, &nodes, &[]), &[1.0, -1.0, 2.0, -2.0, 3.0, -3.0])
    }

    #[test]
    fn padding_counts_neither_for_the_average_nor_for_the_maximum() {
        assert_eq!(pool("max"), [2.0, -1.0, 3.0, -3.0]);
        assert_eq!(pool("average"), [1.5, -1.5, 3.0, -3.0]);
    }
}
