//! Tests against cuDNN itself, if it is installed.

use super::descriptors::place;
use super::*;
use crate::layout::record::{VERSION, name, stacks, text};
use crate::layout::{Kind, Region};
use crate::library::{LibraryError, open_first};
use crate::rnn::{Math, Rnn};

#[test]
fn a_missing_cudnn_is_an_error() {
    let error = open_first(Needed::Cudnn, vec!["libtidegate_none.so".to_owned()]).unwrap_err();
    assert!(matches!(&error, LibraryError::Missing { files, .. } if *files == ["libtidegate_none.so"]));
    match Cudnn::load() {
        Ok(cudnn) => assert!(cudnn.version() >= 90_000, "{cudnn:?}"),
        Err(error) => println!("SKIP no GPU: {error}"),
    }
}

/// Asks a real cuDNN, without a device, for the layout of every stack: cuDNN has every function, creates descriptors and
/// gives the recorded answers. It does not read the handle for this, so a block of zeros suffices as one.
///
/// `TIDEGATE_CUDNN` names the library. With `TIDEGATE_OVERWRITE_DOCS` its answers are recorded.
#[test]
fn cudnn_reports_the_recorded_layouts_without_a_device() {
    let Some(file) = std::env::var_os("TIDEGATE_CUDNN") else {
        println!("SKIP TIDEGATE_CUDNN does not name a libcudnn.so.9; the recorded answers are checked instead");
        return;
    };
    let cudnn = Cudnn::of(open_first(Needed::Cudnn, vec![file.into_string().unwrap()]).unwrap()).unwrap();
    let mut block = vec![0_u64; 1 << 16];
    let handle: cudnnHandle_t = block.as_mut_ptr().cast();
    let all: Vec<_> =
        Math::ALL.into_iter().flat_map(|math| Algorithm::ALL.map(|algorithm| (math, algorithm))).collect();
    let mut count = 0;
    let mut answers = |rnn: &Rnn| {
        let answer = |&(math, algorithm)| match RnnDescriptor::new((&cudnn, handle), rnn, math, algorithm) {
            // Every device has the standard algorithm in f32. Without a device, cuDNN does not know which others there are.
            Err(GpuError::Cudnn { status, .. })
                if status.is_unsupported() && (math, algorithm) != (Math::F32, Algorithm::Standard) =>
            {
                None
            }
            Err(error) => panic!("{}, {math:?}, {algorithm:?}: {error}", name(rnn)),
            Ok(descriptor) => Some(text(&descriptor.layout(handle).unwrap())),
        };
        let mut answers: Vec<String> = all.iter().filter_map(answer).collect();
        count += answers.len();
        answers.dedup();
        assert_eq!(answers.len(), 1, "{rnn:?}: {answers:?}");
        format!("{}: {}\n", name(rnn), answers[0])
    };
    let found: String = stacks().iter().map(&mut answers).collect();
    let data = RnnData::new((&cudnn, Element::F32), 6, 3, &[6, 4, 1]).unwrap();
    assert_eq!(data.len, 6 * 3 * 3);
    let refused = RnnData::new((&cudnn, Element::F32), 6, 3, &[6, 0]).err().unwrap();
    assert!(matches!(refused, GpuError::Length { found: 0, longest: 6 }));
    let answered = format!("{VERSION}{}: {count}\n", cudnn.version());
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/layout/recorded.txt");
    let mut recorded = std::fs::read_to_string(path).unwrap();
    if std::env::var_os("TIDEGATE_OVERWRITE_DOCS").is_some() {
        let start = recorded.find(VERSION).unwrap_or(recorded.len());
        let (head, rest) = recorded.split_at(start);
        // Versions whose answers were the same.
        let others = rest.split_inclusive('\n').filter(|line| line.starts_with(VERSION) && rest.ends_with(&found));
        let mut versions: Vec<&str> = others.filter(|line| **line != answered).chain([&answered[..]]).collect();
        versions.sort_unstable();
        recorded = [head, &versions.concat(), &found].concat();
        std::fs::write(path, &recorded).unwrap();
    }
    assert!(recorded.ends_with(&found), "{cudnn:?} gives other answers than {path}: {found}");
    assert!(recorded.contains(&answered), "{path} lacks {answered}");
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
