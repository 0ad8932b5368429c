//! A model of the Cortex-M7, which issues up to two instructions in a cycle, in order. It is unofficial: Arm publishes no
//! table of cycles for this core. Units, latencies and pairs are those of LLVM's scheduling model for it
//! (`llvm/lib/Target/ARM/ARMScheduleM7.td`):
//!
//! - In a cycle there are two ALUs, one shifter, one multiplier, two loads, one store, one branch and one float operation.
//! - Instructions that LLVM calls SIMD (extensions, saturations, bit fields, parallel sums) are the first of a pair.
//! - Loads and stores of several registers, `vldr` and `vstr` of doubles, `vmrs` and divisions have no partner.
//! - An ALU result is ready after 1 cycle, a word after 1, a byte or a halfword after 2, a product after 2, a float after 3
//!   and a float sum of a product after 6. Accumulators are read 1 cycle later than factors, by floats 3 cycles later.
//! - Addresses and shifted operands are read 1 cycle early, the data of a store 1 cycle late.
//!
//! Where LLVM has no number that fits, the model is pessimistic:
//!
//! - Nothing is issued during a float division, for its latency of 16 cycles.
//! - Loads and stores of several registers transfer two words in a cycle, the width of the core's memory interfaces.
//! - An instruction after a taken branch starts a new cycle. A mispredicted branch takes 6 cycles more. The predictor has a
//!   counter of two bits for each branch, and the last target of each indirect one.
//!
//! Memory has no wait states, as in tightly coupled memories or a warm cache. The step runs twice, and the second run counts,
//! so that the branches are known.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::rc::Rc;

use super::{addresses, destination, registers};
use crate::Failure;
use crate::trace::Instruction;

/// Cycles that a mispredicted branch takes more.
const MISPREDICTED: u64 = 6;
/// Cycles of a float division or root, and of an integer division.
const FLOAT_DIVISION: u64 = 16;
const DIVISION: u64 = 7;

/// The units that an instruction occupies in its cycle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Units {
    alu: u8,
    shift: u8,
    multiply: u8,
    load: u8,
    store: u8,
    branch: u8,
    float: u8,
}

impl Units {
    const NONE: Self = Self { alu: 0, shift: 0, multiply: 0, load: 0, store: 0, branch: 0, float: 0 };
    const ALU: Self = Self { alu: 1, ..Self::NONE };
    const SHIFT: Self = Self { shift: 1, ..Self::ALU };
    const MULTIPLY: Self = Self { multiply: 1, ..Self::NONE };
    const LOAD: Self = Self { load: 1, ..Self::NONE };
    const STORE: Self = Self { store: 1, ..Self::NONE };
    const BRANCH: Self = Self { branch: 1, ..Self::NONE };
    const FLOAT: Self = Self { float: 1, ..Self::NONE };

    /// The units of both; `None` if the core has fewer.
    fn with(self, other: Self) -> Option<Self> {
        let both = Self {
            alu: self.alu + other.alu,
            shift: self.shift + other.shift,
            multiply: self.multiply + other.multiply,
            load: self.load + other.load,
            store: self.store + other.store,
            branch: self.branch + other.branch,
            float: self.float + other.float,
        };
        let Self { alu, shift, multiply, load, store, branch, float } = both;
        let fits = alu <= 2 && shift <= 1 && multiply <= 1 && load <= 2 && store <= 1 && branch <= 1 && float <= 1;
        fits.then_some(both)
    }
}

/// The place of an instruction in a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Any,
    First,
    /// Without a partner, for a number of cycles.
    Alone(u64),
}

/// How an instruction is issued.
#[derive(Clone, Copy, Debug)]
struct Issue {
    units: Units,
    place: Place,
    latency: u64,
    /// Operands that are not addresses are read this much later than usual, or earlier.
    late: i64,
    /// The same for the destination where it is also an accumulator.
    accumulates: Option<i64>,
}

impl Issue {
    const fn of(units: Units, place: Place, latency: u64) -> Self {
        Self { units, place, latency, late: 0, accumulates: None }
    }

