// Task types: which outputs of the recurrent layer a task reads.
import { html } from "../html.js";
import { useView } from "../state.js";
import { t } from "../i18n.js";
import { fixed, subscript } from "../numbers.js";
import { AHEAD, INPUTS, outputsOf, readingOf, TARGET } from "../toys.js";
import { Arithmetic } from "../parts/Arithmetic.js";
import { Choice, Controls, Toggle } from "../parts/controls.js";
import { Figure } from "../parts/Figure.js";
import { Note, Prose } from "../parts/Note.js";
import { Reading } from "../diagrams/Reading.js";

const TASKS = ["classify", "tag", "language", "pairs", "forecast"];
const KINDS = { classify: ["last", "mean", "max"], tag: ["tag"], language: ["stream", "document"], pairs: ["pairs"], forecast: ["direct", "autoregressive"] };
const ALL = Object.values(KINDS).flat();
const DEFAULTS = { task: "classify", kind: "last", padded: true, both: false, naive: false };
const LIMITS = { task: TASKS, kind: ALL };
const HAS_BOTH = ["classify", "tag", "pairs"];

const wrapped = (x) => (x < 0 ? `(${fixed(x)})` : fixed(x));

/** How the numbers that the task reads come of the outputs. */
function arithmeticOf(kind, outputs, reading, both) {
  const { length, forward, backward } = outputs;
  const rows = [["→", forward, reading.forward], ["←", backward, reading.backward]].slice(0, both ? 2 : 1);
  return rows.flatMap(([way, row, steps], place) => {
    const value = { text: fixed(reading.values[place]), value: reading.values[place], name: place ? "read-backward" : "read-forward", role: place ? "U" : "W" };
    const valid = row.slice(0, length);
    const lead = place ? "    " : "";
    if (kind === "mean") return [`${lead}${both ? way : ""} (${valid.map(wrapped).join(" + ")}) / ${length} = `, value];
    if (kind === "max") return [`${lead}${both ? way : ""} max(${valid.map(fixed4).join("; ")}) = `, value];
    return [`${lead}${both ? way : ""} h${subscript(steps[0])} = `, value];
  });
}

const fixed4 = (x) => fixed(x);

function Naive({ outputs, both }) {
  const { length, forward, backward, onward } = outputs;
  if (length === INPUTS.length) {
    return html`<p class="note" role="note">${t(both ? "types.naive_both" : "types.naive_fine", { value: fixed(forward[length - 1]), backward: fixed(backward[length - 1]) })}
      <span class="unseen" data-name="naive-backward" data-value=${backward[length - 1]} /></p>`;
  }
  return html`<p class="warning" role="note" data-name="naive-wrong" data-value=${forward.at(-1)}>
    ${t("types.naive_wrong", { last: INPUTS.length, onward: fixed(onward.at(-1)) })}
    <span class="unseen" data-name="naive-onward" data-value=${onward.at(-1)} />
    ${both && html` ${t("types.naive_backward", { step: length, value: fixed(backward[length - 1]) })}`}
    <span class="unseen" data-name="naive-backward" data-value=${backward[length - 1]} />
  </p>`;
}

function tableOf() {
  const shape = { last: "(2, C)", mean: "(2, C)", max: "(2, C)", tag: "(2, 5, C)", stream: "(2, 5, V)", document: "(2, 6, V)", pairs: `(2, ${TARGET + 1}, V)`, direct: `(2, ${AHEAD})`, autoregressive: `(2, ${AHEAD})` };
  const rows = TASKS.flatMap((task) => KINDS[task].map((kind) => [
    `${t(`types.task_${task}`)}${KINDS[task].length > 1 ? `: ${t(`types.kind_${kind}`)}` : ""}`, t(`types.reads_${kind}`), shape[kind],
  ]));
  return { caption: t("types.table"), columns: [t("types.task"), t("types.reads"), t("types.scores")], rows };
}

function View() {
  const [values, set] = useView("types", DEFAULTS, LIMITS);
  const { task, padded, naive } = values;
  const kind = KINDS[task].includes(values.kind) ? values.kind : KINDS[task][0];
  const both = values.both && HAS_BOTH.includes(task);
  const outputs = outputsOf(padded);
  const reading = readingOf(kind, outputs, both);
  const choose = (to) => set({ task: to, kind: KINDS[to][0] });
  return html`
    <${Prose} keys=${["types.intro"]} />
    <${Controls} label=${t("types.controls")}>
      <${Choice} legend=${t("types.task")} name="task" value=${task} onChoose=${choose} options=${TASKS.map((one) => [one, t(`types.task_${one}`)])} />
      ${KINDS[task].length > 1 && html`<${Choice} legend=${t("types.kind")} name="kind" value=${kind} onChoose=${(to) => set({ kind: to })} options=${KINDS[task].map((one) => [one, t(`types.kind_${one}`)])} />`}
    <//>
    <${Controls} label=${t("types.switches")}>
      <${Toggle} pressed=${padded} onToggle=${(on) => set({ padded: on })} data-do="padded">${t("types.padded")}<//>
      ${HAS_BOTH.includes(task) && html`<${Toggle} pressed=${values.both} onToggle=${(on) => set({ both: on })} data-do="both">${t("types.both")}<//>`}
      ${kind === "last" && html`<${Toggle} pressed=${naive} onToggle=${(on) => set({ naive: on })} data-do="naive">out[:, -1]<//>`}
    <//>
    <${Figure} name="types" title=${t(`types.figure_${kind}`)} table=${tableOf()}>
      <${Reading} kind=${kind} outputs=${outputs} reading=${reading} both=${both} />
    <//>
    ${reading.values.length > 0 && html`<${Arithmetic} label=${t("types.numbers")} parts=${arithmeticOf(kind, outputs, reading, both)} />`}
    <p>${t("types.counts", { outputs: reading.outputs, losses: reading.losses })}
      <span class="unseen" data-name="outputs" data-value=${reading.outputs} /><span class="unseen" data-name="losses" data-value=${reading.losses} /></p>
    ${kind === "last" && naive && html`<${Naive} outputs=${outputs} both=${both} />`}
    <${Note} of=${`types.about_${kind}`} />
    <${Prose} keys=${["types.look"]} />
  `;
}

export const view = { id: "types", group: "tasks", needs: () => true, View };
