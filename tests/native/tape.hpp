// Numbers that remember how they were made, so that the gradient of a plain program is one walk back over the record.
// The tests take their gradients from here and not from formulas: those are what is being tested.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

namespace test {

template <class R> struct Tape {
    struct Node {
        int a, b;  // what it was made from; -1: nothing
        R da, db;  // and its derivatives by them
    };
    static std::vector<Node>& nodes() {
        static thread_local std::vector<Node> all;
        return all;
    }
    // d(sum of weight * number) by every number on the tape.
    static std::vector<R> gradient(const std::vector<int>& ends, const std::vector<R>& weights) {
        std::vector<R> slope(nodes().size(), R(0));
        for (std::size_t i = 0; i < ends.size(); ++i)
            if (ends[i] >= 0) slope[std::size_t(ends[i])] += weights[i];
        for (std::size_t i = nodes().size(); i-- > 0;) {
            const Node& node = nodes()[i];
            if (node.a >= 0) slope[std::size_t(node.a)] += slope[i] * node.da;
            if (node.b >= 0) slope[std::size_t(node.b)] += slope[i] * node.db;
        }
        return slope;
    }
};

template <class R> struct Number {
    R value = 0;
    int node = -1;

    Number() = default;
    Number(R constant) : value(constant) {}
    static Number leaf(R value) { return made(value, -1, 0, -1, 0); }
    static Number made(R value, int a, R da, int b, R db) {
        Number out(value);
        out.node = int(Tape<R>::nodes().size());
        Tape<R>::nodes().push_back({a, b, da, db});
        return out;
    }
    friend Number operator+(Number x, Number y) { return made(x.value + y.value, x.node, 1, y.node, 1); }
    friend Number operator-(Number x, Number y) { return made(x.value - y.value, x.node, 1, y.node, -1); }
    friend Number operator*(Number x, Number y) { return made(x.value * y.value, x.node, y.value, y.node, x.value); }
};

template <class R> R sigmoid(R x) { return R(1) / (R(1) + std::exp(-x)); }
template <class R> R tanh_of(R x) { return std::tanh(x); }
template <class R> R relu(R x) { return x > R(0) ? x : R(0); }
template <class R> Number<R> sigmoid(Number<R> x) {
    const R y = sigmoid(x.value);
    return Number<R>::made(y, x.node, y * (R(1) - y), -1, 0);
}
template <class R> Number<R> tanh_of(Number<R> x) {
    const R y = std::tanh(x.value);
    return Number<R>::made(y, x.node, R(1) - y * y, -1, 0);
}
template <class R> Number<R> relu(Number<R> x) {
    return Number<R>::made(relu(x.value), x.node, x.value > R(0) ? R(1) : R(0), -1, 0);
}

}  // namespace test
