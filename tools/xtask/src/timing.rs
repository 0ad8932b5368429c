//! Cycles of instructions with zero wait states, from the tables in Arm's Technical Reference Manuals: Cortex-M0+ (DDI
//! 0484C, table 3-1, with the fast multiplier), Cortex-M3 (100165, table 3-1) and Cortex-M4 (DDI 0439D, tables 3-1, 3-2
//! and 7-1). The Cortex-M7 issues two instructions at a time and has no such table; [`m7`] models it. The M55 is not modelled.
//!
//! Where a table has a range or a condition, the model is as follows:
//!
//! - A pipeline refill takes 2 cycles (1 on the M0+).
//! - Divisions, instructions that change the processor state, and long multiplications on the M3 take their maximum.
//! - An instruction in an IT block takes the cycles of a passed condition.
//! - On the M3 and M4, by the section "Load/store timings": a store to an immediate offset takes one cycle. Another load
//!   or store directly after a load takes one cycle less, unless its address needs the loaded value. A load or store
//!   takes one cycle more if its address is the result of the data operation directly before.
//! - A load relative to the program counter never waits for the fetch unit.
//! - On the M4, an instruction that reads the result of the float instruction directly before takes one cycle more,
//!   except if it only accumulates into it.

mod m7;

use std::rc::Rc;

use crate::Failure;
use crate::trace::Instruction;

/// A core with a table or a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    M0Plus,
    M3,
    M4,
    M7,
}

impl Table {
    /// The table of a core by its name in figures.
    pub fn of(core: &str) -> Option<Self> {
        match core {
            "m0plus" => Some(Self::M0Plus),
            "m3" => Some(Self::M3),
            "m4" | "m4f" => Some(Self::M4),
            "m7" => Some(Self::M7),
            _ => None,
        }
    }

    /// Cycles of a pipeline refill.
    fn refill(self) -> u64 {
        if self == Self::M0Plus { 1 } else { 2 }
    }
}

/// Instructions and cycles of consecutive blocks.
pub fn cycles(table: Table, blocks: &[Rc<[Instruction]>]) -> Result<(u64, u64), Failure> {
    if table == Table::M7 {
        return m7::cycles(blocks);
    }
    let (mut instructions, mut cycles) = (0, 0);
    let mut before: Option<(&Instruction, Kind)> = None;
    let mut executed = blocks.iter().flat_map(|block| block.iter()).peekable();
    while let Some(instruction) = executed.next() {
        let kind = Kind::of(table, instruction)
            .ok_or_else(|| format!("no cycles are known of `{} {}`", instruction.mnemonic, instruction.operands))?;
        let next = instruction.address + instruction.bytes;
        let jumps = executed.peek().is_some_and(|following| following.address != next);
        cycles += match kind {
            Kind::Fixed(cycles) | Kind::Data(cycles) | Kind::Memory(cycles) | Kind::Float(cycles) => cycles,
            Kind::Branch(cycles) => cycles + if jumps { table.refill() } else { 0 },
            Kind::Load | Kind::IndexedStore => 2,
        };
        if let Some((before, kind_before)) = before {
            match (kind_before, kind) {
                (Kind::Load, Kind::Load | Kind::IndexedStore) => {
                    cycles -= u64::from(!addresses(instruction, destination(before)));
                }
                (Kind::Data(_), Kind::Load | Kind::IndexedStore | Kind::Memory(_)) if table != Table::M0Plus => {
                    cycles += u64::from(results(before).any(|result| addresses(instruction, result)));
                }
                (Kind::Float(_), _) => cycles += u64::from(reads(instruction, destination(before))),
                _ => {}
            }
        }
        instructions += 1;
        before = Some((instruction, kind));
    }
    Ok((instructions, cycles))
}

/// Kinds of instructions that the tables distinguish, with their cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Fixed(u64),
    /// Data processing, whose results may be addresses.
    Data(u64),
    /// A branch, which takes a refill more if it is taken.
    Branch(u64),
    Load,
    /// A store to a register offset.
    IndexedStore,
    /// Other loads and stores, also of several registers.
    Memory(u64),
    /// Arithmetic of the FPU.
    Float(u64),
}

const CONDITIONS: [&str; 16] =
    ["eq", "ne", "hs", "lo", "cs", "cc", "mi", "pl", "vs", "vc", "hi", "ls", "ge", "lt", "gt", "le"];

impl Kind {
    fn of(table: Table, instruction: &Instruction) -> Option<Self> {
        let name = instruction.mnemonic.split('.').next().unwrap_or_default();
        names(name).into_iter().find_map(|name| Self::named(table, name, instruction))
    }

