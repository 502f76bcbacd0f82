// The oracle itself: its gradients against finite differences of its results.

#include <cmath>

#include "oracle.hpp"

namespace {

using namespace test;

double loss(const Problem& p, const Values<double>& v, const Results<double>& weights) {
    const Results<double> r = naive(p, v);
    double sum = 0;
    for (std::size_t i = 0; i < r.out.size(); ++i) sum += r.out[i] * weights.out[i];
    for (std::size_t i = 0; i < r.h_n.size(); ++i) sum += r.h_n[i] * weights.h_n[i];
    for (std::size_t i = 0; i < r.c_n.size(); ++i) sum += r.c_n[i] * weights.c_n[i];
    return sum;
}

void check_differences(const Problem& p, Random& random) {
    Values<double> v = random_values(p, random);
    Results<double> weights = naive(p, v);
    for (auto* each : {&weights.out, &weights.h_n, &weights.c_n})
        for (double& w : *each) w = random.number();
    Values<double> gradient = naive_gradient<double>(p, v, weights);
    std::vector<std::vector<double>*> slopes;
    gradient.each([&](std::vector<double>& g) { slopes.push_back(&g); });
    int which = 0;
    v.each([&](std::vector<double>& group) {
        const std::vector<double>& slope = *slopes[std::size_t(which++)];
        for (std::size_t i = 0; i < group.size(); ++i) {
            constexpr double step = 1e-6;
            const double kept = group[i];
            group[i] = kept + step;
            const double above = loss(p, v, weights);
            group[i] = kept - step;
            const double difference = (above - loss(p, v, weights)) / (2 * step);
            group[i] = kept;
            CHECK(std::abs(difference - slope[i]) < 1e-7 * (1 + std::abs(slope[i])),
                  p.text() << ", group " << which - 1 << ", value " << i << ": " << slope[i] << " but the difference is "
                           << difference);
        }
    });
}

TEST(gradients_of_the_oracle_are_its_finite_differences) {
    Random random(1);
    for (Cell cell : cells)
        for (bool reverse : {false, true}) {
            Problem p;
            p.cell = cell, p.T = 4, p.B = 3, p.I = 2, p.H = 3, p.P = cell == Cell::lstm_projected ? 2 : 3;
            p.reverse = reverse, p.restart = true, p.lengths = {3, 4, 0};
            p.resets = {0, 1, 0, 0, 1, 0, 0, 1, 1, 1, 1, 1};
            check_differences(p, random);
        }
}

}  // namespace
