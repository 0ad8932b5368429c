//! Seeded numbers and models: the same seed gives the same test on every machine.

use std::collections::BTreeMap;

use tidegate::activation::Activation;
use tidegate::cell::CellKind;
use tidegate_tools::canonical::{Architecture, Canonical, Node, Port, Schedule, Tensor};

/// SplitMix64 (Steele, Lea and Flood 2014).
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// From a seed; any will do.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// 0 to `end - 1`.
    pub fn below(&mut self, end: usize) -> usize {
        (self.bits() % end as u64) as usize
    }

    /// One of them.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// Uniform in ±`limit`.
    pub fn number(&mut self, limit: f32) -> f32 {
        let unit = (self.bits() >> 40) as f32 / (1 << 24) as f32;
        (2.0 * unit - 1.0) * limit
    }

    /// So many uniform numbers in ±`limit`.
    pub fn numbers(&mut self, len: usize, limit: f32) -> Vec<f32> {
        (0..len).map(|_| self.number(limit)).collect()
    }
}

/// A cell with its options set, its weights not yet drawn.
#[derive(Clone, Debug)]
pub struct Variant {
    /// Which cell.
    pub kind: CellKind,
    /// The options that are on.
    pub options: Vec<&'static str>,
    /// Clips and the like.
    pub params: BTreeMap<String, f32>,
    /// Where they differ from the spec's defaults.
    pub activations: BTreeMap<String, String>,
    /// Its sizes and extents, over so many features in, with so many units if it has a choice.
    pub fit: fn(usize, usize) -> Fit,
    /// Features in that it needs, with so many units, where there are so many: a dense layer makes them of those.
    pub width: fn(usize, usize) -> usize,
}

/// Sizes of a node that its cell's rules allow.
#[derive(Clone, Debug)]
pub struct Fit {
    /// Units.
    pub hidden: usize,
    /// Features out.
    pub output: usize,
    /// By name.
    pub extents: Vec<(&'static str, usize)>,
}

impl Fit {
    /// As many features out as units.
    pub fn units(_: usize, units: usize) -> Self {
        Self { hidden: units, output: units, extents: Vec::new() }
    }

    /// As many units as features in.
    pub fn elementwise(input: usize, _: usize) -> Self {
        Self::units(input, input)
    }

    /// The least divisor of the features in: as few parts as there can be.
    fn parts(input: usize) -> usize {
        (2..=input).find(|&parts| input.is_multiple_of(parts)).unwrap_or(1)
    }

    /// As many features out as one of the parts of the input has.
    pub fn part(input: usize, _: usize) -> Self {
        Self::units(input, input / Self::parts(input))
    }

    /// The same, with rows for parts.
    pub fn row(input: usize, _: usize) -> Self {
        Self { extents: vec![("steps", Self::parts(input))], ..Self::part(input, 0) }
    }

    /// Half of the input, rounded up, is what matrices read.
    pub fn residual(input: usize, units: usize) -> Self {
        Self { extents: vec![("features", input.div_ceil(2))], ..Self::units(input, units) }
    }

    /// The same with a highway from the last features that come in.
    pub fn skipping(input: usize, units: usize) -> Self {
        let mut fit = Self::residual(input, units.min(input));
        fit.extents.push(("skip", input - fit.hidden));
        fit
    }

    /// All that comes in are features of a cell that could be told the time.
    pub fn untimed(input: usize, units: usize) -> Self {
        Self { extents: vec![("features", input)], ..Self::units(input, units) }
    }

    /// All but one, which is the time.
    pub fn timed(input: usize, units: usize) -> Self {
        Self::untimed(input - 1, units)
    }

    /// The same, but the time takes the place of no only feature.
    pub fn told(input: usize, units: usize) -> Self {
        if input > 1 { Self::timed(input, units) } else { Self::untimed(input, units) }
    }

    /// The same with a backbone of an odd number of units, and so many layers behind its first.
    #[must_use]
    pub fn backbone(mut self, further_layers: usize) -> Self {
        self.extents.push(("backbone_units", self.hidden / 2 * 2 + 1));
        self.extents.push(("further_layers", further_layers));
        self
    }

    /// Twice the input.
    pub fn repeated(input: usize, _: usize) -> Self {
        Self { extents: vec![("times", 2)], ..Self::units(input, 2 * input) }
    }

