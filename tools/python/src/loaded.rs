//! An image that is ready to run.

use std::path::Path;

use self_cell::self_cell;
use tidegate_model::backend::{Engine, check_memory};
use tidegate_model::budget::TooCostly;
use tidegate_model::data::DataError;
use tidegate_model::load::{ImageBuffer, LoadError};

self_cell!(
    /// An image, and the engine that runs it.
    pub struct Loaded {
        owner: ImageBuffer,
        #[not_covariant]
        dependent: Engine,
    }
);

impl Loaded {
    /// Prepares an image for this machine.
    ///
    /// # Errors
    /// If it is not valid, or there is no memory to run it.
    pub fn prepare(image: ImageBuffer, name: &str) -> Result<Self, LoadError> {
        let path = Path::new(name);
        Self::try_new(image, |image| {
            let model = image.model().map_err(|source| LoadError::Image { path: path.to_owned(), source })?;
            check_memory(&model).map_err(|error| DataError::new(path, format!("{error}; {}", TooCostly::ADVICE)))?;
            Ok(Engine::fused(&model))
        })
    }

    /// The bytes of the image.
    pub fn bytes(&self) -> &[u8] {
        self.borrow_owner().bytes()
    }

    /// Calls a function with the engine.
    pub fn with<T>(&self, call: impl FnOnce(&Engine<'_>) -> T) -> T {
        self.with_dependent(|_, engine| call(engine))
    }
}
