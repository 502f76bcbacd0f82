// The functions of the gates, lane by lane, against the library's in a wider type.

#include <algorithm>
#include <cmath>
#include <limits>

#include "check.hpp"
#include "simd.hpp"

namespace {

using namespace unrolled::UNROLLED_TARGET;
using test::Random;

constexpr int sigmoid_ = 0, tanh_ = 1;

template <class T> using Wider = std::conditional_t<std::is_same_v<T, float>, double, long double>;
template <class T> using Limits = std::numeric_limits<T>;

template <class T> T value_of(std::uint64_t bits) {
    T x;
    std::memcpy(&x, &bits, sizeof x);  // the low bytes
    return x;
}

// Distance in units of the last place of the truth; below the normal numbers the unit stays that of the smallest of them,
// because that is where sigmoid stops: s(-89) is a number that no sum can tell from 0.
template <class T> double ulps(T got, Wider<T> truth) {
    const Wider<T> size = std::max(std::abs(truth), Wider<T>(Limits<T>::min()));
    int exponent;
    std::frexp(size, &exponent);
    return double(std::abs(Wider<T>(got) - truth) / std::ldexp(Wider<T>(1), exponent - Limits<T>::digits));
}

template <class T> Vec<T> by_name(int function, Vec<T> x) { return function ? tanh<T>(x) : sigmoid<T>(x); }
template <class T> Wider<T> truth_of(int function, T x) {
    const Wider<T> wide = x;
    return function ? std::tanh(wide) : 1 / (1 + std::exp(-wide));
}

template <class T> void check_vector(int function, const T* x, double most, bool vanishes) {
    T got[lanes<T>];
    store<T>(got, by_name<T>(function, load<T>(x)));
    for (int i = 0; i < lanes<T>; ++i) {
        const Wider<T> truth = truth_of<T>(function, x[i]);
        if (vanishes) {  // absolutely: the result stops at about 2^-127 and 2^-1022
            CHECK(got[i] >= 0 && got[i] <= 2 * Limits<T>::min(), "s(" << x[i] << ") = " << got[i]);
            continue;
        }
        const double error = ulps<T>(got[i], truth);
        CHECK(error <= most, (function ? "tanh(" : "sigmoid(") << x[i] << ") is " << error << " ulp off");
    }
}

// Below, sigmoid is no normal number.
template <class T> T lowest(int function) { return function == sigmoid_ ? -Simd<T>::exp_limit : Limits<T>::lowest(); }

// Bit patterns spread over all finite numbers, and as many more where the functions bend.
template <class T> void check_range(int function, int count, double most) {
    Random random(7 + std::uint64_t(function));
    for (int i = 0; i < count; ++i) {
        const bool any = i & 1, vanishes = function == sigmoid_ && i % 16 == 14;
        T x[lanes<T>];
        for (T& each : x) {
            each = T(random.number() + random.number() / 4096) * (i & 2 ? T(1) : Simd<T>::tanh_limit * 4);
            while (any && !((each = value_of<T>(random.bits())) >= lowest<T>(function) && std::isfinite(each))) {}
            if (vanishes) each = -Simd<T>::exp_limit - std::abs(each);
        }
        check_vector<T>(function, x, most, vanishes);
    }
}

template <class T> void check_special(int function) {
    const T least = Limits<T>::denorm_min(), infinity = Limits<T>::infinity();
    const T cases[] = {T(0), T(-0.0), least, -least, Limits<T>::min() / 2, Limits<T>::min(), Limits<T>::epsilon(),
                       infinity, -infinity, Limits<T>::max(), Limits<T>::lowest(), T(1e-5), T(-1e-5)};
    for (T x : cases) {
        T all[lanes<T>], got[lanes<T>];
        std::fill_n(all, lanes<T>, x);
        store<T>(got, by_name<T>(function, load<T>(all)));
        const T truth = T(truth_of<T>(function, x));
        for (T each : got) {
            CHECK(std::abs(each - truth) <= 3 * Limits<T>::epsilon() * std::abs(truth) + Limits<T>::min() * 2 * (function == 0),
                  (function ? "tanh(" : "sigmoid(") << x << ") = " << each);
            if (function) CHECK(std::signbit(each) == std::signbit(x), "the sign of tanh(" << x << ")");
        }
    }
}

// A NaN in one lane comes out of that lane and of no other.
template <class T> void check_nan(int function) {
    for (int lane = 0; lane < lanes<T>; ++lane) {
        T x[lanes<T>], got[lanes<T>];
        std::fill_n(x, lanes<T>, T(0.5));
        x[lane] = lane & 1 ? Limits<T>::quiet_NaN() : -Limits<T>::quiet_NaN();
        store<T>(got, by_name<T>(function, load<T>(x)));
        for (int i = 0; i < lanes<T>; ++i) CHECK(std::isnan(got[i]) == (i == lane), "lane " << i << " with NaN in lane " << lane);
    }
}

// Monotone enough to be a gate: never outside its range, which a product of many gates would not forgive.
template <class T> void check_bounds() {
    Random random(3);
    for (int i = 0; i < 2000; ++i) {
        T x[lanes<T>], s[lanes<T>], t[lanes<T>];
        for (T& each : x) each = value_of<T>(random.bits());
        store<T>(s, sigmoid<T>(load<T>(x)));
        store<T>(t, tanh<T>(load<T>(x)));
        for (int l = 0; l < lanes<T>; ++l) {
            if (std::isnan(x[l])) continue;
            CHECK(s[l] >= 0 && s[l] <= 1, "sigmoid(" << x[l] << ") = " << s[l]);
            CHECK(t[l] >= -1 && t[l] <= 1, "tanh(" << x[l] << ") = " << t[l]);
        }
    }
}

template <class T> void check_exponential() {
    Random random(5);
    for (int i = 0; i < 4000; ++i) {
        T x[lanes<T>], got[lanes<T>];
        for (T& each : x) each = std::max(T(random.number()) * Simd<T>::exp_limit, std::log(Limits<T>::min()) + 1);
        const auto e = exponential<T>(load<T>(x));
        store<T>(got, e.scale + e.scale * e.q);
        for (int l = 0; l < lanes<T>; ++l) {
            const double error = ulps<T>(got[l], std::exp(Wider<T>(x[l])));
            CHECK(error <= 1.5, "exp(" << x[l] << ") is " << error << " ulp off");
        }
    }
}

TEST(exponential_within_ulps) { check_exponential<float>(), check_exponential<double>(); }
TEST(sigmoid_float_within_ulps) { check_range<float>(sigmoid_, 60000, 2.5); }
TEST(sigmoid_double_within_ulps) { check_range<double>(sigmoid_, 40000, 2.5); }
TEST(tanh_float_within_ulps) { check_range<float>(tanh_, 60000, 3); }
TEST(tanh_double_within_ulps) { check_range<double>(tanh_, 40000, 3); }
TEST(special_values) {
    check_special<float>(sigmoid_), check_special<double>(sigmoid_);
    check_special<float>(tanh_), check_special<double>(tanh_);
}
TEST(nan_stays_in_its_lane) {
    check_nan<float>(sigmoid_), check_nan<double>(sigmoid_), check_nan<float>(tanh_), check_nan<double>(tanh_);
}
TEST(gates_stay_in_their_range) { check_bounds<float>(), check_bounds<double>(); }
TEST(relu_keeps_nan) {
    float x[lanes<float>], got[lanes<float>];
    std::fill_n(x, lanes<float>, -1.0f);
    x[0] = Limits<float>::quiet_NaN();
    store<float>(got, relu<float>(load<float>(x)));
    CHECK(std::isnan(got[0]), "relu(NaN) = " << got[0]);
    for (int l = 1; l < lanes<float>; ++l) CHECK(got[l] == 0, "relu(-1) = " << got[l]);
}

}  // namespace