    const fn late(self, late: i64) -> Self {
        Self { late, ..self }
    }

    const fn accumulating(self, late: i64) -> Self {
        Self { accumulates: Some(late), ..self }
    }

    fn named(name: &str, instruction: &Instruction) -> Option<Self> {
        let operands = instruction.operands.as_str();
        let is_shifted = ["lsl #", "lsr #", "asr #", "ror #", "rrx"].iter().any(|shift| operands.contains(shift));
        let alone = |words: u64| Place::Alone(words.div_ceil(2).max(1));
        let list = || {
            let inside = operands.split_once('{').map_or(operands, |(_, list)| list.trim_end_matches('}'));
            let words: u64 = inside.split(',').map(str::trim).map(registers).sum();
            words * if inside.starts_with('d') { 2 } else { 1 }
        };
        let float = |place| Self::of(Units::FLOAT, place, 3);
        Some(match name {
            "nop" => Self::of(Units::NONE, Place::Any, 1),
            _ if name.starts_with("it") && name.trim_start_matches('i').chars().all(|c| c == 't' || c == 'e') => {
                Self::of(Units::NONE, Place::Any, 1)
            }
            "mov" | "add" if destination(instruction) == "pc" => Self::of(Units::BRANCH, Place::Any, 1),
            "mov" | "mvn" | "add" | "adc" | "sub" | "sbc" | "rsb" | "and" | "orr" | "orn" | "eor" | "bic" | "cmp"
            | "cmn" | "tst" | "teq"
                if is_shifted =>
            {
                Self::of(Units::SHIFT, Place::Any, 1).late(-1)
            }
            "mov" | "mvn" | "add" | "adc" | "sub" | "sbc" | "rsb" | "and" | "orr" | "orn" | "eor" | "bic" | "cmp"
            | "cmn" | "tst" | "teq" | "movw" | "addw" | "subw" | "adr" => Self::of(Units::ALU, Place::Any, 1),
            "movt" => Self::of(Units::ALU, Place::Any, 1).accumulating(0),
            "lsl" | "lsr" | "asr" | "ror" => Self::of(Units::SHIFT, Place::Any, 1),
            "bfi" | "bfc" => Self::of(Units::SHIFT, Place::First, 1).accumulating(0),
            "clz" => Self::of(Units::ALU, Place::First, 1),
            "ssat" | "usat" => Self::of(Units::SHIFT, Place::First, 2).late(-1),
            "sxtb" | "sxth" | "uxtb" | "uxth" | "sxtb16" | "uxtb16" | "sadd16" | "sel" => {
                Self::of(if is_shifted { Units::SHIFT } else { Units::ALU }, Place::First, 1)
            }
            "qadd" | "qsub" | "qadd16" => Self::of(Units::ALU, Place::First, 2),
            "rev" | "rev16" | "revsh" | "rbit" | "ubfx" | "sbfx" | "pkhbt" | "pkhtb" | "sxtab" | "sxtah" | "uxtab"
            | "uxtah" | "sxtab16" | "uxtab16" => Self::of(Units::SHIFT, Place::First, 1).late(-1),
            "mul" | "umull" | "smull" | "smuad" | "smuadx" | "smulbb" | "smulbt" | "smultb" | "smultt" | "smmul"
            | "smmulr" | "smulwb" | "smulwt" | "mla" | "mls" | "smlad" | "smladx" | "smlabb" | "smlabt" | "smlatb"
            | "smlatt" | "smmla" | "smmlar" | "smlawb" | "smlawt" => Self::of(Units::MULTIPLY, Place::Any, 2),
            "umlal" | "smlal" | "smlald" | "smlaldx" | "umaal" => {
                Self::of(Units::MULTIPLY, Place::Any, 2).accumulating(1)
            }
            "udiv" | "sdiv" => Self::of(Units::ALU, Place::Alone(DIVISION), 1),
            "mrs" | "msr" | "cpsid" | "cpsie" | "dmb" | "dsb" | "isb" => Self::of(Units::NONE, Place::Alone(3), 1),
            "b" | "cbz" | "cbnz" | "bx" | "bl" | "blx" => Self::of(Units::BRANCH, Place::Any, 1),
            "tbb" | "tbh" => Self::of(Units::LOAD, Place::Alone(2), 2),
            "ldr" => Self::of(Units::LOAD, Place::Any, 1),
            "ldrb" | "ldrh" | "ldrsb" | "ldrsh" => Self::of(Units::LOAD, Place::Any, 2),
            "str" | "strb" | "strh" => Self::of(Units::STORE, Place::Any, 1).late(1),
            "ldrd" => Self::of(Units::LOAD, Place::Alone(1), 1),
            "strd" => Self::of(Units::STORE, Place::Alone(1), 1).late(1),
            "ldm" | "ldmdb" | "ldmia" | "pop" => Self::of(Units::LOAD, alone(list()), 1),
            "stm" | "push" | "stmdb" | "stmia" => Self::of(Units::STORE, alone(list()), 1).late(1),
            "vldr" | "vstr" => {
                let place = if operands.starts_with('d') { Place::Alone(1) } else { Place::Any };
                let latency = if operands.starts_with('d') { 2 } else { 1 };
                if name == "vldr" {
                    Self::of(Units::LOAD, place, latency)
                } else {
                    Self::of(Units::STORE, place, 1).late(2)
                }
            }
            "vldm" | "vldmia" | "vldmdb" | "vpop" => Self::of(Units::LOAD, alone(list()), 1),
            "vstm" | "vstmia" | "vstmdb" | "vpush" => Self::of(Units::STORE, alone(list()), 1).late(2),
            "vadd" | "vsub" | "vmul" | "vnmul" | "vneg" | "vabs" | "vcvt" | "vcvtb" | "vcvtt" => float(Place::Any),
            "vmaxnm" | "vminnm" | "vrinta" | "vrintn" | "vrintm" | "vrintp" | "vrintz" => float(Place::Any),
            "vseleq" | "vselge" | "vselgt" | "vselvs" => float(Place::First),
            "vmla" | "vmls" | "vnmla" | "vnmls" => Self::of(Units::FLOAT, Place::Any, 6).accumulating(3),
            "vfma" | "vfms" | "vfnma" | "vfnms" => Self::of(Units::FLOAT, Place::Any, 5).accumulating(2),
            "vdiv" | "vsqrt" => Self::of(Units::FLOAT, Place::Alone(FLOAT_DIVISION), 1),
            "vcmp" | "vcmpe" => Self::of(Units::FLOAT, Place::Any, 1),
            "vmrs" | "vmsr" => Self::of(Units::FLOAT, Place::Alone(1), 1),
            // Two registers at a time have no partner.
            "vmov" if operands.split(',').count() > 2 => Self::of(Units::NONE, Place::Alone(1), 3),
            "vmov" => Self::of(Units::NONE, Place::Any, 3),
            _ => return None,
        })
    }
}

