// Which target runs, decided once.

#include <cstdlib>
#include <cstring>

#include "scan.h"

namespace unrolled {

#define UNROLLED_DECLARE(name) namespace name { extern const Target target; }
UNROLLED_DECLARE(generic)
#if defined(UNROLLED_HAS_AVX2)
UNROLLED_DECLARE(avx2)
#endif
#if defined(UNROLLED_HAS_AVX512)
UNROLLED_DECLARE(avx512)
#endif

const Target* const* targets() {
    static const Target* found[4];
    static const bool once = [] {
        int count = 0;
#if defined(UNROLLED_HAS_AVX2) || defined(UNROLLED_HAS_AVX512)
        __builtin_cpu_init();
        const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
#if defined(UNROLLED_HAS_AVX512)
        const bool has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                                __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
        if (has_avx2 && has_avx512) found[count++] = &avx512::target;
#endif
#if defined(UNROLLED_HAS_AVX2)
        if (has_avx2) found[count++] = &avx2::target;
#endif
        found[count] = &generic::target;
        return true;
    }();
    (void)once;
    return found;
}

const Target* target() {
    static const Target* const chosen = [] {
        const char* wanted = std::getenv("UNROLLED_ISA");
        const Target* const* each = targets();
        if (!wanted || !*wanted) return *each;
        while (*each && std::strcmp((*each)->name, wanted) != 0) ++each;
        return *each;
    }();
    return chosen;
}

template <class T> int choose_parts(const Scan<T>& scan, int threads) {
    // A part of fewer rows than this would leave the tiles half empty: then threads share units instead.
    constexpr Index rows = 4;
    const Index most = scan.batch / rows;
    return int(most < 1 || threads < 1 ? 1 : most < threads ? most : threads);
}

template int choose_parts<float>(const Scan<float>&, int);
template int choose_parts<double>(const Scan<double>&, int);

}  // namespace unrolled
