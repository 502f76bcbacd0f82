// A layer of fixed weights over NumPy arrays: what the runtime without torch runs on.

#include "layer.hpp"

#include <nanobind/stl/string.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string>

#include "team.hpp"

namespace nb = nanobind;

namespace unrolled {

const Target& current_target() {
    const Target* chosen = target();
    if (chosen) return *chosen;
    std::string can;
    for (const Target* const* each = targets(); *each; ++each) can += std::string(can.empty() ? "" : ", ") + (*each)->name;
    throw std::runtime_error("UNROLLED_ISA: expected one of " + can + " on this machine, found '" +
                             std::getenv("UNROLLED_ISA") + "'.");
}

template <> const Kernels<float>& kernels() { return current_target().f32; }
template <> const Kernels<double>& kernels() { return current_target().f64; }

namespace {

[[noreturn]] void refuse(const std::string& argument, const std::string& wanted, const std::string& found) {
    throw nb::value_error((argument + ": expected " + wanted + ", found " + found + ".").c_str());
}

std::string shape_text(const Index* shape, int axes) {
    std::string text = "(";
    for (int i = 0; i < axes; ++i) text += std::to_string(shape[i]) + (axes == 1 || i + 1 < axes ? "," : "") + (i + 1 < axes ? " " : "");
    return text + ")";
}

// One array through the buffer protocol, held for as long as this lives. Strides count elements.
class Array {
public:
    Array() = default;
    Array(const char* name, nb::handle object, bool writable = false) : name_(name) {
        if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_STRIDES | PyBUF_FORMAT) != 0) throw nb::python_error();
        held_ = true;
        try {
            read(writable);
        } catch (...) {  // no destructor runs after a constructor that throws
            PyBuffer_Release(&view_);
            throw;
        }
    }
    Array(Array&& other) noexcept { *this = std::move(other); }
    Array& operator=(Array&& other) noexcept {
        std::swap(view_, other.view_);
        std::swap(held_, other.held_);
        std::swap(name_, other.name_);
        std::swap(shape, other.shape);
        std::swap(stride, other.stride);
        return *this;
    }
    ~Array() {
        if (held_) PyBuffer_Release(&view_);
    }

    static Array optional(const char* name, nb::handle object) { return object.is_none() ? Array() : Array(name, object); }

    explicit operator bool() const { return held_; }
    int axes() const { return view_.ndim; }
    char format() const {
        const char* f = view_.format ? view_.format : "B";
        return std::strchr("@=<", *f) && *f ? f[1] : *f;
    }
    template <class T> T* data() const { return held_ ? static_cast<T*>(view_.buf) : nullptr; }

    template <class T> const Array& of() const {
        const char wanted = sizeof(T) == 4 ? 'f' : 'd';
        if (held_ && format() != wanted)
            refuse(name_, sizeof(T) == 4 ? "float32 as the weights" : "float64 as the weights", std::string("format '") + format() + "'");
        return *this;
    }
    const Array& shaped(std::initializer_list<Index> wanted, const char* letters) const {
        if (!held_) return *this;
        bool right = view_.ndim == int(wanted.size());
        for (int i = 0; right && i < view_.ndim; ++i) right = shape[i] == wanted.begin()[i];
        if (!right) refuse(name_, shape_text(wanted.begin(), int(wanted.size())) + " " + letters, shape_text(shape, view_.ndim));
        return *this;
    }
    const Array& contiguous() const {
        Index next = 1;
        for (int i = view_.ndim - 1; held_ && i >= 0; --i) {
            if (shape[i] > 1 && stride[i] != next) refuse(name_, "a C-contiguous array", "other strides");
            next *= shape[i];
        }
        return *this;
    }

    static constexpr int most = 4;
    Index shape[most] = {}, stride[most] = {};

private:
    void read(bool writable) {
        if (writable && view_.readonly) refuse(name_, "a writable array", "a read-only one");
        if (view_.ndim > most) refuse(name_, "at most 4 axes", std::to_string(view_.ndim));
        if (view_.itemsize < 1) refuse(name_, "numbers", "elements of no size");
        for (int i = 0; i < view_.ndim; ++i) {
            shape[i] = view_.shape[i];
            if (view_.strides[i] % view_.itemsize) refuse(name_, "whole elements between neighbours", "a byte stride");
            stride[i] = view_.strides[i] / view_.itemsize;
        }
    }

    Py_buffer view_{};
    bool held_ = false;
    const char* name_ = "";
};

