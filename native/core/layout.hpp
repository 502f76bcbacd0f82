// Sizes, and weights in the order in which the tiles read them.
#pragma once

#include "cells/cell.hpp"
#include "schedule.hpp"
#include "team.hpp"
#include "tile.hpp"

namespace unrolled::UNROLLED_TARGET {

// Rows that the core lays out are padded to whole vectors and one more: rows a power of two apart would share the sets of
// the first cache.
template <class C, class T> struct Sizes {
    static constexpr Index L = lanes<T>;
    Index I, H, P;      // as in scan.h
    Index Ip, Hp, Pp;   // padded
    Index Iv, Hv, Pv;   // in vectors
    Index x, h, v;      // distance of rows of I, P and H elements
    Index kept, d;      // distance of rows of kept and of gradient blocks

    explicit Sizes(const Scan<T>& s)
        : I(s.input), H(s.hidden), P(s.state), Ip(padded<T>(I)), Hp(padded<T>(H)), Pp(padded<T>(P)), Iv(Ip / L),
          Hv(Hp / L), Pv(Pp / L), x(Ip + L), h(Pp + L), v(Hp + L), kept(C::kept * Hp + L),
          d(C::gradients * Hp + (C::projects ? Pp : 0) + L) {}

    // Units that the second product makes, and the length of its gradient block.
    Index second_vectors() const { return C::projects ? Pv : Hv; }
};

// Are the blocks from the input and from the state summed in this block?
template <class C> constexpr bool merges(int block) { return block < C::from_input.count; }

// Turns a square of lanes x lanes numbers: in each round, halves of pairs of rows change places.
template <class T> inline void transpose(Vec<T> (&rows)[lanes<T>]) {
    constexpr int L = lanes<T>;
    static constexpr auto lane_masks = [] {
        std::array<std::array<std::array<Lane<T>, L>, 2>, 4> masks{};
        for (int round = 0, half = L / 2; half; half /= 2, ++round)
            for (int l = 0; l < L; ++l) {
                masks[round][0][l] = l & half ? L + l - half : l;
                masks[round][1][l] = l & half ? L + l : l + half;
            }
        return masks;
    }();
    int round = 0;
#pragma GCC unroll 4
    for (int half = L / 2; half; half /= 2, ++round) {
        BitsOf<T> upper, lower;
        std::memcpy(&upper, lane_masks[round][0].data(), sizeof upper);
        std::memcpy(&lower, lane_masks[round][1].data(), sizeof lower);
#pragma GCC unroll 16
        for (int i = 0; i < L; ++i)
            if (!(i & half)) {
                const Vec<T> a = rows[i], b = rows[i + half];
                rows[i] = shuffle<T>(a, b, upper);
                rows[i + half] = shuffle<T>(a, b, lower);
            }
    }
}

// dst[vector][k][lane] = src[k * along_k + column * across], for the vectors from `begin` to `end`, which stand `step`
// apart; 0 past `columns` and in the k from K to `K_padded`.
template <class T>
void pack(T* dst, Index step, Index begin, Index end, Index K, Index columns, const T* src, Index along_k, Index across,
          Index K_padded = 0) {
    constexpr Index L = lanes<T>;
    for (Index v = begin; v < end; ++v) {
        const Index width = std::min(L, columns - v * L);
        const T* from = src + v * L * across;
        T* to = dst + v * step;
        Index k = 0;
        if (along_k == 1 && width == L)  // torch's layout, square by square
            for (; k + L <= K; k += L) {
                Vec<T> square[L];
#pragma GCC unroll 16
                for (Index l = 0; l < L; ++l) square[l] = load(from + l * across + k);
                transpose<T>(square);
#pragma GCC unroll 16
                for (Index l = 0; l < L; ++l) store(to + (k + l) * L, square[l]);
            }
        if (width == L)
            for (; k < K; ++k)
                for (Index l = 0; l < L; ++l) to[k * L + l] = from[k * along_k + l * across];
        for (; k < K; ++k)
            for (Index l = 0; l < L; ++l) to[k * L + l] = l < width ? from[k * along_k + l * across] : T(0);
        if (K_padded > K) std::fill(to + K * L, to + K_padded * L, T(0));
    }
}

// The weights for the forward pass: W [vector][gate][I][lanes], U [vector][gate][P][lanes], S [vector][H][lanes].
template <class C, class T> struct Packed {
    static constexpr Index L = lanes<T>;
    T *W, *U, *S;
    T* bias;        // (x blocks, Hp): everything that merges, summed
    T* state_bias;  // (Hp,) of the block that does not merge
    T* zeros;       // (max(Hp, Pp),)

    Packed(const Sizes<C, T>& n, Arena& arena)
        : W(arena.take<T>(n.Hv * C::from_input.count * n.I * L)), U(arena.take<T>(n.Hv * C::from_state.count * n.P * L)),
          S(C::second ? arena.take<T>(n.second_vectors() * n.H * L) : nullptr),
          bias(arena.take<T>(C::from_input.count * n.Hp)), state_bias(arena.take<T>(n.Hp)),
          zeros(arena.take<T>(std::max(n.Hp, n.Pp))) {}

    // This team's share is packed by each of its threads; they meet afterwards.
    void fill(const Scan<T>& s, const Sizes<C, T>& n, Index rank, Index size) {
        const Weights<T>& w = s.weights;
        const Index begin = n.Hv * rank / size, end = n.Hv * (rank + 1) / size;
        for (int j = 0; j < C::from_input.count; ++j)
            pack(W + j * n.I * L, C::from_input.count * n.I * L, begin, end, n.I, n.H, w.W + C::input_gate[j] * w.W_gate,
                 w.W_in, w.W_out);
        for (int j = 0; j < C::from_state.count; ++j)
            pack(U + j * n.P * L, C::from_state.count * n.P * L, begin, end, n.P, n.H, w.U + C::state_gate[j] * w.U_gate,
                 w.U_in, w.U_out);
        if constexpr (C::projects)
            pack(S, n.H * L, n.Pv * rank / size, n.Pv * (rank + 1) / size, n.H, n.P, w.V, w.V_in, w.V_out);
        else if constexpr (C::second)
            pack(S, n.H * L, begin, end, n.H, n.H, w.U + C::second_gate * w.U_gate, w.U_in, w.U_out);
        if (rank == 0) fill_biases(w, n);
    }

private:
    static void add(T* to, const T* from, Index n) {
        if (from)
            for (Index u = 0; u < n; ++u) to[u] += from[u];
    }

    void fill_biases(const Weights<T>& w, const Sizes<C, T>& n) {
        const auto row = [&](const T* b, int gate) { return b ? b + gate * n.H : nullptr; };
        std::fill(bias, bias + C::from_input.count * n.Hp, T(0));
        std::fill(state_bias, state_bias + n.Hp, T(0));
        std::fill(zeros, zeros + std::max(n.Hp, n.Pp), T(0));
        for (int j = 0; j < C::from_input.count; ++j) add(bias + j * n.Hp, row(w.b, C::input_gate[j]), n.H);
        for (int j = 0; j < C::from_state.count; ++j) {
            const int block = C::from_state.first + j;
            add(merges<C>(block) ? bias + block * n.Hp : state_bias, row(w.b_h, C::state_gate[j]), n.H);
        }
        if constexpr (C::second && !C::projects)
            add(bias + C::from_second.first * n.Hp, row(w.b_h, C::second_gate), n.H);
    }
};

// Rows of the caller, null where there is no such array, and rows of ours.
template <class T> const T* row_at(const T* rows, Index b, Index distance) { return rows ? rows + b * distance : nullptr; }

template <class T> void copy_in(T* to, const T* from, Index n, Index padded_n) {
    if (from) std::copy(from, from + n, to);
    std::fill(to + (from ? n : 0), to + padded_n, T(0));
}

template <class T> void gather_input(const Scan<T>& s, Index row, Index t, T* to) {
    const T* from = s.x + t * s.x_step + row * s.x_row;
    if (s.x_feature == 1) std::copy(from, from + s.input, to);
    else
        for (Index i = 0; i < s.input; ++i) to[i] = from[i * s.x_feature];
    std::fill(to + s.input, to + padded<T>(s.input), T(0));
}

// Which rows and which units are this thread's. A team splits the rows; where there are too few, the threads of a part
// split its units and meet between the steps.
struct Share {
    int first_part, next_part;  // the parts are first_part, first_part + next_part, ...
    int group, member;          // the threads of a part, and which of them this one is

    Share(int parts, const Team& team) {
        group = std::max(1, team.size / parts);
        first_part = team.rank / group;
        next_part = std::max(1, team.size / group);
        member = team.rank % group;
        if (group > 1 && first_part >= parts) first_part = parts;  // one thread too many
    }
    Index begin(Index vectors) const { return vectors * member / group; }
    Index end(Index vectors) const { return vectors * (member + 1) / group; }
};

}  // namespace unrolled::UNROLLED_TARGET
