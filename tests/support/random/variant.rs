//! Variants of the cells that the tests cover: every option, clip and activation.

use std::collections::BTreeMap;

use tidegate::internals::{activation::Activation, cell::CellKind};

use super::Fit;

/// A cell with its options, before its weights are drawn.
#[derive(Clone, Debug)]
pub struct Variant {
    /// The kind of cell.
    pub kind: CellKind,
    /// The options that are set.
    pub options: Vec<&'static str>,
    /// Numeric parameters such as clips.
    pub params: BTreeMap<String, f32>,
    /// Activations that differ from the spec's defaults.
    pub activations: BTreeMap<String, String>,
    /// Sizes and extents for a number of input features and of units.
    pub fit: fn(usize, usize) -> Fit,
    /// Number of input features that the cell needs, given the available features and the units. A dense layer produces
    /// them if the numbers differ.
    pub width: fn(usize, usize) -> usize,
}

/// The activations that a cell is tested with. e^x and √x are used only where nothing has been summed: e^x overflows
/// f32 above 88, √x turns errors of sums near 0 into their roots, and ln x is steeper still.
fn activations(kind: CellKind) -> impl Iterator<Item = Activation> {
    let apart = |known: Activation| matches!(known, Activation::Exp | Activation::Sqrt | Activation::Log { .. });
    Activation::ALL.into_iter().filter(move |&known| !apart(known) || kind == CellKind::Activation)
}

impl Variant {
    /// Without numeric parameters and with the spec's activations.
    pub fn new(kind: CellKind, options: &[&'static str]) -> Self {
        let (params, activations) = (BTreeMap::new(), BTreeMap::new());
        Self { kind, options: options.to_vec(), params, activations, fit: Fit::units, width: |input, _| input }
    }

    /// Changes the sizes.
    #[must_use]
    pub fn fit(mut self, fit: fn(usize, usize) -> Fit) -> Self {
        self.fit = fit;
        self
    }

    /// Changes the number of input features.
    #[must_use]
    pub fn width(mut self, width: fn(usize, usize) -> usize) -> Self {
        self.width = width;
        self
    }

    /// Adds a numeric parameter.
    #[must_use]
    pub fn param(mut self, name: &str, value: f32) -> Self {
        self.params.insert(name.to_owned(), value);
        self
    }

    /// Adds an activation.
    #[must_use]
    pub fn activation(mut self, name: &str, activation: Activation) -> Self {
        self.activations.insert(name.to_owned(), activation.to_string());
        self
    }

    /// A name for messages.
    pub fn name(&self) -> String {
        format!("{} {:?} {:?} {:?}", self.kind.spec().name, self.options, self.params, self.activations)
    }

    /// Every cell kind, with every combination of its options, its clips, and each activation in every place.
    pub fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for &kind in CellKind::ALL {
            let options = Self::of(kind);
            all.extend(options.iter().cloned());
            for place in kind.spec().activations {
                for activation in activations(kind).filter(|&activation| activation != place.default) {
                    all.extend(options.last().map(|variant| variant.clone().activation(place.name, activation)));
                }
            }
        }
        all
    }

    /// The cell of this name, without options.
    pub fn plain(cell: &str) -> Self {
        let kind = CellKind::from_name(cell).unwrap_or_else(|| panic!("no cell {cell:?}"));
        Self::of(kind).into_iter().next().unwrap_or_else(|| panic!("{cell:?} has no variant"))
    }

