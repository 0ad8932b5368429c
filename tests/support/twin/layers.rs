//! Layers: kernels that move over images, and layers that move or merge values.

use tidegate::internals::activation::Activation;

use super::{MAX, ONE, TwinNode, from_q15, within};

impl TwinNode {
    pub(super) fn extent(&self, name: &str) -> usize {
        let default = usize::from(!name.starts_with("pad") && name != "prefill");
        self.node.extents.get(name).copied().unwrap_or(default)
    }

    /// For every position of the kernel, row by row: the pixel under each tap, or `None` for padding.
    fn seen(&self) -> Vec<Vec<Option<usize>>> {
        let axis = |side: &str, before: &str| {
            let extent = |what: &str| self.extent(&format!("{what}_{side}"));
            let (stride, dilation, padded) = (extent("stride"), extent("dilation"), self.extent(before));
            let (length, kernel, positions) = (extent("in"), extent("kernel"), extent("out"));
            let seen = move |position: usize, tap: usize| {
                (position * stride + tap * dilation).checked_sub(padded).filter(|&at| at < length)
            };
            (positions, kernel, length, seen)
        };
        let (rows, row_taps, _, row) = axis("height", "pad_top");
        let (cols, col_taps, width, col) = axis("width", "pad_left");
        let mut all = Vec::new();
        for (y, x) in (0..rows).flat_map(|y| (0..cols).map(move |x| (y, x))) {
            let taps = (0..row_taps).flat_map(|a| (0..col_taps).map(move |b| (a, b)));
            all.push(taps.map(|(a, b)| Some(row(y, a)? * width + col(x, b)?)).collect());
        }
        all
    }

    /// A convolution with grouped filters, each over the channels of its group.
    pub(super) fn conv(&self, x: &[i64], groups: usize) -> Vec<i64> {
        let channels = self.extent("in_channels");
        let (of_group, filters) = (channels / groups, self.node.hidden_size / groups);
        let mut y = Vec::new();
        for taps in self.seen() {
            for filter in 0..self.node.hidden_size {
                let first = filter / filters * of_group;
                let operand = taps.iter().flat_map(|pixel| {
                    (first..first + of_group).map(move |channel| pixel.map_or(0, |pixel| x[pixel * channels + channel]))
                });
                let sum = self.single("rows", ("weights", &operand.collect::<Vec<_>>()), filter);
                y.push(self.activate("activation", sum).clamp(-MAX, MAX));
            }
        }
        y
    }

    pub(super) fn pool(&self, x: &[i64]) -> Vec<i64> {
        let channels = self.extent("in_channels");
        let mut y = Vec::new();
        for taps in self.seen() {
            for channel in 0..channels {
                let values: Vec<i64> = taps.iter().flatten().map(|pixel| x[pixel * channels + channel]).collect();
                let count = values.len();
                if self.has("max") {
                    y.push(*values.iter().max().expect("the kernel overlaps the image"));
                    continue;
                }
                let lift = 16 - count.next_power_of_two().ilog2();
                let sum = within(values.iter().sum::<i64>() << lift);
                let mean = (sum * ((1 << 30) / count as i64)) >> 32;
                y.push((mean + (1 << (lift - 3))) >> (lift - 2));
            }
        }
        y
    }

    pub(super) fn merge(&self, x: &[i64]) -> Vec<i64> {
        let size = self.node.output_size;
        let multipliers = &self.vectors["multipliers"];
        let unit = |unit: usize| {
            let parts: Vec<i64> = x.chunks(size).map(|part| part[unit]).collect();
            let scaled: Vec<i64> = parts
                .iter()
                .zip(multipliers)
                .map(|(part, multiplier)| within(((part << 16) * multiplier) >> 32))
                .collect();
            if self.has("blend") {
                let value = |part: usize| whole(scaled[part]).clamp(-MAX, MAX);
                let share = whole(scaled[2]).clamp(0, ONE);
                return from_q15(within(value(0) * share + value(1) * (ONE - share)));
            }
            let sum = if self.has("norm") {
                scaled.iter().map(|part| part * part).sum::<i64>().isqrt()
            } else if self.has("maximum") {
                *scaled.iter().max().expect("there is a part")
            } else if self.has("multiply") && parts.len() > 1 {
                let (last, rest) = parts.split_last().expect("there is a part");
                let product =
                    rest.iter().copied().reduce(|product, part| from_q15(product * part)).expect("there are two parts");
                (within(product * last * 2) * multipliers[0]) >> 32
            } else if self.has("subtract") {
                within(scaled[0] - scaled[1])
            } else {
                within(scaled.iter().sum())
            };
            whole(sum).clamp(-MAX, MAX)
        };
        (0..size).map(unit).collect()
    }

