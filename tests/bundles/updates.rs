//! Signed images for the micro:bit, and what `tidegate flash` prints while the board takes them: the decisions of the model
//! that runs, and the outcome. `cargo xtask qemu` sends them.

use std::error::Error;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use tidegate::internals::write::seal;
use tidegate::{Layout, Numeric, State};
use tidegate_model::load::ImageBuffer;
use tidegate_model::pack::pack_with;
use tidegate_model::packing::grouped;
use tidegate_model::quantize::Ranges;
use tidegate_model::self_test::with_self_test;
use tidegate_model::sign::SecretKey;

use crate::spotter::Spotter;

/// As in `firmware-examples/microbit/src/update/main.rs`.
const PRODUCT: [u8; 16] = *b"microbit-spotter";
const SEED: [u8; 32] = [7; 32];
/// As in `core/update/src/wire.rs`.
const BLOCK_BYTES: usize = 128;

/// The output that a sender sees.
struct Transcript {
    /// Lines of features, as the firmware has them.
    features: String,
    text: String,
}

/// Writes the images, and `updates.txt`: for each transfer its image and what is printed.
pub fn write(folder: &Path) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(folder)?;
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut spotter = Spotter::read(&repository)?;
    let ranges = spotter.ranges()?;
    spotter.clips.truncate(3);
    let ranges_of_three = spotter.ranges()?;
    let image = |ranges: &Ranges| -> Result<_, Box<dyn Error>> {
        Ok(with_self_test(&pack_with(&spotter.model, Numeric::I4x16, ranges, Layout::Portable)?)?)
    };
    let a = image(&ranges)?;
    // The same network, calibrated on three clips.
    let b = image(&ranges_of_three)?;
    assert!(a != b, "the two models differ");
    let sign = |image: &[u8], counter| SecretKey::from_seed(&SEED).sign(image, &PRODUCT, counter);
    let [first, next, third] = [sign(&a, 1)?, sign(&b, 2)?, sign(&a, 3)?];
    let mut forged = third.clone();
    let last = forged.len() - 1;
    forged[last] ^= 1;
    seal(&mut forged);
    for (name, image) in [("first", &first), ("next", &next), ("forged", &forged), ("third", &third)] {
        fs::write(folder.join(name).with_extension("tgi"), image)?;
    }
    let features = fs::read_to_string(repository.join("firmware-examples/expected/microbit.in"))?;
    let mut transcript = Transcript { features, text: String::new() };
    transcript.takes("first", &first, None, 1)?;
    transcript.takes("next", &next, Some(&a), 2)?;
    transcript.refuses("forged", &forged, &b, "the signature is not that of this image: it is damaged or forged")?;
    // The board is reset before the third one.
    transcript.takes("third", &third, Some(&b), 3)?;
    transcript.refuses("next", &next, &a, "the image has security counter 2, but at least 3 is required")?;
    Ok(fs::write(folder.join("updates.txt"), transcript.text)?)
}

impl Transcript {
    /// A transfer while another model runs; afterwards the new model runs.
    fn takes(&mut self, name: &str, image: &[u8], runs: Option<&[u8]>, counter: u32) -> Result<(), Box<dyn Error>> {
        self.hears(image, runs)?;
        let (bytes, id) = (grouped(image.len()), ImageBuffer::new(image).model()?.id().0);
        let state = format!("the device runs {id:016x}, confirmed, counter {counter}");
        Ok(writeln!(self.text, "{name}.tgi: {bytes} bytes sent; {state}")?)
    }

    /// A transfer that is refused; the running model continues.
    fn refuses(&mut self, name: &str, image: &[u8], runs: &[u8], reason: &str) -> Result<(), Box<dyn Error>> {
        self.hears(image, Some(runs))?;
        Ok(writeln!(self.text, "{name}.tgi is refused: {reason}")?)
    }

    /// The decisions of the running model, which hears a frame for every block of the transfer.
    fn hears(&mut self, sent: &[u8], runs: Option<&[u8]>) -> Result<(), Box<dyn Error>> {
        let Some(runs) = runs else { return Ok(()) };
        let image = ImageBuffer::new(runs);
        let model = image.model()?;
        let (mut memory, mut scratch) = (vec![0; model.state_words()], vec![0; model.scratch_words()]);
        let mut state = State::new(&model, &mut memory)?;
        let mut posteriors = vec![0; model.output_size()];
        let mut lines = self.features.lines().cycle();
        for _ in 0..sent.len().div_ceil(BLOCK_BYTES) {
            let frame = loop {
                let line = lines.next().unwrap_or_default();
                if line.len() == 4 * model.input_size() {
                    break line;
                }
                state.reset();
            };
            let digits = frame.as_bytes().chunks(4).map(str::from_utf8).collect::<Result<Vec<_>, _>>()?;
            let frame = digits.into_iter().map(|word| Ok(u16::from_str_radix(word, 16)?.cast_signed()));
            let frame = frame.collect::<Result<Vec<i16>, Box<dyn Error>>>()?;
            if model.step_i16(&mut state, &mut scratch, &frame, &mut posteriors)?.has_output() {
                let best = posteriors.iter().zip(model.labels()).max_by_key(|(posterior, _)| **posterior);
                write!(self.text, "{} ", best.map_or("", |(_, label)| label))?;
                posteriors.iter().try_for_each(|posterior| write!(self.text, "{posterior:04x}"))?;
                self.text.push('\n');
            }
        }
        Ok(())
    }
}
