//! The files of a project, by the kind of its board.

use tidegate::{Model, Numeric};
use tidegate_model::c_header;

use super::board::{Board, Machine, Microphone};
use super::template::{File, library, render, runtime};

/// The parts of a project.
pub struct Project<'a> {
    pub name: &'a str,
    pub board: &'static Board,
    pub model: &'a Model<'a>,
    pub image: &'a [u8],
    /// Samples for a model with a front end, if the board has no microphone.
    pub recording: &'a [i16],
    pub is_async: bool,
}

/// Start-up code.
const ARM: &str = r#"cortex-m-rt = "0.7.7""#;
const RISCV: &str = r#"riscv-rt = { version = "0.18", features = ["memory", "single-hart"] }"#;
/// Critical sections, which tasks need.
const ARM_SECTIONS: &str = r#"cortex-m = { version = "0.7.7", features = ["critical-section-single-core"] }"#;
const RISCV_SECTIONS: &str = r#"riscv = { version = "0.16", features = ["critical-section-single-hart"] }"#;

/// The program that flashes a board of embassy, and its hardware.
const PROBE: &str = "probe-rs (<https://probe.rs>) with a debug probe, connected to\nSWDIO, SWCLK and ground";

impl Project<'_> {
    /// All files of a project in Rust.
    pub fn rust(&self) -> Vec<File> {
        let mut files = self.common();
        files.extend(runtime());
        let variables = self.variables();
        let mut add = |path: &str, template: &str| {
            files.push((path.to_owned(), render(template, &variables).into_bytes()));
        };
        let kind = if self.model.front_end().is_some() { "sound" } else { "features" };
        add("src/network.rs", &format!("{kind}/network.rs"));
        match self.board.machine {
            Machine::Qemu { memory, .. } => {
                add("Cargo.toml", "qemu/manifest.toml");
                add(".cargo/config.toml", "qemu/cargo-config.toml");
                add("memory.x", &format!("boards/{memory}.x"));
                add("build.rs", "qemu/build.rs");
                add("src/main.rs", if self.is_async { "qemu/main_async.rs" } else { "qemu/main.rs" });
                add("src/print.rs", "qemu/print.rs");
                add("tests/twin.rs", "qemu/twin.rs");
                add("README.md", "qemu/README.md");
            }
            Machine::Embassy { program, .. } => {
                add("Cargo.toml", "embassy/manifest.toml");
                add(".cargo/config.toml", "embassy/cargo-config.toml");
                add("memory.x", &format!("boards/{}.x", self.board.name));
                add("src/main.rs", "embassy/main.rs");
                add("README.md", "embassy/README.md");
                if let Some(microphone) = self.microphone() {
                    add("src/board.rs", microphone.template);
                } else {
                    add("src/board.rs", &format!("boards/{program}.rs"));
                    add("src/sense.rs", "embassy/sense.rs");
                }
            }
            Machine::Esp => {
                add("Cargo.toml", "esp/manifest.toml");
                add(".cargo/config.toml", "esp/cargo-config.toml");
                add("src/main.rs", self.microphone().map_or("esp/main.rs", |microphone| microphone.template));
                add("README.md", "esp/README.md");
            }
        }
        if self.microphone().is_none() {
            add("src/source.rs", &format!("{kind}/source.rs"));
        }
        files
    }

    fn microphone(&self) -> Option<&'static Microphone> {
        self.board.microphone(self.model)
    }

    /// The HAL's line in Cargo.toml.
    fn hal(&self) -> &'static str {
        match self.board.machine {
            Machine::Embassy { hal, .. } => hal,
            Machine::Qemu { .. } | Machine::Esp => "",
        }
    }

    /// All files of a project in C.
    pub fn c(&self) -> Vec<File> {
        let mut files = self.common();
        files.extend(runtime());
        files.extend(library());
        let header = c_header::header("model", self.model, self.image.len());
        files.push(("model.h".into(), header.into_bytes()));
        let Machine::Qemu { memory, .. } = self.board.machine else { return files };
        let kind = if self.model.front_end().is_some() { "sound" } else { "features" };
        let startup = if self.board.is_arm() { "arm" } else { "riscv" };
        let variables = self.variables();
        let mut add = |path: &str, template: &str| {
            files.push((path.to_owned(), render(template, &variables).into_bytes()));
        };
        for name in ["CMakeLists.txt", "CMakePresets.json", "README.md", "board.h", "board.ld", "main.c", "network.h"] {
            add(name, &format!("c/{name}"));
        }
        add("toolchain.cmake", "c/toolchain.cmake");
        add("network.c", &format!("c/network_{kind}.c"));
        add("source.c", &format!("c/source_{kind}.c"));
        add("source.h", &format!("c/source_{kind}.h"));
        add("console.c", "c/console.c");
        add("startup.c", &format!("c/startup_{startup}.c"));
        add("memory.x", &format!("boards/{memory}.x"));
        files
    }

    /// The files that every project has.
    fn common(&self) -> Vec<File> {
        let mut files = vec![
            ("model.tgi".to_owned(), self.image.to_vec()),
            (".gitignore".to_owned(), render("gitignore", &[]).into_bytes()),
            ("rust-toolchain.toml".to_owned(), render("rust-toolchain.toml", &self.variables()).into_bytes()),
        ];
        if !self.recording.is_empty() {
            let bytes = self.recording.iter().flat_map(|sample| sample.to_le_bytes()).collect();
            files.push(("recording.i16".to_owned(), bytes));
        }
        files
    }

    /// The values of the variables in the templates.
    fn variables(&self) -> Vec<(&'static str, String)> {
        let Board { core, about, .. } = self.board;
        let (is_arm, kernels) = (self.board.is_arm(), core.kernels);
        let quoted = |flags: &[&str]| flags.iter().map(|flag| format!("{flag:?}")).collect::<Vec<_>>().join(", ");
        let mut features: Vec<&str> = [kernels].into_iter().filter(|kernels| !kernels.is_empty()).collect();
        if matches!(self.board.machine, Machine::Embassy { .. }) {
            features.push("defmt");
        }
        let features =
            if features.is_empty() { String::new() } else { format!(", features = [{}]", quoted(&features)) };
        let c_features = if kernels.is_empty() { "image".to_owned() } else { format!("image,{kernels}") };
        let mut rustflags = vec!["-C", "link-arg=-Tlink.x", "-C", "link-arg=--nmagic"];
        if let Machine::Embassy { link, .. } = self.board.machine {
            rustflags.extend(link.iter().chain(&["link-arg=-Tdefmt.x"]).flat_map(|script| ["-C", script]));
        }
        let cpu = format!("target-cpu={}", core.cpu);
        if !core.cpu.is_empty() {
            rustflags.splice(0..0, ["-C", &cpu]);
        }
        let mut runtime = vec![if is_arm { ARM } else { RISCV }];
        let is_qemu = matches!(self.board.machine, Machine::Qemu { .. });
        // A chip with two cores has its own critical sections.
        if !is_qemu && !self.hal().contains("critical-section-impl") || self.is_async && is_qemu {
            runtime.insert(0, if is_arm { ARM_SECTIONS } else { RISCV_SECTIONS });
        }
        let executor = format!(
            "embassy-executor = {{ version = \"0.10\", features = [\"executor-thread\", \"platform-{}\"] }}",
            if is_arm { "cortex-m" } else { "riscv32" }
        );
        if self.is_async && is_qemu {
            runtime.extend([&executor, "embassy-sync = \"0.8\""]);
        }
        let qemu = match self.board.machine {
            Machine::Qemu { arguments, .. } => {
                format!("qemu-system-{arguments} -nographic -semihosting-config enable=on,target=native -kernel")
            }
            Machine::Embassy { .. } | Machine::Esp => String::new(),
        };
        let numeric = self.model.numeric();
        let layout = self.model.layout().name();
        let pack = match numeric {
            Numeric::F32 | Numeric::F16 => format!(" --numeric {}", numeric.name()),
            _ if numeric.needs_ranges() && self.model.front_end().is_none() => {
                format!(" --numeric {} --for {layout} --calibrate DATA", numeric.name())
            }
            _ => format!(" --numeric {} --for {layout}", numeric.name()),
        };
        let (chip, led) = match self.board.machine {
            Machine::Embassy { chip, led, .. } => (chip, led),
            Machine::Qemu { .. } | Machine::Esp => ("", ""),
        };
        let (emulator, package) = self.board.emulator().unwrap_or_default();
        let is_esp = matches!(self.board.machine, Machine::Esp);
        let (modules, input) = match (self.model.front_end(), self.microphone()) {
            (_, Some(microphone)) => {
                let file = if is_esp { "src/main.rs" } else { "src/board.rs" };
                ("", format!("The input is {}: its pins are in `{file}`.", microphone.about))
            }
            (Some(front_end), None) => {
                let rate = front_end.settings().sample_rate;
                let samples =
                    format!("a recording. Replace it with your microphone: mono samples of 16 bits, {rate} a second.");
                ("mod sense;\nmod source;", format!("`src/source.rs` is the input, a stand-in: {samples}"))
            }
            (None, None) => (
                "mod sense;\nmod source;",
                "`src/source.rs` is the input, a stand-in: replace it with your sensor.".to_owned(),
            ),
        };
        // A microphone is read in a task that interrupts the network. The driver of I2S is not yet stable in esp-hal.
        let (executors, esp_features): (&[&str], &[&str]) = match self.microphone() {
            Some(_) => (&["executor-interrupt", "executor-thread"], &["esp32c3", "unstable"]),
            None => (&["executor-thread"], &["esp32c3"]),
        };
        vec![
            ("chip", chip.to_owned()),
            ("hal", self.hal().to_owned()),
            ("led", led.to_owned()),
            ("executors", quoted(executors)),
            ("esp_features", quoted(esp_features)),
            ("source_modules", modules.to_owned()),
            ("input", input),
            ("flasher", if is_esp { "espflash" } else { PROBE }.to_owned()),
            ("name", self.name.to_owned()),
            ("board", self.board.name.to_owned()),
            ("about", about.to_string()),
            ("target", core.target.to_owned()),
            ("features", features),
            ("runtime", runtime.join("\n")),
            ("rustflags", quoted(&rustflags)),
            ("entry", if is_arm { "cortex_m_rt::entry" } else { "riscv_rt::entry" }.to_owned()),
            ("sections", if is_arm { "cortex_m" } else { "riscv" }.to_owned()),
            ("qemu", qemu),
            ("emulator", emulator.to_owned()),
            ("package", package.to_owned()),
            ("pack", pack),
            ("c_features", c_features),
            ("c_environment", if core.cpu.is_empty() { String::new() } else { format!("RUSTFLAGS=-C{cpu}") }),
            ("c_entry", if is_arm { "Reset_Handler" } else { "reset" }.to_owned()),
            ("text_at", if kernels == "mve" { "_stext " } else { "" }.to_owned()),
            ("gcc", if is_arm { "arm-none-eabi-gcc" } else { "riscv64-unknown-elf-gcc" }.to_owned()),
            ("gcc_package", if is_arm { "gcc-arm-none-eabi" } else { "gcc-riscv64-unknown-elf" }.to_owned()),
            ("gcc_flags", core.gcc.to_owned()),
        ]
    }
}
