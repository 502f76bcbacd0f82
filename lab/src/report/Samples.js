// What the model says beside what is right, item by item.
import { html } from "../html.js";
import { t } from "../i18n.js";
import { count, number, significant } from "../numbers.js";
import { Chart, Plot } from "../parts/Chart.js";
import { Figure } from "../parts/Figure.js";
import { Table } from "../parts/Table.js";
import { share } from "./words.js";

const KINDS = { label: Label, tags: Tags, text: Text, pair: Pair, forecast: Forecast };

export function Samples({ report }) {
  const { samples } = report;
  if (!samples.length) return html`<p class="note" role="note">${t("report.no_samples")}</p>`;
  return html`<div class="samples">${samples.map((sample, index) => html`<${KINDS[sample.kind]} key=${index} sample=${sample} index=${index} />`)}</div>`;
}

const Mark = ({ ok }) => html`<b class=${ok ? "fine" : "wrong"}>${ok ? `✓ ${t("report.ok")}` : `✗ ${t("report.wrong")}`}</b>`;

function Label({ sample }) {
  return html`<article class="sample">
    <p class="where">${sample.where} · ${t("report.steps_long", { count: count(sample.steps) })} · <${Mark} ok=${sample.ok} /></p>
    ${sample.text !== null && html`<p class="quoted" dir="auto">${sample.text}</p>`}
    <p>${t("report.right")}: <b>${sample.right}</b></p>
    <ul class="top">
      ${sample.top.map(
        ([name, p]) => html`<li key=${name}><span class="bar" style=${{ width: `${Math.round(90 * number(p))}px` }} /> <span>${name} ${share(p)}</span></li>`,
      )}
    </ul>
  </article>`;
}

function Tags({ sample }) {
  const { tokens, right, said } = sample;
  return html`<article class="sample">
    <p class="where">${sample.where} · ${t("report.wrong_of", { wrong: count(sample.wrong), steps: count(sample.steps) })}</p>
    <p class="tagged">
      ${right.map((tag, index) => {
        const ok = tag === said[index];
        return html`<span key=${index} class=${ok ? "" : "off"}>
          <span dir="auto">${tokens ? tokens[index] : index + 1}</span>
          <small>${ok ? tag : `✗ ${said[index]} → ${tag}`}</small>
        </span>`;
      })}
    </p>
  </article>`;
}

function Text({ sample }) {
  const begins = sample.text.startsWith(sample.prompt);
  return html`<article class="sample">
    <p class="where">${t("report.temperature", { temperature: significant(sample.temperature), seed: sample.seed })}</p>
    <pre class="written" dir="auto" tabindex="0" role="region" aria-label=${t("report.temperature", { temperature: significant(sample.temperature), seed: sample.seed })}>${begins && html`<mark>${sample.prompt}</mark>`}${begins ? sample.text.slice(sample.prompt.length) : sample.text}</pre>
  </article>`;
}

function Pair({ sample }) {
  return html`<article class="sample">
    <p class="where">${sample.where} · <${Mark} ok=${sample.ok} /></p>
    <dl class="pair">
      <dt>${t("report.source")}</dt><dd dir="auto">${sample.source ?? t("report.steps_long", { count: count(sample.steps) })}</dd>
      <dt>${t("report.right")}</dt><dd dir="auto">${sample.right}</dd>
      <dt>${t("report.said_by_model")}</dt><dd dir="auto">${sample.said}${sample.stopped === "limit" && html` <i>${t("report.stopped")}</i>`}</dd>
    </dl>
  </article>`;
}

function Forecast({ sample, index }) {
  const { times, origin, actual, forecast, low, high, levels } = sample;
  const came = actual.map((y, x) => ({ x, y: y === null ? NaN : number(y) }));
  const ahead = forecast.map((y, step) => ({ x: origin + step, y: number(y), low: low && number(low[step]), high: high && number(high[step]) }));
  const title = t("report.forecast_of", { id: sample.id, from: times[origin] });
  const options = (width) => ({
    height: 220, marginLeft: 58,
    x: { ticks: [0, origin, times.length - 1].filter((at, place, all) => width > 500 || place !== 1 || all.length < 3), tickFormat: (at) => times[at] ?? "", label: null },
    y: { grid: true, label: null },
    marks: [
      ...(low ? [Plot.areaY(ahead, { x: "x", y1: "low", y2: "high", fill: "#0072B2", fillOpacity: 0.18 })] : []),
      Plot.ruleX([origin], { stroke: "#555", strokeDasharray: "2 4" }),
      Plot.line(came, { x: "x", y: "y", stroke: "#333", strokeWidth: 1.5 }),
      Plot.line(ahead, { x: "x", y: "y", stroke: "#0072B2", strokeDasharray: "8 3", strokeWidth: 2 }),
    ],
  });
  const rows = times.map((time, at) => {
    const made = ahead[at - origin];
    const cells = [actual[at], ...(made ? [made.y, made.low, made.high] : [null, null, null])];
    return [time, ...cells.map((value) => (value === null || value === undefined ? "" : { text: significant(number(value), 5), value: number(value) }))];
  });
  const columns = [t("report.time"), t("report.came"), t("report.forecast"), ...(levels ?? ["", ""]).map((level) => (level === "" ? "–" : t("report.quantile", { level })))];
  return html`<${Figure} name=${`forecast-${index}`} title=${title} table=${{ caption: title, columns, rows }}
    note=${levels ? t("report.forecast_note", { low: levels[0], high: levels[1] }) : t("report.forecast_point")}>
    <${Chart} name=${`forecast-${index}`} label=${title} options=${options} />
  <//>`;
}
