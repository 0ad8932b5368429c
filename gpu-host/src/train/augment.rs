//! Augmentation of sounds: changes of speed, position and volume, and added noise.

use chacha20::ChaCha8Rng;

use crate::network::uniform;

/// Largest relative change of speed, which also changes the pitch.
const SPEED: f32 = 0.12;
/// Largest shift in seconds.
const SHIFT_SECONDS: f32 = 0.1;
/// Largest change of volume in decibels.
const GAIN_DB: f32 = 6.0;
/// Range of the signal-to-noise ratio in decibels.
const NOISE_DB: [f32; 2] = [6.0, 40.0];

/// Returns an augmented copy of a sound, of the same length. The noise is a part of one of the `backgrounds`, or white
/// if there are none.
pub(super) fn changed(samples: &[i16], rate: u32, backgrounds: &[Vec<i16>], random: &mut ChaCha8Rng) -> Vec<i16> {
    let mut between = |low: f32, high: f32| low + (high - low) * uniform(random);
    let speed = between(1.0 - SPEED, 1.0 + SPEED);
    let shift = between(-SHIFT_SECONDS, SHIFT_SECONDS) * rate as f32;
    let gain = 10.0_f32.powf(between(-GAIN_DB, GAIN_DB) / 20.0);
    let noise_db = between(NOISE_DB[0], NOISE_DB[1]);
    let pick = between(0.0, 1.0);
    let offset = between(0.0, 1.0);
    let middle = samples.len() as f32 / 2.0;
    let mut sound: Vec<f32> =
        (0..samples.len()).map(|k| at(samples, middle + (k as f32 - middle) * speed - shift) * gain).collect();
    let noise: Vec<f32> = match backgrounds.get((pick * backgrounds.len() as f32) as usize) {
        Some(background) if !background.is_empty() => {
            let from = (offset * background.len() as f32) as usize;
            background.iter().cycle().skip(from).take(samples.len()).map(|&sample| f32::from(sample)).collect()
        }
        _ => (0..samples.len()).map(|_| between(-1.0, 1.0)).collect(),
    };
    let (heard, noisy) = (power(&sound), power(&noise));
    // A silent background adds no noise.
    if noisy > 0.0 {
        let level = (heard / noisy / 10.0_f32.powf(noise_db / 10.0)).sqrt();
        sound.iter_mut().zip(&noise).for_each(|(sample, noise)| *sample += noise * level);
    }
    // `as` saturates: a sound that is too loud is clipped, as by a microphone.
    sound.iter().map(|sample| sample.round() as i16).collect()
}

/// Linear interpolation between two samples; 0 outside of the sound.
fn at(samples: &[i16], place: f32) -> f32 {
    let whole = place.floor();
    let sample = |k: f32| match k {
        0.0.. => samples.get(k as usize).map_or(0.0, |&sample| f32::from(sample)),
        _ => 0.0,
    };
    let part = place - whole;
    sample(whole) * (1.0 - part) + sample(whole + 1.0) * part
}

fn power(sound: &[f32]) -> f32 {
    sound.iter().map(|sample| sample * sample).sum::<f32>() / sound.len().max(1) as f32
}

#[cfg(test)]
mod tests {
    use super::*;
    use chacha20::rand_core::SeedableRng;

    #[test]
    fn a_copy_has_the_same_length_and_depends_on_the_seed() {
        let sound: Vec<i16> = (0..16_000).map(|k| ((k as f32 * 0.2).sin() * 9000.0) as i16).collect();
        let copy = |seed| changed(&sound, 16_000, &[], &mut ChaCha8Rng::seed_from_u64(seed));
        assert_eq!(copy(1).len(), sound.len());
        assert_eq!(copy(1), copy(1));
        assert_ne!(copy(1), copy(2));
    }

    #[test]
    fn the_noise_has_the_chosen_level() {
        let sound: Vec<i16> = (0..16_000).map(|k| ((k as f32 * 0.2).sin() * 9000.0) as i16).collect();
        let none = vec![vec![0_i16; 10]];
        for seed in 0..20 {
            let seeded = || ChaCha8Rng::seed_from_u64(seed);
            let float = |sound: Vec<i16>| sound.into_iter().map(f32::from).collect::<Vec<f32>>();
            let clean = float(changed(&sound, 16_000, &none, &mut seeded()));
            let tone = vec![(0..100).map(|k| if k % 2 == 0 { 1000 } else { -1000 }).collect()];
            let noisy = float(changed(&sound, 16_000, &tone, &mut seeded()));
            let noise: Vec<f32> = noisy.iter().zip(&clean).map(|(a, b)| a - b).collect();
            let db = 10.0 * (power(&clean) / power(&noise)).log10();
            assert!((NOISE_DB[0] - 0.5..NOISE_DB[1] + 0.5).contains(&db), "seed {seed}: {db} dB");
        }
    }

    #[test]
    fn silence_and_empty_sounds_are_unchanged() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        assert!(changed(&[0; 100], 16_000, &[], &mut random).iter().all(|&sample| sample == 0));
        assert!(changed(&[], 16_000, &[vec![]], &mut random).is_empty());
    }
}
