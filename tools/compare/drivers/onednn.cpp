// oneDNN: its LSTM primitive in f32 or int8 (u8 activations, s8 weights with a scale per row, f32 cell state). A stream in
// int8 has f32 input and output like the others: the driver quantizes the frame, and h stays u8 between steps.

#include <algorithm>
#include <cmath>
#include <cstring>

#include "oneapi/dnnl/dnnl.hpp"
#include "protocol.hpp"

using namespace dnnl;
using Type = memory::data_type;
using Tag = memory::format_tag;

namespace {

memory::desc plain(memory::dims dims, Type type, Tag tag) { return {dims, type, tag}; }

// One layer of the network, because oneDNN only stacks layers of the same width.
struct Layer {
    lstm_forward primitive;
    std::unordered_map<int, memory> arguments;
    memory h, c, next_h, next_c;
};

class OneDnn : public compare::Runner {
public:
    OneDnn(const compare::Case& c, bool int8)
        : int8_(int8), stream_(c.number("stream") == 1), engine_(engine::kind::cpu, 0), queue_(engine_),
          time_(c.number("steps")), batch_(c.number("batch")), input_(c.number("input")), hidden_(c.number("hidden")),
          sides_(c.number("directions")), frames_(c.floats("x.f32")) {
        if (c.text("cell") != "lstm") throw std::runtime_error("only LSTMs");
        steps_ = stream_ ? 1 : time_;
        // u8 covers [-1, 1] for h and the range of the calibration input.
        scale_ = 127.0f / std::max(1.0f, std::stof(c.text("scale")));
        const std::vector<float> weights = c.floats("weights.f32");
        const float* next = weights.data();
        const Type type = int8_ ? Type::u8 : Type::f32;
        x_ = memory(plain({steps_, batch_, input_}, type, Tag::tnc), engine_);
        memory x = x_;
        for (int layer = 0; layer < c.number("layers"); ++layer) {
            const bool last = layer + 1 == c.number("layers");
            memory y(plain({steps_, batch_, sides_ * hidden_}, last ? Type::f32 : type, Tag::tnc), engine_);
            layers_.push_back(add(x, y, next));
            x = y;
        }
        y_ = x;
        load_frame();
        reset();
    }

    void call() override {
        if (stream_) load_frame();
        for (Layer& layer : layers_) layer.primitive.execute(queue_, layer.arguments);
        queue_.wait();
        if (!stream_) return;
        // The next call reads the state that this call has written.
        Layer& layer = layers_[0];
        std::swap(layer.arguments[DNNL_ARG_SRC_ITER], layer.arguments[DNNL_ARG_DST_ITER]);
        std::swap(layer.arguments[DNNL_ARG_SRC_ITER_C], layer.arguments[DNNL_ARG_DST_ITER_C]);
    }

    std::vector<float> outputs() override {
        std::vector<float> all;
        const float* y = static_cast<const float*>(y_.get_data_handle());
        const size_t row = static_cast<size_t>(steps_ * batch_ * sides_ * hidden_);
        frame_ = 0;
        reset();
        for (int call_index = 0; call_index < time_ / steps_; ++call_index) {
            call();
            all.insert(all.end(), y, y + row);
        }
        return all;
    }

    std::string description() const override {
        const version_t* v = version();
        std::ostringstream text;
        text << "oneDNN " << v->major << "." << v->minor << "." << v->patch << ", " << layers_[0].info();
        return text.str();
    }

private:
    struct Named : Layer {
        std::string name;
        const std::string& info() const { return name; }
    };

