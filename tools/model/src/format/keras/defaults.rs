//! Checks for arguments whose default differs between versions of Keras. An architecture may leave such an argument out
//! only if every version that may apply has the same default; otherwise the importer asks for it instead of guessing.
//! Whole models state all arguments; an architecture that the user writes may not.
//!
//! | | Keras 1 to 2.2, TensorFlow to 1.12 | TensorFlow 1.13 to 2.1 (`2.2.4-tf`) | Keras 2.3 | TensorFlow from 2.2 | Keras 3 |
//! |---|---|---|---|---|---|
//! | `recurrent_activation` of LSTM and GRU | hard | hard or `sigmoid` | `sigmoid` | `sigmoid` | `sigmoid` |
//! | `recurrent_activation` of ConvLSTM | hard | hard | hard | hard | `sigmoid` |
//! | `reset_after` of GRU | false | false or true | false | true | true |
//! | `hard_sigmoid` | 0.2x + 0.5 | 0.2x + 0.5 | 0.2x + 0.5 | 0.2x + 0.5 | x/6 + 0.5 |
//!
//! Source: the code of Keras 2.0.0 to 3.0.0 and of TensorFlow 1.13.2, 1.15.5 and 2.0.4.

use serde_json::{Map, Value as Json};

use super::{part::Generation, variables::cells, variables::layer_in};
use crate::{data::one_line, error::ImportError, error::Result};

/// The known facts about the version of Keras that a layer belongs to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin<'a> {
    /// Framework of the layer's class: `keras2` or `keras3`.
    pub framework: &'a str,
    /// Whether the framework is stated by the file or by the user.
    pub said: bool,
    /// Version of the file in Keras's notation; empty if it is not stated or the file is not one of Keras.
    pub version: &'a str,
}

/// Refuses a layer that leaves out an argument whose default depends on an unknown version of Keras.
pub(crate) fn check(class: &str, args: &Map<String, Json>, origin: Origin<'_>) -> Result<()> {
    let says = |name: &str| args.contains_key(name);
    let Origin { framework, said, version } = origin;
    let second = framework == "keras2";
    let of = match version {
        "" => "and it is not known which Keras wrote the weights".to_owned(),
        version => format!("and Keras {version} wrote the weights"),
    };
    let gru = matches!(class, "GRU" | "GRUCell");
    if (gru || matches!(class, "LSTM" | "LSTMCell")) && second && is_early(version) && !says("recurrent_activation") {
        return Err(ImportError::Refused {
            found: one_line(&format!(
                "its recurrent_activation is not given, {of}: \"hard_sigmoid\" was the default before Keras 2.3 and \
                 in parts of TensorFlow's 2.2.4-tf, \"sigmoid\" is later"
            )),
            advice: "write \"recurrent_activation\": \"hard_sigmoid\" (or \"sigmoid\") into its args in the file given \
                     with --arch",
        });
    }
    let without_bias = args.get("use_bias") == Some(&Json::Bool(false));
    let both_resets = is_early(version) || Generation::of(version) == Generation::Alone;
    if gru && second && both_resets && without_bias && !says("reset_after") {
        return Err(ImportError::Refused {
            found: one_line(&format!(
                "its reset_after is not given, {of}, and it has no bias that would show it: false was the default of \
                 Keras 2, true is that of TensorFlow from 2.0 on"
            )),
            advice: "write \"reset_after\": false (or true) into its args in the file given with --arch",
        });
    }
    if !said {
        let conv = class.starts_with("ConvLSTM") && !says("recurrent_activation");
        let hard = args.iter().any(|(name, value)| name.ends_with("activation") && value == "hard_sigmoid");
        if conv || hard {
            let what = if conv { "the default of recurrent_activation" } else { "\"hard_sigmoid\"" };
            return Err(ImportError::Refused {
                found: format!(
                    "{what} differs between Keras 2 and 3, and the file does not state which of them wrote it"
                ),
                advice: "write \"framework\": \"keras2\" (or \"keras3\") into the file given with --arch, beside \"layers\"",
            });
        }
    }
    let functions = args.iter().filter(|(name, _)| name.ends_with("activation")).map(|(_, value)| value);
    let layers = ["layer", "backward_layer"].into_iter().filter_map(|key| args.get(key));
    let inner = layers.chain(functions).filter_map(|layer| layer_in(Some(layer)));
    for (class, args) in inner.chain(cells(args.get("cell")).0) {
        check(class, args, origin)?;
    }
    Ok(())
}

/// Whether an LSTM of this version had, or may have had, a different default. True for an unknown version.
fn is_early(version: &str) -> bool {
    let mut parts = version.split('.').map(str::parse::<u32>);
    match (parts.next(), parts.next()) {
        (Some(Ok(2)), Some(Ok(minor))) => minor < 3,
        (Some(Ok(major)), _) => major < 3,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_changed_with_2_3() {
        for version in ["", "0.3.3", "1.2.2", "2.0.0", "2.1.6-tf", "2.2.4", "2.2.4-tf", "2.2.5", "2", "2.x", "new"] {
            assert!(is_early(version), "{version}");
        }
        for version in ["2.3.0", "2.3.0-tf", "2.3.1", "2.4.0", "2.12", "2.21.0", "3.0.0", "3.15.1"] {
            assert!(!is_early(version), "{version}");
        }
    }
}
