// Which row takes which step when, against lists made the slow way.

#include <algorithm>
#include <numeric>

#include "check.hpp"
#include "schedule.hpp"

namespace {

using namespace unrolled::UNROLLED_TARGET;
using test::Random;
using unrolled::Index;
using unrolled::Scan;

struct Placed {
    explicit Placed(const Scan<float>& scan)
        : memory(measured(scan) + 64), arena(memory.data() + (64 - reinterpret_cast<std::uintptr_t>(memory.data()) % 64)),
          schedule(scan, arena) {}
    static std::size_t measured(const Scan<float>& scan) {
        Arena measure;
        Schedule(scan, measure);
        return measure.used();
    }
    std::vector<char> memory;
    Arena arena;
    Schedule schedule;
};

void check_ranks(const Scan<float>& scan, const Schedule& got) {
    std::vector<Index> ranked(static_cast<std::size_t>(scan.batch));
    std::iota(ranked.begin(), ranked.end(), Index(0));
    const auto length = [&](Index b) { return scan.lengths ? scan.lengths[b] : scan.steps; };
    std::stable_sort(ranked.begin(), ranked.end(), [&](Index a, Index b) { return length(a) > length(b); });
    CHECK(got.longest() == (ranked.empty() ? 0 : length(ranked[0])), "longest " << got.longest());
    std::vector<bool> taken(ranked.size());
    Index before = 0;
    for (int part = 0; part < scan.parts; ++part) {
        std::vector<Index> mine;
        for (Index rank = part; rank < scan.batch; rank += scan.parts) mine.push_back(ranked[std::size_t(rank)]);
        CHECK(got.rows(part) == Index(mine.size()), "rows of part " << part << ": " << got.rows(part));
        for (std::size_t q = 0; q < mine.size(); ++q) {  // which of the rows of one length is free
            const Index b = got.row(part, Index(q));
            CHECK(length(b) == length(mine[q]), "part " << part << " row " << q << " is " << b << " of length " << length(b));
            CHECK(!taken[std::size_t(b)], "row " << b << " twice");
            taken[std::size_t(b)] = true;
        }
        CHECK(got.base(part) == before, "base of part " << part << ": " << got.base(part) << ", wanted " << before);
        Index start = 0;
        for (Index s = 0; s < scan.steps; ++s) {
            const Index running = std::count_if(mine.begin(), mine.end(), [&](Index b) { return length(b) > s; });
            CHECK(got.start(part, s) == start && got.running(part, s) == running, "part " << part << " step " << s);
            start += running;
        }
        before += start;
    }
    CHECK(got.total() == before, "total " << got.total() << ", wanted " << before);
}

// A mark at t parts what stands at t - 1 from what stands at t, whichever way the row is read.
void check_cuts(const Scan<float>& scan, const Schedule& got) {
    for (Index b = 0; b < scan.batch; ++b) {
        const Index n = got.length(b);
        for (Index s = 0; s <= n; ++s) {
            const Index t = scan.reverse ? n - 1 - s : s, mark = scan.reverse ? t + 1 : t;
            if (s < n) CHECK(got.time(b, s) == t, "time of row " << b << " step " << s);
            const bool inside = s < n && mark < n;
            const bool wanted = inside && scan.resets && scan.resets[b * scan.resets_row + mark * scan.resets_step];
            CHECK(got.cut(b, s) == wanted, "cut of row " << b << " before step " << s << (scan.reverse ? " in reverse" : ""));
        }
    }
}

TEST(schedules_of_random_batches) {
    Random random(13);
    for (int round = 0; round < 3000; ++round) {
        Scan<float> scan;
        scan.steps = random.below(9), scan.batch = random.below(12), scan.parts = 1 + int(random.below(5));
        scan.reverse = random.flip();
        std::vector<std::int64_t> lengths(std::size_t(scan.batch));
        for (auto& n : lengths) n = random.below(scan.steps + 1);
        const bool by_step = random.flip();  // resets (B, T) or their transpose
        std::vector<std::uint8_t> resets(std::size_t(scan.batch * scan.steps));
        for (auto& each : resets) each = random.below(3) == 0;
        if (random.below(3)) scan.lengths = lengths.data();
        if (random.below(3) && !resets.empty()) scan.resets = resets.data();
        scan.resets_row = by_step ? 1 : scan.steps, scan.resets_step = by_step ? scan.batch : 1;
        const Placed placed(scan);
        check_ranks(scan, placed.schedule);
        check_cuts(scan, placed.schedule);
    }
}

TEST(arena_measures_what_it_places) {
    Arena measure;
    measure.take<char>(1), measure.take<double>(9), measure.take<float>(0);
    CHECK(measure.used() == 64 + 128 && !measure.places(), "used " << measure.used());
    alignas(64) char memory[256];
    Arena arena(memory);
    CHECK(arena.take<char>(1) == memory && arena.take<double>(9) == reinterpret_cast<double*>(memory + 64), "placed elsewhere");
    CHECK(arena.used() == 192, "used " << arena.used());
}

}  // namespace
