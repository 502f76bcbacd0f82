// Runs the tests whose names contain the argument, or all.

#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>

#include "check.hpp"
#include "scan.h"

namespace test {

std::vector<Test>& tests() {
    static std::vector<Test> all;
    return all;
}

}  // namespace test

#define UNROLLED_TEXT_OF(name) #name
#define UNROLLED_TEXT(name) UNROLLED_TEXT_OF(name)

namespace {

// Code for a target that this machine lacks would die of an illegal instruction.
bool can_run() {
#if defined(UNROLLED_TARGET)
    for (const unrolled::Target* const* each = unrolled::targets(); *each; ++each)
        if (std::strcmp((*each)->name, UNROLLED_TEXT(UNROLLED_TARGET)) == 0) return true;
    std::printf("not run: this machine has no " UNROLLED_TEXT(UNROLLED_TARGET) "\n");
    return false;
#else
    return true;
#endif
}

bool passes(const test::Test& test) {
    const auto start = std::chrono::steady_clock::now();
    try {
        test.run();
    } catch (const std::exception& error) {
        std::printf("FAIL %s\n     %s\n", test.name, error.what());
        return false;
    }
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    std::printf("ok   %s (%.2f s)\n", test.name, taken.count());
    std::fflush(stdout);
    return true;
}

}  // namespace

int main(int count, char** arguments) {
    constexpr int not_run = 77;
    if (!can_run()) return not_run;
    int passed = 0, failed = 0;
    for (const test::Test& test : test::tests())
        if (count < 2 || std::strstr(test.name, arguments[1])) ++(passes(test) ? passed : failed);
    std::printf("%d passed, %d failed\n", passed, failed);
    return failed || !passed;
}
