// What the core computes: a recurrent layer, one direction, over whole sequences, forward and backward.
//
// The core knows no Python and no torch. Every pointer is borrowed for the length of one call. Strides count elements.
// Letters as in `unrolled.equations`: T steps, B rows of the batch, I inputs, H hidden units, P state (H unless an LSTM
// projects), G gates. Inputs may overlap or repeat (stride 0) as they like; no output may overlap anything.
#pragma once

#include <cstddef>
#include <cstdint>

namespace unrolled {

using Index = std::int64_t;

enum class Cell : int { rnn_tanh, rnn_relu, lstm, lstm_projected, gru_after, gru_before };

// W x + U h for each gate: W (G, I, H), U (G, P, H), biases (G, H) contiguous, V (H, P). Gates in the order of the
// equations: i f g o and r z n. Null where there is none.
template <class T> struct Weights {
    const T* W = nullptr;
    Index W_gate = 0, W_in = 0, W_out = 0;
    const T* U = nullptr;
    Index U_gate = 0, U_in = 0, U_out = 0;
    const T* b = nullptr;
    const T* b_h = nullptr;
    const T* V = nullptr;
    Index V_in = 0, V_out = 0;
};

template <class T> struct Scan {
    Cell cell = Cell::rnn_tanh;
    Index steps = 0, batch = 0, input = 0, hidden = 0, state = 0;
    bool reverse = false;
    Weights<T> weights;

    const T* x = nullptr;  // (T, B, I)
    Index x_step = 0, x_row = 0, x_feature = 1;
    const T* h0 = nullptr;  // (B, P), features contiguous; null: zeros
    Index h0_row = 0;
    const T* c0 = nullptr;  // (B, H); null: zeros
    Index c0_row = 0;

    const std::int64_t* lengths = nullptr;  // (B,), each in 0..T; null: all T
    const std::uint8_t* resets = nullptr;   // (B, T); true at (b, t): row b starts again between t - 1 and t
    Index resets_row = 0, resets_step = 0;
    const T* restart_h = nullptr;  // (P,) and (H,): what it starts from; null: zeros
    const T* restart_c = nullptr;

    T* out = nullptr;  // (T, B, P), features contiguous; 0 past a row's length. Backward reads it.
    Index out_step = 0, out_row = 0;
    T* h_n = nullptr;  // (B, P) and (B, H), contiguous
    T* c_n = nullptr;

    // What backward needs, written by forward where it is not null: kept_row elements a step and row. With `recompute` only
    // the memory of an LSTM is kept, and backward computes the gates again.
    T* kept = nullptr;
    bool recompute = false;
    int parts = 1;  // how the rows were dealt out: choose_parts, the same for both passes
};

// Gradients, in torch's layout; each is overwritten; null where it is not wanted.
template <class T> struct Gradients {
    const T* out = nullptr;  // (T, B, P), features contiguous; null: zeros
    Index out_step = 0, out_row = 0;
    const T* h_n = nullptr;  // (B, P) and (B, H), features contiguous; null: zeros
    Index h_n_row = 0;
    const T* c_n = nullptr;
    Index c_n_row = 0;

    T* x = nullptr;  // (T, B, I), features contiguous
    Index x_step = 0, x_row = 0;
    T* h0 = nullptr;  // (B, P) and (B, H), contiguous
    T* c0 = nullptr;
    T* W = nullptr;    // (G, H, I)
    T* U = nullptr;    // (G, H, P)
    T* b = nullptr;    // (G, H)
    T* b_h = nullptr;  // (G, H)
    T* V = nullptr;    // (P, H)
    T* restart_h = nullptr;  // (P,) and (H,)
    T* restart_c = nullptr;
};

// Asked a few times a second by the calling thread while a call runs: should it stop? Then the results are not defined.
struct Interrupt {
    bool (*asked)(void*) = nullptr;
    void* context = nullptr;
};

// The kernels of one compilation target. All of them may be called by many threads at once. None throws but for memory.
template <class T> struct Kernels {
    // Elements of `kept` for each step that a row takes; reads the cell, its sizes and `recompute`.
    Index (*kept_row)(const Scan<T>&);
    // Runs `count` scans that do not depend on each other side by side. True unless interrupted.
    bool (*forward)(const Scan<T>*, int count, int threads, Interrupt);
    bool (*backward)(const Scan<T>*, const Gradients<T>*, int count, int threads, Interrupt);
    // A layer whose weights stay as they are: packed once by `pack` into packed_size elements, aligned to 64 bytes.
    Index (*packed_size)(const Scan<T>&);
    void (*pack)(const Scan<T>&, T* packed);
    bool (*forward_packed)(const Scan<T>&, const T* packed, int threads, Interrupt);
    // One step of `batch` rows in place: x (B, I), h (B, P) and c (B, H) contiguous; scratch of step_size elements.
    Index (*step_size)(const Scan<T>&);
    void (*step)(const Scan<T>&, const T* packed, const T* x, T* h, T* c, T* scratch);
};

struct Target {
    const char* name;
    Kernels<float> f32;
    Kernels<double> f64;
};

// How many groups of rows `threads` threads should make of this scan: a part of what `kept` means.
template <class T> int choose_parts(const Scan<T>& scan, int threads);

// The targets that this machine can run, the best first; the last is the generic one.
const Target* const* targets();
// The target in use: the best, or the one that UNROLLED_ISA names. Null if UNROLLED_ISA names one that cannot run here.
const Target* target();

}  // namespace unrolled
