//! The kinds of cells and their codes in an image.

/// Defines [`CellKind`] from the variant, the code and the module of every kind.
macro_rules! kinds {
    ($($kind:ident = $code:literal, $module:literal;)*) => {
        /// The kind of a node of a model.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[cfg_attr(feature = "defmt", derive(defmt::Format))]
        #[repr(u16)]
        #[non_exhaustive]
        pub enum CellKind {
            $(#[doc = concat!("[`", $module, "`](crate::cell::", $module, ")")] $kind = $code,)*
        }

        impl CellKind {
            /// Every kind, in the order of codes.
            pub const ALL: &[Self] = &[$(Self::$kind),*];
        }
    };
}

kinds! {
    Elman = 1, "elman";
    Lstm = 2, "lstm";
    Gru = 3, "gru";
    Ugrnn = 4, "ugrnn";
    Nas = 5, "nas";
    PhasedLstm = 6, "phased_lstm";
    Glstm = 7, "glstm";
    ConvLstm = 8, "conv_lstm";
    Indrnn = 9, "indrnn";
    MinimalRnn = 10, "minimal_rnn";
    FastRnn = 11, "fast_rnn";
    FastGrnn = 12, "fast_grnn";
    MinGru = 13, "min_gru";
    MinLstm = 14, "min_lstm";
    Slstm = 15, "slstm";
    Sru = 16, "sru";
    Cfc = 17, "cfc";
    Ltc = 18, "ltc";
    Cfn = 19, "cfn";
    Intersection = 20, "intersection";
    IndyLstm = 21, "indy_lstm";
    IndyGru = 22, "indy_gru";
    GridLstm = 23, "grid_lstm";
    Mgu = 24, "mgu";
    TimeFreqLstm = 25, "time_freq_lstm";
    AttentionLstm = 26, "attention_lstm";
    Svdf = 27, "svdf";
    Dense = 32, "dense";
    Softmax = 33, "softmax";
    Conv = 34, "conv";
    DepthwiseConv = 35, "depthwise_conv";
    Pool = 36, "pool";
    Window = 37, "window";
    Embedding = 38, "embedding";
    LayerNorm = 39, "layer_norm";
    Activation = 40, "activation";
    Merge = 41, "merge";
    Identity = 42, "identity";
    Last = 43, "last";
    Repeat = 44, "repeat";
    Scale = 45, "scale";
    Slice = 46, "slice";
    WindowDense = 47, "window_dense";
    WindowDepthwise = 48, "window_depthwise";
    Gather = 49, "gather";
    Delay = 50, "delay";
}

/// Upper bound of the codes.
pub(crate) const CODES: usize = 64;

impl CellKind {
    /// The code of this kind in an image.
    pub const fn code(self) -> u16 {
        self as u16
    }

    /// The kind with this code in an image.
    pub const fn from_code(code: u16) -> Option<Self> {
        match BY_CODE.split_at_checked(code as usize) {
            Some((_, [kind, ..])) => *kind,
            _ => None,
        }
    }
}

const BY_CODE: [Option<CellKind>; CODES] = {
    let mut table = [None; CODES];
    let mut kinds = CellKind::ALL;
    while let [kind, rest @ ..] = kinds {
        table[*kind as usize] = Some(*kind);
        kinds = rest;
    }
    table
};
