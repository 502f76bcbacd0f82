// One LSTM cell: the memory runs along the top, x and h come in below, each gate stands where it acts.
import { html } from "../html.js";
import { fixed } from "../numbers.js";
import { Box, Drawing, Label, Node, Wire } from "./wires.js";

const MEMORY = 62;
const LAYERS = 226;
const BUS = 296;

/**
 * @param {string[]|null} lit gates that are lit ("f", "i", "g", "o", "c", "in"); null lights all
 * @param {Object} [numbers] f, i, g, o, C, c, h: shown where they flow
 */
export function LstmCell({ lit, numbers, label, ...rest }) {
  const say = (key, digits = 2) => (numbers ? fixed(numbers[key], digits) : undefined);
  return html`<${Drawing} width=${620} height=${340} label=${label} ...${rest}>
    <${Wire} gate="c" lit=${lit} points=${[[24, MEMORY], [137, MEMORY]]} end />
    <${Wire} gate="c" lit=${lit} points=${[[163, MEMORY], [317, MEMORY]]} end />
    <${Wire} gate="c" lit=${lit} points=${[[343, MEMORY], [600, MEMORY]]} end />
    <${Wire} gate="c" lit=${lit} points=${[[510, MEMORY], [510, 104]]} end />
    <${Wire} gate="c" lit=${lit} points=${[[510, 138], [510, 177]]} end />
    <${Wire} gate="c" lit=${lit} points=${[[510, 203], [510, BUS], [600, BUS]]} end />
    <${Wire} gate="in" lit=${lit} points=${[[24, BUS], [430, BUS]]} />
    <${Wire} gate="in" lit=${lit} points=${[[80, 326], [80, BUS]]} />
    <${Wire} gate="f" lit=${lit} points=${[[150, BUS], [150, LAYERS + 36]]} end />
    <${Wire} gate="f" lit=${lit} points=${[[150, LAYERS], [150, MEMORY + 15]]} end />
    <${Wire} gate="i" lit=${lit} points=${[[240, BUS], [240, LAYERS + 36]]} end />
    <${Wire} gate="i" lit=${lit} points=${[[240, LAYERS], [240, 150], [315, 150]]} end />
    <${Wire} gate="g" lit=${lit} points=${[[330, BUS], [330, LAYERS + 36]]} end />
    <${Wire} gate="g" lit=${lit} points=${[[330, LAYERS], [330, 165]]} end />
    <${Wire} gate="i" lit=${lit} points=${[[330, 137], [330, MEMORY + 15]]} end />
    <${Wire} gate="o" lit=${lit} points=${[[430, BUS], [430, LAYERS + 36]]} end />
    <${Wire} gate="o" lit=${lit} points=${[[430, LAYERS], [430, 190], [495, 190]]} end />
    <${Box} gate="f" lit=${lit} x=${150} y=${LAYERS} text="σ  f" />
    <${Box} gate="i" lit=${lit} x=${240} y=${LAYERS} text="σ  i" />
    <${Box} gate="g" lit=${lit} x=${330} y=${LAYERS} text="tanh  g" />
    <${Box} gate="o" lit=${lit} x=${430} y=${LAYERS} text="σ  o" />
    <${Box} gate="c" lit=${lit} x=${510} y=${104} text="tanh" />
    <${Node} gate="f" lit=${lit} x=${150} y=${MEMORY} text="×" />
    <${Node} gate="i" lit=${lit} x=${330} y=${150} text="×" />
    <${Node} gate="c" lit=${lit} x=${330} y=${MEMORY} text="+" />
    <${Node} gate="o" lit=${lit} x=${510} y=${190} text="×" />
    <${Label} gate="c" lit=${lit} x=${20} y=${24} anchor="start" text="cₜ₋₁" value=${say("C")} />
    <${Label} gate="c" lit=${lit} x=${604} y=${24} anchor="end" text="cₜ" value=${say("c", 4)} name="c" exact=${numbers?.c} />
    <${Label} gate="in" lit=${lit} x=${20} y=${BUS - 10} anchor="start" text="hₜ₋₁" />
    <${Label} gate="in" lit=${lit} x=${92} y=${328} anchor="start" text="xₜ" />
    <${Label} gate="c" lit=${lit} x=${604} y=${BUS - 28} anchor="end" text="hₜ" value=${say("h", 4)} name="h" exact=${numbers?.h} />
    ${numbers &&
    html`<${Label} gate="f" lit=${lit} x=${142} y=${186} anchor="end" text=${fixed(numbers.f, 2)} />
      <${Label} gate="i" lit=${lit} x=${232} y=${186} anchor="end" text=${fixed(numbers.i, 2)} />
      <${Label} gate="g" lit=${lit} x=${338} y=${200} anchor="start" text=${fixed(numbers.g, 2)} />
      <${Label} gate="o" lit=${lit} x=${440} y=${214} anchor="start" text=${fixed(numbers.o, 2)} />
      <${Label} gate="f" lit=${lit} x=${172} y=${MEMORY - 12} anchor="start" text=${fixed(numbers.kept, 2)} />
      <${Label} gate="i" lit=${lit} x=${340} y=${114} anchor="start" text=${fixed(numbers.written, 2)} />`}
  <//>`;
}
