// Every tile shape against the plain product in double, with K around what the chains of a tile divide it into.

#include <cmath>

#include "guarded.hpp"
#include "tile.hpp"

namespace {

using namespace unrolled::UNROLLED_TARGET;
using test::Guarded;
using test::Random;

template <class T> void fill(Guarded<T>& to, Random& random) {
    for (Index i = 0; i < to.size(); ++i) to[i] = T(random.number());
}

// |got - sum| within the rounding of K products of numbers below 1.
template <class T> void check_near(T got, double truth, Index K, const char* what, Index row, Index column) {
    const double budget = double(K + 2) * double(std::numeric_limits<T>::epsilon()) * std::max(1.0, std::abs(truth));
    CHECK(std::abs(double(got) - truth) <= budget, what << " (" << row << ", " << column << ") with K " << K << ": " << got
                                                         << ", wanted " << truth);
}

// C = init + A B for n rows and `vectors` vectors: by product(), which takes n and `vectors` apart into tiles.
template <class T> void check_product(Index n, Index vectors, Index K, bool one_init, bool in_place, Random& random) {
    constexpr Index L = lanes<T>;
    const Index lda = K + 3, ldb = K * L, ldc = vectors * L + 5, ldi = one_init ? 0 : ldc;
    Guarded<T> A(n ? (n - 1) * lda + K : 0, "A"), B(vectors * ldb, "B"), init(one_init ? vectors * L : (n - 1) * ldc + vectors * L, "init"),
        C((n - 1) * ldc + vectors * L, "C");
    fill(A, random), fill(B, random), fill(init, random);
    if (in_place)
        for (Index i = 0; i < C.size(); ++i) C[i] = init[i];
    product<T>(n, vectors, K, A.data(), lda, B.data(), ldb, in_place ? C.data() : init.data(), ldi, C.data(), ldc);
    for (Index r = 0; r < n; ++r)
        for (Index u = 0; u < ldc && r * ldc + u < C.size(); ++u) {
            if (u >= vectors * L) {
                CHECK(in_place || C.untouched(r * ldc + u), "between the rows of C");
                continue;
            }
            double sum = init[r * ldi + u];
            for (Index k = 0; k < K; ++k) sum += double(A[r * lda + k]) * double(B[u / L * ldb + k * L + u % L]);
            check_near(C[r * ldc + u], sum, K, "product", r, u);
        }
    A.check(), B.check(), init.check(), C.check();
}

// C += A' B.
template <class T> void check_transposed(Index m, Index vectors, Index K, Random& random) {
    constexpr Index L = lanes<T>;
    const Index lda = m + 3, ldb = vectors * L + 1, ldc = vectors * L + 2;
    Guarded<T> A(K ? (K - 1) * lda + m : 0, "A"), B(K ? (K - 1) * ldb + vectors * L : 0, "B"), C((m - 1) * ldc + vectors * L, "C");
    fill(A, random), fill(B, random), fill(C, random);
    std::vector<T> before(C.data(), C.data() + C.size());
    transposed_product<T>(m, vectors, K, A.data(), lda, B.data(), ldb, C.data(), ldc);
    for (Index r = 0; r < m; ++r)
        for (Index u = 0; u < ldc && r * ldc + u < C.size(); ++u) {
            double sum = double(before[std::size_t(r * ldc + u)]);
            if (u < vectors * L)
                for (Index k = 0; k < K; ++k) sum += double(A[k * lda + r]) * double(B[k * ldb + u]);
            check_near(C[r * ldc + u], sum, u < vectors * L ? K : -2, "transposed", r, u);
        }
    A.check(), B.check(), C.check();
}

template <class T> void check_all() {
    Random random(11);
    for (Index K : {0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64})
        for (Index n = 1; n <= 2 * tile_rows + 1; ++n)  // every number of rows in a tile, and tiles of unequal rows
            for (Index vectors = 1; vectors <= 2 * tile_vectors + 1; ++vectors) {
                check_product<T>(n, vectors, K, K & 1, !(K & 1) && n & 1, random);
                check_transposed<T>(n, vectors, K, random);
            }
}

TEST(tiles_float) { check_all<float>(); }
TEST(tiles_double) { check_all<double>(); }

TEST(blocks_differ_by_one_row_at_most) {
    for (Index n = 1; n < 100; ++n) {
        const Blocks blocks(n);
        Index least = n, most = 0;
        for (Index i = 0; i < blocks.count; ++i) {
            const Index rows = blocks.begin(i + 1) - blocks.begin(i);
            least = std::min(least, rows), most = std::max(most, rows);
        }
        CHECK(least >= 1 && most <= tile_rows && most - least <= 1, n << " rows: blocks of " << least << " to " << most);
        CHECK(blocks.begin(0) == 0 && blocks.begin(blocks.count) == n, n << " rows are not all there");
    }
}

}  // namespace
