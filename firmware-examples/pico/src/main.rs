//! A keyword spotter on a Raspberry Pi Pico, with embassy. It takes signed updates of its model on a serial line, while the
//! model runs: `tidegate flash` sends them. The firmware has no model of its own: the first update brings it.
//!
//! FILL IN: the model hears recorded features. Replace `spotter` with your sensor, and [`ROOT`] with your own key.

#![no_std]
#![no_main]

mod flash;
#[path = "../../microbit/src/update/spotter.rs"]
mod spotter;

use core::cell::RefCell;

use defmt_rtt as _;
use embassy_executor::Spawner;
use embassy_futures::select::{Either, select};
use embassy_rp::flash::Flash;
use embassy_rp::gpio::{Level, Output};
use embassy_rp::peripherals::UART0;
use embassy_rp::uart::{BufferedInterruptHandler, BufferedUart, Config};
use embassy_rp::{bind_interrupts, config};
use embassy_sync::blocking_mutex::Mutex;
use embassy_time::{Duration, Ticker};
use embedded_io_async::{Read, Write};
use panic_probe as _;
use tidegate::{Family, Model};
use tidegate_update::wire::{Answer, Request};
use tidegate_update::{Boot, FRAME_BYTES, Frames, Keys, Session, Slots};

use flash::{Part, Shared};
use spotter::Spotter;

/// Updates are images with the cells of this model.
const MODEL: Model<'static> =
    tidegate::include_model!("../../microbit/kws.tgi").integers_only().expect("kws.tgi has floats");
static FAMILY: Family = match MODEL.family() {
    Ok(family) => family,
    Err(_) => panic!("kws.tgi has too many cells"),
};
const INPUTS: usize = MODEL.input_size();
const OUTPUTS: usize = MODEL.output_size();
/// Words for a state, scratch memory and an output.
const WORDS: usize = MODEL.runner_words();

/// Time from one frame of features to the next.
const FRAME: Duration = Duration::from_millis(20);

const PRODUCT: [u8; 16] = *b"pico-spotter-v01";
/// The public key of the seed of 32 sevens, which everybody knows.
const ROOT: [u8; 32] = [
    0xea, 0x4a, 0x6c, 0x63, 0xe2, 0x9c, 0x52, 0x0a, 0xbe, 0xf5, 0x50, 0x7b, 0x13, 0x2e, 0xc5, 0xf9, 0x95, 0x47, 0x76,
    0xae, 0xbe, 0xbe, 0x7b, 0x92, 0x42, 0x1e, 0xea, 0x69, 0x14, 0x46, 0xd2, 0x2c,
];

bind_interrupts!(struct Interrupts {
    UART0_IRQ => BufferedInterruptHandler<UART0>;
});

#[embassy_executor::main]
async fn main(_spawner: Spawner) {
    let chip = embassy_rp::init(config::Config::default());
    let mut led = Output::new(chip.PIN_25, Level::Low);
    let (mut sent, mut received) = ([0; 256], [0; 256]);
    // 115,200 baud on GP0 and GP1, where Raspberry Pi's debug probe connects.
    let (tx, rx) = (chip.PIN_0, chip.PIN_1);
    let mut line = BufferedUart::new(chip.UART0, tx, rx, Interrupts, &mut sent, &mut received, Config::default());

    let flash: Shared = Mutex::new(RefCell::new(Flash::new_blocking(chip.FLASH)));
    let [first, second, journal] = Part::all(&flash);
    let keys = defmt::unwrap!(Keys::new(&ROOT, PRODUCT).ok());
    let slots = Slots::open_by(|bytes| Model::parse_in(bytes, &FAMILY), [first, second], journal, keys);
    let mut slots = defmt::unwrap!(slots.ok());
    let mut memory = [0; WORDS];
    loop {
        defmt::unwrap!(test(&mut slots, &mut memory));
        defmt::unwrap!(serve(&mut slots, &mut memory, &mut line, &mut led).await);
        defmt::unwrap!(slots.switch().ok());
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
        Some(tested) => {
            updater.confirm(tested).ok()?;
            defmt::info!("the new model is kept");
        }
        None => {
            slots.revert().ok()?;
            defmt::warn!("the new model fails its self-test");
        }
    }
    Some(())
}

/// Runs the model and answers the sender, until it asks for another model.
async fn serve(
    slots: &mut Slots<Part<'_>, Part<'_>>,
    memory: &mut [u32; WORDS],
    line: &mut BufferedUart,
    led: &mut Output<'static>,
) -> Option<()> {
    let boot = slots.boot();
    let (active, updater) = slots.split();
    let active = active.ok();
    let mut spotter = active.as_ref().and_then(|active| Spotter::new(active.model(), memory));
    let mut session = Session::new(updater, active.as_ref(), boot);
    let (mut frames, mut frame) = (Frames::new(), [0; FRAME_BYTES]);
    let mut ticker = Ticker::every(FRAME);
    loop {
        let mut bytes = [0; 64];
        match select(line.read(&mut bytes), ticker.next()).await {
            Either::First(count) => {
                for byte in bytes.get(..count.ok()?)? {
                    let Some((number, request)) = frames.push(*byte).and_then(Request::decode) else { continue };
                    let answer = session.answer(number, request);
                    line.write_all(answer.encode(number, &mut frame)).await.ok()?;
                    line.flush().await.ok()?;
                    if (request, answer) == (Request::Run, Answer::Done) {
                        return Some(());
                    }
                }
            }
            Either::Second(()) => {
                let Some(spotter) = &mut spotter else { continue };
                if let Some(note) = spotter.hear()? {
                    let is_word = !note.starts_with('_');
                    led.set_level(if is_word { Level::High } else { Level::Low });
                    line.write_all(Answer::Note(note).encode(0, &mut frame)).await.ok()?;
                }
            }
        }
    }
}