struct Aligned {
    void operator()(void* p) const { std::free(p); }
};
template <class T> using Memory = std::unique_ptr<T[], Aligned>;

template <class T> Memory<T> allocate(Index n) {
    const std::size_t bytes = (std::size_t(n) * sizeof(T) + 63) / 64 * 64;
    T* p = static_cast<T*>(std::aligned_alloc(64, bytes ? bytes : 64));
    if (!p) throw std::bad_alloc();
    return Memory<T>(p);
}

struct Shape {
    Cell cell;
    Index I, H, P;
};

// The untyped face of a layer; Typed<float> and Typed<double> are its two bodies.
struct Body {
    virtual ~Body() = default;
    virtual nb::tuple run(nb::handle x, nb::handle state, nb::handle lengths, nb::handle resets, nb::handle restart,
                          bool reverse, int threads) const = 0;
    virtual void step(nb::handle x, nb::handle h, nb::handle c) const = 0;
    virtual const char* dtype() const = 0;
};

template <class T> nb::object numpy(nb::handle empty, const char* dtype, std::initializer_list<Index> shape) {
    nb::list axes;
    for (Index n : shape) axes.append(n);
    return empty(nb::tuple(axes), dtype);
}

template <class T> class Typed final : public Body {
public:
    Typed(Shape shape, const Weights<T>& weights) : base_(), has_memory_(shape.cell == Cell::lstm || shape.cell == Cell::lstm_projected) {
        base_.cell = shape.cell;
        base_.input = shape.I, base_.hidden = shape.H, base_.state = shape.P;
        base_.weights = weights;
        packed_ = allocate<T>(kernels<T>().packed_size(base_));
        kernels<T>().pack(base_, packed_.get());
        base_.weights = Weights<T>();
    }

    const char* dtype() const override { return sizeof(T) == 4 ? "float32" : "float64"; }

    void step(nb::handle x_, nb::handle h_, nb::handle c_) const override {
        Scan<T> s = base_;
        if (has_memory_ && c_.is_none()) refuse("c", "an array, the memory of the cell", "None");
        const Array x("x", x_), h("h", h_, true), c = has_memory_ ? Array("c", c_, true) : Array();
        if (!has_memory_ && !c_.is_none()) refuse("c", "None: this cell has no memory", "an array");
        s.batch = x.axes() == 1 ? 1 : x.shape[0];
        const auto check = [&](const Array& a, Index n, const char* batched, const char* single) {
            x.axes() == 1 ? a.of<T>().shaped({n}, single).contiguous() : a.of<T>().shaped({s.batch, n}, batched).contiguous();
        };
        check(x, s.input, "(batch, input)", "(input,)");
        check(h, s.state, "(batch, state)", "(state,)");
        if (has_memory_) check(c, s.hidden, "(batch, hidden)", "(hidden,)");
        T* memory = static_cast<T*>(scratch(std::size_t(kernels<T>().step_size(s)) * sizeof(T)));
        kernels<T>().step(s, packed_.get(), x.data<T>(), h.data<T>(), c.data<T>(), memory);
    }

    nb::tuple run(nb::handle x_, nb::handle state_, nb::handle lengths_, nb::handle resets_, nb::handle restart_, bool reverse,
                  int threads) const override {
        const nb::object empty = nb::module_::import_("numpy").attr("empty"), zeros = nb::module_::import_("numpy").attr("zeros");
        if (threads < 1) refuse("threads", "at least 1", std::to_string(threads));
        Scan<T> s = base_;
        const Array x("x", x_);
        x.of<T>();
        if (x.axes() != 3) refuse("x", "3 axes (time, batch, input)", std::to_string(x.axes()));
        s.steps = x.shape[0], s.batch = x.shape[1], s.reverse = reverse;
        x.shaped({s.steps, s.batch, s.input}, "(time, batch, input)");
        s.x = x.data<T>(), s.x_step = x.stride[0], s.x_row = x.stride[1], s.x_feature = x.stride[2];

        const auto part = [&](const char* name, nb::handle whole, std::size_t i) -> nb::object {
            if (whole.is_none()) return nb::none();
            const char* wanted = has_memory_ ? "a tuple (h, c)" : "a tuple (h,)";
            if (!nb::isinstance<nb::tuple>(whole)) refuse(name, wanted, Py_TYPE(whole.ptr())->tp_name);
            const nb::tuple parts = nb::borrow<nb::tuple>(whole);
            if (parts.size() != (has_memory_ ? 2u : 1u)) refuse(name, wanted, std::to_string(parts.size()) + " parts");
            return parts[i];
        };
        const auto start = [&](std::size_t i, Index n) {
            nb::object given = part("state", state_, i);
            return given.is_none() ? numpy<T>(zeros, dtype(), {s.batch, n}) : given;
        };
        const nb::object h0_ = start(0, s.state), c0_ = has_memory_ ? start(1, s.hidden) : nb::none();
        const Array h0("state h", h0_), c0 = Array::optional("state c", c0_);
        h0.of<T>().shaped({s.batch, s.state}, "(batch, state)").contiguous();
        c0.of<T>().shaped({s.batch, s.hidden}, "(batch, hidden)").contiguous();
        s.h0 = h0.data<T>(), s.h0_row = s.state, s.c0 = c0.data<T>(), s.c0_row = s.hidden;

        const Array lengths = Array::optional("lengths", lengths_), resets = Array::optional("resets", resets_);
        lengths.shaped({s.batch}, "(batch,)").contiguous();
        if (lengths) {
            if (!std::strchr("lq", lengths.format())) refuse("lengths", "int64", std::string("format '") + lengths.format() + "'");
            s.lengths = lengths.data<std::int64_t>();
            for (Index b = 0; b < s.batch; ++b)
                if (s.lengths[b] < 0 || s.lengths[b] > s.steps)
                    refuse("lengths", "0 to " + std::to_string(s.steps) + " in every row", std::to_string(s.lengths[b]) + " in row " + std::to_string(b));
        }
        resets.shaped({s.batch, s.steps}, "(batch, time)");
        if (resets) {
            if (resets.format() != '?') refuse("resets", "bool", std::string("format '") + resets.format() + "'");
            s.resets = resets.data<std::uint8_t>(), s.resets_row = resets.stride[0], s.resets_step = resets.stride[1];
        }
        const nb::object restart_h_ = part("restart", restart_, 0), restart_c_ = has_memory_ ? part("restart", restart_, 1) : nb::none();
        const Array restart_h = Array::optional("restart h", restart_h_), restart_c = Array::optional("restart c", restart_c_);
        s.restart_h = restart_h.of<T>().shaped({s.state}, "(state,)").contiguous().template data<T>();
        s.restart_c = restart_c.of<T>().shaped({s.hidden}, "(hidden,)").contiguous().template data<T>();

        nb::object out_ = numpy<T>(empty, dtype(), {s.steps, s.batch, s.state}), h_n_ = numpy<T>(empty, dtype(), {s.batch, s.state}),
                   c_n_ = has_memory_ ? numpy<T>(empty, dtype(), {s.batch, s.hidden}) : nb::object(nb::none());
        {
            const Array out("out", out_, true), h_n("h_n", h_n_, true), c_n = Array::optional("c_n", c_n_);
            s.out = out.data<T>(), s.out_step = s.batch * s.state, s.out_row = s.state;
            s.h_n = h_n.data<T>(), s.c_n = c_n.data<T>();
            s.parts = choose_parts(s, threads);
            without_lock([&](Interrupt interrupt) { return kernels<T>().forward_packed(s, packed_.get(), threads, interrupt); });
        }
        return nb::make_tuple(out_, has_memory_ ? nb::make_tuple(h_n_, c_n_) : nb::make_tuple(h_n_));
    }

private:
    Scan<T> base_;
    bool has_memory_;
    Memory<T> packed_;
};

