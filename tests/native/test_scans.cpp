// Forward and backward of every cell, on every target of this machine, against the oracle: sizes around the lanes, lengths,
// resets, both directions, strides, packed weights, steps, several scans at once, teams larger than the machine.

#include "run.hpp"

namespace {

using namespace test;
using unrolled::targets;

template <class T> using Wider = std::conditional_t<std::is_same_v<T, float>, double, long double>;

#if defined(UNROLLED_SANITIZED)
constexpr int rounds = 10;
#else
constexpr int rounds = 30;
#endif

Problem random_problem(Cell cell, Random& random) {
    Problem p;
    p.cell = cell;
    p.T = 1 + random.below(6), p.B = 1 + random.below(9);
    p.I = random.pick<Index>({1, 2, 7, 8, 9, 15, 17}), p.H = random.pick<Index>({1, 3, 7, 8, 9, 15, 16, 17, 31, 33});
    p.P = cell == Cell::lstm_projected ? random.pick<Index>({1, 2, 5, 8, 9, 17}) : p.H;
    p.reverse = random.flip(), p.b = random.below(4), p.b_h = random.below(4), p.restart = random.flip();
    for (Index b = 0, ragged = random.flip(); ragged && b < p.B; ++b) p.lengths.push_back(random.below(p.T + 1));
    for (Index i = 0, any = random.flip(); any && i < p.B * p.T; ++i) p.resets.push_back(random.below(4) == 0);
    return p;
}

Results<double> random_weights(const Problem& p, Random& random) {
    Results<double> w;
    const auto some = [&](Index n) {
        std::vector<double> v(std::size_t(n), 0.0);
        for (double& value : v) value = random.number();
        return v;
    };
    w.out = some(p.T * p.B * p.P), w.h_n = some(p.B * p.P), w.c_n = some(is_lstm(p.cell) ? p.B * p.H : 0);
    return w;
}

template <class T> void check_problem(const Problem& p, int layouts, int threads, Random& random) {
    Values<double> v = random_values(p, random);
    const Results<double> weights = random_weights(p, random);
    const Results<T> plain = naive(p, v.template as<T>([](double x) { return T(x); }));
    const Results<Wider<T>> truth = naive(p, v.template as<Wider<T>>([](double x) { return Wider<T>(x); }));
    const Values<T> plain_gradient = naive_gradient<T>(p, v, weights);
    const Values<Wider<T>> true_gradient = naive_gradient<Wider<T>>(p, v, weights);
    for (const Target* const* each = targets(); *each; ++each)
        for (int i = 0; i < layouts; ++i) {
            Layout layout = random_layout(random);
            layout.threads = std::min(layout.threads, threads);
            const std::string where = std::string((*each)->name) + ", " + p.text() + "," + layout.text();
            Run<T> run(p, v, layout, kernels<T>(**each));
            CHECK(run.forward(), "stopped by nobody");
            const Results<T> got = run.results();
            check_results(got, plain, truth, where);
            run.set_gradients(weights);
            CHECK(run.backward(), "stopped by nobody");
            check_gradients(run.gradients(), plain_gradient, true_gradient, where);

            Layout keeps_none = layout;
            keeps_none.keep = false;
            Run<T> packed(p, v, keeps_none, kernels<T>(**each));
            CHECK(packed.forward_packed(), "stopped by nobody");
            check_results(packed.results(), plain, truth, where + " packed");
        }
}

template <class T> void check_cell(Cell cell) {
    Random random(100 + std::uint64_t(cell));
    for (int round = 0; round < rounds; ++round) check_problem<T>(random_problem(cell, random), 2, 4, random);
    for (bool reverse : {false, true}) {  // more than one chunk of steps, in both passes
        Problem p;
        p.cell = cell, p.T = 230, p.B = 2, p.I = 2, p.H = 5, p.P = cell == Cell::lstm_projected ? 3 : 5, p.reverse = reverse;
        p.lengths = {230, 101}, p.resets.assign(2 * 230, 0), p.resets[57] = p.resets[230 + 90] = 1;
        check_problem<T>(p, 2, 2, random);  // more threads than cores would wait for each other 230 times
    }
}

TEST(rnn_tanh_float) { check_cell<float>(Cell::rnn_tanh); }
TEST(rnn_tanh_double) { check_cell<double>(Cell::rnn_tanh); }
TEST(rnn_relu_float) { check_cell<float>(Cell::rnn_relu); }
TEST(rnn_relu_double) { check_cell<double>(Cell::rnn_relu); }
TEST(lstm_float) { check_cell<float>(Cell::lstm); }
TEST(lstm_double) { check_cell<double>(Cell::lstm); }
TEST(lstm_projected_float) { check_cell<float>(Cell::lstm_projected); }
TEST(lstm_projected_double) { check_cell<double>(Cell::lstm_projected); }
TEST(gru_after_float) { check_cell<float>(Cell::gru_after); }
TEST(gru_after_double) { check_cell<double>(Cell::gru_after); }
TEST(gru_before_float) { check_cell<float>(Cell::gru_before); }
TEST(gru_before_double) { check_cell<double>(Cell::gru_before); }

// One step after the other in place, as a stream makes them.
template <class T> void check_steps(const Target& target, Cell cell, Index B, Index H, Random& random) {
    Problem p;
    p.cell = cell, p.T = 5, p.B = B, p.I = 9, p.H = H, p.P = cell == Cell::lstm_projected ? 5 : H;
    Values<double> v = random_values(p, random);
    const auto plain = naive(p, v.template as<T>([](double x) { return T(x); }));
    const auto truth = naive(p, v.template as<Wider<T>>([](double x) { return Wider<T>(x); }));
    const Kernels<T>& k = kernels<T>(target);
    Run<T> holder(p, v, Layout(), k);
    const Index packed_size = k.packed_size(holder.scan), step_size = k.step_size(holder.scan);
    struct Free { void operator()(void* m) const { std::free(m); } };
    const auto block = [](Index n) {
        return std::unique_ptr<T, Free>(static_cast<T*>(std::aligned_alloc(64, (std::size_t(n) * sizeof(T) + 63) / 64 * 64)));
    };
    const auto packed = block(packed_size), memory = block(step_size);
    k.pack(holder.scan, packed.get());
    std::fill_n(memory.get(), step_size, Guarded<T>::canary());
    Guarded<T> x(B * p.I, "x"), h(B * p.P, "h"), c(is_lstm(cell) ? B * H : 0, "c");
    for (Index i = 0; i < h.size(); ++i) h[i] = T(v.h0[std::size_t(i)]);
    for (Index i = 0; i < c.size(); ++i) c[i] = T(v.c0[std::size_t(i)]);
    Results<T> got;
    Scan<T> scan = holder.scan;
    scan.weights = Weights<T>();
    for (Index t = 0; t < p.T; ++t) {
        for (Index i = 0; i < x.size(); ++i) x[i] = T(v.x[std::size_t(t * B * p.I + i)]);
        k.step(scan, packed.get(), x.data(), h.data(), c.data(), memory.get());
        got.out.insert(got.out.end(), h.data(), h.data() + h.size());
    }
    got.h_n.assign(h.data(), h.data() + h.size());
    got.c_n.assign(c.data(), c.data() + c.size());
    x.check(), h.check(), c.check();
    check_results(got, plain, truth, std::string(target.name) + " steps, " + p.text());
}

TEST(steps_are_the_scan) {
    Random random(17);
    for (const Target* const* each = targets(); *each; ++each)
        for (Cell cell : cells)
            for (Index B : {1, 2, 3, 9})
                for (Index H : {1, 7, 16, 33}) {
                    check_steps<float>(**each, cell, B, H, random);
                    check_steps<double>(**each, cell, B, H, random);
                }
}

// Scans that do not depend on each other, of unlike sizes, side by side in one call.
template <class T> void check_many(const Target& target, int count, int threads, Random& random) {
    std::vector<Problem> problems;
    std::vector<Values<double>> values;
    std::vector<Results<double>> weights;
    for (int i = 0; i < count; ++i) {
        problems.push_back(random_problem(cells[random.below(6)], random));
        values.push_back(random_values(problems.back(), random));
        weights.push_back(random_weights(problems.back(), random));
    }
    std::vector<std::unique_ptr<Run<T>>> runs;
    std::vector<Scan<T>> scans;
    std::vector<Gradients<T>> gradients;
    for (int i = 0; i < count; ++i) {
        runs.push_back(std::make_unique<Run<T>>(problems[std::size_t(i)], values[std::size_t(i)], random_layout(random), kernels<T>(target)));
        runs.back()->set_gradients(weights[std::size_t(i)]);
        scans.push_back(runs.back()->scan), gradients.push_back(runs.back()->g);
    }
    CHECK(kernels<T>(target).forward(scans.data(), count, threads, Interrupt()), "stopped by nobody");
    CHECK(kernels<T>(target).backward(scans.data(), gradients.data(), count, threads, Interrupt()), "stopped by nobody");
    for (std::size_t i = 0; i < runs.size(); ++i) {
        const std::string where = std::string(target.name) + ", one of " + std::to_string(count) + ", " + problems[i].text();
        check_results(runs[i]->results(), naive(problems[i], values[i].as<T>([](double x) { return T(x); })),
                      naive(problems[i], values[i].as<Wider<T>>([](double x) { return Wider<T>(x); })), where);
        check_gradients(runs[i]->gradients(), naive_gradient<T>(problems[i], values[i], weights[i]),
                        naive_gradient<Wider<T>>(problems[i], values[i], weights[i]), where);
    }
}

TEST(several_scans_at_once) {
    Random random(19);
    for (const Target* const* each = targets(); *each; ++each)
        for (int count = 1; count <= 5; ++count)
            for (int threads = 1; threads <= 4; ++threads) {
                check_many<float>(**each, count, threads, random);
                check_many<double>(**each, count, threads, random);
            }
}

// No rows, or no steps: states pass through, gradients of weights are zero.
TEST(nothing_to_do) {
    Random random(23);
    for (const Target* const* each = targets(); *each; ++each)
        for (Cell cell : cells)
            for (Index T : {0, 3})
                for (Index B : {0, 2})
                    for (int threads : {1, 3}) {
                        if (T && B) continue;
                        Problem p;
                        p.cell = cell, p.T = T, p.B = B, p.I = 3, p.H = 9, p.P = cell == Cell::lstm_projected ? 4 : 9;
                        Values<double> v = random_values(p, random);
                        const Results<double> weights = random_weights(p, random);
                        for (bool recompute : {false, true}) {
                            Layout layout;
                            layout.threads = threads, layout.parts = threads, layout.recompute = recompute;
                            Run<float> run(p, v, layout, (*each)->f32);
                            const auto plain = naive(p, v.as<float>([](double x) { return float(x); }));
                            CHECK(run.forward(), "stopped by nobody");
                            check_results(run.results(), plain, naive(p, v), p.text());
                            run.set_gradients(weights);
                            CHECK(run.backward(), "stopped by nobody");
                            check_gradients(run.gradients(), naive_gradient<float>(p, v, weights),
                                            naive_gradient<double>(p, v, weights), p.text());
                        }
                    }
}

// Only what is asked for is computed: any subset of gradients, none of those that come in.
TEST(any_subset_of_gradients) {
    Random random(29);
    for (Cell cell : cells)
        for (int round = 0; round < 12; ++round) {
            const Problem p = random_problem(cell, random);
            const Values<double> v = random_values(p, random);
            Results<double> weights = random_weights(p, random);
            Run<double> all(p, v, random_layout(random), (*targets())->f64);
            all.set_gradients(weights);
            const Gradients<double> whole = all.g;
            for (double** each : {&all.g.x, &all.g.h0, &all.g.c0, &all.g.W, &all.g.U, &all.g.b, &all.g.b_h, &all.g.V,
                                  &all.g.restart_h, &all.g.restart_c})
                if (random.flip()) *each = nullptr;
            if (random.flip()) all.g.out = nullptr, weights.out.assign(weights.out.size(), 0);
            if (random.flip()) all.g.h_n = nullptr, weights.h_n.assign(weights.h_n.size(), 0);
            if (random.flip()) all.g.c_n = nullptr, weights.c_n.assign(weights.c_n.size(), 0);
            CHECK(all.forward() && all.backward(), "stopped by nobody");
            const Gradients<double> asked = all.g;
            Values<double> truth = naive_gradient<double>(p, v, weights);
            all.g.W = whole.W, all.g.U = whole.U, all.g.b = whole.b, all.g.b_h = whole.b_h, all.g.V = whole.V;
            all.g.x = whole.x, all.g.h0 = whole.h0, all.g.c0 = whole.c0;
            all.g.restart_h = whole.restart_h, all.g.restart_c = whole.restart_c;
            const Values<double> got = all.gradients();
            const auto check = [&](bool wanted, const std::vector<double>& mine, const std::vector<double>& right, const char* name) {
                for (std::size_t i = 0; i < mine.size(); ++i) {
                    if (!wanted) CHECK(std::isnan(mine[i]), name << " was not asked for, " << p.text());
                    else CHECK(std::abs(mine[i] - right[i]) < 1e-12 * (1 + std::abs(right[i])), name << " " << i << ", " << p.text());
                }
            };
            check(asked.W, got.W, truth.W, "dW"), check(asked.U, got.U, truth.U, "dU"), check(asked.V, got.V, truth.V, "dV");
            check(asked.b, got.b, truth.b, "db"), check(asked.b_h, got.b_h, truth.b_h, "db_h"), check(asked.x, got.x, truth.x, "dx");
            check(asked.h0, got.h0, truth.h0, "dh0"), check(asked.c0, got.c0, truth.c0, "dc0");
            check(asked.restart_h, got.restart_h, truth.restart_h, "drestart_h");
            check(asked.restart_c, got.restart_c, truth.restart_c, "drestart_c");
        }
}

}  // namespace
