#![no_main]

#[path = "../../update/fuzz.rs"]
#[allow(dead_code, reason = "each target has its own entry")]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    body::update_protocol(data);
});
