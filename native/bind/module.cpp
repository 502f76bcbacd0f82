// The core for Python: numbers, addresses and NumPy arrays in, calls without the interpreter's lock. No maths here.
//
// Two ways in. `forward` and `backward` take addresses, because for a tensor an address costs a tenth of a microsecond
// and any array protocol costs several; `unrolled.kernels.native` checks every shape, type and stride before it calls.
// `Layer` takes NumPy arrays and checks them here.

#include <nanobind/nanobind.h>

#include <algorithm>

#include <dlfcn.h>

#include "layer.hpp"
#include "scan.h"
#include "team.hpp"

namespace nb = nanobind;

namespace unrolled {
namespace {

// Reads a tuple of integers, addresses and None (0) from the left.
class Fields {
public:
    explicit Fields(nb::handle tuple) : tuple_(tuple.ptr()) {
        if (!PyTuple_CheckExact(tuple_)) throw nb::type_error("a scan is described by a tuple");
    }
    Index number() {
        if (next_ >= PyTuple_GET_SIZE(tuple_)) throw nb::value_error("a scan is described by more numbers than these");
        PyObject* item = PyTuple_GET_ITEM(tuple_, next_++);
        if (item == Py_None) return 0;
        const long long value = PyLong_AsLongLong(item);
        if (value == -1 && PyErr_Occurred()) throw nb::python_error();
        return value;
    }
    template <class T> T* address() { return reinterpret_cast<T*>(number()); }
    void end() const {
        if (next_ != PyTuple_GET_SIZE(tuple_)) throw nb::value_error("a scan is described by fewer numbers than these");
    }

private:
    PyObject* tuple_;
    Py_ssize_t next_ = 0;
};

template <class T> Scan<T> read_scan(nb::handle tuple) {
    Fields f(tuple);
    Scan<T> s;
    s.cell = Cell(f.number());
    s.steps = f.number(), s.batch = f.number(), s.input = f.number(), s.hidden = f.number(), s.state = f.number();
    s.reverse = f.number(), s.recompute = f.number(), s.parts = int(f.number());
    Weights<T>& w = s.weights;
    w.W = f.address<const T>(), w.W_gate = f.number(), w.W_in = f.number(), w.W_out = f.number();
    w.U = f.address<const T>(), w.U_gate = f.number(), w.U_in = f.number(), w.U_out = f.number();
    w.b = f.address<const T>(), w.b_h = f.address<const T>();
    w.V = f.address<const T>(), w.V_in = f.number(), w.V_out = f.number();
    s.x = f.address<const T>(), s.x_step = f.number(), s.x_row = f.number(), s.x_feature = f.number();
    s.h0 = f.address<const T>(), s.h0_row = f.number();
    s.c0 = f.address<const T>(), s.c0_row = f.number();
    s.lengths = f.address<const std::int64_t>();
    s.resets = f.address<const std::uint8_t>(), s.resets_row = f.number(), s.resets_step = f.number();
    s.restart_h = f.address<const T>(), s.restart_c = f.address<const T>();
    s.out = f.address<T>(), s.out_step = f.number(), s.out_row = f.number();
    s.h_n = f.address<T>(), s.c_n = f.address<T>();
    s.kept = f.address<T>();
    f.end();
    // What would read or write outside whatever the addresses are.
    if (s.cell < Cell::rnn_tanh || s.cell > Cell::gru_before) throw nb::value_error("cell: expected one of enum Cell");
    if (s.steps < 0 || s.batch < 0 || s.input < 1 || s.hidden < 1 || s.state < 1)
        throw nb::value_error("sizes: expected at least 0 steps and rows, and at least 1 input, unit and state");
    if (s.cell != Cell::lstm_projected && s.state != s.hidden) throw nb::value_error("state: expected the units of the cell");
    if (s.parts < 1 || s.parts > std::max<Index>(1, s.batch)) throw nb::value_error("parts: expected 1 to the rows of the batch");
    for (Index b = 0; s.lengths && b < s.batch; ++b)  // here too, because a wrong one would write past the end
        if (s.lengths[b] < 0 || s.lengths[b] > s.steps) throw nb::value_error("lengths: expected 0 to T in every row");
    return s;
}

template <class T> Gradients<T> read_gradients(nb::handle tuple) {
    Fields f(tuple);
    Gradients<T> g;
    g.out = f.address<const T>(), g.out_step = f.number(), g.out_row = f.number();
    g.h_n = f.address<const T>(), g.h_n_row = f.number();
    g.c_n = f.address<const T>(), g.c_n_row = f.number();
    g.x = f.address<T>(), g.x_step = f.number(), g.x_row = f.number();
    g.h0 = f.address<T>(), g.c0 = f.address<T>();
    g.W = f.address<T>(), g.U = f.address<T>(), g.b = f.address<T>(), g.b_h = f.address<T>(), g.V = f.address<T>();
    g.restart_h = f.address<T>(), g.restart_c = f.address<T>();
    f.end();
    return g;
}

template <class T> std::vector<Scan<T>> read_scans(nb::list tuples) {
    std::vector<Scan<T>> scans;
    for (nb::handle tuple : tuples) scans.push_back(read_scan<T>(tuple));
    return scans;
}

template <class T> void forward(nb::list tuples, int threads) {
    const auto scans = read_scans<T>(tuples);
    without_lock([&](Interrupt interrupt) {
        return kernels<T>().forward(scans.data(), int(scans.size()), threads, interrupt);
    });
}

template <class T> void backward(nb::list tuples, nb::list gradient_tuples, int threads) {
    const auto scans = read_scans<T>(tuples);
    std::vector<Gradients<T>> gradients;
    for (nb::handle tuple : gradient_tuples) gradients.push_back(read_gradients<T>(tuple));
    if (gradients.size() != scans.size()) throw nb::value_error("backward wants as many gradients as scans");
    without_lock([&](Interrupt interrupt) {
        return kernels<T>().backward(scans.data(), gradients.data(), int(scans.size()), threads, interrupt);
    });
}

}  // namespace
}  // namespace unrolled

