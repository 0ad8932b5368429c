//! The code and the constants that functions of a linked program need, from the relocations that the linker keeps with
//! `--emit-relocs`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::Path;

use object::elf::{
    R_ARM_ABS32, R_ARM_THM_JUMP24, R_ARM_THM_MOVT_ABS, R_ARM_THM_MOVW_ABS_NC, R_ARM_THM_PC22, R_RISCV_32, R_RISCV_CALL,
    R_RISCV_CALL_PLT, R_RISCV_HI20, R_RISCV_JAL, R_RISCV_PCREL_HI20,
};
use object::{
    Architecture, Object, ObjectSection, ObjectSymbol, RelocationFlags, RelocationTarget, SectionKind, SymbolKind,
};

use crate::Failure;
use crate::shell::about;

/// A function or a constant.
struct Symbol {
    name: String,
    address: u64,
    bytes: u64,
    /// The symbols that it refers to.
    needs: BTreeSet<usize>,
}

/// The functions and constants of a program.
pub struct Program {
    /// By address.
    symbols: Vec<Symbol>,
}

impl Program {
    /// Reads a program.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let bytes = fs::read(path).map_err(about(path))?;
        let elf = object::File::parse(bytes.as_slice()).map_err(about(path))?;
        let is_arm = elf.architecture() == Architecture::Arm;
        let places =
            elf.sections().filter(|section| matches!(section.kind(), SectionKind::Text | SectionKind::ReadOnlyData));
        let places: HashMap<_, _> = places.map(|section| (section.index(), section.kind())).collect();
        let mut symbols = BTreeMap::new();
        for symbol in elf.symbols().filter(|symbol| symbol.size() > 0) {
            let Some(kind) = symbol.section_index().and_then(|index| places.get(&index)) else { continue };
            // In Thumb code, the lowest bit of a function's address is not part of the address: it selects the instruction set.
            let address = symbol.address() & if is_arm && *kind == SectionKind::Text { !1 } else { !0 };
            let name = symbol.name().unwrap_or_default().to_owned();
            symbols.insert(address, Symbol { name, address, bytes: symbol.size(), needs: BTreeSet::new() });
        }
        let mut program = Self { symbols: symbols.into_values().collect() };
        let mut relocations = 0;
        for section in elf.sections().filter(|section| places.contains_key(&section.index())) {
            let data = section.data().map_err(about(path))?;
            // The lower halves of addresses by their register.
            let mut low = [0; 16];
            for (place, relocation) in section.relocations() {
                relocations += 1;
                let RelocationFlags::Elf { r_type } = relocation.flags() else { continue };
                let RelocationTarget::Symbol(index) = relocation.target() else { continue };
                let symbol = elf.symbol_by_index(index).map_err(about(path))?;
                let at = place.wrapping_sub(section.address()) as usize;
                let word = data.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |&bytes| u32::from_le_bytes(bytes));
                let target = match (is_arm, r_type) {
                    (true, R_ARM_ABS32) => u64::from(word),
                    (true, R_ARM_THM_PC22 | R_ARM_THM_JUMP24) if symbol.kind() != SymbolKind::Section => {
                        symbol.address()
                    }
                    (true, R_ARM_THM_MOVW_ABS_NC) => {
                        let (register, half) = half(word);
                        low[register] = half;
                        continue;
                    }
                    (true, R_ARM_THM_MOVT_ABS) => {
                        let (register, half) = half(word);
                        u64::from(half << 16 | low[register])
                    }
                    (
                        false,
                        R_RISCV_32 | R_RISCV_CALL | R_RISCV_CALL_PLT | R_RISCV_HI20 | R_RISCV_JAL | R_RISCV_PCREL_HI20,
                    ) => symbol.address().wrapping_add_signed(relocation.addend()),
                    _ => continue,
                };
                let target = if is_arm { target & !1 } else { target };
                if let (Some(from), Some(to)) = (program.at(place), program.at(target)) {
                    program.symbols[from].needs.insert(to);
                }
            }
        }
        if relocations == 0 {
            return Err(about(path)("has no relocations: link with --emit-relocs"));
        }
        Ok(program)
    }

    /// The symbol that holds an address.
    pub fn at(&self, address: u64) -> Option<usize> {
        let index = self.symbols.partition_point(|symbol| symbol.address <= address).checked_sub(1)?;
        let symbol = &self.symbols[index];
        (address < symbol.address + symbol.bytes).then_some(index)
    }

    /// The symbols whose mangled names contain every part.
    pub fn named(&self, parts: &[&str]) -> Vec<usize> {
        let is_named = |symbol: &Symbol| parts.iter().all(|part| symbol.name.contains(part));
        (0..self.symbols.len()).filter(|&index| is_named(&self.symbols[index])).collect()
    }

    /// A symbol's size in bytes.
    pub fn bytes(&self, symbol: usize) -> u64 {
        self.symbols[symbol].bytes
    }

    /// The symbols and all that they need.
    pub fn closure(&self, roots: impl IntoIterator<Item = usize>) -> BTreeSet<usize> {
        let mut waiting: Vec<usize> = roots.into_iter().collect();
        let mut all = BTreeSet::new();
        while let Some(symbol) = waiting.pop() {
            if all.insert(symbol) {
                waiting.extend(&self.symbols[symbol].needs);
            }
        }
        all
    }
}

/// Register and immediate of `MOVW` or `MOVT`, encodings T3 and T1 (Armv7-M, A7.7.76 and A7.7.79).
fn half(word: u32) -> (usize, u32) {
    let (first, second) = (word & 0xffff, word >> 16);
    let immediate = (first & 0xf) << 12 | (first >> 10 & 1) << 11 | (second >> 12 & 7) << 8 | second & 0xff;
    ((second >> 8 & 0xf) as usize, immediate)
}

#[cfg(test)]
mod tests {
    use super::half;

    #[test]
    fn halves_of_addresses_are_decoded() {
        // movw r3, #0x1234; movt r12, #0xabcd
        assert_eq!(half(0x2334_f241), (3, 0x1234));
        assert_eq!(half(0x3ccd_f6ca), (12, 0xabcd));
    }
}
