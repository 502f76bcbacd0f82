// The kernels of one target: this file is compiled once for each, with its own UNROLLED_TARGET.

#include <memory>
#include <new>
#include <vector>

#include "backward.hpp"
#include "cells/gru.hpp"
#include "cells/lstm.hpp"
#include "cells/rnn.hpp"
#include "forward.hpp"
#include "scan.h"
#include "team.hpp"

namespace unrolled::UNROLLED_TARGET {
namespace {

// Calls work(cell struct) for the scan's cell.
template <class Work> auto with_cell(Cell cell, Work&& work) {
    switch (cell) {
        case Cell::rnn_tanh: return work(Rnn<true>{});
        case Cell::rnn_relu: return work(Rnn<false>{});
        case Cell::lstm: return work(Lstm{});
        case Cell::lstm_projected: return work(LstmProjected{});
        case Cell::gru_after: return work(GruAfter{});
        case Cell::gru_before: break;
    }
    return work(GruBefore{});
}

struct Job {
    virtual ~Job() = default;
    virtual void run(const Team& team) = 0;
};

template <class Pass> struct JobOf final : Job {
    Pass pass;
    template <class... Arguments> explicit JobOf(Arguments&&... arguments) : pass(arguments...) {}
    void run(const Team& team) override { pass.run(team); }
};

using Jobs = std::vector<std::unique_ptr<Job>>;

// Scans side by side: as many teams as there are scans, or threads, with the threads dealt out evenly.
class Call {
public:
    Call(int jobs, int threads, Interrupt interrupt)
        : threads_(Pool::acquire(threads)), teams_(std::min(jobs, threads_)), stopper_(interrupt),
          barriers_(new Barrier[std::size_t(std::max(1, teams_))]) {
        for (int i = 0; i < teams_; ++i) barriers_[i].open(first_thread(i + 1) - first_thread(i));
    }
    ~Call() { Pool::release(); }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    // The most threads that a team has.
    int team_size() const { return teams_ ? (threads_ + teams_ - 1) / teams_ : 1; }

    // make(arena) lays the jobs out; it is called twice, to measure and to place.
    template <class Make> bool run(Make&& make) {
        Arena measure;
        make(measure);
        Arena arena(static_cast<char*>(scratch(measure.used())));
        jobs_ = make(arena);
        if (!jobs_.empty()) Pool::run(threads_, [](void* call, int rank) { static_cast<Call*>(call)->work(rank); }, this);
        return !stopper_.stopped();
    }

private:
    int first_thread(int team) const { return team * threads_ / teams_; }

    void work(int rank) {
        int team = 0;
        while (first_thread(team + 1) <= rank) ++team;
        const int begin = first_thread(team), end = first_thread(team + 1);
        const Team mine{end - begin, rank - begin, rank == 0, &barriers_[team], &stopper_};
        for (int job = team; job < int(jobs_.size()); job += teams_) jobs_[job]->run(mine);
        working_.fetch_sub(1, std::memory_order_release);
        if (rank > 0) return;
        // The others' scans may be much longer than this thread's, and only this thread asks whether to stop.
        for (int spins = 0; working_.load(std::memory_order_acquire) > 0; ++spins) {
            spins < Barrier::spin_limit ? Barrier::pause() : Barrier::give_way();
            stopper_.poll();
        }
    }

