//! The short-time Fourier transform of `core`, compared with a discrete Fourier transform in f64.

use std::f64::consts::TAU;

use tidegate::{Stft, StftError};
use tidegate_tests::random::Rng;
use tidegate_tests::tolerance::{same_bits, worst};

const LENGTHS: [usize; 4] = [256, 512, 1024, 2048];

fn noise(len: usize, rng: &mut Rng) -> Vec<f32> {
    rng.numbers(len, 1.0)
}

/// Bin `k` of the discrete Fourier transform of a frame.
fn bin(frame: &[f64], k: usize) -> [f64; 2] {
    let angle = |n: usize| TAU * ((n * k) % frame.len()) as f64 / frame.len() as f64;
    let sum = |part: fn(f64) -> f64| frame.iter().enumerate().map(|(n, x)| x * part(angle(n))).sum::<f64>();
    [sum(f64::cos), -sum(f64::sin)]
}

/// The sound of a stream whose bins are changed by `change`, pushed in blocks of these lengths in turn.
fn sound(
    (len, hop): (usize, usize),
    window: &[f32],
    samples: &[f32],
    blocks: &[usize],
    mut change: impl FnMut(&mut [[f32; 2]]),
) -> Vec<f32> {
    let mut memory = vec![f32::NAN; Stft::memory_len(len)];
    let mut stft = Stft::new(len, hop, window, &mut memory).unwrap();
    let (mut rest, mut sound) = (samples, Vec::new());
    for &block in blocks.iter().cycle() {
        let (mut part, later) = rest.split_at(block.min(rest.len()));
        while !part.is_empty() {
            part = &part[stft.push(part)..];
            if let Some(bins) = stft.analyze() {
                change(bins);
                stft.invert();
                sound.extend_from_slice(stft.add());
            }
        }
        rest = later;
        if rest.is_empty() {
            return sound;
        }
    }
    sound
}

fn sqrt_hann(len: usize) -> Vec<f32> {
    let mut window = vec![0.0; len];
    Stft::sqrt_hann(&mut window);
    window
}

/// The error of an FFT of n points grows with log2 n roundings; each is relative to the root of the frame's energy,
/// √n for samples up to 1 (Higham, Accuracy and Stability of Numerical Algorithms, theorem 24.2).
fn bound(len: usize) -> f64 {
    4.0 * f64::from(f32::EPSILON) * f64::from(len.ilog2()) * (len as f64).sqrt()
}

#[test]
fn bins_are_those_of_the_discrete_fourier_transform_and_the_last_one_is_in_the_first() {
    let rng = &mut Rng::new(41);
    for len in LENGTHS {
        let hop = len / 4;
        for window in [Vec::new(), sqrt_hann(len)] {
            let samples = noise(3 * hop, rng);
            let mut memory = vec![0.0; Stft::memory_len(len)];
            let mut stft = Stft::new(len, hop, &window, &mut memory).unwrap();
            // Two frames, the first with zeros in front.
            for end in [hop, 2 * hop] {
                assert_eq!(stft.push(&samples[end - hop..]), hop, "a frame waits for more");
                assert_eq!(stft.push(&samples), 0);
                let bins = stft.analyze().unwrap();
                let before = std::iter::repeat_n(&0.0, len - end).chain(&samples[..end]);
                let weights = window.iter().copied().chain(std::iter::repeat(1.0));
                let frame: Vec<f64> = before.zip(weights).map(|(&x, w)| f64::from(x * w)).collect();
                let expected = |k: usize| match k {
                    0 => [bin(&frame, 0)[0], bin(&frame, len / 2)[0]],
                    k => bin(&frame, k),
                };
                assert_eq!(bins.len(), len / 2);
                let off = bins.iter().enumerate().flat_map(|(k, &[re, im])| {
                    let [of_re, of_im] = expected(k);
                    [(f64::from(re) - of_re).abs(), (f64::from(im) - of_im).abs()]
                });
                let most = worst(off);
                println!("{len}: {most:.1e} of {:.1e}", bound(len));
                assert!(most <= bound(len), "{len}: {most:e}");
                assert!(stft.analyze().is_none());
            }
        }
    }
}

/// Overlapping squares of the root of a Hann window add up to 1 at half a frame; without a window, each sample is in
/// `len / hop` frames.
#[test]
fn unchanged_bins_give_the_samples_again_one_frame_less_a_hop_later() {
    let rng = &mut Rng::new(42);
    for len in LENGTHS {
        for (hop, window, gain) in [
            (len / 2, sqrt_hann(len), 1.0),
            (len / 4, Vec::new(), 4.0),
            (len / 2, Vec::new(), 2.0),
            (len, Vec::new(), 1.0),
            (len / 16, Vec::new(), 16.0),
        ] {
            let samples = noise(3 * len, rng);
            let found = sound((len, hop), &window, &samples, &[hop], |_| ());
            assert_eq!(found.len(), samples.len());
            let late = len - hop;
            assert!(found[..late].iter().all(|x| x.abs() < 1e-5 * gain), "zeros come first");
            let off = found[late..].iter().zip(&samples).map(|(y, x)| (y / gain - x).abs());
            let most = worst(off);
            println!("{len}, hop {hop}: {most:.1e}");
            assert!(most <= 2e-6, "{len}, hop {hop}: {most:e}");
        }
    }
}

