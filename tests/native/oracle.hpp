// The six cells, as plainly as they can be written: one row at a time, one unit at a time, from the contract of scan.h.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "check.hpp"
#include "scan.h"
#include "tape.hpp"

namespace test {

using unrolled::Cell;
using unrolled::Index;

inline constexpr Cell cells[] = {Cell::rnn_tanh,       Cell::rnn_relu,  Cell::lstm,
                                 Cell::lstm_projected, Cell::gru_after, Cell::gru_before};

inline int gates_of(Cell cell) {
    return cell == Cell::rnn_tanh || cell == Cell::rnn_relu ? 1 : cell == Cell::gru_after || cell == Cell::gru_before ? 3 : 4;
}
inline bool is_lstm(Cell cell) { return cell == Cell::lstm || cell == Cell::lstm_projected; }

// Sizes and structure; a problem has this and Values.
struct Problem {
    Cell cell = Cell::rnn_tanh;
    Index T = 1, B = 1, I = 1, H = 1, P = 1;
    bool reverse = false, b = true, b_h = true, restart = false;
    std::vector<std::int64_t> lengths;  // empty: all T
    std::vector<std::uint8_t> resets;   // (B, T); empty: none

    int gates() const { return gates_of(cell); }
    Index length(Index row) const { return lengths.empty() ? T : lengths[std::size_t(row)]; }
    bool reset(Index row, Index t) const { return !resets.empty() && resets[std::size_t(row * T + t)]; }
    std::string text() const {
        std::ostringstream to;
        to << "cell " << int(cell) << " T " << T << " B " << B << " I " << I << " H " << H << " P " << P
           << (reverse ? " reverse" : "") << (lengths.empty() ? "" : " lengths") << (resets.empty() ? "" : " resets")
           << (restart ? " restart" : "") << (b ? " b" : "") << (b_h ? " b_h" : "");
        return to.str();
    }
};

// Everything that a gradient is taken of; each in the order of its axes: W (G, I, H), U (G, P, H), V (H, P), x (T, B, I).
template <class S> struct Values {
    std::vector<S> W, U, b, b_h, V, x, h0, c0, restart_h, restart_c;

    template <class Work> void each(Work&& work) {
        for (std::vector<S>* v : {&W, &U, &b, &b_h, &V, &x, &h0, &c0, &restart_h, &restart_c}) work(*v);
    }
    // The same numbers as another type.
    template <class To, class Make> Values<To> as(Make&& make) {
        Values<To> to;
        std::vector<const std::vector<S>*> from;
        each([&](std::vector<S>& v) { from.push_back(&v); });
        std::size_t i = 0;
        to.each([&](std::vector<To>& v) {
            for (const S& value : *from[i]) v.push_back(make(value));
            ++i;
        });
        return to;
    }
};

template <class S> struct Results {
    std::vector<S> out, h_n, c_n;  // (T, B, P), (B, P), (B, H)
};

// One step of one row: h and c before, h and c after.
template <class S>
void naive_step(const Problem& p, const Values<S>& v, const S* x, std::vector<S>& h, std::vector<S>& c) {
    const auto at = [](Index gate, Index rows, Index row, Index columns, Index column) {
        return std::size_t((gate * rows + row) * columns + column);
    };
    const auto from_input = [&](int gate, Index u) {
        S sum = p.b ? v.b[std::size_t(gate * p.H + u)] : S(0);
        for (Index i = 0; i < p.I; ++i) sum = sum + x[i] * v.W[at(gate, p.I, i, p.H, u)];
        return sum;
    };
    const auto from_state = [&](int gate, Index u, const std::vector<S>& state) {
        S sum = p.b_h ? v.b_h[std::size_t(gate * p.H + u)] : S(0);
        for (Index j = 0; j < p.P; ++j) sum = sum + state[std::size_t(j)] * v.U[at(gate, p.P, j, p.H, u)];
        return sum;
    };
    const std::vector<S> before = h;
    std::vector<S> made(std::size_t(p.H)), reset_state = before;
    if (p.cell == Cell::gru_before)
        for (Index u = 0; u < p.H; ++u)
            reset_state[std::size_t(u)] = sigmoid(from_input(0, u) + from_state(0, u, before)) * before[std::size_t(u)];
    for (Index u = 0; u < p.H; ++u) {
        const auto both = [&](int gate) { return from_input(gate, u) + from_state(gate, u, before); };
        S& to = made[std::size_t(u)];
        if (p.cell == Cell::rnn_tanh) to = tanh_of(both(0));
        else if (p.cell == Cell::rnn_relu) to = relu(both(0));
        else if (is_lstm(p.cell)) {
            S& memory = c[std::size_t(u)];
            memory = sigmoid(both(1)) * memory + sigmoid(both(0)) * tanh_of(both(2));
            to = sigmoid(both(3)) * tanh_of(memory);
        } else {
            const S z = sigmoid(both(1));
            const S n = p.cell == Cell::gru_after
                            ? tanh_of(from_input(2, u) + sigmoid(both(0)) * from_state(2, u, before))
                            : tanh_of(from_input(2, u) + from_state(2, u, reset_state));
            to = (S(1) - z) * n + z * before[std::size_t(u)];
        }
    }
    if (p.cell != Cell::lstm_projected) return void(h = made);
    for (Index j = 0; j < p.P; ++j) {
        S sum(0);
        for (Index u = 0; u < p.H; ++u) sum = sum + made[std::size_t(u)] * v.V[std::size_t(u * p.P + j)];
        h[std::size_t(j)] = sum;
    }
}

template <class S> Results<S> naive(const Problem& p, const Values<S>& v) {
    Results<S> r;
    r.out.assign(std::size_t(p.T * p.B * p.P), S(0));
    for (Index b = 0; b < p.B; ++b) {
        std::vector<S> h(v.h0.begin() + b * p.P, v.h0.begin() + (b + 1) * p.P), c;
        if (is_lstm(p.cell)) c.assign(v.c0.begin() + b * p.H, v.c0.begin() + (b + 1) * p.H);
        for (Index s = 0; s < p.length(b); ++s) {
            const Index t = p.reverse ? p.length(b) - 1 - s : s;
            // The mark at t stands between t - 1 and t; coming from the end, the boundary before t is the mark at t + 1.
            if (p.reverse ? s > 0 && p.reset(b, t + 1) : p.reset(b, t)) {
                for (Index j = 0; j < p.P; ++j) h[std::size_t(j)] = p.restart ? v.restart_h[std::size_t(j)] : S(0);
                for (std::size_t u = 0; u < c.size(); ++u) c[u] = p.restart ? v.restart_c[u] : S(0);
            }
            naive_step(p, v, v.x.data() + (t * p.B + b) * p.I, h, c);
            std::copy(h.begin(), h.end(), r.out.begin() + (t * p.B + b) * p.P);
        }
        r.h_n.insert(r.h_n.end(), h.begin(), h.end());
        r.c_n.insert(r.c_n.end(), c.begin(), c.end());
    }
    return r;
}

inline Values<double> random_values(const Problem& p, Random& random) {
    const auto some = [&](Index n) {
        std::vector<double> v(std::size_t(n), 0.0);
        for (double& value : v) value = random.number();
        return v;
    };
    const Index G = p.gates(), memory = is_lstm(p.cell) ? p.H : 0;
    return {some(G * p.I * p.H),
            some(G * p.P * p.H),
            some(p.b ? G * p.H : 0),
            some(p.b_h ? G * p.H : 0),
            some(p.cell == Cell::lstm_projected ? p.H * p.P : 0),
            some(p.T * p.B * p.I),
            some(p.B * p.P),
            some(p.B * memory),
            some(p.restart ? p.P : 0),
            some(p.restart ? memory : 0)};
}

// The gradient of sum(weight * result) by every value.
template <class R> Values<R> naive_gradient(const Problem& p, Values<double> values, Results<double> weights) {
    Tape<R>::nodes().clear();
    Values<Number<R>> leaves = values.as<Number<R>>([](double x) { return Number<R>::leaf(R(x)); });
    const Results<Number<R>> results = naive(p, leaves);
    std::vector<int> ends;
    std::vector<R> slopes;
    const auto add = [&](const std::vector<Number<R>>& made, const std::vector<double>& weight) {
        for (std::size_t i = 0; i < made.size(); ++i) ends.push_back(made[i].node), slopes.push_back(R(weight[i]));
    };
    add(results.out, weights.out), add(results.h_n, weights.h_n), add(results.c_n, weights.c_n);
    const std::vector<R> slope = Tape<R>::gradient(ends, slopes);
    Values<R> gradient = leaves.template as<R>([&](const Number<R>& leaf) { return slope[std::size_t(leaf.node)]; });
    Tape<R>::nodes().clear();
    return gradient;
}

}  // namespace test
