// Memory that tells who went past its end: under the address sanitizer a block of exactly the right size, else a block
// between NaNs of one pattern. What nobody has written is such a NaN too. Never aligned to a vector.
#pragma once

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "check.hpp"
#include "scan.h"

namespace test {

using unrolled::Index;

template <class T> class Guarded {
public:
#if defined(__SANITIZE_ADDRESS__)
    static constexpr Index guard = 0;
#else
    static constexpr Index guard = 37;
#endif

    explicit Guarded(Index n, const char* name = "") : n_(n), name_(name), all_(std::size_t(n + 2 * guard), canary()) {
        all_.shrink_to_fit();
    }
    T* data() { return all_.data() + guard; }
    Index size() const { return n_; }
    T& operator[](Index i) { return data()[i]; }

    static T canary() {
        const std::uint64_t bits = sizeof(T) == 4 ? 0x7fcabcdeu : 0x7ff9abcdef012345u;
        T value;
        std::memcpy(&value, &bits, sizeof value);
        return value;
    }
    bool untouched(Index i) {
        const T expected = canary();
        return std::memcmp(data() + i, &expected, sizeof(T)) == 0;
    }
    void check() {
        for (Index i = 0; i < guard; ++i)
            CHECK(untouched(-1 - i) && untouched(n_ + i), name_ << ": somebody wrote " << i << " past its ends");
    }

private:
    Index n_;
    const char* name_;
    std::vector<T> all_;
};

}  // namespace test
