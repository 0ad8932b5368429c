//! `flash`: sends a signed image to a device.

mod link;
#[cfg_attr(not(unix), path = "flash/no_port.rs")]
mod port;

use std::io::Write;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::json;
use tidegate_model::load::ImageBuffer;
use tidegate_tools::grouped;
use tidegate_tools::progress::bar;
use tidegate_update::wire::{About, Answer, BLOCK_BYTES, Request, VERSION};
use tidegate_update::{Phase, Signed, TrustError, sha512};

use super::args::JsonArg;
use super::keys::read;
use super::{Failure, Outcome, shown};
use link::Link;

/// Time between two requests for the result of the device's test of its new model.
const PAUSE: Duration = Duration::from_millis(100);

/// Sends a signed image to a device over a serial port
///
/// The firmware answers with `Session` of the crate tidegate-update. The device verifies the image, runs it on trial, tests
/// it, and keeps it or goes back. After an interruption, the same command continues the transfer.
#[derive(clap::Args)]
#[command(after_help = "Example, after that of `tidegate sign`, with a device at its port:
  tidegate flash signed.tgi --port /dev/ttyACM0")]
pub struct Args {
    /// The signed image
    image: PathBuf,
    /// Serial port, or the Unix socket of an emulator
    #[arg(long, value_name = "PATH")]
    port: PathBuf,
    /// Baud rate of a serial port
    #[arg(long, value_name = "RATE", default_value_t = 115_200)]
    baud: u32,
    /// Maximum time to wait for an answer; a device takes seconds to erase its flash and to verify an image
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
    #[command(flatten)]
    json: JsonArg,
}

pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let image = ImageBuffer::new(&read(&args.image)?);
    let advice = |error| format!("{error}: pack the model and sign the image first");
    let model = image.model().map_err(|error| Failure::of(&args.image, advice(error)))?.id().0;
    let signed = Signed::find(image.bytes()).map_err(|error| match error {
        TrustError::Unsigned => Failure::of(&args.image, format!("{error}: sign it with `tidegate sign`")),
        _ => Failure::of(&args.image, error),
    })?;
    // A device takes nothing after the end of the image.
    let bytes = &image.bytes()[..signed.image_bytes()];
    let mut link = Link::open(&args.port, args.baud, Duration::from_secs(args.timeout))?;
    let mut notes = Vec::new();
    // Texts for a person appear when they arrive; programs get them at the end.
    let done = {
        let mut note = |text: &str| {
            if args.json.json {
                notes.push(text.to_owned());
                return Ok(());
            }
            writeln!(out, "{}", text.escape_default())
        };
        let mut sender = Sender { link: &mut link, note: &mut note };
        sender.send(bytes).and_then(|resumed_at| Ok((resumed_at, sender.switch(model)?)))
    };
    let (resumed_at, about) = done?;
    let (count, counter, confirmed) = (bytes.len(), about.counter, about.phase != Phase::Trial);
    if args.json.json {
        let value = json!({
            "bytes": count, "confirmed": confirmed, "counter": counter, "image": shown(&args.image),
            "model_id": format!("{model:016x}"), "notes": notes, "port": shown(&args.port), "resumed_at": resumed_at,
        });
        writeln!(out, "{value}")?;
    } else {
        let state = if confirmed { "confirmed" } else { "on trial" };
        let (image, count) = (args.image.display(), grouped(count));
        writeln!(out, "{image}: {count} bytes sent; the device runs {model:016x}, {state}, counter {counter}")?;
    }
    Ok(())
}

/// Sends requests and prints notes.
struct Sender<'a> {
    link: &'a mut Link,
    note: &'a mut dyn FnMut(&str) -> std::io::Result<()>,
}

impl Sender<'_> {
    fn ask(&mut self, request: Request<'_>) -> Result<Answer<'static>, Failure> {
        self.link.ask(request, self.note)
    }

    /// The answer of a request that the device should carry out.
    fn carry_out(&mut self, request: Request<'_>) -> Result<Answer<'static>, Failure> {
        match self.ask(request)? {
            Answer::Refused(refusal) => Err(self.link.failed(format!("the device refuses the image: {refusal}"))),
            answer => Ok(answer),
        }
    }

    fn about(&mut self) -> Result<About, Failure> {
        match self.ask(Request::Hello)? {
            Answer::About(about) if about.version == VERSION => Ok(about),
            Answer::About(About { version, .. }) => {
                let versions = format!("its firmware speaks version {version} of the protocol, not {VERSION}");
                Err(self.link.failed(format!("{versions}: use the program of its release")))
            }
            _ => Err(self.link.confused()),
        }
    }

    /// Sends the whole image, and lets the device verify it. Returns the byte at which an earlier transfer was resumed.
    fn send(&mut self, image: &[u8]) -> Result<usize, Failure> {
        let phase = self.about()?.phase;
        let resumed_at = match phase {
            Phase::Receiving => self.resume(image)?,
            _ => None,
        };
        let start = match resumed_at {
            Some(start) => start,
            None => match self.carry_out(Request::Begin { len: image.len() as u32 })? {
                Answer::Received { received: 0, .. } => 0,
                _ => return Err(self.link.confused()),
            },
        };
        let progress = bar(image.len() as u64, "sending");
        progress.advance(start as u64);
        let mut at = start;
        while at < image.len() {
            let bytes = &image[at..image.len().min(at + BLOCK_BYTES)];
            match self.carry_out(Request::Block { at: at as u32, bytes })? {
                Answer::Taken { received } if received as usize == at + bytes.len() => at += bytes.len(),
                _ => return Err(self.link.confused()),
            }
            progress.advance(bytes.len() as u64);
        }
        match self.carry_out(Request::Finish)? {
            Answer::Done => Ok(resumed_at.unwrap_or(0)),
            _ => Err(self.link.confused()),
        }
    }

    /// The byte at which the transfer of this image continues, if the device has begun to receive it.
    fn resume(&mut self, image: &[u8]) -> Result<Option<usize>, Failure> {
        let Answer::Received { len, received, digest } = self.ask(Request::Resume)? else { return Ok(None) };
        let there = image.get(..received as usize).filter(|_| len as usize == image.len());
        Ok(there.filter(|there| sha512(there) == digest).map(<[u8]>::len))
    }

    /// Lets the verified image run, and waits until the device has tested it.
    fn switch(&mut self, model: u64) -> Result<About, Failure> {
        self.carry_out(Request::Run)?;
        let start = Instant::now();
        loop {
            let about = self.about()?;
            let waits = about.phase == Phase::Pending || (about.phase == Phase::Trial && about.model == model);
            if waits && start.elapsed() < self.link.patience() {
                sleep(PAUSE);
                continue;
            }
            if about.model != model {
                let reason = "the model did not pass its test on the device, which runs the one before again";
                return Err(self.link.failed(reason));
            }
            return Ok(about);
        }
    }
}