NB_MODULE(_native, m) {
    using namespace unrolled;
    m.doc() = "The native engine of unrolled: see unrolled.kernels.native and unrolled.runtime.";

    m.def("isa", [] { return current_target().name; }, "The compilation target in use: generic, avx2 or avx512.");
    m.def("available", [] {
        nb::list names;
        for (const Target* const* each = targets(); *each; ++each) names.append((*each)->name);
        return names;
    }, "The targets that this machine can run, the best first.");
    m.def("choose_parts", [](Index batch, int threads) {
        Scan<float> scan;
        scan.batch = batch;
        return choose_parts(scan, threads);
    }, "How many groups of rows `threads` threads make of a batch.");
    m.def("adopt_openmp", [] {
        const auto find = [](auto& function, const char* name) {
            function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(RTLD_DEFAULT, name));
            return function != nullptr;
        };
        Host host;
        if (!find(host.parallel, "GOMP_parallel") || !find(host.rank, "omp_get_thread_num") ||
            !find(host.size, "omp_get_num_threads") || !find(host.busy, "omp_in_parallel"))
            return false;
        Pool::adopt(host);
        return true;
    }, "Work on the OpenMP threads that this process has already, torch's say. False where there are none to be seen.");
    m.def("kept_row", [](int cell, Index hidden, Index state, bool recompute, bool is_double) {
        const auto row = [&](const auto& kernels, auto scan) {
            scan.cell = Cell(cell), scan.hidden = hidden, scan.state = state, scan.recompute = recompute;
            return kernels.kept_row(scan);
        };
        return is_double ? row(kernels<double>(), Scan<double>()) : row(kernels<float>(), Scan<float>());
    }, "Elements that a step of one row keeps for backward.");
    m.def("forward_f32", &forward<float>);
    m.def("forward_f64", &forward<double>);
    m.def("backward_f32", &backward<float>);
    m.def("backward_f64", &backward<double>);
    bind_layer(m);
}
