// Why the Transformer took over: what cells cost as sequences grow, from the record of `unrolled compare`.
import { html } from "../html.js";
import { data } from "../content.js";
import { useView } from "../state.js";
import { t } from "../i18n.js";
import { count, fixed, significant } from "../numbers.js";
import { COSTS } from "../toys.js";
import { Chart, Plot } from "../parts/Chart.js";
import { Choice, Controls, Slider } from "../parts/controls.js";
import { Figure } from "../parts/Figure.js";
import { Note, Prose } from "../parts/Note.js";
import { Table } from "../parts/Table.js";
import { LineLegend } from "../parts/strokes.js";

const LOOKS = {
  rnn: { color: "#555555", dash: "4 2 1 2" }, lstm: { color: "#B84A00", dash: "none" }, gru: { color: "#0072B2", dash: "8 3" }, transformer: { color: "#8A4F7D", dash: "10 3 2 3" },
};
// Where a quantity stands in the record, and what a number of it is.
const QUANTITIES = {
  training_seconds: ["training", "seconds", 1e3], training_saved_bytes: ["training", "saved_bytes", 1 / 2 ** 20], token_seconds: ["token", "seconds", 1e3], token_state_bytes: ["token", "state_bytes", 1 / 2 ** 10],
};
const DEFAULTS = { quantity: "training_seconds", T: 1000, d: 512 };
const LIMITS = { quantity: Object.keys(QUANTITIES), T: [10, 8000], d: [16, 2048] };

const middle = (value) => (Array.isArray(value) ? value.toSorted((a, b) => a - b)[Math.floor(value.length / 2)] : value);

/** The points of a cell: [{length, value}], the median of the repetitions. */
function pointsOf(cell, quantity) {
  const [part, name] = QUANTITIES[quantity];
  return (cell.growth?.[part] ?? []).map((point) => ({ length: point.length, value: middle(point[name]) })).filter(({ value }) => value > 0);
}

/** The length from which one cell costs more than another, on straight lines between logarithms; 0 always, null never. */
export function crossing(one, other) {
  const gaps = one.map(({ length, value }, place) => [Math.log(length), Math.log(value / (other[place]?.value ?? NaN))]).filter(([, gap]) => Number.isFinite(gap));
  const first = gaps.findIndex(([, gap]) => gap > 0);
  if (first < 0) return null;
  if (first === 0) return 0;
  const [[a, low], [b, high]] = [gaps[first - 1], gaps[first]];
  return Math.exp(a + ((b - a) * -low) / (high - low));
}

function Growth({ cells, quantity }) {
  const [, , unit] = QUANTITIES[quantity];
  const lines = cells.map((cell) => ({ cell, points: pointsOf(cell, quantity), slope: cell.growth?.exponents?.[quantity]?.tail })).filter(({ points }) => points.length);
  const title = t(`growth.${quantity}`);
  const options = (width) => ({
    height: Math.max(240, Math.min(360, width * 0.45)), marginLeft: 64, marginRight: 36, marginBottom: 42,
    x: { type: "log", label: t("growth.length"), labelAnchor: "center", labelArrow: "none", ticks: lines[0].points.map(({ length }) => length).filter((_, place) => width > 560 || place % 2 === 0), tickFormat: (x) => count(x) },
    y: { type: "log", label: t(`growth.unit_${quantity}`), labelArrow: "none", grid: true, ticks: 5, tickFormat: (y) => significant(y) },
    marks: lines.flatMap(({ cell, points }) => [
      Plot.line(points, { x: "length", y: ({ value }) => value * unit, stroke: LOOKS[cell.cell].color, strokeDasharray: LOOKS[cell.cell].dash, strokeWidth: 2 }),
      Plot.dot(points, { x: "length", y: ({ value }) => value * unit, fill: LOOKS[cell.cell].color, r: 3 }),
    ]),
  });
  const rows = lines.flatMap(({ cell, points }) => points.map(({ length, value }) => [t(`cell.${cell.cell}`), { text: count(length), value: length }, { text: significant(value * unit, 4), value, name: `${quantity}-${cell.cell}-${length}` }]));
  const legend = lines.map(({ cell, slope }) => ({ label: slope === undefined ? t(`cell.${cell.cell}`) : `${t(`cell.${cell.cell}`)}, T^${fixed(slope, 2)}`, ...LOOKS[cell.cell] }));
  if (!lines.length) return html`<p class="note" role="note">${t("growth.nothing")}</p>`;
  return html`<${Figure} name="growth" title=${title} table=${{ caption: title, columns: [t("growth.cell"), t("growth.length"), t(`growth.unit_${quantity}`)], rows }}>
      <${Chart} name="growth" label=${`${title}: ${legend.map(({ label }) => label).join(", ")}`} options=${options} />
    <//>
    <${LineLegend} lines=${legend} />
    <p class="unseen">${lines.map(({ cell, slope }) => slope !== undefined && html`<span key=${cell.cell} data-name=${`exponent-${quantity}-${cell.cell}`} data-value=${slope} />`)}</p>
    <${Crossings} lines=${lines} />`;
}

