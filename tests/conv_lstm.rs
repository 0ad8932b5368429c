//! ConvLSTM options of TensorFlow 1 and Keras that the frameworks could not run where the golden cases were made. The
//! cases are derived from golden cases of the frameworks.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use serde_json::Value;
use tidegate_tests::golden::{Verdict, run_file};

/// Shape and elements.
type Array = (Vec<usize>, Vec<f32>);

/// A golden case that can be modified.
struct Case {
    arrays: HashMap<String, Array>,
    metadata: HashMap<String, String>,
}

impl Case {
    fn read(name: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("golden/{name}.safetensors"));
        let bytes = std::fs::read(path).expect("the case is readable");
        let (_, header) = SafeTensors::read_metadata(&bytes).expect("the case has a header");
        let tensors = SafeTensors::deserialize(&bytes).expect("the case has tensors");
        let array = |view: &TensorView<'_>| -> Array {
            let quads = view.data().as_chunks::<4>().0.iter();
            (view.shape().to_vec(), quads.map(|&quad| f32::from_le_bytes(quad)).collect())
        };
        let arrays = tensors.iter().map(|(name, view)| (name.to_owned(), array(&view))).collect();
        Self { arrays, metadata: header.metadata().clone().expect("the case has metadata") }
    }

    fn argument(&mut self, name: &str, value: Value) {
        let args = self.metadata.get_mut("constructor_args").expect("the case has constructor arguments");
        let mut parsed: Value = serde_json::from_str(args).expect("the arguments are JSON");
        parsed[name] = value;
        *args = parsed.to_string();
    }

    fn run(&self) -> Verdict {
        let folder = tempfile::tempdir().expect("the temporary folder is created");
        let path: PathBuf = folder.path().join("case.safetensors");
        let bytes = |data: &[f32]| -> Vec<u8> { data.iter().flat_map(|value| value.to_le_bytes()).collect() };
        let data: Vec<(&str, &[usize], Vec<u8>)> =
            self.arrays.iter().map(|(name, (shape, data))| (name.as_str(), shape.as_slice(), bytes(data))).collect();
        let view = |shape: &[usize], data| {
            TensorView::new(Dtype::F32, shape.to_vec(), data).expect("the shape matches the bytes")
        };
        let views = data.iter().map(|(name, shape, data)| (*name, view(shape, data)));
        std::fs::write(&path, safetensors::serialize(views, Some(self.metadata.clone())).expect("the case is encoded"))
            .expect("the case is written");
        run_file(&path)
    }
}

/// Moves the last dimension in front of those from `to` on.
fn moved((shape, data): &Array, to: usize) -> Array {
    let (&channels, rest) = shape.split_last().expect("the shape is not empty");
    let pixels: usize = rest[to..].iter().product();
    let transpose = |image: &[f32]| -> Vec<f32> {
        (0..channels).flat_map(|channel| image.iter().skip(channel).step_by(channels).copied()).collect()
    };
    let shape = [&rest[..to], &[channels], &rest[to..]].concat();
    (shape, data.chunks(pixels * channels).flat_map(transpose).collect())
}

#[test]
fn channels_may_come_first() {
    for name in [
        "keras2__ConvLSTM1D__same_s2_sig_i7h5t8b3",
        "keras2__ConvLSTM2D__s2x1_nobias_i6h9t11b3",
        "keras3__ConvLSTM2D__default_k3_valid_i7h5t8b3",
    ] {
        let mut case = Case::read(name);
        case.argument("data_format", "channels_first".into());
        for name in ["input", "output", "initial_h", "initial_c", "final_h", "final_c"] {
            let array = case.arrays.get_mut(name).expect("the case has the tensor");
            *array = moved(array, if name.contains("put") { 2 } else { 1 });
        }
        assert!(matches!(case.run(), Verdict::Passed(_)), "{name}: {:?}", case.run());
    }
}

/// TensorFlow declares a state without x but returns one with it, so it cannot run a second step.
#[test]
fn a_skip_connection_puts_the_input_beside_the_output() {
    for name in ["tf1__Conv1DLSTMCell__k4_nobias_i3h8t12b1", "tf1__Conv3DLSTMCell__k2x3x3_i3h8t12b1"] {
        let mut case = Case::read(name);
        case.argument("skip_connection", true.into());
        let (x_shape, x) = case.arrays["input"].clone();
        let (shape, y) = case.arrays.get_mut("output").expect("the case has an output");
        let (channels, filters) = (x_shape[x_shape.len() - 1], shape[shape.len() - 1]);
        *y = y.chunks(filters).zip(x.chunks(channels)).flat_map(|(y, x)| [y, x].concat()).collect();
        *shape.last_mut().expect("the shape is not empty") += channels;
        assert!(matches!(case.run(), Verdict::Passed(_)), "{name}: {:?}", case.run());
    }
}

#[test]
fn unknown_arguments_are_refused_by_name() {
    for (argument, value) in [
        ("padding", "causal".into()),
        ("data_format", "channels_in_between".into()),
        ("kernel_size", 5.into()),
        ("strides", vec![1, 2].into()),
        ("filters", 7.into()),
        ("recurrent_activation", "nothing".into()),
        ("groups", 2.into()),
    ] {
        let mut case = Case::read("keras2__ConvLSTM1D__same_s2_sig_i7h5t8b3");
        case.argument(argument, value);
        let verdict = case.run();
        assert!(matches!(&verdict, Verdict::Unsupported(reason) if reason.contains(argument)), "{verdict:?}");
    }
    for (argument, value) in [
        ("kernel_shape", vec![3].into()),
        ("input_shape", vec![8, 2, 1].into()),
        ("output_channels", 4.into()),
        ("groups", 2.into()),
    ] {
        let mut case = Case::read("tf1__Conv1DLSTMCell__k4_nobias_i3h8t12b1");
        case.argument(argument, value);
        let verdict = case.run();
        let named = |reason: &String| reason.contains(argument) || reason.contains("kernel of shape");
        assert!(matches!(&verdict, Verdict::Unsupported(reason) if named(reason)), "{verdict:?}");
    }
}
