//! The keyword spotter on a BBC micro:bit, which takes signed updates of its model on its serial line. `tidegate flash`
//! sends them. The firmware has no model of its own: the first update brings it.
//!
//! The verifier needs more RAM than the 16 KB of the board: this firmware is for the same chip with 32 KB (nRF51822 QFAC).
//!
//! There is no microphone. For every block of an update that it takes, the model that runs hears the next frame of
//! recorded features, and each decision is sent as a note.

#![no_std]
#![no_main]

#[path = "../arch.rs"]
mod arch;
mod flash;
mod spotter;

use core::panic::PanicInfo;

use cortex_m::peripheral::SCB;
use cortex_m_rt::entry;
use embedded_io::{Read, Write};
use nrf51_hal::gpio::{Level, p0::Parts};
use nrf51_hal::pac::Peripherals;
use nrf51_hal::uart::{Baudrate, Parity, Pins, Uart};
use tidegate::{Family, Model};
use tidegate_update::wire::{Answer, Request};
use tidegate_update::{Boot, FRAME_BYTES, Frames, Keys, Session, Slots};

use flash::Part;
use spotter::Spotter;

/// Updates are images with the cells of this model. Two banks for weights of 8 bits do not fit beside the firmware.
const MODEL: Model<'static> =
    tidegate::include_model!("../../kws_i4x16.tgi").integers_only().expect("kws_i4x16.tgi has floats");
static FAMILY: Family = match MODEL.family() {
    Ok(family) => family,
    Err(_) => panic!("kws_i4x16.tgi has too many cells"),
};
const INPUTS: usize = MODEL.input_size();
const OUTPUTS: usize = MODEL.output_size();
/// Words for a state, scratch memory and an output.
const WORDS: usize = MODEL.runner_words();

const PRODUCT: [u8; 16] = *b"microbit-spotter";
/// The public key of the seed of 32 sevens, which everybody knows.
const ROOT: [u8; 32] = [
    0xea, 0x4a, 0x6c, 0x63, 0xe2, 0x9c, 0x52, 0x0a, 0xbe, 0xf5, 0x50, 0x7b, 0x13, 0x2e, 0xc5, 0xf9, 0x95, 0x47, 0x76,
    0xae, 0xbe, 0xbe, 0x7b, 0x92, 0x42, 0x1e, 0xea, 0x69, 0x14, 0x46, 0xd2, 0x2c,
];

#[entry]
fn main() -> ! {
    if let Some(chip) = Peripherals::take() {
        run(chip);
    }
    SCB::sys_reset()
}

/// Runs until the line or the flash fails.
fn run(chip: Peripherals) -> Option<()> {
    let pins = Parts::new(chip.GPIO);
    let pins = Pins {
        rxd: pins.p0_25.into_floating_input().degrade(),
        txd: pins.p0_24.into_push_pull_output(Level::High).degrade(),
        cts: None,
        rts: None,
    };
    arch::prime(&chip.UART0);
    let mut line = Uart::new(chip.UART0, pins, Parity::EXCLUDED, Baudrate::BAUD115200);

    let [first, second, journal] = Part::all(&chip.NVMC);
    let keys = Keys::new(&ROOT, PRODUCT).ok()?;
    let slots = Slots::open_by(|bytes| Model::parse_in(bytes, &FAMILY), [first, second], journal, keys);
    let mut slots = slots.ok()?;
    let mut memory = [0; WORDS];
    loop {
        test(&mut slots, &mut memory)?;
        serve(&mut slots, &mut memory, &mut line)?;
        slots.switch().ok()?;
    }
}

/// Keeps a model on trial if it passes its self-test, otherwise goes back to the one before.
fn test(slots: &mut Slots<Part<'_>, Part<'_>>, memory: &mut [u32; WORDS]) -> Option<()> {
    if slots.boot() != Boot::Trial {
        return Some(());
    }
    let (active, mut updater) = slots.split();
    let tested = active.ok().and_then(|active| active.self_test(memory).ok());
    match tested {
        Some(tested) => updater.confirm(tested).ok(),
        None => slots.revert().ok(),
    }
}

/// Runs the model and answers the sender, until it asks for another model.
fn serve<L: Read + Write>(
    slots: &mut Slots<Part<'_>, Part<'_>>,
    memory: &mut [u32; WORDS],
    line: &mut L,
) -> Option<()> {
    let boot = slots.boot();
    let (active, updater) = slots.split();
    let active = active.ok();
    let mut spotter = active.as_ref().and_then(|active| Spotter::new(active.model(), memory));
    let mut session = Session::new(updater, active.as_ref(), boot);
    let (mut frames, mut frame) = (Frames::new(), [0; FRAME_BYTES]);
    loop {
        let mut byte = [0];
        line.read_exact(&mut byte).ok()?;
        let Some((number, request)) = frames.push(byte[0]).and_then(Request::decode) else { continue };
        let answer = session.answer(number, request);
        // The sender waits for the answer: nothing is received while the model computes.
        if let (Answer::Taken { .. }, Some(spotter)) = (answer, &mut spotter)
            && let Some(note) = spotter.hear()?
        {
            line.write_all(Answer::Note(note).encode(0, &mut frame)).ok()?;
        }
        line.write_all(answer.encode(number, &mut frame)).ok()?;
        line.flush().ok()?;
        if (request, answer) == (Request::Run, Answer::Done) {
            return Some(());
        }
    }
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    SCB::sys_reset()
}
