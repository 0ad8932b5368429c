//! The recipes of docs/training.md exist and can be trained.

use std::path::{Path, PathBuf};

use tidegate_gpu::network::Network;
use tidegate_model::format::Description;
use tidegate_model::load::read_front_end;

const PAGE: &str = include_str!("../../docs/training.md");

fn recipes() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("recipes")
}

#[test]
fn the_page_names_every_recipe() {
    assert!(PAGE.contains(&format!("```json\n{}```", include_str!("../recipes/keywords.json"))));
    for entry in std::fs::read_dir(recipes()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(PAGE.contains(&name), "docs/training.md does not name {name}");
    }
}

#[test]
fn every_architecture_can_be_trained() {
    for (name, features, classes) in [("keywords", 20, 12), ("japanese_vowels", 12, 9), ("mnist_rows", 28, 10)] {
        let description = Description::read(&recipes().join(name).with_extension("json")).unwrap();
        let network = Network::new(&description).unwrap();
        assert_eq!((network.features(), network.classes()), (features, classes), "{name}");
    }
    let (mfcc, _) = read_front_end(&recipes().join("keywords_front_end.json")).unwrap();
    assert_eq!(mfcc.coefficients, 20);
}
