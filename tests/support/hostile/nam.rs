//! Files of Neural Amp Modeler: short lists of JSON that become many layers.

use super::{Hostile, hostile};

pub fn all() -> Vec<Hostile> {
    let stack = format!("{{{STACK},\"kernel_size\":1,\"activation\":\"\"}}");
    let nested = format!("{{{STACK},\"kernel_size\":1,\"activation\":[{}[]]}}", "[],".repeat(1 << 20));
    let modes =
        format!("{{{STACK},\"kernel_size\":1,\"activation\":\"\",\"gating_mode\":[{}\"\"]}}", "\"\",".repeat(1 << 20));
    let taps = format!("{{{STACK},\"kernel_size\":{TAPS},\"activation\":\"Tanh\"}}");
    let submodel = "{\"max_value\":0,\"model\":{\"architecture\":\"LSTM\",\"config\":{}}}";
    vec![
        hostile("stacks.nam", wavenet(&vec![stack; 1 << 16].join(","), 0)),
        hostile("nested.nam", wavenet(&nested, 0)),
        hostile("modes.nam", wavenet(&modes, 0)),
        hostile("taps.nam", wavenet(&taps, TAPS + 8)),
        hostile("submodels.nam", container(&vec![submodel; 1 << 16].join(","))),
    ]
}

const TAPS: usize = 1 << 19;
const STACK: &str =
    "\"input_size\":1,\"condition_size\":1,\"channels\":1,\"head_size\":1,\"head_bias\":false,\"dilations\":[2]";

fn wavenet(stacks: &str, weights: usize) -> Vec<u8> {
    let weights = vec!["1"; weights].join(",");
    let config = format!("{{\"layers\":[{stacks}],\"head_scale\":1}}");
    format!("{{\"architecture\":\"WaveNet\",\"config\":{config},\"weights\":[{weights}]}}").into_bytes()
}

fn container(submodels: &str) -> Vec<u8> {
    let config = format!("{{\"submodels\":[{submodels}]}}");
    format!("{{\"architecture\":\"SlimmableContainer\",\"config\":{config},\"weights\":[]}}").into_bytes()
}
