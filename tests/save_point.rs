//! States under seal: restored by the model, with the counter and key, that saved them, and refused otherwise.

use std::error::Error;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha512;
use tidegate::{Numeric, RestoreError, State};
use tidegate_model::canonical::Canonical;
use tidegate_model::sign::SecretKey;
use tidegate_tests::images::AlignedBytes;
use tidegate_tests::network::{drawn, node};
use tidegate_tests::random::{Draw, Rng};
use tidegate_update::{Keys, Policy, SavePointError, Trusted};

const KEY: [u8; 32] = *b"a secret that one device alone h";
const PRODUCT: [u8; 16] = *b"a sleepy spotter";

fn signer() -> SecretKey {
    SecretKey::from_seed(&[9; 32])
}

fn lstm(units: usize, seed: u64) -> Canonical {
    let nodes = vec![node("lstm", "lstm", "in", [3, units, units], &[])];
    drawn(&mut Rng::new(seed), nodes, Draw { weights: 0.5, biases: true })
}

/// A signed image.
fn signed(model: &Canonical, counter: u32) -> AlignedBytes {
    let image = AlignedBytes::pack(model, Numeric::F32);
    AlignedBytes::new(&signer().sign(image.get(), &PRODUCT, counter).unwrap())
}

fn trusted(image: &AlignedBytes) -> Trusted<'_> {
    let keys = Keys::new(signer().public().as_bytes(), PRODUCT).unwrap();
    Trusted::parse(image.get(), &keys, &Policy { product: PRODUCT, counter: 0 }).unwrap()
}

/// A save point after five steps, and the outputs of the five steps after it.
fn saved(trusted: &Trusted<'_>) -> (Vec<u8>, Vec<f32>) {
    let mut words = vec![0; trusted.model().state_words()];
    let mut state = State::new(trusted.model(), &mut words).unwrap();
    steps(trusted, &mut state, 0);
    let mut out = vec![0xAA; trusted.save_point_bytes()];
    assert_eq!(trusted.save(&state, &KEY, &mut out), Ok(out.len()));
    (out, steps(trusted, &mut state, 5))
}

/// The outputs of five steps.
fn steps(trusted: &Trusted<'_>, state: &mut State<'_>, first: usize) -> Vec<f32> {
    let model = trusted.model();
    let mut scratch = vec![0; model.scratch_words()];
    let x: Vec<f32> = (first..first + 5).flat_map(|step| [0.3 * step as f32, -1.0, 0.7]).collect();
    let mut outputs = vec![0.0; 5 * model.output_size()];
    assert_eq!(model.run_f32(state, &mut scratch, &x, &mut outputs), Ok(5));
    outputs
}

/// The outputs after a restored save point.
fn resumed(trusted: &Trusted<'_>, key: &[u8; 32], bytes: &[u8]) -> Result<Vec<f32>, SavePointError> {
    let mut words = vec![0; trusted.model().state_words()];
    let mut state = State::new(trusted.model(), &mut words).unwrap();
    let before = state.values().to_vec();
    let restored = trusted.restore(&mut state, key, bytes);
    if restored.is_err() {
        assert_eq!(state.values(), before, "a refused save point changes nothing");
    }
    restored.map(|()| steps(trusted, &mut state, 5))
}

#[test]
fn a_restored_state_goes_on_with_the_same_bits() {
    let image = signed(&lstm(8, 1), 4);
    let trusted = trusted(&image);
    let (bytes, expected) = saved(&trusted);
    assert_eq!(resumed(&trusted, &KEY, &bytes), Ok(expected.clone()));
    // In memory that is longer, and after an update to an image with the same weights and a lower counter.
    assert_eq!(resumed(&trusted, &KEY, &[&bytes[..], &[7; 9]].concat()), Ok(expected.clone()));
    assert_eq!(resumed(&self::trusted(&signed(&lstm(8, 1), 3)), &KEY, &bytes), Ok(expected));
    // The format that docs/update.md describes.
    let (sealed, seal) = bytes.split_at(bytes.len() - 32);
    let mac = Hmac::<Sha512>::new_from_slice(&KEY).unwrap().chain_update(sealed);
    assert_eq!(seal, &mac.finalize().into_bytes()[..32]);
    assert_eq!(sealed[..8], *b"TGSP\x04\0\0\0");
    assert_eq!(sealed.len(), 12 + trusted.model().saved_bytes());
}

#[test]
fn every_reason_to_refuse_a_save_point_has_its_error() {
    let image = signed(&lstm(8, 1), 4);
    let trusted = trusted(&image);
    let (bytes, _) = saved(&trusted);
    let refused = |bytes: &[u8]| resumed(&trusted, &KEY, bytes).unwrap_err();
    let needed = bytes.len();
    for length in 0..12 {
        assert_eq!(refused(&bytes[..length]), SavePointError::NotASavePoint);
    }
    for given in 12..needed {
        assert_eq!(refused(&bytes[..given]), SavePointError::Truncated { needed, given });
    }
    assert_eq!(refused(&vec![0xFF; needed]), SavePointError::NotASavePoint);
    let huge = [b"TGSP", &[4, 0, 0, 0], &[0xFF; 4], &bytes[12..]].concat();
    assert!(matches!(refused(&huge), SavePointError::Truncated { .. }));
    assert_eq!(resumed(&trusted, &[1; 32], &bytes), Err(SavePointError::BadSeal));
    // The image has a higher counter now.
    let newer = signed(&lstm(8, 1), 5);
    let old = SavePointError::OldCounter { found: 4, needed: 5 };
    assert_eq!(resumed(&self::trusted(&newer), &KEY, &bytes), Err(old));
    // Other weights, and another size.
    for other in [lstm(8, 2), lstm(12, 1)] {
        let other = signed(&other, 4);
        let refused = resumed(&self::trusted(&other), &KEY, &bytes);
        assert_eq!(refused, Err(SavePointError::State(RestoreError::OtherModel)));
    }
    let errors = [SavePointError::NotASavePoint, SavePointError::BadSeal, old, refused(&bytes[..20])];
    let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert!(lines.iter().all(|line| line.lines().count() == 1 && line.len() < 128), "{lines:?}");
    assert!(errors.iter().all(|error| error.source().is_none()));
}

#[test]
fn every_flipped_bit_of_a_save_point_is_refused() {
    let image = signed(&lstm(4, 1), 4);
    let trusted = trusted(&image);
    let (mut bytes, _) = saved(&trusted);
    for bit in 0..8 * bytes.len() {
        bytes[bit / 8] ^= 1 << (bit % 8);
        let error = resumed(&trusted, &KEY, &bytes).unwrap_err();
        let expected = match bit / 8 {
            0..4 => error == SavePointError::NotASavePoint,
            // A changed length that fits moves the place of the seal, which is then wrong.
            8..12 => matches!(error, SavePointError::Truncated { .. } | SavePointError::BadSeal),
            _ => error == SavePointError::BadSeal,
        };
        assert!(expected, "bit {bit}: {error}");
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
}

#[test]
fn a_save_point_needs_its_room() {
    let image = signed(&lstm(8, 1), 4);
    let trusted = trusted(&image);
    let mut words = vec![0; trusted.model().state_words()];
    let state = State::new(trusted.model(), &mut words).unwrap();
    let needed = trusted.save_point_bytes();
    let error = trusted.save(&state, &KEY, &mut vec![0; needed - 1]).unwrap_err();
    assert_eq!((error.needed, error.given), (needed, needed - 1));
}
