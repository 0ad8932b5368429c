//! `verify-signature`: whether a device would trust an image.

use std::io::Write;
use std::path::PathBuf;

use serde_json::json;
use tidegate_model::load::ImageBuffer;
use tidegate_update::{Keys, Policy, Signed, TrustError, Trusted};

use super::args::JsonArg;
use super::keys::{Key, parse_product, read, signer};
use super::{Failure, Outcome};
use tidegate_model::sign::hex;

/// Verifies the signature of an image, as a device does
///
/// The exit code is 1 if a device with this key would refuse the image.
#[derive(clap::Args)]
#[command(after_help = "Example, after that of `tidegate sign`:
  tidegate verify-signature signed.tgi --key key.pub.pem --min-counter 1")]
pub struct Args {
    /// The signed image
    image: PathBuf,
    /// Public key in PEM
    #[arg(long, value_name = "KEY.pub.pem")]
    key: PathBuf,
    /// Lowest security counter: that of the device
    #[arg(long, value_name = "N", default_value_t = 0)]
    min_counter: u32,
    /// Product id of the device, 32 hexadecimal digits [default: that of the image]
    #[arg(long, value_name = "HEX", value_parser = parse_product)]
    product: Option<[u8; 16]>,
    #[command(flatten)]
    json: JsonArg,
}

pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let failed = |error| match error {
        TrustError::Unsigned => Failure::of(&args.image, format!("{error}: sign it with `tidegate sign`")),
        TrustError::Truncated { .. } => Failure::of(&args.image, format!("{error}: copy it again")),
        TrustError::OldCounter { .. } => {
            Failure::of(&args.image, format!("{error}: sign it again with --counter {} or more", args.min_counter))
        }
        TrustError::UnknownKey { .. } => {
            let advice = format!("{error}: give the --key that it is signed with, or sign it with the private one");
            Failure::of(&args.image, advice)
        }
        TrustError::WrongProduct { .. } => {
            Failure::of(&args.image, format!("{error}: sign it again with the --product of the device"))
        }
        TrustError::Image(_) => {
            Failure::of(&args.image, format!("{error}: give an image that `tidegate sign` has written"))
        }
        _ => Failure::of(&args.image, error),
    };
    let image = ImageBuffer::new(&read(&args.image)?);
    let root = Key::read(&args.key)?.public();
    let product = match args.product {
        Some(product) => product,
        None => Signed::find(image.bytes()).map_err(failed)?.product(),
    };
    let keys = Keys::new(root.as_bytes(), product).map_err(|error| Failure::of(&args.key, error))?;
    let policy = Policy { product, counter: args.min_counter };
    let trusted = Trusted::parse(image.bytes(), &keys, &policy).map_err(failed)?;
    let signed = trusted.signed();
    if args.json.json {
        let value = json!({
            "counter": signed.counter(), "key": signed.key().to_string(),
            "model_id": format!("{:016x}", trusted.model().id().0), "product": hex(&signed.product()),
        });
        writeln!(out, "{value}")?;
    } else {
        writeln!(out, "{}: the signature is valid, {}", args.image.display(), signer(signed))?;
    }
    Ok(())
}
