// Two layers, one or both directions: which cell can be computed when, and what it reads.
import { html } from "../html.js";
import { announce, useView } from "../state.js";
import { t } from "../i18n.js";
import { count, fixed, plain, subscript } from "../numbers.js";
import { parameterCount } from "../math.js";
import { INPUTS, stackOf } from "../toys.js";
import { Arithmetic } from "../parts/Arithmetic.js";
import { Choice, Controls, Toggle } from "../parts/controls.js";
import { Figure } from "../parts/Figure.js";
import { Note, Prose } from "../parts/Note.js";
import { Stepper } from "../parts/Stepper.js";
import { Table } from "../parts/Table.js";
import { Stack } from "../diagrams/Stack.js";

const DEFAULTS = { layers: 2, both: true, rounds: false, step: 0, look: "" };
const LIMITS = { layers: [1, 2, 1], step: [0, 40, 1] };
const keyOf = ({ layer, direction, t: step }) => `${layer}.${direction}.${step}`;
const signed = (x) => (x < 0 ? `(${fixed(x)})` : fixed(x));

export const rowName = ({ layer, direction }) => t(direction ? "stack.backward" : "stack.forward", { layer: layer + 1 });

function arithmeticOf(cell) {
  const terms = cell.inputs.flatMap((x, place) => [{ text: `${plain(cell.W[place])}·${signed(x)}`, role: "W" }, " + "]);
  return [
    { text: `${rowName(cell)}, h${subscript(cell.t)}` }, " = tanh(", ...terms, { text: `${plain(cell.U)}·${signed(cell.before)}`, role: "U" },
    ") = tanh(", { text: fixed(cell.sum), value: cell.sum, name: "sum" }, ") = ", { text: fixed(cell.h), value: cell.h, name: "h" },
  ];
}

/** The last state of each row: forward at the last step, backward at the first. */
function Final({ cells, known, layers, both }) {
  const rows = Array.from({ length: layers }, (_, layer) => (both ? [0, 1] : [0]).map((direction) => ({ layer, direction }))).flat();
  return html`<${Table} caption=${t("stack.final")} columns=${["h_n", t("stack.row"), t("stack.at"), "h"]}
    rows=${rows.map((row, index) => {
      const at = row.direction ? 1 : INPUTS.length;
      const cell = cells.find((one) => one.layer === row.layer && one.direction === row.direction && one.t === at);
      return [`h_n[${index}]`, rowName(row), at, known.has(keyOf(cell)) ? { text: fixed(cell.h), value: cell.h, name: `final-${index}` } : "?"];
    })} />`;
}

function View() {
  const [values, set, reset] = useView("stack", DEFAULTS, LIMITS);
  const { layers, both, rounds } = values;
  const cells = stackOf(layers, both);
  const lastRound = Math.max(...cells.map(({ round }) => round));
  const length = rounds ? lastRound : cells.length;
  const step = Math.min(values.step, length);
  const done = rounds ? cells.filter(({ round }) => round <= step) : cells.slice(0, step);
  const known = new Set(done.map(keyOf));
  const newest = new Set((rounds ? done.filter(({ round }) => round === step) : done.slice(-1)).map(keyOf));
  const looked = done.find((cell) => keyOf(cell) === values.look) ?? done.filter((cell) => newest.has(keyOf(cell))).at(-1);
  const toStep = (to) => {
    set({ step: to, look: "" });
    announce(t(rounds ? "stack.say_round" : "stack.say", { step: to, length, count: rounds ? cells.filter(({ round }) => round <= to).length : to }));
  };
  const change = (to) => set({ ...to, step: 0, look: "" });
  const table = {
    caption: t("stack.figure"), columns: [t("stack.row"), t("stack.step"), t("stack.round"), "h"],
    rows: cells.map((cell) => [rowName(cell), cell.t, cell.round, known.has(keyOf(cell)) ? { text: fixed(cell.h), value: cell.h } : "?"]),
  };
  const sizes = { input: 32, hidden: 64, layers, bidirectional: both, biases: 2 };
  const parameters = parameterCount("lstm", sizes);
  return html`
    <${Prose} keys=${["stack.intro"]} />
    <${Controls} label=${t("stack.controls")}>
      <${Choice} legend=${t("stack.layers")} name="layers" value=${layers} options=${[[1, "1"], [2, "2"]]} onChoose=${(to) => change({ layers: to })} />
      <${Toggle} pressed=${both} onToggle=${(on) => change({ both: on })} data-do="both">${t("stack.both")}<//>
      <${Toggle} pressed=${rounds} onToggle=${(on) => change({ rounds: on })} data-do="rounds">${t("stack.rounds")}<//>
    <//>
    <${Stepper} length=${length} step=${step} onStep=${toStep} onReset=${reset} word=${rounds ? "stack.round_at" : "stack.cell_at"} />
    <${Figure} name="stack" title=${t("stack.figure")} table=${table}>
      <${Stack} cells=${cells} layers=${layers} both=${both} known=${known} newest=${newest} looked=${looked} keyOf=${keyOf} onLook=${(cell) => set({ look: keyOf(cell) })} />
    <//>
    ${looked ? html`<${Arithmetic} label=${t("stack.numbers")} parts=${arithmeticOf(looked)} />` : html`<p class="arithmetic">${t("stack.before_first")}</p>`}
    <p>${t("stack.counts", { cells: cells.length, rounds: lastRound })}
      <span class="unseen" data-name="cells" data-value=${cells.length} /><span class="unseen" data-name="rounds" data-value=${lastRound} /></p>
    <${Final} cells=${cells} known=${known} layers=${layers} both=${both} />
    <p>${t("stack.parameters")} <b data-name="lstm-parameters" data-value=${parameters}>${count(parameters)}</b></p>
    <${Note} of=${both ? "stack.note_both" : "stack.note_one"} />
    <${Prose} keys=${["stack.look"]} />
  `;
}

export const view = { id: "stack", group: "tasks", needs: () => true, View };
