// Products of Jacobians of real networks: what one step's state still says about a later one, by the distance.
import { html } from "../html.js";
import { announce, useView } from "../state.js";
import { t } from "../i18n.js";
import { data } from "../content.js";
import { labelled, needsModels, placeLabel, useModels } from "../models.js";
import { count, fixed, number, significant } from "../numbers.js";
import { Chart, Plot, powerOfTen, powersOfTen } from "../parts/Chart.js";
import { Choice, Controls, Select, Slider } from "../parts/controls.js";
import { Figure } from "../parts/Figure.js";
import { Ask } from "../parts/ModelChoice.js";
import { Note, Prose } from "../parts/Note.js";
import { LineLegend, strokeOf } from "../parts/strokes.js";
import { Table } from "../parts/Table.js";

const MEASURES = ["largest", "median", "frobenius", "bound", "per_step"];
const DEFAULTS = { lag: 20, measure: "largest", shown: "all" };

/** One line a model, layer and path; the nets that are linear at rest come last. */
function seriesOf(models, nets) {
  const names = labelled(models);
  const found = models.flatMap((model, index) => {
    const layers = model.jacobians?.layers ?? [];
    const places = layers.filter((one) => one.path === "state");
    return layers.map((one) => {
      const parts = [names[index], places.length > 1 && placeLabel(one, places), layers.some(({ path }) => path === "cell") && t(`V2c.path_${one.path}`)];
      return { key: `${index}`, from: index, label: parts.filter(Boolean).join(", "), ...lookOfPath(index, one.path), numbers: one };
    });
  });
  const linear = nets.flatMap((net, index) =>
    net.jacobians.map((one) => ({
      key: "linear", label: t("V2c.linear", { scale: net.scale }), ...strokeOf(models.length + index), numbers: one,
    })),
  );
  return [...found, ...linear];
}

/** The path through the cell alone has its model's colour, and a pattern and width of its own. */
function lookOfPath(index, path) {
  return path === "cell" ? { ...strokeOf(index), dash: "1 4" } : strokeOf(index);
}

const isLog = (measure) => measure !== "per_step";

const pointsOf = ({ numbers, label }, measure) =>
  numbers.lags.map((lag, index) => ({ lag, y: number(numbers[measure][index]), series: label })).filter(({ y }) => Number.isFinite(y));

/** The axis of logarithms, labelled with powers of ten. */
function logAxis(series, measure) {
  const values = series.flatMap((one) => pointsOf(one, measure).map(({ y }) => y));
  const ends = [Math.min(0, ...values), Math.max(0, ...values)];
  return { domain: [Math.floor(ends[0]), Math.ceil(ends[1])], ticks: powersOfTen(ends), tickFormat: powerOfTen };
}

function optionsOf(series, measure, lag) {
  return (width) => ({
    height: 320,
    marginLeft: 56,
    marginBottom: 40,
    x: { label: t("V2c.axis_lag"), labelAnchor: "center", ticks: Math.min(10, Math.round(width / 70)) },
    y: { label: t(`V2c.axis_${measure}`), grid: true, ...(isLog(measure) ? logAxis(series, measure) : { zero: true }) },
    marks: [
      ...(isLog(measure) ? [Plot.ruleY([0], { strokeOpacity: 0.5 })] : [Plot.ruleY([1], { strokeOpacity: 0.5 })]),
      Plot.ruleX([lag], { stroke: "#0b57a4", strokeOpacity: 0.6 }),
      ...series.map((one) =>
        Plot.line(pointsOf(one, measure), {
          x: "lag", y: "y", stroke: one.color, strokeWidth: 2.5, strokeDasharray: one.dash,
        }),
      ),
    ],
  });
}

/** The last lag that this series has, up to the one asked for. */
function placeOf({ numbers }, lag) {
  const within = numbers.lags.filter((one) => one <= lag);
  return Math.max(0, within.length - 1);
}

/** 10 to the power that was computed: a word where there is no number, the power alone where it is too small or large. */
function valueText(exponent) {
  if (Number.isNaN(exponent) || exponent === Infinity) return fixed(exponent);
  if (exponent === -Infinity) return "0";
  return Math.abs(exponent) < 300 ? significant(10 ** exponent) : `10^${fixed(exponent, 1)}`;
}

const cellOf = (exponent, name) => ({ text: valueText(exponent), value: 10 ** exponent, name });

/** The middle singular value may lie so far below the largest that rounding hides it. */
function medianOf(exponent, largest, name) {
  const hidden = Number.isNaN(exponent) && Number.isFinite(largest);
  return hidden ? { text: t("V2c.hidden"), value: NaN, name } : cellOf(exponent, name);
}

function rowsAt(series, lag) {
  return series.map((one, index) => {
    const place = placeOf(one, lag);
    const { numbers } = one;
    const of = (measure) => number(numbers[measure][place]);
    return [
      one.label, { text: String(numbers.lags[place] ?? "–"), value: numbers.lags[place] },
      cellOf(of("largest"), `largest-${index}`), medianOf(of("median"), of("largest"), `median-${index}`), cellOf(of("frobenius"), `frobenius-${index}`),
      { text: significant(of("per_step")), value: of("per_step"), name: `per_step-${index}` }, cellOf(of("bound"), `bound-${index}`),
    ];
  });
}

const COLUMNS = ["largest", "median", "frobenius", "per_step", "bound"];
const headings = () => [t("V2c.column_series"), t("V2c.column_lag"), ...COLUMNS.map((name) => t(`V2c.measure_${name}`))];

