// Gates: colour, line pattern and letter together, so that no one needs to tell colours apart.
import { html } from "../html.js";
import { t } from "../i18n.js";

/** Colours for shapes; text uses the darker `ink`. Every ink is at least 5:1 on white. */
export const GATES = {
  f: { color: "#D55E00", ink: "#B84A00", dash: "none", letter: "f" },
  i: { color: "#0072B2", ink: "#0072B2", dash: "8 3", letter: "i" },
  o: { color: "#007A5A", ink: "#007A5A", dash: "2 3", letter: "o" },
  g: { color: "#8A4F7D", ink: "#8A4F7D", dash: "10 3 2 3", letter: "g" },
  z: { color: "#D55E00", ink: "#B84A00", dash: "none", letter: "z" },
  r: { color: "#555555", ink: "#555555", dash: "4 2 1 2", letter: "r" },
  n: { color: "#8A4F7D", ink: "#8A4F7D", dash: "10 3 2 3", letter: "n" },
  w: { color: "#0072B2", ink: "#0072B2", dash: "8 3", letter: "1−z" },
  h: { color: "#222222", ink: "#222222", dash: "none", letter: "h" },
};

export const gateName = (gate) => t(`gate.${gate}`);

/** A short stroke in a gate's pattern with its letter and name. */
export function GateLegend({ gates }) {
  return html`<ul class="legend">
    ${gates.map(
      (gate) => html`<li key=${gate} data-gate=${gate}>
        <svg width="34" height="12" aria-hidden="true">
          <line x1="1" x2="33" y1="6" y2="6" stroke=${GATES[gate].color} stroke-width="3" stroke-dasharray=${GATES[gate].dash} />
        </svg>
        <b style=${{ color: GATES[gate].ink }}>${GATES[gate].letter}</b> ${gateName(gate)}
      </li>`,
    )}
  </ul>`;
}
