//! NVIDIA's libraries, loaded at run time. A missing library is an error value that names the files that were tried.
#![allow(unsafe_code)]

use libloading::Library;

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
            Self::Cudnn => "install cuDNN 9 and add its folder to LD_LIBRARY_PATH",
            Self::Nccl => "install NCCL 2.14 or later and add its folder to LD_LIBRARY_PATH",
        }
    }

    /// File names of the library in the order in which they are tried. Those of the driver are also tried by `cudarc`.
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

/// A library is not installed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot load any of {}; {}", .files.join(", "), .needed.advice())]
pub struct LibraryMissing {
    /// The library.
    pub needed: Needed,
    /// The files that were tried.
    pub files: Vec<String>,
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

/// Opens the first of these files that can be loaded. Returns the library and its file name.
pub(crate) fn open(needed: Needed, files: Vec<String>) -> Result<(Library, String), LibraryMissing> {
    for file in &files {
        // SAFETY: loading a library runs its initializers. NVIDIA's have no preconditions. A file with one of these
        // names on the loader's path is trusted to be NVIDIA's, as in every other program.
        if let Ok(library) = unsafe { Library::new(file) } {
            return Ok((library, file.clone()));
        }
    }
    Err(LibraryMissing { needed, files })
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
        let error = open(Needed::Cudnn, files).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot load any of libtidegate_none.so, libtidegate_none.so.9; install cuDNN 9 and add its folder to \
             LD_LIBRARY_PATH"
        );
    }

    /// Otherwise `cudarc` would panic on a machine where [`open`] has found the driver.
    #[test]
    fn cudarc_tries_the_same_names_for_the_driver() {
        let theirs: Vec<String> =
            ["cuda", "nvcuda"].iter().flat_map(|stem| cudarc::get_lib_name_candidates(stem)).collect();
        assert!(Needed::Driver.files().iter().all(|file| theirs.contains(file)), "{theirs:?}");
    }

    /// The C library loads, but has none of cuDNN's functions.
    #[test]
    #[cfg(target_os = "linux")]
    fn a_missing_function_is_named() {
        let (library, file) = open(Needed::Cudnn, vec!["libc.so.6".to_owned()]).unwrap();
        // SAFETY: the function is not called.
        let found = unsafe { symbol::<unsafe extern "C" fn()>(&library, &file, "cudnnCreate") };
        assert_eq!(
            found.unwrap_err().to_string(),
            "libc.so.6 has no function cudnnCreate: cuDNN 9 is required and, for several GPUs, NCCL 2.14"
        );
    }
}
