// Threads: many callers, counts that change from call to call, a fork, an interrupt; and each thread's scratch.

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "run.hpp"
#include "team.hpp"

namespace {

using namespace test;
using Clock = std::chrono::steady_clock;

#if defined(UNROLLED_SANITIZED)  // everything takes many times as long
constexpr int rounds = 40;
constexpr Index wide = 1024;
constexpr double promised = 5.0;
#else
constexpr int rounds = 400;
constexpr Index wide = 8192;
constexpr double promised = 1.0;
#endif

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// A GRU over ragged rows, with its results and gradients, to be run again and again.
struct Work {
    Problem p;
    Values<double> v;
    Results<double> weights;
    Results<float> plain;
    Results<double> truth;
    Values<float> plain_gradient;
    Values<double> true_gradient;

    explicit Work(std::uint64_t seed) {
        Random random(seed);
        p.cell = Cell::gru_after, p.T = 7, p.B = 9, p.I = 5, p.H = p.P = 33, p.lengths = {7, 3, 0, 7, 6, 5, 1, 2, 7};
        v = random_values(p, random);
        weights.out.assign(std::size_t(p.T * p.B * p.P), 0.5), weights.h_n.assign(std::size_t(p.B * p.P), -1.0);
        plain = naive(p, v.as<float>([](double x) { return float(x); }));
        truth = naive(p, v);
        plain_gradient = naive_gradient<float>(p, v, weights);
        true_gradient = naive_gradient<double>(p, v, weights);
    }

