// What an answer rests on: scores of the input's steps, as Python computed them.
import { number } from "./numbers.js";

export const METHODS = ["gradient", "gradient_x_input", "integrated_gradients", "occlusion"];

/** Methods that follow the gradient, and so fade where it does. */
export const byGradient = (method) => method !== "occlusion";

/** The explained answer nearest to an output step; of an item with one answer that one. */
export function entryOf(item, step) {
  const entries = item.attributions;
  if (!entries.length) return null;
  if (entries[0].step === null) return entries[0];
  return entries.reduce((best, one) => (Math.abs(one.step - step) < Math.abs(best.step - step) ? one : best));
}

/** {scores, value, baseline, sum, gap, nodes} of one method, as numbers. */
export function scoresOf(entry, method) {
  const found = entry.methods.find((one) => one.method === method);
  if (!found) return null;
  const { value, baseline, sum, gap, nodes } = found;
  const maybe = (x) => (x === undefined ? undefined : number(x));
  return { scores: found.scores.map(number), value: number(value), baseline: number(baseline), sum: maybe(sum), gap: maybe(gap), nodes };
}

/** The steps by the size of their scores, largest first; of equal ones the first. */
export const rankedSteps = (scores) =>
  scores.map((score, step) => [Math.abs(score), step]).filter(([size]) => !Number.isNaN(size)).sort((a, b) => b[0] - a[0] || a[1] - b[1]).map(([, step]) => step);
