// The forward pass over time, for any cell.
#pragma once

#include <memory>

#include "layout.hpp"

namespace unrolled::UNROLLED_TARGET {

// One step of `rows` rows in the units [v0, v1) (vectors): the products with the state, then the pointwise part.
//   h     (rows, P) the state before the step, `n.h` apart     k  kept rows, `n.kept` apart; see cell.hpp
//   c     (rows, H) memory, `n.v` apart, read and written      made  (rows, H) h', or v where there is a second product,
//                                                              `ld_made` apart; must not alias h
template <class C, class T>
void first_product(const Sizes<C, T>& n, const Packed<C, T>& w, Index rows, Index v0, Index v1, const T* h, T* k, T* c,
                   T* made, Index ld_made) {
    using V = Vec<T>;
    constexpr Index L = lanes<T>, gates = C::from_state.count, width_max = tile_vectors * L;
    alignas(64) T sums[gates][tile_rows][width_max];
    for_tiles(rows, v1 - v0, [&](Index r0, Index count, Index v, Index width) {
        const Index unit = (v0 + v) * L;
        for (Index j = 0; j < gates; ++j) {
            const int block = C::from_state.first + int(j);
            const T* init = merges<C>(block) ? k + r0 * n.kept + block * n.Hp + unit : w.state_bias + unit;
            tiles<T>[count - 1][width - 1](n.P, h + r0 * n.h, n.h, w.U + ((v0 + v) * gates + j) * n.P * L, gates * n.P * L,
                                           init, merges<C>(block) ? n.kept : 0, sums[j][0], width_max);
        }
        for (Index r = 0; r < count; ++r)
            for (Index i = 0; i < width; ++i) {
                const Index row = r0 + r, at = unit + i * L;
                T* blocks = k + row * n.kept + at;
                V p[gates], kept[C::kept], memory{}, before{};
#pragma GCC unroll 8
                for (Index j = 0; j < gates; ++j) p[j] = load(&sums[j][r][i * L]);
#pragma GCC unroll 8
                for (int b = 0; b < C::kept; ++b) kept[b] = load(blocks + b * n.Hp);
                if constexpr (C::has_memory) memory = load(c + row * n.v + at);
                if constexpr (C::mixes_state) before = load(h + row * n.h + at);
                const V after = C::template forward<T>(p, before, memory, kept);
#pragma GCC unroll 8
                for (int b = 0; b < C::kept; ++b) store(blocks + b * n.Hp, kept[b]);
                if constexpr (C::has_memory) store(c + row * n.v + at, memory);
                store(made + row * ld_made + at, after);
            }
    });
}

// The second product of the step and its pointwise part, in the vectors [v0, v1) of what it makes.
//   v  (rows, H) what the first part returned, `n.v` apart; the rest as in first_product.
template <class C, class T>
void second_product(const Sizes<C, T>& n, const Packed<C, T>& w, Index rows, Index v0, Index v1, const T* v, T* k,
                    const T* h, T* made) {
    using V = Vec<T>;
    constexpr Index L = lanes<T>, width_max = tile_vectors * L;
    alignas(64) T sums[tile_rows][width_max];
    for_tiles(rows, v1 - v0, [&](Index r0, Index count, Index column, Index width) {
        const Index unit = (v0 + column) * L;
        const T* init = C::projects ? w.zeros + unit : k + r0 * n.kept + C::from_second.first * n.Hp + unit;
        tiles<T>[count - 1][width - 1](n.H, v + r0 * n.v, n.v, w.S + (v0 + column) * n.H * L, n.H * L, init,
                                       C::projects ? 0 : n.kept, sums[0], width_max);
        for (Index r = 0; r < count; ++r)
            for (Index i = 0; i < width; ++i) {
                const Index row = r0 + r, at = unit + i * L;
                V kept[C::kept], before{};
                if constexpr (C::mixes_state) {
                    before = load(h + row * n.h + at);
#pragma GCC unroll 8
                    for (int b = 0; b < C::kept; ++b) kept[b] = load(k + row * n.kept + b * n.Hp + at);
                }
                const V after = C::template forward_second<T>(load(&sums[r][i * L]), before, kept);
                if constexpr (C::mixes_state)
#pragma GCC unroll 8
                    for (int b = 0; b < C::kept; ++b) store(k + row * n.kept + b * n.Hp + at, kept[b]);
                store(made + row * n.h + at, after);
            }
    });
}

// W x + b into the blocks from the input, for `rows` rows of x that stand `n.x` apart.
template <class C, class T>
void input_product(const Sizes<C, T>& n, const Packed<C, T>& w, Index rows, Index v0, Index v1, const T* x, T* k) {
    constexpr Index L = lanes<T>, gates = C::from_input.count;
    for (Index j = 0; j < gates; ++j)
        product(rows, v1 - v0, n.I, x, n.x, w.W + (v0 * gates + j) * n.I * L, gates * n.I * L,
                w.bias + j * n.Hp + v0 * L, 0, k + j * n.Hp + v0 * L, n.kept);
}

template <class C, class T> class Forward {
public:
    // The layout in the arena; with an arena that only measures, nothing is written.
    Forward(const Scan<T>& scan, Arena& arena, int threads, const T* packed = nullptr)
        : s(scan), n(scan), schedule(scan, arena), chunk_(chunk_steps(scan)), is_packed_(packed != nullptr),
          weights_(packed ? borrow(packed) : Packed<C, T>(n, arena)), parts_(arena.take<Part>(scan.parts)),
          inputs_(arena.take<T*>(threads)), groups_(new Barrier[std::size_t(scan.parts)]) {
        for (int p = 0; p < s.parts; ++p) {
            const Index rows = schedule_rows(p);
            Part part{{arena.take<T>(rows * n.h), arena.take<T>(rows * n.h)},
                      C::has_memory ? arena.take<T>(rows * n.v) : nullptr,
                      C::second ? arena.take<T>(rows * n.v) : nullptr,
                      s.kept && !s.recompute ? nullptr : arena.take<T>(chunk_ * rows * n.kept)};
            if (arena.places()) parts_[p] = part;
        }
        for (int i = 0; i < threads; ++i) {
            T* rows = arena.take<T>(chunk_ * schedule_rows(0) * n.x);
            if (arena.places()) inputs_[i] = rows;
        }
    }

    static Index kept_row(const Scan<T>& scan) {
        const Sizes<C, T> sizes(scan);
        return !scan.recompute ? sizes.kept : C::has_memory ? sizes.v : 0;
    }

    void run(const Team& team) {
        const Share share(s.parts, team);
        if (team.rank == 0)
            for (int p = 0; p < s.parts; ++p) groups_[p].open(share.group);
        if (!is_packed_) weights_.fill(s, n, team.rank, team.size);
        clear_padding(team);
        team.wait();
        for (int p = share.first_part; p < s.parts; p += share.next_part) run_part(p, share, team);
    }

private:
    struct Part {
        T* h[2];  // (rows, P) before and after a step
        T* c;     // (rows, H)
        T* v;     // (rows, H) what the second product reads
        T* k;     // kept rows of a chunk, where the caller keeps none
    };

    // Steps whose inputs are multiplied at once: enough rows for full tiles, few enough to stay in the second cache.
    static Index chunk_steps(const Scan<T>& scan) {
        const Index rows = std::max<Index>(1, scan.batch / scan.parts);
        return std::max<Index>(1, std::min<Index>(scan.steps, 48 / rows));
    }
    Index schedule_rows(int part) const { return (s.batch - part + s.parts - 1) / s.parts; }
    Packed<C, T> borrow(const T* packed) const {
        Arena there(const_cast<char*>(reinterpret_cast<const char*>(packed)));
        return Packed<C, T>(n, there);
    }

    void clear_padding(const Team& team) const {
        for (Index b = team.begin(s.batch); b < team.end(s.batch); ++b)
            for (Index t = schedule.length(b); t < s.steps; ++t) {
                T* row = s.out + t * s.out_step + b * s.out_row;
                std::fill(row, row + n.P, T(0));
            }
    }

    void run_part(int p, const Share& share, const Team& team) {
        Part& part = parts_[p];
        const Index u0 = share.begin(n.Hv), u1 = share.end(n.Hv), w0 = share.begin(n.second_vectors()),
                    w1 = share.end(n.second_vectors()), o0 = C::projects ? w0 : u0, o1 = C::projects ? w1 : u1;
        const auto meet = [&] {
            if (share.group > 1) groups_[p].wait(team.stopper->flag());
            return !team.stopper->stopped();  // a stopped team does not wait, and must not read what others still write
        };
        start_part(p, o0, o1, u0, u1);
        if (!meet()) return;
        const Index steps = schedule.rows(p) ? schedule.length(schedule.row(p, 0)) : 0;
        T* x = inputs_[team.rank];
        int now = 0;
        for (Index first = 0; first < steps && !team.stopped(); first += chunk_) {
            const Index last = std::min(first + chunk_, steps);
            const Index from = schedule.start(p, first), rows = schedule.start(p, last) - from;
            T* k = s.kept && !s.recompute ? s.kept + (schedule.base(p) + from) * n.kept : part.k;
            for (Index step = first, r = 0; step < last; ++step)
                for (Index q = 0; q < schedule.running(p, step); ++q, ++r)
                    gather_input(s, schedule.row(p, q), schedule.time(schedule.row(p, q), step), x + r * n.x);
            input_product(n, weights_, rows, u0, u1, x, k);
            for (Index step = first; step < last; ++step) {
                const Index running = schedule.running(p, step);
                T *h = part.h[now], *next = part.h[1 - now], *made = C::second ? part.v : next;
                T* blocks = k + (schedule.start(p, step) - from) * n.kept;
                first_product(n, weights_, running, u0, u1, h, blocks, part.c, made, C::second ? n.v : n.h);
                if constexpr (C::second) {
                    if (!meet()) return;
                    second_product(n, weights_, running, w0, w1, part.v, blocks, h, next);
                }
                finish_step(p, step, running, next, o0, o1, u0, u1);
                now = 1 - now;
                meet();
                if (team.stopped()) return;
            }
        }
    }

    // The part's rows before their first step; a row without steps ends where it starts.
    void start_part(int p, Index o0, Index o1, Index u0, Index u1) const {
        for (Index q = 0; q < schedule.rows(p); ++q) {
            const Index b = schedule.row(p, q);
            const bool cut = schedule.cut(b, 0);
            for (T* h : parts_[p].h) place(h + q * n.h, row_at(s.h0, b, s.h0_row), s.restart_h, cut, n.P, o0, o1);
            if constexpr (C::has_memory) place(parts_[p].c + q * n.v, row_at(s.c0, b, s.c0_row), s.restart_c, cut, n.H, u0, u1);
            if (schedule.length(b) > 0) continue;
            copy_units(s.h_n + b * n.P, row_at(s.h0, b, s.h0_row), n.P, o0, o1);
            if constexpr (C::has_memory) copy_units(s.c_n + b * n.H, row_at(s.c0, b, s.c0_row), n.H, u0, u1);
        }
    }

    // After a step: the output, the state of rows that end here, and what the next step starts from.
    void finish_step(int p, Index step, Index running, T* h, Index o0, Index o1, Index u0, Index u1) const {
        const Index position = schedule.base(p) + schedule.start(p, step);
        for (Index q = 0; q < running; ++q) {
            const Index b = schedule.row(p, q);
            const bool ends = schedule.length(b) == step + 1;
            copy_units(s.out + schedule.time(b, step) * s.out_step + b * s.out_row, h + q * n.h, n.P, o0, o1);
            if (ends) copy_units(s.h_n + b * n.P, h + q * n.h, n.P, o0, o1);
            if constexpr (C::has_memory) {
                T* c = parts_[p].c + q * n.v;
                if (ends) copy_units(s.c_n + b * n.H, c, n.H, u0, u1);
                if (s.kept && s.recompute) copy_units(s.kept + (position + q) * n.v, c, n.Hp, u0, u1);
                if (schedule.cut(b, step + 1)) place(c, c, s.restart_c, true, n.H, u0, u1);
            }
            if (schedule.cut(b, step + 1)) place(h + q * n.h, h, s.restart_h, true, n.P, o0, o1);
        }
    }

    // The vectors [v0, v1) of a row of `count` units.
    [[gnu::noinline]] static void copy_units(T* to, const T* from, Index count, Index v0, Index v1) {
        const Index u0 = std::min(count, v0 * L), u1 = std::min(count, v1 * L);
        if (from) std::copy(from + u0, from + u1, to + u0);
        else std::fill(to + u0, to + u1, T(0));
    }
    // The same of a padded row: what it starts from, or starts again from, with zeros behind.
    [[gnu::noinline]] static void place(T* to, const T* own, const T* restart, bool cut, Index count, Index v0, Index v1) {
        const T* from = cut ? restart : own;
        for (Index u = v0 * L; u < v1 * L; ++u) to[u] = from && u < count ? from[u] : T(0);
    }

    static constexpr Index L = lanes<T>;
    const Scan<T>& s;
    const Sizes<C, T> n;
    const Schedule schedule;
    const Index chunk_;
    const bool is_packed_;
    Packed<C, T> weights_;
    Part* parts_;
    T** inputs_;
    std::unique_ptr<Barrier[]> groups_;
};

}  // namespace unrolled::UNROLLED_TARGET
