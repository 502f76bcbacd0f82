// One GRU cell: one state runs along the top; z mixes it with the candidate, r says how much of it the candidate sees.
import { html } from "../html.js";
import { Box, Drawing, Label, Node, Wire } from "./wires.js";

const STATE = 62;
const LAYERS = 226;
const BUS = 296;

/** @param {string[]|null} lit parts that are lit ("r", "z", "w" for 1 − z, "n", "s" for the state, "in"); null lights all */
export function GruCell({ lit, label, ...rest }) {
  return html`<${Drawing} left=${-30} width=${620} height=${340} label=${label} ...${rest}>
    <${Wire} gate="s" lit=${lit} points=${[[24, STATE], [335, STATE]]} end />
    <${Wire} gate="s" lit=${lit} points=${[[363, STATE], [427, STATE]]} end />
    <${Wire} gate="s" lit=${lit} points=${[[455, STATE], [544, STATE]]} end />
    <${Wire} gate="in" lit=${lit} points=${[[60, STATE], [60, BUS]]} />
    <${Wire} gate="in" lit=${lit} points=${[[60, 326], [60, BUS], [350, BUS]]} />
    <${Wire} gate="r" lit=${lit} points=${[[140, BUS], [140, LAYERS + 36]]} end />
    <${Wire} gate="r" lit=${lit} points=${[[140, LAYERS], [140, 165]]} end />
    <${Wire} gate="r" lit=${lit} points=${[[140, STATE], [140, 135]]} end />
    <${Wire} gate="r" lit=${lit} points=${[[154, 150], [206, 150]]} end />
    <${Wire} gate="n" lit=${lit} points=${[[240, BUS], [240, 169]]} end />
    <${Wire} gate="n" lit=${lit} points=${[[272, 150], [425, 150]]} end />
    <${Wire} gate="z" lit=${lit} points=${[[350, BUS], [350, LAYERS + 36]]} end />
    <${Wire} gate="z" lit=${lit} points=${[[350, LAYERS], [350, STATE + 15]]} end />
    <${Wire} gate="w" lit=${lit} points=${[[350, 202], [423, 202]]} end />
    <${Wire} gate="w" lit=${lit} points=${[[440, 186], [440, 165]]} end />
    <${Wire} gate="w" lit=${lit} points=${[[440, 137], [440, STATE + 15]]} end />
    <${Box} gate="r" lit=${lit} x=${140} y=${LAYERS} text="σ  r" />
    <${Box} gate="n" lit=${lit} x=${240} y=${133} text="tanh  n" />
    <${Box} gate="z" lit=${lit} x=${350} y=${LAYERS} text="σ  z" />
    <${Node} gate="r" lit=${lit} x=${140} y=${150} text="×" />
    <${Node} gate="z" lit=${lit} x=${350} y=${STATE} text="×" />
    <${Node} gate="w" lit=${lit} x=${440} y=${202} text="1−" />
    <${Node} gate="w" lit=${lit} x=${440} y=${150} text="×" />
    <${Node} gate="s" lit=${lit} x=${440} y=${STATE} text="+" />
    <${Label} gate="s" lit=${lit} x=${20} y=${40} anchor="start" text="hₜ₋₁" />
    <${Label} gate="s" lit=${lit} x=${548} y=${40} anchor="end" text="hₜ" />
    <${Label} gate="in" lit=${lit} x=${72} y=${328} anchor="start" text="xₜ" />
  <//>`;
}
