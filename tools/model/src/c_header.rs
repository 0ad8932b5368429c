//! Header for C firmware: the constants that a program needs at compile time, and the image as an array.

use std::fmt::Write;

use tidegate::Model;

use crate::cadence::steps_per_output;

/// Writes sizes, labels and the declaration of the image, all prefixed with the name of the image.
pub fn header(name: &str, model: &Model<'_>, image_bytes: usize) -> String {
    let lower = identifier(name);
    let upper = lower.to_uppercase();
    let mut lines = vec![("MODEL_ID", format!("UINT64_C(0x{:016x})", model.id().0))];
    let mut size = |what, value: usize| lines.push((what, value.to_string()));
    size("IMAGE_BYTES", image_bytes);
    size("STATE_WORDS", model.state_words());
    size("SCRATCH_WORDS", model.scratch_words());
    size("SAVED_BYTES", model.saved_bytes());
    size("INPUT_SIZE", model.input_size());
    size("OUTPUT_SIZE", model.output_size());
    size("STEPS_PER_OUTPUT", steps_per_output(model));
    if let Some(front_end) = model.front_end() {
        size("FRONT_END_WORDS", front_end.memory_words());
        size("SAMPLE_RATE", front_end.settings().sample_rate as usize);
    }
    if let Some(detector) = model.detector() {
        size("DETECTOR_WORDS", detector.memory_words());
        size("DETECTOR_I16_WORDS", detector.integer_memory_words());
    }
    let labels: Vec<String> = model.labels().map(literal).collect();
    if !labels.is_empty() {
        size("LABEL_COUNT", labels.len());
        lines.push(("LABELS", format!("{{{}}}", labels.join(", "))));
    }
    let mut text = format!(
        "/* Written by `tidegate inspect --c-header` of an image in {}: what tidegate.h asks for. */\n\
         #ifndef {upper}_TGI_H\n#define {upper}_TGI_H\n\n#include <stdint.h>\n\n",
        model.numeric().name(),
    );
    for (what, value) in lines {
        writeln!(text, "#define {upper}_{what} {value}").expect("a String takes all");
    }
    text += &format!(
        "\n#ifdef __cplusplus\nextern \"C\"\n#else\nextern\n#endif\n\
         /* On a multiple of 16 bytes: from `tidegate inspect --c-array`, or .incbin after .balign 16. */\n\
         const uint8_t {lower}_image[{upper}_IMAGE_BYTES];\n\n#endif\n"
    );
    text
}

/// Writes the image as an array, for a toolchain without `.incbin`.
pub fn array(name: &str, image: &[u8]) -> String {
    let name = identifier(name);
    let mut text = format!(
        "/* Written by `tidegate inspect --c-array`. */\n#include \"tidegate.h\"\n\n\
         extern const uint8_t {name}_image[{len}];\nTIDEGATE_ALIGNED const uint8_t {name}_image[{len}] = {{\n",
        len = image.len()
    );
    for row in image.chunks(24) {
        for byte in row {
            write!(text, "{byte},").expect("a String takes all");
        }
        text.push('\n');
    }
    text + "};\n"
}

/// A C identifier made from a file name without its extension.
fn identifier(name: &str) -> String {
    let mut text: String = name
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '_' })
        .collect();
    if !text.starts_with(|first: char| first.is_ascii_alphabetic()) {
        text.insert_str(0, "model_");
    }
    text
}

/// A string literal. Three octal digits for a byte cannot merge with the next character.
fn literal(label: &str) -> String {
    let bytes = label.bytes().fold(String::new(), |mut text, byte| {
        match byte {
            // A question mark could begin a trigraph.
            b' '..=b'~' if !matches!(byte, b'"' | b'\\' | b'?') => text.push(char::from(byte)),
            _ => write!(text, "\\{byte:03o}").expect("a String takes all"),
        }
        text
    });
    format!("\"{bytes}\"")
}

#[cfg(test)]
mod tests {
    use super::{identifier, literal};

    #[test]
    fn names_and_labels_are_valid_in_c() {
        assert_eq!(identifier("Kws-2"), "kws_2");
        assert_eq!(identifier("2.kws"), "model_2_kws");
        assert_eq!(identifier("ja\u{df}"), "ja_");
        assert_eq!(identifier(""), "model_");
        assert_eq!(literal("say \"ja\"?\\"), r#""say \042ja\042\077\134""#);
        assert_eq!(literal("n\u{f6}1"), r#""n\303\2661""#);
    }
}
