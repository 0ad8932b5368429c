#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    tidegate_gpu::train::fuzz::train_checkpoint(data);
});
