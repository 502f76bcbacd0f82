// Vectors of one compilation target, and the functions of the gates on them.
//
// The same source is compiled once a target; UNROLLED_TARGET names the namespace and UNROLLED_VECTOR_BYTES the width.
// GNU vector extensions (g++, clang++) turn into AVX-512, AVX2, SSE2 or NEON instructions, whichever the target has.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#if !defined(UNROLLED_TARGET) || !defined(UNROLLED_VECTOR_BYTES)
#error "compile this for a target: see CMakeLists.txt"
#endif

namespace unrolled::UNROLLED_TARGET {

using Index = std::int64_t;

template <class T> struct Simd;

template <> struct Simd<float> {
    typedef float V __attribute__((vector_size(UNROLLED_VECTOR_BYTES)));
    typedef std::uint32_t Bits __attribute__((vector_size(UNROLLED_VECTOR_BYTES)));
    static constexpr int mantissa = 23, terms = 7;  // Taylor terms of e^r - 1 for |r| <= ln 2 / 2: error 0.05 ulp
    static constexpr float rounder = 0x1.8p23f;     // adding it leaves a number's nearest integer in the low bits
    static constexpr float ln2_high = 0x1.62e4p-1f, ln2_low = 0x1.7f7d1cp-20f;  // 15 bits, so that n * ln2_high is exact
    static constexpr float exp_limit = 88.0f, tanh_limit = 10.0f;
};

template <> struct Simd<double> {
    typedef double V __attribute__((vector_size(UNROLLED_VECTOR_BYTES)));
    typedef std::uint64_t Bits __attribute__((vector_size(UNROLLED_VECTOR_BYTES)));
    static constexpr int mantissa = 52, terms = 13;
    static constexpr double rounder = 0x1.8p52;
    static constexpr double ln2_high = 0x1.62e42feep-1, ln2_low = 0x1.a39ef35793c76p-33;
    static constexpr double exp_limit = 708.0, tanh_limit = 20.0;
};

template <class T> using Vec = typename Simd<T>::V;
template <class T> using BitsOf = typename Simd<T>::Bits;
template <class T> using Lane = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;
template <class T> inline constexpr int lanes = UNROLLED_VECTOR_BYTES / int(sizeof(T));

// n rounded up to whole vectors: the length of every row that the core itself lays out.
template <class T> constexpr Index padded(Index n) { return (n + lanes<T> - 1) / lanes<T> * lanes<T>; }

template <class T> inline Vec<T> load(const T* p) {
    Vec<T> v;
    std::memcpy(&v, p, sizeof v);
    return v;
}

template <class T> inline void store(T* p, Vec<T> v) { std::memcpy(p, &v, sizeof v); }

// Less zero, not plus: 0 + -0 would be +0, and tanh needs the sign bit.
template <class T> inline Vec<T> splat(T value) { return value - Vec<T>{}; }

// Lane l of the result is lane from[l] of a and b, one behind the other.
template <class T> inline Vec<T> shuffle(Vec<T> a, Vec<T> b, BitsOf<T> from) {
#if defined(__clang__)  // which has no shuffle by a vector, and makes one of this
    Vec<T> result;
    for (int l = 0; l < lanes<T>; ++l) result[l] = from[l] < lanes<T> ? a[from[l]] : b[from[l] - lanes<T>];
    return result;
#else
    return __builtin_shuffle(a, b, from);
#endif
}

// A NaN compares false and so passes through.
template <class T> inline Vec<T> at_most(Vec<T> x, T limit) { return x > limit ? splat<T>(limit) : x; }
template <class T> inline Vec<T> at_least(Vec<T> x, T limit) { return x < limit ? splat<T>(limit) : x; }

template <class T> constexpr T inverse_factorial(int n) {
    long double product = 1;
    for (int k = 2; k <= n; ++k) product *= k;
    return T(1 / product);
}

// e^x = 2^n (1 + q), with n = round(x / ln 2) and q = e^r - 1, r = x - n ln 2. |x| <= exp_limit.
template <class T> struct Exponential {
    Vec<T> scale;  // 2^n
    Vec<T> q;
};

template <class T> [[gnu::always_inline]] inline Exponential<T> exponential(Vec<T> x) {
    using S = Simd<T>;
    const Vec<T> shifted = x * T(1.4426950408889634074) + S::rounder;
    const Vec<T> n = shifted - S::rounder;
    const Vec<T> r = (x - n * S::ln2_high) - n * S::ln2_low;
    Vec<T> q = splat<T>(inverse_factorial<T>(S::terms));  // Horner: r + r^2 / 2! + ... + r^terms / terms!, without its first r
#pragma GCC unroll 16
    for (int k = S::terms - 1; k >= 1; --k) q = q * r + inverse_factorial<T>(k);
    const BitsOf<T> bits = ((BitsOf<T>)shifted << S::mantissa) + (BitsOf<T>)splat<T>(1);
    return {(Vec<T>)bits, q * r};
}

// s(x) = 1 / (1 + e^-x)
template <class T> [[gnu::always_inline]] inline Vec<T> sigmoid(Vec<T> x) {
    const auto e = exponential<T>(at_least<T>(at_most<T>(-x, Simd<T>::exp_limit), -Simd<T>::exp_limit));
    return T(1) / (T(1) + (e.scale + e.scale * e.q));
}

// tanh |x| = (e^2|x| - 1) / (e^2|x| + 1), with e^y - 1 taken whole, so that small x keep their digits.
template <class T> [[gnu::always_inline]] inline Vec<T> tanh(Vec<T> x) {
    const BitsOf<T> sign = (BitsOf<T>)x & (BitsOf<T>)splat<T>(T(-0.0));
    const Vec<T> magnitude = (Vec<T>)((BitsOf<T>)x ^ sign);
    const auto e = exponential<T>(T(2) * at_most<T>(magnitude, Simd<T>::tanh_limit));
    const Vec<T> less_one = e.scale * e.q + (e.scale - T(1));
    const Vec<T> t = less_one / (less_one + T(2));
    return (Vec<T>)((BitsOf<T>)t | sign);
}

template <class T> inline Vec<T> relu(Vec<T> x) { return x < T(0) ? Vec<T>{} : x; }

}  // namespace unrolled::UNROLLED_TARGET
