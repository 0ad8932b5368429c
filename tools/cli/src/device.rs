//! A model on a microcontroller, before flashing: time, stack and RAM on a core, from recorded figures.

use serde_json::{Value, json};
use tidegate::{Layout, Model};
use tidegate_model::cost::{Cost, Costs};

use crate::plot::Part;

/// A kind of core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Core {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its name in the recorded figures.
    figures: &'static str,
    /// The feature of the crate `tidegate` with its kernels, or an empty string.
    pub feature: &'static str,
    /// The layout of its own kernels.
    pub layout: Layout,
    /// Whether the record models its cycles. Other cores issue several instructions in a cycle, or have no table.
    has_cycles: bool,
}

/// Whether a core with the kernels for `own` runs images in another layout.
pub fn runs(own: Layout, layout: Layout) -> bool {
    // The kernels for Helium include those of the DSP extension.
    let is_dsp = layout == Layout::CortexM4 && own == Layout::CortexM55;
    layout == Layout::Portable || layout == own || is_dsp
}

const fn core(
    name: &'static str,
    figures: &'static str,
    feature: &'static str,
    layout: Layout,
    has_cycles: bool,
) -> Core {
    Core { name, figures, feature, layout, has_cycles }
}

/// Every core with figures. A Cortex-M7 and an M33 have the figures of the Cortex-M4, whose instructions they execute.
pub const CORES: [Core; 8] = [
    core("cortex-m0", "m0plus", "", Layout::CortexM0, true),
    core("cortex-m0plus", "m0plus", "", Layout::CortexM0, true),
    core("cortex-m3", "m3", "thumb2", Layout::Portable, true),
    core("cortex-m4", "m4", "dsp", Layout::CortexM4, true),
    core("cortex-m7", "m4", "dsp", Layout::CortexM4, false),
    core("cortex-m33", "m4", "dsp", Layout::CortexM4, false),
    core("cortex-m55", "m55", "mve", Layout::CortexM55, false),
    core("riscv32", "rv32", "", Layout::Portable, false),
];

/// A model on a core.
#[derive(Clone, Debug)]
pub struct OnDevice {
    core: Core,
    mhz: Option<f64>,
    cost: Cost,
    /// Milliseconds from step to step.
    every_ms: Option<f64>,
    /// Bytes of state, scratch, front end and detector.
    memory: [usize; 4],
    /// Bytes of the image.
    image: usize,
}

