//! The FFT of real numbers in place, of the lengths that the front end and [`Stft`](crate::Stft) support.

use microfft::{Complex32, real};

/// Bins 0 to N / 2 - 1 of the FFT of N = 256, 512, 1024 or 2048 reals, in place; the imaginary part of bin 0 is bin
/// N / 2.
pub fn rfft(signal: &mut [f32]) -> &mut [Complex32] {
    match signal.len() {
        256 => signal.first_chunk_mut().map_or(&mut [], |signal| real::rfft_256(signal)),
        512 => signal.first_chunk_mut().map_or(&mut [], |signal| real::rfft_512(signal)),
        1024 => signal.first_chunk_mut().map_or(&mut [], |signal| real::rfft_1024(signal)),
        2048 => signal.first_chunk_mut().map_or(&mut [], |signal| real::rfft_2048(signal)),
        _ => &mut [],
    }
}
