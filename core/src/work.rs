//! The work of a step, and limits for images from elsewhere. An image specifies how often its weights are read, so its
//! size does not bound the work.

/// The work of one step of a model: upper bounds, for a step in which every state of the schedule runs.
/// [`Model::work`](crate::Model::work) counts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Work {
    /// Multiply-accumulates with weights.
    pub macs: u64,
    /// Activations, exponentials and logarithms. In an integer numeric most of them are look-ups in a table.
    pub curves: u64,
    /// Elements that are read or moved other than for products with weights: inputs, states, pixels under a pool.
    pub moves: u64,
    /// Bytes of the image that are read. A tensor that is read several times counts each time.
    pub bytes: u64,
}

/// A quantity that [`Limits`] bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Limit {
    /// [`Work::macs`]
    Macs,
    /// [`Work::curves`]
    Curves,
    /// [`Work::moves`]
    Moves,
    /// [`Work::bytes`]
    Bytes,
    /// The number of nodes.
    Nodes,
    /// [`Model::state_words`](crate::Model::state_words)
    StateWords,
    /// [`Model::scratch_words`](crate::Model::scratch_words)
    ScratchWords,
}

impl Limit {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Macs => "multiply-accumulates per step",
            Self::Curves => "activations per step",
            Self::Moves => "moved elements per step",
            Self::Bytes => "bytes of the image read per step",
            Self::Nodes => "nodes",
            Self::StateWords => "words of state",
            Self::ScratchWords => "words of scratch",
        }
    }
}

/// The most that an image may need, for [`Model::parse_within`](crate::Model::parse_within); [`NONE`](Self::NONE): no limit.
///
/// ```
/// use tidegate::{ImageBytes, ImageError, Limit, Limits, Model, Work};
///
/// # use tidegate::Aligned;
/// # let downloaded = &Aligned(*include_bytes!("../examples/kws.tgi")).0;
/// let work = Work { macs: 1_000_000, ..Limits::NONE.work };
/// let limits = Limits { work, state_words: 1024, scratch_words: 1024, ..Limits::NONE };
/// let model = Model::parse_within(ImageBytes::new(downloaded)?, &limits)?;
///
/// let limits = Limits { state_words: 8, ..limits };
/// let needed = model.state_words() as u64;
/// let refused = Model::parse_within(ImageBytes::new(downloaded)?, &limits).unwrap_err();
/// assert_eq!(refused, ImageError::OverLimit { limit: Limit::StateWords, needed, given: 8 });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The work of a step.
    pub work: Work,
    /// The number of nodes. A step spends some time on each, besides its work.
    pub nodes: usize,
    /// [`Model::state_words`](crate::Model::state_words)
    pub state_words: usize,
    /// [`Model::scratch_words`](crate::Model::scratch_words)
    pub scratch_words: usize,
}

impl Limits {
    /// No limits.
    pub const NONE: Self = Self {
        work: Work { macs: u64::MAX, curves: u64::MAX, moves: u64::MAX, bytes: u64::MAX },
        nodes: usize::MAX,
        state_words: usize::MAX,
        scratch_words: usize::MAX,
    };
}

impl Work {
    pub(crate) const NONE: Self = Self { macs: 0, curves: 0, moves: 0, bytes: 0 };

    pub(crate) const fn plus(self, other: Self) -> Self {
        Self {
            macs: self.macs.saturating_add(other.macs),
            curves: self.curves.saturating_add(other.curves),
            moves: self.moves.saturating_add(other.moves),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }

    pub(crate) const fn times(self, count: u64) -> Self {
        Self {
            macs: self.macs.saturating_mul(count),
            curves: self.curves.saturating_mul(count),
            moves: self.moves.saturating_mul(count),
            bytes: self.bytes.saturating_mul(count),
        }
    }
}