/// The first cycle of a run, late enough that all registers have been ready for a while.
const START: u64 = 16;

/// The flags, among the registers.
const FLAGS: u8 = 16;
/// Number of registers: the core's, the flags, s0 to s31.
const REGISTERS: usize = 64;

/// The registers in a part of the operands: a name, or a range of names.
fn of_word(word: &str) -> std::ops::Range<u8> {
    let number = |name: &str| name.get(1..)?.parse::<u8>().ok();
    let one = |name: &str| -> std::ops::Range<u8> {
        let at = match name {
            "sb" => 9,
            "sl" => 10,
            "fp" => 11,
            "ip" => 12,
            "sp" => 13,
            "lr" => 14,
            "pc" => 15,
            "apsr_nzcv" | "fpscr" => FLAGS,
            _ => match (name.chars().next(), number(name)) {
                (Some('r'), Some(at)) if at < 16 => at,
                (Some('s'), Some(at)) if at < 32 => 32 + at,
                (Some('d'), Some(at)) if at < 16 => return 32 + 2 * at..34 + 2 * at,
                _ => return 0..0,
            },
        };
        at..at + 1
    };
    match word.split_once('-') {
        Some((first, last)) if !word.starts_with('#') => one(first).start..one(last).end,
        _ => one(word),
    }
}