/** From which length a Transformer costs more than each other cell. */
function Crossings({ lines }) {
  const own = lines.find(({ cell }) => cell.cell === "transformer");
  if (!own) return null;
  return html`<ul>
    ${lines.filter((line) => line !== own).map(({ cell, points }) => {
      const at = crossing(own.points, points);
      const key = at === null ? "growth.never" : at === 0 ? "growth.always" : "growth.from";
      return html`<li key=${cell.cell} data-name=${`crossing-${cell.cell}`} data-value=${at ?? undefined}>${t(key, { cell: t(`cell.${cell.cell}`), length: at ? count(Math.round(at)) : "" })}</li>`;
    })}
  </ul>`;
}

function Contest({ record }) {
  const { name } = record.score;
  const rows = record.cells.map((cell) => [
    t(`cell.${cell.cell}`), { text: count(cell.parameters), value: cell.parameters }, { text: String(cell.hidden), value: cell.hidden },
    { text: significant(cell.score.median, 4), value: cell.score.median, name: `score-${cell.cell}` }, `${significant(cell.score.least, 4)}–${significant(cell.score.largest, 4)}`,
    { text: significant(middle(cell.runs.map((run) => run.seconds)), 3), value: middle(cell.runs.map((run) => run.seconds)), name: `seconds-${cell.cell}` },
  ]);
  const columns = ["cell", "parameters", "units", "median", "spread", "seconds"].map((key) => t(`growth.${key}`));
  const metric = t(`metric.${name}`);
  return html`<${Table} caption=${t("growth.contest", { metric, data: record.data, runs: record.cells[0].runs.length })} columns=${columns} rows=${rows} />`;
}

function Sums({ T, d, set }) {
  const kinds = ["recurrent", "attention"];
  const costs = kinds.map((kind) => COSTS[kind](T, d));
  const rows = ["products", "serial", "way"].map((key) => [t(`growth.${key}`), ...costs.map((cost, place) => ({ text: count(cost[key]), value: cost[key], name: `${key}-${kinds[place]}` }))]);
  return html`<${Controls} label=${t("growth.sizes")}>
      <${Slider} label=${t("growth.T")} name="T" min=${10} max=${8000} step=${10} value=${T} text=${count(T)} onInput=${(to) => set({ T: to })} />
      <${Slider} label=${t("growth.d")} name="d" min=${16} max=${2048} step=${16} value=${d} text=${count(d)} onInput=${(to) => set({ d: to })} />
    <//>
    <${Table} caption=${t("growth.layer")} columns=${["", t("growth.recurrent"), t("growth.attention")]} rows=${rows} />
    <p>${t(T < d ? "growth.less" : T > d ? "growth.more" : "growth.equal", { d: count(d) })}</p>`;
}

function View() {
  const [values, set] = useView("growth", DEFAULTS, LIMITS);
  const record = data.compare;
  return html`
    <${Prose} keys=${["growth.intro"]} />
    <h2>${t("growth.by_count")}</h2>
    <${Sums} T=${values.T} d=${values.d} set=${set} />
    <h2>${t("growth.measured")}</h2>
    <p>${t("growth.machine", { machine: record.machine, date: record.date, torch: record.versions.torch })}</p>
    <${Controls} label=${t("growth.what")}>
      <${Choice} legend=${t("growth.what")} name="quantity" value=${values.quantity} onChoose=${(to) => set({ quantity: to })} options=${Object.keys(QUANTITIES).map((key) => [key, t(`growth.${key}`)])} />
    <//>
    <${Growth} cells=${record.cells} quantity=${values.quantity} />
    <h2>${t("growth.scores")}</h2>
    <${Contest} record=${record} />
    <${Note} of="growth.fair" />
    <${Prose} keys=${["growth.why", "growth.not"]} />
  `;
}

export const view = { id: "growth", group: "tasks", needs: (given) => (given.compare ? true : "growth.needs"), View };
