// Pieces of the drawings of cells: wires, boxes, nodes. Each says to which gate it belongs, and is dim while another is lit.
import { html } from "../html.js";
import { Scroll } from "../parts/Scroll.js";
import { GATES } from "../parts/gates.js";

const NEUTRAL = { color: "#57606a", ink: "#3d444d", dash: "none" };
export const lookOf = (gate) => GATES[gate] ?? NEUTRAL;

/** Is a part lit? `lit` is a list of gates, or null where nothing is singled out. */
export const shade = (gate, lit) => (lit === null || lit.includes(gate) ? "part" : "part dim");

/** A line through points; `end` draws an arrow head. */
export function Wire({ gate, lit, points, end }) {
  const { color, dash } = lookOf(gate);
  const path = points.map((point) => point.join(",")).join(" ");
  return html`<g class=${shade(gate, lit)} data-gate=${gate} data-part="wire">
    <polyline points=${path} fill="none" stroke=${color} stroke-width="2.5" stroke-dasharray=${dash} marker-end=${end ? "url(#tip)" : undefined} />
  </g>`;
}

/** A layer with weights: σ or tanh. */
export function Box({ gate, lit, x, y, text }) {
  const { color, ink } = lookOf(gate);
  return html`<g class=${shade(gate, lit)} data-gate=${gate} data-part="layer">
    <rect x=${x - 32} y=${y} width="64" height="34" rx="6" fill="#fff" stroke=${color} stroke-width="2.5" />
    <text x=${x} y=${y + 22} fill=${ink} font-weight="600">${text}</text>
  </g>`;
}

/** × or +, number by number. */
export function Node({ gate, lit, x, y, text }) {
  const { color, ink } = lookOf(gate);
  return html`<g class=${shade(gate, lit)} data-gate=${gate} data-part="node">
    <circle cx=${x} cy=${y} r="13" fill="#fff" stroke=${color} stroke-width="2.5" />
    <text x=${x} y=${y + 5.5} fill=${ink} font-weight="700">${text}</text>
  </g>`;
}

/** A name, with the number under it where there is one. */
export function Label({ gate, lit, x, y, text, value, anchor = "middle", name, exact }) {
  const { ink } = lookOf(gate);
  return html`<g class=${shade(gate, lit)} data-gate=${gate} data-part="label" style=${{ textAnchor: anchor }}>
    <text x=${x} y=${y} fill=${ink} font-weight="600">${text}</text>
    ${value !== undefined && html`<text x=${x} y=${y + 17} fill="#1f2328" data-name=${name} data-value=${exact}>${value}</text>`}
  </g>`;
}

export function Drawing({ left = 0, width, height, label, children, ...rest }) {
  return html`<${Scroll} label=${label}><svg class="picture cell-drawing" viewBox=${`${left} 0 ${width} ${height}`} width=${width} height=${height}
    role="img" aria-label=${label} ...${rest}>
    <defs>
      <marker id="tip" viewBox="0 0 8 8" refX="6.5" refY="4" markerWidth="5" markerHeight="5" orient="auto">
        <path d="M0 0L8 4L0 8z" fill="context-stroke" />
      </marker>
    </defs>
    ${children}
  </svg><//>`;
}
