//! Cycles of instructions by the tables that Arm publishes, with zero wait states, in the Technical Reference Manuals of the
//! Cortex-M0+ (DDI 0484C, table 3-1, with the fast multiplier), Cortex-M3 (100165, table 3-1) and Cortex-M4 (DDI 0439D,
//! tables 3-1, 3-2 and 7-1). There is none for the M7 and the M55, which issue two instructions at a time, and none for
//! RV32IMAC, which is no core.
//!
//! Where a table has a range or a condition: a refill of the pipeline takes 2 cycles of 1 to 3 (1 on the M0+, as its table
//! has it), a division and what changes state the most, a long multiplication on the M3 the most; an instruction in an IT
//! block takes what it takes when its condition holds. On the M3 and M4, by the section "Load/store timings": a store to an
//! immediate offset takes one cycle; another load or store behind a load one cycle less, unless it needs the result for its
//! address; one more where the address is the result of the data operation just before. A load relative to the program
//! counter that waits for the fetch unit is not counted. On the M4 what a float instruction gives costs the next
//! instruction a cycle if that one reads it, but not as what it adds to.

use std::rc::Rc;

use crate::Failure;
use crate::trace::Instruction;

/// A core with a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    M0Plus,
    M3,
    M4,
}

impl Table {
    /// That of a core as figures call it.
    pub fn of(core: &str) -> Option<Self> {
        match core {
            "m0plus" => Some(Self::M0Plus),
            "m3" => Some(Self::M3),
            "m4" | "m4f" => Some(Self::M4),
            _ => None,
        }
    }

    /// What a refill of the pipeline adds.
    fn refill(self) -> u64 {
        match self {
            Self::M0Plus => 1,
            Self::M3 | Self::M4 => 2,
        }
    }
}

/// Instructions and cycles of blocks that were executed one after the other.
pub fn cycles(table: Table, blocks: &[Rc<[Instruction]>]) -> Result<(u64, u64), Failure> {
    let (mut instructions, mut cycles) = (0, 0);
    let mut before: Option<(&Instruction, Kind)> = None;
    let mut executed = blocks.iter().flat_map(|block| block.iter()).peekable();
    while let Some(instruction) = executed.next() {
        let kind = Kind::of(table, instruction)
            .ok_or_else(|| format!("no cycles are known of `{} {}`", instruction.mnemonic, instruction.operands))?;
        let goes_on = instruction.address + instruction.bytes;
        let jumps = executed.peek().is_some_and(|next| next.address != goes_on);
        cycles += kind.cycles(table, instruction, jumps);
        if let Some((before, kind_before)) = before {
            match (kind_before, kind) {
                (Kind::Load, Kind::Load | Kind::IndexedStore) => {
                    cycles -= u64::from(!addresses(instruction, destination(before)));
                }
                (Kind::Data(_), memory) if table != Table::M0Plus && memory.is_memory() => {
                    cycles += u64::from(results(before).any(|result| addresses(instruction, result)));
                }
                (Kind::Float { .. }, _) => cycles += u64::from(reads(instruction, destination(before))),
                _ => {}
            }
        }
        instructions += 1;
        before = Some((instruction, kind));
    }
    Ok((instructions, cycles))
}

/// What the tables tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// So many cycles.
    Fixed(u64),
    /// What gives results that may be addresses: so many cycles.
    Data(u64),
    /// May go elsewhere, which takes a refill more: cycles if it does not.
    Branch(u64),
    Load,
    /// To an immediate offset.
    Store,
    /// To the offset that a register has.
    IndexedStore,
    /// Two words, or one of the FPU: so many cycles.
    Pair(u64),
    /// One register, some more cycles than elements: of several at once, and whether the last is the program counter.
    Multiple {
        elements: u64,
        jumps: bool,
    },
    /// Arithmetic of the FPU.
    Float {
        cycles: u64,
    },
}

