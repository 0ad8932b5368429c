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
    /// cuDNN.
    Cudnn,
    /// cuBLAS, for dense layers.
    Cublas,
    /// The run-time compiler, for what has no library.
    Nvrtc,
    /// NCCL, for several GPUs.
    Nccl,
}

impl Needed {
    /// All that one GPU needs.
    pub const ALL: [Self; 4] = [Self::Driver, Self::Cudnn, Self::Cublas, Self::Nvrtc];

    /// Stems of its file name; Windows has other names than Linux.
    const fn stems(self) -> &'static [&'static str] {
        match self {
            Self::Driver => &["cuda", "nvcuda"],
            Self::Cudnn => &["cudnn"],
            Self::Cublas => &["cublas"],
            Self::Nvrtc => &["nvrtc"],
            Self::Nccl => &["nccl"],
        }
    }

    /// What a person can do.
    const fn advice(self) -> &'static str {
        match self {
            Self::Driver => "install NVIDIA's driver, or train on the CPU",
            Self::Cudnn => "install cuDNN 9 and put its folder into LD_LIBRARY_PATH",
            Self::Nccl => "install NCCL 2 and put its folder into LD_LIBRARY_PATH",
            Self::Cublas | Self::Nvrtc => "install the CUDA toolkit and put its lib folder into LD_LIBRARY_PATH",
        }
    }

    /// Every file name that it may have, in the order in which they are tried, each once.
    pub fn files(self) -> Vec<String> {
        // `cudarc` does not know the number of NCCL's.
        let mut files = if self == Self::Nccl { vec!["libnccl.so.2".to_owned()] } else { Vec::new() };
        for file in self.stems().iter().flat_map(|stem| cudarc::get_lib_name_candidates(stem)) {
            if !files.contains(&file) {
                files.push(file);
            }
        }
        files
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

/// Whether everything is there that a GPU needs. After this, `cudarc` finds its libraries: it panics where it does not.
///
/// # Errors
/// The first library that is missing.
pub fn probe() -> Result<(), LibraryMissing> {
    Needed::ALL.into_iter().try_for_each(|needed| open(needed, needed.files()).map(drop))
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

    #[test]
    fn the_names_are_those_of_nvidia() {
        let has = |needed: Needed, file: &str| needed.files().iter().any(|known| known == file);
        if cfg!(target_os = "linux") {
            assert!(has(Needed::Driver, "libcuda.so.1"));
            assert!(has(Needed::Cudnn, "libcudnn.so.9"));
            assert!(has(Needed::Cublas, "libcublas.so.12"));
            assert!(has(Needed::Nvrtc, "libnvrtc.so.12"));
        }
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
            "libc.so.6 has no function cudnnCreate: cuDNN 9 and, for several GPUs, NCCL 2 are needed"
        );
    }

    #[test]
    fn a_probe_finds_all_or_says_what_is_missing() {
        match probe() {
            Ok(()) => println!("all libraries are here"),
            Err(missing) => {
                println!("SKIP no GPU: {missing}");
                assert_eq!(missing.files, missing.needed.files());
            }
        }
    }
}
