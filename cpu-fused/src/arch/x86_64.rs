//! x86-64: AVX2 and AVX-512.

#![expect(unsafe_code, reason = "instructions that only some CPUs have: every block says why this one has them")]

use core::arch::x86_64::*;

use half::f16;

use crate::simd::{Instructions, Simd, Task};

/// Proof that this CPU has AVX2, FMA and F16C: only [`detect`](Self::detect) makes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Avx2(());

impl Avx2 {
    /// Checks the CPU.
    pub fn detect() -> Option<Self> {
        let has =
            is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c");
        has.then_some(Self(()))
    }
}

/// Proof that this CPU has AVX-512 F, BW, VL, DQ and VNNI, and what [`Avx2`] proves: only [`detect`](Self::detect)
/// makes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Avx512(());

impl Avx512 {
    /// Checks the CPU.
    pub fn detect() -> Option<Self> {
        let has = Avx2::detect().is_some()
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vnni");
        has.then_some(Self(()))
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
fn with_avx2<T: Task>(task: T) -> T::Output {
    task.run()
}

#[target_feature(enable = "avx2,fma,f16c")]
#[inline(never)]
fn apart_avx2<T: Task>(task: T) -> T::Output {
    task.run()
}

#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
fn with_avx512<T: Task>(task: T) -> T::Output {
    task.run()
}

#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
#[inline(never)]
fn apart_avx512<T: Task>(task: T) -> T::Output {
    task.run()
}

/// Evaluates an expression of instructions that `self` proves.
macro_rules! proven {
    ($of:expr) => {{
        // SAFETY: `self` exists, so `detect` has found these instructions on this CPU; none of them touches memory.
        unsafe { $of }
    }};
}

mod curves_avx2;
pub mod front_end;
mod integers_avx2;
mod integers_avx512;
mod tanh_avx512;

/// Masks of eight lanes are slices of this array.
const FIRST: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];

impl Avx2 {
    /// All ones in the first `len` lanes, at most eight.
    #[inline(always)]
    fn mask(self, len: usize) -> __m256i {
        let from: &[i32; 8] = FIRST[8 - len.min(8)..].first_chunk().unwrap_or(&[0; 8]);
        // SAFETY: `self` proves AVX; the array has the 32 bytes that are read.
        unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
    }
}

impl Instructions for Avx2 {
    #[inline(always)]
    fn vectorize<T: Task>(self, task: T) -> T::Output {
        // SAFETY: `self` exists, so `detect` has found AVX2 and FMA on this CPU.
        unsafe { with_avx2(task) }
    }

    #[inline(always)]
    fn call<T: Task>(self, task: T) -> T::Output {
        // SAFETY: `self` exists, so `detect` has found AVX2 and FMA on this CPU.
        unsafe { apart_avx2(task) }
    }
}

impl Simd for Avx2 {
    type Lanes = [f32; 8];
    type Halves = [f16; 8];
    type F32 = __m256;
    type Parts = __m256;
    const LANES: usize = 8;
    const ROWS: usize = 6;
    const SUMS: usize = 12;

    #[inline(always)]
    fn splat(self, value: f32) -> __m256 {
        proven!(_mm256_set1_ps(value))
    }

    #[inline(always)]
    fn load(self, from: &[f32; 8]) -> __m256 {
        // SAFETY: `self` proves AVX; the array has the 32 bytes that are read.
        unsafe { _mm256_loadu_ps(from.as_ptr()) }
    }

    #[inline(always)]
    fn store(self, value: __m256, to: &mut [f32; 8]) {
        // SAFETY: `self` proves AVX; the array has the 32 bytes that are written.
        unsafe { _mm256_storeu_ps(to.as_mut_ptr(), value) }
    }

    #[inline(always)]
    fn widen(self, from: &[f16; 8]) -> __m256 {
        // SAFETY: `self` proves F16C; the array has the 16 bytes that are read.
        unsafe { _mm256_cvtph_ps(_mm_loadu_si128(from.as_ptr().cast())) }
    }

    #[inline(always)]
    fn split(self, whole: __m256) -> __m256 {
        whole
    }

    #[inline(always)]
    fn join(self, parts: __m256) -> __m256 {
        parts
    }

    #[inline(always)]
    fn fma_halves(self, a: &[f16; 8], b: __m256, c: __m256) -> __m256 {
        self.fma(self.widen(a), b, c)
    }

    #[inline(always)]
    fn load_part(self, from: &[f32]) -> __m256 {
        match from.first_chunk() {
            Some(whole) => self.load(whole),
            // SAFETY: `self` proves AVX; only lanes that the slice has are read.
            None => unsafe { _mm256_maskload_ps(from.as_ptr(), self.mask(from.len())) },
        }
    }

