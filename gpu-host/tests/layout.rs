//! The described weight space, for every configuration that cuDNN supports.

use chacha20::ChaCha8Rng;
use chacha20::rand_core::{Rng, SeedableRng};
use tidegate_gpu::layout::{Kind, Layout, LayoutError, Part, Region, Side, parts};
use tidegate_gpu::rnn::{Bias, Cell, Direction, InputMode, Rnn, Settings};
use tidegate_gpu::saveable::{SaveError, restore, save, settings};
use tidegate_gpu::weights::{LayerWeights, WeightsError, canonical_to_params, params_to_canonical, tensors};
use tidegate_model::canonical::{Canonical, Tensor};

const HIDDEN: usize = 4;
const WINDOW: usize = 3;

/// Every cell, 1 to 3 layers, both directions, inputs narrower than, as wide as and wider than the layer, with and
/// without input weights and projection, and all biases.
fn configurations() -> Vec<Rnn> {
    let mut found = Vec::new();
    for cell in Cell::ALL {
        for layers in 1..=3 {
            for direction in [Direction::Unidirectional, Direction::Bidirectional] {
                for input_size in [HIDDEN - 1, HIDDEN, HIDDEN + 3] {
                    for input_mode in [InputMode::Linear, InputMode::Skip] {
                        for projected_size in [None, Some(2)] {
                            for bias in [Bias::None, Bias::Input, Bias::Recurrent, Bias::Both] {
                                let settings = Settings {
                                    layers,
                                    projected_size,
                                    direction,
                                    input_mode,
                                    bias,
                                    cell_clip: (cell == Cell::Lstm && bias == Bias::Both).then_some(2.0),
                                    ..Settings::new(cell, input_size, HIDDEN)
                                };
                                found.extend(Rnn::new(settings));
                            }
                        }
                    }
                }
            }
        }
    }
    // Only one input size is valid without input weights, and only one cell has projections.
    assert_eq!(found.len(), (4 + 1) * 3 * 2 * (3 + 1) * 4);
    found
}

/// Weights that are all different.
fn weights(rnn: &Rnn, seed: u64) -> Vec<LayerWeights> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut next = || (random.next_u32() >> 8) as f32 / (1 << 24) as f32 - 0.5;
    let layer = |k| {
        let made = |(name, _, _, shape): (_, _, _, Vec<usize>)| {
            let data = (0..shape.iter().product()).map(|_| next()).collect();
            (name, Tensor { shape, data })
        };
        tensors(rnn, k).map(made).collect::<LayerWeights>()
    };
    (0..rnn.pseudo_layers()).map(layer).collect()
}

/// A layout with padding, another order and transposed matrices.
fn strange(rnn: &Rnn) -> Layout {
    let mut places = Vec::new();
    let mut size = 5;
    for (part, [rows, cols]) in parts(rnn).collect::<Vec<_>>().into_iter().rev() {
        places.push((part, Region { offset: size, rows, cols, row_stride: 1, col_stride: rows + 2 }));
        size += cols * (rows + 2) + 7;
    }
    let report = |part| Ok::<_, LayoutError>(places.iter().find(|place| place.0 == part).map(|place| place.1));
    Layout::reported(rnn, size, report).unwrap()
}

#[test]
fn weights_are_read_back_from_a_weight_space() {
    for (seed, rnn) in configurations().iter().enumerate() {
        let given = weights(rnn, seed as u64);
        let count: usize = given.iter().flat_map(LayerWeights::values).map(|tensor| tensor.data.len()).sum();
        for layout in [Layout::described(rnn), strange(rnn)] {
            let mut params = vec![f32::NAN; layout.params_size()];
            canonical_to_params(&layout, &given, &mut params).unwrap();
            assert_eq!(params.iter().filter(|value| !value.is_nan()).count(), count, "{rnn:?}");
            assert_eq!(params_to_canonical(&layout, &params).unwrap(), given, "{rnn:?}");
        }
        assert_eq!(Layout::described(rnn).params_size(), count, "nothing is between the parts of {rnn:?}");
    }
}