/// Every bin by itself: one that is 1 gives a cosine, one that is i a negative sine.
#[test]
fn the_inverse_is_that_of_the_discrete_fourier_transform_for_every_bin() {
    for len in LENGTHS {
        let mut memory = vec![0.0; Stft::memory_len(len)];
        let mut stft = Stft::new(len, len, &[], &mut memory).unwrap();
        let zeros = vec![0.0; len];
        for k in (0..=len / 2).step_by(if len > 512 { 37 } else { 1 }).chain([len / 2]) {
            for part in 0..2 {
                let end = k == 0 || k == len / 2;
                if end && part == 1 {
                    continue;
                }
                assert_eq!(stft.push(&zeros), len);
                let bins = stft.analyze().unwrap();
                bins[k % (len / 2)][if k == len / 2 { 1 } else { part }] = len as f32;
                let expected = |n: usize| {
                    let angle = TAU * ((n * k) % len) as f64 / len as f64;
                    (if end { 1.0 } else { 2.0 }) * if part == 0 { angle.cos() } else { -angle.sin() }
                };
                let frame = stft.invert();
                let most = worst(frame.iter().enumerate().map(|(n, &y)| (f64::from(y) - expected(n)).abs()));
                assert!(most <= 4e-6, "{len} points, bin {k}: {most:e}");
            }
        }
    }
}

#[test]
fn blocks_of_any_length_give_the_same_bits_and_a_reset_stream_starts_again() {
    let rng = &mut Rng::new(43);
    let samples = noise(5000, rng);
    let window = sqrt_hann(512);
    let mask = |bins: &mut [[f32; 2]]| bins.iter_mut().zip(0_u8..).for_each(|(bin, k)| bin[usize::from(k & 1)] *= 0.3);
    let whole = sound((512, 128), &window, &samples, &[5000], mask);
    assert_eq!(whole.len(), 5000 / 128 * 128);
    for blocks in [&[1][..], &[7], &[128], &[129, 3], &[1000, 1]] {
        let found = sound((512, 128), &window, &samples, blocks, mask);
        same_bits(&found, &whole).unwrap_or_else(|miss| panic!("{blocks:?}: {miss}"));
    }
    let mut memory = vec![f32::NAN; Stft::memory_len(512)];
    let mut stft = Stft::new(512, 128, &window, &mut memory).unwrap();
    for end in [5000, 700, 5000] {
        let (mut rest, mut found) = (&samples[..end], Vec::new());
        while !rest.is_empty() {
            rest = &rest[stft.push(rest)..];
            if let Some(bins) = stft.analyze() {
                mask(bins);
                stft.invert();
                found.extend_from_slice(stft.add());
            }
        }
        same_bits(&found, &whole[..end / 128 * 128]).unwrap();
        stft.reset();
    }
}

/// A caller may change the frame in time, as DTLN's second network does.
#[test]
fn a_frame_that_is_replaced_is_what_is_added() {
    let mut memory = vec![0.0; Stft::memory_len(256)];
    let mut stft = Stft::new(256, 64, &[], &mut memory).unwrap();
    let mut found = Vec::new();
    for number in 0..6_i16 {
        assert_eq!(stft.push(&[0.5; 64]), 64);
        assert!(stft.analyze().is_some());
        stft.invert().fill(f32::from(number));
        found.push(stft.add()[0]);
    }
    assert_eq!(found, [0.0, 1.0, 3.0, 6.0, 10.0, 14.0]);
}

#[test]
fn wrong_lengths_are_refused() {
    let refused = |len, hop, window: &[f32], memory: usize| {
        Stft::new(len, hop, window, &mut vec![0.0; memory]).map(|_| ()).unwrap_err()
    };
    for len in [0, 1, 128, 255, 960, 4096] {
        assert_eq!(refused(len, 64, &[], 9999), StftError::Len { found: len });
    }
    for hop in [0, 3, 96, 384, 1024] {
        assert_eq!(refused(512, hop, &[], 9999), StftError::Hop { found: hop, len: 512 });
    }
    assert_eq!(refused(512, 128, &[1.0; 511], 9999), StftError::Window { found: 511, len: 512 });
    assert!(matches!(refused(512, 128, &[], 1535), StftError::Memory(_)));
    assert_eq!(
        refused(960, 480, &[], 9999).to_string(),
        "STFT: frames of 960 samples; 256, 512, 1024, 2048 are supported"
    );
    assert!(Stft::new(512, 128, &[], &mut [0.0; 1536]).is_ok());
}
