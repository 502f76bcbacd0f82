// Colour of a number. Signed: blue below 0, white at 0, orange above. Size: cividis, which keeps its order without hue.
import { interpolateRgb, piecewise } from "d3-interpolate";
import { html } from "../html.js";
import { significant } from "../numbers.js";
import { t } from "../i18n.js";

// Thirteen colours of cividis (Nuñez, Anderton and Renslow 2018, doi:10.1371/journal.pone.0199239), evenly spaced.
const cividis = piecewise(interpolateRgb, [
  "#00224e", "#003170", "#2a3f6d", "#434e6c", "#575d6d", "#6a6c71", "#7d7c78", "#918b78", "#a59c74", "#bcae6c", "#d2c060",
  "#e9d34e", "#fee838",
]);
const below = interpolateRgb("#ffffff", "#08519c");
const above = interpolateRgb("#ffffff", "#b84a00");
export const EMPTY = "#e4e4e4";

const signed = (share) => (share < 0.5 ? below(1 - 2 * share) : above(2 * share - 1));
const SCALES = { signed, size: cividis };

/** (x) → CSS colour. `domain` [low, high]; outside it the end colour. A signed domain should be [−m, m]. */
export function colorOf(scale, [low, high]) {
  const paint = SCALES[scale];
  const span = high - low || 1;
  return (x) => (Number.isNaN(x) ? EMPTY : paint(Math.min(Math.max((x - low) / span, 0), 1)));
}

/** 256 colours of a scale as [r, g, b], for painting pixels. */
export function tableOf(scale) {
  const paint = SCALES[scale];
  return Array.from({ length: 256 }, (_, index) => paint(index / 255).match(/\d+/g).slice(0, 3).map(Number));
}

/** The scale with the numbers at its ends and what it is normalised by. */
export function ColorBar({ scale, domain, label }) {
  const paint = colorOf(scale, [0, 1]);
  const stops = Array.from({ length: 11 }, (_, index) => paint(index / 10));
  return html`<div class="color-bar">
    <span data-name="scale-low" data-value=${domain[0]}>${significant(domain[0])}</span>
    <span class="ramp" role="img" aria-label=${t("colors.bar")} style=${{ background: `linear-gradient(to right, ${stops.join(",")})` }} />
    <span data-name="scale-high" data-value=${domain[1]}>${significant(domain[1])}</span>
    ${label && html`<span class="ramp-label">${label}</span>`}
  </div>`;
}
