//! Instructions of `Model::parse` for the images of LSTMs of two sizes. The number may grow only with the length of an
//! image.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::firmware::Machine;
use crate::record::outgrown;

const CELL: &str = "lstm";
const SIZES: [u64; 2] = [64, 128];

/// Cost of parsing the image of one layer on one core.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Parse {
    pub machine: String,
    pub target: String,
    core: String,
    cell: String,
    numeric: String,
    layout: String,
    hidden: u64,
    image_bytes: u64,
    instructions: u64,
    instructions_per_kib: u64,
}

impl Parse {
    /// The cost for the image of a layer; `None` if it is not recorded. `core` may differ from the machine's, whose FPU
    /// only some layers use.
    pub fn of(
        machine: &Machine,
        core: &str,
        [cell, numeric, layout]: [&str; 3],
        hidden: u64,
        [image_bytes, instructions]: [u64; 2],
    ) -> Option<Self> {
        (cell == CELL && SIZES.contains(&hidden)).then(|| Self {
            machine: machine.name.into(),
            target: machine.target.into(),
            core: core.into(),
            cell: cell.into(),
            numeric: numeric.into(),
            layout: layout.into(),
            hidden,
            image_bytes,
            instructions,
            instructions_per_kib: 1024 * instructions / image_bytes.max(1),
        })
    }

    fn key(&self) -> String {
        format!("parse {} {} {} {} {}", self.core, self.cell, self.numeric, self.layout, self.hidden)
    }
}

/// The figures that have outgrown their records, and those that only one side has.
pub fn grown(found: &[Parse], recorded: &[Parse]) -> Vec<String> {
    let by_key: BTreeMap<String, u64> = recorded.iter().map(|parse| (parse.key(), parse.instructions)).collect();
    let line = |parse: &Parse| match by_key.get(&parse.key()) {
        None => Some(format!("{} is not recorded", parse.key())),
        Some(&before) if outgrown(parse.instructions, before) => {
            Some(format!("{}: {} instructions, the record has {before}", parse.key(), parse.instructions))
        }
        Some(_) => None,
    };
    let counts = (found.len() != recorded.len())
        .then(|| format!("{} images are parsed, but the record has {}", found.len(), recorded.len()));
    found.iter().filter_map(line).chain(counts).collect()
}

/// A readable table: a line for each image.
pub fn table(found: &[Parse]) -> String {
    let line = |parse: &Parse| {
        let Parse { core, numeric, layout, hidden, instructions_per_kib, .. } = parse;
        format!("{core:7} {numeric:6} {layout:11} {hidden:4} {instructions_per_kib}\n")
    };
    let lines: String = found.iter().map(line).collect();
    format!("Instructions of parse per KiB of the image of an LSTM\n{lines}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(instructions: u64) -> Parse {
        Parse {
            machine: "mps2-an386".into(),
            target: "thumbv7em-none-eabihf".into(),
            core: "m4".into(),
            cell: CELL.into(),
            numeric: "i8x16".into(),
            layout: "cortex-m4".into(),
            hidden: 64,
            image_bytes: 2048,
            instructions,
            instructions_per_kib: instructions / 2,
        }
    }

    #[test]
    fn a_count_may_grow_by_three_percent() {
        assert_eq!(grown(&[parse(1030)], &[parse(1000)]), Vec::<String>::new());
        let found = grown(&[parse(1031)], &[parse(1000)]);
        assert_eq!(found, ["parse m4 lstm i8x16 cortex-m4 64: 1031 instructions, the record has 1000"]);
        assert_eq!(grown(&[parse(1)], &[]).len(), 2);
        assert_eq!(grown(&[], &[parse(1)]), ["0 images are parsed, but the record has 1"]);
    }
}
