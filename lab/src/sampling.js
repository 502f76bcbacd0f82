// From scores to a token, as unrolled.decoding does it: temperature, then top-k, then a draw. tests/lab/test_V10.py holds
// each function to Python.

/** Tokens from the best to the worst; of equal ones the smaller number first. */
const bestFirst = (scores) => scores.map((_, token) => token).sort((a, b) => scores[b] - scores[a] || a - b);

/**
 * Probabilities of all tokens.
 *
 * @param {number[]} scores −Infinity for a token that is not drawn
 * @param {number} temperature 0 takes the best
 * @param {number} topK 0 for all
 */
export function probabilities(scores, temperature, topK = 0) {
  const order = bestFirst(scores);
  const kept = new Set(order.slice(0, temperature === 0 ? 1 : topK || scores.length));
  const best = scores[order[0]];
  const weights = scores.map((score, token) => (kept.has(token) ? Math.exp(temperature === 0 ? 0 : (score - best) / temperature) : 0));
  const sum = weights.reduce((total, weight) => total + weight, 0);
  return weights.map((weight) => weight / sum);
}

/** The token whose running sum is the first above the draw, which lies in [0, 1); where its part begins and ends. */
export function drawn(shares, draw) {
  let reached = 0;
  const sums = shares.map((share) => (reached += share));
  const at = draw * reached;
  const token = sums.findIndex((sum) => sum > at);
  return { token, from: sums[token] - shares[token], to: sums[token] };
}

/** The token that these settings take: the best at temperature 0, else the one that the draw falls on. */
export function chosen(shares, draw) {
  if (draw === null || draw === undefined) return { token: shares.indexOf(Math.max(...shares)), from: 0, to: 1 };
  return drawn(shares, draw);
}