#[test]
fn a_saved_stack_is_restored_from_its_file() {
    for (seed, rnn) in configurations().iter().enumerate() {
        let given = weights(rnn, seed as u64);
        let both = rnn.settings().direction == Direction::Bidirectional;
        let model = save(rnn, &given, both.then_some(WINDOW), "a test".into()).unwrap();
        let model = Canonical::from_bytes(&model.to_bytes().unwrap()).unwrap();
        assert_eq!(restore(rnn, &model).unwrap(), given, "{rnn:?}");
        let stack = settings(&model).unwrap();
        let needed = Settings { input_mode: InputMode::Linear, bias: Bias::Both, ..*rnn.settings() };
        assert_eq!(*stack.settings(), needed);
    }
}

/// Offsets computed by hand from the references in the module's documentation.
#[test]
fn matrices_come_before_biases_and_the_input_side_before_the_recurrent_side() {
    let direction = Direction::Bidirectional;
    let rnn = Rnn::new(Settings { layers: 2, direction, ..Settings::new(Cell::Gru, 3, 2) }).unwrap();
    let layout = Layout::described(&rnn);
    let first = |pseudo_layer, side, kind| layout.side(pseudo_layer, side, kind)[0].offset;
    // A direction of the first layer: 3 gates of 2 x 3, then 3 of 2 x 2. The second layer has 4 input features.
    assert_eq!(first(0, Side::Input, Kind::Matrix), 0);
    assert_eq!(first(0, Side::Recurrent, Kind::Matrix), 18);
    assert_eq!(first(1, Side::Input, Kind::Matrix), 30);
    assert_eq!(first(2, Side::Input, Kind::Matrix), 60);
    assert_eq!(first(2, Side::Recurrent, Kind::Matrix), 84);
    assert_eq!(first(3, Side::Recurrent, Kind::Matrix), 120);
    assert_eq!(first(0, Side::Input, Kind::Bias), 132);
    assert_eq!(first(0, Side::Recurrent, Kind::Bias), 138);
    assert_eq!(first(3, Side::Recurrent, Kind::Bias), 174);
    assert_eq!(layout.params_size(), 180);
    let update = Part { pseudo_layer: 1, lin_layer_id: 4, kind: Kind::Matrix };
    let place = layout.regions().find(|(part, _)| *part == update).unwrap().1;
    assert_eq!(place, Region::packed(30 + 18 + 4, 2, 2), "the recurrent update gate, backward");
}

#[test]
fn a_projection_follows_its_pseudo_layer_and_a_skipped_input_has_no_weights() {
    let given = Settings {
        layers: 2,
        projected_size: Some(2),
        input_mode: InputMode::Skip,
        bias: Bias::Input,
        ..Settings::new(Cell::Lstm, 3, 3)
    };
    let layout = Layout::described(&Rnn::new(given).unwrap());
    assert!(layout.side(0, Side::Input, Kind::Matrix).is_empty());
    assert_eq!(layout.side(0, Side::Recurrent, Kind::Matrix)[0], Region::packed(0, 3, 2));
    assert_eq!(layout.side(0, Side::Projection, Kind::Matrix), [Region::packed(24, 2, 3)]);
    assert_eq!(layout.side(1, Side::Input, Kind::Matrix)[0], Region::packed(30, 3, 2));
    assert_eq!(layout.side(0, Side::Input, Kind::Bias)[0], Region::packed(84, 3, 1));
    assert!(layout.side(0, Side::Recurrent, Kind::Bias).is_empty());
    assert_eq!(layout.params_size(), 108);
}

#[test]
fn a_reported_layout_is_checked() {
    let rnn = configurations()[0];
    let described = Layout::described(&rnn);
    let known = |part: Part| described.regions().find(|(known, _)| *known == part).map(|(_, region)| region);
    let of = |size, change: &dyn Fn(Part, Option<Region>) -> Option<Region>| {
        Layout::reported(&rnn, size, |part| Ok::<_, LayoutError>(change(part, known(part))))
    };
    let size = described.params_size();
    assert_eq!(of(size, &|_, region| region).unwrap(), described);
    let part = Part { pseudo_layer: 0, lin_layer_id: 0, kind: Kind::Matrix };
    let last = described.regions().last().unwrap().0;
    assert_eq!(of(size - 1, &|_, region| region), Err(LayoutError::Beyond { part: last, size: size - 1 }));
    let missing = of(size, &|found, region| region.filter(|_| found != part));
    assert_eq!(missing, Err(LayoutError::Presence { part }));
    let extra = of(size, &|_, region| region.or(Some(Region::packed(0, 1, 1))));
    assert!(matches!(extra, Err(LayoutError::Presence { part: Part { kind: Kind::Bias, .. } })));
    let wide = of(size, &|_, region| region.map(|region| Region { cols: region.cols + 1, ..region }));
    assert!(matches!(wide, Err(LayoutError::Shape { found: [4, 4], needed: [4, 3], .. })));
    let same = of(size, &|_, region| region.map(|region| Region { offset: 0, ..region }));
    assert!(matches!(same, Err(LayoutError::Overlap { element: 0, .. })));
    let far = of(size, &|_, region| region.map(|region| Region { row_stride: usize::MAX, ..region }));
    assert_eq!(far, Err(LayoutError::Beyond { part, size }));
}

