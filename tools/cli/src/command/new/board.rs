//! The boards of `new`: cores, memories, and what their templates need.

use clap::ValueEnum;
use clap::builder::PossibleValue;
use tidegate::{Layout, Model};
use tidegate_tools::device::runs;

/// A board.
#[derive(Debug)]
pub struct Board {
    pub name: &'static str,
    /// For people: the core and the board.
    pub about: &'static str,
    pub core: Core,
    /// Bytes of flash and of RAM.
    pub flash: usize,
    pub ram: usize,
    pub machine: Machine,
    pub microphone: Option<Microphone>,
}

/// A microphone with a driver in a template.
#[derive(Debug)]
pub struct Microphone {
    /// For people.
    pub about: &'static str,
    /// The template that takes the place of the one without a microphone.
    pub template: &'static str,
    /// The sample rates of its clock; empty for all.
    pub rates: &'static [u32],
}

/// A core: the target of its code, and the kernels and weights for it.
#[derive(Debug)]
pub struct Core {
    pub target: &'static str,
    /// The feature of the runtime with kernels for the core, or an empty string.
    pub kernels: &'static str,
    /// The `target-cpu` that these kernels need, or an empty string.
    pub cpu: &'static str,
    pub layout: Layout,
    /// Flags of arm-none-eabi-gcc or riscv64-unknown-elf-gcc.
    pub gcc: &'static str,
}

/// The machine or chip that runs the program.
#[derive(Debug)]
pub enum Machine {
    /// A machine of QEMU, and the file with its memories.
    Qemu { arguments: &'static str, memory: &'static str },
    /// A chip with a HAL of embassy, flashed by probe-rs under its name `chip`.
    Embassy {
        chip: &'static str,
        /// The HAL's line in Cargo.toml.
        hal: &'static str,
        /// The template of `board.rs`.
        program: &'static str,
        /// The HAL's name of the LED's pin.
        led: &'static str,
        /// Flags of rustc beside the usual ones.
        link: &'static [&'static str],
    },
    /// A chip with a HAL of Espressif, flashed by espflash.
    Esp,
}

const M0: Core = Core {
    target: "thumbv6m-none-eabi",
    kernels: "",
    cpu: "",
    layout: Layout::CortexM0,
    gcc: "-mcpu=cortex-m0plus -mthumb",
};
const M4: Core = Core {
    target: "thumbv7em-none-eabihf",
    kernels: "dsp",
    cpu: "",
    layout: Layout::CortexM4,
    gcc: "-mcpu=cortex-m4 -mthumb -mfloat-abi=hard -mfpu=fpv4-sp-d16",
};
const M33: Core = Core {
    target: "thumbv8m.main-none-eabihf",
    kernels: "dsp",
    cpu: "cortex-m33",
    layout: Layout::CortexM4,
    gcc: "-mcpu=cortex-m33 -mthumb -mfloat-abi=hard -mfpu=fpv5-sp-d16",
};
const M55: Core = Core {
    target: "thumbv8m.main-none-eabihf",
    kernels: "mve",
    cpu: "cortex-m55",
    layout: Layout::CortexM55,
    gcc: "-mcpu=cortex-m55 -mthumb -mfloat-abi=hard",
};
const RV32IMAC: Core = Core {
    target: "riscv32imac-unknown-none-elf",
    kernels: "",
    cpu: "",
    layout: Layout::Portable,
    gcc: "-march=rv32imac_zicsr -mabi=ilp32 -mcmodel=medany",
};
const RV32IMC: Core = Core { target: "riscv32imc-unknown-none-elf", ..RV32IMAC };

const MIB: usize = 1 << 20;
const KIB: usize = 1 << 10;

