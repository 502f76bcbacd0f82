// Saturation: how often each unit of a gate is nearly shut, and how often nearly open.
import { html } from "../html.js";
import { announce, useView } from "../state.js";
import { t } from "../i18n.js";
import { needsModels, startOf, useModels, within } from "../models.js";
import { count, fixed, number, plain } from "../numbers.js";
import { countsOf, movable, placeOf, totals } from "../saturation.js";
import { Chart, Plot } from "../parts/Chart.js";
import { Choice, Controls, Slider } from "../parts/controls.js";
import { Figure } from "../parts/Figure.js";
import { GATES, GateLegend, gateName } from "../parts/gates.js";
import { Ask, ModelSelect, PlaceSelect } from "../parts/ModelChoice.js";
import { Prose } from "../parts/Note.js";

const DEFAULTS = { model: -1, layer: 0, gate: "", low: 0.1, high: 0.9 };
const SIGNED = ["h", "g", "n"]; // come out of a tanh: their lower end is −high
const percent = (share) => `${fixed(100 * share, 0)} %`;

/** Where the ends begin for this gate. A relu's lower end is 0 itself. */
function endsOf(layer, name, { low, high }) {
  if (layer.kind === "rnn_relu") return { low: 0, high: Infinity };
  return SIGNED.includes(name) ? { low: -high, high } : { low, high };
}

/** Counts of each unit at the chosen thresholds; at Python's own where these stand, or cannot be moved. */
function seenOf(layer, name, values) {
  const gate = layer.gates[name];
  const ends = endsOf(layer, name, values);
  const [low, high] = layer.thresholds;
  const moved = (values.low !== low || values.high !== high) && movable(gate) && layer.kind !== "rnn_relu";
  const at = moved ? { left: placeOf(gate, ends.low), right: placeOf(gate, ends.high) } : undefined;
  const counts = countsOf(gate, at);
  // Counts exist at the edges of the histogram: say the edge that was taken, where it is not the number asked for.
  const taken = at ? { low: gate.edges[at.left], high: gate.edges[at.right] } : ends;
  return { gate, ends: taken, counts, total: totals(gate, counts) };
}

/** "forget gate: at its lower end 3 % of the time, at its upper end 62 %" in numbers of this place. */
function Summary({ layer, values }) {
  return html`<ul class="sentences">
    ${Object.keys(layer.gates).map((name) => {
      const { total, ends } = seenOf(layer, name, values);
      const said = { gate: gateName(name), left: percent(total.left), right: percent(total.right), low: plain(ends.low), high: plain(ends.high) };
      return html`<li key=${name} data-gate=${name}>
        <b style=${{ color: GATES[name].ink }}>${GATES[name].letter}</b> ${t(SIGNED.includes(name) ? "V7.sum_signed" : "V7.sum_gate", said)}
        <span class="unseen" data-name=${`left-${name}`} data-value=${total.left} /><span class="unseen" data-name=${`right-${name}`} data-value=${total.right} />
      </li>`;
    })}
  </ul>`;
}

/** Units at the same place are one larger dot. */
function dotsOf({ gate, counts }) {
  const places = new Map();
  counts.left.forEach((left, unit) => {
    const key = `${left},${counts.right[unit]}`;
    const spot = places.get(key) ?? { left: left / gate.count, right: counts.right[unit] / gate.count, units: [] };
    spot.units.push(unit);
    places.set(key, spot);
  });
  return [...places.values()];
}

function scatter(dots, name) {
  return (width) => {
    const side = Math.min(width, 400);
    return {
      width: side, height: side - 10, marginLeft: 50, marginBottom: 42,
      x: { domain: [0, 1], label: t("V7.axis_left"), labelAnchor: "center", tickFormat: percent, ticks: 5 },
      y: { domain: [0, 1], label: t("V7.axis_right"), tickFormat: percent, ticks: 5, grid: true },
      r: { range: [4, 13], domain: [1, 40] },
      marks: [
        Plot.link([0], { x1: 0, y1: 1, x2: 1, y2: 0, stroke: "#8c959f", strokeDasharray: "4 3" }),
        Plot.dot(dots, { x: "left", y: "right", r: (one) => one.units.length, fill: GATES[name].color, fillOpacity: 0.55, stroke: GATES[name].ink, title: (one) => t("V7.dot", { units: one.units.slice(0, 12).join(", "), left: percent(one.left), right: percent(one.right) }) }),
      ],
    };
  };
}

function histogram(layer, names) {
  const bars = names.flatMap((name) => {
    const { from, to, counts } = layer.gates[name].histogram;
    const all = counts.reduce((sum, one) => sum + one, 0) || 1;
    const width = (number(to) - from) / counts.length;
    return counts.map((one, index) => ({ gate: name, x1: from + index * width, x2: from + (index + 1) * width, share: one / all }));
  });
  return (width) => ({
    height: 70 + 88 * names.length, marginLeft: 52, marginRight: 34, marginBottom: 40,
    x: { label: t("V7.axis_value"), labelAnchor: "center", ticks: Math.min(10, Math.round(width / 60)) },
    y: { label: t("V7.axis_share"), tickFormat: percent, ticks: 3, grid: true },
    fy: { label: null, domain: names, tickFormat: (name) => GATES[name].letter },
    marks: [
      ...names.map((name) => Plot.rectY(bars.filter(({ gate }) => gate === name), { x1: "x1", x2: "x2", y: "share", fy: "gate", fill: GATES[name].color, insetLeft: 0.5, insetRight: 0.5 })),
      Plot.ruleY([0]),
    ],
  });
}

