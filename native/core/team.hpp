// Threads that work on one call together.
#pragma once

#include <atomic>

#include "scan.h"

namespace unrolled {

// Where the threads of a team meet. Waiting spins, because a step is shorter than a sleep, and gives the core away when
// the wait grows long: somebody else may need it for our partner to arrive.
class Barrier {
public:
    void open(int size) {
        size_ = size;
        missing_.store(size, std::memory_order_relaxed);
    }

    void wait(const std::atomic<bool>& stopped) {
        if (size_ > 1) meet(stopped);
    }

    static constexpr int spin_limit = 4000;
    static void pause() {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        __asm__ __volatile__("yield");
#endif
    }
    static void give_way();

private:
    void meet(const std::atomic<bool>& stopped);

    int size_ = 1;
    alignas(64) std::atomic<int> missing_{1};
    alignas(64) std::atomic<unsigned> round_{0};
};

// Is the call to stop? Only the calling thread asks, ten times a second; the others see the flag.
class Stopper {
public:
    explicit Stopper(Interrupt interrupt) : interrupt_(interrupt) {}
    const std::atomic<bool>& flag() const { return stopped_; }
    bool stopped() const { return stopped_.load(std::memory_order_relaxed); }
    void poll();

private:
    Interrupt interrupt_;
    std::int64_t next_ = 0, last_ = 0;  // nanoseconds of the steady clock
    int calls_ = 0;
    std::atomic<bool> stopped_{false};
};

// One thread's view of the threads that share a scan.
struct Team {
    int size, rank;
    bool leader;  // the thread that made the call
    Barrier* barrier;
    Stopper* stopper;

    void wait() const { barrier->wait(stopper->flag()); }
    bool stopped() const {
        if (leader) stopper->poll();
        return stopper->stopped();
    }
    // This thread's share of n things.
    Index begin(Index n) const { return n * rank / size; }
    Index end(Index n) const { return n * (rank + 1) / size; }
};

// Somebody else's threads, by the three functions of OpenMP that it takes to use them.
struct Host {
    void (*parallel)(void (*work)(void*), void* context, unsigned threads, unsigned flags) = nullptr;
    int (*rank)() = nullptr;
    int (*size)() = nullptr;
    int (*busy)() = nullptr;  // is the caller one of several threads at work already?
};

// Threads of this process, started when first needed, at most one fewer than the cores. One call at a time has them; a
// second call meanwhile runs on its own thread alone. A forked child starts its own.
class Pool {
public:
    // Work on these threads instead. A program's other threads may spin for milliseconds after their own work is done:
    // beside them ours would get half a core, and take twice as long.
    static void adopt(Host host);
    // How many threads, the caller included, this call may use of the `wanted`; release() after run().
    static int acquire(int wanted);
    static void run(int threads, void (*work)(void* context, int rank), void* context);
    static void release();
};

// Scratch of one calling thread, kept between its calls: 64-byte aligned, not cleared. Throws std::bad_alloc.
void* scratch(std::size_t bytes);

}  // namespace unrolled
