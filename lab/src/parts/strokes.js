// Several lines in one picture: colour, pattern and name together, so that no one needs to tell colours apart.
import { html } from "../html.js";

/** Colour, pattern and mark by turns. */
export const STROKES = [
  { color: "#0072B2", dash: "none", symbol: "circle" },
  { color: "#B84A00", dash: "8 3", symbol: "square" },
  { color: "#007A5A", dash: "2 3", symbol: "triangle" },
  { color: "#8A4F7D", dash: "10 3 2 3", symbol: "diamond" },
  { color: "#555555", dash: "4 2 1 2", symbol: "cross" },
];

export const strokeOf = (index) => STROKES[index % STROKES.length];

/** A short stroke in a line's pattern with its name: [{label, color, dash}]. */
export function LineLegend({ lines }) {
  return html`<ul class="legend">
    ${lines.map(
      ({ label, color, dash }) => html`<li key=${label}>
        <svg width="34" height="12" aria-hidden="true"><line x1="1" x2="33" y1="6" y2="6" stroke=${color} stroke-width="3" stroke-dasharray=${dash} /></svg>
        ${label}
      </li>`,
    )}
  </ul>`;
}
