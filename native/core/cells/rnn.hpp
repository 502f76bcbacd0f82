// Elman's simple recurrent network.
//
//   h' = f(p),  p = W x + b + U h + b_h        f tanh or relu
//   dp = dh' f'(p)                             tanh' = 1 - h'^2, relu' = [h' > 0]
#pragma once

#include "cell.hpp"

namespace unrolled::UNROLLED_TARGET {

template <bool is_tanh> struct Rnn : OneProduct {
    enum { h_, kept };
    static constexpr Range from_input{0, 1}, from_state{0, 1};
    static constexpr int input_gate[] = {0}, state_gate[] = {0}, gradients = 1;
    static constexpr bool has_memory = false, mixes_state = false;

    template <class T, class V = Vec<T>>
    [[gnu::always_inline]] static V forward(const V* p, V /*h*/, V& /*c*/, V* k) {
        return k[h_] = is_tanh ? tanh<T>(p[0]) : relu<T>(p[0]);
    }

    template <class T, class V = Vec<T>>
    [[gnu::always_inline]] static void backward(V dh, V /*dv*/, const V* k, V /*h*/, V /*c*/, V& /*dc*/, V* d, V& /*rest*/) {
        d[0] = is_tanh ? dh * (T(1) - k[h_] * k[h_]) : k[h_] > T(0) ? dh : V{};
    }
};

}  // namespace unrolled::UNROLLED_TARGET