#[test]
fn weights_that_do_not_fit_the_stack_are_refused() {
    let rnn = *configurations().last().unwrap();
    let (layout, given) = (Layout::described(&rnn), weights(&rnn, 1));
    let size = layout.params_size();
    let mut params = vec![0.0; size];
    let error = |given: &[LayerWeights], params: &mut [f32]| canonical_to_params(&layout, given, params).unwrap_err();
    let (found, needed) = (given.len() - 1, given.len());
    assert_eq!(error(&given[1..], &mut params), WeightsError::Layers { found, needed });
    assert_eq!(error(&given, &mut params[1..]), WeightsError::Params { found: size - 1, needed: size });
    let changed = |change: &dyn Fn(&mut LayerWeights)| {
        let mut given = given.clone();
        change(&mut given[2]);
        error(&given, &mut vec![0.0; size]).to_string()
    };
    let absent = changed(&|layer| drop(layer.remove("recurrent_weights")));
    assert_eq!(absent, "recurrent_weights of pseudo-layer 2 is absent, but must be 4 x 4");
    let left = changed(&|layer| drop(layer.insert("cell_gain", Tensor { shape: vec![4], data: vec![0.0; 4] })));
    assert_eq!(left, "cell_gain of pseudo-layer 2 is 4, but must be absent");
    let short = changed(&|layer| layer.get_mut("input_bias").unwrap().data.truncate(1));
    assert_eq!(short, "input_bias of pseudo-layer 2 is 4, but must be 4");
}

#[test]
fn a_model_that_cudnn_cannot_compute_is_not_restored() {
    let rnn = Rnn::new(Settings { bias: Bias::None, ..Settings::new(Cell::Lstm, HIDDEN, HIDDEN) }).unwrap();
    let given = weights(&rnn, 3);
    let model = save(&rnn, &given, None, String::new()).unwrap();
    let refused = |rnn: &Rnn, change: &dyn Fn(&mut Canonical)| {
        let mut model = model.clone();
        change(&mut model);
        restore(rnn, &model).unwrap_err().to_string()
    };
    let node = |change: fn(&mut tidegate_model::canonical::Node)| {
        refused(&rnn, &|model| change(&mut model.architecture.nodes[0]))
    };
    assert!(node(|node| node.options.push("peephole".into())).contains("has option peephole"));
    assert!(node(|node| node.params = [("cell_clip".into(), 1.0)].into()).contains("has cell_clip 1"));
    assert!(node(|node| node.activations = [("cell_activation".into(), "relu".into())].into()).contains("relu"));
    let bias = |model: &mut Canonical| {
        let name = format!("{}.input_bias", model.architecture.nodes[0].name);
        model.tensors.insert(name, Tensor { shape: vec![16], data: vec![1.0; 16] });
    };
    assert!(refused(&rnn, &bias).contains("has input bias"));
    let skip = Rnn::new(Settings { input_mode: InputMode::Skip, ..*rnn.settings() }).unwrap();
    assert!(refused(&skip, &|_| ()).contains("not the identity"));
    let two = Rnn::new(Settings { layers: 2, ..*rnn.settings() }).unwrap();
    assert!(refused(&two, &|_| ()).contains("must be lstm 4x4x4, lstm 4x4x4"));
    let both = Rnn::new(Settings { direction: Direction::Bidirectional, ..*rnn.settings() }).unwrap();
    assert!(matches!(save(&both, &weights(&both, 1), None, String::new()), Err(SaveError::NeedsWindow)));
}
