// Curves over one axis: each has a colour, a pattern and a mark of its own, and the true last number stands below.
import { html } from "../html.js";
import { t } from "../i18n.js";
import { count, number, significant } from "../numbers.js";
import { Chart, Plot } from "./Chart.js";
import { Figure } from "./Figure.js";
import { LineLegend } from "./strokes.js";

const pointsOf = ({ x, y }) => x.map((at, index) => ({ x: number(at), y: number(y[index]) })).filter((point) => Number.isFinite(point.y));

/** Whole numbers only: there is no epoch 1.5. */
function ticksOf(lines, most) {
  const all = lines.flatMap(({ curve }) => curve.x.map(number));
  const [low, high] = [Math.min(...all), Math.max(...all)];
  return high - low <= most ? Array.from({ length: high - low + 1 }, (_, index) => low + index) : most;
}

/** The rows of a table for lines: name, place, number. */
export function rowsOf(lines) {
  return lines.flatMap(({ label, curve }) => curve.x.map((at, index) => [label, number(at), { text: significant(number(curve.y[index]), 6), value: number(curve.y[index]) }]));
}

/**
 * @param {string} name of the figure and of its files
 * @param {Array<{key: string, label: string, curve: {x: number[], y: number[], last: number[], bucketed: boolean, count: number}, color: string, dash: string, thin?: boolean, dots?: boolean}>} lines
 *   a curve as Python gives it
 * @param {string} x label of the axis
 * @param {string} y label of the axis
 * @param {Array<{x?: number, y?: number, label: string}>} rules straight lines
 */
export function Lines({ name, title, lines, x, y, log, rules = [], zero }) {
  const there = lines.filter(({ curve }) => curve && curve.x.length);
  const options = (width) => ({
    height: Math.max(210, Math.min(320, width * 0.42)),
    marginLeft: 62,
    marginBottom: 40,
    x: { label: x, labelAnchor: "center", labelArrow: "none", ticks: ticksOf(there, Math.max(3, Math.round(width / 110))), tickFormat: (at) => count(at) },
    y: { label: y, labelArrow: "none", grid: true, type: log ? "log" : "linear", zero, ticks: 6, tickFormat: (at) => significant(at) },
    marks: [
      ...rules.map((rule) => (rule.x === undefined ? Plot.ruleY : Plot.ruleX)([rule.x ?? rule.y], { stroke: "#555", strokeDasharray: "2 4" })),
      ...there.flatMap(({ curve, color, dash, thin, dots, label }) => {
        const points = pointsOf(curve).filter((point) => !log || point.y > 0);
        return [
          Plot.line(points, { x: "x", y: "y", stroke: color, strokeDasharray: dash, strokeWidth: thin ? 1 : 2, strokeOpacity: thin ? 0.75 : 1 }),
          ...(dots && points.length <= 60 ? [Plot.dot(points, { x: "x", y: "y", fill: color, r: 3 })] : []),
        ];
      }),
    ],
  });
  const table = { caption: title, columns: [t("lines.series"), x, y], rows: rowsOf(there) };
  const thinned = there.find(({ curve }) => curve.bucketed);
  const note = thinned ? t("lines.bucketed", { count: count(thinned.curve.count), shown: count(thinned.curve.x.length) }) : null;
  return html`<${Figure} name=${name} title=${title} table=${table} note=${note}>
      <${Chart} name=${name} label=${`${title}: ${there.map(({ label }) => label).join(", ")}`} options=${options} />
    <//>
    <${LineLegend} lines=${there} />
    <p class="last">
      ${there.map(
        ({ key, label, curve }) => html`<span key=${key}>
          ${label}, ${t("lines.last")} <b data-name=${`${name}-${key}-last`} data-value=${number(curve.last[1])}>${significant(number(curve.last[1]), 5)}</b>
          ${" "}(${x} ${count(number(curve.last[0]))})
        </span>`,
      )}
      ${rules.map(({ label }) => html`<span key=${label}>${label}</span>`)}
    </p>`;
}
