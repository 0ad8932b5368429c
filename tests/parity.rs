//! Every backend compared with the f64 oracle on random models: one step from the same state stays within the bound
//! that `support/oracle/` derives, for every cell, option, activation and size. f16 equals f32 on rounded weights, bit
//! for bit.

use half::f16;
use tidegate::internals::cell::CellKind;
use tidegate::{Numeric, State};
use tidegate_model::canonical::Canonical;
use tidegate_tests::backend::{self, Backend};
use tidegate_tests::images::AlignedBytes;
use tidegate_tests::oracle::{Bounded, Oracle};
use tidegate_tests::random::{Draw, Rng, Variant, chain, draw_state};
use tidegate_tests::tolerance::{each_within, same_bits};

/// One, two, an odd number, a block and one more, and a power of two.
const SIZES: [usize; 6] = [1, 2, 3, 5, 17, 64];
/// Small, usual, and large enough to saturate every gate.
const WEIGHTS: [f32; 3] = [0.1, 1.5, 30.0];

/// One step of `core` from `initial`: output and new state.
fn core_step(image: &AlignedBytes, initial: &[f32], x: &[f32]) -> (Vec<f32>, Vec<f32>) {
    one_step(&*backend::all(&image.model())[0], initial, x)
}

/// The same with any backend.
fn one_step(backend: &dyn Backend, initial: &[f32], x: &[f32]) -> (Vec<f32>, Vec<f32>) {
    let model = backend.model();
    let mut memory = vec![0; model.state_words()];
    let mut state = State::new(model, &mut memory).expect("the memory has the model's own length");
    state.values_mut().copy_from_slice(initial);
    let mut y = vec![0.0; model.output_size()];
    let step = backend.step(&mut state, &[x], &mut [&mut y]).expect("every length is right");
    assert!(step.has_output());
    (y, state.values().to_vec())
}

/// Checks one step of every backend against the oracle. Returns the largest fraction of the bound that was used.
fn hold(model: &Canonical, rng: &mut Rng, what: &str) -> f64 {
    let image = AlignedBytes::pack(model, Numeric::F32);
    let oracle = Oracle::new(model);
    let mut used = 0.0_f64;
    for input_limit in [1.0, 50.0] {
        let initial = draw_state(rng, model);
        let x = rng.numbers(model.architecture.inputs[0].size, input_limit);
        let mut state: Vec<Bounded> = initial.iter().map(|&value| Bounded::exact(value)).collect();
        let exact = oracle.step(&mut state, &[&x]).expect("the step has an output").swap_remove(0);
        for backend in backend::all(&image.model()) {
            let (y, next) = one_step(&*backend, &initial, &x);
            for (got, exact, which) in [(&y, &exact, "output"), (&next, &state, "state")] {
                let values: Vec<f64> = exact.iter().map(|bounded| bounded.value).collect();
                let bounds: Vec<f64> = exact.iter().map(|bounded| bounded.error).collect();
                let part = each_within(got, &values, &bounds).unwrap_or_else(|miss| {
                    panic!("{}, {what}, inputs to {input_limit}: {which}: {miss}", backend.name())
                });
                used = used.max(part);
            }
        }
    }
    used
}

#[test]
fn one_step_of_every_cell_stays_within_the_derived_bound() {
    let mut rng = Rng::new(1);
    for variant in Variant::all() {
        let mut used = 0.0_f64;
        for input in SIZES {
            for hidden in SIZES {
                let draw = Draw { weights: rng.pick(&WEIGHTS), biases: rng.below(4) > 0 };
                let model = chain(&mut rng, input, &[(variant.clone(), hidden)], draw);
                let what = format!("{}, input {input}, hidden {hidden}, {draw:?}", variant.name());
                used = used.max(hold(&model, &mut rng, &what));
            }
        }
        println!("{}: {:.0} % of the bound", variant.name(), 100.0 * used);
    }
}

#[test]
fn one_step_of_a_stack_of_cells_stays_within_the_derived_bound() {
    let mut rng = Rng::new(2);
    let all = Variant::all();
    let mut used = 0.0_f64;
    for case in 0..200 {
        let cells: Vec<(Variant, usize)> =
            (0..2 + rng.below(4)).map(|_| (all[rng.below(all.len())].clone(), rng.pick(&SIZES[..5]))).collect();
        let draw = Draw { weights: rng.pick(&WEIGHTS[..2]), biases: true };
        let input = 1 + rng.below(20);
        let model = chain(&mut rng, input, &cells, draw);
        let names: Vec<String> = cells.iter().map(|(variant, units)| format!("{units} {}", variant.name())).collect();
        used = used.max(hold(&model, &mut rng, &format!("stack {case}: {names:?}")));
    }
    println!("stacks: {:.0} % of the bound", 100.0 * used);
}

