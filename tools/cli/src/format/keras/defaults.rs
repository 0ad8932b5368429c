//! Arguments that an architecture may leave out only where Keras has always had one default for them: what the versions
//! disagree on is asked for, not guessed. Whole models say all of it; an architecture that a person gives may not.
//!
//! | | Keras 1 to 2.2, TensorFlow to 1.12 | TensorFlow 1.13 to 2.1 (`2.2.4-tf`) | Keras 2.3 | TensorFlow from 2.2 | Keras 3 |
//! |---|---|---|---|---|---|
//! | `recurrent_activation` of LSTM and GRU | hard | hard or `sigmoid` | `sigmoid` | `sigmoid` | `sigmoid` |
//! | the same of a ConvLSTM | hard | hard | hard | hard | `sigmoid` |
//! | `reset_after` of GRU | false | false or true | false | true | true |
//! | `hard_sigmoid` | 0.2x + 0.5 | 0.2x + 0.5 | 0.2x + 0.5 | 0.2x + 0.5 | x/6 + 0.5 |
//!
//! Read in the sources of Keras 2.0.0 to 3.0.0 and TensorFlow 1.13.2, 1.15.5 and 2.0.4.

use serde_json::{Map, Value as Json};

use super::config::Generation;
use super::variables::{cells, layer_in};
use crate::data::one_line;
use crate::error::ImportError;

/// What is known about the Keras that a layer is of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin<'a> {
    /// Of its classes: `keras2` or `keras3`.
    pub framework: &'a str,
    /// Whether the file or a person says that.
    pub said: bool,
    /// Of the file, as Keras writes it; empty if it does not say, or is none of Keras.
    pub version: &'a str,
}

/// Refuses a layer that leaves out what only its version of Keras could tell.
pub(crate) fn check(class: &str, args: &Map<String, Json>, origin: Origin<'_>) -> Result<(), ImportError> {
    let says = |name: &str| args.contains_key(name);
    let Origin { framework, said, version } = origin;
    let second = framework == "keras2";
    let of = match version {
        "" => "and nothing says which Keras has written the weights".to_owned(),
        version => format!("and Keras {version} has written the weights"),
    };
    let gru = matches!(class, "GRU" | "GRUCell");
    if (gru || matches!(class, "LSTM" | "LSTMCell")) && second && is_early(version) && !says("recurrent_activation") {
        return Err(ImportError::Refused {
            found: one_line(&format!(
                "its recurrent_activation is not said, {of}: \"hard_sigmoid\" was the default before Keras 2.3 and \
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
                "its reset_after is not said, {of}, and it has no bias that would tell: false was the default of Keras \
                 2, true is TensorFlow's from 2.0 on"
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
                    "{what} is not the same in Keras 2 and 3, and the file does not say which has written it"
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

/// Whether an LSTM of this version had, or may have had, another default; one that is not known is such.
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
