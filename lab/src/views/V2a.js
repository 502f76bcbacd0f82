// The same factor again and again: c^N on a scale of powers of ten, and where number formats give up.
import { html } from "../html.js";
import { useView } from "../state.js";
import { t } from "../i18n.js";
import { fixed, plain, significant } from "../numbers.js";
import { firstLost, FORMATS, powerLog10 } from "../math.js";
import { Chart, Plot, powerOfTen, powersOfTen } from "../parts/Chart.js";
import { Button, Controls, Slider } from "../parts/controls.js";
import { Figure } from "../parts/Figure.js";
import { Prose } from "../parts/Note.js";

const DEFAULTS = { c: 0.8, d: 1.5, n: 100 };
const LIMITS = { c: [0, 2], d: [0, 2], n: [1, 500, 1] };
const CURVES = [
  { name: "c", color: "#0072B2", dash: "none" },
  { name: "d", color: "#B84A00", dash: "8 4" },
];
const MARKED = ["float16", "float32"];

/** A number given by its log10, so that 1e−1000 can be said too. */
export function fromLog(log) {
  if (log === -Infinity) return "0";
  if (log > -3 && log < 6) return significant(10 ** log);
  const exponent = Math.floor(log);
  const lead = (10 ** (log - exponent)).toFixed(2);
  return lead === "10.00" ? `1.00e${sign(exponent + 1)}` : `${lead}e${sign(exponent)}`;
}

const sign = (exponent) => (exponent < 0 ? `−${-exponent}` : `+${exponent}`);

const lostOf = (c, format) => {
  const lost = firstLost(c, format);
  return lost ? t(`V2a.lost_${lost.to}`, { format, n: lost.n }) : t("V2a.lost_never", { format });
};

function tableOf({ c, d, n }) {
  const stops = [...new Set([1, 2, 5, 10, 20, 50, 100, 200, 500].filter((step) => step < n)), n];
  const cell = (x, step) => ({ text: fromLog(powerLog10(x, step)), value: powerLog10(x, step), name: "log10" });
  const rows = stops.map((step) => [String(step), cell(c, step), cell(d, step)]);
  const columns = [t("V2a.steps"), t("V2a.column", { c: plain(c) }), t("V2a.column", { c: plain(d) })];
  return { caption: t("V2a.table"), columns, rows };
}

function markersOf({ c, d, n }) {
  return [c, d].flatMap((x, curve) =>
    MARKED.map((format) => ({ ...firstLost(x, format), format, x, curve })).filter((lost) => lost.n <= n),
  );
}

/** A dashed line with its words where a format loses the product; each on a line of its own above the chart. */
function markerMarks(markers, n) {
  const text = (lost) => t(`V2a.mark_${lost.to}`, { format: lost.format, n: lost.n });
  return markers.flatMap((lost, index) => {
    const { color } = CURVES[lost.curve];
    const late = lost.n > n * 0.6;
    return [
      Plot.ruleX([lost.n], { stroke: color, strokeDasharray: "4 3", insetTop: -17 * (index + 1) }),
      Plot.text([lost.n], {
        x: (at) => at, frameAnchor: "top", dy: -17 * (index + 1) + 6, dx: late ? -5 : 5, textAnchor: late ? "end" : "start",
        text: () => text(lost), fill: color, stroke: "#fff", strokeWidth: 5,
      }),
    ];
  });
}

/** Options of the chart; the home page draws it too. */
export function drawing(values, width) {
  const { c, d, n } = values;
  const curves = [c, d].map((x, index) => ({ ...CURVES[index], x, end: powerLog10(x, n) })).filter(({ end }) => Number.isFinite(end));
  const ends = [0, ...curves.map(({ end }) => end)];
  const domain = [Math.min(...ends) - 0.5, Math.max(...ends) + 0.5];
  const markers = markersOf(values);
  const ofCurve = (draw) => curves.map((curve) => draw(curve));
  return {
    height: 330,
    marginLeft: 62,
    marginRight: 26,
    marginTop: 24 + 17 * markers.length,
    marginBottom: 42,
    x: { domain: [0, n], label: t("V2a.steps"), ticks: Math.min(8, Math.floor(width / 80)), labelAnchor: "center", labelArrow: "none" },
    y: { domain, ticks: powersOfTen(domain), tickFormat: powerOfTen, label: null, grid: true },
    marks: [
      Plot.ruleY([0], { stroke: "#555", strokeDasharray: "2 3" }),
      ...ofCurve(({ color, dash, end }) => Plot.line([[0, 0], [n, end]], { stroke: color, strokeDasharray: dash, strokeWidth: 2.5 })),
      ...ofCurve(({ color, name, end }) =>
        Plot.text([[n, end]], { text: () => name, textAnchor: "start", dx: 6, fill: color, fontWeight: 600, fontSize: 15 }),
      ),
      ...markerMarks(markers, n),
    ],
  };
}

function Results({ values }) {
  return html`${["c", "d"].map((name, index) => {
    const log = powerLog10(values[name], values.n);
    return html`<div key=${name}>
      <p class="big" style=${{ color: CURVES[index].color }}>
        <span aria-hidden="true">${index === 0 ? "━━ " : "╍╍ "}</span>
        ${name}: ${plain(values[name])}<sup>${values.n}</sup> = <b data-name=${`power-${name}`} data-value=${10 ** log}>${fromLog(log)}</b>
        <span class="unseen" data-name=${`log-${name}`} data-value=${log}>${fixed(log, 3)}</span>
      </p>
      <ul>
        ${Object.keys(FORMATS).map(
          (format) => html`<li key=${format} data-name=${`lost-${name}-${format}`} data-value=${firstLost(values[name], format)?.n ?? Infinity}>
            ${lostOf(values[name], format)}
          </li>`,
        )}
      </ul>
    </div>`;
  })}`;
}

function View() {
  const [values, set, reset] = useView("V2a", DEFAULTS, LIMITS);
  const slider = (name, step) =>
    html`<${Slider} label=${t(`V2a.${name}`)} name=${name} role=${name === "c" ? "W" : name === "d" ? "U" : undefined} min=${LIMITS[name][0]}
      max=${LIMITS[name][1]} step=${step} value=${values[name]} text=${plain(values[name])} onInput=${(to) => set({ [name]: to })} />`;
  return html`
    <${Prose} keys=${["V2a.intro"]} />
    <${Controls} label=${t("V2a.controls")}>
      ${slider("c", 0.01)} ${slider("d", 0.01)} ${slider("n", 1)}
      <${Button} onClick=${reset} data-do="reset">${t("stepper.reset")}<//>
    <//>
    <${Figure} name="powers" title=${t("V2a.figure")} table=${tableOf(values)}>
      <${Chart} name="powers" label=${t("V2a.describe", { c: plain(values.c), d: plain(values.d), n: values.n })} options=${(width) => drawing(values, width)} />
    <//>
    <div class="columns"><${Results} values=${values} /></div>
    <${Prose} keys=${["V2a.look", "V2a.formats", "V2a.matrices"]} />
  `;
}

export const view = { id: "V2a", group: "basics", needs: () => true, View };
