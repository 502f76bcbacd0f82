// Unrolling: one cell drawn once a step, with the same two weights at every arrow.
import { useState } from "preact/hooks";
import { html } from "../html.js";
import { announce, useView } from "../state.js";
import { t } from "../i18n.js";
import { fixed, plain, subscript } from "../numbers.js";
import { unrollScalar } from "../math.js";
import { Arithmetic } from "../parts/Arithmetic.js";
import { Button, Controls, NumberField, Slider, Toggle } from "../parts/controls.js";
import { Figure } from "../parts/Figure.js";
import { Prose } from "../parts/Note.js";
import { Stepper } from "../parts/Stepper.js";
import { Unrolled } from "../diagrams/Unrolled.js";

const DEFAULTS = { step: 0, look: 0, W: 0.6, U: 0.8, b: 0, h0: 0, x: [1, 0.5, -1, 2, 0], weights: "plain" };
const LIMITS = { step: [0, 8, 1], look: [0, 8, 1], W: [-3, 3], U: [-3, 3], b: [-3, 3], h0: [-1, 1], x: [-9, 9], weights: ["plain", "shared", "own"] };
const LONGEST = 8;

const signed = (x) => (x < 0 ? `(${plain(x)})` : plain(x));

/** tanh(0.8·0.5370 + 0.6·0.5) = tanh(0.7296) = 0.6228, each term in the colour of its arrow. */
function arithmeticOf({ W, U, b }, cell, index) {
  const place = subscript(index + 1);
  return [
    { text: `h${place}`, role: "state" }, " = tanh(",
    { text: `${plain(U)}·${cell.before < 0 ? `(${fixed(cell.before)})` : fixed(cell.before)}`, role: "U" }, " + ",
    { text: `${plain(W)}·${signed(cell.x)}`, role: "W" }, ...(b === 0 ? [] : [" + ", { text: signed(b), role: "b" }]),
    ") = tanh(", { text: fixed(cell.sum), name: "sum", value: cell.sum }, ") = ",
    { text: fixed(cell.h), role: "state", name: "h", value: cell.h },
  ];
}

function tableOf(cells, step) {
  const columns = [t("V1.column_step"), "x", t("V1.column_before"), t("V1.column_sum"), "h"];
  const rows = cells.map((cell, index) =>
    index < step
      ? [String(index + 1), cell.x, ...["before", "sum", "h"].map((key) => ({ text: fixed(cell[key]), value: cell[key] }))]
      : [String(index + 1), cell.x, "?", "?", "?"],
  );
  return { caption: t("V1.table"), columns, rows };
}

function Weights({ values, set, setPulse }) {
  const { W, U, b, h0, x } = values;
  const edit = (index) => (value) => set({ x: x.map((old, place) => (place === index ? value : old)) });
  const slider = (name, value) =>
    html`<${Slider} label=${t(`V1.${name}`)} name=${name} role=${name} min=${LIMITS[name][0]} max=${LIMITS[name][1]} step=${0.05} value=${value}
      text=${plain(value)} onInput=${(to) => set({ [name]: to })} />`;
  const focus = (event) => setPulse(["W", "U"].find((name) => event.type === "focusin" && name === event.target.name));
  return html`<div onFocusIn=${focus} onFocusOut=${focus}><${Controls} label=${t("V1.weights")}>
      ${slider("W", W)} ${slider("U", U)} ${slider("b", b)} ${slider("h0", h0)}
    <//></div>
    <${Controls} label=${t("V1.inputs")}>
      ${x.map(
        (value, index) => html`<${NumberField} key=${index} label=${`x${subscript(index + 1)}`} name=${`x${index + 1}`} min=${-9} max=${9}
          step=${0.5} value=${value} onInput=${edit(index)} />`,
      )}
      <${Button} aria-disabled=${String(x.length >= LONGEST)} onClick=${() => x.length < LONGEST && set({ x: [...x, 1] })} data-do="longer">${t("V1.longer")}<//>
      <${Button} aria-disabled=${String(x.length <= 1)} onClick=${() => x.length > 1 && set({ x: x.slice(0, -1) })} data-do="shorter">${t("V1.shorter")}<//>
    <//>`;
}

function Sharing({ weights, length, set }) {
  const toggle = (kind) => (on) => set({ weights: on ? kind : "plain" });
  return html`<${Controls} label=${t("V1.sharing")}>
      <${Toggle} pressed=${weights === "shared"} onToggle=${toggle("shared")} data-do="shared">${t("V1.shared")}<//>
      <${Toggle} pressed=${weights === "own"} onToggle=${toggle("own")} data-do="own">${t("V1.own")}<//>
    <//>
    ${weights === "shared" && html`<p class="note" role="note" data-name="sharing">${t("V1.shared_text", { length })}</p>`}
    ${weights === "own" &&
    html`<p class="note" role="note" data-name="sharing" data-value=${2 * length}>${t("V1.own_text", { length, count: 2 * length })}</p>`}`;
}

function View() {
  const [values, set, reset] = useView("V1", DEFAULTS, LIMITS);
  const [pulse, setPulse] = useState();
  const { x, weights } = values;
  const cells = unrollScalar(values);
  const step = Math.min(values.step, x.length);
  const look = values.look >= 1 && values.look <= step ? values.look : step;
  const toStep = (to) => {
    set({ step: to, look: 0 });
    announce(to === 0 ? t("V1.say_start") : t("V1.say", { step: to, value: fixed(cells[to - 1].h) }));
  };
  const inspect = (index) => {
    set({ look: index });
    announce(t("V1.say", { step: index, value: fixed(cells[index - 1].h) }));
  };
  return html`
    <${Prose} keys=${["V1.intro"]} />
    <${Stepper} length=${x.length} step=${step} onStep=${toStep} onReset=${reset} />
    <${Figure} name="unrolled" title=${t("V1.figure")} table=${tableOf(cells, step)}>
      <${Unrolled} cells=${cells} h0=${values.h0} step=${step} look=${look} weights=${weights} onInspect=${inspect} pulse=${pulse} />
    <//>
    ${look > 0
      ? html`<${Arithmetic} label=${t("V1.arithmetic")} parts=${arithmeticOf(values, cells[look - 1], look - 1)} />`
      : html`<p class="arithmetic">${t("V1.before_first")}</p>`}
    <${Sharing} weights=${weights} length=${x.length} set=${set} />
    <${Weights} values=${values} set=${set} setPulse=${setPulse} />
    <${Prose} keys=${["V1.look", "V1.exact"]} />
  `;
}

export const view = { id: "V1", group: "basics", needs: () => true, View };
