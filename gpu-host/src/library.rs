//! NVIDIA's libraries, loaded at run time by their full paths or from the system's folders, never from the current one.
//! A missing library is an error value that names the files that were tried.
#![allow(unsafe_code)]

use std::env;
use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use libloading::Library;

/// Variable with folders of NVIDIA's libraries, by full paths, separated as in `PATH`.
pub const FOLDERS: &str = "TIDEGATE_CUDA_PATH";
/// Variable with folders in which the loader looks before the system's, for our libraries and all that they need.
const SEARCHED: &str = "LD_LIBRARY_PATH";
/// Folders of the system, which only an administrator writes to.
const SYSTEM: [&str; 3] = ["/lib", "/lib64", "/usr"];

/// A library that this crate calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needed {
    /// CUDA's driver, which is installed with the graphics card.
    Driver,
    /// cuDNN, which loads cuBLAS itself.
    Cudnn,
    /// NCCL, for several GPUs.
    Nccl,
}

impl Needed {
    /// How to install the library.
    const fn advice(self) -> &'static str {
        match self {
            Self::Driver => "install NVIDIA's driver, or train on the CPU",
            Self::Cudnn => "install cuDNN 9, or set TIDEGATE_CUDA_PATH to its folder",
            Self::Nccl => "install NCCL 2.14 or later, or set TIDEGATE_CUDA_PATH to its folder",
        }
    }

    /// File names of the library in the order in which they are tried. Those of the driver are also tried by `cudarc`.
    fn files(self) -> &'static [&'static str] {
        match (self, cfg!(windows)) {
            (Self::Driver, false) => &["libcuda.so.1", "libcuda.so"],
            (Self::Driver, true) => &["nvcuda.dll"],
            (Self::Cudnn, false) => &["libcudnn.so.9", "libcudnn.so"],
            (Self::Cudnn, true) => &["cudnn64_9.dll"],
            (Self::Nccl, false) => &["libnccl.so.2", "libnccl.so"],
            (Self::Nccl, true) => &["nccl.dll"],
        }
    }
}

/// Why a library is not loaded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the error texts explain the variants and their fields")]
pub enum LibraryError {
    #[error("cannot load any of {}; {}", .files.join(", "), .needed.advice())]
    Missing { needed: Needed, files: Vec<String> },
    #[error("TIDEGATE_CUDA_PATH names {folder:?}: give the full path of a folder")]
    Named { folder: String },
    #[error(
        "LD_LIBRARY_PATH makes the loader look for CUDA in {folder:?}: remove it, or if you trust this folder, \
         name it by its full path in TIDEGATE_CUDA_PATH as well"
    )]
    Searched { folder: String },
}

/// A library lacks a function: it is too old or too new.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{library} has no function {symbol}: cuDNN 9 is required and, for several GPUs, NCCL 2.14")]
pub struct SymbolMissing {
    /// The file.
    pub library: String,
    /// The function.
    pub symbol: &'static str,
}

/// Opens a library, from a folder of [`FOLDERS`] or of the system. Returns its file name too.
pub(crate) fn open(needed: Needed) -> Result<(Library, String), LibraryError> {
    let [named, searched] = [FOLDERS, SEARCHED].map(|name| env::var_os(name).unwrap_or_default());
    open_first(needed, files(needed, &named, &searched)?)
}

/// The files of a library in the order in which they are tried: full paths in the folders `named`, then names that the
/// loader looks for in the system's folders. The loader looks in the folders `searched` first, so each of these must be
/// one of the folders `named` or of the system. An empty folder means the current one to the loader.
fn files(needed: Needed, named: &OsStr, searched: &OsStr) -> Result<Vec<String>, LibraryError> {
    let text = |folder: &Path| folder.to_string_lossy().into_owned();
    let is_full = |folder: &Path| folder.is_absolute() && folder.components().all(|part| part != Component::ParentDir);
    let named: Vec<PathBuf> = env::split_paths(named).filter(|folder| !folder.as_os_str().is_empty()).collect();
    if let Some(folder) = named.iter().find(|folder| !is_full(folder)) {
        return Err(LibraryError::Named { folder: text(folder) });
    }
    let is_known = |folder: &Path| {
        named.iter().any(|known| known == folder) || SYSTEM.iter().any(|system| folder.starts_with(system))
    };
    // The loader accepts both separators.
    let searched = searched.to_string_lossy();
    let mut folders = searched.split([':', ';']).map(Path::new).filter(|_| !searched.is_empty());
    if let Some(folder) = folders.find(|folder| !is_full(folder) || !is_known(folder)) {
        return Err(LibraryError::Searched { folder: text(folder) });
    }
    let in_named = named.iter().flat_map(|folder| needed.files().iter().map(|file| text(&folder.join(file))));
    Ok(in_named.chain(needed.files().iter().map(|&file| file.to_owned())).collect())
}

/// Opens the first of these files that can be loaded. Returns the library and its file name.
pub(crate) fn open_first(needed: Needed, files: Vec<String>) -> Result<(Library, String), LibraryError> {
    for file in &files {
        // SAFETY: loading a library runs its initializers. NVIDIA's have no preconditions. A file with one of these
        // names in a folder that the user or the administrator has chosen is trusted to be NVIDIA's.
        if let Ok(library) = unsafe { Library::new(file) } {
            return Ok((library, file.clone()));
        }
    }
    Err(LibraryError::Missing { needed, files })
}

