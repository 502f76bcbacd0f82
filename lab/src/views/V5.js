// LSTM and GRU side by side: which part of one does the work of which part of the other, and what both weigh.
import { useState } from "preact/hooks";
import { html } from "../html.js";
import { announce, useView } from "../state.js";
import { t } from "../i18n.js";
import { count, fixed } from "../numbers.js";
import { BLOCKS, parameterCount } from "../math.js";
import { GruCell } from "../diagrams/GruCell.js";
import { LstmCell } from "../diagrams/LstmCell.js";
import { Code, Equations, WeightBlocks } from "../parts/CellText.js";
import { Controls, Choice, NumberField, Toggle } from "../parts/controls.js";
import { Figure } from "../parts/Figure.js";
import { GateLegend } from "../parts/gates.js";
import { Note, Prose } from "../parts/Note.js";
import { Table } from "../parts/Table.js";

const ROLES = ["keep", "write", "candidate", "reset", "output", "memory"];
const CELLS = ["rnn", "gru", "lstm"];
const DEFAULTS = { role: "none", input: 32, hidden: 64, layers: 1, bidirectional: false, biases: "2" };
const LIMITS = { role: ["none", ...ROLES], input: [1, 4096, 1], hidden: [1, 4096, 1], layers: [1, 8, 1], biases: ["2", "1", "0"] };

// The parts of each drawing that play a role; an empty list: this cell has nothing for it.
const PARTS = {
  lstm: { keep: ["f"], write: ["i"], candidate: ["g"], reset: [], output: ["o"], memory: ["c"] },
  gru: { keep: ["z"], write: ["w"], candidate: ["n"], reset: ["r"], output: [], memory: [] },
};
// w is no equation of its own: 1 − z stands in the equations of z and of the state.
const IN_TEXT = { w: ["z", "s"] };
const NAMES = { rnn: "RNN", gru: "GRU", lstm: "LSTM" };

const roleOf = (cell, gate) => ROLES.find((role) => PARTS[cell][role].includes(gate));

const inText = (lit) => lit && lit.flatMap((gate) => IN_TEXT[gate] ?? [gate]);

/** Pointing at a part shows its role in both cells; letting go shows what was chosen. */
function followPointer(cell, setOver) {
  return {
    onPointerOver: (event) => setOver(roleOf(cell, event.target.closest?.("[data-gate]")?.dataset.gate) ?? null),
    onPointerLeave: () => setOver(null),
  };
}

function Side({ cell, role, setOver, values }) {
  const lit = role === "none" ? null : [...PARTS[cell][role], "in"];
  const Cell = cell === "lstm" ? LstmCell : GruCell;
  const rows = ROLES.map((one) => [t(`V5.role_${one}`), t(`V5.${cell}_${one}`)]);
  const missing = role !== "none" && PARTS[cell][role].length === 0;
  return html`<section>
    <h2>${NAMES[cell]}</h2>
    <${Figure} name=${cell} title=${t(`V5.figure_${cell}`)} table=${{ caption: t("V5.roles"), columns: [t("V5.role"), NAMES[cell]], rows }}>
      <div ...${followPointer(cell, setOver)}><${Cell} lit=${lit} label=${t(`V5.describe_${cell}`)} /></div>
    <//>
    <p class="role" data-name=${`role-${cell}`}>${role === "none" ? t("V5.choose") : t(`V5.${cell}_${role}`)}${missing ? " ∅" : ""}</p>
    <${Equations} cell=${cell} lit=${inText(lit)} />
    <${Code} cell=${cell} lit=${inText(lit)} />
    <h3>${t("cell.weights")}</h3>
    <${WeightBlocks} cell=${cell} tensor="weight_hh_l0" hidden=${values.hidden} width=${values.hidden} lit=${inText(lit)} />
  </section>`;
}

function Counts({ values, set }) {
  const { input, hidden, layers, bidirectional } = values;
  const biases = Number(values.biases);
  const counts = Object.fromEntries(CELLS.map((cell) => [cell, parameterCount(cell, { input, hidden, layers, bidirectional, biases })]));
  const rows = CELLS.map((cell) => [
    NAMES[cell],
    { text: String(BLOCKS[cell].length), value: BLOCKS[cell].length },
    { text: count(counts[cell]), value: counts[cell], name: `count-${cell}` },
    { text: fixed(counts[cell] / counts.lstm, 2), value: counts[cell] / counts.lstm },
  ]);
  const field = (name) =>
    html`<${NumberField} label=${t(`V5.${name}`)} name=${name} min=${LIMITS[name][0]} max=${LIMITS[name][1]} step=${1} value=${values[name]}
      onInput=${(to) => set({ [name]: Math.round(to) })} />`;
  return html`
    <h2>${t("V5.counts")}</h2>
    <${Controls} label=${t("V5.sizes")}>
      ${field("input")} ${field("hidden")} ${field("layers")}
      <${Toggle} pressed=${bidirectional} onToggle=${(on) => set({ bidirectional: on })} data-do="bidirectional">${t("V5.bidirectional")}<//>
      <${Choice} legend=${t("V5.biases")} name="biases" value=${values.biases} onChoose=${(to) => set({ biases: to })}
        options=${["2", "1", "0"].map((kind) => [kind, t(`V5.biases_${kind}`)])} />
    <//>
    <${Table} caption=${t("V5.counts_table")} columns=${[t("shapes.cell"), t("V5.blocks"), t("V5.parameters"), t("V5.share")]} rows=${rows} />
    <${Prose} keys=${["V5.formula"]} values=${{ input: count(input), hidden: count(hidden), biases }} />`;
}

function View() {
  const [values, set] = useView("V5", DEFAULTS, LIMITS);
  const [over, setOver] = useState(null);
  const role = over ?? values.role;
  const choose = (one) => () => {
    const to = values.role === one ? "none" : one;
    set({ role: to });
    announce(to === "none" ? t("V5.say_none") : `LSTM: ${t(`V5.lstm_${to}`)} GRU: ${t(`V5.gru_${to}`)}`);
  };
  return html`
    <${Prose} keys=${["V5.intro"]} />
    <${Controls} label=${t("V5.roles")}>
      ${ROLES.map(
        (one) => html`<${Toggle} key=${one} pressed=${values.role === one} onToggle=${choose(one)} data-do=${`role-${one}`}>${t(`V5.role_${one}`)}<//>`,
      )}
    <//>
    <div class="columns wide">
      <${Side} cell="lstm" role=${role} setOver=${setOver} values=${values} />
      <${Side} cell="gru" role=${role} setOver=${setOver} values=${values} />
    </div>
    <${GateLegend} gates=${["f", "i", "g", "o"]} />
    <${GateLegend} gates=${["z", "w", "n", "r"]} />
    <${Counts} values=${values} set=${set} />
    <${Note} of="V5.convention" />
    <${Prose} keys=${["V5.look", "V5.speed"]} />
  `;
}

export const view = { id: "V5", group: "gates", needs: () => true, View };
