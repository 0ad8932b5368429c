//! Libraries that are found when the program runs. A machine without them is a machine like any other: what is missing
//! is an error value that says which files were looked for.
#![allow(unsafe_code)]

use libloading::Library;

use crate::status::GpuError;

/// What this crate calls of NVIDIA's, by the stems of the libraries' file names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needed {
    /// The driver, which comes with the graphics card.
    Driver,
    /// cuDNN, which finds cuBLAS by itself.
    Cudnn,
    /// NCCL, for several GPUs.
    Nccl,
}

impl Needed {
    /// What a person can do.
    const fn advice(self) -> &'static str {
        match self {
            Self::Driver => "install NVIDIA's driver, or train on the CPU",
            Self::Cudnn => "install cuDNN 9 and put its folder into LD_LIBRARY_PATH",
            Self::Nccl => "install NCCL 2.14 or later and put its folder into LD_LIBRARY_PATH",
        }
    }

    /// The file names that it may have, in the order in which they are tried. (The driver's are among those by which `cudarc`
    /// looks for it.)
    pub fn files(self) -> Vec<String> {
        let names: &[&str] = match (self, cfg!(windows)) {
            (Self::Driver, false) => &["libcuda.so.1", "libcuda.so"],
            (Self::Driver, true) => &["nvcuda.dll"],
            (Self::Cudnn, false) => &["libcudnn.so.9", "libcudnn.so"],
            (Self::Cudnn, true) => &["cudnn64_9.dll"],
            (Self::Nccl, false) => &["libnccl.so.2", "libnccl.so"],
            (Self::Nccl, true) => &["nccl.dll"],
        };
        names.iter().map(|&name| name.to_owned()).collect()
    }
}

/// A library that is not on this machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("none of these libraries can be loaded: {}; {}", .files.join(", "), .needed.advice())]
pub struct LibraryMissing {
    /// Which.
    pub needed: Needed,
    /// The files that were looked for.
    pub files: Vec<String>,
}

/// Opens the first of these files that there is, and says which.
///
/// # Errors
/// If there is none.
pub fn open(needed: Needed, files: Vec<String>) -> Result<(Library, String), LibraryMissing> {
    for file in &files {
        // SAFETY: loading a library runs its initializers. These are NVIDIA's, which have no preconditions; a file that
        // bears one of their names on the loader's path is trusted to be one, as by every other program here.
        if let Ok(library) = unsafe { Library::new(file) } {
            return Ok((library, file.clone()));
        }
    }
    Err(LibraryMissing { needed, files })
}

/// A function of a library.
///
/// # Safety
/// `F` must be the type of a function pointer, and that of the function `symbol`. It must not be called after
/// `library` is closed.
///
/// # Errors
/// If the library has no such function.
pub unsafe fn symbol<F: Copy>(library: &Library, file: &str, symbol: &'static str) -> Result<F, GpuError> {
    // SAFETY: the caller knows the type.
    match unsafe { library.get::<F>(symbol.as_bytes()) } {
        Ok(found) => Ok(*found),
        Err(_) => Err(GpuError::SymbolMissing { library: file.to_owned(), symbol }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_says_which_files_were_looked_for() {
        let files = ["libtidegate_none.so", "libtidegate_none.so.9"].map(str::to_owned).to_vec();
        let error = open(Needed::Cudnn, files).unwrap_err();
        assert_eq!(
            error.to_string(),
            "none of these libraries can be loaded: libtidegate_none.so, libtidegate_none.so.9; install cuDNN 9 and put \
             its folder into LD_LIBRARY_PATH"
        );
    }

    /// Else `cudarc` would panic where this has found the driver.
    #[test]
    fn cudarc_looks_for_the_driver_under_the_same_names() {
        let theirs: Vec<String> =
            ["cuda", "nvcuda"].iter().flat_map(|stem| cudarc::get_lib_name_candidates(stem)).collect();
        assert!(Needed::Driver.files().iter().all(|file| theirs.contains(file)), "{theirs:?}");
    }

    /// A library that is there but is another: the C library has none of cuDNN's functions.
    #[test]
    #[cfg(target_os = "linux")]
    fn a_library_without_a_function_says_which() {
        let (library, file) = open(Needed::Cudnn, vec!["libc.so.6".to_owned()]).unwrap();
        // SAFETY: it is not called.
        let found = unsafe { symbol::<unsafe extern "C" fn()>(&library, &file, "cudnnCreate") };
        assert_eq!(
            found.unwrap_err().to_string(),
            "libc.so.6 has no function cudnnCreate: cuDNN 9 and, for several GPUs, NCCL 2.14 are needed"
        );
    }
}
