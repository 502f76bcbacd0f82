// How numbers read: a real minus sign, words where there is no number, "e" for powers of ten.
import { t } from "./i18n.js";

const minus = (text) => text.replaceAll("-", "−");

function word(x) {
  if (Number.isNaN(x)) return t("number.nan");
  return t(x > 0 ? "number.infinity" : "number.minus_infinity");
}

/** `digits` after the point. */
export function fixed(x, digits = 4) {
  if (!Number.isFinite(x)) return word(x);
  const text = x.toFixed(digits);
  return minus(Number(text) === 0 ? text.replace("-", "") : text);
}

/** `digits` that count: 0.366, 4.07e+17. */
export function significant(x, digits = 3) {
  if (!Number.isFinite(x)) return word(x);
  if (x === 0) return "0";
  const size = Math.abs(x);
  return minus(size >= 1e-3 && size < 1e6 ? String(Number(x.toPrecision(digits))) : x.toExponential(digits - 1));
}

/** As short as it can be said exactly: 0.8, −1, 2. */
export function plain(x) {
  return Number.isFinite(x) ? minus(String(x)) : word(x);
}

/** Thousands apart: 25 088 (a narrow no-break space, in both languages). */
export function count(n) {
  return String(n).replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

const SUPERSCRIPT = "⁰¹²³⁴⁵⁶⁷⁸⁹";
const SUBSCRIPT = "₀₁₂₃₄₅₆₇₈₉";
const digits = (n, set) => [...String(Math.abs(n))].map((digit) => set[Number(digit)]).join("");

export const superscript = (n) => (n < 0 ? "⁻" : "") + digits(n, SUPERSCRIPT);
export const subscript = (n) => digits(n, SUBSCRIPT);

/** A number as Python wrote it: JSON has no word for what is no number, so those come as "nan", "inf", "-inf". */
export function number(x) {
  if (typeof x === "number") return x;
  const words = { nan: NaN, inf: Infinity, "-inf": -Infinity };
  if (!(x in words)) throw new Error(`not a number: ${x}`);
  return words[x];
}