/// An instruction with its registers.
struct Decoded {
    issue: Issue,
    /// The registers that it reads, and how much later than usual.
    reads: Vec<(u8, i64)>,
    writes: Vec<u8>,
    /// Registers with an updated address.
    updates: Vec<u8>,
}

impl Decoded {
    fn new(instruction: &Instruction) -> Option<Self> {
        let full = instruction.mnemonic.split('.').next().unwrap_or_default();
        let (name, issue) =
            super::names(full).into_iter().find_map(|name| Some((name, Issue::named(name, instruction)?)))?;
        let operands = instruction.operands.as_str();
        let is_store = issue.units.store > 0;
        let is_list = operands.contains('{');
        let is_stack = ["push", "pop", "vpush", "vpop"].contains(&name);
        let words = || operands.split([',', ' ', '[', ']', '{', '}', '!']).filter(|word| !word.is_empty());
        let compares = ["cmp", "cmn", "tst", "teq", "vcmp", "vcmpe"].contains(&name);
        let results = match name {
            _ if is_store || compares || issue.units.branch > 0 => 0,
            "ldrd" | "umull" | "smull" | "umlal" | "smlal" | "smlald" | "smlaldx" | "umaal" => 2,
            "vmov" if operands.split(',').count() > 2 && operands.starts_with('r') => 2,
            _ => 1,
        };
        let (mut reads, mut writes, mut updates) = (Vec::new(), Vec::new(), Vec::new());
        // Of a list, the base comes first.
        let loads_list = is_list && !is_store;
        let base = if is_list && !is_stack { 1 } else { 0 };
        let mut seen = 0;
        for word in words() {
            let found = of_word(word);
            if found.is_empty() {
                continue;
            }
            let is_address = addresses(instruction, word) && (issue.units.load > 0 || is_store);
            let is_result = if loads_list { seen >= base } else { seen < results };
            seen += 1;
            for register in found {
                if is_result {
                    writes.push(register);
                    if let Some(late) = issue.accumulates {
                        reads.push((register, late));
                    }
                } else {
                    reads.push((register, if is_address { -1 } else { issue.late }));
                }
            }
        }
        // The last of four registers is the accumulator of a product.
        if issue.units.multiply > 0 && results == 1 && operands.split(',').count() == 4 {
            reads.last_mut()?.1 = 1;
        }
        if is_stack {
            reads.push((13, -1));
            updates.push(13);
        }
        let is_updated = operands.contains('!') || operands.contains("],");
        if is_updated && (issue.units.load > 0 || is_store) {
            let base = words().find(|word| addresses(instruction, word)).map(of_word).unwrap_or(0..0);
            updates.extend(base);
        }
        // `adds r0, #1` reads its destination, `mov r0, r1` does not.
        let copies = ["mov", "mvn", "sxtb", "sxth", "uxtb", "uxth", "sxtb16", "uxtb16", "clz", "rev", "rev16", "revsh"];
        let copies = copies.contains(&name) || ["rbit", "movw", "movt", "adr"].contains(&name) || name.starts_with('v');
        let two = operands.split(',').count() == 2 && !copies && results == 1 && issue.units.load == 0;
        // An instruction of an IT block keeps its destination if the condition fails.
        if two || full.ends_with(|c: char| c.is_ascii_lowercase()) && super::is_conditional(full, name) {
            reads.extend(writes.iter().map(|&register| (register, issue.late)));
        }
        let sets = compares || name == "vmrs" || super::sets_flags(full, name);
        if sets {
            writes.push(FLAGS);
        }
        if super::is_conditional(full, name) || ["adc", "sbc", "vmrs", "sel", "rrx"].contains(&name) {
            reads.push((FLAGS, 0));
        }
        Some(Self { issue, reads, writes, updates })
    }
}

