// Which units are on inside a part of a text, and which are not: a threshold and a range, as in LSTMVis.

/** A small generator of random numbers with a seed (mulberry32), so that a link shows the same units again. */
export function randomOf(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let x = Math.imul(state ^ (state >>> 15), state | 1);
    x ^= x + Math.imul(x ^ (x >>> 7), x | 61);
    return ((x ^ (x >>> 14)) >>> 0) / 4294967296;
  };
}

/**
 * For each row of a table: at how many steps it is above the threshold inside [from, to] and outside.
 *
 * @returns {Array<{row: number, inside: number, outside: number, difference: number}>} largest difference of shares first
 */
export function ranked(table, threshold, from, to) {
  const within = to - from + 1;
  const without = table.columns - within;
  const rows = Array.from({ length: table.rows }, (_, row) => {
    let inside = 0;
    let outside = 0;
    for (let step = 0; step < table.columns; step++) {
      if (!(table.at(row, step) > threshold)) continue;
      if (step >= from && step <= to) inside += 1;
      else outside += 1;
    }
    return { row, inside, outside, difference: inside / within - (without ? outside / without : 0) };
  });
  return rows.sort((a, b) => b.difference - a.difference || a.row - b.row);
}

/** Some of the rest, drawn at random: what a unit that was not chosen looks like. */
export function controls(rows, count, seed) {
  const random = randomOf(seed);
  const left = [...rows];
  const drawn = [];
  while (left.length && drawn.length < count) drawn.push(...left.splice(Math.floor(random() * left.length), 1));
  return drawn;
}

/** Rows in the order of their number, of their variance (largest first), or each beside the one most like it. */
export function ordered(table, how) {
  const rows = Array.from({ length: table.rows }, (_, row) => row);
  if (how === "number" || table.columns < 2) return rows;
  const centred = rows.map((row) => centre(Float64Array.from({ length: table.columns }, (_, step) => table.at(row, step))));
  const power = centred.map((x) => dot(x, x));
  if (how === "variance") return rows.sort((a, b) => power[b] - power[a] || a - b);
  return chain(centred, power);
}

/** Begin with the row that varies most, and go on each time with the one that goes most like the last one. */
function chain(centred, power) {
  const left = new Set(centred.keys());
  let last = power.indexOf(Math.max(...power));
  const order = [];
  while (left.size) {
    left.delete(last);
    order.push(last);
    let best = -1;
    let likest = -Infinity;
    for (const row of left) {
      const like = dot(centred[last], centred[row]) / (Math.sqrt(power[last] * power[row]) || 1);
      if (like > likest) [best, likest] = [row, like];
    }
    last = best;
  }
  return order;
}

function centre(x) {
  const finite = x.map((value) => (Number.isFinite(value) ? value : 0));
  const mean = finite.reduce((sum, value) => sum + value, 0) / finite.length;
  return finite.map((value) => value - mean);
}

function dot(a, b) {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i] * b[i];
  return sum;
}
