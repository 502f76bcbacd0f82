// Which row takes which step when. Rows are ranked by length, the longest first, and dealt out to the parts in turn, so
// that every part has the same share of the work and the rows still running are always its first ones.
#pragma once

#include <algorithm>

#include "scan.h"

// Inside the target's namespace although nothing here is a vector: a function of one name compiled for two targets would
// be one function to the linker, and might be the copy that this machine cannot run.
namespace unrolled::UNROLLED_TARGET {

// Hands out pieces of one block of memory. Without a block it only counts, so that a layout is written once and run
// twice: to measure, and to place.
class Arena {
public:
    explicit Arena(char* memory = nullptr) : memory_(memory) {}

    template <class T> T* take(Index n) {
        const std::size_t at = used_;
        used_ += (std::size_t(n) * sizeof(T) + alignment - 1) / alignment * alignment;
        return memory_ ? reinterpret_cast<T*>(memory_ + at) : nullptr;
    }
    std::size_t used() const { return used_; }
    bool places() const { return memory_ != nullptr; }

    static constexpr std::size_t alignment = 64;

private:
    char* memory_;
    std::size_t used_ = 0;
};

class Schedule {
public:
    template <class T>
    Schedule(const Scan<T>& scan, Arena& arena)
        : steps_(scan.steps), batch_(scan.batch), parts_(scan.parts), reverse_(scan.reverse), lengths_(scan.lengths),
          resets_(scan.resets), resets_row_(scan.resets_row), resets_step_(scan.resets_step),
          row_of_(arena.take<Index>(batch_)), starts_(arena.take<Index>(parts_ * (steps_ + 1))),
          bases_(arena.take<Index>(parts_ + 1)) {
        Index* running = arena.take<Index>(steps_ + 2);
        if (arena.places()) build(running);
    }

    int parts() const { return parts_; }
    // The part's rows, and how many of them take step s.
    Index rows(int part) const { return (batch_ - part + parts_ - 1) / parts_; }
    Index running(int part, Index s) const { return start(part, s + 1) - start(part, s); }
    // Steps that the part's rows take before step s, all together.
    Index start(int part, Index s) const { return starts_[part * (steps_ + 1) + s]; }
    // Steps of all the parts before this one.
    Index base(int part) const { return bases_[part]; }
    Index total() const { return bases_[parts_]; }
    Index longest() const { return batch_ ? length(row_of_[0]) : 0; }

    Index row(int part, Index q) const { return row_of_[part + q * parts_]; }
    Index length(Index row) const { return lengths_ ? lengths_[row] : steps_; }
    // The position in x of the row's step s.
    Index time(Index row, Index s) const { return reverse_ ? length(row) - 1 - s : s; }
    // Does the row start again before its step s? In the reverse pass the boundary is met from the other side.
    bool cut(Index row, Index s) const {
        if (!resets_ || s >= length(row) || (reverse_ && s == 0)) return false;
        const Index t = reverse_ ? time(row, s) + 1 : s;
        return resets_[row * resets_row_ + t * resets_step_] != 0;
    }

private:
    [[gnu::noinline]] void build(Index* running) {
        std::fill(running, running + steps_ + 2, Index(0));  // first: how many rows have each length
        for (Index b = 0; b < batch_; ++b) ++running[length(b)];
        Index above = 0;  // then: the rank of the first row with each length
        for (Index n = steps_; n >= 0; --n) {
            const Index here = running[n];
            running[n] = above;
            above += here;
        }
        for (Index b = 0; b < batch_; ++b) row_of_[running[length(b)]++] = b;
        if (!lengths_) {  // all the same: neighbours to one part, so that no two cores write beside each other
            Index b = 0;
            for (int part = 0; part < parts_; ++part)
                for (Index q = 0; q < rows(part); ++q) row_of_[part + q * parts_] = b++;
        }
        // Each running[n] has moved on by its own rows: it is now the number of rows of at least n steps.
        bases_[0] = 0;
        for (int part = 0; part < parts_; ++part) {
            Index* start = starts_ + part * (steps_ + 1);
            start[0] = 0;
            for (Index s = 0; s < steps_; ++s)
                start[s + 1] = start[s] + std::max<Index>(0, (running[s + 1] - part + parts_ - 1) / parts_);
            bases_[part + 1] = bases_[part] + start[steps_];
        }
    }

    Index steps_, batch_;
    int parts_;
    bool reverse_;
    const std::int64_t* lengths_;
    const std::uint8_t* resets_;
    Index resets_row_, resets_step_;
    Index *row_of_, *starts_, *bases_;
};

}  // namespace unrolled::UNROLLED_TARGET
