// The toy formulas that the page computes itself. tests/lab/test_math.py holds each to Python at 1e-9.

/**
 * The scalar network of V1: h_t = tanh(W x_t + U h_{t−1} + b).
 *
 * @returns {Array<{x: number, before: number, sum: number, h: number}>} one entry a step
 */
export function unrollScalar({ W, U, b, h0, x }) {
  let before = h0;
  return x.map((input) => {
    const sum = W * input + U * before + b;
    const step = { x: input, before, sum, h: Math.tanh(sum) };
    before = step.h;
    return step;
  });
}