const CONDITIONS: [&str; 16] =
    ["eq", "ne", "hs", "lo", "cs", "cc", "mi", "pl", "vs", "vc", "hi", "ls", "ge", "lt", "gt", "le"];

impl Kind {
    fn of(table: Table, instruction: &Instruction) -> Option<Self> {
        let name = instruction.mnemonic.split('.').next().unwrap_or_default();
        let cut = name.len().saturating_sub(2);
        let conditional =
            name.get(..cut).filter(|_| CONDITIONS.iter().any(|end| name.ends_with(end))).unwrap_or_default();
        // `bls` is a branch on a condition, `lsls` a shift that sets the flags, and `lslseq` both.
        let flag = |name: &str| name.strip_suffix('s').map_or(0, str::len);
        [name, conditional, &name[..flag(name)], &conditional[..flag(conditional)]]
            .into_iter()
            .find_map(|name| Self::named(table, name, instruction))
    }

    fn named(table: Table, name: &str, instruction: &Instruction) -> Option<Self> {
        let operands = instruction.operands.as_str();
        let (to_pc, m0) = (destination(instruction) == "pc", table == Table::M0Plus);
        let list = || {
            let inside = operands.split_once('{').map_or("", |(_, list)| list.trim_end_matches('}'));
            inside.split(',').map(str::trim).map(registers).sum()
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
            // Both refill in three cycles, says the section, and the one adds.
            "tbb" | "tbh" => Self::Fixed(6),
            "ldr" if to_pc => Self::Fixed(5),
            "ldr" | "ldrb" | "ldrh" | "ldrsb" | "ldrsh" => {
                if m0 {
                    Self::Fixed(2)
                } else {
                    Self::Load
                }
            }
            "str" | "strb" | "strh" if m0 => Self::Fixed(2),
            // A register offset has a third register, or a shift.
            "str" | "strb" | "strh" if operands.split(',').nth(2).is_some_and(|offset| !offset.contains('#')) => {
                Self::IndexedStore
            }
            "str" | "strb" | "strh" => Self::Store,
            "ldrd" | "strd" => Self::Pair(3),
            "ldm" | "stm" | "push" | "pop" | "ldmdb" | "stmdb" | "ldmia" | "stmia" => {
                Self::Multiple { elements: list(), jumps: operands.contains("pc}") }
            }
            _ if table != Table::M4 => return None,
            "smlad" | "smladx" | "smuad" | "smuadx" | "smlabb" | "smlabt" | "smlatb" | "smlatt" | "smulbb"
            | "smulbt" | "smultb" | "smultt" | "smmul" | "smmulr" | "smmla" | "smmlar" | "sxtb16" | "uxtb16"
            | "sxtab16" | "uxtab16" | "sxtab" | "sxtah" | "uxtab" | "uxtah" | "pkhbt" | "pkhtb" | "qadd" | "qsub"
            | "smlawb" | "smlawt" | "smulwb" | "smulwt" | "smlald" | "smlaldx" | "umaal" | "sadd16" | "qadd16"
            | "sel" => Self::Data(1),
            "vadd" | "vsub" | "vmul" | "vnmul" | "vneg" | "vabs" | "vcvt" | "vcvtb" | "vcvtt" => {
                Self::Float { cycles: 1 }
            }
            "vmla" | "vmls" | "vnmla" | "vnmls" | "vfma" | "vfms" | "vfnma" | "vfnms" => Self::Float { cycles: 3 },
            "vdiv" | "vsqrt" => Self::Float { cycles: 14 },
            // Between floats and the registers of the core, but for half a double.
            "vmov" if !operands.contains('[') && operands.split(',').any(|operand| !is_float(operand.trim())) => {
                Self::Fixed(2)
            }
            "vmov" | "vmrs" | "vmsr" | "vcmp" | "vcmpe" => Self::Fixed(1),
            "vldr" | "vstr" => Self::Pair(if operands.starts_with('d') { 3 } else { 2 }),
            "vldm" | "vldmia" | "vldmdb" | "vstm" | "vstmia" | "vstmdb" | "vpush" | "vpop" => {
                let double = operands.contains("{d");
                Self::Multiple { elements: list() * if double { 2 } else { 1 }, jumps: false }
            }
            _ => return None,
        })
    }

    /// Whether it reads or writes memory.
    fn is_memory(self) -> bool {
        matches!(self, Self::Load | Self::Store | Self::IndexedStore | Self::Pair(_) | Self::Multiple { .. })
    }

    fn cycles(self, table: Table, instruction: &Instruction, jumps: bool) -> u64 {
        match self {
            Self::Fixed(cycles) | Self::Data(cycles) | Self::Pair(cycles) | Self::Float { cycles } => cycles,
            Self::Branch(cycles) => cycles + if jumps { table.refill() } else { 0 },
            Self::Load | Self::IndexedStore => 2,
            Self::Store => 1,
            Self::Multiple { elements, jumps: to_pc } => {
                let refill = match (to_pc, table) {
                    (false, _) => 0,
                    // The table's 3 + N, where N counts the program counter no more than others.
                    (true, Table::M0Plus) => 2,
                    (true, _) => table.refill(),
                };
                debug_assert!(elements > 0, "{instruction:?}");
                1 + elements + refill
            }
        }
    }
}

