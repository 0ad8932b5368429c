//! `sign`: an image with a signature.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::json;
use tidegate_model::load::{self, Settings};
use tidegate_model::output::write_atomically;
use tidegate_model::sign;
use tidegate_update::Signed;

use super::args::JsonArg;
use super::keys::{Key, parse_product, read, signer};
use super::{Failure, Outcome, check_kind, check_outputs, shown};
use tidegate_model::sign::hex;

/// Signs an image, for devices that require a signature
///
/// An earlier signature is replaced. The same image, key, counter and product always give the same signature. For a key in
/// a hardware security module, give the public key: --digest writes the message to sign with Ed25519, and --attach reads
/// the 64 bytes of the signature.
#[derive(clap::Args)]
#[command(after_help = "Examples, in the folder of `tidegate demo --keep .`, after `tidegate keygen key.pem`:
  tidegate sign gru_s.tgi --key key.pem --counter 1 -o signed.tgi
  tidegate sign gru_s.tgi --key key.pub.pem --counter 1 --digest gru_s.msg

A module then signs gru_s.msg, as OpenSSL does below, and `--attach gru_s.sig -o signed.tgi` takes the place of --digest:
  openssl pkeyutl -sign -rawin -inkey key.pem -in gru_s.msg -out gru_s.sig")]
#[command(group(clap::ArgGroup::new("to").required(true).args(["output", "digest"])))]
pub struct Args {
    /// The packed image
    image: PathBuf,
    /// Private key in PEM, or the public key with --digest and --attach
    #[arg(long, value_name = "KEY.pem")]
    key: PathBuf,
    /// Security counter: a device refuses an image with a lower one than it has confirmed
    #[arg(long, value_name = "N", default_value_t = 0)]
    counter: u32,
    /// Product id, 32 hexadecimal digits: the family of firmware that may run the image [default: zeros]
    #[arg(long, value_name = "HEX", value_parser = parse_product)]
    product: Option<[u8; 16]>,
    /// File to write the signed image to
    #[arg(long, short, value_name = "OUT")]
    output: Option<PathBuf>,
    /// File for the message that the key must sign; the image is not signed
    #[arg(long, value_name = "FILE", conflicts_with_all = ["attach", "output"])]
    digest: Option<PathBuf>,
    /// File with the signature of the message
    #[arg(long, value_name = "FILE")]
    attach: Option<PathBuf>,
    #[command(flatten)]
    json: JsonArg,
}

pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let file = &args.image;
    let inputs: Vec<&Path> =
        [Some(file), Some(&args.key), args.attach.as_ref()].into_iter().flatten().map(PathBuf::as_path).collect();
    check_outputs(&[args.digest.as_ref()], &inputs)?;
    // An image may be signed in place.
    check_outputs(&[args.output.as_ref()], &inputs[1..])?;
    check_kind("-o", args.output.as_ref(), "an image", &["tgi"])?;
    if !load::is_image(file)? {
        return Err(Failure::of(file, "is not an image: pack it first, `tidegate pack MODEL -o IMAGE`"));
    }
    let image = load::image(file, &Settings::default(), None)?;
    let key = Key::read(&args.key)?;
    let product = args.product.unwrap_or_default();
    let failed = |error| Failure::of(file, error);
    let prepared = || sign::prepare(image.bytes(), &key.public(), &product, args.counter).map_err(failed);
    if let Some(digest) = &args.digest {
        let message = sign::message(&prepared()?).map_err(failed)?;
        write_atomically(digest, |to| to.write_all(&message))?;
        let what = json!({ "digest": shown(digest), "message": hex(&message) });
        return report(args, out, what, &format!("{}: the message to sign", digest.display()));
    }
    let signed = match (&key, &args.attach) {
        (_, Some(file)) => {
            let wrong = || Failure::of(file, "has not 64 bytes: give the raw signature of Ed25519");
            let signature: [u8; 64] = read(file)?.try_into().map_err(|_| wrong())?;
            sign::attach(&prepared()?, &key.public(), &signature).map_err(|error| Failure::of(file, error))?
        }
        (Key::Secret(key), None) => key.sign(image.bytes(), &product, args.counter).map_err(failed)?,
        (Key::Public(_), None) => {
            let reason = "is the public key: give the private one, or --digest and then --attach";
            return Err(Failure::of(&args.key, reason));
        }
    };
    let output = args.output.as_deref().unwrap_or(Path::new(""));
    write_atomically(output, |to| to.write_all(&signed))?;
    let found = Signed::find(&signed).map_err(|error| Failure::of(output, error))?;
    let value = json!({
        "bytes": signed.len(), "counter": found.counter(), "key": found.key().to_string(), "output": shown(output),
        "product": hex(&found.product()),
    });
    report(args, out, value, &format!("{}: signed, {}", output.display(), signer(&found)))
}

fn report(args: &Args, out: &mut dyn Write, value: serde_json::Value, text: &str) -> Outcome {
    if args.json.json {
        writeln!(out, "{value}")?;
    } else {
        writeln!(out, "{text}")?;
    }
    Ok(())
}
