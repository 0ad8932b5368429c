//! Signed images: the keyword spotter with two counters for `update`, and small models for `core/capi/tests`.

use std::error::Error;
use std::fs;
use std::path::Path;

use tidegate_model::self_test::with_self_test;
use tidegate_model::sign::SecretKey;
use tidegate_model::tidegate::internals::write::seal;
use tidegate_update::KeyChange;

/// Product of the example.
const PRODUCT: [u8; 16] = *b"tidegate example";

/// A key for examples: everybody knows it.
fn key() -> SecretKey {
    SecretKey::from_seed(&[7; 32])
}

/// The image with a self-test, signed with the counters 1 and 2.
pub fn signed(image: &[u8]) -> Result<[Vec<u8>; 2], Box<dyn Error>> {
    let image = with_self_test(image)?;
    Ok([key().sign(&image, &PRODUCT, 1)?, key().sign(&image, &PRODUCT, 2)?])
}

/// Writes `update_*.tgi` for `core/capi/tests/update.c`: two models with the counters 1 and 2, and images that a device
/// refuses or has to test otherwise. `update_root` is the root key, `update_changes` three key changes.
pub fn for_c(out: &Path, models: [&[u8]; 2]) -> Result<(), Box<dyn Error>> {
    let [first, second] = [with_self_test(models[0])?, with_self_test(models[1])?];
    // The last byte before the padding of the last section: an output of the self-test.
    let mut failing = second.clone();
    let last = failing.iter().rposition(|byte| *byte != 0).ok_or("an image of zeros")?;
    failing[last] ^= 1;
    seal(&mut failing);
    let later = |number: u8| SecretKey::from_seed(&[number; 32]);
    let images = [
        ("first", key().sign(&first, &PRODUCT, 1)?),
        ("second", key().sign(&second, &PRODUCT, 2)?),
        ("third", key().sign(&first, &PRODUCT, 3)?),
        ("old", key().sign(&second, &PRODUCT, 0)?),
        ("failing", key().sign(&failing, &PRODUCT, 2)?),
        ("untested", key().sign(models[1], &PRODUCT, 2)?),
        ("product", key().sign(&second, b"another product.", 2)?),
        ("key_1", later(1).sign(&second, &PRODUCT, 2)?),
        ("key_2", later(2).sign(&second, &PRODUCT, 2)?),
        ("unsigned", second),
    ];
    for (name, image) in images {
        fs::write(out.join(format!("update_{name}.tgi")), image)?;
    }
    fs::write(out.join("update_root"), key().public().as_bytes())?;
    let change =
        |serial: u8| key().sign_change(&KeyChange::new(serial.into(), PRODUCT, later(serial).public().as_bytes()));
    let changes = [change(1)?, change(2)?, change(3)?].map(|change| *change.as_bytes());
    Ok(fs::write(out.join("update_changes"), changes.concat())?)
}