    /// As many groups as there can be.
    pub fn grouped(input: usize, units: usize) -> Self {
        let groups = (1..=input).rev().find(|&groups| input.is_multiple_of(groups) && units.is_multiple_of(groups));
        Self { extents: vec![("groups", groups.unwrap_or(1))], ..Self::units(input, units) }
    }

    /// Groups of the input.
    pub fn normalized(input: usize, _: usize) -> Self {
        Self { extents: vec![("groups", Self::parts(input))], ..Self::units(input, input) }
    }

    /// Channels that repeat.
    pub fn channels(input: usize, _: usize) -> Self {
        Self { extents: vec![("channels", input / Self::parts(input))], ..Self::units(input, input) }
    }

    /// Three taps along the height, at both ends.
    pub fn streamed(input: usize, units: usize) -> Self {
        let (stride, positions) = (input.max(2) - 1, input.min(2));
        let extents = vec![
            ("in_height", input),
            ("kernel_height", 3),
            ("stride_height", stride),
            ("pad_top", 1),
            ("pad_bottom", 1),
            ("out_height", positions),
        ];
        Self { hidden: units, output: positions * units, extents }
    }

    /// One pixel, in groups.
    pub fn pixel(input: usize, units: usize) -> Self {
        let mut fit = Self::grouped(input, units);
        fit.extents.push(("in_channels", input));
        fit
    }

    /// Two taps, as far apart as they can be, over a row of pixels.
    pub fn dilated(input: usize, units: usize) -> Self {
        let width = Self::parts(input);
        let extents = vec![
            ("in_width", width),
            ("in_channels", input / width),
            ("kernel_width", 2),
            ("dilation_width", width),
            ("pad_right", 1),
            ("out_width", 1),
        ];
        Self { hidden: units, output: units, extents }
    }

    /// One or two filters for each channel of a row of pixels, over all of it.
    pub fn depthwise(input: usize, units: usize) -> Self {
        let (width, multiplier) = (Self::parts(input), 1 + units % 2);
        let filters = input / width * multiplier;
        let extents = vec![
            ("in_width", width),
            ("in_channels", input / width),
            ("kernel_width", width),
            ("multiplier", multiplier),
        ];
        Self { hidden: filters, output: filters, extents }
    }

    /// Every pixel of a row with the one before it.
    pub fn pooled(input: usize, _: usize) -> Self {
        let width = Self::parts(input);
        let extents = vec![
            ("in_width", width),
            ("in_channels", input / width),
            ("kernel_width", 2),
            ("pad_left", 1),
            ("out_width", width),
        ];
        Self { hidden: input / width, output: input, extents }
    }

    /// All features but the first two, which are the time.
    pub fn split_timed(input: usize, units: usize) -> Self {
        Self { extents: vec![("features", input - 2)], ..Self::units(input, units) }
    }

    /// As few heads as there can be.
    pub fn heads(_: usize, units: usize) -> Self {
        Self { extents: vec![("heads", Self::parts(units))], ..Self::units(0, units) }
    }

    /// A kernel of 2 x 3 x 2 taps that stands at the ends of all three axes.
    pub fn volume(input: usize, units: usize) -> Self {
        let width = Self::parts(input);
        let height = Self::parts(input / width);
        let depth = Self::parts(input / width / height);
        let lengths = [depth, height, width];
        let mut extents = vec![("in_channels", lengths.iter().fold(input, |rest, length| rest / length))];
        let names = [
            ["in_depth", "kernel_depth", "stride_depth", "pad_front", "pad_back", "out_depth"],
            ["in_height", "kernel_height", "stride_height", "pad_top", "pad_bottom", "out_height"],
            ["in_width", "kernel_width", "stride_width", "pad_left", "pad_right", "out_width"],
        ];
        let mut output = units;
        for ((names, length), kernel) in names.into_iter().zip(lengths).zip([2, 3, 2]) {
            let (stride, positions) = (length.max(2) - 1, length.min(2));
            let (before, after) = ((kernel - 1) / 2, kernel / 2);
            extents.extend(names.into_iter().zip([length, kernel, stride, before, after, positions]));
            output *= positions;
        }
        Self { hidden: units, output, extents }
    }