#[test]
fn a_bound_is_small_enough_to_notice_a_wrong_weight() {
    // The oracle of one model must not accept the step of another in which a matrix differs by 1e-3 and 2e-3
    // alternately. (A single weight may be hidden by a rectifier, and a normalization hides a change that all weights
    // share.)
    let mut rng = Rng::new(3);
    for variant in Variant::all().into_iter().filter(|variant| variant.activations.is_empty()) {
        let model = chain(&mut rng, 5, &[(variant.clone(), 7)], Draw { weights: 0.5, biases: true });
        let Some(name) = model.tensors.keys().find(|name| name.ends_with("weights")).cloned() else { continue };
        let mut other = model.clone();
        other.tensors.get_mut(&name).expect("the tensor exists").data.chunks_mut(2).for_each(|pair| {
            pair.iter_mut().zip([1e-3, 2e-3]).for_each(|(weight, shift)| *weight += shift);
        });
        let image = AlignedBytes::pack(&other, Numeric::F32);
        let oracle = Oracle::new(&model);
        let (initial, x) = (vec![0.0; oracle.state_len()], vec![1.0; 5]);
        let mut state: Vec<Bounded> = initial.iter().map(|&value| Bounded::exact(value)).collect();
        oracle.step(&mut state, &[&x]);
        let mut next = state.clone();
        let mut y = oracle.step(&mut next, &[&x]).expect("the step has an output").swap_remove(0);
        let carried: Vec<f32> = state.iter().map(|bounded| bounded.value as f32).collect();
        // Some weights change only the state.
        let (mut got, got_next) = core_step(&image, &carried, &x);
        y.extend(next);
        got.extend(got_next);
        let (values, bounds): (Vec<f64>, Vec<f64>) = y.iter().map(|bounded| (bounded.value, bounded.error)).unzip();
        let clipped = variant.params.keys().any(|name| name.ends_with("clip"));
        assert!(clipped || each_within(&got, &values, &bounds).is_err(), "{} hides 1e-3", variant.name());
    }
}

#[test]
fn a_plain_lstm_steps_the_same_bits_beside_a_normalized_one() {
    // An image with both kinds links a step that supports both.
    let draw = Draw { weights: 1.5, biases: true };
    let lstm = |variant: &Variant| variant.kind == CellKind::Lstm;
    let (plain, rare): (Vec<_>, Vec<_>) = Variant::all().into_iter().filter(lstm).partition(|variant| {
        let rare = |&option: &&str| option == "coupled" || option.ends_with("norm");
        !variant.options.iter().any(rare)
    });
    let step = |cells: &[(Variant, usize)]| {
        let mut rng = Rng::new(6);
        let model = chain(&mut rng, 5, cells, draw);
        let initial: Vec<f32> = (0..Oracle::new(&model).state_len()).map(|k| (k as f32).sin()).collect();
        core_step(&AlignedBytes::pack(&model, Numeric::F32), &initial, &[0.5, -1.0, 2.0, 0.25, -3.0]).1
    };
    for variant in plain {
        let alone = step(&[(variant.clone(), 7)]);
        for other in &rare {
            let beside = step(&[(variant.clone(), 7), (other.clone(), 3)]);
            let what = format!("{} before {}", variant.name(), other.name());
            same_bits(&beside[..alone.len()], &alone).unwrap_or_else(|miss| panic!("{what}: {miss}"));
        }
    }
}

#[test]
fn f16_is_f32_on_rounded_matrices_bit_for_bit() {
    let mut rng = Rng::new(4);
    for variant in Variant::all() {
        for (input, hidden) in [(1, 1), (3, 5), (17, 2), (5, 64)] {
            let draw = Draw { weights: 2.0, biases: true };
            let model = chain(&mut rng, input, &[(variant.clone(), hidden)], draw);
            let mut rounded = model.clone();
            for tensor in rounded.tensors.values_mut().filter(|tensor| tensor.shape.len() == 2) {
                for value in &mut tensor.data {
                    *value = f16::from_f32(*value).to_f32();
                }
            }
            let (half, full) = (AlignedBytes::pack(&model, Numeric::F16), AlignedBytes::pack(&rounded, Numeric::F32));
            let initial = draw_state(&mut rng, &model);
            let x = rng.numbers(input, 2.0);
            let (from_half, from_full) = (core_step(&half, &initial, &x), core_step(&full, &initial, &x));
            let what = format!("{}, input {input}, hidden {hidden}", variant.name());
            same_bits(&from_half.0, &from_full.0).unwrap_or_else(|miss| panic!("{what}: output: {miss}"));
            same_bits(&from_half.1, &from_full.1).unwrap_or_else(|miss| panic!("{what}: state: {miss}"));
        }
    }
}

#[test]
fn f16_represents_subnormal_weights_and_refuses_overflow() {
    let mut rng = Rng::new(5);
    let dense = Variant::plain("dense");
    let mut model = chain(&mut rng, 2, &[(dense, 1)], Draw { weights: 1.0, biases: true });
    model.tensors.get_mut("n0.weights").expect("the tensor exists").data.copy_from_slice(&[5.960_464_5e-8, 65504.0]);
    let image = AlignedBytes::pack(&model, Numeric::F16);
    model.tensors.get_mut("n0.bias").expect("the tensor exists").data[0] = 0.0;
    let zero_bias = AlignedBytes::pack(&model, Numeric::F16);
    assert_eq!(core_step(&zero_bias, &[], &[1.0, 0.0]).0, [5.960_464_5e-8]);
    assert_eq!(core_step(&zero_bias, &[], &[0.0, 1.0]).0, [65504.0]);
    assert_eq!(image.model().numeric(), Numeric::F16);
    model.tensors.get_mut("n0.weights").expect("the tensor exists").data[1] = 65520.0;
    let refused = tidegate_model::pack::pack(&model, Numeric::F16).expect_err("65520 rounds to infinity");
    assert!(refused.to_string().contains("n0.weights holds 65520"), "{refused}");
}