/// Finds a function of a library.
///
/// # Safety
/// `F` must be the function pointer type of the function `symbol`. The function must not be called after `library` is
/// closed.
pub(crate) unsafe fn symbol<F: Copy>(library: &Library, file: &str, symbol: &'static str) -> Result<F, SymbolMissing> {
    // SAFETY: the caller guarantees the type.
    match unsafe { library.get::<F>(symbol.as_bytes()) } {
        Ok(found) => Ok(*found),
        Err(_) => Err(SymbolMissing { library: file.to_owned(), symbol }),
    }
}

/// Declares functions of a library: a struct of pointers with the functions' names, and how to load them all.
macro_rules! functions {
    ($(#[$doc:meta])* struct $name:ident; $(fn $symbol:ident($($arg:ident: $type:ty),* $(,)?) -> $result:ty;)*) => {
        $(#[$doc])*
        #[expect(non_snake_case, reason = "the names are those of the C header")]
        struct $name {
            $($symbol: unsafe extern "C" fn($($arg: $type),*) -> $result,)*
        }

        impl $name {
            /// # Safety
            /// The types must be those of the library's header. No function must be called after `library` is closed.
            unsafe fn load(library: &libloading::Library, file: &str) -> Result<Self, $crate::library::SymbolMissing> {
                // SAFETY: the caller guarantees the types.
                unsafe { Ok(Self { $($symbol: $crate::library::symbol(library, file, stringify!($symbol))?,)* }) }
            }
        }
    };
}
pub(crate) use functions;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_names_the_files_that_were_tried() {
        let files = ["libtidegate_none.so", "libtidegate_none.so.9"].map(str::to_owned).to_vec();
        let error = open_first(Needed::Cudnn, files).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot load any of libtidegate_none.so, libtidegate_none.so.9; install cuDNN 9, or set \
             TIDEGATE_CUDA_PATH to its folder"
        );
    }

    #[test]
    #[cfg(unix)]
    fn libraries_come_from_named_folders_and_those_of_the_system() {
        let files = |named: &str, searched: &str| {
            files(Needed::Cudnn, named.as_ref(), searched.as_ref()).map_err(|error| error.to_string())
        };
        let system = ["libcudnn.so.9", "libcudnn.so"].map(str::to_owned).to_vec();
        assert_eq!(files("", ""), Ok(system.clone()));
        let named = ["/a/libcudnn.so.9", "/a/libcudnn.so", "/b c/libcudnn.so.9", "/b c/libcudnn.so"].map(str::to_owned);
        assert_eq!(files("/a:/b c:", ""), Ok([&named[..], &system].concat()));
        // The loader looks only where libraries are expected anyway.
        for searched in ["/usr/local/cuda/lib64:/usr/lib", "/lib/x86_64-linux-gnu", "/a", "/a/", "/b c;/a:/usr/lib64"] {
            assert!(files("/a:/b c", searched).is_ok(), "{searched}");
        }
        for (searched, folder) in [
            (":", ""),
            ("/usr/lib:", ""),
            (":/usr/lib", ""),
            ("/usr/lib::/lib", ""),
            (".", "."),
            ("lib", "lib"),
            ("/a/b", "/a/b"),
            ("/a:/tmp", "/tmp"),
            ("/a;/tmp", "/tmp"),
            ("/usrlib", "/usrlib"),
            ("/usr/../tmp", "/usr/../tmp"),
            ("$ORIGIN", "$ORIGIN"),
            ("$ORIGIN/../lib", "$ORIGIN/../lib"),
        ] {
            let error = files("/a", searched).unwrap_err();
            let needed = format!("LD_LIBRARY_PATH makes the loader look for CUDA in {folder:?}: ");
            assert!(error.starts_with(&needed), "{error}");
        }
        for folder in [".", "lib", "/a/../b"] {
            let needed = format!("TIDEGATE_CUDA_PATH names {folder:?}: give the full path of a folder");
            assert_eq!(files(folder, ""), Err(needed));
        }
    }

    /// With other names, `cudarc` would panic on a machine where [`open`] has found the driver.
    #[test]
    fn cudarc_tries_the_same_names_for_the_driver() {
        let theirs: Vec<String> =
            ["cuda", "nvcuda"].iter().flat_map(|stem| cudarc::get_lib_name_candidates(stem)).collect();
        assert!(Needed::Driver.files().iter().all(|&file| theirs.iter().any(|known| known == file)), "{theirs:?}");
    }

    /// The C library loads, but has none of cuDNN's functions.
    #[test]
    #[cfg(target_os = "linux")]
    fn a_missing_function_is_named() {
        let (library, file) = open_first(Needed::Cudnn, vec!["libc.so.6".to_owned()]).unwrap();
        // SAFETY: the function is not called.
        let found = unsafe { symbol::<unsafe extern "C" fn()>(&library, &file, "cudnnCreate") };
        assert_eq!(
            found.unwrap_err().to_string(),
            "libc.so.6 has no function cudnnCreate: cuDNN 9 is required and, for several GPUs, NCCL 2.14"
        );
    }
}
