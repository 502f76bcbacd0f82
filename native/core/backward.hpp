// The backward pass: through time chunk by chunk, and after each chunk the products that no step waits for.
//
// Axes of a chunk: its rows are all steps of all rows of the batch in it, `count` of them, part by part. The gradients of
// a chunk stay in the second cache until the weights and the input have had their share.
#pragma once

#include "forward.hpp"

namespace unrolled::UNROLLED_TARGET {

// The pointwise half of one step backward, in the vectors [v0, v1).
//   k      (rows, kept) of the step            h    (rows, P) state before it, `n.h` apart
//   c      row r's memory before it: c[r]      dh   (rows, P) in: gradient of h'; out: what does not pass through a product
//   dv     (rows, H) or null                   dc   (rows, H) read and written       d  (rows, gradients) written
template <class C, class T>
void first_pointwise(const Sizes<C, T>& n, Index rows, Index v0, Index v1, const T* k, const T* h, const T* const* c, T* dh,
                     const T* dv, T* dc, T* d) {
    using V = Vec<T>;
    constexpr Index L = lanes<T>;
    for (Index r = 0; r < rows; ++r)
        for (Index at = v0 * L; at < v1 * L; at += L) {
            V kept[C::kept], made[C::gradients], before{}, memory{}, grown{}, through{}, rest{}, dmemory{};
#pragma GCC unroll 8
            for (int b = 0; b < C::kept; ++b) kept[b] = load(k + r * n.kept + b * n.Hp + at);
            if constexpr (!C::projects) grown = load(dh + r * n.h + at);
            if constexpr (C::second) through = load(dv + r * n.v + at);
            if constexpr (C::mixes_state) before = load(h + r * n.h + at);
            if constexpr (C::has_memory) {
                memory = load(c[r] + at);
                dmemory = load(dc + r * n.v + at);
            }
            C::template backward<T>(grown, through, kept, before, memory, dmemory, made, rest);
#pragma GCC unroll 8
            for (int b = 0; b < C::gradients; ++b)  // the second product's are there already, and others are reading them
                if (!C::second || b < C::from_second.first) store(d + r * n.d + b * n.Hp + at, made[b]);
            if constexpr (C::has_memory) store(dc + r * n.v + at, dmemory);
            if constexpr (C::mixes_state) store(dh + r * n.h + at, rest);
        }
}

// The gradient of the second product, in the vectors [v0, v1) of what it made.
template <class C, class T>
void second_pointwise(const Sizes<C, T>& n, Index rows, Index v0, Index v1, const T* k, const T* dh, T* d) {
    using V = Vec<T>;
    constexpr Index L = lanes<T>;
    for (Index r = 0; r < rows; ++r)
        for (Index at = v0 * L; at < v1 * L; at += L) {
            V kept[C::kept], made[C::from_second.first + 1];
            if constexpr (!C::projects)
#pragma GCC unroll 8
                for (int b = 0; b < C::kept; ++b) kept[b] = load(k + r * n.kept + b * n.Hp + at);
            C::template backward_second<T>(load(dh + r * n.h + at), kept, made);
            store(d + r * n.d + C::from_second.first * n.Hp + at, made[C::from_second.first]);
        }
}

// The weights for the backward pass, transposed: gradients come in, the inputs of the products go out.
template <class C, class T> struct Transposed {
    static constexpr Index L = lanes<T>;
    T *W, *U, *S;  // [vector of I][x block, Hp][lanes], [vector of P][h block, Hp][lanes], [vector of H][Hp or Pp][lanes]
    T* zeros;      // as many as the widest row

    Transposed(const Sizes<C, T>& n, bool input, Arena& arena)
        : W(input ? arena.take<T>(n.Iv * C::from_input.count * n.Hp * L) : nullptr),
          U(arena.take<T>(n.Pv * C::from_state.count * n.Hp * L)),
          S(C::second ? arena.take<T>(n.Hv * second_rows(n) * L) : nullptr),
          zeros(arena.take<T>(std::max({n.Ip, n.Hp, n.Pp}))) {}

    static Index second_rows(const Sizes<C, T>& n) { return C::projects ? n.Pp : n.Hp; }

    void fill(const Weights<T>& w, const Sizes<C, T>& n, const Team& team) {
        const auto blocks = [&](T* to, int count, const int* gates, Index rows, const T* from, Index gate, Index in, Index out) {
            const Index vectors = padded<T>(rows) / L, K = count * n.Hp;
            for (int j = 0; j < count; ++j)
                pack(to + j * n.Hp * L, K * L, team.begin(vectors), team.end(vectors), n.H, rows, from + gates[j] * gate, out,
                     in, n.Hp);
        };
        if (W) blocks(W, C::from_input.count, C::input_gate, n.I, w.W, w.W_gate, w.W_in, w.W_out);
        blocks(U, C::from_state.count, C::state_gate, n.P, w.U, w.U_gate, w.U_in, w.U_out);
        if constexpr (C::projects)
            pack(S, n.Pp * L, team.begin(n.Hv), team.end(n.Hv), n.P, n.H, w.V, w.V_out, w.V_in, n.Pp);
        else if constexpr (C::second)
            pack(S, n.Hp * L, team.begin(n.Hv), team.end(n.Hv), n.H, n.H, w.U + C::second_gate * w.U_gate, w.U_out, w.U_in,
                 n.Hp);
        if (team.rank == 0) std::fill(zeros, zeros + std::max({n.Ip, n.Hp, n.Pp}), T(0));
    }
};

// The gradient of one block of a weight, (units, features), summed up chunk by chunk: in the caller's own memory where
// its rows are whole vectors, else in ours.
template <class T> struct Sum {
    T* to = nullptr;    // the caller's, rows `features` apart; null: not wanted
    T* rows = nullptr;  // where the sum grows, rows `distance` apart
    Index units = 0, features = 0, distance = 0;

    Sum() = default;
    Sum(T* to_, Index units_, Index features_, Arena& arena)
        : to(to_), units(units_), features(features_), distance(padded<T>(features_)) {
        rows = !to || distance == features ? to : arena.take<T>(units * distance);
    }
    void clear(const Team& team) const {
        if (to) std::fill(rows + team.begin(units) * distance, rows + team.end(units) * distance, T(0));
    }
    void add(const Team& team, Index count, const T* d, Index ld_d, const T* in, Index ld_in) const {
        if (!to || count == 0) return;
        const Index u0 = team.begin(units), u1 = team.end(units);
        transposed_product(u1 - u0, distance / lanes<T>, count, d + u0, ld_d, in, ld_in, rows + u0 * distance, distance);
    }
    void finish(const Team& team) const {
        if (rows == to) return;
        for (Index u = team.begin(units); u < team.end(units); ++u)
            std::copy(rows + u * distance, rows + u * distance + features, to + u * features);
    }
};

template <class C, class T> class Backward {
public:
    Backward(const Scan<T>& scan, const Gradients<T>& gradients, Arena& arena, int threads)
        : s(scan), g(gradients), n(scan), schedule(scan, arena), chunk_(chunk_steps(scan, n)),
          forward_weights_(scan.recompute ? new Packed<C, T>(n, arena) : nullptr), weights_(n, gradients.x != nullptr, arena),
          parts_(arena.take<Part>(scan.parts)), groups_(new Barrier[std::size_t(scan.parts)]) {
        for (int p = 0; p < s.parts; ++p) {
            const Index rows = (s.batch - p + s.parts - 1) / s.parts;
            Part part{arena.take<T>(rows * n.h),
                      C::has_memory ? arena.take<T>(rows * n.v) : nullptr,
                      C::second ? arena.take<T>(rows * n.v) : nullptr,
                      arena.take<T>(n.Pp),
                      C::has_memory ? arena.take<T>(n.Hp) : nullptr};
            if (arena.places()) parts_[p] = part;
        }
        place_chunk(arena, threads);
        place_sums(arena);
    }

    void run(const Team& team) {
        const Share share(s.parts, team);
        if (team.rank == 0)
            for (int p = 0; p < s.parts; ++p) groups_[p].open(share.group);
        if (forward_weights_) forward_weights_->fill(s, n, team.rank, team.size);
        weights_.fill(s.weights, n, team);
        start(team);
        team.wait();
        for (int p = share.first_part; p < s.parts; p += share.next_part) start_part(p, share);
        // A stopped team does not wait, and must not read what others still write.
        for (Index last = schedule.longest(); last > 0;) {
            const Index first = std::max<Index>(0, last - chunk_);
            for (int p = share.first_part; p < s.parts; p += share.next_part) run_part(p, first, last, share, team);
            team.wait();
            if (team.stopped()) return;
            add_to_weights(first, last, team);
            give_input(first, last, team);
            team.wait();
            if (team.stopped()) return;
            last = first;
        }
        for (int p = share.first_part; p < s.parts; p += share.next_part) finish_part(p, share);
        team.wait();
        finish(team);
    }

private:
    struct Part {
        T *dh, *dc;                // (rows, P) and (rows, H): the gradient of the state
        T* dv;                     // (rows, H): of what the second product read
        T *restart_h, *restart_c;  // (P,) and (H,): of what rows started again from
    };
    struct Chunk {
        T *x, *h, *d;        // (count, I), (count, P) state before the step, (count, gradients)
        T *k, *c, *v, *out;  // where the gates are computed again: (count, kept), (count, H), (count, H), (count, P)
        Index *row, *time;   // (count,) where x has the step
    };

    static Index chunk_steps(const Scan<T>& scan, const Sizes<C, T>& n) {
        const Index row = Index(sizeof(T)) * (n.d + n.x + n.h), second_cache = Index(1) << 20;
        const Index rows = std::clamp<Index>(second_cache / row, 192, 1024);
        return std::max<Index>(1, std::min<Index>(scan.steps, rows / std::max<Index>(1, scan.batch)));
    }

    void place_chunk(Arena& arena, int threads) {
        const Index count = chunk_ * s.batch;
        chunk.x = arena.take<T>(count * n.x);
        chunk.h = arena.take<T>(count * n.h);
        chunk.d = arena.take<T>(count * n.d);
        if (s.recompute) {
            chunk.k = arena.take<T>(count * n.kept);
            if (C::has_memory) chunk.c = arena.take<T>(count * n.v);
            if (C::second) chunk.v = arena.take<T>(count * n.v);
            chunk.out = arena.take<T>(count * std::max(n.h, n.v));
        }
        chunk.row = arena.take<Index>(count);
        chunk.time = arena.take<Index>(count);
        if (C::has_memory) c0_ = arena.take<T>(s.batch * n.v), restart_c_ = arena.take<T>(n.Hp);
        if (C::has_memory) memory_ = arena.take<const T*>(threads * ((s.batch + s.parts - 1) / s.parts));
        if (g.x) dx_ = arena.take<T>(threads * dx_rows * n.x);
        db_ = arena.take<T>(C::gradients * n.Hp);
    }

    void place_sums(Arena& arena) {
        for (int j = 0; j < C::from_input.count; ++j)
            W_[j] = {g.W ? g.W + C::input_gate[j] * n.H * n.I : nullptr, n.H, n.I, arena};
        for (int j = 0; j < C::from_state.count; ++j)
            U_[j] = {g.U ? g.U + C::state_gate[j] * n.H * n.P : nullptr, n.H, n.P, arena};
        if constexpr (C::projects) S_ = {g.V, n.P, n.H, arena};
        else if constexpr (C::second) S_ = {g.U ? g.U + C::second_gate * n.H * n.P : nullptr, n.H, n.H, arena};
    }

    template <class Work> void for_sums(Work&& work) const {
        for (const auto& sum : W_) work(sum);
        for (const auto& sum : U_) work(sum);
        if constexpr (C::second) work(S_);
    }

    // before and after the loop over time

    void start(const Team& team) {
        for_sums([&](const Sum<T>& sum) { sum.clear(team); });
        if (team.rank == 0) {
            std::fill(db_, db_ + C::gradients * n.Hp, T(0));
            if constexpr (C::has_memory) copy_in(restart_c_, s.restart_c, n.H, n.Hp);
        }
        for (Index b = team.begin(s.batch); b < team.end(s.batch); ++b) {
            if constexpr (C::has_memory) copy_in(c0_ + b * n.v, row_at(s.c0, b, s.c0_row), n.H, n.Hp);
            for (Index t = schedule.length(b); g.x && t < s.steps; ++t) {
                T* row = g.x + t * g.x_step + b * g.x_row;
                std::fill(row, row + n.I, T(0));
            }
        }
    }

    void start_part(int p, const Share& share) {
        if (share.member > 0) return;  // before the first meeting nobody reads this
        Part& part = parts_[p];
        for (Index q = 0; q < schedule.rows(p); ++q) {
            const Index b = schedule.row(p, q);
            copy_in(part.dh + q * n.h, row_at(g.h_n, b, g.h_n_row), n.P, n.Pp);
            if constexpr (C::has_memory) copy_in(part.dc + q * n.v, row_at(g.c_n, b, g.c_n_row), n.H, n.Hp);
        }
        std::fill(part.restart_h, part.restart_h + n.Pp, T(0));
        if constexpr (C::has_memory) std::fill(part.restart_c, part.restart_c + n.Hp, T(0));
    }

    void finish_part(int p, const Share& share) const {
        if (share.member > 0) return;
        for (Index q = 0; q < schedule.rows(p); ++q) {
            const Index b = schedule.row(p, q);
            if (g.h0) std::copy_n(parts_[p].dh + q * n.h, n.P, g.h0 + b * n.P);
            if constexpr (C::has_memory)
                if (g.c0) std::copy_n(parts_[p].dc + q * n.v, n.H, g.c0 + b * n.H);
        }
    }

    void finish(const Team& team) const {
        for_sums([&](const Sum<T>& sum) { sum.finish(team); });
        if (team.rank > 0) return;
        const auto give = [&](T* to, int gate, int block) {
            if (to) std::copy_n(db_ + block * n.Hp, n.H, to + gate * n.H);
        };
        for (int j = 0; j < C::from_input.count; ++j) give(g.b, C::input_gate[j], C::from_input.first + j);
        for (int j = 0; j < C::from_state.count; ++j) give(g.b_h, C::state_gate[j], C::from_state.first + j);
        if constexpr (C::second && !C::projects) give(g.b_h, C::second_gate, C::from_second.first);
        const auto total = [&](T* to, Index count, T* Part::*piece) {
            if (!to) return;
            std::fill(to, to + count, T(0));
            for (int p = 0; p < s.parts; ++p)
                for (Index u = 0; u < count; ++u) to[u] += (parts_[p].*piece)[u];
        };
        total(g.restart_h, n.P, &Part::restart_h);
        if constexpr (C::has_memory) total(g.restart_c, n.H, &Part::restart_c);
    }

    // through time

    // The first row of the part in the chunk that begins at `first`, and the rows of all parts.
    Index chunk_base(int part, Index first, Index last) const {
        Index base = 0;
        for (int p = 0; p < part; ++p) base += schedule.start(p, last) - schedule.start(p, first);
        return base;
    }

    void run_part(int p, Index first, Index last, const Share& share, const Team& team) {
        Part& part = parts_[p];
        const Index u0 = share.begin(n.Hv), u1 = share.end(n.Hv), o0 = share.begin(n.Pv), o1 = share.end(n.Pv);
        const Index base = chunk_base(p, first, last), from = schedule.start(p, first);
        const auto meet = [&] {
            if (share.group > 1) groups_[p].wait(team.stopper->flag());
            return !team.stopper->stopped();
        };
        gather(p, first, last, base, share);
        if (!meet()) return;
        if (s.recompute && !compute_again(base, schedule.start(p, last) - from, share, meet)) return;
        T* kept = s.recompute ? chunk.k + base * n.kept : s.kept + (schedule.base(p) + from) * n.kept;
        const T** memory = C::has_memory ? memory_ + team.rank * schedule.rows(0) : nullptr;
        for (Index step = last; step-- > first;) {
            const Index rows = schedule.running(p, step), at = base + schedule.start(p, step) - from;
            T *k = kept + (at - base) * n.kept, *d = chunk.d + at * n.d;
            add_output_gradient(p, step, rows, o0, o1);
            if constexpr (C::has_memory)
                for (Index q = 0; q < rows; ++q) memory[q] = memory_before(p, step, q);
            if constexpr (C::second) {
                const Index w0 = C::projects ? o0 : u0, w1 = C::projects ? o1 : u1, K = Transposed<C, T>::second_rows(n);
                second_pointwise(n, rows, w0, w1, k, part.dh, d);
                if (!meet()) return;
                product(rows, u1 - u0, K, d + C::from_second.first * n.Hp, n.d, weights_.S + u0 * K * L, K * L,
                        weights_.zeros, 0, part.dv + u0 * L, n.v);
            }
            first_pointwise(n, rows, u0, u1, k, chunk.h + at * n.h, memory, part.dh, part.dv, part.dc, d);
            if (!meet()) return;
            const Index K = C::from_state.count * n.Hp;
            T* dh = part.dh + o0 * L;
            product(rows, o1 - o0, K, d + C::from_state.first * n.Hp, n.d, weights_.U + o0 * K * L, K * L,
                    C::mixes_state ? dh : weights_.zeros, C::mixes_state ? n.h : 0, dh, n.h);
            if (s.resets) cut(p, step, rows, o0, o1, u0, u1);
            if (team.stopped()) return;
        }
        meet();
    }

    // x and the state before the step, for every step of the part in the chunk.
    void gather(int p, Index first, Index last, Index base, const Share& share) {
        for (Index step = first, at = base; step < last; ++step)
            for (Index q = 0; q < schedule.running(p, step); ++q, ++at) {
                if (at % share.group != share.member) continue;
                const Index b = schedule.row(p, q), t = schedule.time(b, step);
                chunk.row[at] = b;
                chunk.time[at] = t;
                gather_input(s, b, t, chunk.x + at * n.x);
                const bool restarts = schedule.cut(b, step);
                const T* h = restarts    ? s.restart_h
                             : step == 0 ? row_at(s.h0, b, s.h0_row)
                                         : s.out + schedule.time(b, step - 1) * s.out_step + b * s.out_row;
                copy_in(chunk.h + at * n.h, h, n.P, n.Pp);
                if constexpr (C::has_memory)
                    if (s.recompute) std::copy_n(memory_before(p, step, q), n.Hp, chunk.c + at * n.v);
            }
    }

    // The gates of the part's chunk once more: every state is known, so all steps at once.
    template <class Meet> bool compute_again(Index base, Index rows, const Share& share, Meet&& meet) {
        const Index u0 = share.begin(n.Hv), u1 = share.end(n.Hv);
        const Packed<C, T>& w = *forward_weights_;
        T *k = chunk.k + base * n.kept, *h = chunk.h + base * n.h, *made = chunk.out + base * std::max(n.h, n.v);
        input_product(n, w, rows, u0, u1, chunk.x + base * n.x, k);
        first_product(n, w, rows, u0, u1, h, k, C::has_memory ? chunk.c + base * n.v : nullptr,
                      C::second ? chunk.v + base * n.v : made, C::second ? n.v : n.h);
        if constexpr (C::second && !C::projects) {
            if (!meet()) return false;
            second_product(n, w, rows, u0, u1, chunk.v + base * n.v, k, h, made);
        }
        return meet();
    }

    const T* memory_before(int p, Index step, Index q) const {
        const Index b = schedule.row(p, q);
        if (schedule.cut(b, step)) return restart_c_;
        if (step == 0) return c0_ + b * n.v;
        const Index position = schedule.base(p) + schedule.start(p, step - 1) + q;
        return s.recompute ? s.kept + position * n.v : s.kept + position * n.kept + C::c_ * n.Hp;
    }

    void add_output_gradient(int p, Index step, Index rows, Index v0, Index v1) {
        if (!g.out) return;
        const Index u0 = std::min(n.P, v0 * L), u1 = std::min(n.P, v1 * L);
        for (Index q = 0; q < rows; ++q) {
            const Index b = schedule.row(p, q);
            const T* from = g.out + schedule.time(b, step) * g.out_step + b * g.out_row;
            T* to = parts_[p].dh + q * n.h;
            for (Index u = u0; u < u1; ++u) to[u] += from[u];
        }
    }

    // Where a row started again, the gradient goes to what it started from.
    void cut(int p, Index step, Index rows, Index o0, Index o1, Index u0, Index u1) {
        const auto move = [](T* from, T* to, Index v0, Index v1) {
            for (Index u = v0 * L; u < v1 * L; ++u) to[u] += from[u], from[u] = T(0);
        };
        Part& part = parts_[p];
        for (Index q = 0; q < rows; ++q) {
            if (!schedule.cut(schedule.row(p, q), step)) continue;
            move(part.dh + q * n.h, part.restart_h, o0, o1);
            if constexpr (C::has_memory) move(part.dc + q * n.v, part.restart_c, u0, u1);
        }
    }

    // after a chunk

    void add_to_weights(Index first, Index last, const Team& team) {
        const Index count = chunk_base(s.parts, first, last);
        for (int j = 0; j < C::from_input.count; ++j)
            W_[j].add(team, count, chunk.d + (C::from_input.first + j) * n.Hp, n.d, chunk.x, n.x);
        for (int j = 0; j < C::from_state.count; ++j)
            U_[j].add(team, count, chunk.d + (C::from_state.first + j) * n.Hp, n.d, chunk.h, n.h);
        if constexpr (C::second)
            for (int p = 0; p < s.parts; ++p) {
                const Index base = chunk_base(p, first, last), rows = chunk_base(p + 1, first, last) - base;
                const T* k = s.recompute ? chunk.k + base * n.kept
                                         : s.kept + (schedule.base(p) + schedule.start(p, first)) * n.kept;
                S_.add(team, rows, chunk.d + base * n.d + C::from_second.first * n.Hp, n.d, k + C::v_ * n.Hp, n.kept);
            }
        if (!g.b && !g.b_h) return;
        const Index vectors = C::gradients * n.Hv, begin = team.begin(vectors) * L, end = team.end(vectors) * L;
        for (Index r = 0; r < count; ++r)
            for (Index u = begin; u < end; u += L) store(db_ + u, load(db_ + u) + load(chunk.d + r * n.d + u));
    }

    void give_input(Index first, Index last, const Team& team) {
        if (!g.x) return;
        const Index count = chunk_base(s.parts, first, last), K = C::from_input.count * n.Hp;
        T* dx = dx_ + team.rank * dx_rows * n.x;
        for (Index r0 = team.begin(count); r0 < team.end(count); r0 += dx_rows) {
            const Index rows = std::min(dx_rows, team.end(count) - r0);
            product(rows, n.Iv, K, chunk.d + r0 * n.d + C::from_input.first * n.Hp, n.d, weights_.W, K * L, weights_.zeros, 0,
                    dx, n.x);
            for (Index r = 0; r < rows; ++r)
                std::copy_n(dx + r * n.x, n.I, g.x + chunk.time[r0 + r] * g.x_step + chunk.row[r0 + r] * g.x_row);
        }
    }

    static constexpr Index L = lanes<T>, dx_rows = 64;
    const Scan<T>& s;
    const Gradients<T>& g;
    const Sizes<C, T> n;
    const Schedule schedule;
    const Index chunk_;
    const std::unique_ptr<Packed<C, T>> forward_weights_;
    Transposed<C, T> weights_;
    Part* parts_;
    const std::unique_ptr<Barrier[]> groups_;
    Chunk chunk{};
    T *c0_ = nullptr, *restart_c_ = nullptr;  // (B, H) and (H,), padded
    const T** memory_ = nullptr;              // (threads, rows of a part): each row's memory before the step at hand
    T* dx_ = nullptr;                         // (threads, dx_rows, I)
    T* db_ = nullptr;                         // (gradients, Hp)
    std::array<Sum<T>, C::from_input.count> W_;
    std::array<Sum<T>, C::from_state.count> U_;
    Sum<T> S_;
};

}  // namespace unrolled::UNROLLED_TARGET
