// Gradient through time: the norm of the gradient of the loss at step t with regard to the state at step k.
import { useMemo } from "preact/hooks";
import { html } from "../html.js";
import { announce, useView } from "../state.js";
import { t } from "../i18n.js";
import { labelled, needsModels, placeLabel, stepNames, useModels, within } from "../models.js";
import { fixed, significant } from "../numbers.js";
import { unpack } from "../packed.js";
import { Chart, Plot, powerOfTen } from "../parts/Chart.js";
import { ColorBar } from "../parts/colors.js";
import { Controls, Select, Slider, Toggle } from "../parts/controls.js";
import { Figure } from "../parts/Figure.js";
import { Heatmap } from "../parts/Heatmap.js";
import { Ask } from "../parts/ModelChoice.js";
import { Prose } from "../parts/Note.js";
import { LineLegend, strokeOf } from "../parts/strokes.js";

const DEFAULTS = { shown: "all", target: -1, k: -1, fix: true };
const DEEPEST = 12; // decades below the largest that still get a colour of their own

/** A triangle a layer of each chosen model. float32 where the page has it, else bytes. */
function trianglesOf(models) {
  const names = labelled(models);
  return models.flatMap((model, index) => {
    const layers = model.flow?.layers ?? [];
    return layers.map((layer) => {
      const item = model.items[model.flow.item] ?? null;
      const label = layers.length > 1 ? `${names[index]}, ${placeLabel(layer, layers)}` : names[index];
      const table = unpack(layer.exact ?? layer.log10);
      return { label, layer, item, table, low: table.low, high: table.high, exact: Boolean(layer.exact), targets: layer.targets, cuts: layer.cuts };
    });
  });
}

/** Colours go down to a limit, so that a few tiny numbers do not take all of them. */
function domainOf(triangles) {
  const high = Math.max(...triangles.map((one) => one.high));
  const low = Math.min(...triangles.map((one) => one.low));
  return [Math.max(low, high - DEEPEST), high];
}

const namesOf = ({ item, table }) => (item && item.steps === table.columns ? stepNames(item) : Array.from({ length: table.columns }, (_, k) => String(k + 1)));

/** A norm: 0 where it is exactly that, a power of ten where it is small. */
function normText(exponent) {
  if (Number.isNaN(exponent)) return t("V8.none");
  return exponent === -Infinity ? t("V8.zero") : significant(10 ** exponent);
}

function sayOf(triangle) {
  const tokens = namesOf(triangle);
  return (row, column) => {
    const exponent = triangle.table.at(row, column);
    const target = triangle.targets[row];
    const values = { t: target + 1, k: column + 1, token: tokens[column], value: normText(exponent) };
    if (Number.isNaN(exponent)) return t("V8.say_none", values);
    return t(exponent === -Infinity ? "V8.say_zero" : "V8.say", { ...values, exponent: exponent === -Infinity ? "" : fixed(exponent, 3) });
  };
}

/** The row of the target that is asked for, or the nearest above it that this triangle has. */
function rowOf({ targets }, target) {
  if (target < 0) return targets.length - 1;
  const place = targets.findIndex((one) => one >= target);
  return place < 0 ? targets.length - 1 : place;
}

function triangleTable(triangle) {
  const { table, targets } = triangle;
  const tokens = namesOf(triangle);
  const columns = [t("V8.column_target"), ...tokens.map((token, k) => `${k + 1} ${token}`)];
  const rows = targets.map((target, row) => [
    String(target + 1),
    ...tokens.map((_, k) => {
      const exponent = table.at(row, k);
      return Number.isNaN(exponent) ? "" : { text: normText(exponent), value: 10 ** exponent };
    }),
  ]);
  return { caption: t("V8.table", { name: triangle.label }), columns, rows };
}

function Triangle({ triangle, domain, values, set }) {
  const { table, label, targets, cuts } = triangle;
  const tokens = namesOf(triangle);
  const row = rowOf(triangle, values.target);
  const wide = Math.max(6, Math.min(14, Math.floor(900 / table.columns)));
  const choose = (spot) => {
    set({ target: targets[spot.row], k: spot.column });
    announce(sayOf(triangle)(spot.row, spot.column));
  };
  const selected = { row, column: values.k < 0 ? table.columns - 1 : within(values.k, tokens) };
  const short = tokens.every((token) => [...token].length <= 2);
  return html`<${Figure} name=${`flow-${label}`} title=${label} table=${triangleTable(triangle)}>
    <${Heatmap} name="flow" label=${t("V8.map", { name: label })} rows=${targets.length} columns=${table.columns} at=${(r, c) => visibleNorm(table.at(r, c))}
      scale="size" domain=${domain} say=${sayOf(triangle)} selected=${selected} onSelect=${choose} lines=${cuts}
      rowLabels=${targets.map((target) => String(target + 1))} columnLabels=${short && wide > 9 ? tokens : []} cell=${{ width: wide, height: Math.max(4, wide - 5) }} />
    <${ColorBar} scale="size" domain=${domain} label=${t("V8.bar", { low: normText(triangle.low), high: normText(triangle.high) })} />
    ${cuts.length > 0 && html`<p class="note" role="note" data-name="cuts" data-value=${cuts.length}>${t("V8.cuts", { steps: cuts.map((one) => one + 1).join(", ") })}</p>`}
    ${triangle.layer.skipped > 0 && html`<p class="note" role="note">${t("V8.skipped", { shown: targets.length, all: targets.length + triangle.layer.skipped })}</p>`}
  <//>`;
}

