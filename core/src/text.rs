//! Error messages that the compiler can print: a panic in a `const` accepts one string, and no format arguments.

/// Bytes of the longest message.
const CAPACITY: usize = 256;
/// Significant digits of a float.
const DIGITS: u32 = 6;

/// The end of a message about floats in a build without a library for them.
pub(crate) const NEEDS_FLOATS: &str = "needs the cargo feature `libm` or `micromath` of the crate `tidegate`";

/// A message, built piece by piece and truncated to [`CAPACITY`].
#[derive(Clone, Copy)]
pub(crate) struct Text {
    bytes: [u8; CAPACITY],
    len: usize,
}

impl Text {
    pub const NEW: Self = Self { bytes: [0; CAPACITY], len: 0 };

    pub const fn text(mut self, text: &str) -> Self {
        let mut rest = text.as_bytes();
        while let [byte, others @ ..] = rest {
            self = self.byte(*byte);
            rest = others;
        }
        self
    }

    /// Adds `template` with the next of `numbers` in place of each `{}`.
    pub const fn with(mut self, template: &str, mut numbers: &[usize]) -> Self {
        let mut rest = template.as_bytes();
        while let [byte, others @ ..] = rest {
            if let (b'{', [b'}', behind @ ..], [number, later @ ..]) = (*byte, others, numbers) {
                self = self.number(*number);
                (rest, numbers) = (behind, later);
            } else {
                self = self.byte(*byte);
                rest = others;
            }
        }
        self
    }

    const fn byte(mut self, byte: u8) -> Self {
        if self.len < CAPACITY {
            self.bytes[self.len] = byte;
            self.len += 1;
        }
        self
    }

    pub const fn number(self, number: usize) -> Self {
        self.count(number as u64)
    }

    pub const fn count(self, number: u64) -> Self {
        self.digits(number, 10, 1)
    }

    /// Eight hexadecimal digits.
    pub const fn hex(self, number: u32) -> Self {
        self.digits(number as u64, 16, 8)
    }

    /// Two hexadecimal digits per byte.
    pub const fn hex_bytes(self, [a, b, c, d]: [u8; 4]) -> Self {
        let text = self.digits(a as u64, 16, 2).text(" ").digits(b as u64, 16, 2).text(" ");
        text.digits(c as u64, 16, 2).text(" ").digits(d as u64, 16, 2)
    }

    /// A number in a base up to 16, with at least `least` digits.
    const fn digits(mut self, number: u64, base: u64, least: u32) -> Self {
        let mut place = 1;
        let mut count = 1;
        while number / place >= base || count < least {
            place *= base;
            count += 1;
        }
        while place > 0 {
            let digit = (number / place % base) as u8;
            self = self.byte(if digit < 10 { b'0' + digit } else { b'a' + digit - 10 });
            place /= base;
        }
        self
    }

    /// A float, rounded to [`DIGITS`] digits, in scientific notation if it is very large or small.
    pub const fn float(self, value: f32) -> Self {
        if value.is_nan() {
            return self.text("NaN");
        }
        let text = if value < 0.0 { self.text("-") } else { self };
        let mut value = (value as f64).abs();
        if value == 0.0 {
            return text.text("0");
        }
        if value.is_infinite() {
            return text.text("inf");
        }
        let mut exponent: i32 = 0;
        while value >= 10.0 {
            value /= 10.0;
            exponent += 1;
        }
        while value < 1.0 {
            value *= 10.0;
            exponent -= 1;
        }
        let mut scale = 10_u64.pow(DIGITS - 1);
        let mut digits = (value * scale as f64 + 0.5) as u64;
        if digits >= 10 * scale {
            // Rounded up to one more digit.
            digits /= 10;
            exponent += 1;
        }
        if -4 <= exponent && exponent < 0 {
            scale *= 10_u64.pow(exponent.unsigned_abs());
        } else if 0 <= exponent && exponent < DIGITS as i32 {
            scale /= 10_u64.pow(exponent as u32);
        }
        let text = text.digits(digits / scale, 10, 1);
        digits %= scale;
        let mut text = if digits > 0 { text.text(".") } else { text };
        while digits > 0 {
            digits *= 10;
            text = text.digits(digits / scale, 10, 1);
            digits %= scale;
        }
        match exponent {
            -4..6 => text,
            ..-4 => text.text("e-").number(exponent.unsigned_abs() as usize),
            _ => text.text("e").number(exponent as usize),
        }
    }

    pub const fn as_str(&self) -> &str {
        let (text, _) = self.bytes.split_at(self.len);
        match core::str::from_utf8(text) {
            Ok(text) => text,
            // The capacity ends within a character.
            Err(error) => match core::str::from_utf8(text.split_at(error.valid_up_to()).0) {
                Ok(text) => text,
                Err(_) => "",
            },
        }
    }
}

/// `Display` and `Error` for an error whose `text` is its message.
macro_rules! error_of_text {
    ($error:ty) => {
        impl core::fmt::Display for $error {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str(self.text().as_str())
            }
        }

        impl core::error::Error for $error {}
    };
}
pub(crate) use error_of_text;

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::ToString;

    use super::{CAPACITY, Text};

    #[test]
    fn numbers_are_written_as_the_standard_library_writes_them() {
        for number in [0, 1, 9, 10, 99, 100, 4_294_967_295, usize::MAX] {
            assert_eq!(Text::NEW.number(number).as_str(), number.to_string());
            assert_eq!(Text::NEW.hex(number as u32).as_str(), std::format!("{:08x}", number as u32));
        }
        assert_eq!(Text::NEW.hex_bytes([0x54, 0x0A, 0, 0xFF]).as_str(), "54 0a 00 ff");
        for (value, text) in [
            (0.0, "0"),
            (1.0, "1"),
            (-0.5, "-0.5"),
            (0.1, "0.1"),
            (20.0, "20"),
            (4000.0, "4000"),
            (123456.0, "123456"),
            (0.000_123_456, "0.000123456"),
            (1e-12, "1e-12"),
            (3.25e20, "3.25e20"),
            (9.999_999_7, "10"),
            (999_999.94, "1e6"),
            (f32::NAN, "NaN"),
            (f32::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(Text::NEW.float(value).as_str(), text);
        }
    }

    #[test]
    fn a_message_that_is_too_long_ends_at_a_whole_character() {
        let text = Text::NEW.text(&"ä".repeat(CAPACITY)).text("b");
        assert_eq!(text.as_str(), "ä".repeat(CAPACITY / 2));
        assert_eq!(Text::NEW.text("a").text(&"ä".repeat(CAPACITY)).as_str().len(), CAPACITY - 1);
    }
}
