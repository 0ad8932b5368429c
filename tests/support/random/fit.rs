//! Sizes and extents that satisfy the rules of a cell, for any number of input features and units.

/// Sizes of a node.
#[derive(Clone, Debug)]
pub struct Fit {
    /// Number of units.
    pub hidden: usize,
    /// Number of output features.
    pub output: usize,
    /// Extents by name.
    pub extents: Vec<(&'static str, usize)>,
}

impl Fit {
    /// One output feature for each unit.
    pub fn units(_: usize, units: usize) -> Self {
        Self { hidden: units, output: units, extents: Vec::new() }
    }

    /// Half as many output features as units, rounded up.
    pub fn projected(_: usize, units: usize) -> Self {
        Self { hidden: units, output: units.div_ceil(2), extents: Vec::new() }
    }

    /// Projected, with attention over the last three steps.
    pub fn attending(input: usize, units: usize) -> Self {
        Self { extents: vec![("length", 3), ("features", input.min(units))], ..Self::projected(input, units) }
    }

    /// Recurrent weights of half the rank, rounded up.
    pub fn low_rank(_: usize, units: usize) -> Self {
        Self { extents: vec![("rank", units.div_ceil(2))], ..Self::units(0, units) }
    }

    /// As many groups as possible.
    pub fn grouped(input: usize, units: usize) -> Self {
        let groups = (1..=input).rev().find(|&groups| input.is_multiple_of(groups) && units.is_multiple_of(groups));
        Self { extents: vec![("groups", groups.unwrap_or(1))], ..Self::units(input, units) }
    }

    /// Grouped, with half as many output features, rounded up to whole groups.
    pub fn grouped_projected(input: usize, units: usize) -> Self {
        let fit = Self::grouped(input, units);
        let groups = fit.extents.first().map_or(1, |&(_, groups)| groups);
        Self { output: (units / groups).div_ceil(2) * groups, ..fit }
    }

    /// As few heads as possible.
    pub fn heads(_: usize, units: usize) -> Self {
        Self { extents: vec![("heads", Self::parts(units))], ..Self::units(0, units) }
    }

    /// Does not use the cell's optional time input: all inputs are features.
    pub fn untimed(input: usize, units: usize) -> Self {
        Self { extents: vec![("features", input)], ..Self::units(input, units) }
    }

    /// The first input is the time, all others are features.
    pub fn timed(input: usize, units: usize) -> Self {
        Self::untimed(input - 1, units)
    }

    /// The same, unless there is only one input.
    pub fn told(input: usize, units: usize) -> Self {
        if input > 1 { Self::timed(input, units) } else { Self::untimed(input, units) }
    }

    /// The first two inputs are the time, all others are features.
    pub fn split_timed(input: usize, units: usize) -> Self {
        Self { extents: vec![("features", input - 2)], ..Self::units(input, units) }
    }

    /// Adds a backbone with an odd number of units and this number of further layers.
    #[must_use]
    pub fn backbone(mut self, further_layers: usize) -> Self {
        self.extents.push(("backbone_units", self.hidden / 2 * 2 + 1));
        self.extents.push(("further_layers", further_layers));
        self
    }

    /// The matrices read half of the input, rounded up.
    pub fn residual(input: usize, units: usize) -> Self {
        Self { extents: vec![("features", input.div_ceil(2))], ..Self::units(input, units) }
    }

    /// The same, with a highway from the last input features.
    pub fn skipping(input: usize, units: usize) -> Self {
        let mut fit = Self::residual(input, units.min(input));
        fit.extents.push(("skip", input - fit.hidden));
        fit
    }

    /// Bands of half the features that overlap by half, as wide as `sides` of the units together.
    pub fn overlapping(input: usize, units: usize, sides: usize) -> Self {
        let size = input.div_ceil(2);
        let hop = size.div_ceil(2);
        let bands = (input - size) / hop + 1;
        let extents = vec![("bands", bands), ("band_size", size), ("band_hop", hop)];
        Self { hidden: units, output: sides * bands * units, extents }
    }

    /// Three bands: one feature in the first, all but one in the second, and padding elsewhere.
    pub fn padded(input: usize, units: usize, sides: usize) -> Self {
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

    /// One unit for each input feature.
    pub fn elementwise(input: usize, _: usize) -> Self {
        Self::units(input, input)
    }

    /// The least divisor of the number of input features above 1: as few parts as possible.
    fn parts(input: usize) -> usize {
        (2..=input).find(|&parts| input.is_multiple_of(parts)).unwrap_or(1)
    }

    /// One output feature for each feature of one part of the input.
    pub fn part(input: usize, _: usize) -> Self {
        Self::units(input, input / Self::parts(input))
    }

    /// The same, with rows as parts.
    pub fn row(input: usize, _: usize) -> Self {
        Self { extents: vec![("steps", Self::parts(input))], ..Self::part(input, 0) }
    }

    /// Twice the input.
    pub fn repeated(input: usize, _: usize) -> Self {
        Self { extents: vec![("times", 2)], ..Self::units(input, 2 * input) }
    }

    /// One feature more than the input in each of two rows, if the input can be split.
    pub fn gathered(input: usize, _: usize) -> Self {
        let rows = Self::parts(input);
        Self { extents: vec![("rows", rows)], ..Self::units(input, input + rows) }
    }

    /// The last element of every row.
    pub fn sliced(input: usize, _: usize) -> Self {
        let rows = Self::parts(input);
        let row = input / rows;
        Self { extents: vec![("rows", rows), ("row", row), ("first", row - 1)], ..Self::units(input, rows) }
    }

    /// The input of two steps ago.
    pub fn delayed(input: usize, _: usize) -> Self {
        Self { extents: vec![("steps", 2)], ..Self::units(input, input) }
    }

    /// A window of three rows that has an output at every step.
    pub fn recent(input: usize, units: usize) -> Self {
        Self { extents: vec![("length", 3), ("prefill", 2)], ..Self::units(input, units) }
    }

    /// The same, with one or two filters for each channel.
    pub fn recent_channels(input: usize, units: usize) -> Self {
        let multiplier = 1 + units % 2;
        let mut fit = Self::recent(input, input * multiplier);
        fit.extents.push(("multiplier", multiplier));
        fit
    }

    /// One normalized group for each part of the input.
    pub fn normalized(input: usize, _: usize) -> Self {
        Self { extents: vec![("groups", Self::parts(input))], ..Self::units(input, input) }
    }

    /// Interleaved channels.
    pub fn channels(input: usize, _: usize) -> Self {
        Self { extents: vec![("channels", input / Self::parts(input))], ..Self::units(input, input) }
    }

    /// A kernel of three taps along the height, padded at both ends.
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

    /// A kernel of one pixel, in groups.
    pub fn pixel(input: usize, units: usize) -> Self {
        let mut fit = Self::grouped(input, units);
        fit.extents.push(("in_channels", input));
        fit
    }

    /// Two taps with the greatest possible dilation, over a row of pixels.
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

    /// One or two filters for each channel of a row of pixels, with a kernel over the whole row.
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

    /// Each pixel of a row pooled with the one before it.
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

    /// A kernel of 2 x 3 x 2 taps, padded at the ends of all three axes.
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

    /// A pixel with as many channels as possible beside each output pixel; a kernel of three taps.
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
}
