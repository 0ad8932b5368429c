//! The bars that instructions and sizes must hold, over the records that `cargo xtask icount` and `size` compare with.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;
use tidegate_tests::zoo;

/// Core, numeric, layout, cell and units.
type Key = (String, String, String, String, u64);

/// Sizes of the recorded layers.
const SIZES: [u64; 4] = [16, 32, 64, 128];

/// Maximum instructions of a step of an LSTM with as many inputs as units: core, numeric, layout, and a bar for each size.
const LSTM: [(&str, &str, &str, [u64; 4]); 5] = [
    ("m0plus", "i8x16", "cortex-m0", [20_000, 62_000, 200_000, 720_000]),
    ("m3", "i8x16", "portable", [12_000, 33_000, 105_000, 370_000]),
    ("m4", "i8x16", "cortex-m4", [6_000, 15_500, 51_000, 180_000]),
    ("m55", "i8x16", "cortex-m55", [3_800, 7_200, 17_000, 45_000]),
    ("m4f", "f32", "portable", [9_500, 33_000, 125_000, 480_000]),
];
/// The same for TFLite's LSTM in `i8` on a Cortex-M4: 1.2 times CMSIS-NN's instructions for 16 and 32 units, and no more
/// than CMSIS-NN's for 64 and 128 (docs/accuracy.md). CMSIS-NN reads its curves from tables, whose bits differ from ours.
const TFLITE_LSTM_ON_M4: [u64; 4] = [17_186, 41_678, 98_519, 318_299];
/// Instructions of a GRU, as a share of those of an LSTM.
const GRU_OF_LSTM: f64 = 0.8;
/// The same for a GRU of 16 units on a Cortex-M55, which misses that bar: the recorded ratio, rounded up, so that the ratio
/// cannot grow. docs/integers.md derives why 0.8 cannot be reached.
const SHORT_GRU_ON_M55: f64 = 0.95;
/// The same on a Cortex-M4 with 16 units: the recorded ratios, rounded up. A step of an LSTM became shorter when its gates
/// were written in assembly; the gates of a GRU were before.
const SHORT_GRU_ON_M4: f64 = 0.86;
/// Instructions in `i4x16`, as a share of those in `i8x16`, on a Cortex-M4.
const NIBBLES_OF_BYTES: f64 = 1.3;
/// The same for GRUs of 16 units, which miss that bar: the recorded ratios, rounded up, so that they cannot grow.
const NIBBLES_OF_SHORT_GRUS: f64 = 1.4;
/// Instructions of parsing a KiB of an image of 128 units, relative to a KiB of an image of 64 units, which has the same
/// nodes and about a fourth of the bytes. A part that grows with the square of the length would give up to 4.
const LONG_OF_SHORT_PARSE: f64 = 1.2;
/// Maximum instructions of parsing a KiB of an image: 45 per byte. The checksum takes 6 to 10 of them; nibbles on a
/// Cortex-M0+ take the most.
const PARSE_PER_KIB: u64 = 45 * 1024;
/// Maximum modelled cycles of a sample of a GuitarML amplifier with 12 units: a quarter of a Cortex-M7 at 480 MHz, at 48 kHz.
const AMP_CYCLES: u64 = 480_000_000 / 48_000 / 4;
/// The same in f32, which misses that bar: the recorded figure, rounded up, so that it cannot grow. The model has a floor of
/// 3,900 cycles for its bits. The 624 products of the LSTM take a multiplication and a sum each, which are rounded apart, and
/// half a cycle to load the weight: 1,560. Each of the 60 curves takes 21 float operations and a division of 16 cycles, and
/// σ two more: 2,316.
const AMP_CYCLES_IN_F32: u64 = 6_600;
/// Code and tables of the integer LSTM on a Cortex-M4 in bytes, with engine, states and ports.
const INTEGER_LSTM_BYTES: u64 = 5 * 1024;