/// The first operand.
fn destination(instruction: &Instruction) -> &str {
    instruction.operands.split(',').next().unwrap_or_default().trim()
}

/// The registers that data processing writes: a long multiplication two.
fn results(instruction: &Instruction) -> impl Iterator<Item = &str> {
    let long = instruction.mnemonic.contains("mull") || instruction.mnemonic.contains("mlal");
    instruction.operands.split(',').take(1 + usize::from(long)).map(str::trim)
}

/// Whether an address is made of a register.
fn addresses(instruction: &Instruction, register: &str) -> bool {
    let name = instruction.mnemonic.as_str();
    let address = match instruction.operands.split_once('[') {
        Some((_, address)) => address,
        None if name.contains("push") || name.contains("pop") => "sp",
        // Of several at once the first operand.
        None => instruction.operands.split(',').next().unwrap_or_default(),
    };
    address.split([',', ' ', ']', '!']).any(|word| word == register)
}

/// A register of the FPU, or a number.
fn is_float(operand: &str) -> bool {
    operand.starts_with('#') || operand.starts_with(['s', 'd']) && operand != "sp"
}

/// Whether it reads a register; that it adds to it does not count.
fn reads(instruction: &Instruction, register: &str) -> bool {
    let mut words = instruction.operands.split([',', ' ', '[', ']', '{', '}', '!']).filter(|word| !word.is_empty());
    let name = instruction.mnemonic.as_str();
    // What stores and compares has no destination.
    let sources_only = name.starts_with("str") || name.starts_with("vstr") || name.starts_with("vcmp");
    if !sources_only {
        words.next();
    }
    words.any(|word| word == register)
}

/// `r4`, or `s16-s31`.
fn registers(part: &str) -> u64 {
    let number = |name: &str| name.trim_start_matches(|c: char| c.is_ascii_alphabetic()).parse::<u64>().ok();
    match part.split_once('-').map(|(first, last)| (number(first.trim()), number(last.trim()))) {
        Some((Some(first), Some(last))) => last.saturating_sub(first) + 1,
        _ => u64::from(!part.is_empty()),
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::{Table, cycles};
    use crate::trace::Instruction;

    fn block(code: &str) -> Rc<[Instruction]> {
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
    fn what_the_tables_say() {
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

    /// The examples of the section "Load/store timings", and what it says of stores and of addresses just computed.
    #[test]
    fn loads_and_stores_follow_each_other_as_the_manual_says() {
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
    fn a_branch_that_is_taken_fills_the_pipeline_again() {
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
