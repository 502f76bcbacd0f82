// Shares of steps at the two ends of a gate, from the whole numbers that Python counted.

/** Whether the counts let the thresholds move: a report has those of 0.1 and 0.9 only. */
export const movable = (gate) => Array.isArray(gate.edges);

/** The place among the edges that is nearest to x. */
export function placeOf(gate, x) {
  const distances = gate.edges.map((edge) => Math.abs(edge - x));
  return distances.indexOf(Math.min(...distances));
}

/**
 * The steps of each unit below the lower and above the upper threshold.
 *
 * @param gate of an inspection: count, left, right, and edges, below (and above) where it is fine
 * @param {{left: number, right: number}} [at] places among the edges; without them the counts at Python's thresholds
 */
export function countsOf(gate, at) {
  if (!at || !movable(gate)) return { left: gate.left, right: gate.right };
  const right = gate.above ? gate.above.map((row) => row[at.right]) : gate.below.map((row) => gate.count - row[at.right]);
  return { left: gate.below.map((row) => row[at.left]), right };
}

/** Over all units: shares of all steps. */
export function totals(gate, counts) {
  const all = gate.count * gate.left.length || 1;
  const sum = (list) => list.reduce((total, one) => total + one, 0);
  return { left: sum(counts.left) / all, right: sum(counts.right) / all };
}
