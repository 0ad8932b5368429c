//! Values between layers while a network is built: their source, their shape, and their time axis.

use super::{description::Take, network::Network, network::Source, refuse::unsupported_if};
use crate::error::{ImportError, Result};

/// An input or the output of a layer, for other layers to read.
#[derive(Clone, Debug)]
pub(crate) struct Signal {
    pub source: Source,
    /// Dimensions at one step in the runtime's order, with channels last.
    pub shape: Vec<usize>,
    pub steps: Option<usize>,
    /// Whether it is still a sequence.
    pub sequence: bool,
    /// Number of frame buffers before it: it steps when the last of them has an output.
    pub pace: usize,
    /// Position of each of the framework's features, if the order differs.
    pub order: Option<Vec<usize>>,
    /// Mask that is 0 at masked steps, if there is one.
    pub mask: Option<Source>,
}

impl Signal {
    /// The same value with a different source of its features.
    pub fn with(&self, source: Source) -> Self {
        Self { shape: vec![source.size()], source, order: None, ..self.clone() }
    }
}

/// Checks that the features are in the framework's order.
pub(crate) fn in_order(x: &Signal) -> Result<()> {
    unsupported_if(x.order.is_some(), "features that were flattened with channels_first")
}

/// Embeds a class whose family converts each class to a whole network.
pub(crate) fn embedded(part: Network, network: &mut Network, inputs: &[Signal], take: Take) -> Result<Signal> {
    inputs.iter().try_for_each(in_order)?;
    let take = if part.last_only && take == Take::Sequence { Take::Last } else { take };
    let sources: Vec<&Source> = inputs.iter().map(|input| &input.source).collect();
    let outputs = network.embed(part, &sources)?;
    let [output] = outputs.as_slice() else {
        return Err(ImportError::Unsupported(format!("a layer with {} outputs", outputs.len())));
    };
    let value = inputs.first().map(|first| first.with(output.clone()));
    let value = value.ok_or_else(|| ImportError::Description("layer without an input".into()))?;
    Ok(if take == Take::Sequence { value } else { last(network, value) })
}

/// The last step of a sequence. In a stream it is the output of every step; the schedule selects the one that is used.
pub(crate) fn last(network: &mut Network, value: Signal) -> Signal {
    let source = network.last(&value.source, false);
    Signal { source, sequence: false, mask: None, ..value }
}
