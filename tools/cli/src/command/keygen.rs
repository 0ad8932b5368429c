//! `keygen`: a key pair that signs images.

use std::io::Write;
use std::path::PathBuf;

use serde_json::json;
use tidegate_model::output::{prepare, prepare_secret};
use tidegate_model::sign::{SecretKey, public_to_pem};

use super::args::JsonArg;
use super::keys::public_file;
use super::{Failure, Outcome, shown};
use tidegate_model::sign::hex;

/// Makes a key pair that signs images
///
/// Writes the private key as PKCS#8, which openssl can read, to a file that only its owner may read. Writes the public key
/// beside it as KEY.pub.pem, and prints its 32 bytes for the firmware.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  tidegate keygen key.pem
  tidegate keygen root.pem")]
pub struct Args {
    /// File to write the private key to
    key: PathBuf,
    #[command(flatten)]
    json: JsonArg,
}

pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let (secret, public) = (&args.key, public_file(&args.key));
    if secret.to_string_lossy().ends_with(".pub.pem") {
        let other = secret.with_extension("").with_extension("pem");
        let reason = format!("is the name of a public key, which may be shared: give {}", other.display());
        return Err(Failure::of(secret, reason));
    }
    if let Some(there) = [secret, &public].into_iter().find(|file| file.exists()) {
        return Err(Failure::of(there, "exists, and a key that is overwritten is lost: give another name"));
    }
    let key = SecretKey::generate()?;
    let secret_file = prepare_secret(secret, |file| file.write_all(key.to_pem().as_bytes()))?;
    let public_file = prepare(&public, |file| file.write_all(public_to_pem(&key.public()).as_bytes()))?;
    secret_file.keep()?;
    public_file.keep()?;
    let (id, bytes) = (key.public().id().to_string(), hex(key.public().as_bytes()));
    if args.json.json {
        let value = json!({ "key": id, "private": shown(secret), "public": shown(&public), "public_key": bytes });
        writeln!(out, "{value}")?;
        return Ok(());
    }
    writeln!(out, "{}: the private key {id}; keep it secret, and keep a copy", secret.display())?;
    writeln!(out, "{}: the public key {bytes}", public.display())?;
    Ok(())
}
