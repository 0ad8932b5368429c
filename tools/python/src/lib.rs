//! The module `tidegate._native`: what Python calls. Arguments and results are plain; the package `tidegate` around it
//! has the classes for users.

mod arrays;
mod compared;
mod error;
mod image;
mod interrupt;
mod learnt;
mod loaded;
mod model;
mod settings;
mod stream;

use pyo3::prelude::*;

#[pymodule]
mod _native {
    use pyo3::prelude::*;

    #[pymodule_export]
    use super::compared::verify;
    #[pymodule_export]
    use super::image::{Image, load_image};
    #[pymodule_export]
    use super::learnt::Learnt;
    #[pymodule_export]
    use super::model::{Model, import_bytes, import_file};
    #[pymodule_export]
    use super::stream::Stream;

    /// Sets the memory that reading a file may take, in MiB, as `--memory` does.
    ///
    /// >>> import tidegate
    /// >>> tidegate.allow_memory(1024)
    #[pyfunction]
    fn allow_memory(mib: u64) {
        tidegate_model::budget::allow(mib << 20);
    }

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        tidegate_model::data::hide_guarded_panics();
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
