// Matrix products, one register tile at a time. Everything above these loops only decides which tile comes next.
//
// A tile holds MR rows x NV vectors of accumulators. With MR * NV + NV + 1 registers it must not spill: 8 x 2 of the 32
// of AVX-512 and NEON, 6 x 2 of AVX2's 16, 4 x 2 of SSE2's, which needs one more for the product.
//
//   packed       B as one column of vectors after the other: [vector][k][lanes], so that a tile reads NV plain streams
//   accumulated  C += A' B for two row-major matrices with the long axis k in the rows: the gradients of weights
#pragma once

#include <algorithm>
#include <array>
#include <utility>

#include "simd.hpp"

namespace unrolled::UNROLLED_TARGET {

#if UNROLLED_VECTOR_BYTES == 64 || defined(__aarch64__)
inline constexpr int tile_rows = 8;
#elif UNROLLED_VECTOR_BYTES == 32
inline constexpr int tile_rows = 6;
#else
inline constexpr int tile_rows = 4;
#endif
inline constexpr int tile_vectors = 2;

// Few rows leave few accumulators, and a fused multiply-add takes four cycles: then several chains share the axis k.
constexpr int chains(int rows, int vectors) { return rows * vectors >= 8 ? 1 : rows * vectors >= 4 ? 2 : 4; }

// C[r][v] = init[r][v] + sum_k A[r][k] B[v][k], for MR rows and NV vectors.
//   A     row-major, `lda` apart.            B     packed columns, `ldb` apart.
//   init  rows `ldi` apart; 0 repeats one.   C     rows `ldc` apart; may be init itself, nothing else may alias.
template <class T, int MR, int NV>
void tile(Index K, const T* A, Index lda, const T* B, Index ldb, const T* init,
                                                Index ldi, T* C, Index ldc) {
    constexpr int L = lanes<T>, KC = chains(MR, NV);
    Vec<T> sum[KC][MR][NV];
#pragma GCC unroll 8
    for (int r = 0; r < MR; ++r)
#pragma GCC unroll 4
        for (int v = 0; v < NV; ++v) {
            sum[0][r][v] = load(init + r * ldi + v * L);
#pragma GCC unroll 4
            for (int c = 1; c < KC; ++c) sum[c][r][v] = Vec<T>{};
        }
    Index k = 0;
    for (; k + KC <= K; k += KC)
#pragma GCC unroll 4
        for (int c = 0; c < KC; ++c) {
            Vec<T> b[NV];
#pragma GCC unroll 4
            for (int v = 0; v < NV; ++v) b[v] = load(B + v * ldb + (k + c) * L);
#pragma GCC unroll 8
            for (int r = 0; r < MR; ++r) {
                const T a = A[r * lda + k + c];
#pragma GCC unroll 4
                for (int v = 0; v < NV; ++v) sum[c][r][v] += a * b[v];
            }
        }
    for (; k < K; ++k)
#pragma GCC unroll 8
        for (int r = 0; r < MR; ++r)
#pragma GCC unroll 4
            for (int v = 0; v < NV; ++v) sum[0][r][v] += A[r * lda + k] * load(B + v * ldb + k * L);
#pragma GCC unroll 8
    for (int r = 0; r < MR; ++r)
#pragma GCC unroll 4
        for (int v = 0; v < NV; ++v) {
#pragma GCC unroll 4
            for (int c = 1; c < KC; ++c) sum[0][r][v] += sum[c][r][v];
            store(C + r * ldc + v * L, sum[0][r][v]);
        }
}

// C[m][v] += sum_k A[k][m] B[k][v], for MR columns of A and NV vectors of B.
//   A  row-major, `lda` apart, MR neighbours in a row.   B  row-major, `ldb` apart.   C  rows `ldc` apart, no alias.
template <class T, int MR, int NV>
void transposed_tile(Index K, const T* A, Index lda, const T* B, Index ldb, T* C,
                                                           Index ldc) {
    constexpr int L = lanes<T>;
    Vec<T> sum[MR][NV];
#pragma GCC unroll 8
    for (int m = 0; m < MR; ++m)
#pragma GCC unroll 4
        for (int v = 0; v < NV; ++v) sum[m][v] = load(C + m * ldc + v * L);
    for (Index k = 0; k < K; ++k, A += lda, B += ldb) {
        Vec<T> b[NV];
#pragma GCC unroll 4
        for (int v = 0; v < NV; ++v) b[v] = load(B + v * L);
#pragma GCC unroll 8
        for (int m = 0; m < MR; ++m)
#pragma GCC unroll 4
            for (int v = 0; v < NV; ++v) sum[m][v] += A[m] * b[v];
    }
#pragma GCC unroll 8
    for (int m = 0; m < MR; ++m)
#pragma GCC unroll 4
        for (int v = 0; v < NV; ++v) store(C + m * ldc + v * L, sum[m][v]);
}

// The tiles, by rows - 1 and vectors - 1: one call a tile, so that no caller carries sixteen copies of the loops.
template <class T> using Tile = void (*)(Index, const T*, Index, const T*, Index, const T*, Index, T*, Index);
template <class T> using TransposedTile = void (*)(Index, const T*, Index, const T*, Index, T*, Index);

template <class T, int... R>
constexpr auto make_tiles(std::integer_sequence<int, R...>) {
    return std::array<std::array<Tile<T>, tile_vectors>, tile_rows>{{{tile<T, R + 1, 1>, tile<T, R + 1, 2>}...}};
}

template <class T, int... R>
constexpr auto make_transposed_tiles(std::integer_sequence<int, R...>) {
    return std::array<std::array<TransposedTile<T>, tile_vectors>, tile_rows>{
        {{transposed_tile<T, R + 1, 1>, transposed_tile<T, R + 1, 2>}...}};
}

template <class T> inline constexpr auto tiles = make_tiles<T>(std::make_integer_sequence<int, tile_rows>{});
template <class T>
inline constexpr auto transposed_tiles = make_transposed_tiles<T>(std::make_integer_sequence<int, tile_rows>{});

// Blocks of at most tile_rows that differ by at most one row: 9 = 5 + 4, not 8 + 1.
struct Blocks {
    Index rows, count;
    explicit Blocks(Index n) : rows(n), count((n + tile_rows - 1) / tile_rows) {}
    Index begin(Index block) const { return rows * block / count; }
};

// Calls work(first row, rows, first vector, vectors) for every tile of an n x `vectors` result, the rows inside: the
// columns of B stay in the first cache while the rows pass.
template <class Work> inline void for_tiles(Index n, Index vectors, Work&& work) {
    const Blocks blocks(n);
    for (Index v = 0; v < vectors; v += tile_vectors)
        for (Index i = 0; i < blocks.count; ++i)
            work(blocks.begin(i), blocks.begin(i + 1) - blocks.begin(i), v, std::min<Index>(tile_vectors, vectors - v));
}

// C = init + A B for n rows and `vectors` packed columns; the arguments are those of `tile`.
template <class T>
void product(Index n, Index vectors, Index K, const T* A, Index lda, const T* B, Index ldb, const T* init, Index ldi,
             T* C, Index ldc) {
    for_tiles(n, vectors, [=](Index r, Index rows, Index v, Index width) {
        const Index column = v * lanes<T>;
        tiles<T>[rows - 1][width - 1](K, A + r * lda, lda, B + v * ldb, ldb, init + r * ldi + column, ldi,
                                      C + r * ldc + column, ldc);
    });
}

// C += A' B for m columns of A and `vectors` vectors of B; the arguments are those of `transposed_tile`. The few columns
// of A that a tile reads are copied together first: they stand a page apart, and every vector of B comes past them.
template <class T>
void transposed_product(Index m, Index vectors, Index K, const T* A, Index lda, const T* B, Index ldb, T* C,
                        Index ldc) {
    constexpr Index depth = 256;
    alignas(64) T columns[depth * tile_rows];
    const Blocks blocks(m);
    for (Index k0 = 0; k0 < K; k0 += depth) {
        const Index rows = std::min(depth, K - k0);
        const T *a = A + k0 * lda, *b = B + k0 * ldb;
        for (Index i = 0; i < blocks.count; ++i) {
            const Index r = blocks.begin(i), width = blocks.begin(i + 1) - r;
            if (width == tile_rows)
                for (Index k = 0; k < rows; ++k) std::memcpy(columns + k * tile_rows, a + k * lda + r, tile_rows * sizeof(T));
            else
                for (Index k = 0; k < rows; ++k) std::copy_n(a + k * lda + r, width, columns + k * tile_rows);
            for (Index v = 0; v < vectors; v += tile_vectors) {
                const Index column = v * lanes<T>, span = std::min<Index>(tile_vectors, vectors - v);
                transposed_tiles<T>[width - 1][span - 1](rows, columns, tile_rows, b + column, ldb,
                                                         C + r * ldc + column, ldc);
            }
        }
    }
}

}  // namespace unrolled::UNROLLED_TARGET
