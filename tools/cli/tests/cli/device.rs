//! `inspect --for`: a model on a microcontroller, before flashing.

use serde_json::Value;

use super::{Workplace, gru_pb};

fn packed(core: &str) -> Workplace {
    let here = Workplace::new();
    let done = here.run(&["pack", &gru_pb(), "-o", "g.tgi", "--numeric", "i8x16", "--for", core]);
    assert!(done.status.success());
    here
}

#[test]
fn time_stack_and_all_ram_are_estimated_as_text_and_json() {
    let here = packed("cortex-m4");
    let on_m4 = ["inspect", "g.tgi", "--for", "cortex-m4", "--mhz", "120"];
    let text = here.succeed(&on_m4);
    for part in [
        "device   cortex-m4 at 120 MHz, feature dsp",
        " of the front end",
        " cycles together",
        "% of every 40 ms",
        "all RAM  ",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let told: Value = here.json(&[&on_m4[..], &["--json"]].concat());
    let device = &told["device"];
    let number = |name: &str| device[name].as_f64().unwrap_or_else(|| panic!("{name}: {device}"));
    let instructions = number("instructions_per_step") + number("front_end_instructions");
    assert!(number("modelled_cycles") > instructions, "{device}");
    assert!((number("milliseconds") - number("modelled_cycles") / 120e3).abs() < 1e-3, "{device}");
    assert!((number("share") - number("milliseconds") / number("every_ms")).abs() < 1e-6, "{device}");
    let parts = ["state_bytes", "scratch_bytes", "front_end_bytes", "detector_bytes"];
    let ram: f64 = parts.iter().map(|part| told[*part].as_f64().unwrap()).sum();
    assert_eq!(number("ram_bytes"), ram + number("stack_bytes"));
    assert_eq!(device["without_figures"], Value::Array(Vec::new()));
    // A core that issues two instructions in a cycle has no table of cycles.
    let m7 = here.json(&["inspect", "g.tgi", "--for", "cortex-m7", "--mhz", "480", "--json"]);
    assert!(
        m7["device"]["modelled_cycles"].is_null()
            && m7["device"]["milliseconds"].as_f64() < Some(number("milliseconds"))
    );
    // Without a clock there is no time.
    assert!(here.json(&["inspect", "g.tgi", "--for", "cortex-m4", "--json"])["device"]["milliseconds"].is_null());
}

#[test]
fn a_core_that_is_too_slow_is_a_warning() {
    let here = packed("portable");
    let done = here.run(&["inspect", "g.tgi", "--for", "cortex-m0plus", "--mhz", "8"]);
    let told = String::from_utf8(done.stderr).unwrap();
    assert!(done.status.success() && told.contains("warning: g.tgi: too slow: a step takes"), "{told}");
    here.succeed(&["inspect", "g.tgi", "--for", "cortex-m4", "--mhz", "120"]);
}

#[test]
fn an_image_for_another_core_is_refused() {
    let here = packed("cortex-m55");
    let reason = ["the layout of cortex-m55", "firmware for cortex-m4 does not run", "--for cortex-m4"];
    here.refuse(&["inspect", "g.tgi", "--for", "cortex-m4"], "g.tgi", &reason);
    for wrong in [&["--mhz", "120"][..], &["--for", "cortex-m4", "--mhz", "0"], &["--for", "z80"], &["--plot", "m.svg"]]
    {
        let done = here.run(&[&["inspect", "g.tgi"], wrong].concat());
        assert_eq!(done.status.code(), Some(2), "{wrong:?}");
    }
    assert_eq!(here.names(), ["g.tgi"]);
}

#[test]
fn the_memory_is_drawn() {
    let here = packed("cortex-m4");
    here.succeed(&["inspect", "g.tgi", "--for", "cortex-m4", "--plot", "m.svg"]);
    let svg = String::from_utf8(here.read("m.svg")).unwrap();
    for part in ["image: ", "state: ", "scratch: ", "front end: ", "stack of a step: ", "flash", "RAM"] {
        assert!(svg.contains(part), "{part}");
    }
}
