//! The published keyword spotters in integers, on real speech.

use std::path::{Path, PathBuf};

use tidegate::image::Layout;
use tidegate::{Model, Numeric, Schedule};
use tidegate_tools::data::{read_audio_at, read_index};
use tidegate_tools::load::{self, ImageBuffer, Settings};
use tidegate_tools::pack::pack_with;
use tidegate_tools::quantize::Ranges;
use tidegate_tools::runner::{features, fit, run};
use tidegate_tools::score::best;

fn in_parallel<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let next = AtomicUsize::new(0);
    let take = || {
        let turns = std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
        turns.take_while(|&turn| turn < count).map(|turn| (turn, work(turn))).collect::<Vec<_>>()
    };
    let mut done: Vec<(usize, T)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2).map(|_| scope.spawn(take)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    done.sort_unstable_by_key(|&(turn, _)| turn);
    done.into_iter().map(|(_, value)| value).collect()
}

#[test]
fn integers_hear_what_floats_hear() {
    let Some(folder) = std::env::var_os("TIDEGATE_DATA_DIR").map(PathBuf::from) else {
        println!("SKIP integers_hear_what_floats_hear: TIDEGATE_DATA_DIR is not set");
        return;
    };
    let index = folder.join("speech_commands_v2/index.csv");
    let clips = read_index(&index).unwrap();
    let text = std::fs::read_to_string(&index).unwrap();
    let train: Vec<bool> = text.lines().skip(1).map(|line| line.ends_with("train")).collect();
    let sounds = in_parallel(clips.len(), |clip| read_audio_at(&clips[clip].path, 16_000).unwrap().samples);
    let text = std::fs::read_to_string(folder.join("hello_edge/labels.txt")).unwrap();
    let labels: Vec<String> = text.lines().map(str::to_owned).collect();
    let mut seen = vec![0; labels.len()];
    let number = |label: &str| labels.iter().position(|other| other == label).unwrap();
    let calibration: Vec<usize> = (0..clips.len())
        .filter(|&clip| {
            let label = number(&clips[clip].label);
            seen[label] += usize::from(train[clip]);
            train[clip] && seen[label] <= 8
        })
        .collect();
    assert_eq!(calibration.len(), 96);
    let models = std::env::var("MODELS").unwrap_or("Basic_LSTM_S LSTM_S GRU_S".into());
    for name in models.split(' ') {
        let file = folder.join(format!("hello_edge/{name}.pb"));
        let canonical = load::canonical(&file, &Settings::default()).unwrap().model;
        let float = load::packed(Path::new("m"), &canonical, Numeric::F32).unwrap();
        let float = float.model().unwrap();
        let Schedule::Windows { frames, .. } = float.schedule() else { panic!("it has a window") };
        let mfcc = float.front_end().unwrap();
        let heard =
            in_parallel(sounds.len(), |clip| features(mfcc, &fit(mfcc, &sounds[clip], frames).unwrap()).unwrap());
        let inputs: Vec<[&[f32]; 1]> = calibration.iter().map(|&clip| [heard[clip].as_slice()]).collect();
        let ranges = Ranges::measure(&canonical, inputs.iter().map(|input| input.as_slice())).unwrap();
        println!("{ranges:?}");
        let image = ImageBuffer::new(&pack_with(&canonical, Numeric::I8x16, &ranges, Layout::Portable).unwrap());
        let integer = image.model().unwrap();
        println!(
            "{name}: {} bytes, state {} words, scratch {}",
            image.bytes().len(),
            integer.state_words(),
            integer.scratch_words()
        );
        let decide = |model: &Model<'_>, clip: usize| {
            let outputs = run(model, &[&heard[clip]], None).unwrap().outputs;
            best(outputs[0].rchunks(labels.len()).next().unwrap())
        };
        let (mut right, mut same, mut counted) = ([0; 2], 0, 0);
        let decisions = in_parallel(clips.len(), |clip| (decide(&float, clip), decide(&integer, clip)));
        for (clip, (f, i)) in decisions.into_iter().enumerate() {
            if calibration.contains(&clip) {
                continue;
            }
            let truth = number(&clips[clip].label);
            right[0] += usize::from(f == truth);
            right[1] += usize::from(i == truth);
            same += usize::from(f == i);
            counted += 1;
        }
        println!(
            "{name}: f32 {} i8x16 {} of {counted}, {:.2} % the same",
            right[0],
            right[1],
            100.0 * same as f64 / counted as f64
        );
    }
}
