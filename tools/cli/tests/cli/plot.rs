//! Drawings of timelines and curves.

use std::fs;

use tidegate_tools::plot::{Curves, EventMark, Timeline, TruthSpan, curves, timeline};

use super::Workplace;

fn timeline_svg(contents: &Timeline<'_>) -> String {
    let here = Workplace::new();
    timeline(&here.path("x.svg"), contents).unwrap();
    fs::read_to_string(here.path("x.svg")).unwrap()
}

fn curves_svg(contents: &Curves<'_>) -> String {
    let here = Workplace::new();
    curves(&here.path("x.svg"), contents).unwrap();
    fs::read_to_string(here.path("x.svg")).unwrap()
}

/// A stream with a peak of one class every two seconds, each with an event.
fn drawn(seconds: u32, labels: &[&str], decisions_per_second: u32) -> String {
    let labels: Vec<String> = labels.iter().map(ToString::to_string).collect();
    let samples: Vec<i16> = (0..seconds * 16_000)
        .map(|i| {
            let loud = (f64::from(i) / 16_000.0 * std::f64::consts::PI / 2.0).sin().powi(6);
            ((f64::from(i.wrapping_mul(2_654_435_761)) / 4e9 - 0.5) * 20_000.0 * (0.02 + loud)) as i16
        })
        .collect();
    let keyword = |i: u32| 1 + i as usize % (labels.len() - 1);
    let decisions: Vec<_> = (0..seconds * decisions_per_second)
        .map(|i| {
            let at = i as f32 / decisions_per_second as f32;
            let mut posteriors = vec![0.01; labels.len()];
            let bump = (-(at % 2.0 - 1.2).powi(2) * 12.0).exp() * 0.97;
            (posteriors[0], posteriors[keyword(at as u32 / 2)]) = (0.95 - bump, bump);
            (at, posteriors)
        })
        .collect();
    let events: Vec<_> = (0..seconds.div_ceil(2))
        .map(|i| EventMark { seconds: (i * 2) as f32 + 0.95, label: keyword(i), score: 0.84 })
        .collect();
    let truth: Vec<_> = events
        .iter()
        .map(|e| TruthSpan { start: e.seconds - 0.45, end: e.seconds + 0.55, label: &labels[e.label] })
        .collect();
    timeline_svg(&Timeline {
        title: "kws.tgi on stream.wav",
        sample_rate: 16_000,
        samples: &samples,
        decisions: &decisions,
        labels: &labels,
        threshold: Some(0.8),
        events: &events,
        truth: &truth,
    })
}

#[test]
fn the_markup_is_well_formed_for_any_label() {
    let svg = drawn(4, &["_", "<b> & \"'\u{1}", "a label that is long"], 25);
    assert!(svg.starts_with("<svg width=\"1200\" height=\"") && svg.ends_with("</svg>\n"));
    assert!(svg.contains("&lt;b&gt; &amp; &quot;&apos;\u{fffd}") && !svg.contains("<b>") && !svg.contains('\u{1}'));
    assert_eq!(svg.matches("<text").count(), svg.matches("</text>").count());
    assert!(!svg.contains("NaN"));
}

#[test]
fn a_long_stream_is_thinned_out_and_an_empty_stream_is_drawn() {
    assert!(drawn(300, &["_silence_", "yes", "no"], 100).len() < 1 << 20);
    let nothing = Timeline {
        title: "",
        sample_rate: 0,
        samples: &[],
        decisions: &[(f32::NAN, vec![f32::NAN])],
        labels: &["yes".to_owned()],
        threshold: Some(f32::NAN),
        events: &[EventMark { seconds: 0.0, label: 9, score: f32::NAN }],
        truth: &[],
    };
    assert!(!timeline_svg(&nothing).contains("NaN "));
}

#[test]
fn any_curves_are_drawn() {
    let hour = (0..120).map(|k| (k as f32 / 2.0, 55.0 + (k as f32).sin())).collect();
    let odd = vec![(0.0, f32::INFINITY), (1.0, f32::NAN), (2.0, -12.5)];
    let curves = [("lstm.cell_state".to_owned(), hour), ("<o> & \u{1}".to_owned(), odd), ("none".to_owned(), vec![])];
    let svg = curves_svg(&Curves { title: "t", x_label: "minutes", y_label: "dB", curves: &curves });
    assert!(svg.starts_with("<svg width=\"1200\" height=\"") && svg.ends_with("</svg>\n"));
    assert!(svg.contains("&lt;o&gt; &amp; \u{fffd}") && !svg.contains("NaN") && svg.contains("lstm.cell_state"));
    let nothing = curves_svg(&Curves { title: "", x_label: "", y_label: "", curves: &[] });
    assert!(!nothing.contains("NaN"));
}
