//! The text in images: labels and the names of nodes and ports. It is printed to terminals, so it contains no control
//! characters and none that change the direction of text.

/// A word that holds `byte` eight times.
const fn all(byte: u8) -> u64 {
    u64::from_le_bytes([byte; 8])
}

/// Offset of the first byte that is not allowed in text: not UTF-8, a control character other than a line feed in
/// `lines`, or a character that changes the direction of text.
pub(crate) const fn first_refused(text: &[u8], lines: bool) -> Option<usize> {
    let (mut rest, feeds) = (text, if lines { u64::MAX } else { 0 });
    while !rest.is_empty() {
        let (bytes, others) = match rest {
            [a, b, c, d, e, f, g, h, others @ ..] => ([*a, *b, *c, *d, *e, *f, *g, *h], others),
            [a, others @ ..] => ([*a, b' ', b' ', b' ', b' ', b' ', b' ', b' '], others),
            [] => break,
        };
        let word = u64::from_le_bytes(bytes);
        // The high bit of each byte says whether a refused character may begin there. Few other characters begin with the
        // last three bytes that are tested. No sum carries into the next byte.
        let low = word & all(0x7F);
        let control = !((low + all(0x60)) | word) & !(is_byte(word, b'\n') & feeds);
        let mut may_begin = (control | (low + all(1)) & !word) & all(0x80);
        may_begin |= is_byte(word, 0xC2) | is_byte(word, 0xD8) | is_byte(word, 0xE2);
        while may_begin != 0 {
            let Some((_, from)) = rest.split_at_checked(may_begin.trailing_zeros() as usize / 8) else { break };
            if begins_unseen(from) {
                return Some(text.len() - from.len());
            }
            may_begin &= may_begin - 1;
        }
        rest = others;
    }
    match core::str::from_utf8(text) {
        Ok(_) => None,
        Err(error) => Some(error.valid_up_to()),
    }
}

/// The high bit of each byte of `word` that equals `byte`.
const fn is_byte(word: u64, byte: u8) -> u64 {
    let other = word ^ all(byte);
    !(((other & all(0x7F)) + all(0x7F)) | other) & all(0x80)
}

/// Whether UTF-8 text begins with a control character or with one that changes the direction of text.
const fn begins_unseen(text: &[u8]) -> bool {
    matches!(
        text,
        [0..b' ' | 0x7F, ..]
            | [0xC2, 0x80..=0x9F, ..]
            | [0xD8, 0x9C, ..]
            | [0xE2, 0x80, 0x8E | 0x8F | 0xAA..=0xAE, ..]
            | [0xE2, 0x81, 0xA6..=0xA9, ..]
    )
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::format;

    use super::first_refused;

    #[test]
    fn every_character_is_refused_if_it_controls_the_terminal_or_the_direction_and_no_other() {
        let direction =
            ['\u{61c}'..='\u{61c}', '\u{200e}'..='\u{200f}', '\u{202a}'..='\u{202e}', '\u{2066}'..='\u{2069}'];
        for c in '\0'..=char::MAX {
            let refused = c.is_control() || direction.iter().any(|range| range.contains(&c));
            // Nothing above is refused, so one place will do.
            let places = if c < '\u{3000}' { 4 } else { 1 };
            for before in &["", "\u{f6}", "\u{4e00}\u{f6}\u{e2}", "12345678"][..places] {
                let (text, at) = (format!("{before}{c}\u{4e00}1234567"), Some(before.len()));
                assert_eq!(first_refused(text.as_bytes(), false), at.filter(|_| refused), "{text:?}");
                assert_eq!(first_refused(text.as_bytes(), true), at.filter(|_| refused && c != '\n'), "{text:?}");
            }
        }
        assert_eq!(first_refused(b"ab\xFF", false), Some(2));
        assert_eq!(first_refused(b"ab\xC2", false), Some(2));
    }
}
