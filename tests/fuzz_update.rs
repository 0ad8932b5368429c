//! Replays the fuzz targets of updates on stable Rust: random flash, and a hostile sender.

use crate::update_fuzz::{update_flash, update_protocol};
use tidegate_tests::corpus::Corpus;
use tidegate_tests::random::Rng;

fn corpus(target: &'static str, seeds: impl IntoIterator<Item = (&'static str, Vec<u8>)>) -> Corpus {
    Corpus { target, seeds: seeds.into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).collect() }
}

#[test]
fn flash_with_any_contents_boots_a_signed_model_or_none() {
    let mut rng = Rng::new(41);
    let mut patch = |at: u16, len: usize| {
        let bytes: Vec<u8> = (0..len).map(|_| rng.bits() as u8).collect();
        [&at.to_le_bytes()[..], &[len as u8], &bytes].concat()
    };
    // Banks of 4 KB, then the journal: records of 256 bytes, whose bytes 8 and 9 are phase and bank.
    let record = |number: u16| 2 * 4096 + 256 * number;
    let phases = (0..5u8).flat_map(|phase| {
        let one = [0, 1, 2].map(|bank| {
            [&record(3).to_le_bytes()[..], &[4], b"TGJ1", &(record(3) + 8).to_le_bytes()[..], &[2, phase, bank]]
                .concat()
        });
        one.concat()
    });
    let seeds = [
        ("untouched", vec![0]),
        ("bank", [vec![0], patch(100, 200), patch(4096, 16)].concat()),
        ("journal", [vec![1], patch(record(2) + 8, 60)].concat()),
        ("torn", [vec![0], patch(record(3) + 200, 40), patch(4096 + 900, 3)].concat()),
        ("phases", [vec![1], phases.collect()].concat()),
    ];
    let corpus = corpus("update_flash", seeds);
    corpus.write_inputs();
    let accepted = corpus.replay(update_flash);
    corpus.mutate(update_flash);
    assert!(accepted >= 2, "{accepted} seeds boot");
}

#[test]
fn a_hostile_sender_never_gets_an_unsigned_or_old_image_in() {
    let mut rng = Rng::new(43);
    let all = [66, 0];
    let finish = [4, 0];
    let begin = |image: u8| [7, image];
    let update = [&begin(3)[..], &all, &finish, &[1, 0], &[3, 0], &[0, 0]].concat();
    let blocks: Vec<u8> = (0..25).flat_map(|_| [6, 100]).collect();
    // Short, because signatures take most of the time.
    let random: Vec<u8> = (0..100).map(|_| rng.bits() as u8).collect();
    let seeds = [
        ("update", update.clone()),
        ("blocks", [&begin(3)[..], &blocks, &finish, &[0, 0], &[3, 0]].concat()),
        ("old", [&begin(0)[..], &all, &finish, &[1, 0], &[3, 0], &update].concat()),
        ("foreign", [&begin(4)[..], &all, &finish, &[1, 0], &[3, 0], &update].concat()),
        ("changed", [&[4, 0][..], &begin(4), &all, &finish, &[1, 0], &[3, 0]].concat()),
        ("resumed", [&begin(3)[..], &[6, 200, 5, 0], &[0, 0, 6, 3], &all, &finish, &[0, 0], &[3, 0]].concat()),
        ("reverted", [&begin(3)[..], &all, &finish, &[0, 0], &[2, 0], &[0, 0], &update].concat()),
        ("wrong", [&begin(3)[..], &[2, 30], &[9; 30], &[3, 7], &[1; 8], &all, &finish, &update].concat()),
        ("session", [&[15, 3][..], &all, &finish, &[1, 0], &[3, 0], &[0, 0]].concat()),
        ("random", random),
    ];
    let corpus = corpus("update_protocol", seeds);
    corpus.write_inputs();
    let accepted = corpus.replay(update_protocol);
    corpus.mutate(update_protocol);
    assert!(accepted >= 5, "{accepted} seeds run the newest image");
}