    #[inline(always)]
    fn store_part(self, value: __m256, to: &mut [f32]) {
        match to.first_chunk_mut() {
            Some(whole) => self.store(value, whole),
            // SAFETY: `self` proves AVX; only lanes that the slice has are written.
            None => unsafe { _mm256_maskstore_ps(to.as_mut_ptr(), self.mask(to.len()), value) },
        }
    }

    #[inline(always)]
    fn add(self, a: __m256, b: __m256) -> __m256 {
        proven!(_mm256_add_ps(a, b))
    }

    #[inline(always)]
    fn sub(self, a: __m256, b: __m256) -> __m256 {
        proven!(_mm256_sub_ps(a, b))
    }

    #[inline(always)]
    fn mul(self, a: __m256, b: __m256) -> __m256 {
        proven!(_mm256_mul_ps(a, b))
    }

    #[inline(always)]
    fn div(self, a: __m256, b: __m256) -> __m256 {
        proven!(_mm256_div_ps(a, b))
    }

    #[inline(always)]
    fn fma(self, a: __m256, b: __m256, c: __m256) -> __m256 {
        proven!(_mm256_fmadd_ps(a, b, c))
    }

    #[inline(always)]
    fn fnma(self, a: __m256, b: __m256, c: __m256) -> __m256 {
        proven!(_mm256_fnmadd_ps(a, b, c))
    }

    #[inline(always)]
    fn min(self, a: __m256, b: __m256) -> __m256 {
        proven!(_mm256_min_ps(a, b))
    }

    #[inline(always)]
    fn abs(self, a: __m256) -> __m256 {
        proven!(_mm256_andnot_ps(_mm256_set1_ps(-0.0), a))
    }

    #[inline(always)]
    fn signed(self, size: __m256, sign: __m256) -> __m256 {
        proven!(_mm256_or_ps(size, _mm256_and_ps(_mm256_set1_ps(-0.0), sign)))
    }

    #[inline(always)]
    fn power(self, low_bits: __m256) -> __m256 {
        proven!({
            let shifted = _mm256_slli_epi32::<23>(_mm256_castps_si256(low_bits));
            _mm256_castsi256_ps(_mm256_add_epi32(shifted, _mm256_castps_si256(_mm256_set1_ps(1.0))))
        })
    }

    #[inline(always)]
    fn tanh(self, x: __m256, scale: f32) -> __m256 {
        curves_avx2::tanh(self, x, scale)
    }

    #[inline(always)]
    fn sigmoid(self, x: __m256) -> __m256 {
        curves_avx2::sigmoid(self, x)
    }

    #[inline(always)]
    fn gated_tanh(self, gate: __m256, x: __m256) -> __m256 {
        curves_avx2::gated_tanh(self, gate, x)
    }

    #[inline(always)]
    fn sum(self, a: __m256) -> f32 {
        proven!({
            let four = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
            let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
        })
    }
}

impl Avx512 {
    /// The first `len` lanes, at most sixteen.
    #[inline(always)]
    fn mask(len: usize) -> __mmask16 {
        ((1_u32 << len.min(16)) - 1) as u16
    }

    /// `x` with its lowest bits set to zero.
    #[inline(always)]
    fn without_low_bits<const BITS: u32>(self, x: __m512) -> __m512 {
        proven!(_mm512_and_ps(x, _mm512_castsi512_ps(_mm512_set1_epi32(-1 << BITS))))
    }

    /// Looks up each table of 32 numbers with the five bits of `of` above its lowest `BITS`.
    #[inline(always)]
    fn picked<const BITS: u32, const N: usize>(self, tables: &[[[f32; 16]; 2]; N], of: __m512) -> [__m512; N] {
        let index = proven!(_mm512_srli_epi32::<BITS>(_mm512_castps_si512(of)));
        let mut picked = [of; N];
        for n in 0..N {
            let (low, high) = (self.load(&tables[n][0]), self.load(&tables[n][1]));
            picked[n] = proven!(_mm512_permutex2var_ps(low, index, high));
        }
        picked
    }
}

impl Instructions for Avx512 {
    #[inline(always)]
    fn vectorize<T: Task>(self, task: T) -> T::Output {
        // SAFETY: `self` exists, so `detect` has found all these instructions on this CPU.
        unsafe { with_avx512(task) }
    }

    #[inline(always)]
    fn call<T: Task>(self, task: T) -> T::Output {
        // SAFETY: `self` exists, so `detect` has found all these instructions on this CPU.
        unsafe { apart_avx512(task) }
    }
}

impl Simd for Avx512 {
    type Lanes = [f32; 16];
    type Halves = [f16; 16];
    type F32 = __m512;
    type Parts = [__m256; 2];
    const LANES: usize = 16;
    const ROWS: usize = 6;
    const SUMS: usize = 24;

    #[inline(always)]
    fn splat(self, value: f32) -> __m512 {
        proven!(_mm512_set1_ps(value))
    }