    Named add(const memory& x, const memory& y, const float*& next) {
        const memory::dim features = x.get_desc().get_dims()[2], gates = 4;
        const memory::dims w_dims{1, sides_, features, gates, hidden_}, r_dims{1, sides_, hidden_, gates, hidden_};
        memory w(plain(w_dims, Type::f32, Tag::ldigo), engine_), r(plain(r_dims, Type::f32, Tag::ldigo), engine_);
        memory b(plain({1, sides_, gates, hidden_}, Type::f32, Tag::ldgo), engine_);
        auto* to_w = static_cast<float*>(w.get_data_handle());
        auto* to_r = static_cast<float*>(r.get_data_handle());
        auto* to_b = static_cast<float*>(b.get_data_handle());
        const memory::dim rows = gates * hidden_;
        std::vector<float> scales(static_cast<size_t>(rows), 0.0f);
        // Our rows are [gate, unit], in its order. It needs columns first.
        for (memory::dim side = 0; side < sides_; ++side) {
            auto transpose = [&](float* to, memory::dim columns) {
                for (memory::dim row = 0; row < rows; ++row)
                    for (memory::dim column = 0; column < columns; ++column) {
                        const float value = *next++;
                        to[(side * columns + column) * rows + row] = value;
                        scales[row] = std::max(scales[row], std::fabs(value));
                    }
            };
            transpose(to_w, features);
            transpose(to_r, hidden_);
            for (memory::dim row = 0; row < rows; ++row) to_b[side * rows + row] = next[row] + next[rows + row];
            next += 2 * rows;
        }
        for (float& scale : scales) scale = 127.0f / scale;

        primitive_attr attributes;
        if (int8_) {
            attributes.set_rnn_data_qparams(scale_, SHIFT);
            attributes.set_rnn_weights_qparams((1 << 3) + (1 << 4), scales);
        }
        const Type type = int8_ ? Type::u8 : Type::f32, weights_type = int8_ ? Type::s8 : Type::f32;
        const memory::desc state = plain({1, sides_, batch_, hidden_}, type, Tag::ldnc);
        const memory::desc cell = plain({1, sides_, batch_, hidden_}, Type::f32, Tag::ldnc);
        const lstm_forward::primitive_desc made(
            engine_, prop_kind::forward_inference,
            sides_ == 2 ? rnn_direction::bidirectional_concat : rnn_direction::unidirectional_left2right, x.get_desc(), state,
            cell, plain(w_dims, weights_type, Tag::any), plain(r_dims, weights_type, Tag::any), b.get_desc(), y.get_desc(),
            state, cell, attributes);
        Named layer;
        layer.name = made.impl_info_str();
        layer.primitive = lstm_forward(made);
        auto packed = [&](memory& from, const memory::desc& as) {
            memory to(as, engine_);
            reorder(reorder::primitive_desc(from, to, attributes)).execute(queue_, from, to);
            queue_.wait();
            return to;
        };
        layer.h = memory(state, engine_), layer.next_h = memory(state, engine_);
        layer.c = memory(cell, engine_), layer.next_c = memory(cell, engine_);
        layer.arguments = {{DNNL_ARG_SRC_LAYER, x},       {DNNL_ARG_SRC_ITER, layer.h},      {DNNL_ARG_SRC_ITER_C, layer.c},
                           {DNNL_ARG_WEIGHTS_LAYER, packed(w, made.weights_layer_desc())},
                           {DNNL_ARG_WEIGHTS_ITER, packed(r, made.weights_iter_desc())}, {DNNL_ARG_BIAS, b},
                           {DNNL_ARG_DST_LAYER, y},       {DNNL_ARG_DST_ITER, layer.next_h}, {DNNL_ARG_DST_ITER_C, layer.next_c}};
        return layer;
    }

    void reset() {
        for (Layer& layer : layers_)
            for (auto [h, c] : {std::pair{layer.h, layer.c}, std::pair{layer.next_h, layer.next_c}}) {
                std::memset(h.get_data_handle(), int8_ ? static_cast<int>(SHIFT) : 0, h.get_desc().get_size());
                std::memset(c.get_data_handle(), 0, c.get_desc().get_size());
            }
    }

    void load_frame() {
        const memory::dim size = steps_ * batch_ * input_;
        const float* from = frames_.data() + frame_ * size;
        if (int8_) {
            auto* to = static_cast<uint8_t*>(x_.get_data_handle());
            for (memory::dim k = 0; k < size; ++k) {
                to[k] = static_cast<uint8_t>(std::min(255.0f, std::max(0.0f, from[k] * scale_ + SHIFT + 0.5f)));
            }
        } else {
            std::memcpy(x_.get_data_handle(), from, static_cast<size_t>(size) * sizeof(float));
        }
        if (stream_ && ++frame_ == time_) frame_ = 0;
    }

    static constexpr float SHIFT = 128.0f;
    bool int8_, stream_;
    engine engine_;
    stream queue_;
    memory::dim time_, batch_, input_, hidden_, sides_, steps_ = 0, frame_ = 0;
    float scale_ = 0;
    std::vector<float> frames_;
    memory x_, y_;
    std::vector<Named> layers_;
};

}  // namespace

int main(int count, char** arguments) {
    if (count != 3) return 2;
    const compare::Case c(arguments[1]);
    return compare::serve([&] { return std::make_unique<OneDnn>(c, std::string(arguments[2]) == "int8"); });
}