    /// A pixel of as many channels as there can be beside each pixel of the output; a kernel of three taps.
    pub fn beside(input: usize, units: usize) -> Self {
        let width = Self::parts(input);
        let extents = vec![
            ("in_width", width),
            ("in_channels", input / width),
            ("kernel_width", 3),
            ("pad_left", 1),
            ("pad_right", 1),
            ("out_width", width),
        ];
        Self { hidden: units, output: width * units + input, extents }
    }

    /// Bands of half the features, each half over the next, as wide as `sides` of the units together.
    fn overlapping(input: usize, units: usize, sides: usize) -> Self {
        let size = input.div_ceil(2);
        let hop = size.div_ceil(2);
        let bands = (input - size) / hop + 1;
        let extents = vec![("bands", bands), ("band_size", size), ("band_hop", hop)];
        Self { hidden: units, output: sides * bands * units, extents }
    }

    /// Three bands, one feature of the first and all but one of the second, and else padding.
    fn padded(input: usize, units: usize, sides: usize) -> Self {
        let extents = vec![
            ("bands", 3),
            ("band_size", input),
            ("band_hop", input),
            ("first", 1),
            ("pad_before", input),
            ("pad_after", input + 1),
        ];
        Self { hidden: units, output: sides * 3 * units, extents }
    }

    /// Recurrent weights of half the rank, rounded up.
    pub fn low_rank(_: usize, units: usize) -> Self {
        Self { extents: vec![("rank", units.div_ceil(2))], ..Self::units(0, units) }
    }

    /// The same with half as many features out, rounded up to whole groups.
    pub fn grouped_projected(input: usize, units: usize) -> Self {
        let fit = Self::grouped(input, units);
        let groups = fit.extents.first().map_or(1, |&(_, groups)| groups);
        Self { output: (units / groups).div_ceil(2) * groups, ..fit }
    }

    /// Half as many features out, of which the last three steps' are attended to.
    pub fn attending(input: usize, units: usize) -> Self {
        Self { extents: vec![("length", 3), ("features", input.min(units))], ..Self::projected(input, units) }
    }