/// The core during a run.
struct Core {
    /// The cycle in which each register is ready for an ALU.
    ready: [u64; REGISTERS],
    /// The cycle that instructions are issued in, their number, and their units.
    now: u64,
    issued: u8,
    used: Units,
    /// The last cycle in which an instruction was issued or transferred.
    last: u64,
}

impl Core {
    /// Starts the next cycle, `cycles` later.
    fn skip(&mut self, cycles: u64) {
        (self.now, self.issued, self.used) = (self.now + cycles, 0, Units::NONE);
    }

    fn issue(&mut self, decoded: &Decoded) {
        let Decoded { issue, reads, writes, updates } = decoded;
        let ready = |&(register, late): &(u8, i64)| {
            self.ready.get(usize::from(register)).map_or(0, |ready| ready.saturating_add_signed(-late))
        };
        let earliest = reads.iter().map(ready).max().unwrap_or(0);
        if earliest > self.now {
            self.skip(earliest - self.now);
        }
        let has_place = match issue.place {
            Place::Any => self.issued < 2,
            Place::First | Place::Alone(_) => self.issued == 0,
        };
        match self.used.with(issue.units).filter(|_| has_place) {
            Some(used) => self.used = used,
            None => {
                self.skip(1);
                self.used = issue.units;
            }
        }
        self.issued += 1;
        self.last = self.now;
        let mut begin = self.now;
        if let Place::Alone(cycles) = issue.place {
            begin += cycles - 1;
            self.last = begin;
        }
        let set = |registers: &[u8], ready: &mut [u64; REGISTERS], at: u64| {
            for &register in registers {
                ready[usize::from(register) % REGISTERS] = at;
            }
        };
        set(writes, &mut self.ready, begin + issue.latency);
        set(updates, &mut self.ready, self.now);
        if let Place::Alone(cycles) = issue.place {
            self.skip(cycles);
        }
    }
}

/// What the predictor knows of a branch.
#[derive(Clone, Copy, Debug, Default)]
struct Branch {
    /// From 0 to 3: the branch is taken from 2 on.
    counter: u8,
    /// The last target.
    target: u32,
}

impl Branch {
    /// Whether the successor differs from the prediction, which then learns it. `next` follows the branch in memory.
    fn mispredicts(&mut self, next: u32, successor: u32) -> bool {
        let predicted = if self.counter >= 2 { self.target } else { next };
        if successor == next {
            self.counter = self.counter.saturating_sub(1);
        } else {
            self.counter = (self.counter + 1).min(3);
            self.target = successor;
        }
        predicted != successor
    }
}