    #[inline(always)]
    fn load(self, from: &[f32; 16]) -> __m512 {
        // SAFETY: `self` proves AVX-512; the array has the 64 bytes that are read.
        unsafe { _mm512_loadu_ps(from.as_ptr()) }
    }

    #[inline(always)]
    fn store(self, value: __m512, to: &mut [f32; 16]) {
        // SAFETY: `self` proves AVX-512; the array has the 64 bytes that are written.
        unsafe { _mm512_storeu_ps(to.as_mut_ptr(), value) }
    }

    #[inline(always)]
    fn widen(self, from: &[f16; 16]) -> __m512 {
        // SAFETY: `self` proves AVX-512; the array has the 32 bytes that are read.
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(from.as_ptr().cast())) }
    }

    #[inline(always)]
    fn split(self, whole: __m512) -> [__m256; 2] {
        proven!([_mm512_castps512_ps256(whole), _mm512_extractf32x8_ps::<1>(whole)])
    }

    #[inline(always)]
    fn join(self, [low, high]: [__m256; 2]) -> __m512 {
        proven!(_mm512_insertf32x8::<1>(_mm512_castps256_ps512(low), high))
    }

    /// Vectors of eight are widened at twice the speed: sixteen take two operations and a permutation.
    #[inline(always)]
    fn fma_halves(self, a: &[f16; 16], b: __m512, [low, high]: [__m256; 2]) -> [__m256; 2] {
        let [a, c]: &[[f16; 8]; 2] = bytemuck::must_cast_ref(a);
        // SAFETY: `self` proves AVX-512, FMA and F16C; each array has the 16 bytes that are read.
        unsafe {
            let b = _mm512_castps512_ps256(b);
            let a = _mm256_cvtph_ps(_mm_loadu_si128(a.as_ptr().cast()));
            let c = _mm256_cvtph_ps(_mm_loadu_si128(c.as_ptr().cast()));
            [_mm256_fmadd_ps(a, b, low), _mm256_fmadd_ps(c, b, high)]
        }
    }

    // Whole vectors need no mask: a masked store cannot be forwarded to a load.
    #[inline(always)]
    fn load_part(self, from: &[f32]) -> __m512 {
        match from.first_chunk() {
            Some(whole) => self.load(whole),
            // SAFETY: `self` proves AVX-512; only lanes that the slice has are read.
            None => unsafe { _mm512_maskz_loadu_ps(Self::mask(from.len()), from.as_ptr()) },
        }
    }

    #[inline(always)]
    fn store_part(self, value: __m512, to: &mut [f32]) {
        match to.first_chunk_mut() {
            Some(whole) => self.store(value, whole),
            // SAFETY: `self` proves AVX-512; only lanes that the slice has are written.
            None => unsafe { _mm512_mask_storeu_ps(to.as_mut_ptr(), Self::mask(to.len()), value) },
        }
    }

    #[inline(always)]
    fn add(self, a: __m512, b: __m512) -> __m512 {
        proven!(_mm512_add_ps(a, b))
    }

    #[inline(always)]
    fn sub(self, a: __m512, b: __m512) -> __m512 {
        proven!(_mm512_sub_ps(a, b))
    }

    #[inline(always)]
    fn mul(self, a: __m512, b: __m512) -> __m512 {
        proven!(_mm512_mul_ps(a, b))
    }

    #[inline(always)]
    fn div(self, a: __m512, b: __m512) -> __m512 {
        proven!(_mm512_div_ps(a, b))
    }

    #[inline(always)]
    fn fma(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        proven!(_mm512_fmadd_ps(a, b, c))
    }

    #[inline(always)]
    fn fnma(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        proven!(_mm512_fnmadd_ps(a, b, c))
    }

    #[inline(always)]
    fn min(self, a: __m512, b: __m512) -> __m512 {
        proven!(_mm512_min_ps(a, b))
    }

    #[inline(always)]
    fn abs(self, a: __m512) -> __m512 {
        proven!(_mm512_abs_ps(a))
    }

    #[inline(always)]
    fn signed(self, size: __m512, sign: __m512) -> __m512 {
        proven!(_mm512_or_ps(size, _mm512_and_ps(_mm512_set1_ps(-0.0), sign)))
    }

    #[inline(always)]
    fn power(self, low_bits: __m512) -> __m512 {
        proven!({
            let shifted = _mm512_slli_epi32::<23>(_mm512_castps_si512(low_bits));
            _mm512_castsi512_ps(_mm512_add_epi32(shifted, _mm512_castps_si512(_mm512_set1_ps(1.0))))
        })
    }

    #[inline(always)]
    fn tanh(self, x: __m512, scale: f32) -> __m512 {
        tanh_avx512::tanh(self, x, scale)
    }

    #[inline(always)]
    fn sum(self, a: __m512) -> f32 {
        // A CPU with AVX-512 has AVX2.
        Avx2(()).sum(proven!(_mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps::<1>(a))))
    }
}
