// A cell in symbols, in the library's own code, and in the blocks of its packed weights; lit like its drawing.
import { html } from "../html.js";
import { content } from "../content.js";
import { t } from "../i18n.js";
import { BLOCKS } from "../math.js";
import { shade } from "../diagrams/wires.js";
import { Equation } from "./Equation.js";
import { Scroll } from "./Scroll.js";
import { GATES } from "./gates.js";

const EQUATIONS = { lstm: ["f", "i", "g", "o", "c", "h"], gru: ["r", "z", "n", "s"] };

export function Equations({ cell, lit }) {
  return html`<div class="equations">
    ${EQUATIONS[cell].map((gate) => html`<div key=${gate} class=${shade(gate, lit)} data-gate=${gate} data-part="equation">
      <${Equation} name=${`${cell}_${gate}`} />
    </div>`)}
  </div>`;
}

/** Lines of src/unrolled/equations, taken from there when the page is built. */
export function Code({ cell, lit }) {
  return html`<pre class="code" tabindex="0" role="region" aria-label=${`${cell.toUpperCase()}: ${t("cell.code")}`}><code>${content.code[cell].map(
    ({ gate, text }) => html`<span key=${text} class=${shade(gate, lit)} data-gate=${gate} data-part="code">${text}${"\n"}</span>`,
  )}</code></pre>`;
}

/** The gates whose rows follow each other in a packed weight, with their rows. */
export function WeightBlocks({ cell, tensor, hidden, width, lit }) {
  const gates = BLOCKS[cell];
  const tall = 30;
  const box = 120;
  return html`<${Scroll} label=${t("cell.blocks", { tensor })}><svg class="picture weight-blocks" width="330" height=${gates.length * tall + 26} viewBox=${`0 0 330 ${gates.length * tall + 26}`}
    role="img" aria-label=${t("cell.blocks", { tensor })}>
    <text x="2" y="15" font-weight="600">${`${tensor}  (${gates.length * hidden}, ${width})`}</text>
    ${gates.map((gate, index) => {
      const { color, ink, dash } = GATES[gate];
      const y = 24 + index * tall;
      return html`<g key=${gate} class=${shade(gate, lit)} data-gate=${gate} data-part="block">
        <rect x="2" y=${y} width=${box} height=${tall - 3} fill="#fff" />
        <rect x="2" y=${y} width=${box} height=${tall - 3} fill=${color} fill-opacity="0.16" stroke=${color} stroke-width="2.5" stroke-dasharray=${dash} />
        <text x=${2 + box / 2} y=${y + 19} text-anchor="middle" font-weight="700" fill=${ink}>${gate}</text>
        <text x=${box + 14} y=${y + 19}>${t("cell.rows", { from: index * hidden, to: (index + 1) * hidden - 1, gate: t(`gate.${gate}`) })}</text>
      </g>`;
    })}
  </svg><//>`;
}
