#![no_main]

#[path = "../../support/checkpoint.rs"]
#[allow(dead_code, reason = "tests use the rest")]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    body::import_checkpoint(data);
});
