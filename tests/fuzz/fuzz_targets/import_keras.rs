#![no_main]

#[path = "../../support/fuzz_keras.rs"]
#[allow(dead_code, reason = "tests use the rest")]
mod body;
#[path = "../../support/hdf5.rs"]
#[allow(dead_code, reason = "tests use the rest")]
mod hdf5;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    body::import_keras(data);
});
