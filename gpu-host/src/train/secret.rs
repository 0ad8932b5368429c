//! The secret that the processes of a training share. It is never sent: it keys the authentication of every message.

use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use super::error::WorldError;

/// The environment variable that holds the secret.
pub(super) const VARIABLE: &str = "TIDEGATE_SECRET";
/// Accepted lengths. A short secret can be guessed from a recorded greeting.
const LENGTHS: RangeInclusive<usize> = 16..=4096;

/// A secret of at least 16 bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl Secret {
    /// The secret in a file, otherwise the one in the variable, otherwise none. White space around it is ignored.
    pub(super) fn of(file: Option<&Path>, variable: Option<String>) -> Result<Option<Self>, WorldError> {
        let (text, from) = match (file, variable) {
            (Some(path), _) => {
                let unreadable = |source| WorldError::SecretFile { path: path.to_owned(), what: "read", source };
                (fs::read(path).map_err(unreadable)?, path.display().to_string())
            }
            (None, Some(text)) => (text.into_bytes(), VARIABLE.to_owned()),
            (None, None) => return Ok(None),
        };
        let text = text.trim_ascii();
        match LENGTHS.contains(&text.len()) {
            true => Ok(Some(Self(text.to_owned()))),
            false => Err(WorldError::SecretLength { from, found: text.len() }),
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// A secret of the tests and fuzz targets.
    pub(super) fn fixed(text: &str) -> Self {
        Self(text.as_bytes().to_owned())
    }
}

/// 32 random bytes of the operating system.
pub(super) fn random() -> io::Result<[u8; 32]> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(bytes)
}

/// A random secret in a file that only this user can read, for processes of one machine. Rank 0 writes the file, the
/// others read it, and rank 0 deletes it when all have joined.
pub(super) struct SecretFile(PathBuf);

impl SecretFile {
    /// The file that belongs to a checkpoint: all processes have the same command, and so the same path.
    pub(super) fn path(checkpoint: &Path) -> PathBuf {
        checkpoint.with_added_extension("secret")
    }

    /// Writes a new secret and returns it.
    pub(super) fn write(path: PathBuf) -> Result<(Self, Secret), WorldError> {
        let made = || {
            let text: String = random()?.iter().map(|byte| format!("{byte:02x}")).collect();
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            // Temporary files are created with mode 0600.
            let mut file = tempfile::Builder::new().prefix(".tidegate-").tempfile_in(folder)?;
            file.write_all(text.as_bytes())?;
            file.persist(&path)?;
            Ok(Secret(text.into_bytes()))
        };
        match made() {
            Ok(secret) => Ok((Self(path), secret)),
            Err(source) => Err(WorldError::SecretFile { path, what: "written", source }),
        }
    }

    /// Reads the secret that rank 0 has written.
    pub(super) fn read(path: &Path) -> io::Result<Secret> {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        #[cfg(unix)]
        if std::os::unix::fs::PermissionsExt::mode(&fs::metadata(path).map_err(named)?.permissions()) & 0o077 != 0 {
            return Err(named(io::Error::other("other users can read it")));
        }
        let text = fs::read(path).map_err(named)?;
        if text.len() == 64 { Ok(Secret(text)) } else { Err(named(io::Error::other("it is not a secret of rank 0"))) }
    }
}

impl Drop for SecretFile {
    fn drop(&mut self) {
        // If it stays, it is a secret that no process uses any more.
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_comes_from_a_file_or_a_variable_and_is_long_enough() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("secret");
        fs::write(&file, "0123456789abcdef\n").unwrap();
        let of = |file: Option<&Path>, text: Option<&str>| Secret::of(file, text.map(str::to_owned));
        assert_eq!(of(None, None).unwrap(), None);
        assert_eq!(of(None, Some(" 0123456789abcdef ")).unwrap(), of(Some(&file), Some("short")).unwrap());
        assert_eq!(
            of(None, Some("0123456789abcde ")).unwrap_err().to_string(),
            "the secret in TIDEGATE_SECRET has 15 bytes, but must have 16 to 4096: make one with `openssl rand -hex 32`"
        );
        fs::write(&file, [b'a'; 4097]).unwrap();
        assert!(of(Some(&file), None).unwrap_err().to_string().contains("has 4097 bytes"));
        let error = of(Some(&folder.path().join("none")), None).unwrap_err().to_string();
        assert!(error.contains("none: cannot be read"), "{error}");
        assert_eq!(format!("{:?}", Secret::fixed("visible")), "Secret");
    }

    #[test]
    fn the_secret_of_one_machine_is_for_this_user_and_gone_afterwards() {
        let folder = tempfile::tempdir().unwrap();
        let path = SecretFile::path(&folder.path().join("model.checkpoint"));
        assert!(path.ends_with("model.checkpoint.secret"));
        fs::write(&path, "of an earlier training").unwrap();
        assert!(SecretFile::read(&path).is_err());
        let (file, secret) = SecretFile::write(path.clone()).unwrap();
        assert_eq!(SecretFile::read(&path).unwrap(), secret);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
            fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
            assert!(SecretFile::read(&path).unwrap_err().to_string().ends_with("other users can read it"));
        }
        drop(file);
        assert!(!path.exists());
        let error = SecretFile::write(folder.path().join("none/model.secret")).err().unwrap().to_string();
        assert!(error.contains("model.secret: cannot be written"), "{error}");
    }
}
