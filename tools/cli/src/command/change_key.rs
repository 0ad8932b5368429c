//! `change-key`: a record that makes another key the signing key.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::json;
use tidegate_model::output::write_atomically;
use tidegate_model::sign::hex;
use tidegate_update::KeyChange;

use super::args::JsonArg;
use super::keys::{Key, parse_product};
use super::{Failure, Outcome, check_kind, check_outputs, shown};

/// Signs a change of the signing key, for devices that hold the root key
///
/// A device that has received the record accepts images signed with the new key, and refuses further updates signed with
/// the key that it replaces.
#[derive(clap::Args)]
#[command(after_help = "Examples, after `tidegate keygen root.pem` and `tidegate keygen key.pem`:
  tidegate change-key key.pub.pem --root root.pem --serial 1 -o change.tgk")]
pub struct Args {
    /// The new key, public or private, in PEM
    key: PathBuf,
    /// The private root key, whose public key the firmware holds
    #[arg(long, value_name = "ROOT.pem")]
    root: PathBuf,
    /// Serial number: a device refuses one that is not above the last
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    serial: u32,
    /// Product id, 32 hexadecimal digits [default: zeros]
    #[arg(long, value_name = "HEX", value_parser = parse_product)]
    product: Option<[u8; 16]>,
    /// File to write the record of 128 bytes to
    #[arg(long, short, value_name = "OUT")]
    output: PathBuf,
    #[command(flatten)]
    json: JsonArg,
}

pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let inputs: [&Path; 2] = [&args.key, &args.root];
    check_outputs(&[Some(&args.output)], &inputs)?;
    check_kind("-o", Some(&args.output), "a record", &["tgk"])?;
    let new = Key::read(&args.key)?.public();
    let Key::Secret(root) = Key::read(&args.root)? else {
        return Err(Failure::of(&args.root, "is a public key: give the private root key"));
    };
    if root.public() == new {
        return Err(Failure::of(&args.key, "is the root key, which signs images without a change: give another key"));
    }
    let product = args.product.unwrap_or_default();
    let change = root.sign_change(&KeyChange::new(args.serial, product, new.as_bytes()))?;
    write_atomically(&args.output, |to| to.write_all(change.as_bytes()))?;
    let (key, root) = (new.id().to_string(), root.public().id().to_string());
    if args.json.json {
        let value = json!({
            "key": key, "output": shown(&args.output), "product": hex(&product), "root": root, "serial": args.serial,
        });
        writeln!(out, "{value}")?;
    } else {
        writeln!(out, "{}: change {} to key {key}, signed by root key {root}", args.output.display(), args.serial)?;
    }
    Ok(())
}