class Layer {
public:
    Layer(const std::string& cell, nb::handle W, nb::handle U, nb::handle b, nb::handle b_h, nb::handle V) : cell_(cell) {
        const Array w("W", W);
        if (w.format() == 'f') body_ = make<float>(w, U, b, b_h, V);
        else if (w.format() == 'd') body_ = make<double>(w, U, b, b_h, V);
        else refuse("W", "float32 or float64", std::string("format '") + w.format() + "'");
    }

    std::string cell_;
    Shape shape{};
    std::unique_ptr<Body> body_;

private:
    template <class T>
    std::unique_ptr<Body> make(const Array& W, nb::handle U_, nb::handle b_, nb::handle b_h_, nb::handle V_) {
        static constexpr struct { const char* name; Cell cell; Index gates; } cells[] = {
            {"rnn_tanh", Cell::rnn_tanh, 1}, {"rnn_relu", Cell::rnn_relu, 1}, {"lstm", Cell::lstm, 4},
            {"gru_after", Cell::gru_after, 3}, {"gru_before", Cell::gru_before, 3}};
        Index gates = 0;
        for (const auto& each : cells)
            if (cell_ == each.name) shape.cell = each.cell, gates = each.gates;
        if (!gates) refuse("cell", "'rnn_tanh', 'rnn_relu', 'lstm', 'gru_after' or 'gru_before'", "'" + cell_ + "'");
        const Array U("U", U_), b = Array::optional("b", b_), b_h = Array::optional("b_h", b_h_), V = Array::optional("V", V_);
        if (W.axes() != 3) refuse("W", "3 axes (gates, input, hidden)", std::to_string(W.axes()));
        if (V && shape.cell != Cell::lstm) refuse("V", "None: only an LSTM projects", "an array");
        shape.I = W.shape[1], shape.H = W.shape[2], shape.P = V && V.axes() == 2 ? V.shape[1] : shape.H;
        if (shape.I < 1 || shape.H < 1 || shape.P < 1) refuse("W", "at least one input and one unit", shape_text(W.shape, 3));
        if (V) shape.cell = Cell::lstm_projected;
        W.of<T>().shaped({gates, shape.I, shape.H}, "(gates, input, hidden)");
        U.of<T>().shaped({gates, shape.P, shape.H}, "(gates, state, hidden)");
        b.of<T>().shaped({gates, shape.H}, "(gates, hidden)").contiguous();
        b_h.of<T>().shaped({gates, shape.H}, "(gates, hidden)").contiguous();
        V.of<T>().shaped({shape.H, shape.P}, "(hidden, state)");
        Weights<T> w;
        w.W = W.data<T>(), w.W_gate = W.stride[0], w.W_in = W.stride[1], w.W_out = W.stride[2];
        w.U = U.data<T>(), w.U_gate = U.stride[0], w.U_in = U.stride[1], w.U_out = U.stride[2];
        w.b = b.data<T>(), w.b_h = b_h.data<T>();
        w.V = V.data<T>(), w.V_in = V.stride[0], w.V_out = V.stride[1];
        return std::make_unique<Typed<T>>(shape, w);
    }
};

}  // namespace

