#![no_main]

#[path = "../../support/fuzz_data.rs"]
#[allow(dead_code, reason = "tests use the rest")]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    body::read_data(data);
});
