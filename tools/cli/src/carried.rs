//! The files of the demo, which the program carries: a keyword spotter, clips of Speech Commands, and RNNoise with a
//! noisy sound, with their licenses. In the repository, `tools/cli/demo` has links to them; the package has copies.

use std::fs;
use std::path::Path;

use tidegate_model::data::DataError;
use tidegate_model::output::write_atomically;

/// Names and contents of files in `tools/cli/demo`.
macro_rules! carried {
    ($($name:literal)*) => { &[$(($name, include_bytes!(concat!("../demo/", $name)))),*] };
}

const FILES: &[(&str, &[u8])] = carried! {
    "GRU_S.pb"
    "labels.txt"
    "LICENSE-hello_edge"
    "noisy.wav"
    "weights.rnn"
    "COPYING-rnnoise"
    "speech_commands/index.csv"
    "speech_commands/LICENSE"
    "speech_commands/README.md"
    "speech_commands/_silence_/1041.flac"
    "speech_commands/_silence_/1043.flac"
    "speech_commands/_unknown_/backward_8fe67225_nohash_4.flac"
    "speech_commands/_unknown_/backward_bfd26d6b_nohash_2.flac"
    "speech_commands/down/189cbabe_nohash_1.flac"
    "speech_commands/down/2796ac50_nohash_0.flac"
    "speech_commands/go/022cd682_nohash_1.flac"
    "speech_commands/go/2796ac50_nohash_0.flac"
    "speech_commands/left/022cd682_nohash_1.flac"
    "speech_commands/left/2796ac50_nohash_0.flac"
    "speech_commands/no/03401e93_nohash_2.flac"
    "speech_commands/no/2796ac50_nohash_0.flac"
    "speech_commands/off/0b57a6ed_nohash_0.flac"
    "speech_commands/off/0c540988_nohash_2.flac"
    "speech_commands/on/022cd682_nohash_0.flac"
    "speech_commands/on/0b57a6ed_nohash_0.flac"
    "speech_commands/right/0bac8a71_nohash_0.flac"
    "speech_commands/right/2796ac50_nohash_0.flac"
    "speech_commands/stop/0c40e715_nohash_0.flac"
    "speech_commands/stop/2796ac50_nohash_0.flac"
    "speech_commands/up/189cbabe_nohash_1.flac"
    "speech_commands/up/2796ac50_nohash_0.flac"
    "speech_commands/yes/022cd682_nohash_0.flac"
    "speech_commands/yes/1538beb7_nohash_0.flac"
};

/// Writes all files to a folder, which exists.
///
/// # Errors
/// If a file exists with other content; then nothing is written. If a file or a folder in `folder` cannot be written.
pub fn write(folder: &Path) -> Result<(), DataError> {
    let differs = |(name, content): &&(&str, &[u8])| fs::read(folder.join(name)).is_ok_and(|found| found != *content);
    if let Some((name, _)) = FILES.iter().find(differs) {
        let reason = "is there with other content than the demo's, and is not overwritten: give --keep another folder";
        return Err(DataError::new(&folder.join(name), reason));
    }
    FILES.iter().try_for_each(|(name, content)| {
        let path = folder.join(name);
        let within = path.parent().unwrap_or(folder);
        fs::create_dir_all(within).map_err(|error| DataError::io(within, "created", error))?;
        write_atomically(&path, |file| file.write_all(content))
    })
}
