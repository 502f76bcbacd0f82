// One problem through the kernels of a target: buffers as a caller has them, guarded, and their results.
#pragma once

#include <memory>

#include "guarded.hpp"
#include "oracle.hpp"

namespace test {

using unrolled::Gradients;
using unrolled::Interrupt;
using unrolled::Kernels;
using unrolled::Scan;
using unrolled::Target;
using unrolled::Weights;

template <class T> const Kernels<T>& kernels(const Target& target) {
    if constexpr (sizeof(T) == 4) return target.f32;
    else return target.f64;
}

// How the caller's arrays lie in memory, and how the work is dealt out.
struct Layout {
    bool batch_first = false;     // (B, T, .) instead of (T, B, .), for x, out and their gradients
    Index gap = 0;                // elements between rows of out and dx that nobody may touch
    Index feature = 1;            // distance of neighbours in x
    bool torch_weights = false;   // (G, H, I) as torch keeps them, read through strides
    bool recompute = false, keep = true;
    int parts = 1, threads = 1;

    std::string text() const {
        std::ostringstream to;
        to << (batch_first ? " batch first" : "") << " gap " << gap << " feature " << feature
           << (torch_weights ? " torch weights" : "") << (recompute ? " recompute" : "") << " parts " << parts << " threads "
           << threads;
        return to.str();
    }
};

inline Layout random_layout(Random& random) {
    Layout l;
    l.batch_first = random.flip(), l.torch_weights = random.flip(), l.recompute = random.flip();
    l.gap = random.below(4), l.feature = 1 + random.below(2);
    l.parts = 1 + int(random.below(3)), l.threads = 1 + int(random.below(4));
    return l;
}

// Steps of (T, B, .) rows `row` long: distances, and elements that they span.
struct Strides {
    Index step, row, size;
    Strides(const Problem& p, const Layout& l, Index length)
        : step(l.batch_first ? length : length * p.B), row(l.batch_first ? length * p.T : length), size(length * p.T * p.B) {}
};

template <class T> class Run {
public:
    Run(const Problem& problem, const Values<double>& values, const Layout& layout, const Kernels<T>& kernels)
        : p(problem), l(layout), k(kernels), v(values), x_(p, l, p.I * l.feature), out_(p, l, p.P + l.gap),
          dx_(p, l, p.I + l.gap), x(x_.size, "x"), out(out_.size, "out"), h_n(p.B * p.P, "h_n"),
          c_n(is_lstm(p.cell) ? p.B * p.H : 0, "c_n") {
        place_inputs();
        Scan<T> measure = scan;
        kept = std::make_unique<Guarded<T>>(l.keep ? k.kept_row(measure) * steps() : 0, "kept");
        if (l.keep) scan.kept = kept->data();
    }

    bool forward() { return k.forward(&scan, 1, l.threads, Interrupt()); }

    // Forward with weights packed beforehand.
    bool forward_packed() {
        std::vector<T> packed_memory(std::size_t(k.packed_size(scan)) + 64 / sizeof(T), Guarded<T>::canary());
        T* packed = packed_memory.data();
        while (reinterpret_cast<std::uintptr_t>(packed) % 64) ++packed;
        k.pack(scan, packed);
        Scan<T> without = scan;
        without.weights = Weights<T>();
        return k.forward_packed(without, packed, l.threads, Interrupt());
    }

    Results<T> results() {
        Results<T> r;
        for (Index t = 0; t < p.T; ++t)
            for (Index b = 0; b < p.B; ++b)
                for (Index u = 0; u < p.P + l.gap; ++u) {
                    const Index at = t * out_.step + b * out_.row + u;
                    if (u < p.P) r.out.push_back(out[at]);
                    else CHECK(out.untouched(at), "wrote between the rows of out" << l.text());
                }
        r.h_n.assign(h_n.data(), h_n.data() + h_n.size());
        r.c_n.assign(c_n.data(), c_n.data() + c_n.size());
        for (auto* each : {&x, &out, &h_n, &c_n, kept.get()}) each->check();
        for (auto& each : inputs) each->check();
        return r;
    }

    // The gradient of sum(weight * result).
    void set_gradients(const Results<double>& weights) {
        const auto given = [&](const std::vector<double>& from, Index row, Strides at, const char* name) {
            Guarded<T>& to = buffer(at.size, name);
            for (Index i = 0; i < Index(from.size()); ++i) {
                const Index u = i % row, b = i / row % std::max<Index>(1, p.B), t = i / row / std::max<Index>(1, p.B);
                to[t * at.step + b * at.row + u] = T(from[std::size_t(i)]);
            }
            return to.data();
        };
        const Strides out_at(p, l, p.P + l.gap);
        g.out = given(weights.out, p.P, out_at, "gradient of out"), g.out_step = out_at.step, g.out_row = out_at.row;
        Problem rows = p;
        rows.T = 1;
        const Strides h_at(rows, Layout(), p.P + 2), c_at(rows, Layout(), p.H + 1);
        g.h_n = given(weights.h_n, p.P, h_at, "gradient of h_n"), g.h_n_row = p.P + 2;
        if (is_lstm(p.cell)) g.c_n = given(weights.c_n, p.H, c_at, "gradient of c_n"), g.c_n_row = p.H + 1;

        const auto made = [&](Index n, const char* name) {
            made_.push_back(std::make_unique<Guarded<T>>(n, name));
            return made_.back()->data();
        };
        const Index G = p.gates(), memory = is_lstm(p.cell) ? p.H : 0;
        g.W = made(G * p.H * p.I, "dW"), g.U = made(G * p.H * p.P, "dU"), g.b = made(G * p.H, "db"), g.b_h = made(G * p.H, "db_h");
        g.V = made(p.cell == Cell::lstm_projected ? p.P * p.H : 0, "dV");
        g.x = made(dx_.size, "dx"), g.x_step = dx_.step, g.x_row = dx_.row;
        g.h0 = made(p.B * p.P, "dh0"), g.c0 = made(p.B * memory, "dc0");
        g.restart_h = made(p.P, "drestart_h"), g.restart_c = made(memory, "drestart_c");
    }

    bool backward() { return k.backward(&scan, &g, 1, l.threads, Interrupt()); }

    // In the order of Values; W, U and V come in torch's layout.
    Values<T> gradients() {
        Values<T> r;
        const Index G = p.gates();
        const auto turned = [](const T* from, Index blocks, Index rows, Index columns) {
            std::vector<T> to;
            for (Index j = 0; j < blocks; ++j)
                for (Index i = 0; i < columns; ++i)
                    for (Index u = 0; u < rows; ++u) to.push_back(from[(j * rows + u) * columns + i]);
            return to;
        };
        r.W = turned(g.W, G, p.H, p.I), r.U = turned(g.U, G, p.H, p.P);
        if (p.cell == Cell::lstm_projected) r.V = turned(g.V, 1, p.P, p.H);
        if (p.b) r.b.assign(g.b, g.b + G * p.H);
        if (p.b_h) r.b_h.assign(g.b_h, g.b_h + G * p.H);
        for (Index t = 0; t < p.T; ++t)
            for (Index b = 0; b < p.B; ++b) {
                const T* row = g.x + t * dx_.step + b * dx_.row;
                r.x.insert(r.x.end(), row, row + p.I);
                for (Index i = p.I; i < p.I + l.gap; ++i)
                    CHECK(made_[5]->untouched(row - g.x + i), "wrote between the rows of dx" << l.text());
            }
        r.h0.assign(g.h0, g.h0 + p.B * p.P);
        if (is_lstm(p.cell)) r.c0.assign(g.c0, g.c0 + p.B * p.H);
        if (p.restart) r.restart_h.assign(g.restart_h, g.restart_h + p.P);
        if (p.restart && is_lstm(p.cell)) r.restart_c.assign(g.restart_c, g.restart_c + p.H);
        for (auto& each : made_) each->check();
        for (auto& each : inputs) each->check();
        kept->check();
        return r;
    }

    Scan<T> scan;
    Gradients<T> g;

private:
    Index steps() const {
        Index sum = 0;
        for (Index b = 0; b < p.B; ++b) sum += p.length(b);
        return sum;
    }
    Guarded<T>& buffer(Index n, const char* name) {
        inputs.push_back(std::make_unique<Guarded<T>>(n, name));
        return *inputs.back();
    }
    const T* copied(const std::vector<double>& from, const char* name) {
        Guarded<T>& to = buffer(Index(from.size()), name);
        for (Index i = 0; i < to.size(); ++i) to[i] = T(from[std::size_t(i)]);
        return from.empty() ? nullptr : to.data();
    }
    // (blocks, rows, columns), or with the last two axes exchanged in memory.
    const T* weight(const std::vector<double>& from, Index rows, Index columns, Index* along_rows, Index* along_columns,
                    const char* name) {
        Guarded<T>& to = buffer(Index(from.size()), name);
        *along_rows = l.torch_weights ? 1 : columns, *along_columns = l.torch_weights ? rows : 1;
        for (Index i = 0; i < to.size(); ++i) {
            const Index block = i / (rows * columns), row = i / columns % rows, column = i % columns;
            to[block * rows * columns + row * *along_rows + column * *along_columns] = T(from[std::size_t(i)]);
        }
        return to.data();
    }

    void place_inputs() {
        scan.cell = p.cell, scan.steps = p.T, scan.batch = p.B, scan.input = p.I, scan.hidden = p.H, scan.state = p.P;
        scan.reverse = p.reverse, scan.recompute = l.recompute, scan.parts = l.parts;
        Weights<T>& w = scan.weights;
        w.W = weight(v.W, p.I, p.H, &w.W_in, &w.W_out, "W"), w.W_gate = p.I * p.H;
        w.U = weight(v.U, p.P, p.H, &w.U_in, &w.U_out, "U"), w.U_gate = p.P * p.H;
        if (p.cell == Cell::lstm_projected) w.V = weight(v.V, p.H, p.P, &w.V_in, &w.V_out, "V");
        if (p.b) w.b = copied(v.b, "b");
        if (p.b_h) w.b_h = copied(v.b_h, "b_h");
        for (Index t = 0; t < p.T; ++t)  // what is past a row's end stays NaN
            for (Index b = 0; b < p.B; ++b)
                for (Index i = 0; i < p.I && t < p.length(b); ++i)
                    x[t * x_.step + b * x_.row + i * l.feature] = T(v.x[std::size_t((t * p.B + b) * p.I + i)]);
        scan.x = x.data(), scan.x_step = x_.step, scan.x_row = x_.row, scan.x_feature = l.feature;
        scan.h0 = copied(v.h0, "h0"), scan.h0_row = p.P;
        if (is_lstm(p.cell)) scan.c0 = copied(v.c0, "c0"), scan.c0_row = p.H, scan.c_n = c_n.data();
        if (!p.lengths.empty()) scan.lengths = p.lengths.data();
        if (!p.resets.empty()) scan.resets = p.resets.data(), scan.resets_row = p.T, scan.resets_step = 1;
        if (p.restart) scan.restart_h = copied(v.restart_h, "restart_h");
        if (p.restart && is_lstm(p.cell)) scan.restart_c = copied(v.restart_c, "restart_c");
        scan.out = out.data(), scan.out_step = out_.step, scan.out_row = out_.row, scan.h_n = h_n.data();
    }

    const Problem& p;
    const Layout l;
    const Kernels<T>& k;
    const Values<double>& v;
    const Strides x_, out_, dx_;
    Guarded<T> x, out, h_n, c_n;
    std::unique_ptr<Guarded<T>> kept;
    std::vector<std::unique_ptr<Guarded<T>>> inputs, made_;
};

// What got may err: a few times as far as the plain program in the same precision does, and some last places of the
// largest, because a short sum may by luck be exact. A wrong sign or a missing term is off by a million times more.
template <class T, class Plain, class Truth>
void check_group(const std::vector<T>& got, const std::vector<Plain>& plain, const std::vector<Truth>& truth,
                 const char* name, const std::string& where) {
    CHECK(got.size() == truth.size(), where << ": " << got.size() << " values of " << name << ", wanted " << truth.size());
    double scale = 1, plain_error = 0;
    for (std::size_t i = 0; i < truth.size(); ++i) {
        scale = std::max(scale, double(std::abs(truth[i])));
        plain_error = std::max(plain_error, double(std::abs(Truth(plain[i]) - truth[i])));
    }
    const double budget = 4 * plain_error + 16 * double(std::numeric_limits<T>::epsilon()) * scale;
    for (std::size_t i = 0; i < truth.size(); ++i) {
        const double error = double(std::abs(Truth(got[i]) - truth[i]));
        CHECK(error <= budget, where << ": " << name << " " << i << " is " << got[i] << ", wanted " << double(truth[i])
                                     << ", off by " << error << " of " << budget);
    }
}

template <class T, class Truth>
void check_results(const Results<T>& got, const Results<T>& plain, const Results<Truth>& truth, const std::string& where) {
    check_group(got.out, plain.out, truth.out, "out", where);
    check_group(got.h_n, plain.h_n, truth.h_n, "h_n", where);
    check_group(got.c_n, plain.c_n, truth.c_n, "c_n", where);
}

template <class T, class Truth>
void check_gradients(Values<T> got, Values<T> plain, Values<Truth> truth, const std::string& where) {
    static constexpr const char* names[] = {"dW", "dU", "db", "db_h", "dV", "dx", "dh0", "dc0", "drestart_h", "drestart_c"};
    std::vector<std::vector<T>*> gots, plains;
    got.each([&](std::vector<T>& each) { gots.push_back(&each); });
    plain.each([&](std::vector<T>& each) { plains.push_back(&each); });
    std::size_t i = 0;
    truth.each([&](std::vector<Truth>& each) { check_group(*gots[i], *plains[i], each, names[i], where), ++i; });
}

}  // namespace test
