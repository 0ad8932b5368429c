//! CRC-32/ISO-HDLC from a table, in a loop without calls, because `const` evaluation limits the number of calls.

const POLYNOMIAL: u32 = 0xEDB8_8320;

/// Number of tables. Where 8 KiB of tables are affordable, eight bytes are processed at a time, each by its own table
/// (Kounavis and Berry 2008, "slicing by 8").
const SLICES: usize = if cfg!(target_pointer_width = "64") { 8 } else { 1 };

/// `TABLES[k][byte]` is the CRC of `byte` followed by `k` zero bytes.
static TABLES: [[u32; 256]; SLICES] = tables();

const fn tables() -> [[u32; 256]; SLICES] {
    let mut tables = [[0; 256]; SLICES];
    let mut index = 0;
    while index < 256 {
        let mut crc = index as u32;
        let mut slice = 0;
        while slice < SLICES {
            let mut bit = 0;
            while bit < 8 {
                crc = if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 };
                bit += 1;
            }
            tables[slice][index] = crc;
            slice += 1;
        }
        index += 1;
    }
    tables
}

/// A CRC in progress.
#[derive(Clone, Copy, Debug)]
pub struct Crc32(u32);

impl Crc32 {
    /// The CRC of no bytes.
    pub const NEW: Self = Self(u32::MAX);

    /// Appends `bytes`.
    pub const fn update(self, mut bytes: &[u8]) -> Self {
        let Self(mut crc) = self;
        #[cfg(target_pointer_width = "64")]
        while let [a, b, c, d, e, f, g, h, rest @ ..] = bytes {
            crc = TABLES[7][(crc as u8 ^ *a) as usize]
                ^ TABLES[6][((crc >> 8) as u8 ^ *b) as usize]
                ^ TABLES[5][((crc >> 16) as u8 ^ *c) as usize]
                ^ TABLES[4][((crc >> 24) as u8 ^ *d) as usize]
                ^ TABLES[3][*e as usize]
                ^ TABLES[2][*f as usize]
                ^ TABLES[1][*g as usize]
                ^ TABLES[0][*h as usize];
            bytes = rest;
        }
        while let [byte, rest @ ..] = bytes {
            crc = crc >> 8 ^ TABLES[0][(crc as u8 ^ *byte) as usize];
            bytes = rest;
        }
        Self(crc)
    }

    /// The checksum.
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
        assert_eq!(Crc32::NEW.update(b"123456789").finish(), 0xCBF4_3926);
    }

    #[test]
    fn bytes_at_once_and_one_by_one_give_the_same_checksum() {
        let bytes: [u8; 100] = core::array::from_fn(|index| (index * index) as u8);
        for len in 0..=bytes.len() {
            let one_by_one = bytes[..len].iter().fold(Crc32::NEW, |crc, byte| crc.update(core::slice::from_ref(byte)));
            assert_eq!(Crc32::NEW.update(&bytes[..len]).finish(), one_by_one.finish(), "{len} bytes");
        }
    }
}