    /// Half as many features out, rounded up.
    pub fn projected(_: usize, units: usize) -> Self {
        Self { hidden: units, output: units.div_ceil(2), extents: Vec::new() }
    }
}

/// Those that a cell is tried with: e^x only where nothing has been summed, as it leaves f32 above 88.
fn activations(kind: CellKind) -> impl Iterator<Item = Activation> {
    Activation::ALL.into_iter().filter(move |&known| known != Activation::Exp || kind == CellKind::Activation)
}

impl Variant {
    /// Without numbers, its activations the spec's.
    pub fn new(kind: CellKind, options: &[&'static str]) -> Self {
        let (params, activations) = (BTreeMap::new(), BTreeMap::new());
        Self { kind, options: options.to_vec(), params, activations, fit: Fit::units, width: |input, _| input }
    }

    /// The same with other sizes.
    #[must_use]
    pub fn fit(mut self, fit: fn(usize, usize) -> Fit) -> Self {
        self.fit = fit;
        self
    }

    /// The same with other features in.
    #[must_use]
    pub fn width(mut self, width: fn(usize, usize) -> usize) -> Self {
        self.width = width;
        self
    }

    /// The same with a number.
    #[must_use]
    pub fn param(mut self, name: &str, value: f32) -> Self {
        self.params.insert(name.to_owned(), value);
        self
    }

    /// The same with an activation.
    #[must_use]
    pub fn activation(mut self, name: &str, activation: Activation) -> Self {
        self.activations.insert(name.to_owned(), activation.to_string());
        self
    }

    /// For messages.
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

    /// The kind with its options, the plain one first.
    fn of(kind: CellKind) -> Vec<Self> {
        match kind {
            CellKind::Indrnn
            | CellKind::MinimalRnn
            | CellKind::Cfn
            | CellKind::IndyLstm
            | CellKind::IndyGru
            | CellKind::Mgu
            | CellKind::MinGru
            | CellKind::MinLstm => vec![Self::new(kind, &[])],
            CellKind::AttentionLstm => vec![Self::new(kind, &[]).fit(Fit::attending)],
            CellKind::Intersection => vec![Self::new(kind, &[]).fit(Fit::elementwise)],
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
            CellKind::Slstm => vec![
                Self::new(kind, &[]).fit(Fit::heads),
                Self::new(kind, &["preactivated"]).fit(Fit::heads).width(|_, units| 4 * units),
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
            CellKind::Dense => vec![Self::new(kind, &[]), Self::new(kind, &[]).fit(Fit::grouped)],
            CellKind::Activation => vec![Self::new(kind, &[]).fit(Fit::elementwise)],
            CellKind::LayerNorm => {
                let normalized = |options, fit| Self::new(kind, options).fit(fit).param("epsilon", 1e-3);
                vec![normalized(&[], Fit::elementwise), normalized(&["gain"], Fit::normalized)]
            }
            CellKind::Scale => [&[][..], &["gain"]].map(|options| Self::new(kind, options).fit(Fit::channels)).to_vec(),
            CellKind::Conv => {
                [Fit::streamed, Fit::pixel, Fit::dilated].map(|fit| Self::new(kind, &[]).fit(fit)).to_vec()
            }
            CellKind::ConvLstm => vec![
                Self::new(kind, &[]).fit(Fit::volume),
                Self::new(kind, &["channels_first"]).fit(Fit::volume),
                Self::new(kind, &["skip"]).fit(Fit::beside),
                Self::new(kind, &[]).fit(Fit::dilated),
            ],
            CellKind::DepthwiseConv => vec![Self::new(kind, &[]).fit(Fit::depthwise)],
            CellKind::Pool => {
                [&["max"][..], &["average"]].map(|options| Self::new(kind, options).fit(Fit::pooled)).to_vec()
            }
            // It reads one index, and any weight but those of its row may be wrong.
            CellKind::Embedding => Vec::new(),
            CellKind::Softmax => vec![Self::new(kind, &[]).fit(Fit::elementwise)],
            CellKind::Gru => vec![
                Self::new(kind, &[]),
                Self::new(kind, &["low_rank"]).fit(Fit::low_rank),
                Self::new(kind, &["reset_after", "low_rank"]).fit(Fit::low_rank),
                Self::new(kind, &["reset_after"]),
            ],
            CellKind::Glstm => {
                vec![
                    Self::new(kind, &[]).fit(Fit::grouped),
                    Self::new(kind, &["projection"]).fit(Fit::grouped_projected),
                ]
            }
            CellKind::Nas => {
                vec![Self::new(kind, &[]), Self::new(kind, &["projection"]).fit(Fit::projected)]
            }
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
                let full = subsets.iter().flat_map(with);
                full.chain(Self::normalized_lstm(kind)).chain(low_rank).collect()
            }
            CellKind::Elman | CellKind::Ugrnn => {
                vec![Self::new(kind, &[]), Self::new(kind, &["low_rank"]).fit(Fit::low_rank)]
            }
            CellKind::FastRnn | CellKind::FastGrnn => {
                let numbers: [(&str, f32); 2] = match kind {
                    CellKind::FastRnn => [("alpha", 0.3), ("beta", 0.9)],
                    _ => [("zeta", 0.75), ("nu", 0.125)],
                };
                let given = |variant: Self| numbers.iter().fold(variant, |v, &(name, value)| v.param(name, value));
                vec![given(Self::new(kind, &[])), given(Self::new(kind, &["low_rank"]).fit(Fit::low_rank))]
            }
            CellKind::Window => Vec::new(),
            CellKind::Identity => vec![Self::new(kind, &[]).fit(Fit::elementwise)],
            CellKind::Merge => {
                let options = [&[][..], &["add"], &["multiply"], &["average"], &["maximum"]];
                options.map(|options| Self::new(kind, options).fit(Fit::part)).to_vec()
            }
            CellKind::Last => [&[][..], &["first"]].map(|options| Self::new(kind, options).fit(Fit::row)).to_vec(),
            CellKind::Repeat => vec![Self::new(kind, &[]).fit(Fit::repeated)],
        }
    }

    /// Coupled gates and layer normalization, with the epsilons of TensorFlow, of the baselines, and one that most
    /// variances are small beside.
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

/// Options of [`chain`].
#[derive(Clone, Copy, Debug)]
pub struct Draw {
    /// Weights are uniform in plus and minus this over the square root of the columns.
    pub weights: f32,
    /// Whether optional biases are left out.
    pub biases: bool,
}

/// A model of these cells one after the other: each with its units, from `input_size` features on. A projection
/// halves (rounding up) what comes out. Ports are `in` and `out`, nodes `n0`, `n1`, ..., and what makes the features that
/// `n0` needs is `d0`.
pub fn chain(rng: &mut Rng, input_size: usize, cells: &[(Variant, usize)], draw: Draw) -> Canonical {
    let mut nodes: Vec<Node> = Vec::new();
    let mut tensors = BTreeMap::new();
    let mut size = input_size;
    let dense = Variant::new(CellKind::Dense, &[]);
    for (index, (variant, units)) in cells.iter().enumerate() {
        let width = (variant.width)(size, *units);
        let wider = (width != size).then(|| (format!("d{index}"), &dense, width));
        for (name, variant, units) in wider.into_iter().chain([(format!("n{index}"), variant, *units)]) {
            let fit = (variant.fit)(size, units);
            let node = Node {
                name,
                cell: variant.kind.spec().name.to_owned(),
                inputs: vec![nodes.last().map_or_else(|| "in".to_owned(), |node| node.name.clone())],
                input_size: size,
                hidden_size: fit.hidden,
                output_size: fit.output,
                options: variant.options.iter().map(|&option| option.to_owned()).collect(),
                params: variant.params.clone(),
                activations: variant.activations.clone(),
                extents: fit.extents.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
                unroll: None,
            };
            draw_tensors(rng, &node, variant.kind, draw, &mut tensors);
            size = node.output_size;
            nodes.push(node);
        }
    }
    let from = nodes.last().map(|node| node.name.clone()).unwrap_or_default();
    let architecture = Architecture {
        version: 1,
        source: "tests".to_owned(),
        inputs: vec![port("in", input_size, "")],
        nodes,
        outputs: vec![port("out", size, &from)],
        labels: Vec::new(),
        front_end: None,
        schedule: Schedule::Endless,
        detector: None,
    };
    let model = Canonical { architecture, tensors };
    model.validate().expect("a drawn model is valid");
    model
}

/// A port.
pub fn port(name: &str, size: usize, from: &str) -> Port {
    Port { name: name.to_owned(), size, from: from.to_owned() }
}

/// A state of the model: uniform in ±1, and normalizers, which are never below 1 once they have left 0, in 1 to 2.
pub fn draw_state(rng: &mut Rng, model: &Canonical) -> Vec<f32> {
    let mut values = Vec::new();
    for node in &model.architecture.nodes {
        let spec = CellKind::from_name(&node.cell).expect("a valid model names cells that exist").spec();
        for state in spec.states {
            let len = node.dim(spec, &state.len).expect("a small node's dimensions can be counted");
            let drawn = rng.numbers(len, 1.0).into_iter();
            values.extend(drawn.map(|value| if state.name == "normalizer" { 1.0 + value.abs() } else { value }));
        }
    }
    values
}

/// Every tensor that the node must have, and with `draw.biases` those that it may have. Periods and the parts of them in
/// which a unit is open are in 1/8 to 7/8.
pub fn draw_tensors(rng: &mut Rng, node: &Node, kind: CellKind, draw: Draw, tensors: &mut BTreeMap<String, Tensor>) {
    let spec = kind.spec();
    let size = |dim| node.dim(spec, dim).expect("a small node's dimensions can be counted");
    let options = node.option_bits(spec);
    for tensor in spec.canonical {
        let there = if draw.biases { tensor.presence.allowed(options) } else { tensor.presence.required(options) };
        if !there {
            continue;
        }
        let rows = size(&tensor.rows) * if tensor.gated { spec.gates.len() } else { 1 };
        let shape: Vec<usize> = [Some(rows), tensor.cols.as_ref().map(size)].into_iter().flatten().collect();
        let limit = draw.weights / (tensor.cols.as_ref().map_or(1, size) as f32).sqrt();
        let mut data = rng.numbers(shape.iter().product(), limit);
        if matches!(tensor.name, "period" | "ratio_on") {
            data.iter_mut().for_each(|value| *value = 0.125 + 0.75 * (*value / limit).abs());
        }
        // What a liquid cell divides by is a sum of these.
        if kind == CellKind::Ltc && ["capacitance", "leak", "input_weights", "recurrent_weights"].contains(&tensor.name)
        {
            data.iter_mut().for_each(|value| *value = value.abs());
        }
        tensors.insert(format!("{}.{}", node.name, tensor.name), Tensor { shape, data });
    }
}
