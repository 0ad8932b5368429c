//! A keyword spotter in integers: GRU_S in `i8x16`, its weights in the layout of the core. It prints the same on every machine.

#![no_std]
#![no_main]

mod spotter;

use firmware_examples::{arch::entry, start};
use tidegate::{Aligned, ImageBytes, Model};

static IMAGE: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/kws.tgi")));
const MODEL: Model<'static> = match Model::parse(ImageBytes::from_aligned(IMAGE)) {
    Ok(model) => model,
    Err(_) => panic!("kws.tgi is not a valid image"),
};

#[entry]
fn main() -> ! {
    start(spotter::run)
}