    /// The variants of a kind, the plain one first.
    fn of(kind: CellKind) -> Vec<Self> {
        match kind {
            CellKind::Elman => vec![
                Self::new(kind, &[]),
                Self::new(kind, &["masked"]),
                Self::new(kind, &["clipped"]).param("preact_clip", 0.25),
                Self::new(kind, &["low_rank"]).fit(Fit::low_rank),
            ],
            CellKind::Ugrnn => vec![Self::new(kind, &[]), Self::new(kind, &["low_rank"]).fit(Fit::low_rank)],
            CellKind::Lstm => {
                let subsets: [&[&'static str]; 4] = [&[], &["peephole"], &["projection"], &["peephole", "projection"]];
                let with = |&options: &&[&'static str]| {
                    let projected = options.contains(&"projection");
                    let plain = Self::new(kind, options).fit(if projected { Fit::projected } else { Fit::units });
                    let clipped = plain.clone().param("cell_clip", 0.5);
                    let clipped = if projected { clipped.param("projection_clip", 0.1) } else { clipped };
                    [plain.clone(), plain.param("cell_clip", 0.25), clipped]
                };
                let low_rank = [
                    Self::new(kind, &["low_rank"]).fit(Fit::low_rank),
                    Self::new(kind, &["peephole", "projection", "low_rank"]).fit(|input, units| Fit {
                        extents: vec![("rank", units.div_ceil(3))],
                        ..Fit::projected(input, units)
                    }),
                ];
                let masked = [
                    Self::new(kind, &["masked"]),
                    Self::new(kind, &["masked", "projection", "cell_norm"]).fit(Fit::projected).param("epsilon", 0.5),
                    Self::new(kind, &["initial"]),
                    Self::new(kind, &["masked", "initial", "projection"]).fit(Fit::projected),
                    Self::new(kind, &["initial", "gate_norm"]).param("epsilon", 0.5),
                ];
                let full = subsets.iter().flat_map(with).chain(masked);
                full.chain(Self::normalized_lstm(kind)).chain(low_rank).collect()
            }
            CellKind::Gru => vec![
                Self::new(kind, &[]),
                Self::new(kind, &["low_rank"]).fit(Fit::low_rank),
                Self::new(kind, &["reset_after", "low_rank"]).fit(Fit::low_rank),
                Self::new(kind, &["reset_after", "masked"]),
                Self::new(kind, &["clipped"]).param("preact_clip", 0.25),
                Self::new(kind, &["reset_after", "clipped"]).param("preact_clip", 0.25),
                Self::new(kind, &["reset_after"]),
            ],
            CellKind::Nas => {
                vec![Self::new(kind, &[]), Self::new(kind, &["projection"]).fit(Fit::projected)]
            }
            CellKind::PhasedLstm => {
                let timed = |options| Self::new(kind, options).fit(Fit::timed).width(|input, _| input.max(2));
                let split = |options| Self::new(kind, options).fit(Fit::split_timed).width(|input, _| input.max(3));
                vec![
                    timed(&[]),
                    timed(&["peephole"]).param("leak", 0.25),
                    split(&["split_time"]).param("leak", 0.001),
                    split(&["peephole", "split_time"]),
                ]
            }
            CellKind::Glstm => vec![
                Self::new(kind, &[]).fit(Fit::grouped),
                Self::new(kind, &["projection"]).fit(Fit::grouped_projected),
            ],
            CellKind::ConvLstm => vec![
                Self::new(kind, &[]).fit(Fit::volume),
                Self::new(kind, &["channels_first"]).fit(Fit::volume),
                Self::new(kind, &["skip"]).fit(Fit::beside),
                Self::new(kind, &[]).fit(Fit::dilated),
            ],
            CellKind::Indrnn
            | CellKind::MinimalRnn
            | CellKind::MinGru
            | CellKind::MinLstm
            | CellKind::Cfn
            | CellKind::IndyLstm
            | CellKind::IndyGru
            | CellKind::Mgu => vec![Self::new(kind, &[])],
            CellKind::FastRnn | CellKind::FastGrnn => {
                let numbers: [(&str, f32); 2] = match kind {
                    CellKind::FastRnn => [("alpha", 0.3), ("beta", 0.9)],
                    _ => [("zeta", 0.75), ("nu", 0.125)],
                };
                let given = |variant: Self| numbers.iter().fold(variant, |v, &(name, value)| v.param(name, value));
                vec![given(Self::new(kind, &[])), given(Self::new(kind, &["low_rank"]).fit(Fit::low_rank))]
            }
            CellKind::Slstm => vec![
                Self::new(kind, &[]).fit(Fit::heads),
                Self::new(kind, &["preactivated"]).fit(Fit::heads).width(|_, units| 4 * units),
            ],
            CellKind::Svdf => vec![
                Self::new(kind, &[])
                    .fit(|input, units| Fit { extents: vec![("memory", 3)], ..Fit::units(input, units) }),
                Self::new(kind, &[]).fit(|_, units| Fit {
                    hidden: 2 * units,
                    output: units,
                    extents: vec![("memory", 5)],
                }),
            ],
            CellKind::Sru => vec![
                Self::new(kind, &[]).fit(Fit::elementwise),
                Self::new(kind, &[]).fit(Fit::elementwise).param("highway_scale", 1.75),
                Self::new(kind, &["cell_gates"]).fit(Fit::elementwise).param("highway_scale", 0.5),
                Self::new(kind, &["highway"]),
                Self::new(kind, &["no_highway"]),
                Self::new(kind, &["cell_gates", "highway", "residual"]).fit(Fit::residual),
                Self::new(kind, &["cell_gates", "residual"]).fit(Fit::skipping).param("highway_scale", 0.5),
                Self::new(kind, &["cell_gates", "highway"]),
            ],
            CellKind::Cfc => vec![
                Self::new(kind, &[]).fit(Fit::untimed),
                Self::new(kind, &["elapsed"]).fit(Fit::timed),
                Self::new(kind, &["elapsed", "no_gate"]).fit(Fit::timed),
                Self::new(kind, &["pure"]).fit(Fit::untimed),
                Self::new(kind, &["elapsed", "pure"]).fit(Fit::timed),
                Self::new(kind, &["mixed_memory"]).fit(Fit::untimed),
                Self::new(kind, &["elapsed", "backbone"]).fit(|input, units| Fit::timed(input, units).backbone(0)),
                Self::new(kind, &["backbone", "deep"]).fit(|input, units| Fit::untimed(input, units).backbone(1)),
                Self::new(kind, &["backbone", "deep", "pure", "mixed_memory"])
                    .fit(|input, units| Fit::untimed(input, units).backbone(1)),
                Self::new(kind, &["elapsed", "backbone", "deep"])
                    .fit(|input, units| Fit::timed(input, units).backbone(2)),
            ],
            CellKind::Ltc => vec![
                Self::new(kind, &[]).fit(Fit::told),
                Self::new(kind, &[])
                    .fit(|input, units| Fit { output: units.div_ceil(3), ..Fit::untimed(input, units) }),
                Self::new(kind, &["mixed_memory"]).fit(|input, units| {
                    let mut fit = Fit::told(input, units);
                    fit.extents.push(("unfolds", 2));
                    fit
                }),
            ],
            CellKind::Intersection => vec![Self::new(kind, &[]).fit(Fit::elementwise)],
            CellKind::GridLstm => {
                let overlapping =
                    |options| Self::new(kind, options).fit(|input, units| Fit::overlapping(input, units, 2));
                let padded = |options| Self::new(kind, options).fit(|input, units| Fit::padded(input, units, 2));
                vec![
                    overlapping(&[]),
                    overlapping(&["peephole"]).param("cell_clip", 0.5),
                    overlapping(&["shared"]),
                    padded(&["backwards"]),
                    padded(&["shared", "peephole", "backwards"]),
                ]
            }
            CellKind::TimeFreqLstm => {
                let overlapping =
                    |options| Self::new(kind, options).fit(|input, units| Fit::overlapping(input, units, 1));
                let padded = |options| Self::new(kind, options).fit(|input, units| Fit::padded(input, units, 1));
                vec![overlapping(&[]), overlapping(&["peephole"]), padded(&["peephole"]).param("cell_clip", 0.5)]
            }
            CellKind::AttentionLstm => vec![Self::new(kind, &[]).fit(Fit::attending)],
            CellKind::Dense => vec![Self::new(kind, &[]), Self::new(kind, &[]).fit(Fit::grouped)],
            CellKind::Softmax => vec![Self::new(kind, &[]).fit(Fit::elementwise)],
            CellKind::Conv => {
                [Fit::streamed, Fit::pixel, Fit::dilated].map(|fit| Self::new(kind, &[]).fit(fit)).to_vec()
            }
            CellKind::DepthwiseConv => vec![Self::new(kind, &[]).fit(Fit::depthwise)],
            CellKind::Pool => {
                [&["max"][..], &["average"]].map(|options| Self::new(kind, options).fit(Fit::pooled)).to_vec()
            }
            // Most of its steps have no output, which a chain of cells does not support.
            CellKind::Window => Vec::new(),
            // It selects one row by index, and the comparison within bounds would not detect a wrong row.
            CellKind::Embedding => Vec::new(),
            CellKind::LayerNorm => {
                let normalized =
                    |options: &[&'static str], fit| Self::new(kind, options).fit(fit).param("epsilon", 1e-3);
                vec![
                    normalized(&[], Fit::elementwise),
                    normalized(&["gain"], Fit::normalized),
                    normalized(&["gain", "rms"], Fit::normalized),
                ]
            }
            CellKind::Activation => vec![Self::new(kind, &[]).fit(Fit::elementwise)],
            CellKind::Merge => {
                let options = [&[][..], &["add"], &["multiply"], &["average"], &["maximum"], &["norm"]];
                options.map(|options| Self::new(kind, options).fit(Fit::part)).to_vec()
            }
            CellKind::Identity => vec![Self::new(kind, &[]).fit(Fit::elementwise)],
            CellKind::Last => [&[][..], &["first"]].map(|options| Self::new(kind, options).fit(Fit::row)).to_vec(),
            CellKind::Repeat => vec![Self::new(kind, &[]).fit(Fit::repeated)],
            CellKind::Scale => [&[][..], &["gain"]].map(|options| Self::new(kind, options).fit(Fit::channels)).to_vec(),
            CellKind::Slice => vec![Self::new(kind, &[]).fit(Fit::sliced)],
            CellKind::WindowDense => vec![Self::new(kind, &[]).fit(Fit::recent)],
            CellKind::WindowDepthwise => vec![Self::new(kind, &[]).fit(Fit::recent_channels)],
            CellKind::Gather => vec![Self::new(kind, &[]).fit(Fit::gathered)],
            CellKind::Delay => vec![Self::new(kind, &[]).fit(Fit::delayed)],
            _ => panic!("no variants of {}", kind.spec().name),
        }
    }

    /// Coupled gates and layer normalization, with the epsilons of TensorFlow and of the baselines, and one that
    /// exceeds most variances.
    fn normalized_lstm(kind: CellKind) -> Vec<Self> {
        let variant = |options: &[&'static str]| {
            let fit = match ["projection", "low_rank"].map(|option| options.contains(&option)) {
                [true, _] => Fit::projected,
                [_, true] => Fit::low_rank,
                _ => Fit::units,
            };
            Self::new(kind, options).fit(fit)
        };
        let everywhere = ["peephole", "projection", "coupled", "gate_norm", "cell_norm", "output_norm"];
        vec![
            variant(&["coupled"]),
            variant(&["input_forget"]),
            variant(&["clipped"]).param("preact_clip", 0.25),
            variant(&["input_forget", "clipped", "peephole", "projection"])
                .param("preact_clip", 0.25)
                .param("projection_clip", 0.1),
            variant(&["coupled", "peephole", "projection"]).param("cell_clip", 0.25).param("projection_clip", 0.1),
            variant(&["low_rank", "gate_norm"]).param("epsilon", 1e-5),
            variant(&["gate_norm", "cell_norm"]).param("epsilon", 1e-12),
            variant(&["peephole", "projection", "coupled", "gate_norm", "cell_norm"]).param("epsilon", 1e-12),
            variant(&["joint_norm", "output_norm"]).param("epsilon", 1e-5),
            variant(&["low_rank", "peephole", "joint_norm"]).param("epsilon", 0.5),
            variant(&["cell_norm"]).param("epsilon", 0.5).activation("gate_activation", Activation::Softsign),
            variant(&["output_norm", "projection"]).param("epsilon", 0.5).param("projection_clip", 0.1),
            variant(&everywhere).param("epsilon", 0.5).param("cell_clip", 0.25),
            variant(&everywhere).param("epsilon", 0.5).activation("output_activation", Activation::Relu),
            variant(&everywhere).param("epsilon", 0.5).activation("cell_activation", Activation::Identity),
        ]
    }
}
