//! The instructions that one call of a function executes, from QEMU's log (`-d in_asm,exec,nochain`). The log has the
//! instructions of each block when QEMU translates it, and a line for each block that it executes.

use std::collections::HashMap;
use std::rc::Rc;

/// An instruction as QEMU disassembles it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    pub address: u32,
    pub bytes: u32,
    pub mnemonic: String,
    pub operands: String,
}

/// Reads the log line by line and collects the blocks of each call of a function.
#[derive(Debug)]
pub struct Trace {
    /// Address of the function.
    begin: u32,
    /// The block that is translated but not yet executed.
    fresh: Option<Vec<Instruction>>,
    /// Blocks by the address of QEMU's code, because several blocks may begin at one address of the program.
    blocks: HashMap<String, Rc<[Instruction]>>,
    last: Option<Rc<[Instruction]>>,
    /// During a call: the return address, and the blocks executed so far.
    call: Option<(u32, Vec<Rc<[Instruction]>>)>,
}

impl Trace {
    /// Collects the calls of the function at an address.
    pub fn new(begin: u32) -> Self {
        Self { begin: begin & !1, fresh: None, blocks: HashMap::new(), last: None, call: None }
    }

    /// Reads a line. After the last line of a call, returns the blocks of the call.
    pub fn line(&mut self, line: &str) -> Option<Vec<Rc<[Instruction]>>> {
        if line.starts_with("IN:") {
            self.fresh = Some(Vec::new());
        } else if let Some(rest) = line.strip_prefix("Trace ") {
            return self.executed(rest);
        } else if line.starts_with("Stopped execution of TB chain before") {
            // QEMU left the last block before its first instruction.
            if let Some((_, blocks)) = &mut self.call {
                blocks.pop();
            }
        } else if let (Some(fresh), Some(instruction)) = (&mut self.fresh, instruction(line)) {
            if let Some(before) = fresh.last_mut() {
                before.bytes = instruction.address.wrapping_sub(before.address);
            }
            fresh.push(instruction);
        }
        None
    }

    /// `0: 0x7f0c700013c0 [00800408/00000476/00000010/ff000200] name`
    fn executed(&mut self, line: &str) -> Option<Vec<Rc<[Instruction]>>> {
        let mut words = line.split_whitespace().skip(1);
        let place = words.next()?;
        let address = u32::from_str_radix(words.next()?.split('/').nth(1)?, 16).ok()?;
        if let Some(fresh) = self.fresh.take() {
            self.blocks.insert(place.to_owned(), fresh.into());
        }
        let block = Rc::clone(self.blocks.get(place)?);
        let done = match &mut self.call {
            Some((end, _)) if *end == address => self.call.take().map(|(_, blocks)| blocks),
            Some((_, blocks)) => {
                blocks.push(Rc::clone(&block));
                None
            }
            None if address == self.begin => {
                let call = self.last.as_ref().and_then(|block| block.last());
                let end = call.map_or(0, |call| call.address + call.bytes);
                self.call = Some((end, vec![Rc::clone(&block)]));
                None
            }
            None => None,
        };
        self.last = Some(block);
        done
    }
}

/// `0x0000056e:  eb01 1600  add.w    r6, r1, r0, lsl #4`
fn instruction(line: &str) -> Option<Instruction> {
    let (address, rest) = line.strip_prefix("0x")?.split_once(": ")?;
    let address = u32::from_str_radix(address, 16).ok()?;
    let code =
        |word: &&str| word.len() >= 4 && word.chars().all(|digit| digit.is_ascii_hexdigit() && !digit.is_uppercase());
    let words: Vec<&str> = rest.split_whitespace().collect();
    // One or two words of code come first. More words would be ambiguous, because a mnemonic may look like hexadecimal.
    let codes = words.iter().take(2).take_while(|word| code(word)).map(|word| word.len() as u32 / 2);
    let (count, bytes) = codes.fold((0, 0), |(count, bytes), word| (count + 1, bytes + word));
    let mnemonic = words.get(count).copied().unwrap_or_default().to_owned();
    let operands = words.get(count + 1..).unwrap_or_default().join(" ");
    Some(Instruction { address, bytes, mnemonic, operands })
}

#[cfg(test)]
mod tests {
    use super::Trace;

    const LOG: &str = "\
----------------
IN: main
0x00000100:  2001       movs     r0, #1
0x00000102:  f000 f805  bl       #0x110

Trace 0: 0x7f00 [00000000/00000100/00000010/ff000200] main
----------------
IN: traced_step
0x00000110:  b510       push     {r4, lr}
0x00000112:  2400       movs     r4, #0

Trace 0: 0x7f10 [00000000/00000110/00000010/ff000200] traced_step
----------------
IN: traced_step
0x00000114:  3c01       subs     r4, #1
0x00000116:  d1fd       bne      #0x114

Trace 0: 0x7f20 [00000000/00000114/00000010/ff000200] traced_step
Trace 0: 0x7f20 [00000000/00000114/00000010/ff000200] traced_step
Stopped execution of TB chain before 0x7f20 [00000114] traced_step
Trace 0: 0x7f20 [00000000/00000114/00000010/ff000200] traced_step
----------------
IN: traced_step
0x00000118:  bd10       pop      {r4, pc}

Trace 0: 0x7f30 [00000000/00000118/00000010/ff000200] traced_step
----------------
IN: main
0x00000106:  be00       bkpt     #0

Trace 0: 0x7f40 [00000000/00000106/00000010/ff000200] main
Trace 0: 0x7f40 [00000000/00000106/00000010/ff000200] main
";

    #[test]
    fn a_call_spans_all_instructions_up_to_its_return() {
        let mut trace = Trace::new(0x111);
        let mut calls = LOG.lines().filter_map(|line| trace.line(line));
        let blocks = calls.next().unwrap();
        let mnemonics: Vec<&str> =
            blocks.iter().flat_map(|block| block.iter()).map(|of| of.mnemonic.as_str()).collect();
        assert_eq!(mnemonics, ["push", "movs", "subs", "bne", "subs", "bne", "pop"]);
        let push = &blocks[0][0];
        assert_eq!((push.address, push.bytes, push.operands.as_str()), (0x110, 2, "{r4, lr}"));
        assert_eq!(calls.next(), None);
    }
}
