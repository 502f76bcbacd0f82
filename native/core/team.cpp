#include "team.hpp"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

namespace unrolled {

void Barrier::meet(const std::atomic<bool>& stopped) {
    const unsigned round = round_.load(std::memory_order_relaxed);
    if (missing_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
        missing_.store(size_, std::memory_order_relaxed);
        round_.store(round + 1, std::memory_order_release);
        return;
    }
    for (int spins = 0; round_.load(std::memory_order_acquire) == round; ++spins) {
        if (stopped.load(std::memory_order_relaxed)) return;
        spins < spin_limit ? pause() : give_way();
    }
}

void Barrier::give_way() { sched_yield(); }

void Stopper::poll() {
    if (!interrupt_.asked || calls_-- > 0) return;
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    const std::int64_t at = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
    // The clock costs as much as a small step: it is read at every eighth call, and at every one where steps are long.
    calls_ = next_ == 0 || at - last_ < 1'000'000 ? 7 : 0;
    last_ = at;
    if (next_ == 0) next_ = at + 100'000'000;
    if (at < next_) return;
    next_ = at + 100'000'000;
    if (interrupt_.asked(interrupt_.context)) stopped_.store(true, std::memory_order_relaxed);
}

namespace {

int cores() {
#if defined(__linux__)
    cpu_set_t mine;
    if (sched_getaffinity(0, sizeof mine, &mine) == 0) return std::max(1, CPU_COUNT(&mine));
#endif
    return std::max(1, int(std::thread::hardware_concurrency()));
}

// One process's workers. They look for work for a moment after each call, because the next one is often close, and then
// sleep. A forked child has none of these threads and must not touch their locks: it makes a new set and leaves the old.
struct Workers {
    std::mutex busy;
    std::mutex mutex;
    std::condition_variable wake;
    std::vector<std::thread> threads;
    // The call at hand: its number and how many threads it wants, in one word. A thread that is late and not wanted may then
    // find the next call here, but never one call's number beside another's wants.
    alignas(64) std::atomic<std::uint64_t> call{0};
    static constexpr std::uint64_t most_threads = 1 << 16;
    alignas(64) std::atomic<int> running{0};
    int sleeping = 0;
    void (*work)(void*, int) = nullptr;
    void* context = nullptr;

    void serve(int rank, std::uint64_t seen) {
        for (;;) {
            std::uint64_t now = call.load(std::memory_order_acquire);
            for (int spins = 0; now == seen && spins < patience; ++spins) {
                Barrier::pause();
                now = call.load(std::memory_order_acquire);
            }
            if (now == seen) {
                std::unique_lock<std::mutex> lock(mutex);
                ++sleeping;
                wake.wait(lock, [&] { return (now = call.load(std::memory_order_acquire)) != seen; });
                --sleeping;
            }
            seen = now;
            const int wanted = int(now % most_threads);
            if (wanted == over) return;
            if (rank < wanted) {
                work(context, rank);
                running.fetch_sub(1, std::memory_order_release);
            }
        }
    }

    void start(int count) {
        while (int(threads.size()) + 1 < count) {
            const int rank = int(threads.size()) + 1;
            threads.emplace_back([this, rank, seen = call.load()] { serve(rank, seen); });
        }
    }

    void publish(int wanted) {
        std::lock_guard<std::mutex> lock(mutex);
        const std::uint64_t number = call.load(std::memory_order_relaxed) / most_threads + 1;
        call.store(number * most_threads + std::uint64_t(wanted), std::memory_order_release);
        if (sleeping > 0) wake.notify_all();
    }

    ~Workers() {
        publish(over);
        for (std::thread& thread : threads) thread.join();
    }

    static constexpr int patience = 20000, over = 0;
};

std::unique_ptr<Workers> workers;
std::once_flag once;
thread_local bool holds = false;
Host host;  // written before the first call that uses it; a forked child cannot use its parent's

Workers& ours() {
    std::call_once(once, [] {
        workers = std::make_unique<Workers>();
        pthread_atfork(nullptr, nullptr, [] {
            (void)workers.release();
            workers = std::make_unique<Workers>();
            holds = false;
            host = Host();
        });
    });
    return *workers;
}

}  // namespace

int Pool::acquire(int wanted) {
    static const int most = cores();
    wanted = std::min(wanted, most);
    if (wanted <= 1) return 1;
    Workers& w = ours();
    if (holds || !w.busy.try_lock()) return 1;
    holds = true;
    return wanted;
}

void Pool::adopt(Host given) {
    ours();  // which is where a fork is watched for
    host = given;
}

namespace {

// False where the host gave fewer threads than asked for: then nothing has run.
bool run_on_host(int threads, void (*work)(void*, int), void* context) {
    struct Region {
        int threads;
        void (*work)(void*, int);
        void* context;
        std::atomic<bool> ran{false};
    } region{threads, work, context};
    if (host.busy()) return false;
    host.parallel(
        [](void* p) {
            Region& r = *static_cast<Region*>(p);
            if (host.size() != r.threads) return;
            r.ran.store(true, std::memory_order_relaxed);
            r.work(r.context, host.rank());
        },
        &region, unsigned(threads), 0);
    return region.ran.load(std::memory_order_relaxed);
}

}  // namespace

void Pool::run(int threads, void (*work)(void*, int), void* context) {
    if (threads <= 1) return work(context, 0);
    if (host.parallel && run_on_host(threads, work, context)) return;
    Workers& w = ours();
    w.start(threads);
    w.work = work;
    w.context = context;
    w.running.store(threads - 1, std::memory_order_relaxed);
    w.publish(threads);
    work(context, 0);
    for (int spins = 0; w.running.load(std::memory_order_acquire) > 0; ++spins)
        spins < Barrier::spin_limit ? Barrier::pause() : Barrier::give_way();
}

void Pool::release() {
    if (!holds) return;
    holds = false;
    ours().busy.unlock();
}

void* scratch(std::size_t bytes) {
    struct Free {
        void operator()(void* p) const { std::free(p); }
    };
    constexpr std::size_t alignment = 64, keep = std::size_t(64) << 20;
    thread_local std::unique_ptr<void, Free> memory;
    thread_local std::size_t size = 0;
    if (bytes > size || (size > keep && bytes < keep)) {
        memory.reset();
        size = 0;
        memory.reset(std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment));
        if (!memory) throw std::bad_alloc();
        size = bytes;
    }
    return memory.get();
}

}  // namespace unrolled
