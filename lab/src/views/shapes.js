// The shape of the data at every station of a network.
import { html } from "../html.js";
import { useView } from "../state.js";
import { t } from "../i18n.js";
import { shapesOf, shapesOfStep } from "../math.js";
import { Choice, Controls, NumberField, Toggle } from "../parts/controls.js";
import { Figure } from "../parts/Figure.js";
import { Scroll } from "../parts/Scroll.js";
import { Note, Prose } from "../parts/Note.js";

const TASKS = ["classify", "tag", "language", "translate"];
const CELLS = ["rnn", "gru", "lstm"];
const DEFAULTS = {
  task: "classify", cell: "lstm", batch: 2, time: 5, target: 4, width: 4, hidden: 3, layers: 1, bidirectional: false, vocabulary: 100, classes: 2,
};
const LIMITS = {
  task: TASKS, cell: CELLS, batch: [1, 999, 1], time: [1, 999, 1], target: [1, 999, 1], width: [1, 999, 1], hidden: [1, 999, 1], layers: [1, 8, 1],
  vocabulary: [2, 99999, 1], classes: [2, 999, 1],
};
const FIELDS = { classify: ["classes"], tag: ["classes"], language: ["vocabulary"], translate: ["target", "vocabulary"] };
const ROW = 62;
// Stations that stand beside the way: nothing of the one above goes into them.
const BESIDE = ["memory", "prefix", "step_state", "step_weight_ih", "step_weight_hh"];

const shapeText = (shape) => `(${shape.join(", ")})`;

/** Stations from top to bottom: what it is, its shape, and between two what makes one of the other. */
function Flow({ stations, label, width = 450 }) {
  return html`<${Scroll} label=${label}><svg class="picture flow" width=${width} height=${stations.length * ROW - 14} viewBox=${`0 0 ${width} ${stations.length * ROW - 14}`}
    role="img" aria-label=${label}>
    ${stations.map(({ key, shape }, index) => {
      const y = index * ROW;
      const beside = BESIDE.includes(key) || (key === "state" && stations[index - 1].key !== "outputs");
      return html`<g key=${key} class=${beside ? "beside" : ""} data-station=${key} data-shape=${shape.join(",")}>
        <rect x="2" y=${y + 4} width="128" height="36" rx="6" />
        <text class="shape" x="66" y=${y + 28}>${shapeText(shape)}</text>
        <text class="what" x="144" y=${y + 19}>${t(`shapes.${key}`)}</text>
        <text class="how" x="144" y=${y + 37}>${t(`shapes.${key}_how`)}</text>
        ${index > 0 && !beside && html`<path d=${`M66 ${y - 20}v18m-5 -6l5 6l5 -6`} />`}
      </g>`;
    })}
  </svg><//>`;
}

const tableOf = (stations) => ({
  caption: t("shapes.table"),
  columns: [t("shapes.station"), t("shapes.shape"), t("shapes.from")],
  rows: stations.map(({ key, shape }) => [t(`shapes.${key}`), shapeText(shape), t(`shapes.${key}_how`)]),
});

function View() {
  const [values, set] = useView("shapes", DEFAULTS, LIMITS);
  const { task, cell, bidirectional } = values;
  const stations = shapesOf(task, cell, values);
  const step = shapesOfStep(cell, values);
  const field = (name) =>
    html`<${NumberField} key=${name} label=${t(`shapes.size_${name}`)} name=${name} min=${LIMITS[name][0]} max=${LIMITS[name][1]} step=${1}
      value=${values[name]} onInput=${(to) => set({ [name]: Math.round(to) })} />`;
  return html`
    <${Prose} keys=${["shapes.intro"]} />
    <${Controls} label=${t("shapes.task")}>
      <${Choice} legend=${t("shapes.task")} name="task" value=${task} onChoose=${(to) => set({ task: to })} options=${TASKS.map((key) => [key, t(`shapes.task_${key}`)])} />
      <${Choice} legend=${t("shapes.cell")} name="cell" value=${cell} onChoose=${(to) => set({ cell: to })} options=${CELLS.map((key) => [key, key.toUpperCase()])} />
    <//>
    <${Controls} label=${t("shapes.sizes")}>
      ${["batch", "time", ...FIELDS[task].filter((name) => name === "target"), "width", "hidden", "layers"].map(field)}
      ${FIELDS[task].filter((name) => name !== "target").map(field)}
      <${Toggle} pressed=${bidirectional} onToggle=${(on) => set({ bidirectional: on })} data-do="bidirectional">${t("V5.bidirectional")}<//>
    <//>
    ${task === "language" && bidirectional && html`<${Note} of="shapes.no_both" kind="warning" />`}
    <div class="columns wide">
      <${Figure} name="shapes" title=${t("shapes.figure", { task: t(`shapes.task_${task}`) })} table=${tableOf(stations)}>
        <${Flow} stations=${stations} label=${t("shapes.describe", { list: stations.map(({ key, shape }) => `${t(`shapes.${key}`)} ${shapeText(shape)}`).join("; ") })} />
      <//>
      <${Figure} name="step-shapes" title=${t("shapes.step_figure")} table=${tableOf(step)}>
        <${Flow} stations=${step} label=${t("shapes.describe", { list: step.map(({ key, shape }) => `${t(`shapes.${key}`)} ${shapeText(shape)}`).join("; ") })} />
      <//>
    </div>
    <${Prose} keys=${["shapes.look", "shapes.exact"]} />
  `;
}

export const view = { id: "shapes", group: "tasks", needs: () => true, View };
