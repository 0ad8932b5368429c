//! The layouts that cuDNN itself reported, in `recorded.txt`, and their comparison with the description. `sys/tests.rs`
//! asks cuDNN and writes the file.

use sha2::{Digest, Sha256};

use super::{Kind, Layout, Side};
use crate::rnn::{Bias, Cell, Direction, InputMode, Rnn, Settings};

const RECORDED: &str = include_str!("recorded.txt");
/// Start of the line of a version of cuDNN (`CUDNN_VERSION`), which ends with its number of answers.
pub const VERSION: &str = "# cuDNN ";

/// Every cell, one to three layers, one and both directions, and all ways to read an input; LSTMs with a projection or
/// a clip.
pub fn stacks() -> Vec<Rnn> {
    let inputs = [
        (3, InputMode::Linear, None, None),
        (5, InputMode::Skip, None, None),
        (5, InputMode::Linear, Some(3), None),
        (5, InputMode::Linear, None, Some(0.3)),
    ];
    let mut stacks = Vec::new();
    for cell in Cell::ALL {
        for layers in 1..=3 {
            for direction in [Direction::Unidirectional, Direction::Bidirectional] {
                for (input_size, input_mode, projected_size, cell_clip) in inputs {
                    for bias in [Bias::None, Bias::Input, Bias::Recurrent, Bias::Both] {
                        let settings = Settings::new(cell, input_size, 5);
                        let options =
                            Settings { layers, projected_size, direction, input_mode, bias, cell_clip, ..settings };
                        // Only LSTMs have a projection or a clip.
                        stacks.extend(Rnn::new(options));
                    }
                }
            }
        }
    }
    stacks
}

/// A stack in words.
pub fn name(rnn: &Rnn) -> String {
    let Settings {
        cell, input_size, hidden_size, layers, projected_size, direction, input_mode, bias, cell_clip, ..
    } = *rnn.settings();
    let projected = projected_size.map_or_else(String::new, |size| format!(" projected to {size}"));
    let clip = cell_clip.map_or("", |_| " clipped");
    format!("{cell:?} {layers} {direction:?} {input_size} {input_mode:?} {hidden_size}{projected}{clip}, bias {bias:?}")
}

/// A layout in words: its size, where each side of each pseudo-layer starts (matrices, then biases), and a digest of
/// the offsets, shapes and strides of all parts.
pub fn text(layout: &Layout) -> String {
    let starts = [Kind::Matrix, Kind::Bias].map(|kind| {
        let side = |pseudo_layer, side| Some(layout.side(pseudo_layer, side, kind).first()?.offset.to_string());
        let sides = [Side::Input, Side::Recurrent, Side::Projection];
        let of = |pseudo_layer| sides.into_iter().filter_map(move |of| side(pseudo_layer, of));
        (0..layout.rnn().pseudo_layers()).flat_map(of).collect::<Vec<_>>().join(" ")
    });
    let regions: Vec<_> = layout.regions().map(|(_, region)| format!("{region:?}")).collect();
    let digest: String = Sha256::digest(regions.concat())[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{} elements; {}; {}; {digest}", layout.params_size(), starts[0], starts[1])
}

/// cuDNN was asked for every stack, in each precision and with each algorithm. All answers for a stack were the same.
#[test]
fn the_description_is_what_cudnn_has_reported() {
    let lines: Vec<&str> = RECORDED.lines().filter(|line| !line.starts_with('#')).collect();
    let stacks = stacks();
    assert_eq!(lines.len(), stacks.len());
    for (line, rnn) in lines.into_iter().zip(&stacks) {
        assert_eq!(line, format!("{}: {}", name(rnn), text(&Layout::described(rnn))), "cuDNN on the left");
    }
    let versions = RECORDED.lines().filter_map(|line| line.strip_prefix(VERSION)?.split_once(": "));
    let counts: Vec<usize> = versions.map(|(_, count)| count.parse().unwrap()).collect();
    assert!(counts.len() >= 2 && counts.iter().all(|&count| count >= stacks.len()), "{counts:?}");
}
