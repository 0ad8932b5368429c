//! The same keyword spotter in `f32`, for cores that have an FPU.

#![no_std]
#![no_main]

mod spotter;

use firmware_examples::{arch::entry, start};
use tidegate::{Aligned, ImageBytes, Model};

static IMAGE: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/kws_f32.tgi")));
const MODEL: Model<'static> = match Model::parse(ImageBytes::from_aligned(IMAGE)) {
    Ok(model) => model,
    Err(_) => panic!("kws_f32.tgi is not a valid image"),
};

#[entry]
fn main() -> ! {
    start(spotter::run)
}
