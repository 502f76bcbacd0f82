// A test is a function that throws. Forty lines of our own, so that a compiler and CMake are all that these tests need.
#pragma once

#include <cstdint>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace test {

struct Test {
    const char* name;
    void (*run)();
};

std::vector<Test>& tests();

struct Registered {
    Registered(const char* name, void (*run)()) { tests().push_back({name, run}); }
};

[[noreturn]] inline void fail(const char* file, int line, const std::string& what) {
    throw std::runtime_error(std::string(file) + ":" + std::to_string(line) + ": " + what);
}

// splitmix64: the same numbers on every machine.
class Random {
public:
    explicit Random(std::uint64_t seed) : state_(seed) {}
    std::uint64_t bits() {
        std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        return z ^ (z >> 31);
    }
    std::int64_t below(std::int64_t n) { return std::int64_t(bits() % std::uint64_t(n)); }
    bool flip() { return bits() >> 63; }
    // A multiple of 2^-12 in [-1, 1): a float holds it, and so one problem serves both precisions.
    double number() { return double(below(8192) - 4096) / 4096; }
    template <class T> T pick(std::initializer_list<T> from) { return from.begin()[below(std::int64_t(from.size()))]; }

private:
    std::uint64_t state_;
};

}  // namespace test

#define TEST(name)                                                      \
    static void name();                                                 \
    static const test::Registered registered_##name{#name, name};       \
    static void name()

// CHECK(condition, "what was wanted " << and << " found")
#define CHECK(condition, words)                                         \
    do {                                                                \
        if (!(condition)) {                                             \
            std::ostringstream text_;                                   \
            text_ << #condition << ": " << words;                       \
            test::fail(__FILE__, __LINE__, text_.str());                \
        }                                                               \
    } while (false)
