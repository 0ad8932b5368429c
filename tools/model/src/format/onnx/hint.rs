//! Options to paste, with the names of the graph's own inputs.

use crate::data::one_line;

/// Lengths that are tried for an open dimension other than the first, which is the batch: some number of steps, then chunks
/// of sound.
pub(super) const LENGTHS: [usize; 8] = [100, 576, 512, 256, 1280, 1600, 4096, 16_000];

/// The known dimensions, 1 for an open batch and this length for other open dimensions.
pub(super) fn filled(dims: &[Option<usize>], length: usize) -> impl Iterator<Item = usize> {
    dims.iter().enumerate().map(move |(axis, dim)| dim.unwrap_or(if axis == 0 { 1 } else { length }))
}

/// `--shape audio=1,100,40`: the first of the lengths for open dimensions.
pub(super) fn shape(input: &str, dims: &[Option<usize>]) -> String {
    let dims: Vec<String> = filled(dims, LENGTHS[0]).map(|dim| dim.to_string()).collect();
    format!("--shape {}", quoted(&format!("{input}={}", dims.join(","))))
}

/// `--bind W=weights.safetensors`.
pub(super) fn bind(input: &str, value: &str) -> String {
    format!("--bind {}", quoted(&format!("{input}={value}")))
}

/// An argument, quoted for a shell if necessary.
fn quoted(argument: &str) -> String {
    let argument = one_line(argument);
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "=,._-/:+@".contains(c);
    if argument.chars().all(is_plain) { argument } else { format!("'{}'", argument.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_have_the_names_of_inputs_and_their_known_dimensions() {
        assert_eq!(shape("audio", &[None, None, Some(40)]), "--shape audio=1,100,40");
        assert_eq!(bind("the W's", "w.npy"), "--bind 'the W'\\''s=w.npy'");
    }
}