/** A gradient of exactly 0 has the colour of the lowest end, not that of an empty cell. */
const visibleNorm = (exponent) => (exponent === -Infinity ? -1e9 : exponent);

function lineOptions(triangles, values) {
  return (width) => ({
    height: 260, marginLeft: 56, marginBottom: 40,
    x: { label: t("V8.axis_k"), labelAnchor: "center", ticks: Math.min(10, Math.round(width / 70)) },
    y: { label: t("V8.axis_norm"), grid: true, tickFormat: (x) => (Number.isInteger(x) ? powerOfTen(x) : "") },
    marks: triangles.map((triangle, index) => {
      const row = rowOf(triangle, values.target);
      const points = Array.from({ length: triangle.table.columns }, (_, k) => ({ k: k + 1, y: triangle.table.at(row, k) })).filter(({ y }) => Number.isFinite(y));
      const { color, dash } = strokeOf(index);
      return Plot.line(points, { x: "k", y: "y", stroke: color, strokeWidth: 2.5, strokeDasharray: dash });
    }),
  });
}

/** The row of one target, every model beside the others. */
function Row({ triangles, values, set }) {
  const first = triangles[0];
  const row = rowOf(first, values.target);
  const target = first.targets[row];
  const columns = [t("V8.column_k"), ...triangles.map(({ label }) => label)];
  const rows = namesOf(first).slice(0, target + 1).map((token, k) => [
    `${k + 1} ${token}`,
    ...triangles.map((triangle, index) => {
      const exponent = k < triangle.table.columns ? triangle.table.at(rowOf(triangle, values.target), k) : NaN;
      return { text: normText(exponent), value: 10 ** exponent, name: `norm-${index}-${k}` };
    }),
  ]);
  const toRow = (to) => {
    set({ target: first.targets[to] });
    announce(t("V8.say_row", { t: first.targets[to] + 1 }));
  };
  const lines = triangles.map(({ label }, index) => ({ label, ...strokeOf(index) }));
  return html`<h2>${t("V8.row", { t: target + 1 })}</h2>
    <${Controls} label=${t("V8.target")}>
      <${Slider} label=${t("V8.target")} name="target" min=${0} max=${first.targets.length - 1} step=${1} value=${row} text=${t("V8.at_target", { t: target + 1 })} onInput=${toRow} />
    <//>
    <${Figure} name="flow-row" title=${t("V8.row_figure", { t: target + 1 })} table=${{ caption: t("V8.row_table", { t: target + 1 }), columns, rows }}
      note=${triangles.every(({ exact }) => exact) ? t("V8.exact") : t("V8.rounded")}>
      <${LineLegend} lines=${lines} />
      <${Chart} name="flow-row" label=${t("V8.row_figure", { t: target + 1 })} options=${lineOptions(triangles, values)} />
    <//>
    ${triangles.map((triangle) => {
      const at = rowOf(triangle, values.target);
      const k = values.k < 0 ? Math.max(0, triangle.targets[at] - 10) : within(values.k, namesOf(triangle));
      return html`<p key=${triangle.label} class="arithmetic">${triangle.label}: ${sayOf(triangle)(at, k)}</p>`;
    })}`;
}

function choicesOf(models) {
  const names = labelled(models);
  const usable = models.map((model, index) => [String(index), names[index], model]).filter(([, , model]) => model.flow?.layers?.length);
  const groups = [["all", t("V8.all")]];
  if (models.some(({ demo }) => demo) && models.some(({ demo }) => !demo)) groups.push(["demo", t("V8.demo")]);
  return [...groups, ...usable.map(([key, name]) => [key, name])];
}

function View() {
  const models = useModels();
  const choices = choicesOf(models);
  const [values, set] = useView("V8", DEFAULTS, { shown: choices.map(([key]) => key) });
  const { shown } = values;
  const chosen = models.filter((model, index) => shown === "all" || shown === String(index) || (shown === "demo" && model.demo));
  const triangles = useMemo(() => trianglesOf(chosen), [models, shown, t("V8.all")]);
  const common = domainOf(triangles);
  return html`
    <${Prose} keys=${["V8.intro"]} />
    <${Ask} />
    <${Controls} label=${t("V8.controls")}>
      <${Select} label=${t("V8.shown")} name="shown" value=${shown} options=${choices} onChoose=${(to) => set({ shown: to })} />
      <${Toggle} pressed=${values.fix} onToggle=${(fix) => set({ fix })} data-do="fix">${t("V8.fix")}<//>
    <//>
    <p>${t(values.fix ? "V8.fixed" : "V8.own")}</p>
    ${triangles.map((triangle) => html`<${Triangle} key=${triangle.label} triangle=${triangle} domain=${values.fix ? common : domainOf([triangle])} values=${values} set=${set} />`)}
    <${Row} triangles=${triangles} values=${values} set=${set} />
    <${Prose} keys=${["V8.meaning"]} />
  `;
}

export const view = {
  id: "V8", group: "model", needs: needsModels((model) => model.flow?.layers?.length, "models.none"), View,
};