fn record(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../firmware-examples/expected").join(name);
    serde_json::from_slice(&fs::read(&path).unwrap()).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn instructions(record: &Value) -> BTreeMap<Key, u64> {
    let text = |figure: &Value, name: &str| figure[name].as_str().expect("the field is text").to_owned();
    let number = |figure: &Value, name: &str| figure[name].as_u64().expect("the field is a number");
    let of = |figure: &Value| {
        let [core, numeric, layout, cell] = ["core", "numeric", "layout", "cell"].map(|name| text(figure, name));
        ((core, numeric, layout, cell, number(figure, "hidden")), number(figure, "instructions_per_step"))
    };
    record["figures"].as_array().expect("there are figures").iter().map(of).collect()
}

/// The figures that are beyond their bars.
fn beyond(all: &BTreeMap<Key, u64>) -> Vec<String> {
    let of = |core: &str, numeric: &str, layout: &str, cell: &str, units: u64| -> u64 {
        let key = (core.to_owned(), numeric.to_owned(), layout.to_owned(), cell.to_owned(), units);
        *all.get(&key).unwrap_or_else(|| panic!("{key:?} is not recorded"))
    };
    let mut beyond = Vec::new();
    let mut hold = |what: String, found: f64, bar: f64| {
        if !(found <= bar) {
            beyond.push(format!("{what}: {found} is more than {bar}"));
        }
    };
    for (core, numeric, layout, bars) in LSTM {
        for (units, bar) in SIZES.into_iter().zip(bars) {
            let lstm = of(core, numeric, layout, "lstm", units) as f64;
            hold(format!("LSTM of {units} on {core}"), lstm, bar as f64);
            for cell in ["gru", "gru_reset_after"] {
                let bar = match (core, units) {
                    ("m55", 16) => SHORT_GRU_ON_M55,
                    ("m4", 16) => SHORT_GRU_ON_M4,
                    _ => GRU_OF_LSTM,
                };
                let part = of(core, numeric, layout, cell, units) as f64 / lstm;
                hold(format!("{cell} of {units} beside an LSTM on {core}"), part, bar);
            }
        }
    }
    for (units, bar) in SIZES.into_iter().zip(TFLITE_LSTM_ON_M4) {
        hold(format!("LSTM of {units} in i8 on m4"), of("m4", "i8", "cortex-m4", "lstm", units) as f64, bar as f64);
        // The kernel of the vector extension is worth its code.
        let [vectors, plain] = ["cortex-m55", "portable"].map(|layout| of("m55", "i8", layout, "lstm", units) as f64);
        hold(format!("LSTM of {units} in i8 on m55 beside the portable layout"), vectors / plain, 1.0);
    }
    for units in SIZES {
        for cell in ["lstm", "gru", "gru_reset_after"] {
            let bar = if cell != "lstm" && units == 16 { NIBBLES_OF_SHORT_GRUS } else { NIBBLES_OF_BYTES };
            let [nibbles, bytes] = ["i4x16", "i8x16"].map(|numeric| of("m4", numeric, "cortex-m4", cell, units) as f64);
            hold(format!("{cell} of {units} in i4x16 on m4"), nibbles / bytes, bar);
        }
    }
    beyond
}

#[test]
fn recorded_instructions_hold_their_bars() {
    let beyond = beyond(&instructions(&record("icount.json")));
    assert!(beyond.is_empty(), "{}", beyond.join("\n"));
}

/// Modelled cycles of a sample of an amplifier on a Cortex-M7.
fn amp_cycles(record: &Value, cell: &str, numeric: &str, layout: &str) -> u64 {
    let figures = record["figures"].as_array().expect("there are figures");
    let is = |of: &&Value| [&of["core"], &of["cell"], &of["numeric"], &of["layout"]] == ["m7", cell, numeric, layout];
    let found: Vec<&Value> = figures.iter().filter(is).collect();
    let [figure] = found[..] else { panic!("{cell} {numeric} {layout} has {} figures", found.len()) };
    assert_eq!((figure["input"].as_u64(), figure["hidden"].as_u64()), (Some(1), Some(12)));
    figure["modelled_cycles"].as_u64().expect("the cycles of a Cortex-M7 are modelled")
}

#[test]
fn an_amplifier_of_12_units_takes_at_most_a_quarter_of_a_cortex_m7() {
    let record = record("icount.json");
    for (cell, numeric, layout, bar) in [
        ("guitarml_lstm", "i8x16", "cortex-m4", AMP_CYCLES),
        ("guitarml_lstm", "f32", "portable", AMP_CYCLES_IN_F32),
        ("nam_lstm", "f32", "portable", AMP_CYCLES_IN_F32),
    ] {
        let cycles = amp_cycles(&record, cell, numeric, layout);
        assert!(cycles <= bar, "{cell} in {numeric}: {cycles} cycles are more than {bar}");
    }
}

/// The images whose parsing is beyond its bars.
fn slowly_parsed(record: &Value) -> Vec<String> {
    let mut shorter = BTreeMap::new();
    let (mut found, mut compared) = (Vec::new(), 0);
    // The shorter image of a layer precedes the longer one.
    for parse in record["parse"].as_array().expect("there are figures of parse") {
        let image = ["core", "numeric", "layout"].map(|name| parse[name].as_str().expect("the field is text"));
        let [hidden, cost] = ["hidden", "instructions_per_kib"].map(|name| parse[name].as_u64().expect("a number"));
        if cost > PARSE_PER_KIB {
            found.push(format!("{image:?} {hidden}: {cost} is more than {PARSE_PER_KIB}"));
        }
        if let Some(short) = shorter.insert(image, cost) {
            compared += 1;
            let share = cost as f64 / short as f64;
            if !(share <= LONG_OF_SHORT_PARSE) {
                found.push(format!("{image:?} {hidden}: {share} is more than {LONG_OF_SHORT_PARSE}"));
            }
        }
    }
    assert!(compared >= 30, "{compared} images are compared");
    found
}

#[test]
fn parsing_takes_instructions_in_proportion_to_the_length_of_an_image() {
    let record = record("icount.json");
    assert_eq!(slowly_parsed(&record), Vec::<String>::new());
    // A planted record that exceeds one bar, or both, is found.
    for (factor, found) in [(2, 1), (5, 2)] {
        let mut planted = record.clone();
        let last = planted["parse"].as_array_mut().unwrap().last_mut().unwrap();
        last["instructions_per_kib"] = (factor * last["instructions_per_kib"].as_u64().unwrap()).into();
        assert_eq!(slowly_parsed(&planted).len(), found);
    }
}

/// A record above its bar is found, whichever it is.
#[test]
fn a_record_above_its_bar_is_found() {
    let recorded = instructions(&record("icount.json"));
    for (core, numeric, layout, bars) in LSTM {
        for (units, bar) in SIZES.into_iter().zip(bars) {
            let key = (core.to_owned(), numeric.to_owned(), layout.to_owned(), "lstm".to_owned(), units);
            let mut planted = recorded.clone();
            planted.insert(key, bar + 1);
            let found = beyond(&planted);
            assert!(found.iter().any(|line| line.starts_with(&format!("LSTM of {units} on {core}: "))), "{found:?}");
        }
    }
    for layout in [("m4", "cortex-m4"), ("m55", "cortex-m55")] {
        let mut planted = recorded.clone();
        let key = (layout.0.to_owned(), "i8".to_owned(), layout.1.to_owned(), "lstm".to_owned(), 16);
        planted.entry(key).and_modify(|instructions| *instructions *= 2);
        assert!(!beyond(&planted).is_empty(), "{layout:?}");
    }
    for (numeric, cell) in [("i8x16", "gru"), ("i8x16", "gru_reset_after"), ("i4x16", "lstm"), ("i4x16", "gru")] {
        let mut planted = recorded.clone();
        let key = ("m4".to_owned(), numeric.to_owned(), "cortex-m4".to_owned(), cell.to_owned(), 64);
        planted.entry(key).and_modify(|instructions| *instructions *= 3);
        assert!(!beyond(&planted).is_empty(), "{numeric} {cell}");
    }
}

#[test]
fn the_integer_lstm_holds_its_size() {
    let sizes = record("size.json");
    let bytes = |firmware: &str| {
        let is_it = |size: &&Value| size["firmware"] == firmware && size["machine"] == "mps2-an386";
        let size = sizes.as_array().expect("there are sizes").iter().find(is_it).expect("it was measured");
        ["text_bytes", "rodata_bytes"].map(|part| size[part].as_u64().expect("bytes")).iter().sum::<u64>()
    };
    // Start-up code and printing do not count; the program without a model has them too.
    let lstm = bytes("hello_integer") - bytes("bare");
    assert!(lstm > 0 && lstm <= INTEGER_LSTM_BYTES, "{lstm}");
}

/// Code and tables of verifier and updater on a Cortex-M4 in bytes, beside the runtime that parses any image and runs its
/// self-test. The flash driver of the example and what it prints are counted too.
const UPDATER_BYTES: u64 = 12 * 1024;

#[test]
fn verifier_and_updater_hold_their_size() {
    let sizes = record("size.json");
    let bytes = |firmware: &str| {
        let is_it = |size: &&Value| size["firmware"] == firmware && size["machine"] == "mps2-an386";
        let size = sizes.as_array().expect("there are sizes").iter().find(is_it).expect("it was measured");
        ["text_bytes", "rodata_bytes"].map(|part| size[part].as_u64().expect("bytes")).iter().sum::<u64>()
    };
    let updater = bytes("update") - bytes("hello_any");
    assert!(updater > 0 && updater <= UPDATER_BYTES, "{updater}");
}

/// Code and tables of the program `wake_word` in bytes, start-up and printing included.
const WAKE_WORD_BYTES: u64 = 24 * 1024;
/// Instructions of a step of MLPerf Tiny's streaming wake word on a Cortex-M4, front end included.
const MLPERF_INSTRUCTIONS: u64 = 300_000;

#[test]
fn a_wake_word_holds_its_size() {
    let sizes = record("size.json");
    let of = |size: &Value| ["text_bytes", "rodata_bytes"].map(|part| size[part].as_u64().expect("bytes")).iter().sum();
    let all = sizes.as_array().expect("there are sizes").iter().filter(|size| size["firmware"] == "wake_word");
    let all: Vec<(&str, u64)> = all.map(|size| (size["machine"].as_str().expect("a name"), of(size))).collect();
    assert!(all.len() >= 4, "{all:?}");
    for (machine, bytes) in all {
        assert!(bytes <= WAKE_WORD_BYTES, "{machine}: {bytes}");
    }
}

#[test]
fn the_streaming_wake_word_of_mlperf_holds_its_instructions() {
    let counts = &zoo::entry("MLPerf Tiny streaming wake word")["figures"]["instructions"]["m4"];
    let [step, front_end] = ["step", "front_end"].map(|part| counts[part].as_u64().expect("a count"));
    assert!(front_end > 0 && step + front_end <= MLPERF_INSTRUCTIONS, "{step} and {front_end}");
}

/// Instructions of Silero's voice activity detector in `i8x16` on a Cortex-M4 for a chunk of 32 ms.
const SILERO_INSTRUCTIONS: u64 = 1_300_000;
/// Bytes of flash for the detector's image and code.
const SILERO_BYTES: u64 = 340 * 1024;

#[test]
fn the_voice_activity_detector_in_integers_holds_its_instructions_and_its_flash() {
    let figures = &zoo::entry("Silero VAD, 16 kHz, in integers")["figures"];
    assert_eq!(figures["numeric"], "i8x16");
    let number = |of: &Value| of.as_u64().expect("a count");
    let step = number(&figures["instructions"]["m4"]["step"]);
    assert!(step > 0 && step <= SILERO_INSTRUCTIONS, "{step}");
    let flash = number(&figures["flash_bytes"]) + number(&figures["code_bytes"]);
    assert!(flash <= SILERO_BYTES, "{flash}");
}
