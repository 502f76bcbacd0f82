// What the two halves of the binding share.
#pragma once

#include <nanobind/nanobind.h>

#include <vector>

#include "scan.h"

namespace unrolled {

// The target in use, or an error that names what UNROLLED_ISA asked for.
const Target& current_target();

template <class T> const Kernels<T>& kernels();

// Runs work(interrupt) without the interpreter's lock; raises what a signal handler raised meanwhile.
template <class Work> void without_lock(Work&& work) {
    const Interrupt interrupt{[](void*) {
                                  nanobind::gil_scoped_acquire lock;
                                  return PyErr_CheckSignals() != 0;
                              },
                              nullptr};
    bool finished;
    {
        nanobind::gil_scoped_release unlocked;
        finished = work(interrupt);
    }
    if (!finished) throw nanobind::python_error();
}

void bind_layer(nanobind::module_& m);

}  // namespace unrolled