impl OnDevice {
    /// Estimates the costs. `every_ms` is the time from step to step of a model without a front end.
    ///
    /// # Errors
    /// In words, if firmware for the core cannot run the image.
    pub fn new(
        core: Core,
        mhz: Option<f64>,
        every_ms: Option<f64>,
        (model, memory, image): (&Model<'_>, [usize; 4], usize),
    ) -> Result<Self, String> {
        let layout = model.layout();
        if !runs(core.layout, layout) {
            let (has, name) = (layout.name(), core.name);
            let fits = core.layout.name();
            return Err(format!(
                "its weights have the layout of {has}, which firmware for {name} does not run: pack the model again with --for {fits}"
            ));
        }
        let costs =
            Costs::from_json(include_str!("../costs.json")).map_err(|error| format!("the recorded costs: {error}"))?;
        let cost = costs.of(model, core.figures).ok_or_else(|| format!("no costs of {} are recorded", core.figures))?;
        let of_frames = model.front_end().map(|front_end| {
            let settings = front_end.settings();
            1e3 * f64::from(settings.stride_len) / f64::from(settings.sample_rate)
        });
        Ok(Self { core, mhz, cost, every_ms: of_frames.or(every_ms), memory, image })
    }

    /// Instructions from one step to the next, those of the front end included.
    fn instructions(&self) -> f64 {
        self.cost.step + self.cost.front_end
    }

    /// Modelled cycles of a step without the front end, or one for each instruction.
    fn cycles(&self) -> (f64, bool) {
        match self.cost.cycles.filter(|_| self.core.has_cycles) {
            Some(cycles) => (cycles * self.instructions() / self.cost.step.max(1.0), true),
            None => (self.instructions(), false),
        }
    }

    /// Milliseconds of a step with its front end.
    pub fn milliseconds(&self) -> Option<f64> {
        self.mhz.map(|mhz| self.cycles().0 / (1e3 * mhz))
    }

    /// Milliseconds of the longest step with its front end.
    fn longest_ms(&self) -> Option<f64> {
        let all = (self.cost.longest + self.cost.front_end) / self.instructions().max(1.0);
        self.milliseconds().map(|milliseconds| milliseconds * all)
    }

    /// The part of the time that the core is busy.
    pub fn share(&self) -> Option<f64> {
        self.milliseconds().zip(self.every_ms).map(|(busy, every)| busy / every)
    }

    /// All RAM with the stack of a step.
    fn ram(&self) -> u64 {
        self.memory.iter().map(|&bytes| bytes as u64).sum::<u64>() + self.cost.stack
    }

    /// A warning if the steps take longer than the time between them, or if parts are unknown.
    pub fn warnings(&self) -> Vec<String> {
        let mut all = Vec::new();
        if let Some(share) = self.share().filter(|&share| share > 1.0) {
            let (busy, every) = (self.milliseconds().unwrap_or_default(), self.every_ms.unwrap_or_default());
            all.push(format!(
                "too slow: a step takes {busy:.1} ms every {every:.1} ms, {share:.1} times as long as there is"
            ));
        }
        if let Some((longest, every)) = self.longest_ms().zip(self.every_ms)
            && all.is_empty()
            && longest > every
        {
            all.push(format!(
                "the longest step takes {longest:.1} ms, more than the {every:.1} ms between steps: keep the input that arrives \
                 meanwhile in a queue"
            ));
        }
        if !self.cost.unknown.is_empty() {
            all.push(format!("no costs are recorded of {}: they are left out", self.cost.unknown.join(", ")));
        }
        all
    }

    /// Lines of text.
    pub fn lines(&self) -> Vec<String> {
        let n = |value: f64| crate::grouped(value.round() as usize);
        let Core { name, feature, .. } = self.core;
        let feature = if feature.is_empty() { "no feature".to_owned() } else { format!("feature {feature}") };
        let clock = self.mhz.map_or_else(String::new, |mhz| format!(" at {mhz} MHz"));
        let mut lines = vec![format!("device   {name}{clock}, {feature} (estimates from recorded counts)")];
        let sound = if self.cost.front_end > 0.0 {
            format!(" and {} of the front end", n(self.cost.front_end))
        } else {
            String::new()
        };
        // Between windows most steps are short.
        let varies = self.cost.longest > 1.01 * self.cost.step;
        let average = if varies { " on average" } else { "" };
        lines.push(format!(
            "time     {} instructions a step{average}{sound}, built with opt-level 3",
            n(self.cost.step)
        ));
        if varies {
            lines.push(format!("         {} instructions in the longest step", n(self.cost.longest)));
        }
        let (cycles, modelled) = self.cycles();
        if modelled {
            let of = if sound.is_empty() { format!("a step{average}") } else { "for both together".to_owned() };
            lines.push(format!("         {} cycles {of}, modelled by the core's table", n(cycles)));
        }
        if let Some(busy) = self.milliseconds() {
            let assumed = if modelled { "" } else { " at one cycle an instruction" };
            let share = self.share().zip(self.every_ms);
            let share = share
                .map_or_else(String::new, |(share, every)| format!(", {:.1} % of every {every} ms", 100.0 * share));
            let longest = self.longest_ms().filter(|_| varies);
            let longest = longest.map_or_else(String::new, |longest| format!("; {longest:.3} ms in the longest step"));
            lines.push(format!("         {busy:.3} ms{assumed}{share}{longest}"));
        }
        lines.push(format!(
            "flash    {} bytes: the image, and {} bytes of code and tables for the step, its layers, front end and detector",
            crate::grouped(self.image + self.cost.code as usize),
            crate::grouped(self.cost.code as usize)
        ));
        let stack = self.cost.stack as usize;
        lines.push(format!(
            "all RAM  {} bytes, with {} bytes of stack for a step",
            crate::grouped(self.ram() as usize),
            crate::grouped(stack)
        ));
        lines
    }

    /// What fills flash and RAM.
    pub fn parts(&self) -> Vec<Part> {
        let names = ["state", "scratch", "front end", "detector"];
        let image = Part { name: "image", bytes: self.image, in_ram: false };
        let code = Part { name: "code", bytes: self.cost.code as usize, in_ram: false };
        let memory = names.into_iter().zip(self.memory).map(|(name, bytes)| Part { name, bytes, in_ram: true });
        let stack = Part { name: "stack of a step", bytes: self.cost.stack as usize, in_ram: true };
        [image, code].into_iter().chain(memory).chain([stack]).collect()
    }

    /// The same as JSON.
    pub fn to_json(&self) -> Value {
        let (cycles, modelled) = self.cycles();
        json!({
            "core": self.core.name,
            "feature": self.core.feature,
            "mhz": self.mhz,
            "instructions_per_step": self.cost.step.round(),
            "longest_step_instructions": self.cost.longest.round(),
            "front_end_instructions": self.cost.front_end.round(),
            "modelled_cycles": modelled.then(|| cycles.round()),
            "milliseconds": self.milliseconds(),
            "every_ms": self.every_ms,
            "share": self.share(),
            "stack_bytes": self.cost.stack,
            "ram_bytes": self.ram(),
            "code_bytes": self.cost.code,
            "image_bytes": self.image,
            "flash_bytes": self.image as u64 + self.cost.code,
            "without_figures": self.cost.unknown,
        })
    }
}
