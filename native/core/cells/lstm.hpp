// Long short-term memory with a forget gate (Gers, Schmidhuber & Cummins 2000), and its projection (Sak et al. 2014).
//
//   i, f, o = s(...)   g = tanh(...)           of W x + b + U h + b_h
//   c' = f c + i g     v = o tanh(c')
//   h' = v, or V v with a projection
//
// Backward does not keep tanh(c'): one more tanh costs less than the memory it would need.
#pragma once

#include "cell.hpp"

namespace unrolled::UNROLLED_TARGET {

template <class Products> struct LstmGates : Products {
    enum { i_, f_, g_, o_, c_, v_ };
    static constexpr Range from_input{0, 4}, from_state{0, 4};
    static constexpr int input_gate[] = {0, 1, 2, 3}, state_gate[] = {0, 1, 2, 3};
    static constexpr bool has_memory = true, mixes_state = false;

    template <class T, class V = Vec<T>>
    [[gnu::always_inline]] static V forward(const V* p, V /*h*/, V& c, V* k) {
        k[i_] = sigmoid<T>(p[0]);
        k[f_] = sigmoid<T>(p[1]);
        k[g_] = tanh<T>(p[2]);
        k[o_] = sigmoid<T>(p[3]);
        k[c_] = c = k[f_] * c + k[i_] * k[g_];
        const V v = k[o_] * tanh<T>(c);
        if constexpr (Products::second) k[v_] = v;
        return v;
    }

    template <class T, class V = Vec<T>>
    [[gnu::always_inline]] static void backward(V dh, V dv, const V* k, V /*h*/, V c, V& dc, V* d, V& /*rest*/) {
        const V i = k[i_], f = k[f_], g = k[g_], o = k[o_], shown = tanh<T>(k[c_]);
        const V dshown = Products::second ? dv : dh;
        dc += dshown * o * (T(1) - shown * shown);
        d[i_] = dc * g * i * (T(1) - i);
        d[f_] = dc * c * f * (T(1) - f);
        d[g_] = dc * i * (T(1) - g * g);
        d[o_] = dshown * shown * o * (T(1) - o);
        dc *= f;
    }
};

struct Lstm : LstmGates<OneProduct> {
    static constexpr int kept = 5, gradients = 4;
};

// The second product is the projection; its gradient block, dh' itself, has P units and stands last.
struct LstmProjected : LstmGates<TwoProducts> {
    static constexpr bool projects = true;
    static constexpr int kept = 6, gradients = 4;
    static constexpr Range from_second{4, 1};

    template <class T, class V = Vec<T>> [[gnu::always_inline]] static V forward_second(V p, V /*h*/, V* /*k*/) { return p; }
    template <class T, class V = Vec<T>> [[gnu::always_inline]] static void backward_second(V dh, const V* /*k*/, V* d) { d[4] = dh; }
};

}  // namespace unrolled::UNROLLED_TARGET
