//! An update of the model, from one signed image to the next, in memory that stands for flash.
//!
//! No panics, no heap and no `core::fmt`: `cargo xtask test` checks the symbols of this program.

#![no_std]
#![no_main]

use core::convert::Infallible;
use core::hint::black_box;

use embedded_storage::nor_flash::{ErrorType, NorFlash, ReadNorFlash};
use firmware_examples::arch::{below, entry, executed, singleton, start_counter};
use firmware_examples::{Console, start};
use tidegate::Aligned;
use tidegate_update::{Boot, Keys, Mapped, Policy, Slots, Trusted};

static IMAGE: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/kws_signed.tgi")));

/// The image that is received.
mod next {
    use tidegate::Aligned;

    pub static IMAGE: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/kws_update.tgi")));
}

const PRODUCT: [u8; 16] = *b"tidegate example";
/// The public key of the seed that the build script signs with.
const ROOT: [u8; 32] = [
    0xea, 0x4a, 0x6c, 0x63, 0xe2, 0x9c, 0x52, 0x0a, 0xbe, 0xf5, 0x50, 0x7b, 0x13, 0x2e, 0xc5, 0xf9, 0x95, 0x47, 0x76,
    0xae, 0xbe, 0xbe, 0x7b, 0x92, 0x42, 0x1e, 0xea, 0x69, 0x14, 0x46, 0xd2, 0x2c,
];
const BANK: usize = 96 << 10;
const PAGE: usize = 4096;
const FLASH: usize = 2 * BANK + 2 * PAGE;

/// Memory that is written and erased as flash is.
struct Memory(&'static mut [u8]);

impl ErrorType for Memory {
    type Error = Infallible;
}

// Not inlined: the drivers of a chip would not be, either.
impl ReadNorFlash for Memory {
    const READ_SIZE: usize = 1;

    #[inline(never)]
    fn read(&mut self, offset: u32, bytes: &mut [u8]) -> Result<(), Infallible> {
        let from = self.0.get(offset as usize..).unwrap_or_default();
        bytes.iter_mut().zip(from).for_each(|(byte, from)| *byte = *from);
        Ok(())
    }

    fn capacity(&self) -> usize {
        self.0.len()
    }
}

impl NorFlash for Memory {
    const WRITE_SIZE: usize = 4;
    const ERASE_SIZE: usize = PAGE;

    #[inline(never)]
    fn erase(&mut self, from: u32, to: u32) -> Result<(), Infallible> {
        self.0.get_mut(from as usize..to as usize).unwrap_or_default().fill(0xFF);
        Ok(())
    }

    #[inline(never)]
    fn write(&mut self, offset: u32, bytes: &[u8]) -> Result<(), Infallible> {
        let to = self.0.get_mut(offset as usize..).unwrap_or_default();
        to.iter_mut().zip(bytes).for_each(|(to, byte)| *to &= byte);
        Ok(())
    }
}

impl Mapped for Memory {
    #[inline(never)]
    fn bytes(&self) -> &[u8] {
        self.0
    }
}

#[entry]
fn main() -> ! {
    start(run)
}

fn run() -> Option<()> {
    let mut console = Console::open();
    start_counter()?;
    let keys = Keys::new(black_box(&ROOT), PRODUCT).ok()?;
    let policy = Policy { product: PRODUCT, counter: 1 };
    let mut verified = false;
    let instructions = executed(|| verified = Trusted::parse(&black_box(IMAGE).0, &keys, &policy).is_ok());
    if !verified {
        return None;
    }
    console.text("verified\n");
    console.instructions(instructions as u32);
    // The two banks with the journal, and the memory of the self-test.
    let (Aligned(memory), words) =
        singleton!(: (Aligned<[u8; FLASH]>, [u32; 4096]) = (Aligned([0; FLASH]), [0; 4096]))?;
    // Its length is hidden, so that the compiler has no code for this case alone.
    black_box(&mut memory[..]).fill(0xFF);
    let (first, rest) = memory.split_at_mut_checked(BANK)?;
    first.iter_mut().zip(&IMAGE.0).for_each(|(to, from)| *to = *from);
    let (second, journal) = rest.split_at_mut_checked(BANK)?;
    let (banks, journal) = ([first, second].map(Memory), Memory(journal));
    let mut slots = None;
    let stack = below(|| slots = updated(banks, journal, keys));
    let (banks, journal) = slots?.into_parts();
    console.stack_of_step(stack);
    // After a reset, the image is on trial.
    let mut slots = Slots::open(banks, journal, keys).ok()?;
    if slots.boot() != Boot::Trial {
        return None;
    }
    let (active, mut updater) = slots.split();
    updater.confirm(active.ok()?.self_test(words).ok()?).ok()?;
    console.text("tested and confirmed\n");
    console.text("counter ");
    console.hex(slots.counter());
    console.text("\n");
    Some(())
}

/// Receives the next image.
#[inline(never)]
fn updated(banks: [Memory; 2], journal: Memory, keys: Keys) -> Option<Slots<Memory, Memory>> {
    let mut slots = Slots::open(banks, journal, keys).ok()?;
    let (active, mut updater) = slots.split();
    let _active = active.ok()?;
    if updater.resume().ok()?.is_some() {
        return None;
    }
    let image = &black_box(next::IMAGE).0;
    let mut receiver = updater.begin(image.len() as u32).ok()?;
    for block in image.chunks(100) {
        receiver.write(receiver.received(), block).ok()?;
    }
    black_box(receiver.digest());
    receiver.finish().ok()?;
    Some(slots)
}
