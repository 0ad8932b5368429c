//! CRC-32/ISO-HDLC by table, in a loop without a call: the compiler counts those in a `const` evaluation.

const POLYNOMIAL: u32 = 0xEDB8_8320;

static TABLE: [u32; 256] = table();

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut index = 0;
    while index < table.len() {
        let mut crc = index as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        table[index] = crc;
        index += 1;
    }
    table
}

/// A CRC under way.
#[derive(Clone, Copy)]
pub struct Crc32(u32);

impl Crc32 {
    pub const NEW: Self = Self(u32::MAX);

    /// The same with `bytes` added.
    pub const fn update(self, mut bytes: &[u8]) -> Self {
        let Self(mut crc) = self;
        while let [byte, rest @ ..] = bytes {
            crc = crc >> 8 ^ TABLE[((crc ^ *byte as u32) & 0xFF) as usize];
            bytes = rest;
        }
        Self(crc)
    }

    pub const fn finish(self) -> u32 {
        !self.0
    }
}

#[cfg(test)]
mod tests {
    use super::Crc32;

    #[test]
    fn the_check_value_of_the_catalog_comes_out() {
        assert_eq!(Crc32::NEW.update(b"1234").update(b"56789").finish(), 0xCBF4_3926);
    }
}