/// Every board.
pub static ALL: [Board; 10] = [
    Board {
        name: "qemu-m4",
        about: "a Cortex-M4F in QEMU's mps2-an386",
        core: M4,
        flash: 4 * MIB,
        ram: 4 * MIB,
        machine: Machine::Qemu { arguments: "arm -machine mps2-an386 -cpu cortex-m4", memory: "mps2" },
        microphone: None,
    },
    Board {
        name: "qemu-m0",
        // QEMU has no board with a Cortex-M0+.
        about: "code for a Cortex-M0+, run by the Cortex-M3 of QEMU's mps2-an385",
        core: M0,
        flash: 4 * MIB,
        ram: 4 * MIB,
        machine: Machine::Qemu { arguments: "arm -machine mps2-an385 -cpu cortex-m3", memory: "mps2" },
        microphone: None,
    },
    Board {
        name: "qemu-m55",
        about: "a Cortex-M55 in QEMU's mps3-an547",
        core: M55,
        flash: 2 * MIB,
        ram: 4 * MIB,
        machine: Machine::Qemu { arguments: "arm -machine mps3-an547 -cpu cortex-m55", memory: "mps3_an547" },
        microphone: None,
    },
    Board {
        name: "qemu-riscv",
        about: "an RV32IMAC in QEMU's virt",
        core: RV32IMAC,
        flash: 4 * MIB,
        ram: 4 * MIB,
        machine: Machine::Qemu { arguments: "riscv32 -machine virt -cpu rv32 -bios none", memory: "virt" },
        microphone: None,
    },
    Board {
        name: "nrf52840",
        about: "nRF52840 (Cortex-M4F, 64 MHz)",
        core: M4,
        flash: MIB,
        ram: 256 * KIB,
        machine: Machine::Embassy {
            chip: "nRF52840_xxAA",
            hal: r#"embassy-nrf = { version = "0.11", features = ["defmt", "gpiote", "nrf52840", "time-driver-rtc1"] }"#,
            program: "nrf52840",
            led: "P0_13",
            link: &[],
        },
        microphone: Some(Microphone {
            about: "a PDM microphone",
            template: "boards/nrf52840_sound.rs",
            rates: &[16_000],
        }),
    },
    Board {
        name: "rp2040",
        about: "Raspberry Pi Pico (RP2040, Cortex-M0+, 125 MHz)",
        core: M0,
        flash: 2 * MIB,
        ram: 256 * KIB,
        machine: Machine::Embassy {
            chip: "RP2040",
            hal: r#"embassy-rp = { version = "0.10", features = ["critical-section-impl", "defmt", "rp2040", "time-driver"] }"#,
            program: "rp",
            led: "PIN_25",
            link: &["link-arg=-Tlink-rp.x"],
        },
        microphone: Some(Microphone { about: "an I2S microphone", template: "boards/rp_sound.rs", rates: &[] }),
    },
    Board {
        name: "rp2350",
        about: "Raspberry Pi Pico 2 (RP2350, Cortex-M33, 150 MHz)",
        core: M33,
        flash: 4 * MIB,
        ram: 512 * KIB,
        machine: Machine::Embassy {
            chip: "RP235x",
            hal: r#"embassy-rp = { version = "0.10", features = ["critical-section-impl", "defmt", "rp235xa", "time-driver"] }"#,
            program: "rp",
            led: "PIN_25",
            link: &[],
        },
        microphone: Some(Microphone { about: "an I2S microphone", template: "boards/rp_sound.rs", rates: &[] }),
    },
    Board {
        name: "stm32f4",
        about: "STM32 Nucleo-F411RE (Cortex-M4F)",
        core: M4,
        flash: 512 * KIB,
        ram: 128 * KIB,
        machine: Machine::Embassy {
            chip: "STM32F411RETx",
            hal: r#"embassy-stm32 = { version = "0.6", features = ["defmt", "stm32f411re", "time-driver-any"] }"#,
            program: "stm32",
            led: "PA5",
            link: &[],
        },
        microphone: Some(Microphone {
            about: "an I2S microphone",
            template: "boards/stm32f4_sound.rs",
            rates: &[8_000, 16_000],
        }),
    },
    Board {
        name: "stm32h7",
        about: "STM32 Nucleo-H743ZI (Cortex-M7F)",
        core: M4,
        flash: 2 * MIB,
        ram: 512 * KIB,
        machine: Machine::Embassy {
            chip: "STM32H743ZITx",
            hal: r#"embassy-stm32 = { version = "0.6", features = ["defmt", "stm32h743zi", "time-driver-any"] }"#,
            program: "stm32",
            led: "PB0",
            link: &[],
        },
        microphone: None,
    },
    Board {
        name: "esp32c3",
        about: "ESP32-C3 (RV32IMC, 160 MHz)",
        core: RV32IMC,
        flash: 4 * MIB,
        ram: 320 * KIB,
        machine: Machine::Esp,
        microphone: Some(Microphone { about: "an I2S microphone", template: "esp/main_sound.rs", rates: &[] }),
    },
];

impl ValueEnum for &'static Board {
    fn value_variants<'a>() -> &'a [Self] {
        static EACH: std::sync::LazyLock<Vec<&'static Board>> = std::sync::LazyLock::new(|| ALL.iter().collect());
        &EACH
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.name).help(self.about))
    }
}

impl Board {
    /// The microphone for a model with a front end, if its clock has the sample rate of the model.
    pub fn microphone(&self, model: &Model<'_>) -> Option<&Microphone> {
        let rate = model.front_end()?.settings().sample_rate;
        self.microphone.as_ref().filter(|own| own.rates.is_empty() || own.rates.contains(&rate))
    }

    /// Whether the core has the layout's kernels.
    pub fn reads(&self, layout: Layout) -> bool {
        runs(self.core.layout, layout)
    }

    /// The program of QEMU, and its Debian package, for a simulated board.
    pub fn emulator(&self) -> Option<(&'static str, &'static str)> {
        let arm = ("qemu-system-arm", "qemu-system-arm");
        let riscv = ("qemu-system-riscv32", "qemu-system-misc");
        let is_qemu = matches!(self.machine, Machine::Qemu { .. });
        is_qemu.then_some(if self.is_arm() { arm } else { riscv })
    }

    /// Whether the target is one of Arm's; the others are RISC-V.
    pub fn is_arm(&self) -> bool {
        self.core.target.starts_with("thumb")
    }
}
