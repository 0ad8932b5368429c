//! Including images that the compiler has checked.

use crate::image::{Aligned, ImageBytes};
use crate::model::Model;
use crate::text::Text;

/// Includes an image file as a [`Model`] that the compiler has checked.
///
/// The bytes become an aligned `static` and stay in flash. An image that this build cannot run is a compile error with
/// the reason, such as a wrong checksum, an unsupported format version, or a layout that needs a disabled cargo
/// feature. The path is relative to the source file, as for [`include_bytes!`], and may be a macro:
/// `include_model!(concat!(env!("OUT_DIR"), "/kws.tgi"))`.
///
/// ```
/// use tidegate::{Model, Runner};
///
/// const MODEL: Model = tidegate::include_model!("../examples/kws.tgi");
///
/// let mut runner = Runner::new(&MODEL, [0; MODEL.runner_words()])?;
/// for frame in [[0.5, -1.0], [1.0, 0.25], [0.0, 0.0]] {
///     if let Some(posteriors) = runner.step(&frame)? {
///         assert_eq!(posteriors.len(), MODEL.output_size());
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[macro_export]
macro_rules! include_model {
    ($path:expr $(,)?) => {{
        // A `static`: a `const` would be copied into every use of the model.
        static IMAGE: &$crate::Aligned<[u8]> = &$crate::Aligned(*::core::include_bytes!($path));
        #[allow(long_running_const_eval)]
        const MODEL: $crate::Model<'static> = $crate::internals::include::model(IMAGE, $path);
        MODEL
    }};
}

/// The model of an included image.
///
/// # Panics
/// If the image is refused. The message names the file and the reason.
pub const fn model(image: &'static Aligned<[u8]>, path: &str) -> Model<'static> {
    match Model::parse(ImageBytes::from_aligned(image)) {
        Ok(model) => model,
        Err(error) => panic!("{}", Text::NEW.text(file_name(path)).text(": ").text(error.text().as_str()).as_str()),
    }
}

const fn file_name(path: &str) -> &str {
    let (_, mut name) = path.split_at(0);
    let mut at = path.len();
    while at > 0 {
        at -= 1;
        if matches!(path.as_bytes()[at], b'/' | b'\\') {
            (_, name) = path.split_at(at + 1);
            break;
        }
    }
    name
}
