// Layers above each other, each with one row of cells or two: arrows along time in the row's direction, and upwards.
import { html } from "../html.js";
import { t } from "../i18n.js";
import { fixed, plain, subscript } from "../numbers.js";
import { INPUTS } from "../toys.js";
import { Scroll } from "../parts/Scroll.js";

const PITCH = 116;
const LEFT = 96;
const CELL = { width: 78, height: 38 };
const ROW = 54; // between the rows of one layer
const LAYER = 40; // more between layers
const centre = (step) => LEFT + (step - 1) * PITCH + CELL.width / 2;

export function Stack({ cells, layers, both, known, newest, looked, keyOf, onLook }) {
  const ways = both ? 2 : 1;
  const height = layers * (ways * ROW + LAYER) + 18;
  // The first layer stands at the bottom, its forward row below its backward one.
  const yOf = ({ layer, direction }) => height - 46 - (layer * (ways * ROW + LAYER) + (direction + 1) * ROW);
  const width = LEFT + INPUTS.length * PITCH + 8;
  const feeds = looked ? new Set(cells.filter((cell) => cell.layer === looked.layer - 1 && cell.t === looked.t).map(keyOf)) : new Set();
  const before = looked && cells.find((cell) => cell.layer === looked.layer && cell.direction === looked.direction && cell.t === looked.t + (looked.direction ? 1 : -1));
  if (before) feeds.add(keyOf(before));
  return html`<${Scroll} label=${t("stack.figure")}><svg class="picture stack" width=${width} height=${height} viewBox=${`0 0 ${width} ${height}`} role="group" aria-label=${t("stack.figure")}>
    <defs><marker id="stack-head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="context-stroke" /></marker></defs>
    ${Array.from({ length: layers }, (_, layer) => html`<g key=${layer}>
      <rect class="layer" x="4" y=${yOf({ layer, direction: ways - 1 }) - 8} width=${width - 8} height=${ways * ROW - ROW + CELL.height + 16} rx="10" />
      ${(both ? [0, 1] : [0]).map((direction) => html`<text key=${direction} class="way" x="14" y=${yOf({ layer, direction }) + 24}>${layer + 1} ${direction ? "←" : "→"}</text>`)}
    </g>`)}
    ${cells.map((cell) => html`<${Cell} key=${keyOf(cell)} cell=${cell} y=${yOf(cell)} state=${{ known: known.has(keyOf(cell)), newest: newest.has(keyOf(cell)), looked: looked === cell, feeds: feeds.has(keyOf(cell)) }} onLook=${onLook} />`)}
    ${Array.from({ length: layers }, (_, layer) => INPUTS.map((_, index) => {
      const top = yOf({ layer, direction: ways - 1 }) + (ways - 1) * ROW + CELL.height + 8;
      return html`<path key=${`${layer}${index}`} class="arrow W" d=${`M${centre(index + 1)} ${top + LAYER - 20}V${top + 1}`} marker-end="url(#stack-head)" />`;
    }))}
    ${INPUTS.map((x, index) => html`<text key=${index} x=${centre(index + 1)} y=${height - 22}>${plain(x)} <tspan class="small">${`x${subscript(index + 1)}`}</tspan></text>`)}
  </svg><//>`;
}

function Cell({ cell, y, state, onLook }) {
  const { direction, t: step } = cell;
  const x = centre(step) - CELL.width / 2;
  const first = step === (direction ? INPUTS.length : 1);
  const press = (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    onLook(cell);
  };
  const reach = state.known ? { tabindex: 0, role: "button", onClick: () => onLook(cell), onKeyDown: press, "aria-pressed": String(state.looked) } : { role: "img" };
  const words = { row: t(direction ? "stack.backward" : "stack.forward", { layer: cell.layer + 1 }), step };
  const name = state.known ? t("stack.cell", { ...words, value: fixed(cell.h) }) : t("stack.cell_unknown", words);
  const from = direction ? x + PITCH : x - PITCH + CELL.width;
  const to = direction ? x + CELL.width + 3 : x - 3;
  return html`<g class=${`cell ${Object.keys(state).filter((key) => state[key]).join(" ")}`} data-cell=${`${cell.layer}.${direction}.${step}`} aria-label=${name} ...${reach}>
    ${!first && html`<path class="arrow U" d=${`M${from} ${y + CELL.height / 2}H${to}`} marker-end="url(#stack-head)" />`}
    <rect x=${x} y=${y} width=${CELL.width} height=${CELL.height} rx="8" />
    <text x=${centre(step)} y=${y + 24} data-name=${`h-${cell.layer}-${direction}-${step}`} data-value=${state.known ? cell.h : undefined}>${state.known ? fixed(cell.h) : "?"}</text>
  </g>`;
}
