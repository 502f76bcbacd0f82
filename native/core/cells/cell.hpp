// What a cell is to the scan: a small struct with its pointwise parts, forward and backward within one step.
//
// A step keeps a row of blocks, each of H units. The first ones receive W x + b; the product with the state is added to
// `from_state` blocks (where such a block lies past those from the input, the product stands alone, with its own bias).
// What the pointwise part leaves in the blocks is what backward reads. Backward makes a row of gradient blocks in which
// the same ranges are the gradients of the same products.
//
// A cell with a second product, S v, has `second` = true: its first pointwise part returns v (kept in block v_), the
// product goes to `from_second`, and the second pointwise part ends the step.
//
//   forward(p, h, c, k) -> h'                 p: the products with the state, each summed with the input's block where the
//                                             two merge; k: the row of blocks; c: the memory, read and written. Or -> v
//   forward_second(p, h, k) -> h'
//   backward_second(dh, k, d)                 d[...]: gradient blocks of the second product
//   backward(dh, dv, k, h, c, dc, d, rest)    h and c before the step; dc is read and written; rest: the part of the
//                                             gradient of h that does not pass through a product
//
//   has_memory   the state has a second part, c        mixes_state  h' is a mix with h: h is read and `rest` is written
//   projects     the second product has P units, not H
#pragma once

#include "../simd.hpp"

namespace unrolled::UNROLLED_TARGET {

struct Range {
    int first, count;
};

struct OneProduct {
    static constexpr bool second = false, projects = false;
    static constexpr Range from_second{0, 0};
    static constexpr int second_gate = 0, v_ = 0, c_ = 0;
};

struct TwoProducts : OneProduct {
    static constexpr bool second = true;
};

}  // namespace unrolled::UNROLLED_TARGET