    fn named(table: Table, name: &str, instruction: &Instruction) -> Option<Self> {
        let operands = instruction.operands.as_str();
        let (to_pc, m0) = (destination(instruction) == "pc", table == Table::M0Plus);
        // One cycle, and one for each register in the list.
        let list = || {
            let inside = operands.split_once('{').map_or("", |(_, list)| list.trim_end_matches('}'));
            1 + inside.split(',').map(str::trim).map(registers).sum::<u64>()
        };
        Some(match name {
            "mov" | "add" if to_pc => Self::Branch(1),
            "cmp" | "cmn" | "tst" | "teq" | "nop" => Self::Fixed(1),
            "mov" | "mvn" | "add" | "adc" | "sub" | "sbc" | "rsb" | "and" | "orr" | "orn" | "eor" | "bic" | "lsl"
            | "lsr" | "asr" | "ror" | "mul" | "sxtb" | "sxth" | "uxtb" | "uxth" | "rev" | "rev16" | "revsh"
            | "rbit" | "clz" | "ssat" | "usat" | "bfi" | "bfc" | "ubfx" | "sbfx" | "movw" | "movt" | "addw"
            | "subw" | "adr" => Self::Data(1),
            _ if name.starts_with("it") && name.trim_start_matches('i').chars().all(|c| c == 't' || c == 'e') => {
                Self::Fixed(1)
            }
            "mla" | "mls" => Self::Data(if table == Table::M4 { 1 } else { 2 }),
            "umull" | "smull" => Self::Data(if table == Table::M4 { 1 } else { 5 }),
            "umlal" | "smlal" => Self::Data(if table == Table::M4 { 1 } else { 7 }),
            "udiv" | "sdiv" => Self::Data(12),
            "mrs" | "msr" => Self::Fixed(if m0 { 3 } else { 2 }),
            "cpsid" | "cpsie" => Self::Fixed(if m0 { 1 } else { 2 }),
            "dmb" | "dsb" => Self::Fixed(if m0 { 3 } else { 1 }),
            "isb" => Self::Fixed(if m0 { 3 } else { 1 + table.refill() }),
            "b" | "cbz" | "cbnz" => Self::Branch(1),
            "bx" => Self::Branch(1),
            "bl" | "blx" => Self::Branch(if m0 && name == "bl" { 2 } else { 1 }),
            // Both refill in three cycles, by the section "Load/store timings".
            "tbb" | "tbh" => Self::Fixed(6),
            "ldr" if to_pc => Self::Fixed(5),
            "ldr" | "ldrb" | "ldrh" | "ldrsb" | "ldrsh" | "str" | "strb" | "strh" if m0 => Self::Fixed(2),
            "ldr" | "ldrb" | "ldrh" | "ldrsb" | "ldrsh" => Self::Load,
            // A register offset has a third register, or a shift.
            "str" | "strb" | "strh" if operands.split(',').nth(2).is_some_and(|offset| !offset.contains('#')) => {
                Self::IndexedStore
            }
            "str" | "strb" | "strh" => Self::Memory(1),
            "ldrd" | "strd" => Self::Memory(3),
            "ldm" | "stm" | "push" | "pop" | "ldmdb" | "stmdb" | "ldmia" | "stmia" => {
                // On the M0+, 3 + N cycles, where N counts the program counter.
                let refill = if operands.contains("pc}") { 2 } else { 0 };
                Self::Memory(list() + refill)
            }
            _ if table != Table::M4 => return None,
            "smlad" | "smladx" | "smuad" | "smuadx" | "smlabb" | "smlabt" | "smlatb" | "smlatt" | "smulbb"
            | "smulbt" | "smultb" | "smultt" | "smmul" | "smmulr" | "smmla" | "smmlar" | "sxtb16" | "uxtb16"
            | "sxtab16" | "uxtab16" | "sxtab" | "sxtah" | "uxtab" | "uxtah" | "pkhbt" | "pkhtb" | "qadd" | "qsub"
            | "smlawb" | "smlawt" | "smulwb" | "smulwt" | "smlald" | "smlaldx" | "umaal" | "sadd16" | "qadd16"
            | "sel" => Self::Data(1),
            "vadd" | "vsub" | "vmul" | "vnmul" | "vneg" | "vabs" | "vcvt" | "vcvtb" | "vcvtt" => Self::Float(1),
            "vmla" | "vmls" | "vnmla" | "vnmls" | "vfma" | "vfms" | "vfnma" | "vfnms" => Self::Float(3),
            "vdiv" | "vsqrt" => Self::Float(14),
            // Between the FPU and core registers, except for half a double.
            "vmov" if !operands.contains('[') && operands.split(',').any(|operand| !is_float(operand.trim())) => {
                Self::Fixed(2)
            }
            "vmov" | "vmrs" | "vmsr" | "vcmp" | "vcmpe" => Self::Fixed(1),
            "vldr" | "vstr" => Self::Memory(if operands.starts_with('d') { 3 } else { 2 }),
            "vldm" | "vldmia" | "vldmdb" | "vstm" | "vstmia" | "vstmdb" | "vpush" | "vpop" => {
                let double = operands.contains("{d");
                Self::Memory(if double { 2 * list() - 1 } else { list() })
            }
            _ => return None,
        })
    }
}

