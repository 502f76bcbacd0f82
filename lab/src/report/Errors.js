// Where the model is wrong: confusions, costly tokens, edits, errors by the step ahead.
import { html } from "../html.js";
import { t } from "../i18n.js";
import { count, fixed, number, significant } from "../numbers.js";
import { Chart, Plot } from "../parts/Chart.js";
import { Figure } from "../parts/Figure.js";
import { Table } from "../parts/Table.js";
import { share, shown } from "./words.js";

const KINDS = { labels: Confusions, tags: Confusions, tokens: Tokens, edits: Edits, steps: Steps };

export function Errors({ report }) {
  const { errors } = report;
  if (!errors) return html`<p class="note" role="note">${t("report.no_errors")}</p>`;
  return html`<${KINDS[errors.kind]} errors=${errors} />`;
}

const visible = (token) => (token === null ? "∅" : token.replaceAll("\n", "↵").replaceAll("\t", "⇥").replace(/^ +$/, (spaces) => "␣".repeat(spaces.length)));

/** A table of counts; the darker a cell, the larger its share of the row. */
function Confusions({ errors }) {
  const { names, counts } = errors;
  const sums = counts.map((row) => row.reduce((sum, x) => sum + x, 0));
  const label = (name) => (name === null ? t("report.others") : name);
  const shade = (part) => ({ background: `rgba(0, 114, 178, ${(0.5 * part).toFixed(3)})` });
  const rows = errors.by_name.map(({ name, count: seen, precision, recall }) => [
    name, seen, ...[precision, recall].map((value) => (value === null ? "" : { text: share(value), value })),
  ]);
  return html`
    <p>${t("report.right_of", { right: count(errors.right), scored: count(errors.scored) })}</p>
    <div class="table-box whole" tabindex="0" role="region" aria-label=${t("report.confusions")}>
      <table class="confusions">
        <caption>${t("report.confusions_caption")}</caption>
        <thead><tr><th scope="col">${t("report.right_said")}</th>${names.map((name, column) => html`<th key=${column} scope="col">${label(name)}</th>`)}</tr></thead>
        <tbody>
          ${counts.map(
            (row, index) => html`<tr key=${index}><th scope="row">${label(names[index])}</th>
              ${row.map((x, column) => html`<td key=${column} class=${`number ${index === column ? "diagonal" : ""}`} style=${x ? shade(x / sums[index]) : {}}
                data-name=${`confusion-${index}-${column}`} data-value=${x}>${x ? count(x) : "·"}</td>`)}</tr>`,
          )}
        </tbody>
      </table>
    </div>
    <details data-print><summary>${t("report.by_name", { count: rows.length })}</summary>
      <${Table} caption=${t("report.by_name_caption")} columns=${[t("report.name"), t("report.count"), t("report.precision"), t("report.recall")]} rows=${rows} />
    </details>
    ${errors.words?.length > 0 && html`<h3>${t("report.words")}</h3>
      <${Table} caption=${t("report.words_caption")} columns=${[t("report.word"), t("report.right"), t("report.said_by_model"), t("report.count")]}
        rows=${errors.words.map((one) => [one.word, one.right, one.said, one.count])} />`}`;
}

/** Bars with their numbers: [{label, value, text}]. */
function Bars({ name, title, bars, x, y, columns, rows }) {
  const options = (width) => ({
    height: 220, marginLeft: 56, marginBottom: 44,
    x: { label: x, domain: bars.map(({ label }) => label), tickRotate: bars.length > width / 60 ? -40 : 0, labelAnchor: "center", labelArrow: "none" },
    y: { label: y, grid: true, labelArrow: "none" },
    marks: [Plot.barY(bars, { x: "label", y: "value", fill: "#0072B2" }), Plot.ruleY([0])],
  });
  return html`<${Figure} name=${name} title=${title} table=${{ caption: title, columns, rows }}>
    <${Chart} name=${name} label=${title} options=${options} />
  <//>`;
}

