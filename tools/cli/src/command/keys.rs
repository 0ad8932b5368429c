//! Files of keys and of signatures, and arguments of the commands that read them.

use std::path::{Path, PathBuf};

use tidegate_model::canonical::{MAX_FILE_BYTES, read_bounded};
use tidegate_model::data::DataError;
use tidegate_model::sign::{self, SecretKey, hex};
use tidegate_update::{PublicKey, Signed};

use super::Failure;

/// The private or the public key in a PEM file.
pub enum Key {
    Secret(SecretKey),
    Public(PublicKey),
}

impl Key {
    /// Reads a key.
    pub fn read(file: &Path) -> Result<Self, Failure> {
        let pem = read(file)?;
        let pem = String::from_utf8_lossy(&pem);
        if !pem.contains("PUBLIC KEY") && !pem.contains("PRIVATE KEY") {
            return Err(Failure::of(file, "is no key in PEM: give one that `tidegate keygen` has written"));
        }
        let failed = |error| Failure::of(file, error);
        if pem.contains("PUBLIC KEY") {
            return sign::public_from_pem(&pem).map(Self::Public).map_err(failed);
        }
        SecretKey::from_pem(&pem).map(Self::Secret).map_err(failed)
    }

    /// The public key.
    pub fn public(&self) -> PublicKey {
        match self {
            Self::Secret(key) => key.public(),
            Self::Public(key) => *key,
        }
    }
}

/// The bytes of a file.
pub fn read(file: &Path) -> Result<Vec<u8>, Failure> {
    let bytes = read_bounded(file).map_err(|error| DataError::io(file, "read", error))?;
    bytes.ok_or_else(|| Failure::of(file, format!("is longer than {MAX_FILE_BYTES} bytes: give another file")))
}

/// The file of the public key beside `KEY.pem`: `KEY.pub.pem`.
pub fn public_file(file: &Path) -> PathBuf {
    file.with_extension("pub.pem")
}

/// A product id on the command line.
pub fn parse_product(text: &str) -> Result<[u8; 16], String> {
    let digits = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    match u128::from_str_radix(text, 16) {
        Ok(number) if digits => Ok(number.to_be_bytes()),
        _ => Err("write 32 hexadecimal digits: the 16 bytes of the product id".to_owned()),
    }
}

/// `key 0123456789abcdef, counter 1, product 00000000000000000000000000000000`
pub fn signer(signed: &Signed<'_>) -> String {
    format!("key {}, counter {}, product {}", signed.key(), signed.counter(), hex(&signed.product()))
}
