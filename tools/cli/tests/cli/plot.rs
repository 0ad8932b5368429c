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
    let svg =
        curves_svg(&Curves { title: "t", x_label: "minutes", y_label: "dB", curves: &curves, ..Curves::default() });
    assert!(svg.starts_with("<svg width=\"1200\" height=\"") && svg.ends_with("</svg>\n"));
    assert!(svg.contains("&lt;o&gt; &amp; \u{fffd}") && !svg.contains("NaN") && svg.contains("lstm.cell_state"));
    let nothing = curves_svg(&Curves::default());
    assert!(!nothing.contains("NaN"));
}

/// Number of texts in a drawing.
fn texts(svg: &str, text: &str) -> usize {
    svg.matches(&format!("\n{text}\n</text>")).count()
}

/// The rows of an hour have the scale of a single row of two minutes or less, and the text of every event.
#[test]
fn an_hour_is_drawn_in_rows_with_the_text_of_every_event() {
    let svg = drawn(3600, &["_silence_", "yes", "no"], 4);
    assert!(svg.len() < 6 << 20, "{}", svg.len());
    let rows = texts(&svg, "posterior");
    assert!((30..=40).contains(&rows), "{rows} rows");
    assert_eq!(texts(&svg, "minutes:seconds"), 1);
    assert!(texts(&svg, "59:00") > 0 && texts(&svg, "1:30") > 0, "marks in minutes and seconds");
    let shown: usize = ["yes", "no"].iter().map(|name| texts(&svg, name) + texts(&svg, &format!("{name} 0.84"))).sum();
    // Those of the true labels are left out where they would overlap.
    assert!(shown >= 1800, "{shown}");
    assert!(!svg.contains("have no room for their text"));
    // A short stream is one row, in seconds.
    let svg = drawn(60, &["_silence_", "yes", "no"], 25);
    assert_eq!((texts(&svg, "posterior"), texts(&svg, "seconds")), (1, 1));
}

#[test]
fn a_timeline_explains_its_diamonds() {
    assert_eq!(texts(&drawn(4, &["_", "yes"], 25), "event, at its mean posterior"), 1);
}

/// Curves with the same points have one line and one entry with all names; equal values are a line at the top; a single
/// point is a mark.
#[test]
fn every_curve_can_be_seen() {
    let line = vec![(0.0, 40.0), (1.0, 50.0)];
    let equal = vec![(0.0, f32::INFINITY), (1.0, f32::INFINITY)];
    let curves = [("softmax", &line), ("output", &line), ("gru", &equal), ("dense", &vec![(1.0, 35.0)])]
        .map(|(name, points)| (name.to_owned(), points.clone()));
    let levels = [(30.0, "30 dB: enough")];
    let svg = curves_svg(&Curves { curves: &curves, levels: &levels, infinity: "equal", ..Curves::default() });
    for text in ["softmax, output", "gru", "dense", "30 dB: enough", "equal"] {
        assert_eq!(texts(&svg, text), 1, "{text}: {svg}");
    }
    let of =
        |color: &str, shape: &str| svg.lines().filter(|line| line.starts_with(shape) && line.contains(color)).count();
    // The line of the legend and that of the curve.
    assert_eq!([of("#0072B2", "<polyline"), of("#D55E00", "<polyline")], [2, 2], "{svg}");
    assert_eq!(of("#009E73", "<polygon"), 1, "{svg}");
}