const range = ({ from, to }) => (from === to ? String(from) : `${from}–${to}`);

function Tokens({ errors }) {
  const bars = errors.positions.map((part) => ({ label: range(part), value: number(part.mean) }));
  const rows = errors.positions.map((part, index) => [range(part), part.count, { text: fixed(number(part.mean), 3), value: number(part.mean), name: `position-${index}` }]);
  return html`
    <${Bars} name="positions" title=${t("report.positions")} bars=${bars} x=${t("report.position")} y=${t("report.nats_token")}
      columns=${[t("report.position"), t("report.count"), t("report.nats_token")]} rows=${rows} />
    <p class="note" role="note">${t("report.positions_note")}</p>
    <h3>${t("report.costly")}</h3>
    <${Table} caption=${t("report.costly_caption", { scored: count(errors.scored) })} columns=${[t("report.token"), t("report.count"), t("report.nats_token"), t("report.share_nats")]}
      rows=${errors.tokens.map((one, index) => [visible(one.token), one.count, { text: significant(number(one.mean), 4), value: number(one.mean), name: `token-${index}` }, { text: share(one.share), value: number(one.share) }])} />`;
}

function Edits({ errors }) {
  const bars = errors.lengths.map((part) => ({ label: range(part), value: part.token_error_rate }));
  const rows = errors.lengths.map((part, index) => [range(part), part.items, { text: share(part.exact_match), value: part.exact_match }, { text: share(part.token_error_rate), value: part.token_error_rate, name: `length-${index}` }]);
  return html`
    <p>${t("report.edits_of", { total: count(errors.total), scored: count(errors.scored) })}</p>
    <${Bars} name="lengths" title=${t("report.lengths")} bars=${bars} x=${t("report.source_length")} y=${t("report.error_rate")}
      columns=${[t("report.source_length"), t("report.sources"), t("metric.exact_match"), t("report.error_rate")]} rows=${rows} />
    <h3>${t("report.edits")}</h3>
    <${Table} caption=${t("report.edits_caption")} columns=${[t("report.right"), t("report.said_by_model"), t("report.count")]}
      rows=${errors.edits.map((one, index) => [visible(one.right), visible(one.said), { text: count(one.count), value: one.count, name: `edit-${index}` }])} />`;
}

function Steps({ errors }) {
  const { steps, series } = errors;
  const bars = steps.map((part) => ({ label: part.ahead, value: number(part.mae) }));
  const several = errors.levels.length > 1;
  const rows = steps.map((part) => [
    String(part.ahead), part.count, { text: shown(part.mae), value: number(part.mae), name: `ahead-${part.ahead}` }, { text: shown(part.bias), value: number(part.bias) },
    ...(several ? [{ text: share(part.coverage), value: number(part.coverage), name: `coverage-${part.ahead}` }] : []),
  ]);
  const columns = [t("report.ahead"), t("report.count"), t("metric.mae"), t("report.bias"), ...(several ? [t("metric.coverage")] : [])];
  return html`
    <${Bars} name="ahead" title=${t("report.by_step")} bars=${bars} x=${t("report.ahead")} y=${t("metric.mae")} columns=${columns} rows=${rows} />
    <details data-print><summary>${t("report.by_step_table")}</summary>
      <${Table} caption=${several ? t("report.by_step_caption", { low: errors.levels[0], high: errors.levels.at(-1) }) : t("report.by_step")} columns=${columns} rows=${rows} />
    </details>
    <h3>${t("report.by_series")}</h3>
    <${Table} caption=${t("report.by_series_caption")} columns=${[t("report.series"), t("report.forecasts"), t("metric.mae"), t("report.relative")]}
      rows=${series.map((one, index) => [one.id, one.forecasts, { text: shown(one.mae), value: number(one.mae), name: `series-${index}` }, { text: shown(one.relative), value: number(one.relative) }])} />`;
}
