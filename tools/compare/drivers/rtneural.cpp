// RTNeural with sizes known at compile time: CELL_LSTM or CELL_GRU, and SIZE for inputs and units. DESCRIPTION is for the report.

#include <RTNeural/RTNeural.h>

#include <utility>

#include "protocol.hpp"

namespace {

#ifdef CELL_GRU
constexpr int GATES = 3;
using Cell = RTNeural::GRULayerT<float, SIZE, SIZE>;
// Indices of our gates in its order: z r n.
constexpr int ORDER[] = {1, 0, 2};
#else
constexpr int GATES = 4;
using Cell = RTNeural::LSTMLayerT<float, SIZE, SIZE>;
constexpr int ORDER[] = {0, 1, 2, 3};
#endif
using Rows = std::vector<std::vector<float>>;

struct alignas(64) Frame {
    float x[SIZE];
};

class RtNeural : public compare::Runner {
public:
    explicit RtNeural(const compare::Case& c) {
        if (c.number("input") != SIZE || c.number("hidden") != SIZE || c.number("stream") != 1)
            throw std::runtime_error("built for another case");
        const std::vector<float> x = c.floats("x.f32"), weights = c.floats("weights.f32");
        for (size_t at = 0; at < x.size(); at += SIZE) {
            Frame frame;
            std::copy_n(x.begin() + static_cast<long>(at), SIZE, frame.x);
            frames_.push_back(frame);
        }
        auto& cell = model_.template get<0>();
        const float* next = weights.data();
        // From our [gate, unit, column] to [column][gate, unit].
        auto transposed = [&] {
            Rows rows(SIZE, std::vector<float>(GATES * SIZE));
            for (int gate = 0; gate < GATES; ++gate)
                for (int unit = 0; unit < SIZE; ++unit)
                    for (int column = 0; column < SIZE; ++column)
                        rows[column][gate * SIZE + unit] = next[(ORDER[gate] * SIZE + unit) * SIZE + column];
            next += GATES * SIZE * SIZE;
            return rows;
        };
        auto bias = [&] {
            std::vector<float> rows;
            for (int gate : ORDER) rows.insert(rows.end(), next + gate * SIZE, next + (gate + 1) * SIZE);
            next += GATES * SIZE;
            return rows;
        };
        const Rows w = transposed(), u = transposed();
        std::vector<float> input_bias = bias(), recurrent_bias = bias();
        cell.setWVals(w);
        cell.setUVals(u);
#ifdef CELL_GRU
        cell.setBVals(Rows{input_bias, recurrent_bias});
#else
        for (size_t row = 0; row < input_bias.size(); ++row) input_bias[row] += recurrent_bias[row];
        cell.setBVals(input_bias);
#endif
        model_.reset();
    }

    void call() override {
        model_.forward(frames_[next_].x);
        if (++next_ == frames_.size()) next_ = 0;
    }

    std::vector<float> outputs() override {
        std::vector<float> all;
        model_.reset();
        next_ = 0;
        for (size_t step = 0; step < frames_.size(); ++step) {
            call();
            all.insert(all.end(), model_.getOutputs(), model_.getOutputs() + SIZE);
        }
        return all;
    }

    std::string description() const override { return DESCRIPTION; }

private:
    RTNeural::ModelT<float, SIZE, SIZE, Cell> model_;
    std::vector<Frame> frames_;
    size_t next_ = 0;
};

}  // namespace

int main(int count, char** arguments) {
    if (count != 3) return 2;
    const compare::Case c(arguments[1]);
    return compare::serve([&] { return std::make_unique<RtNeural>(c); });
}