    const int threads_, teams_;
    std::atomic<int> working_{threads_};
    Stopper stopper_;
    std::unique_ptr<Barrier[]> barriers_;
    Jobs jobs_;
};

template <class T> Index kept_row(const Scan<T>& scan) {
    return with_cell(scan.cell, [&](auto cell) { return Forward<decltype(cell), T>::kept_row(scan); });
}

template <class T> bool forward(const Scan<T>* scans, int count, int threads, Interrupt interrupt) {
    Call call(count, threads, interrupt);
    return call.run([&](Arena& arena) {
        Jobs jobs;
        for (int i = 0; i < count; ++i)
            jobs.push_back(with_cell(scans[i].cell, [&](auto cell) -> std::unique_ptr<Job> {
                return std::make_unique<JobOf<Forward<decltype(cell), T>>>(scans[i], arena, call.team_size());
            }));
        return jobs;
    });
}

template <class T>
bool backward(const Scan<T>* scans, const Gradients<T>* gradients, int count, int threads, Interrupt interrupt) {
    Call call(count, threads, interrupt);
    return call.run([&](Arena& arena) {
        Jobs jobs;
        for (int i = 0; i < count; ++i)
            jobs.push_back(with_cell(scans[i].cell, [&](auto cell) -> std::unique_ptr<Job> {
                return std::make_unique<JobOf<Backward<decltype(cell), T>>>(scans[i], gradients[i], arena, call.team_size());
            }));
        return jobs;
    });
}

template <class T> Index packed_size(const Scan<T>& scan) {
    return with_cell(scan.cell, [&](auto cell) {
        using C = decltype(cell);
        Arena measure;
        Packed<C, T>(Sizes<C, T>(scan), measure);
        return Index(measure.used() / sizeof(T));
    });
}

template <class T> void pack_weights(const Scan<T>& scan, T* packed) {
    with_cell(scan.cell, [&](auto cell) {
        using C = decltype(cell);
        const Sizes<C, T> sizes(scan);
        Arena arena(reinterpret_cast<char*>(packed));
        Packed<C, T>(sizes, arena).fill(scan, sizes, 0, 1);
    });
}

template <class T> bool forward_packed(const Scan<T>& scan, const T* packed, int threads, Interrupt interrupt) {
    Call call(1, threads, interrupt);
    return call.run([&](Arena& arena) {
        Jobs jobs;
        jobs.push_back(with_cell(scan.cell, [&](auto cell) -> std::unique_ptr<Job> {
            return std::make_unique<JobOf<Forward<decltype(cell), T>>>(scan, arena, call.team_size(), packed);
        }));
        return jobs;
    });
}

// One step of a few rows: padded copies of the state around the same products.
template <class C, class T> struct Step {
    const Sizes<C, T> n;
    T *x, *h, *made, *v, *c, *k;

    Step(const Scan<T>& s, Arena& arena) : n(s) {
        x = arena.take<T>(s.batch * n.x);
        h = arena.take<T>(s.batch * n.h);
        made = arena.take<T>(s.batch * n.h);
        v = arena.take<T>(s.batch * n.v);
        c = arena.take<T>(s.batch * n.v);
        k = arena.take<T>(s.batch * n.kept);
    }

    void run(const Scan<T>& s, const Packed<C, T>& w, const T* input, T* state, T* memory) {
        for (Index b = 0; b < s.batch; ++b) {
            copy_in(x + b * n.x, input + b * n.I, n.I, n.Ip);
            copy_in(h + b * n.h, state + b * n.P, n.P, n.Pp);
            if constexpr (C::has_memory) copy_in(c + b * n.v, memory + b * n.H, n.H, n.Hp);
        }
        input_product(n, w, s.batch, 0, n.Hv, x, k);
        first_product(n, w, s.batch, 0, n.Hv, h, k, c, C::second ? v : made, C::second ? n.v : n.h);
        if constexpr (C::second) second_product(n, w, s.batch, 0, n.second_vectors(), v, k, h, made);
        for (Index b = 0; b < s.batch; ++b) {
            std::copy_n(made + b * n.h, n.P, state + b * n.P);
            if constexpr (C::has_memory) std::copy_n(c + b * n.v, n.H, memory + b * n.H);
        }
    }
};

template <class T> Index step_size(const Scan<T>& scan) {
    return with_cell(scan.cell, [&](auto cell) {
        Arena measure;
        Step<decltype(cell), T>(scan, measure);
        return Index(measure.used() / sizeof(T));
    });
}

template <class T> void step(const Scan<T>& scan, const T* packed, const T* x, T* h, T* c, T* memory) {
    with_cell(scan.cell, [&](auto cell) {
        using C = decltype(cell);
        Arena weights(const_cast<char*>(reinterpret_cast<const char*>(packed))), arena(reinterpret_cast<char*>(memory));
        Step<C, T> one(scan, arena);
        one.run(scan, Packed<C, T>(one.n, weights), x, h, c);
    });
}

template <class T>
constexpr Kernels<T> kernels{kept_row<T>,     forward<T>,        backward<T>,  packed_size<T>,
                             pack_weights<T>, forward_packed<T>, step_size<T>, step<T>};

}  // namespace

#define UNROLLED_TEXT_OF(name) #name
#define UNROLLED_TEXT(name) UNROLLED_TEXT_OF(name)

extern const Target target;
const Target target{UNROLLED_TEXT(UNROLLED_TARGET), kernels<float>, kernels<double>};

}  // namespace unrolled::UNROLLED_TARGET