/// Instructions and cycles of consecutive blocks.
pub fn cycles(blocks: &[Rc<[Instruction]>]) -> Result<(u64, u64), Failure> {
    let mut branches = HashMap::new();
    // Blocks are shared, so each is decoded once.
    let mut decoded: HashMap<*const Instruction, Vec<Decoded>> = HashMap::new();
    for block in blocks {
        if let Entry::Vacant(place) = decoded.entry(block.as_ptr()) {
            let of = |instruction: &Instruction| {
                Decoded::new(instruction).ok_or_else(|| {
                    format!("no cycles are known of `{} {}`", instruction.mnemonic, instruction.operands)
                })
            };
            place.insert(block.iter().map(of).collect::<Result<_, _>>()?);
        }
    }
    let mut counts = (0, 0);
    for _ in 0..2 {
        let mut core = Core { ready: [0; REGISTERS], now: START, issued: 0, used: Units::NONE, last: START };
        let mut instructions = 0;
        let mut executed = blocks
            .iter()
            .flat_map(|block| block.iter().zip(decoded.get(&block.as_ptr()).into_iter().flatten()))
            .peekable();
        while let Some((instruction, decoded)) = executed.next() {
            core.issue(decoded);
            instructions += 1;
            let Some((following, _)) = executed.peek() else { break };
            let jumps = following.address != instruction.address + instruction.bytes;
            let next = instruction.address + instruction.bytes;
            let branch: &mut Branch = branches.entry(instruction.address).or_default();
            if branch.mispredicts(next, following.address) {
                core.skip(1 + MISPREDICTED);
            } else if jumps {
                core.skip(1);
            }
        }
        counts = (instructions, core.last + 1 - START);
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::{MISPREDICTED, cycles};
    use crate::timing::tests::block;
    use crate::trace::Instruction;

    fn of(code: &str) -> u64 {
        cycles(&[block(code)]).unwrap().1
    }

    #[test]
    fn instructions_are_issued_in_pairs_if_units_and_operands_allow() {
        assert_eq!(of("adds r0, #1\nadds r1, #1"), 1);
        assert_eq!(of("adds r0, #1\nadds r0, #1"), 2);
        assert_eq!(of("adds r0, #1\nadds r1, r0, #1"), 2);
        assert_eq!(of("add.w r0, r1, r2, lsl #2\nadd.w r3, r4, r5, lsl #2"), 2);
        assert_eq!(of("ldr r0, [r1]\nldr r2, [r3]\nadds r0, r0, r2"), 2);
        // The address of the second load is read a cycle early.
        assert_eq!(of("ldr r0, [r1]\nldr r2, [r0]"), 3);
        assert_eq!(of("ldrsh.w r0, [r1], #2\nldrsh.w r2, [r1], #2\nadds r0, r0, r2"), 4);
        assert_eq!(of("smlad r0, r1, r2, r0\nsmlad r3, r1, r4, r3"), 2);
        assert_eq!(of("smlad r0, r1, r2, r0\nsmlad r0, r3, r4, r0\nsmlad r0, r5, r6, r0"), 3);
        assert_eq!(of("mul r0, r1, r2\nmla r3, r0, r4, r5"), 3);
        assert_eq!(of("smlad r0, r1, r2, r0\nldr r3, [r4]"), 1);
        assert_eq!(of("sxtb16 r0, r1\nadds r2, #1"), 1);
        assert_eq!(of("adds r2, #1\nsxtb16 r0, r1"), 2);
        assert_eq!(of("ldm.w r0, {r1, r2, r3}\nadds r4, #1"), 3);
        assert_eq!(of("push {r4, r5, lr}\npop {r4, r5, pc}"), 4);
    }

    #[test]
    fn floats_have_one_pipeline_of_three_cycles() {
        assert_eq!(of("vmul.f32 s0, s1, s2\nvmul.f32 s3, s1, s2\nvmul.f32 s4, s1, s2"), 3);
        assert_eq!(of("vmul.f32 s0, s1, s2\nvadd.f32 s3, s3, s0"), 4);
        assert_eq!(of("vmul.f32 s0, s1, s2\nadds r0, #1"), 1);
        assert_eq!(of("vldmia r0!, {s16, s17, s18, s19}\nvmul.f32 s0, s20, s21"), 3);
        assert_eq!(of("vdiv.f32 s0, s1, s2\nvmul.f32 s3, s0, s1"), 17);
        // The sum of the second product is needed three cycles after its factors.
        assert_eq!(of("vmla.f32 s0, s1, s2\nvmla.f32 s0, s3, s4"), 4);
        assert_eq!(of("vcmp.f32 s0, s1\nvmrs apsr_nzcv, fpscr\nbgt #0"), 3);
    }

    #[test]
    fn a_branch_that_was_taken_twice_is_predicted() {
        let turn = block("subs r0, #1\nbne #0");
        let end: Rc<[_]> = vec![Instruction { address: 4, ..block("nop")[0].clone() }].into();
        let loops = |turns: usize| cycles(&vec![Rc::clone(&turn); turns]).unwrap().1;
        assert_eq!(loops(10), 20);
        // The end of a loop is mispredicted.
        let mut blocks = vec![Rc::clone(&turn); 10];
        blocks.push(end);
        assert_eq!(cycles(&blocks).unwrap().1, 20 + MISPREDICTED + 1);
    }

    #[test]
    fn an_instruction_without_an_entry_is_named() {
        let error = cycles(&[block("crc32b r0, r1, r2")]).unwrap_err();
        assert_eq!(error, "no cycles are known of `crc32b r0, r1, r2`");
    }
}
