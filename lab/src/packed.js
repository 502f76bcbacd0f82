// Tables as bytes, as unrolled.insight.packing writes them.
import { number } from "./numbers.js";

function bytesOf(base64) {
  const text = atob(base64);
  return Uint8Array.from(text, (letter) => letter.charCodeAt(0));
}

/**
 * A HEAT (8 or 16 bits a number) or an exact table (float32) as numbers.
 *
 * @returns {{rows: number, columns: number, at: (row: number, column: number) => number, low: number, high: number, error: number}}
 *   at gives NaN for an empty cell and −Infinity for the logarithm of 0; low and high are the exact ends;
 *   error is the largest difference from the number that Python had
 */
export function unpack(table) {
  const { rows, columns } = table;
  const bytes = bytesOf(table.data);
  const view = new DataView(bytes.buffer);
  if (table.step === undefined) return floats(table, view);
  const wide = table.bits === 16;
  const lowest = wide ? -32768 : -128;
  const at = (row, column) => {
    const place = row * columns + column;
    const code = (wide ? view.getInt16(2 * place, true) : view.getInt8(place)) - lowest;
    return [NaN, -Infinity, NaN][code] ?? table.low + (code - 3) * table.step;
  };
  return { rows, columns, at, low: number(table.smallest), high: number(table.largest), error: table.step / 2 };
}

function floats({ rows, columns }, view) {
  const at = (row, column) => view.getFloat32(4 * (row * columns + column), true);
  let low = Infinity;
  let high = -Infinity;
  for (let place = 0; place < rows * columns; place++) {
    const x = view.getFloat32(4 * place, true);
    if (!Number.isFinite(x)) continue;
    low = Math.min(low, x);
    high = Math.max(high, x);
  }
  return low > high ? { rows, columns, at, low: 0, high: 0, error: 0 } : { rows, columns, at, low, high, error: 0 };
}