function tableOf(series) {
  const rows = series.flatMap((one) => one.numbers.lags.map((lag) => rowsAt([one], lag)[0].map((cell) => (cell.name ? { ...cell, name: undefined } : cell))));
  return { caption: t("V2c.table"), columns: headings(), rows };
}

/** σ_max = 10^−1.23 = 0.0589 after 20 steps; a step multiplies by 0.868. */
function Sentences({ series, lag }) {
  return html`<ul class="sentences" aria-label=${t("V2c.at_lag")}>
    ${series.map((one) => {
      const place = placeOf(one, lag);
      const exponent = number(one.numbers.largest[place]);
      const values = { name: one.label, lag: one.numbers.lags[place], exponent: fixed(exponent, 3), value: valueText(exponent), step: significant(number(one.numbers.per_step[place])) };
      return html`<li key=${one.label} class="arithmetic">${t("V2c.sentence", values)}</li>`;
    })}
  </ul>`;
}

/** What clipping did in training, and what it cannot do. */
function Clipping({ models }) {
  const names = labelled(models);
  const seen = models.map((model, index) => ({ ...model.clipping, name: names[index], there: Boolean(model.clipping) })).filter(({ there }) => there);
  if (!seen.length) return null;
  const some = (touched) => (touched.length > 8 ? `${touched.slice(0, 8).join(", ")}, …` : touched.join(", "));
  const say = ({ name, limit, seen, touched, largest }) => {
    const values = { name, limit: limit ?? "", seen: count(seen), count: touched.length, steps: some(touched), largest: significant(number(largest)) };
    if (limit === null) return t("V2c.clip_none", values);
    return t(touched.length ? "V2c.clip_some" : "V2c.clip_never", values);
  };
  const points = seen.flatMap(({ name, touched }) => touched.map((step) => ({ name, step })));
  return html`<h2>${t("V2c.clip")}</h2>
    <${Note} of="V2c.clip_cannot" />
    <ul>${seen.map((one) => html`<li key=${one.name} data-name="clip" data-value=${one.touched.length}>${say(one)}</li>`)}</ul>
    ${points.length > 0 &&
    html`<${Figure} name="clipping" title=${t("V2c.clip_figure")}
      table=${{ caption: t("V2c.clip_figure"), columns: [t("V2c.column_series"), t("V2c.column_step")], rows: points.map(({ name, step }) => [name, step]) }}>
      <${Chart} name="clipping" label=${t("V2c.clip_figure")}
        options=${() => ({
          height: 70 + 26 * seen.length, marginLeft: 110, marginBottom: 40, x: { label: t("V2c.column_step"), labelAnchor: "center" }, y: { label: null, domain: seen.map(({ name }) => name) },
          marks: [Plot.dot(points, { x: "step", y: "name", stroke: "#b84a00", symbol: "diamond", r: 5 })],
        })} />
    <//>`}`;
}

function View() {
  const models = useModels();
  const nets = data.tasks?.linear ?? [];
  const all = seriesOf(models, nets);
  const names = labelled(models);
  const choices = [["all", t("V2c.all")], ...names.map((name, index) => [String(index), name]), ...(nets.length ? [["linear", t("V2c.nets")]] : [])];
  const longest = Math.max(...all.map(({ numbers }) => numbers.lags.at(-1) ?? 1));
  const [{ lag, measure, shown }, set] = useView("V2c", DEFAULTS, { lag: [1, longest], measure: MEASURES, shown: choices.map(([key]) => key) });
  const series = all.filter((one) => (shown === "all" ? one.key !== "linear" : one.key === shown));
  const drawn = series.length ? series : all;
  const at = Math.round(lag);
  const toLag = (to) => {
    set({ lag: to });
    announce(t("V2c.say", { lag: to, name: drawn[0].label, value: valueText(number(drawn[0].numbers.largest[placeOf(drawn[0], to)])) }));
  };
  return html`
    <${Prose} keys=${["V2c.intro"]} />
    <${Ask} />
    <${Controls} label=${t("V2c.controls")}>
      <${Select} label=${t("V2c.shown")} name="shown" value=${shown} options=${choices} onChoose=${(to) => set({ shown: to })} />
      <${Choice} legend=${t("V2c.measure")} name="measure" value=${measure} options=${MEASURES.map((key) => [key, t(`V2c.measure_${key}`)])} onChoose=${(to) => set({ measure: to })} />
      <${Slider} label=${t("V2c.lag")} name="lag" min=${1} max=${longest} step=${1} value=${at} text=${t("V2c.steps_back", { lag: at })} onInput=${toLag} />
    <//>
    <${Figure} name="jacobians" title=${t("V2c.figure")} table=${tableOf(drawn)} note=${t("V2c.not_finite")}>
      <${LineLegend} lines=${drawn} />
      <${Chart} name="jacobians" label=${t("V2c.chart", { lag: at })} options=${optionsOf(drawn, measure, at)} />
    <//>
    <${Sentences} series=${drawn} lag=${at} />
    <${Table} caption=${t("V2c.numbers")} columns=${headings()} rows=${rowsAt(drawn, at)} />
    <${Prose} keys=${["V2c.look", "V2c.paths", "V2c.bound"]} />
    <${Clipping} models=${models} />
  `;
}

export const view = {
  id: "V2c", group: "model", needs: needsModels((model) => model.jacobians?.layers?.length, "models.none"), View,
};
