//! The spectrum of the front end in integers with AVX2, with the bits of the core's: four points of a stage of the FFT at
//! once, and eight magnitudes.

use core::arch::x86_64::*;
use core::array;

use tidegate::front_end::integer::{Circle, Complex, Fft, SEVERAL, TURNS, first_stage, stage, stride};

/// Points of a vector.
const LANES: usize = 4;

/// [`Fft`] with AVX2.
#[derive(Debug)]
pub struct Avx2Fft;

impl Fft for Avx2Fft {
    fn fft(points: &mut [Complex], circle: Circle<'_>) {
        // SAFETY: `front_end` passes this type on only if the CPU has AVX2.
        unsafe { fft(points, circle) }
    }

    const WIDE: bool = true;

    fn magnitudes(points: &[Complex], circle: Circle<'_>, first: usize) -> [u32; SEVERAL] {
        // SAFETY: as above.
        unsafe { magnitudes(points, circle, first) }
    }
}

#[target_feature(enable = "avx2")]
fn fft(points: &mut [Complex], circle: Circle<'_>) {
    let mut quarter = first_stage(points);
    while quarter < points.len() {
        match quarter {
            // With fewer than 16 points there is no wide stage.
            _ if points.len() < 16 => stage(points, circle, quarter),
            1 => stage(points, circle, 1),
            2 => pairs(points, circle),
            _ => wide_stage(points, circle, quarter),
        }
        quarter *= 4;
    }
}

/// The stage that combines points two apart: two groups at once.
#[target_feature(enable = "avx2")]
fn pairs(points: &mut [Complex], circle: Circle<'_>) {
    let step = stride(points.len(), 2);
    let turns = turns(circle, |lane| (lane & 1) << step);
    for groups in points.as_chunks_mut::<16>().0 {
        let parts = groups.as_chunks_mut::<LANES>().0;
        let [one, two, three, four] = parts else { return };
        let [a, b, c, d] = [&*one, two, three, four].map(|part| load(part));
        let values = [
            _mm256_permute2x128_si256::<0x20>(a, c),
            _mm256_permute2x128_si256::<0x20>(b, d),
            _mm256_permute2x128_si256::<0x31>(a, c),
            _mm256_permute2x128_si256::<0x31>(b, d),
        ];
        let turned = turned::<0b11_0011>(values, turns);
        let [first, second, third, fourth] = combined(turned);
        store(one, _mm256_permute2x128_si256::<0x20>(first, third));
        store(two, _mm256_permute2x128_si256::<0x20>(second, fourth));
        store(three, _mm256_permute2x128_si256::<0x31>(first, third));
        store(four, _mm256_permute2x128_si256::<0x31>(second, fourth));
    }
}

/// A stage that combines points at least a vector apart.
#[target_feature(enable = "avx2")]
fn wide_stage(points: &mut [Complex], circle: Circle<'_>, quarter: usize) {
    let step = stride(points.len(), quarter);
    for k in (0..quarter).step_by(LANES) {
        let turns = turns(circle, |lane| (k + lane) << step);
        for group in points.chunks_exact_mut(4 * quarter) {
            let (first, rest) = group.split_at_mut(quarter);
            let (third, rest) = rest.split_at_mut(quarter);
            let (second, fourth) = rest.split_at_mut(quarter);
            let [first, second, third, fourth] =
                [first, second, third, fourth].map(|part| part[k..].first_chunk_mut::<LANES>());
            let (Some(first), Some(second), Some(third), Some(fourth)) = (first, second, third, fourth) else { return };
            let values = [&*first, second, third, fourth].map(|part| load(part));
            let turned = if k == 0 { turned::<0b11>(values, turns) } else { turned::<0>(values, turns) };
            let [a, b, c, d] = combined(turned);
            store(first, a);
            store(second, b);
            store(third, c);
            store(fourth, d);
        }
    }
}

/// Cosine and sine, twice each, of one, two and three times the angle of each lane.
#[target_feature(enable = "avx2")]
fn turns(circle: Circle<'_>, angle: impl Fn(usize) -> usize) -> [[__m256i; 2]; 3] {
    [1, 2, 3].map(|times| {
        let mut turn = [[0; 2 * LANES]; 2];
        for lane in 0..LANES {
            let [cos, sin] = circle.at(times * angle(lane));
            (turn[0][2 * lane], turn[0][2 * lane + 1]) = (cos, cos);
            (turn[1][2 * lane], turn[1][2 * lane + 1]) = (sin, sin);
        }
        turn.map(|words| load_words(words))
    })
}

/// Halves the first points and rotates the others. The words of `STILL` are only halved, without a product.
#[target_feature(enable = "avx2")]
#[inline]
fn turned<const STILL: i32>([a, b, c, d]: [__m256i; 4], [once, twice, thrice]: [[__m256i; 2]; 3]) -> [__m256i; 4] {
    let still = |value, turn| _mm256_blend_epi32::<STILL>(turn, _mm256_srai_epi32::<1>(value));
    let [second, third, fourth] = [turn(b, once), turn(c, twice), turn(d, thrice)];
    [_mm256_srai_epi32::<1>(a), still(b, second), still(c, third), still(d, fourth)]
}

