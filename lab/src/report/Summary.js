// What came of the run: the scores beside the baselines, what to look at, what it was asked.
import { html } from "../html.js";
import { t } from "../i18n.js";
import { count, significant } from "../numbers.js";
import { Table } from "../parts/Table.js";
import { findingText, metricName, shown } from "./words.js";

const exact = (name, value) => ({ text: shown(value), value, name });

export function Scores({ report }) {
  const { result } = report;
  if (!result) return html`<p class="note" role="note">${t("report.no_result")}</p>`;
  const baselines = Object.keys(result.baselines);
  const rows = result.rows.map(([name, , value, others]) => [
    metricName(name),
    exact(`metric-${name}`, value),
    ...others.map((other, index) => (other === null ? "" : exact(`metric-${name}-${index}`, other))),
  ]);
  return html`<${Table} caption=${t("report.scored", { data: result.data, items: count(result.items), unit: t(`unit.${result.unit}`) })}
      columns=${[t("report.metric"), t("report.model"), ...baselines]} rows=${rows} />
    ${result.published.map(
      ([what, figure, source]) => html`<p key=${what} class="published">${t("report.published")} <b>${figure}</b> <span lang="en">${what} (${source})</span></p>`,
    )}
    ${result.notes.length > 0 && html`<ul class="remarks" lang="en">${result.notes.map((note) => html`<li key=${note}>${note}</li>`)}</ul>`}`;
}

export function Findings({ report }) {
  return html`<ul class="findings">
    ${report.findings.map(
      (finding, index) => html`<li key=${index} class=${finding.level} data-finding=${finding.key}>
        <b>${t(`report.level_${finding.level}`)}</b> ${findingText(finding)}
      </li>`,
    )}
  </ul>`;
}

export function Facts({ report }) {
  const { training, score } = report;
  const facts = [
    ["parameters", count(training.parameters), training.parameters],
    ["steps", count(training.steps), training.steps],
    ["epochs", t("report.epochs_of", { done: training.epochs, asked: training.asked_epochs }), training.epochs],
    ["best_epoch", training.best_epoch ?? "–", training.best_epoch],
    ["seconds", t("report.seconds_long", { seconds: significant(training.seconds, 4) }), training.seconds],
    ["seed", String(report.seed), report.seed],
  ];
  return html`<dl class="facts">
    <div><dt>${t("report.task")}</dt><dd>${t(`task.${report.task}`)}</dd></div>
    <div><dt>${t("report.cell")}</dt><dd>${t(`cell.${report.cell}`)}</dd></div>
    ${score && html`<div><dt>${t("report.best_valid", { metric: metricName(score.name) })}</dt><dd data-name="score" data-value=${score.value}>${shown(score.value)}</dd></div>`}
    ${facts.map(([name, text, value]) => html`<div key=${name}><dt>${t(`report.${name}`)}</dt><dd data-name=${name} data-value=${value}>${text}</dd></div>`)}
  </dl>`;
}

export function Repeat({ report }) {
  const { versions, recipe, changed } = report;
  const own = new Set(changed);
  const machine = [...Object.entries(versions), ["engine", report.engine], ["threads", String(report.threads)]];
  const rows = Object.entries(recipe).map(([name, value]) => [
    name,
    value === null ? "none" : Array.isArray(value) ? value.join(", ") : String(value),
    own.has(name) ? t("report.changed") : "",
  ]);
  return html`<p>${t("report.repeat_how")} <code>unrolled train --recipe recipe.toml</code></p>
    <${Table} caption=${t("report.versions")} columns=${[t("report.what"), t("report.value")]} rows=${machine.map(([name, value]) => [t(`report.version_${name}`), { text: String(value), name: `version-${name}` }])} />
    <details data-print>
      <summary>${t("report.recipe", { count: rows.length })}</summary>
      <${Table} caption=${t("report.recipe_caption")} columns=${[t("report.field"), t("report.value"), t("report.default")]} rows=${rows} />
    </details>`;
}
