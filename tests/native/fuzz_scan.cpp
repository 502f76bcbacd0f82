// A search for problems that break the core, guided by coverage: `make native-fuzz` builds it with clang's libFuzzer and
// the address and undefined-behaviour sanitizers. The bytes say sizes, structure, the layout of the caller's arrays and
// numbers, among them NaN, infinities and denormals. Buffers have exactly the size that the contract asks for.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "run.hpp"

namespace test {
namespace {

// Reads from the left; 0 past the end.
class Bytes {
public:
    Bytes(const std::uint8_t* data, std::size_t size) : at_(data), end_(data + size) {}
    Index below(Index n) { return at_ < end_ ? *at_++ % n : 0; }
    bool flip() { return below(2); }
    bool empty() const { return at_ == end_; }
    double number() {
        static constexpr double odd[] = {0.0, -0.0, 1.0, -1.0, 1e-310, -1e-45, 1e38, -3.5e38, 1e300, 1e-40};
        const Index which = below(256);
        if (which == 255) return std::numeric_limits<double>::quiet_NaN();
        if (which > 252) return which == 253 ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity();
        return which >= 240 ? odd[which - 240 < 10 ? which - 240 : 0] : double(which - 120) / 40;
    }

private:
    const std::uint8_t *at_, *end_;
};

Problem problem_of(Bytes& bytes) {
    Problem p;
    p.cell = cells[bytes.below(6)];
    p.T = bytes.below(12), p.B = bytes.below(20), p.I = 1 + bytes.below(20), p.H = 1 + bytes.below(40);
    p.P = p.cell == Cell::lstm_projected ? 1 + bytes.below(20) : p.H;
    p.reverse = bytes.flip(), p.b = bytes.flip(), p.b_h = bytes.flip(), p.restart = bytes.flip();
    if (bytes.flip())
        for (Index b = 0; b < p.B; ++b) p.lengths.push_back(bytes.below(p.T + 1));
    if (bytes.flip())
        for (Index i = 0; i < p.B * p.T; ++i) p.resets.push_back(std::uint8_t(bytes.flip()));
    return p;
}

Layout layout_of(Bytes& bytes, Index rows) {
    Layout l;
    l.batch_first = bytes.flip(), l.torch_weights = bytes.flip(), l.recompute = bytes.flip(), l.keep = bytes.below(4);
    l.gap = bytes.below(4), l.feature = 1 + bytes.below(3);
    l.parts = 1 + int(bytes.below(std::max<Index>(1, std::min<Index>(rows, 4)))), l.threads = 1 + int(bytes.below(3));
    return l;
}

// The numbers that the bytes have; when they end, some that repeat.
template <class Filled> void fill(Filled& filled, Bytes& bytes, Random& random) {
    for (double& value : filled) value = bytes.empty() ? random.number() : bytes.number();
}

template <class T> void once(const Problem& p, Bytes bytes, const Layout& layout) {
    Random random(7);
    Values<double> v = random_values(p, random);
    v.each([&](std::vector<double>& part) { fill(part, bytes, random); });
    for (const Target* const* each = unrolled::targets(); *each; ++each) {
        Run<T> run(p, v, layout, kernels<T>(**each));
        run.forward();
        const Results<T> got = run.results();
        if (layout.keep) {
            Results<double> weights{std::vector<double>(got.out.size(), 0.5), std::vector<double>(got.h_n.size(), -1.0),
                                    std::vector<double>(got.c_n.size(), 2.0)};
            run.set_gradients(weights);
            run.backward();
            run.gradients();
        }
        Run<T> packed(p, v, layout, kernels<T>(**each));
        packed.forward_packed();
        packed.results();
    }
}

}  // namespace
}  // namespace test

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    test::Bytes bytes(data, size);
    const test::Problem p = test::problem_of(bytes);
    const test::Layout l = test::layout_of(bytes, p.B);
    if (bytes.flip()) test::once<float>(p, bytes, l);
    else test::once<double>(p, bytes, l);
    return 0;
}
