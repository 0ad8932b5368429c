//! Imports and packs a model inside a browser, like `tidegate pack`: from the bytes of its files to the bytes of an image.
//! `tools/web/package/importer.js` calls these functions.
//!
//! A request and its answer have the same form: the length of a header in four bytes, little-endian, the header in JSON,
//! and the contents of files, one after the other. The header of a request is a [`Header`]; that of an answer is
//! `{"numeric", "report", "notes", "warnings"}` before the image, or `{"error"}`.

mod options;

use std::cell::RefCell;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};
use tidegate::Numeric;
use tidegate_model::load;
use tidegate_model::packing::{NOISE, Packer, Source};
use tidegate_model::progress::Silent;
use tidegate_model::quantize::{Report, StandIn};

use options::Options;

/// Why a model is not in integers by itself.
const IN_FLOATS: &str = "in f32, because integers need calibration data, which `tidegate pack` takes";

#[derive(Deserialize)]
struct Header {
    /// The model first. A second file is its description: an architecture, or a wake word of ESPHome.
    files: Vec<File>,
    options: Options,
}

#[derive(Deserialize)]
struct File {
    name: String,
    len: usize,
}

thread_local! {
    /// The request, and later its answer.
    static MESSAGE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Makes room for a request of `len` bytes, and returns its address.
#[allow(unsafe_code, reason = "JavaScript finds the function by its name")]
#[unsafe(no_mangle)]
pub extern "C" fn tidegate_importer_request(len: usize) -> *mut u8 {
    MESSAGE.with_borrow_mut(|message| {
        *message = vec![0; len];
        message.as_mut_ptr()
    })
}

/// Replaces the request by its answer, and returns the length of the answer.
#[allow(unsafe_code, reason = "JavaScript finds the function by its name")]
#[unsafe(no_mangle)]
pub extern "C" fn tidegate_importer_pack() -> usize {
    MESSAGE.with_borrow_mut(|message| {
        *message = answer(message);
        message.len()
    })
}

/// Returns the address of the answer.
#[allow(unsafe_code, reason = "JavaScript finds the function by its name")]
#[unsafe(no_mangle)]
pub extern "C" fn tidegate_importer_answer() -> *const u8 {
    MESSAGE.with_borrow(Vec::as_ptr)
}

fn answer(request: &[u8]) -> Vec<u8> {
    let (header, image) = packed(request).unwrap_or_else(|error| (json!({ "error": error }), Vec::new()));
    let header = header.to_string();
    [&(header.len() as u32).to_le_bytes(), header.as_bytes(), &image].concat()
}

/// The header of the answer, and the image.
fn packed(request: &[u8]) -> Result<(Value, Vec<u8>), String> {
    let cut = || "the request is cut off".to_owned();
    let (len, rest) = request.split_first_chunk().ok_or_else(cut)?;
    let (header, mut rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize).ok_or_else(cut)?;
    let Header { files, options } = serde_json::from_slice(header).map_err(|error| error.to_string())?;
    let mut contents = Vec::new();
    for file in &files {
        let content;
        (content, rest) = rest.split_at_checked(file.len).ok_or_else(cut)?;
        contents.push(content);
    }
    let (name, model) = match (&files[..], &contents[..]) {
        ([file, ..], [model]) | ([file, _], [model, _]) => (&file.name, *model),
        _ => return Err("give a model, and at most one description of it".to_owned()),
    };
    let on_noise = options.calibrates_on_noise()?;
    let source = if on_noise { Source::File(Path::new(NOISE)) } else { Source::Nothing };
    let (settings, mut packing) = options.settings()?;
    let loaded = load::canonical_bytes(model, name, contents.get(1).copied(), &settings);
    let loaded = loaded.map_err(|error| error.to_string())?;
    let mut notes: Vec<String> = loaded.lines().collect();
    let packer = Packer { model: &loaded.model, file: Path::new(name), progress: &Silent };
    let needs_data = packer.numeric(&packing).needs_ranges() && StandIn::of(packer.model) == StandIn::Noise;
    if packing.numeric.is_none() && needs_data && !on_noise {
        packing.numeric = Some(Numeric::F32);
        notes.push(IN_FLOATS.to_owned());
    }
    let (image, measured) = packer.pack(&packing, source, None).map_err(|error| error.to_string())?;
    let report = measured.as_ref().map(|measured| measured.report(&loaded.model, [name, "", ""]));
    if let Some(measured) = &measured {
        notes.push(format!("calibrated on {}", measured.source));
        notes.extend_from_slice(&measured.notes);
    }
    let header = json!({
        "numeric": packer.numeric(&packing).name(),
        "notes": notes,
        "report": report.as_ref().map(Report::text),
        "warnings": report.map_or_else(Vec::new, |report| report.warnings()),
    });
    Ok((header, image.bytes().to_vec()))
}
