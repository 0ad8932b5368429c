//! Asks cuDNN itself, where there is one.

use super::descriptors::place;
use super::*;
use crate::layout::{Kind, Layout, Region};
use crate::rnn::{Bias, Math, Rnn};

#[test]
fn without_cudnn_loading_it_is_an_error_value() {
    let error = Cudnn::load_from(vec!["libtidegate_none.so".to_owned()]).unwrap_err();
    assert!(matches!(&error, GpuError::LibraryMissing(missing) if missing.files == ["libtidegate_none.so"]));
    match Cudnn::load() {
        Ok(cudnn) => assert!(cudnn.version() >= 90_000, "{cudnn:?}"),
        Err(error) => println!("SKIP no GPU: {error}"),
    }
}

/// The real library, without a device: every function is there, descriptors can be made, and cuDNN says where it has its
/// parameters. For that it wants a handle, which it does not look into (9.28): a block of zeros serves.
#[test]
fn a_cudnn_without_a_device_has_all_functions_and_its_parameters_where_they_are_described() {
    let Some(file) = std::env::var_os("TIDEGATE_CUDNN") else {
        println!("SKIP TIDEGATE_CUDNN names no libcudnn.so.9");
        return;
    };
    let cudnn = Cudnn::load_from(vec![file.into_string().unwrap()]).unwrap();
    let mut block = vec![0_u64; 1 << 16];
    let handle: cudnnHandle_t = block.as_mut_ptr().cast();
    let mut count = 0;
    for task in crate::record::tasks() {
        for bias in [Bias::None, Bias::Input, Bias::Recurrent, Bias::Both] {
            let rnn = Rnn::new(crate::rnn::Settings { bias, ..*task.rnn.settings() }).unwrap();
            for (math, algorithm) in
                [Math::F32, Math::Tf32, Math::Bf16].into_iter().flat_map(|m| Algorithm::ALL.map(|a| (m, a)))
            {
                let dropout = Dropout::none_on(&cudnn, handle).unwrap();
                let descriptor = match RnnDescriptor::new(&rnn, dropout, math, algorithm) {
                    // Others do not run everything.
                    Err(GpuError::Cudnn { status, .. })
                        if status.is_unsupported() && algorithm != Algorithm::Standard =>
                    {
                        continue;
                    }
                    found => found.unwrap(),
                };
                assert_eq!(descriptor.layout_on(handle).unwrap(), Layout::described(&rnn), "{}", task.name);
                count += 1;
            }
        }
        let data = RnnData::new((&cudnn, Element::F32), 6, task.batch.features, &task.batch.lengths).unwrap();
        assert_eq!(data.len(), task.batch.data.len());
    }
    let refused = RnnData::new((&cudnn, Element::F32), 6, 3, &[6, 0]).err().unwrap();
    assert!(matches!(refused, GpuError::Length { found: 0, longest: 6 }));
    println!("{cudnn:?}: {count} layouts as described");
}

#[test]
fn what_a_tensor_descriptor_says_becomes_a_region() {
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
    assert!(refused(3, [1, 4, 1], [4, 1, 1], 3).ends_with("an address behind the weight space's is 3"));
}
