// Gated recurrent unit (Cho et al. 2014), with the reset after the product, as cuDNN and torch, or before it, as printed.
//
//   r, z = s(...)                              of W x + b + U h + b_h
//   after:   n = tanh(x_n + r q)               x_n = W_n x + b_n,   q = U_n h + b_hn
//   before:  n = tanh(x_n + U_n v + b_hn)      v = r h
//   h' = (1 - z) n + z h, computed as n + z (h - n)
#pragma once

#include "cell.hpp"

namespace unrolled::UNROLLED_TARGET {

struct GruAfter : OneProduct {
    enum { n_, r_, z_, q_, kept };
    static constexpr Range from_input{0, 3}, from_state{1, 3};
    static constexpr int input_gate[] = {2, 0, 1}, state_gate[] = {0, 1, 2}, gradients = 4;
    static constexpr bool has_memory = false, mixes_state = true;

    template <class T, class V = Vec<T>>
    [[gnu::always_inline]] static V forward(const V* p, V h, V& /*c*/, V* k) {
        k[r_] = sigmoid<T>(p[0]);
        k[z_] = sigmoid<T>(p[1]);
        k[q_] = p[2];
        k[n_] = tanh<T>(k[n_] + k[r_] * p[2]);
        return k[n_] + k[z_] * (h - k[n_]);
    }

    template <class T, class V = Vec<T>>
    [[gnu::always_inline]] static void backward(V dh, V /*dv*/, const V* k, V h, V /*c*/, V& /*dc*/, V* d, V& rest) {
        const V n = k[n_], r = k[r_], z = k[z_];
        d[n_] = dh * (T(1) - z) * (T(1) - n * n);
        d[r_] = d[n_] * k[q_] * r * (T(1) - r);
        d[z_] = dh * (h - n) * z * (T(1) - z);
        d[q_] = d[n_] * r;
        rest = dh * z;
    }
};

struct GruBefore : TwoProducts {
    enum { r_, z_, n_, v_, kept };
    static constexpr Range from_input{0, 3}, from_state{0, 2}, from_second{2, 1};
    static constexpr int input_gate[] = {0, 1, 2}, state_gate[] = {0, 1}, second_gate = 2, gradients = 3;
    static constexpr bool has_memory = false, mixes_state = true;

    template <class T, class V = Vec<T>>
    [[gnu::always_inline]] static V forward(const V* p, V h, V& /*c*/, V* k) {
        k[r_] = sigmoid<T>(p[0]);
        k[z_] = sigmoid<T>(p[1]);
        return k[v_] = k[r_] * h;
    }

    template <class T, class V = Vec<T>> [[gnu::always_inline]] static V forward_second(V p, V h, V* k) {
        k[n_] = tanh<T>(p);
        return k[n_] + k[z_] * (h - k[n_]);
    }

    template <class T, class V = Vec<T>> [[gnu::always_inline]] static void backward_second(V dh, const V* k, V* d) {
        d[n_] = dh * (T(1) - k[z_]) * (T(1) - k[n_] * k[n_]);
    }

    template <class T, class V = Vec<T>>
    [[gnu::always_inline]] static void backward(V dh, V dv, const V* k, V h, V /*c*/, V& /*dc*/, V* d, V& rest) {
        const V r = k[r_], z = k[z_];
        d[r_] = dv * h * r * (T(1) - r);
        d[z_] = dh * (h - k[n_]) * z * (T(1) - z);
        rest = dh * z + dv * r;
    }
};

}  // namespace unrolled::UNROLLED_TARGET
