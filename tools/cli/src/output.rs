//! Files that are there whole or not at all.

use std::{
    fs,
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

use crate::data::DataError;

/// A file that is written but does not have its name yet. Dropped, it leaves nothing.
#[derive(Debug)]
#[must_use]
pub struct Pending {
    path: PathBuf,
    /// The file and what it will be called; none for a device, which has its bytes already.
    file: Option<(tempfile::NamedTempFile, PathBuf)>,
}

impl Pending {
    /// Gives the file its name.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn keep(self) -> Result<(), DataError> {
        match self.file {
            Some((file, target)) => {
                file.persist(target).map_err(|e| DataError::io(&self.path, "written", e.error)).map(drop)
            }
            None => Ok(()),
        }
    }
}

/// Writes a file through `fill`: into a temporary one in the same folder, which takes its name at the end. When
/// anything fails, what was there before is still there. The mode is what any new file gets. Devices and pipes
/// (`/dev/stdout`) are written straight.
///
/// # Errors
/// If the folder does not exist or cannot be written to, `path` is a folder, or `fill` fails.
pub fn write_atomically(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), DataError> {
    prepare(path, fill)?.keep()
}

/// [`write_atomically`] up to the name: of several files, all can be written before any is there.
///
/// # Errors
/// As [`write_atomically`].
pub fn prepare(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<Pending, DataError> {
    prepare_file(path, |file| {
        let mut out = BufWriter::new(file);
        fill(&mut out).and_then(|()| out.flush()).map_err(|e| DataError::io(path, "written", e))
    })
}

/// [`prepare`] where `fill` goes back in the file, or has errors of its own.
///
/// # Errors
/// As [`write_atomically`].
pub fn prepare_file<E: From<DataError>>(
    path: &Path,
    fill: impl FnOnce(&mut fs::File) -> Result<(), E>,
) -> Result<Pending, E> {
    let failed = |e| DataError::io(path, "written", e);
    // A link stays a link: its target is replaced.
    let target = match fs::metadata(path) {
        Ok(found) if found.is_dir() => return Err(DataError::new(path, "is a folder; a file name is wanted").into()),
        Ok(found) if found.is_file() => fs::canonicalize(path).map_err(failed)?,
        Ok(_) => {
            let mut out = fs::File::options().write(true).open(path).map_err(failed)?;
            fill(&mut out)?;
            return Ok(Pending { path: path.to_owned(), file: None });
        }
        Err(_) => path.to_owned(),
    };
    let folder = match target.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    };
    if folder.exists() && !folder.is_dir() {
        let reason = format!("{} is a file, not a folder; give another path", folder.display());
        return Err(DataError::new(path, reason).into());
    }
    if !folder.is_dir() {
        let folder = folder.display();
        let reason = format!("there is no folder {folder}: make it with `mkdir -p {folder}`");
        return Err(DataError::new(path, reason).into());
    }
    // The temporary file's own name would only puzzle.
    let mut file = temporary(&folder).map_err(|e| {
        let reason = format!("the folder {} cannot be written to: {}; give another path", folder.display(), e.kind());
        DataError::new(path, reason)
    })?;
    fill(file.as_file_mut())?;
    file.as_file().sync_all().map_err(failed)?;
    Ok(Pending { path: path.to_owned(), file: Some((file, target)) })
}

fn temporary(folder: &Path) -> io::Result<tempfile::NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".tidegate-");
    // The crate's own 0600 would stay on the file; 0666 less the umask is what any program's file gets.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.tempfile_in(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_leaves_what_was_there() {
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
        std::os::unix::fs::symlink(&plain, &link).unwrap();
        write_atomically(&link, |out| out.write_all(b"new")).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&plain).unwrap(), b"new");
    }
}
