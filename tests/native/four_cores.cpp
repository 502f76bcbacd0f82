// Says that this process may run on four cores, so that teams of three and four threads form on a smaller machine too.
// The pool asks this function; the program's own definition comes before the library's.

#include <sched.h>
#include <stddef.h>

extern "C" int sched_getaffinity(pid_t, size_t size, cpu_set_t* mine) noexcept {
    CPU_ZERO_S(size, mine);
    for (size_t core = 0; core < 4; ++core) CPU_SET_S(core, size, mine);
    return 0;
}