function histogramTable(layer, names) {
  const rows = names.flatMap((name) => {
    const { from, to, counts } = layer.gates[name].histogram;
    const width = (number(to) - from) / counts.length;
    return counts.map((one, index) => [name, fixed(from + index * width, 2), fixed(from + (index + 1) * width, 2), one]);
  });
  return { caption: t("V7.histogram"), columns: [t("V7.column_gate"), t("V7.column_from"), t("V7.column_to"), t("V7.column_count")], rows };
}

function Scatter({ seen, name }) {
  const { gate, counts } = seen;
  const rows = counts.left.map((left, unit) => [
    String(unit), { text: count(left), value: left, name: `count-left-${unit}` }, { text: count(counts.right[unit]), value: counts.right[unit], name: `count-right-${unit}` }, gate.count,
    { text: percent(left / gate.count), value: left / gate.count, name: `share-left-${unit}` }, { text: percent(counts.right[unit] / gate.count), value: counts.right[unit] / gate.count, name: `share-right-${unit}` },
  ]);
  const columns = ["unit", "left", "right", "steps", "share_left", "share_right"].map((key) => t(`V7.column_${key}`));
  return html`<${Figure} name=${`saturation-${name}`} title=${t("V7.figure", { gate: gateName(name) })} table=${{ caption: t("V7.table", { gate: gateName(name) }), columns, rows }} note=${t("V7.read")}>
    <${Chart} name="saturation" label=${t("V7.chart", { gate: gateName(name) })} options=${scatter(dotsOf(seen), name)} />
  <//>`;
}

/** Half-lives of what units keep, where the cell has a gate that keeps. */
function HalfLives({ layer }) {
  if (!layer.half_life) return null;
  const lives = layer.half_life.units.map(number);
  const sorted = lives.filter((one) => !Number.isNaN(one)).sort((a, b) => a - b);
  if (!sorted.length) return null;
  const middle = sorted[(sorted.length - 1) >> 1];
  const said = { gate: gateName(layer.half_life.gate), median: fixed(middle, 1), largest: fixed(sorted.at(-1), 1) };
  return html`<p class="note" role="note" data-name="half-life" data-value=${middle}>${t("V7.half_life", said)}</p>`;
}

function View() {
  const models = useModels();
  const [values, set] = useView("V7", DEFAULTS, { low: [0.05, 0.5], high: [0.5, 0.95] });
  const model = models[values.model < 0 ? startOf(models) : within(values.model, models)];
  const layer = model.layers[within(values.layer, model.layers)];
  const names = Object.keys(layer.gates);
  const name = names.includes(values.gate) ? values.gate : (["f", "z", "h"].find((one) => names.includes(one)) ?? names[0]);
  const seen = seenOf(layer, name, values);
  const free = movable(layer.gates[name]) && layer.kind !== "rnn_relu";
  const slide = (key) => (to) => {
    set({ [key]: to });
    const { total } = seenOf(layer, name, { ...values, [key]: to });
    announce(t("V7.say", { gate: gateName(name), left: percent(total.left), right: percent(total.right) }));
  };
  return html`
    <${Prose} keys=${["V7.intro"]} />
    <${Ask} />
    <${Controls} label=${t("V7.controls")}>
      <${ModelSelect} models=${models} value=${models.indexOf(model)} onChoose=${(to) => set({ model: to, layer: 0 })} />
      <${PlaceSelect} places=${model.layers} value=${within(values.layer, model.layers)} onChoose=${(to) => set({ layer: to })} />
      <${Choice} legend=${t("V7.gate")} name="gate" value=${name} options=${names.map((one) => [one, `${GATES[one].letter}: ${gateName(one)}`])} onChoose=${(to) => set({ gate: to })} />
    <//>
    ${free &&
    html`<${Controls} label=${t("V7.thresholds")}>
      <${Slider} label=${t("V7.low")} name="low" min=${0.05} max=${0.5} step=${0.05} value=${values.low} text=${fixed(values.low, 2)} onInput=${slide("low")} />
      <${Slider} label=${t("V7.high")} name="high" min=${0.5} max=${0.95} step=${0.05} value=${values.high} text=${fixed(values.high, 2)} onInput=${slide("high")} />
    <//>`}
    <p>${t("V7.counted", { steps: count(layer.gates[name].count), units: layer.gates[name].left.length })}</p>
    <${Summary} layer=${layer} values=${values} />
    <${Scatter} seen=${seen} name=${name} />
    <${HalfLives} layer=${layer} />
    <${Figure} name="gate-values" title=${t("V7.histogram")} table=${histogramTable(layer, names)}>
      <${GateLegend} gates=${names} />
      <${Chart} name="histogram" label=${t("V7.histogram")} options=${histogram(layer, names)} />
    <//>
    <${Prose} keys=${["V7.meaning"]} />
  `;
}

export const view = {
  id: "V7", group: "model", needs: needsModels((model) => model.layers?.length, "models.none"), View,
};
