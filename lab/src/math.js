// The toy formulas that the page computes itself. tests/lab/test_math.py holds each to Python at 1e-9.

export const sigmoid = (a) => 1 / (1 + Math.exp(-a));
export const logit = (p) => Math.log(p) - Math.log1p(-p);

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

/**
 * Backwards through the scalar network, from the last state.
 *
 * @param {Array<{before: number, h: number}>} cells as unrollScalar gives them
 * @returns {Array<{factor: number, after: number, product: number, term: number}>} one entry a step:
 *   factor ∂h_t/∂h_{t−1} = U (1 − h_t²); after ∂h_T/∂h_t; product ∂h_T/∂h_{t−1}; term: this step's part of ∂h_T/∂U
 */
export function chainBack(cells, U) {
  let product = 1;
  const found = [...cells].reverse().map(({ before, h }) => {
    const slope = 1 - h * h;
    const after = product;
    product *= U * slope;
    return { factor: U * slope, after, product, term: after * slope * before };
  });
  return found.reverse();
}

/** log10 of c^n, so that neither end is lost. */
export function powerLog10(c, n) {
  if (n === 0) return 0;
  return n * Math.log10(c);
}

// log2 of the size at which a format rounds to 0 (half its smallest number: a tie goes to 0) and to infinity (half a
// step above its largest).
export const FORMATS = {
  float16: { zero: -25, infinity: Math.log2(65520) },
  bfloat16: { zero: -134, infinity: 128 + Math.log2(1 - 2 ** -9) },
  float32: { zero: -150, infinity: 128 + Math.log2(1 - 2 ** -25) },
  float64: { zero: -1075, infinity: 1024 },
};

/**
 * The first n at which the exact c^n rounds to 0 or to infinity in a format.
 *
 * @returns {{n: number, to: "zero"|"infinity"}|null} null where it never does
 */
export function firstLost(c, format) {
  const { zero, infinity } = FORMATS[format];
  if (c === 0) return { n: 1, to: "zero" };
  if (c === 1) return null;
  const to = c < 1 ? "zero" : "infinity";
  return { n: Math.max(1, Math.ceil((to === "zero" ? zero : infinity) / Math.log2(c))), to };
}

/** Steps after which half is left. */
export const halfLife = (f) => Math.log(0.5) / Math.log(f);

/** One unit of an LSTM: what is kept, what is written, the memory, what is shown. */
export function lstmUnit({ f, i, C, g, o }) {
  const kept = f * C;
  const written = i * g;
  const c = kept + written;
  return { kept, written, c, h: o * Math.tanh(c) };
}

/** The memory at the start and after each of n steps with the same gates. */
export function lstmRepeat({ f, i, C, g }, n) {
  const found = [C];
  for (let step = 0; step < n; step++) found.push(f * found[step] + i * g);
  return found;
}

/** One unit of a GRU: z = 1 keeps. */
export const gruUnit = ({ z, h, n }) => z * h + (1 - z) * n;

export const BLOCKS = { rnn: ["h"], gru: ["r", "z", "n"], lstm: ["i", "f", "g", "o"] };

/**
 * Parameters of a stack.
 *
 * @param {"rnn"|"gru"|"lstm"} cell
 * @param {number} biases 2 as torch has them, 1 as a textbook does, 0 without
 */
export function parameterCount(cell, { input, hidden, layers, bidirectional, biases }) {
  const directions = bidirectional ? 2 : 1;
  let count = 0;
  for (let layer = 0; layer < layers; layer++) {
    const width = layer === 0 ? input : hidden * directions;
    count += directions * BLOCKS[cell].length * hidden * (width + hidden + biases);
  }
  return count;
}

/** Two readers of the same words: one that adds them up and one that remembers. Words are pairs of numbers. */
export const READERS = { W: [0.9, -0.7], U: 0.8, words: { dog: [1, 0.2], bites: [0.1, 1], man: [-0.8, 0.4] } };

const score = ([a, b]) => READERS.W[0] * a + READERS.W[1] * b;

/** tanh of the weighted sum of all words: no order. */
export const bagOfWords = (words) => Math.tanh(words.map((word) => score(READERS.words[word])).reduce((sum, x) => sum + x, 0));

/** h after each word: h_t = tanh(W x_t + U h_{t−1}). */
export function readInOrder(words) {
  let h = 0;
  return words.map((word) => (h = Math.tanh(score(READERS.words[word]) + READERS.U * h)));
}

/**
 * The shapes that a batch takes on its way through a network, first to last.
 *
 * @param {"classify"|"tag"|"language"|"translate"} task
 * @param {{batch: number, time: number, target: number, width: number, hidden: number, layers: number, bidirectional: boolean,
 *   vocabulary: number, classes: number}} sizes
 * @param {"rnn"|"gru"|"lstm"} cell
 * @returns {Array<{key: string, shape: number[]}>}
 */
export function shapesOf(task, cell, { batch, time, target, width, hidden, layers, bidirectional, vocabulary, classes }) {
  const directions = bidirectional && task !== "language" ? 2 : 1;
  const states = [layers * directions, batch, hidden];
  const source = [
    { key: "tokens", shape: [batch, time] },
    { key: "embedded", shape: [batch, time, width] },
    { key: "outputs", shape: [batch, time, directions * hidden] },
  ];
  const lasts = [{ key: "state", shape: states }, ...(cell === "lstm" ? [{ key: "memory", shape: states }] : [])];
  const ends = {
    classify: [{ key: "last", shape: [batch, directions * hidden] }, { key: "scores", shape: [batch, classes] }],
    tag: [{ key: "tags", shape: [batch, time, classes] }],
    language: [{ key: "next", shape: [batch, time, vocabulary] }],
    translate: [
      { key: "bridge", shape: [layers, batch, hidden] },
      { key: "prefix", shape: [batch, target] },
      { key: "prefix_embedded", shape: [batch, target, width] },
      { key: "decoded", shape: [batch, target, hidden] },
      { key: "next_target", shape: [batch, target, vocabulary] },
    ],
  };
  return task === "translate" ? [...source, ...lasts, ...ends[task]] : [...source, ...ends[task], ...lasts];
}

/** The shapes inside one step of one layer and direction. */
export function shapesOfStep(cell, { batch, width, hidden }) {
  const blocks = BLOCKS[cell].length;
  return [
    { key: "step_input", shape: [batch, width] },
    { key: "step_state", shape: [batch, hidden] },
    { key: "step_weight_ih", shape: [blocks * hidden, width] },
    { key: "step_weight_hh", shape: [blocks * hidden, hidden] },
    { key: "step_sums", shape: [batch, blocks * hidden] },
    ...(blocks > 1 ? [{ key: "step_gate", shape: [batch, hidden] }] : []),
    { key: "step_new", shape: [batch, hidden] },
  ];
}