/// The names that a mnemonic may stand for: itself, and without its condition, its flag and both. `bls` is a conditional
/// branch, `lsls` a shift that sets the flags, and `lslseq` both.
fn names(name: &str) -> [&str; 4] {
    let cut = name.len().saturating_sub(2);
    let conditional = name.get(..cut).filter(|_| CONDITIONS.iter().any(|end| name.ends_with(end))).unwrap_or_default();
    let flag = |name: &str| name.strip_suffix('s').map_or(0, str::len);
    [name, conditional, &name[..flag(name)], &conditional[..flag(conditional)]]
}

/// Whether a mnemonic, which stands for `name`, has a condition.
fn is_conditional(mnemonic: &str, name: &str) -> bool {
    let rest = mnemonic.strip_prefix(name).unwrap_or_default();
    CONDITIONS.contains(&rest.strip_prefix('s').filter(|rest| !rest.is_empty()).unwrap_or(rest))
}

/// Whether a mnemonic, which stands for `name`, sets the flags.
fn sets_flags(mnemonic: &str, name: &str) -> bool {
    let rest = mnemonic.strip_prefix(name).unwrap_or_default();
    rest.starts_with('s') && (rest.len() == 1 || rest.len() == 3)
}

/// The first operand.
fn destination(instruction: &Instruction) -> &str {
    instruction.operands.split(',').next().unwrap_or_default().trim()
}

/// The registers that data processing writes: two for a long multiplication.
fn results(instruction: &Instruction) -> impl Iterator<Item = &str> {
    let long = instruction.mnemonic.contains("mull") || instruction.mnemonic.contains("mlal");
    instruction.operands.split(',').take(1 + usize::from(long)).map(str::trim)
}

/// Whether an address is computed from a register.
fn addresses(instruction: &Instruction, register: &str) -> bool {
    let name = instruction.mnemonic.as_str();
    let address = match instruction.operands.split_once('[') {
        Some((_, address)) => address,
        None if name.contains("push") || name.contains("pop") => "sp",
        // Loads and stores of several registers: the first operand.
        None => instruction.operands.split(',').next().unwrap_or_default(),
    };
    address.split([',', ' ', ']', '!']).any(|word| word == register)
}

/// Whether an operand is a register of the FPU or a number.
fn is_float(operand: &str) -> bool {
    operand.starts_with('#') || operand.starts_with(['s', 'd']) && operand != "sp"
}

/// Whether an instruction reads a register, other than to accumulate into it.
fn reads(instruction: &Instruction, register: &str) -> bool {
    let mut words = instruction.operands.split([',', ' ', '[', ']', '{', '}', '!']).filter(|word| !word.is_empty());
    let name = instruction.mnemonic.as_str();
    // Stores and comparisons have no destination.
    let sources_only = name.starts_with("str") || name.starts_with("vstr") || name.starts_with("vcmp");
    if !sources_only {
        words.next();
    }
    words.any(|word| word == register)
}

