//! Gates i, f, g, o of every pixel: a convolution over x, and one over h that has as many positions as h. If the number
//! of zeros of its padding is odd, the odd zero is at the end. The state is h, then c. The output may be h followed by
//! x.

use super::image::Axis;
use super::sums::dot_of;
use super::{Bounded, Cell};

/// An image of three axes.
struct Image {
    size: [usize; 3],
    channels: usize,
    channels_first: bool,
}

impl Image {
    fn new(cell: &Cell<'_>, which: &str, channels: usize) -> Self {
        Self { size: lengths(cell, which), channels, channels_first: cell.has("channels_first") }
    }

    fn pixels(&self) -> usize {
        self.size.iter().product()
    }

    fn index(&self, at: [usize; 3], channel: usize) -> usize {
        let pixel = (at[0] * self.size[1] + at[1]) * self.size[2] + at[2];
        if self.channels_first { channel * self.pixels() + pixel } else { pixel * self.channels + channel }
    }

    /// The columns of the weights for a tap, and the features that they multiply.
    fn seen(&self, tap: usize, at: [Option<usize>; 3], image: &[Bounded]) -> Vec<(usize, Bounded)> {
        match at {
            [Some(z), Some(y), Some(x)] if z < self.size[0] && y < self.size[1] && x < self.size[2] => {
                let channel = |k| (tap * self.channels + k, image[self.index([z, y, x], k)]);
                (0..self.channels).map(channel).collect()
            }
            _ => Vec::new(),
        }
    }
}

fn lengths(cell: &Cell<'_>, which: &str) -> [usize; 3] {
    ["depth", "height", "width"].map(|axis| cell.extent(&format!("{which}_{axis}")))
}

/// Every point of a box, the last coordinate fastest.
fn points([depth, height, width]: [usize; 3]) -> Vec<[usize; 3]> {
    (0..depth * height * width).map(|k| [k / (height * width), k / width % height, k % width]).collect()
}

pub fn state_len(cell: &Cell<'_>) -> usize {
    2 * cell.hidden_size() * points(lengths(cell, "out")).len()
}

pub fn step(cell: &Cell<'_>, x: &[Bounded], state: &mut [Bounded]) -> Vec<Bounded> {
    let filters = cell.hidden_size();
    let (of_x, of_h) = (Image::new(cell, "in", cell.extent("in_channels")), Image::new(cell, "out", filters));
    let kernel = lengths(cell, "kernel");
    let taps = points(kernel);
    let over_x = [
        Axis::new(cell, "depth", "pad_front", "pad_back"),
        Axis::new(cell, "height", "pad_top", "pad_bottom"),
        Axis::new(cell, "width", "pad_left", "pad_right"),
    ];
    let (h, c) = state.split_at_mut(filters * of_h.pixels());
    let mut m = vec![Bounded::default(); h.len()];
    for position in points(of_h.size) {
        let (mut seen_x, mut seen_h) = (Vec::new(), Vec::new());
        for (k, &tap) in taps.iter().enumerate() {
            seen_x.extend(of_x.seen(k, [0, 1, 2].map(|axis| over_x[axis].at(position[axis], tap[axis])), x));
            let at = |axis: usize| (position[axis] + tap[axis]).checked_sub((kernel[axis] - 1) / 2);
            seen_h.extend(of_h.seen(k, [0, 1, 2].map(at), h));
        }
        for filter in 0..filters {
            let [i, f, g, o] = [0, 1, 2, 3].map(|gate| {
                let row = gate * filters + filter;
                let product = |start, name, cols, seen: &[(usize, Bounded)]| {
                    let weights = cell.row(name, row, cols);
                    dot_of(start, seen.iter().map(|&(col, value)| (Bounded::exact(weights[col]), value)))
                };
                let from_x = product(cell.element("bias", row), "input_weights", taps.len() * of_x.channels, &seen_x);
                product(from_x, "recurrent_weights", taps.len() * filters, &seen_h)
            });
            let gate = |a| cell.activation("gate_activation", "sigmoid", a);
            let at = of_h.index(position, filter);
            c[at] = gate(f).times(c[at]).plus(gate(i).times(cell.activation("cell_activation", "tanh", g)));
            m[at] = gate(o).times(cell.activation("output_activation", "tanh", c[at]));
        }
    }
    h.copy_from_slice(&m);
    if !cell.has("skip") {
        return m;
    }
    let beside = m.chunks(filters).zip(x.chunks(of_x.channels));
    beside.flat_map(|(m, x)| m.iter().chain(x).copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::model;
    use super::super::{Bounded, Oracle};

    /// h after each step. The gates i, f, o are open (identity of 1), g is the sum of the kernels, and c = c + g.
    fn steps(extents: &str, options: &str, [input, output, pixels]: [usize; 3], x: &[f32]) -> Vec<Vec<f64>> {
        let nodes = format!(
            r#"[{{"name": "n", "cell": "conv_lstm", "inputs": ["x"], "input_size": {input}, "hidden_size": 1,
                "output_size": {output}, "extents": {{{extents}}}, "options": [{options}],
                "activations": {{"gate_activation": "identity", "cell_activation": "identity",
                "output_activation": "identity"}}}}]"#
        );
        let mut input_weights = vec![0.0; 12];
        input_weights[6..9].copy_from_slice(&[1.0, 10.0, 100.0]);
        let mut recurrent_weights = vec![0.0; 12];
        recurrent_weights[6..9].copy_from_slice(&[0.0, 0.0, 1.0]);
        let tensors: [(&str, &[f32]); 3] = [
            ("n.input_weights", &input_weights),
            ("n.recurrent_weights", &recurrent_weights),
            ("n.bias", &[1.0, 1.0, 0.0, 1.0]),
        ];
        let model = model(input, &nodes, &tensors);
        let mut state = vec![Bounded::default(); 2 * pixels];
        let step =
            |x: &[f32]| Oracle::new(&model).step(&mut state, &[x]).expect("the step has an output").swap_remove(0);
        x.chunks(input).map(step).map(|y| y.iter().map(|y| y.value).collect()).collect()
    }

    #[test]
    fn a_kernel_over_x_moves_by_its_stride_and_one_over_h_by_one() {
        let extents = r#""in_height": 5, "kernel_height": 3, "stride_height": 2, "out_height": 2"#;
        let y = steps(extents, "", [5, 2, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
        // The last tap over h sees the next pixel: c = 321 + 543.
        assert_eq!(y, [[321.0, 543.0], [864.0, 543.0]]);
    }

    #[test]
    fn x_is_placed_beside_h() {
        let extents = r#""in_width": 2, "kernel_width": 3, "pad_left": 1, "pad_right": 1, "out_width": 2"#;
        assert_eq!(steps(extents, r#""skip""#, [2, 4, 2], &[1.0, 2.0]), [[210.0, 1.0, 21.0, 2.0]]);
    }

    #[test]
    fn channels_may_come_first() {
        let extents = r#""in_width": 2, "in_channels": 3, "out_width": 2"#;
        let first = steps(extents, r#""channels_first""#, [6, 2, 2], &[1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
        assert_eq!(first, [[321.0, 654.0]]);
        assert_eq!(first, steps(extents, "", [6, 2, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]));
    }
}
