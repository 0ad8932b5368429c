//! Memory for an image.

use tidegate::internals::image::field::ALIGNMENT;
use tidegate::{ImageBytes, ImageError, Model};

/// An image in memory, aligned to 16 bytes.
#[derive(Debug)]
pub struct ImageBuffer {
    bytes: Vec<u8>,
    start: usize,
}

impl ImageBuffer {
    /// Copies `image`, which is not parsed yet.
    pub fn new(image: &[u8]) -> Self {
        let mut bytes = vec![0; image.len() + ALIGNMENT];
        let start = bytes.as_ptr().addr().next_multiple_of(ALIGNMENT) - bytes.as_ptr().addr();
        bytes[start..start + image.len()].copy_from_slice(image);
        bytes.truncate(start + image.len());
        Self { bytes, start }
    }

    /// The bytes of the image.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// Parses the image.
    ///
    /// # Errors
    /// If it is not valid.
    pub fn model(&self) -> Result<Model<'_>, ImageError> {
        Model::parse(ImageBytes::new(self.bytes()).expect("the buffer starts on a multiple of 16"))
    }
}