    void run(int threads, int parts) const {
        Layout layout;
        layout.threads = threads, layout.parts = parts;
        Run<float> run(p, v, layout, unrolled::target()->f32);
        CHECK(run.forward(), "stopped by nobody");
        check_results(run.results(), plain, truth, layout.text());
        run.set_gradients(weights);
        CHECK(run.backward(), "stopped by nobody");
        check_gradients(run.gradients(), plain_gradient, true_gradient, layout.text());
    }
};

TEST(thread_counts_that_change_from_call_to_call) {
    const Work work(31);
    Random random(1);
    for (int i = 0; i < rounds; ++i) work.run(1 + int(random.below(4)), 1 + int(random.below(3)));
}

TEST(many_callers_at_once) {
    const Work work(37);
    std::atomic<int> done{0};
    std::string first_failure;
    std::atomic_flag failed = ATOMIC_FLAG_INIT;
    std::vector<std::thread> callers;
    for (int caller = 0; caller < 8; ++caller)
        callers.emplace_back([&, caller] {
            try {
                for (int i = 0; i < rounds / 8; ++i) work.run(1 + (caller + i) % 4, 1 + i % 3);
                ++done;
            } catch (const std::exception& error) {
                if (!failed.test_and_set()) first_failure = error.what();
            }
        });
    for (std::thread& caller : callers) caller.join();
    CHECK(done == 8, done << " of 8 callers had the right results: " << first_failure);
}

// A child has none of its parent's threads. It makes its own, and the parent's go on.
TEST(fork_and_go_on) {
    const Work work(41);
    work.run(4, 1);
    for (int child = 0; child < 3; ++child) {
        const pid_t pid = fork();
        CHECK(pid >= 0, "fork failed");
        if (pid == 0) {
            alarm(60);  // a child that waits for threads it has not got is ended, and found out
            try {
                work.run(4, 1), work.run(3, 2), work.run(1, 1);
            } catch (const std::exception&) {
                _exit(1);
            }
            _exit(0);
        }
        work.run(4, 2);
        int status = 0;
        CHECK(waitpid(pid, &status, 0) == pid, "the child is gone");
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child ended with status " << status);
    }
}

// While other threads are in the middle of a call.
TEST(fork_while_others_call) {
    const Work work(43);
    std::atomic<bool> over{false};
    std::atomic<int> wrong{0};
    std::thread other([&] {
        try {
            while (!over) work.run(4, 1);
        } catch (const std::exception&) {
            ++wrong;
        }
    });
    int bad = 0;
    for (int child = 0; child < 5; ++child) {
        const pid_t pid = fork();
        if (pid == 0) {
            alarm(60);
            try {
                work.run(4, 1);
            } catch (const std::exception&) {
                _exit(1);
            }
            _exit(0);
        }
        int status = 0;
        bad += pid < 0 || waitpid(pid, &status, 0) != pid || status != 0;
    }
    over = true;
    other.join();
    CHECK(bad == 0 && wrong == 0, bad << " children went wrong, and " << wrong << " parents");
}

// A call of many seconds, which somebody wants stopped after a fifth of one. The promise is a second: the engine asks ten
// times in it, and a machine that does other things too may be late. Its steps are wide, and all read one input, so that
// it is long without being large. What it computes from zeros does not matter.
template <class T> struct Long {
    static constexpr Index steps = 60000, B = 2, I = wide, H = 64;
    static constexpr double until = 0.2;
    std::vector<T> W = std::vector<T>(4 * I * H), U = std::vector<T>(4 * H * H), x = std::vector<T>(B * I, T(0.25)),
                   state = std::vector<T>(B * H), out = std::vector<T>(steps * B * H), h_n = state, c_n = state, kept, dW = W, dU = U;
    Scan<T> scan;
    Gradients<T> g;
    Clock::time_point start;
    std::thread::id caller = std::this_thread::get_id();
    int asked = 0;
    bool by_another = false;

    explicit Long(Index T_ = steps) {
        scan.cell = Cell::lstm, scan.steps = T_, scan.batch = B, scan.input = I, scan.hidden = scan.state = H;
        scan.weights.W = W.data(), scan.weights.W_gate = I * H, scan.weights.W_in = H, scan.weights.W_out = 1;
        scan.weights.U = U.data(), scan.weights.U_gate = H * H, scan.weights.U_in = H, scan.weights.U_out = 1;
        scan.x = x.data(), scan.x_row = I;
        scan.h0 = scan.c0 = state.data(), scan.h0_row = scan.c0_row = H;
        scan.out = out.data(), scan.out_step = B * H, scan.out_row = H, scan.h_n = h_n.data(), scan.c_n = c_n.data();
        g.W = dW.data(), g.U = dU.data(), g.h_n = state.data(), g.h_n_row = H;
    }
    void keep(const Kernels<T>& k) {
        scan.recompute = true;
        kept.resize(std::size_t(k.kept_row(scan) * B * scan.steps));
        scan.kept = kept.data();
    }
    Interrupt interrupt() {
        start = Clock::now(), asked = 0;
        return {[](void* context) {
                    Long& self = *static_cast<Long*>(context);
                    ++self.asked;
                    self.by_another = self.by_another || std::this_thread::get_id() != self.caller;
                    return seconds_since(self.start) > until;
                },
                this};
    }
    void check(bool finished) const {
        const double taken = seconds_since(start);
        CHECK(!finished, "ended in " << taken << " s without being stopped");
        CHECK(taken < until + promised, "took " << taken << " s to stop");
        CHECK(asked > 0 && !by_another, "asked " << asked << " times, " << (by_another ? "by another thread" : ""));
    }
};

TEST(an_interrupt_stops_forward_and_the_pool_goes_on) {
    const Work work(53);
    Long<float> job;
    for (int threads : {1, 2, 4})
        for (int parts : {1, 2}) {
            job.scan.parts = parts;
            job.check(unrolled::target()->f32.forward(&job.scan, 1, threads, job.interrupt()));
            work.run(4, 1);
        }
}

TEST(an_interrupt_stops_backward_and_the_pool_goes_on) {
    const Work work(59);
    Long<double> job;
    job.keep(unrolled::target()->f64);
    for (int threads : {1, 2, 4})
        for (int parts : {1, 2}) {
            job.scan.parts = parts;
            job.check(unrolled::target()->f64.backward(&job.scan, &job.g, 1, threads, job.interrupt()));
            work.run(4, 1);
        }
}

// The calling thread has the short scan and is done at once; it still asks while the other thread has the long one.
TEST(an_interrupt_is_heard_while_only_others_work) {
    Long<float> job, brief(1);
    const Scan<float> scans[] = {brief.scan, job.scan};
    job.check(unrolled::target()->f32.forward(scans, 2, 2, job.interrupt()));
}

TEST(an_interrupt_that_never_comes_changes_nothing) {
    const Work work(61);
    Layout layout;
    layout.threads = 4;
    Run<float> run(work.p, work.v, layout, unrolled::target()->f32);
    const Interrupt never{[](void*) { return false; }, nullptr};
    CHECK(unrolled::target()->f32.forward(&run.scan, 1, 4, never), "stopped by nobody");
    check_results(run.results(), work.plain, work.truth, "never interrupted");
}

TEST(scratch_grows_shrinks_and_is_each_threads_own) {
    constexpr std::size_t large = std::size_t(80) << 20;
    const auto use = [](std::size_t bytes) {
        char* memory = static_cast<char*>(unrolled::scratch(bytes));
        CHECK(reinterpret_cast<std::uintptr_t>(memory) % 64 == 0, "not aligned to 64 bytes");
        std::memset(memory, 1, bytes);  // every byte is there: the address sanitizer says if not
        return memory;
    };
    for (std::size_t bytes : {std::size_t(1), std::size_t(1000), large, std::size_t(64), large + 1, std::size_t(100000)}) use(bytes);
    char* mine = use(5000);
    CHECK(use(4000) == mine, "smaller scratch is other memory");
    char* theirs = nullptr;
    std::thread([&] { theirs = use(5000); }).join();
    CHECK(theirs != mine, "two threads have one scratch");
    bool refused = false;
    try {
        unrolled::scratch(std::size_t(1) << 60);
    } catch (const std::bad_alloc&) {
        refused = true;
    }
    CHECK(refused, "memory that is not there was given");
    use(100);
}

}  // namespace
