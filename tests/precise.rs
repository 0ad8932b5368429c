//! Mycroft Precise's wake words from their own files, against TensorFlow (`precise/` of the data folder).

use std::collections::BTreeMap;
use std::path::PathBuf;

use tidegate::Numeric;
use tidegate_tools::canonical::Tensor;
use tidegate_tools::data::read_tensors;
use tidegate_tools::load::{self, Settings};
use tidegate_tools::runner::run;

const MODELS: [&str; 2] = ["marvin", "sheila"];
/// Worst output against TensorFlow's, from its features.
const FROM_FEATURES: f32 = 1e-5;

#[test]
fn wake_words_are_found_in_features_as_tensorflow_finds_them() {
    let Some(folder) = std::env::var_os("TIDEGATE_DATA_DIR").map(|folder| PathBuf::from(folder).join("precise")) else {
        println!("SKIP wake_words_are_found_in_features_as_tensorflow_finds_them: TIDEGATE_DATA_DIR is not set");
        return;
    };
    let reference: BTreeMap<String, Tensor> = read_tensors(&folder.join("reference.safetensors")).unwrap();
    for name in MODELS {
        let image = load::image(&folder.join(format!("{name}.pb")), &Settings::default(), Some(Numeric::F32)).unwrap();
        let model = image.model().unwrap();
        let features = &reference["features"];
        let expected = &reference[&format!("prob/{name}")].data;
        let mut worst = 0.0_f32;
        // Row k of the features is of clip k, whatever the tensor `clip` says: their first coefficients are its energies.
        for (window, expected) in features.data.chunks(29 * 13).zip(expected) {
            let outputs = run(&model, &[window], None).unwrap().outputs.swap_remove(0);
            worst = worst.max((outputs[28] - expected).abs());
        }
        println!("{name}: worst error {worst:.2e} over {} windows", features.shape[0]);
        assert!(worst <= FROM_FEATURES, "{name}: {worst:e}");
    }
}