/// Number of registers in `r4` or `s16-s31`.
fn registers(part: &str) -> u64 {
    let number = |name: &str| name.trim_start_matches(|c: char| c.is_ascii_alphabetic()).parse::<u64>().ok();
    match part.split_once('-').map(|(first, last)| (number(first.trim()), number(last.trim()))) {
        Some((Some(first), Some(last))) => last.saturating_sub(first) + 1,
        _ => u64::from(!part.is_empty()),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::rc::Rc;

    use super::{Table, cycles};
    use crate::trace::Instruction;

    pub(super) fn block(code: &str) -> Rc<[Instruction]> {
        let lines = code.lines().enumerate().map(|(line, text)| {
            let (mnemonic, operands) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
            Instruction { address: 2 * line as u32, bytes: 2, mnemonic: mnemonic.into(), operands: operands.into() }
        });
        lines.collect()
    }

    fn of(table: Table, code: &str) -> u64 {
        cycles(table, &[block(code)]).unwrap().1
    }

    #[test]
    fn instructions_take_the_cycles_of_the_tables() {
        assert_eq!(
            of(Table::M0Plus, "movs r0, #1\nmuls r0, r1, r0\nldr r2, [r0, #4]\nldr r3, [r0, #8]"),
            1 + 1 + 2 + 2
        );
        assert_eq!(of(Table::M0Plus, "push {r4, r5, lr}\npop {r4, r5, pc}"), 4 + 6);
        assert_eq!(of(Table::M3, "str r2, [r0, #4]\nstr r2, [r0, r1]\nmla r0, r1, r2, r3"), 1 + 2 + 2);
        assert_eq!(of(Table::M3, "smull r0, r1, r2, r3\nisb\nldr pc, [r0]"), 5 + 3 + 5);
        assert_eq!(of(Table::M4, "smlad r0, r1, r2, r0\nsxtb16 r4, r5, ror #8\nmla r0, r1, r2, r3"), 3);
        assert_eq!(of(Table::M4, "vmul.f32 s0, s1, s2\nvadd.f32 s3, s0, s4\nvmla.f32 s3, s5, s6"), 1 + 2 + 3);
        assert_eq!(of(Table::M4, "vldmia r0!, {s16, s17, s18, s19}\nldm.w r0, {r1, r2}\nvpush {d8-d9}"), 5 + 3 + 5);
        assert_eq!(
            of(Table::M4, "vldr d8, [r0]\nvldr s2, [r0]\nvmov r1, s2\nvmov.f32 s3, s2\nvcmp.f32 s3, #0"),
            3 + 2 + 2 + 1 + 1
        );
        assert_eq!(of(Table::M4, "vmul.f32 s0, s1, s2\nvcmp.f32 s0, s3"), 1 + 2);
        assert_eq!(of(Table::M4, "lsls r0, r1, #2\nbls #0x10\nlslseq.w r0, r0, #1"), 3);
        assert_eq!(of(Table::M0Plus, "bls #0x10\nadds r0, #1"), 2);
    }

    /// The examples of the section "Load/store timings", and its rules for stores and computed addresses.
    #[test]
    fn consecutive_loads_and_stores_overlap_as_in_the_manual() {
        for (code, expected) in [
            ("ldr r0, [r1]\nldr r1, [r2]", 3),
            ("ldr r0, [r1, r2]\nstr r0, [r3, #20]", 3),
            ("ldr r0, [r1, r2]\nstr r1, [r3, r2]", 3),
            ("ldr r0, [r1, r5]\nldr r1, [r2]\nldr r2, [r3, #4]", 4),
            ("ldr.w r3, [r0, #8]\nldr r4, [r3]", 2 + 2),
            ("str r0, [r1, #4]\nldr r2, [r3]", 1 + 2),
            ("adds r0, #4\nldr r1, [r0]", 1 + 1 + 2),
            ("adds r0, #4\nstr r0, [r1, #4]", 1 + 1),
            ("adds r0, #4\nldm r0!, {r1, r2}", 1 + 1 + 3),
            ("subs sp, #8\npush {r4, lr}", 1 + 1 + 3),
            ("umull r0, r1, r2, r3\nldrd r4, r5, [r1]", 1 + 1 + 3),
            ("cmp r0, #4\nldr r1, [r0]", 1 + 2),
            ("ldm r0!, {r1, r2, r3}\nldr r1, [r0]", 4 + 2),
        ] {
            assert_eq!(of(Table::M4, code), expected, "{code}");
        }
        assert_eq!(of(Table::M0Plus, "adds r0, #4\nldr r1, [r0]\nldr r2, [r0]"), 1 + 2 + 2);
    }

    #[test]
    fn a_taken_branch_refills_the_pipeline() {
        let turn = block("subs r0, #1\nbne #0");
        let twice = [Rc::clone(&turn), turn];
        assert_eq!(cycles(Table::M3, &twice), Ok((4, 1 + 3 + 1 + 1)));
        assert_eq!(cycles(Table::M0Plus, &twice), Ok((4, 1 + 2 + 1 + 1)));
    }

    #[test]
    fn an_instruction_without_an_entry_is_named() {
        let error = cycles(Table::M3, &[block("smlad r0, r1, r2, r0")]).unwrap_err();
        assert_eq!(error, "no cycles are known of `smlad r0, r1, r2, r0`");
    }
}
