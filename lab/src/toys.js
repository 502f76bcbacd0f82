// The toy networks of the views about tasks: which outputs a task reads, stacks in both directions, sampling schedules.
// Held to Python by tests/lab/test_tasks.py.
import { unrollScalar } from "./math.js";

export const INPUTS = [1, 0.5, -1, 2, 0];
export const VALID = 3; // steps before the padding
export const NET = { W: 0.6, U: 0.8, b: 0, h0: 0 };

const run = (x) => unrollScalar({ ...NET, x }).map(({ h }) => h);

/**
 * The outputs of the net over INPUTS, with padding after VALID steps or without.
 *
 * @returns {{length: number, forward: number[], backward: number[], onward: number[]}} onward: a layer that runs on
 *   through padding of zeros
 */
export function outputsOf(padded) {
  const length = padded ? VALID : INPUTS.length;
  const x = INPUTS.slice(0, length);
  const rest = Array(INPUTS.length - length).fill(0);
  return {
    length,
    forward: [...run(x), ...rest],
    backward: [...run(x.toReversed()).toReversed(), ...rest],
    onward: run([...x, ...rest]),
  };
}

/**
 * What a task reads: steps from 1, in each direction, and the numbers that come of them.
 *
 * @param {"last"|"mean"|"max"|"tag"|"stream"|"document"|"pairs"|"direct"|"autoregressive"} kind
 * @returns {{forward: number[], backward: number[], values: number[], outputs: number, losses: number}}
 */
export function readingOf(kind, { length, forward, backward }, both) {
  const steps = Array.from({ length }, (_, index) => index + 1);
  const valid = [forward, ...(both ? [backward] : [])].map((row) => row.slice(0, length));
  const each = (pick) => valid.map(pick);
  const kinds = {
    last: () => ({ forward: [length], backward: [1], values: [forward[length - 1], backward[0]], outputs: 1 }),
    mean: () => ({ forward: steps, backward: steps, values: each((row) => row.reduce((sum, h) => sum + h, 0) / length), outputs: 1 }),
    max: () => ({ forward: steps, backward: steps, values: each((row) => Math.max(...row)), outputs: 1 }),
    tag: () => ({ forward: steps, backward: steps, values: [], outputs: length }),
    stream: () => ({ forward: steps.slice(0, -1), backward: [], values: [], outputs: length - 1 }),
    document: () => ({ forward: [0, ...steps], backward: [], values: [], outputs: length + 1 }),
    pairs: () => ({ forward: [length], backward: [1], values: [forward[length - 1], backward[0]], outputs: TARGET + 1 }),
    direct: () => ({ forward: [length], backward: [], values: [forward[length - 1]], outputs: AHEAD }),
    autoregressive: () => ({ forward: [length], backward: [], values: [forward[length - 1]], outputs: AHEAD }),
  };
  const found = kinds[kind]();
  return { ...found, backward: both ? found.backward : [], values: both ? found.values : found.values.slice(0, 1), losses: found.outputs };
}

export const TARGET = 3; // tokens of the target of a pair, without the end
export const AHEAD = 2; // steps that are forecast

// Weights of the stack by layer and direction: of what comes in (one number, or two from both directions), and of the state.
export const STACK = [
  [{ W: [0.6], U: 0.8 }, { W: [0.5], U: -0.7 }],
  [{ W: [0.9, -0.4], U: 0.6 }, { W: [-0.8, 0.7], U: 0.5 }],
];

/**
 * Every cell of a stack over INPUTS, in an order in which they can be computed one by one.
 *
 * @returns {Array<{layer: number, direction: number, t: number, inputs: number[], W: number[], U: number, before: number, sum: number, h: number, round: number}>}
 *   round: the first one in which everything that the cell needs is there, from 1
 */
export function stackOf(layers, both) {
  const cells = [];
  let below = INPUTS.map((x) => ({ values: [x], round: 0 }));
  for (let layer = 0; layer < layers; layer++) {
    const rows = (both ? [0, 1] : [0]).map((direction) => rowOf(layer, direction, below));
    for (const row of rows) cells.push(...row);
    below = INPUTS.map((_, index) => {
      const own = rows.map((row) => row.find(({ t }) => t === index + 1));
      return { values: own.map(({ h }) => h), round: Math.max(...own.map(({ round }) => round)) };
    });
  }
  return cells;
}

function rowOf(layer, direction, below) {
  const { W, U } = STACK[layer][direction];
  const order = below.map((_, index) => index);
  let before = 0;
  let round = 0;
  return (direction ? order.reverse() : order).map((index) => {
    const { values } = below[index];
    const sum = values.reduce((total, x, place) => total + W[place] * x, U * before);
    round = Math.max(round, below[index].round) + 1;
    const cell = { layer, direction, t: index + 1, inputs: values, W: W.slice(0, values.length), U, before, sum, h: Math.tanh(sum), round };
    before = cell.h;
    return cell;
  });
}

/** The share of right tokens that a decoder reads after some epochs of scheduled sampling (Bengio et al., 2015). */
export const SCHEDULES = {
  linear: (done, { epochs }) => Math.max(0, 1 - done / epochs),
  exponential: (done, { k }) => k ** done,
  inverse_sigmoid: (done, { k }) => k / (k + Math.exp(done / k)),
};

/** One layer of width d over T steps: products, steps one after the other, the longest way between two positions. */
export const COSTS = {
  recurrent: (T, d) => ({ products: T * d * d, serial: T, way: T - 1 }),
  attention: (T, d) => ({ products: T * T * d, serial: 1, way: 1 }),
};
