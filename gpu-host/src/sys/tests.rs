//! Tests against cuDNN itself, if it is installed.

use super::descriptors::place;
use super::*;
use crate::layout::{Kind, Layout, Region};
use crate::rnn::{Bias, Cell, Direction, InputMode, Math, Rnn, Settings};

#[test]
fn a_missing_cudnn_is_an_error() {
    let error = Cudnn::load_from(vec!["libtidegate_none.so".to_owned()]).unwrap_err();
    assert!(matches!(&error, GpuError::LibraryMissing(missing) if missing.files == ["libtidegate_none.so"]));
    match Cudnn::load() {
        Ok(cudnn) => assert!(cudnn.version() >= 90_000, "{cudnn:?}"),
        Err(error) => println!("SKIP no GPU: {error}"),
    }
}

/// Every cell, one to three layers, one and both directions, and all ways to read an input; LSTMs with a projection or
/// a clip.
fn stacks() -> Vec<Rnn> {
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

/// Checks a real cuDNN without a device: it has every function, creates descriptors and reports the described layout.
/// cuDNN 9.28 does not read the handle that it takes for the layout, so a block of zeros suffices.
#[test]
fn cudnn_reports_the_described_layout_without_a_device() {
    let Some(file) = std::env::var_os("TIDEGATE_CUDNN") else {
        println!("SKIP TIDEGATE_CUDNN does not name a libcudnn.so.9");
        return;
    };
    let cudnn = Cudnn::load_from(vec![file.into_string().unwrap()]).unwrap();
    let mut block = vec![0_u64; 1 << 16];
    let handle: cudnnHandle_t = block.as_mut_ptr().cast();
    let mut count = 0;
    for rnn in stacks() {
        for (math, algorithm) in
            [Math::F32, Math::Tf32, Math::Bf16].into_iter().flat_map(|m| Algorithm::ALL.map(|a| (m, a)))
        {
            let descriptor = match RnnDescriptor::new((&cudnn, handle), &rnn, math, algorithm) {
                // Only the standard algorithm runs every stack.
                Err(GpuError::Cudnn { status, .. }) if status.is_unsupported() && algorithm != Algorithm::Standard => {
                    continue;
                }
                found => found.unwrap(),
            };
            assert_eq!(descriptor.layout(handle).unwrap(), Layout::described(&rnn), "{rnn:?}");
            count += 1;
        }
    }
    let data = RnnData::new((&cudnn, Element::F32), 6, 3, &[6, 4, 1]).unwrap();
    assert_eq!(data.len, 6 * 3 * 3);
    let refused = RnnData::new((&cudnn, Element::F32), 6, 3, &[6, 0]).err().unwrap();
    assert!(matches!(refused, GpuError::Length { found: 0, longest: 6 }));
    println!("{cudnn:?}: {count} layouts as described");
}

#[test]
fn a_tensor_descriptor_becomes_a_region() {
    let region = place(3, [1, 4, 3], [12, 3, 1], (80, Element::F32), Kind::Matrix).unwrap();
    assert_eq!(region, Region::packed(20, 4, 3));
    let region = place(3, [1, 4, 1], [4, 1, 1], (80, Element::F32), Kind::Bias).unwrap();
    assert_eq!(region, Region::packed(20, 4, 1));
    let refused = |rank, dims, strides, bytes| {
        place(rank, dims, strides, (bytes, Element::F32), Kind::Bias).unwrap_err().to_string()
    };
    let call = "cudnnGetRNNWeightParams";
    assert_eq!(refused(2, [1, 4, 1], [4, 1, 1], 0), format!("{call}: the number of dimensions is 2"));
    assert_eq!(refused(3, [1, 4, 2], [4, 1, 1], 0), format!("{call}: a dimension that must be 1 is 2"));
    assert_eq!(refused(3, [1, -4, 1], [4, 1, 1], 0), format!("{call}: a dimension is -4"));
    assert_eq!(refused(3, [1, 4, 1], [4, -1, 1], 0), format!("{call}: a stride is -1"));
    assert!(
        refused(3, [1, 4, 1], [4, 1, 1], 3).ends_with("the distance to the start of the weight space in bytes is 3")
    );
}
