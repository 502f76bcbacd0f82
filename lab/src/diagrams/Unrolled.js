// The chain of V1: x below, h inside, arrows of W upwards and of U to the right.
import { useEffect, useRef } from "preact/hooks";
import { html } from "../html.js";
import { t } from "../i18n.js";
import { Scroll } from "../parts/Scroll.js";
import { fixed, plain, subscript } from "../numbers.js";

const PITCH = 132;
const LEFT = 92;
const TOP = 26;
const CELL = { width: 84, height: 52 };
const BELOW = 148; // y of the inputs
// Colours and patterns for weights that are not shared: one pair a step.
const OWN = ["#0072B2", "#B84A00", "#007A5A", "#8A4F7D", "#555555", "#946300", "#A3195B", "#1B4F9C"];
const DASHES = ["none", "8 3", "2 3", "10 3 2 3", "5 5", "1 3", "12 4", "4 2 1 2"];

const centre = (index) => LEFT + index * PITCH + CELL.width / 2;

function Arrow({ kind, index, weights, from, to, label, lit }) {
  const own = weights === "own";
  const style = own ? { stroke: OWN[index % OWN.length], strokeDasharray: DASHES[index % DASHES.length] } : {};
  const text = weights === "plain" ? null : own ? `${kind}${subscript(index + 1)}` : kind;
  const middle = [(from[0] + to[0]) / 2 + label[0], (from[1] + to[1]) / 2 + label[1]];
  return html`<g class=${`arrow ${weights === "plain" ? "" : "named"} ${lit ? "lit" : ""}`} data-w=${kind} data-step=${index + 1}>
    <line x1=${from[0]} y1=${from[1]} x2=${to[0]} y2=${to[1]} style=${style} marker-end="url(#head)" />
    ${text && html`<text x=${middle[0]} y=${middle[1]} style=${own ? { fill: OWN[index % OWN.length] } : {}} data-weight=${text}>${text}</text>`}
  </g>`;
}

function Cell({ cell, index, step, look, onInspect }) {
  const known = index < step;
  const place = index + 1;
  const press = (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    onInspect(place);
  };
  const reach = known && onInspect
    ? { tabindex: 0, role: "button", onClick: () => onInspect(place), onKeyDown: press, "aria-pressed": String(look === place) }
    : { role: "img" };
  const name = t(known ? (onInspect ? "V1.cell" : "V1.cell_plain") : "V1.cell_unknown", { name: `h${subscript(place)}`, step: place, value: known ? fixed(cell.h) : "?" });
  return html`<g class=${`cell ${known ? "known" : ""} ${look === place ? "looked" : ""} ${place === step ? "newest" : ""}`}
    data-cell=${place} aria-label=${name} ...${reach}>
    <rect x=${centre(index) - CELL.width / 2} y=${TOP} width=${CELL.width} height=${CELL.height} rx="9" />
    <text class="small" x=${centre(index)} y=${TOP + 17}>${`h${subscript(place)}`}</text>
    <text x=${centre(index)} y=${TOP + 38} data-name=${`h${place}`} data-value=${known ? cell.h : undefined}>${known ? fixed(cell.h) : "?"}</text>
  </g>`;
}

/** Runs along the arrow into the newest cell; a reader who asks for less motion sees it there at once. */
function Token({ step }) {
  const dot = useRef();
  useEffect(() => {
    if (step === 0 || matchMedia("(prefers-reduced-motion: reduce)").matches) return;
    dot.current.animate([{ transform: `translateX(${CELL.width - PITCH}px)` }, { transform: "none" }], { duration: 450, easing: "ease-in-out" });
  }, [step]);
  if (step === 0) return html`<circle ref=${dot} class="token" cx=${LEFT - 34} cy=${TOP + CELL.height / 2} r="6" />`;
  return html`<circle ref=${dot} class="token" cx=${centre(step - 1) - CELL.width / 2 - 8} cy=${TOP + CELL.height / 2} r="6" />`;
}

/**
 * @param {Array<{x: number, h: number}>} cells
 * @param {number} step cells up to this one are known; later ones show "?"
 * @param {number} look the cell whose numbers are shown below, 0 for none
 * @param {"plain"|"shared"|"own"} weights how the arrows are labelled
 * @param {"W"|"U"} [pulse] arrows that are lit from outside
 * @param {(step: number) => void} [onInspect] a known cell is pressed; without it cells are no buttons
 */
export function Unrolled({ cells, h0, step, look, weights, onInspect, pulse }) {
  const width = LEFT + (cells.length - 1) * PITCH + CELL.width + 46;
  const middle = TOP + CELL.height / 2;
  const art = useRef();
  // Pointing at one arrow lights all arrows that use the same numbers.
  const light = (kind) => {
    for (const arrow of art.current.querySelectorAll("[data-w]")) arrow.classList.toggle("pulse", weights === "shared" && arrow.dataset.w === kind);
  };
  const follow = (event) => light(event.target.closest?.("[data-w]")?.dataset.w ?? pulse);
  useEffect(() => light(pulse), [pulse, weights]);
  // Where the chain is wider than its place, the cell that is looked at comes into view.
  useEffect(() => {
    const place = art.current.parentElement;
    if (look > 0) place.scrollLeft = centre(look - 1) - place.clientWidth / 2;
  }, [look]);
  return html`<${Scroll} label=${t("V1.figure")}><svg class="picture unrolled" viewBox=${`0 0 ${width} 180`} width=${width} height="180" ref=${art}
    role="group" aria-label=${t("V1.figure")} onPointerOver=${follow} onPointerLeave=${() => light(pulse)}>
    <defs>
      <marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto-start-reverse">
        <path d="M0 0L8 4L0 8z" fill="context-stroke" />
      </marker>
    </defs>
    <text class="small" x="28" y=${TOP + 17}>h₀</text>
    <text x="28" y=${TOP + 38}>${plain(h0)}</text>
    ${cells.map(
      (cell, index) => html`<g key=${index}>
        <${Arrow} kind="U" index=${index} weights=${weights} lit=${look === index + 1}
          from=${[index === 0 ? 54 : centre(index - 1) + CELL.width / 2, middle]} to=${[centre(index) - CELL.width / 2, middle]} label=${[0, -12]} />
        <${Arrow} kind="W" index=${index} weights=${weights} lit=${look === index + 1}
          from=${[centre(index), BELOW - 20]} to=${[centre(index), TOP + CELL.height]} label=${[16, 4]} />
        <${Cell} cell=${cell} index=${index} step=${step} look=${look} onInspect=${onInspect} />
        <text x=${centre(index)} y=${BELOW}>${plain(cell.x)}</text>
        <text class="small" x=${centre(index)} y=${BELOW + 20}>${`x${subscript(index + 1)}`}</text>
      </g>`,
    )}
    <${Token} step=${step} />
  </svg><//>`;
}