    pub(super) fn identity(&self, x: &[i64]) -> Vec<i64> {
        let multiplier = self.number("multiplier");
        // A multiplier of 2^24 keeps the value.
        x.iter().map(|x| whole(((x << 16) * multiplier) >> 32).clamp(-MAX, MAX)).collect()
    }

    pub(super) fn activation_layer(&self, x: &[i64]) -> Vec<i64> {
        let keeps = matches!(self.activation("activation"), Activation::Identity | Activation::Relu);
        let sum = |x: &i64| if keeps { *x } else { ((x << 16) * self.number("multiplier")) >> 32 };
        x.iter().map(|x| self.activate("activation", sum(x)).clamp(-MAX, MAX)).collect()
    }

    pub(super) fn scale(&self, x: &[i64]) -> Vec<i64> {
        let channels = self.extent("channels");
        let (multipliers, addends) = (&self.vectors["multipliers"], &self.vectors["addends"]);
        let unit = |(at, x): (usize, &i64)| {
            let scaled = within(((x << 16) * multipliers[at % channels]) >> 32);
            whole(within(scaled + addends[at % channels])).clamp(-MAX, MAX)
        };
        x.iter().enumerate().map(unit).collect()
    }

    pub(super) fn layer_norm(&self, x: &[i64]) -> Vec<i64> {
        let (multipliers, addends) = (&self.vectors["multipliers"], &self.vectors["addends"]);
        let size = x.len() / self.extent("groups");
        let normal = x.chunks(size).flat_map(|group| self.normalized(group, 0, self.has("rms")));
        let unit = |(at, n): (usize, i64)| {
            let scaled = (within(n) * multipliers[at]) >> 32;
            whole(within(scaled + addends[at])).clamp(-MAX, MAX)
        };
        normal.enumerate().map(unit).collect()
    }

    pub(super) fn embedding(&self, x: &[i64]) -> Vec<i64> {
        let index =
            whole(((x[0] << 16) * self.number("multiplier")) >> 32).clamp(0, self.extent("vocabulary") as i64 - 1);
        let row = self.rows["rows"][index as usize];
        let weights = &self.weights["weights"][index as usize];
        let value = |weight: &i64| (within(row.start + (weight << 15)) * row.multiplier) >> 32;
        weights.iter().map(|weight| value(weight).clamp(-MAX, MAX)).collect()
    }

    pub(super) fn last(&self, x: &[i64], valid: usize) -> Vec<i64> {
        let row = if self.has("first") { 0 } else { valid.min(self.extent("steps")) - 1 };
        x.chunks(self.node.output_size).nth(row).expect("the row exists").to_vec()
    }

    /// The rows of a window, once they are all present.
    pub(super) fn window(&mut self, x: Vec<i64>) -> Option<Vec<Vec<i64>>> {
        let (length, hop, partial) = (self.extent("length"), self.extent("hop"), self.has("partial"));
        let prefill = self.extent("prefill");
        let (rows, wait) = &mut self.window;
        if rows.is_empty() {
            rows.extend(vec![vec![0; x.len()]; prefill]);
        }
        let full = rows.len() == length;
        if full {
            rows.pop_front();
        }
        rows.push_back(x);
        if rows.len() < length {
            return None;
        }
        *wait = if full { *wait - 1 } else { 0 };
        if *wait > 0 {
            return None;
        }
        *wait = hop;
        let all = rows.iter().cloned().collect();
        if partial {
            rows.clear();
        }
        Some(all)
    }
}

/// A rescaled value without its 8 fraction bits: rounded to nearest, halves up.
fn whole(rescaled: i64) -> i64 {
    (rescaled + 128) >> 8
}
