//! Atomic output files: complete or absent.

use std::{
    fs,
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

use crate::data::error::DataError;

/// Mode of new files, before the operating system applies the umask.
const USUAL: u32 = 0o666;
/// The mode of files that only their owner may read.
const SECRET: u32 = 0o600;

/// A written file that does not have its final name yet. Dropping it deletes the file.
#[derive(Debug)]
#[must_use]
pub struct Pending {
    path: PathBuf,
    target: Target,
}

#[derive(Debug)]
enum Target {
    /// A device or pipe is written directly.
    Device(fs::File),
    /// The file and its final path.
    File(tempfile::NamedTempFile, PathBuf),
}

impl Pending {
    /// Renames the file to its final name.
    ///
    /// # Errors
    /// If the file cannot be renamed.
    pub fn keep(self) -> Result<(), DataError> {
        match self.target {
            Target::Device(_) => Ok(()),
            Target::File(file, target) => {
                file.persist(&target).map_err(|e| DataError::io(&self.path, "written", e.error))?;
                sync_folder(&target).map_err(|e| DataError::io(&self.path, "written", e))
            }
        }
    }

    /// Creates the file beside its final path, with the permissions of `mode`.
    fn open(path: &Path, mode: u32) -> Result<Self, DataError> {
        let failed = |e| DataError::io(path, "written", e);
        // A link stays a link: its target is replaced.
        let target = match fs::metadata(path) {
            Ok(found) if found.is_dir() => return Err(DataError::new(path, "is a folder, but a file name is needed")),
            Ok(found) if found.is_file() => fs::canonicalize(path).map_err(failed)?,
            Ok(_) => {
                let device = fs::File::options().write(true).open(path).map_err(failed)?;
                return Ok(Self { path: path.to_owned(), target: Target::Device(device) });
            }
            Err(_) => path.to_owned(),
        };
        let folder = match target.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
            _ => PathBuf::from("."),
        };
        let shown = folder.display();
        if !folder.is_dir() {
            let reason = match folder.exists() {
                true => format!("{shown} is a file, not a folder; give another path"),
                false => format!("there is no folder {shown}: make it with `mkdir -p {shown}`"),
            };
            return Err(DataError::new(path, reason));
        }
        // The name of the temporary file would be confusing in the message.
        let refused =
            |e: io::Error| format!("the folder {shown} cannot be written to: {}; give another path", e.kind());
        let file = temporary(&folder, mode).map_err(|e| DataError::new(path, refused(e)))?;
        Ok(Self { path: path.to_owned(), target: Target::File(file, target) })
    }
}

/// Writes a file atomically: `fill` writes to a temporary file in the same folder, which is renamed at the end. If
/// anything fails, an existing file is unchanged. The mode is that of any new file. Devices and pipes (`/dev/stdout`)
/// are written directly.
///
/// # Errors
/// If the folder does not exist or is not writable, `path` is a folder, or `fill` fails.
pub fn write_atomically(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), DataError> {
    prepare(path, fill)?.keep()
}

/// Writes a file as [`write_atomically`] does, but does not rename it yet. Several files can thus be written before any
/// of them appears. The errors are the same.
pub fn prepare(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<Pending, DataError> {
    prepare_file(path, buffered(path, fill))
}

/// Like [`prepare`], for a secret: only the owner may read the file.
///
/// # Errors
/// As [`prepare`].
pub fn prepare_secret(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<Pending, DataError> {
    fill_file(Pending::open(path, SECRET)?, path, buffered(path, fill))
}

/// Writes through a buffer.
fn buffered(
    path: &Path,
    fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> impl FnOnce(&mut fs::File) -> Result<(), DataError> {
    move |file| {
        let mut out = BufWriter::new(file);
        fill(&mut out).and_then(|()| out.flush()).map_err(|e| DataError::io(path, "written", e))
    }
}

/// Like [`prepare`], for a `fill` that seeks in the file or has its own error type.
pub fn prepare_file<E: From<DataError>>(
    path: &Path,
    fill: impl FnOnce(&mut fs::File) -> Result<(), E>,
) -> Result<Pending, E> {
    fill_file(Pending::open(path, USUAL)?, path, fill)
}

fn fill_file<E: From<DataError>>(
    mut pending: Pending,
    path: &Path,
    fill: impl FnOnce(&mut fs::File) -> Result<(), E>,
) -> Result<Pending, E> {
    match &mut pending.target {
        Target::Device(file) => fill(file)?,
        Target::File(file, _) => {
            fill(file.as_file_mut())?;
            file.as_file().sync_all().map_err(|e| DataError::io(path, "written", e))?;
        }
    }
    Ok(pending)
}

/// Syncs the folder of a file, so that the file's name survives a power cut.
fn sync_folder(file: &Path) -> io::Result<()> {
    // Other systems have no handles of folders.
    if !cfg!(unix) {
        return Ok(());
    }
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match fs::File::open(folder)?.sync_all() {
        // Some file systems cannot sync folders.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        synced => synced,
    }
}

fn temporary(folder: &Path, mode: u32) -> io::Result<tempfile::NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".tidegate-");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(mode));
    #[cfg(not(unix))]
    let _ = mode;
    builder.tempfile_in(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_leaves_the_old_file_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.bin");
        write_atomically(&path, |out| out.write_all(b"old")).unwrap();
        let error = write_atomically(&path, |out| {
            out.write_all(b"half")?;
            Err(io::Error::other("lost power"))
        });
        assert!(error.unwrap_err().to_string().ends_with("a.bin: cannot be written: lost power"));
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_pending_file_is_there_when_it_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let [kept, dropped] = ["kept", "dropped"].map(|name| folder.path().join(name));
        let pending = prepare(&kept, |out| out.write_all(b"x")).unwrap();
        drop(prepare(&dropped, |out| out.write_all(b"x")).unwrap());
        assert!(!kept.exists());
        pending.keep().unwrap();
        assert_eq!(fs::read(&kept).unwrap(), b"x");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn unwritable_paths_say_why() {
        let folder = tempfile::tempdir().unwrap();
        let error = |path: &Path| write_atomically(path, |_| Ok(())).unwrap_err().to_string();
        assert!(error(folder.path()).contains("is a folder"));
        assert!(error(&folder.path().join("no/x.npy")).contains("mkdir -p"));
        write_atomically(Path::new("/dev/null"), |out| out.write_all(b"x")).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn the_mode_is_that_of_any_new_file_and_links_stay() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let [plain, ours, link] = ["plain", "ours", "link"].map(|name| folder.path().join(name));
        fs::write(&plain, b"").unwrap();
        write_atomically(&ours, |_| Ok(())).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(&ours), mode(&plain));
        let secret = folder.path().join("secret");
        prepare_secret(&secret, |out| out.write_all(b"x")).unwrap().keep().unwrap();
        assert_eq!(mode(&secret) & 0o777, 0o600);
        std::os::unix::fs::symlink(&plain, &link).unwrap();
        write_atomically(&link, |out| out.write_all(b"new")).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&plain).unwrap(), b"new");
    }
}
