//! A keyword spotter in integers from the samples to the events: GRU_S in `i8x16`, its weights in the layout of the core. It
//! prints the same on every machine, and has no code for floats.

#![no_std]
#![no_main]

#[path = "spotter/integers.rs"]
mod chain;
mod spotter;

use firmware_examples::{arch::entry, start};
use tidegate::{Aligned, ImageBytes, Model};

static IMAGE: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/kws.tgi")));
const WHOLE: Model<'static> = match Model::parse(ImageBytes::from_aligned(IMAGE)) {
    Ok(model) => model,
    Err(_) => panic!("kws.tgi is not a valid image"),
};
const MODEL: Model<'static> = WHOLE.integers_only().expect("kws.tgi is not in integers");

#[entry]
fn main() -> ! {
    start(spotter::run)
}