void bind_layer(nb::module_& m) {
    nb::class_<Layer>(m, "Layer", "One layer and direction over NumPy arrays, its weights packed once; they do not change.")
        .def(nb::init<const std::string&, nb::handle, nb::handle, nb::handle, nb::handle, nb::handle>(), nb::arg("cell"),
             nb::arg("W"), nb::arg("U"), nb::arg("b").none() = nb::none(), nb::arg("b_h").none() = nb::none(),
             nb::arg("V").none() = nb::none(),
             "cell: 'rnn_tanh', 'rnn_relu', 'lstm', 'gru_after' or 'gru_before'. W (G, I, H), U (G, P, H), b and b_h (G, H),\n"
             "V (H, P); float32 or float64. ValueError names what does not fit.")
        .def("run", [](const Layer& self, nb::handle x, nb::handle state, nb::handle lengths, nb::handle resets,
                       nb::handle restart, bool reverse, int threads) {
                 return self.body_->run(x, state, lengths, resets, restart, reverse, threads);
             },
             nb::arg("x"), nb::arg("state").none() = nb::none(), nb::kw_only(), nb::arg("lengths").none() = nb::none(),
             nb::arg("resets").none() = nb::none(), nb::arg("restart").none() = nb::none(), nb::arg("reverse") = false,
             nb::arg("threads") = 1,
             "x (T, B, I), state (h,) or (h, c), lengths int64 (B,), resets bool (B, T) -> out (T, B, P), state after each\n"
             "row's own last step. Out is 0 past a row's length.")
        .def("step", [](const Layer& self, nb::handle x, nb::handle h, nb::handle c) { self.body_->step(x, h, c); },
             nb::arg("x"), nb::arg("h"), nb::arg("c").none() = nb::none(),
             "One step in place: x (B, I) or (I,), h (B, P) and c (B, H), C-contiguous; h and c are overwritten.")
        .def_prop_ro("input_size", [](const Layer& self) { return self.shape.I; })
        .def_prop_ro("hidden_size", [](const Layer& self) { return self.shape.H; })
        .def_prop_ro("state_size", [](const Layer& self) { return self.shape.P; })
        .def_prop_ro("cell", [](const Layer& self) { return self.cell_; })
        .def_prop_ro("dtype", [](const Layer& self) { return self.body_->dtype(); });
}

}  // namespace unrolled
