//! Everything recorded in the repository: docs, examples, fuzz corpora and the output of the firmware.

#[path = "../bars.rs"]
mod bars;
#[path = "../costs.rs"]
mod costs;
#[path = "../docs.rs"]
mod docs;
#[path = "../errors_not_numbers.rs"]
mod errors_not_numbers;
#[path = "../examples.rs"]
mod examples;
#[path = "../firmware_clock.rs"]
mod firmware_clock;
#[path = "../firmware_images.rs"]
mod firmware_images;
#[path = "../firmware_microbit.rs"]
mod firmware_microbit;
#[path = "../firmware_twin.rs"]
mod firmware_twin;
#[path = "../fuzz_corpus.rs"]
mod fuzz_corpus;
#[path = "../fuzz_streams.rs"]
mod fuzz_streams;
#[allow(dead_code, reason = "the build script of the firmware uses the rest")]
#[path = "../../firmware-examples/build/spotter.rs"]
mod spotter;
