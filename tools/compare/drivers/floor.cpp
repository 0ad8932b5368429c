// The least time that this core needs for a case: its multiply-adds in f32, in vectors of 8 (AVX2) or 16 (AVX-512), on
// independent chains. A batch has its weights in registers. One sequence reads every recurrent weight in every step, from
// the cache that holds them; its products with the input are one matrix product. A stream reads all weights.

#include <immintrin.h>

#include <cmath>

#include "protocol.hpp"

namespace {

#ifdef __AVX512F__
using Vector = __m512;
constexpr int LANES = 16;
Vector zero() { return _mm512_setzero_ps(); }
Vector load(const float* from) { return _mm512_loadu_ps(from); }
Vector fma(Vector a, Vector b, Vector c) { return _mm512_fmadd_ps(a, b, c); }
#else
using Vector = __m256;
constexpr int LANES = 8;
Vector zero() { return _mm256_setzero_ps(); }
Vector load(const float* from) { return _mm256_loadu_ps(from); }
Vector fma(Vector a, Vector b, Vector c) { return _mm256_fmadd_ps(a, b, c); }
#endif
// Chains that cover the latency of a multiply-add, in 16 registers.
constexpr int CHAINS = 12;

// A chain for each register: an array would be kept in memory.
struct Sums {
    Vector a = zero(), b = zero(), c = zero(), d = zero(), e = zero(), f = zero();
    Vector g = zero(), h = zero(), i = zero(), j = zero(), k = zero(), l = zero();

    // Keeps the compiler from removing or merging operations.
    void opaque() {
        asm volatile("" : "+x"(a), "+x"(b), "+x"(c), "+x"(d), "+x"(e), "+x"(f));
        asm volatile("" : "+x"(g), "+x"(h), "+x"(i), "+x"(j), "+x"(k), "+x"(l));
    }

    // One multiply-add of each chain, with vector `index` of `weight`.
    template <class Weight>
    void add(Weight weight, Vector x) {
        a = fma(weight(0), x, a), b = fma(weight(1), x, b), c = fma(weight(2), x, c), d = fma(weight(3), x, d);
        e = fma(weight(4), x, e), f = fma(weight(5), x, f), g = fma(weight(6), x, g), h = fma(weight(7), x, h);
        i = fma(weight(8), x, i), j = fma(weight(9), x, j), k = fma(weight(10), x, k), l = fma(weight(11), x, l);
        opaque();
    }
};

class Floor : public compare::Runner {
public:
    explicit Floor(const compare::Case& c) {
        const long gates = c.text("cell") == "lstm" ? 4 : 3, hidden = c.number("hidden"), sides = c.number("directions");
        const bool stream = c.number("stream") == 1;
        const long steps = stream ? 1 : c.number("steps"), batch = c.number("batch");
        long inputs = c.number("input");
        for (int layer = 0; layer < c.number("layers"); ++layer, inputs = sides * hidden) {
            const long from_input = sides * gates * hidden * inputs, from_state = sides * gates * hidden * hidden;
            if (batch > 1) {
                registers_ += steps * batch * (from_input + from_state);
            } else if (stream) {
                memory_ += from_input + from_state;
            } else {
                registers_ += steps * from_input, memory_ += from_state, passes_ = steps;
            }
        }
        registers_ = (registers_ + CHAINS * LANES - 1) / (CHAINS * LANES);
        memory_ = (memory_ + CHAINS * LANES - 1) / (CHAINS * LANES) * (CHAINS * LANES);
        weights_.resize(memory_ + LANES);
        // Vectors that span two cache lines would take two reads.
        first_ = weights_.data();
        while (reinterpret_cast<uintptr_t>(first_) % (LANES * sizeof(float)) != 0) ++first_;
    }

    void call() override {
        Sums sums;
        Vector x = zero();
        asm volatile("" : "+x"(x));
        for (long turn = 0; turn < registers_; ++turn) sums.add([x](int) { return x; }, x);
        // Every other pass over the weights runs backwards, as ours do: it begins with the part that is still in a cache.
        for (long pass = 0; pass < passes_; ++pass, backwards_ = !backwards_) {
            constexpr long AT_ONCE = CHAINS * LANES;
            const float* from = first_ + (backwards_ ? memory_ - AT_ONCE : 0);
            const long stride = backwards_ ? -AT_ONCE : AT_ONCE;
            for (long left = memory_; left > 0; left -= AT_ONCE, from += stride)
                sums.add([from](int index) { return load(from + index * LANES); }, x);
        }
    }

    std::vector<float> outputs() override { throw std::runtime_error("a floor has no outputs"); }

    std::string description() const override {
        return "multiply-adds in vectors of " + std::to_string(LANES) + ", and reads of the weights where a step needs all";
    }

private:
    long registers_ = 0, memory_ = 0, passes_ = 1;
    bool backwards_ = false;
    std::vector<float> weights_;
    const float* first_ = nullptr;
};

}  // namespace

int main(int count, char** arguments) {
    if (count != 3) return 2;
    const compare::Case c(arguments[1]);
    return compare::serve([&] { return std::make_unique<Floor>(c); });
}