/// The sums of four points, halved.
#[target_feature(enable = "avx2")]
#[inline]
fn combined([a, b, c, d]: [__m256i; 4]) -> [__m256i; 4] {
    let (even, odd) = (_mm256_add_epi32(a, c), _mm256_sub_epi32(a, c));
    let (both, apart) = (_mm256_add_epi32(b, d), _mm256_sub_epi32(b, d));
    let across = conjugate(swapped(apart));
    [
        _mm256_srai_epi32::<1>(_mm256_add_epi32(even, both)),
        _mm256_srai_epi32::<1>(_mm256_sub_epi32(even, both)),
        _mm256_srai_epi32::<1>(_mm256_add_epi32(odd, across)),
        _mm256_srai_epi32::<1>(_mm256_sub_epi32(odd, across)),
    ]
}

/// Half of each point, rotated backwards by an angle, given by its cosines and sines, twice each.
#[target_feature(enable = "avx2")]
#[inline]
fn turn(points: __m256i, [cos, sin]: [__m256i; 2]) -> __m256i {
    // re · cos, im · cos; and im · sin, re · sin, of which the second is subtracted.
    _mm256_add_epi32(mulh(points, cos), conjugate(mulh(swapped(points), sin)))
}

/// The upper halves of the products. Both words of a point have the same factor.
#[target_feature(enable = "avx2")]
#[inline]
fn mulh(words: __m256i, factors: __m256i) -> __m256i {
    let even = _mm256_mul_epi32(words, factors);
    let odd = _mm256_mul_epi32(_mm256_srli_epi64::<32>(words), factors);
    _mm256_blend_epi32::<0b1010_1010>(_mm256_srli_epi64::<32>(even), odd)
}

/// Imaginary and real part.
#[target_feature(enable = "avx2")]
#[inline]
fn swapped(points: __m256i) -> __m256i {
    _mm256_shuffle_epi32::<0b10_11_00_01>(points)
}

/// The points with the imaginary part negated. It wraps.
#[target_feature(enable = "avx2")]
#[inline]
fn conjugate(points: __m256i) -> __m256i {
    _mm256_sign_epi32(points, _mm256_set1_epi64x(0xFFFF_FFFF_0000_0001_u64.cast_signed()))
}

/// [`Fft::magnitudes`]: each bin from its point, the point that mirrors it, and its angle.
#[target_feature(enable = "avx2")]
fn magnitudes(points: &[Complex], circle: Circle<'_>, first: usize) -> [u32; SEVERAL] {
    let mask = points.len().wrapping_sub(1);
    let point = |place: usize| points.get(place & mask).copied().unwrap_or([0, 0]);
    let [low, high] = [first, first + LANES].map(|first| {
        let own = load(&array::from_fn(|lane| point(first + lane)));
        let mirrored = load(&array::from_fn(|lane| point(points.len().wrapping_sub(first + lane))));
        let mirrored = conjugate(mirrored);
        let mut angle = [[0; 2 * LANES]; 2];
        for lane in 0..LANES {
            let [cos, sin] = circle.at(first + lane);
            (angle[0][2 * lane], angle[0][2 * lane + 1]) = (cos, cos);
            (angle[1][2 * lane], angle[1][2 * lane + 1]) = (sin, sin);
        }
        let turned = turn(_mm256_sub_epi32(own, mirrored), angle.map(|words| load_words(words)));
        let halved = _mm256_srai_epi32::<1>(_mm256_add_epi32(own, mirrored));
        _mm256_abs_epi32(_mm256_add_epi32(halved, conjugate(swapped(turned))))
    });
    let (low, high) = (_mm256_castsi256_ps(low), _mm256_castsi256_ps(high));
    let re = _mm256_castps_si256(_mm256_shuffle_ps::<0b10_00_10_00>(low, high));
    let im = _mm256_castps_si256(_mm256_shuffle_ps::<0b11_01_11_01>(low, high));
    let (mut x, mut y) = (_mm256_max_epi32(re, im), _mm256_min_epi32(re, im));
    for turn in 1..=TURNS {
        let count = _mm_cvtsi32_si128(turn as i32);
        let next = _mm256_add_epi32(x, _mm256_sra_epi32(y, count));
        y = _mm256_abs_epi32(_mm256_sub_epi32(y, _mm256_sra_epi32(x, count)));
        x = next;
    }
    // Back to the order of the bins: the halves of each vector were dealt alternately.
    let x = _mm256_permute4x64_epi64::<0b11_01_10_00>(x);
    let mut sizes = [0; SEVERAL];
    // SAFETY: eight words are the bytes of a vector.
    unsafe { _mm256_storeu_si256(sizes.as_mut_ptr().cast(), x) };
    sizes
}

#[target_feature(enable = "avx2")]
#[inline]
fn load(points: &[Complex; LANES]) -> __m256i {
    // SAFETY: four points are the bytes of a vector.
    unsafe { _mm256_loadu_si256(points.as_ptr().cast()) }
}

#[target_feature(enable = "avx2")]
#[inline]
fn load_words(words: [i32; 2 * LANES]) -> __m256i {
    // SAFETY: eight words are the bytes of a vector.
    unsafe { _mm256_loadu_si256(words.as_ptr().cast()) }
}

#[target_feature(enable = "avx2")]
#[inline]
fn store(to: &mut [Complex; LANES], points: __m256i) {
    // SAFETY: four points are the bytes of a vector.
    unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), points) }
}
