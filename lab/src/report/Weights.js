// Every parameter; those of recurrent layers by the named blocks of their gates.
import { html } from "../html.js";
import { t } from "../i18n.js";
import { count, significant, number } from "../numbers.js";
import { GATES, gateName } from "../parts/gates.js";
import { Table } from "../parts/Table.js";
import { placeName, shown } from "./words.js";

const cell = (value, name) => ({ text: shown(value), value: value === null ? undefined : number(value), name });

export function Weights({ report }) {
  const rows = report.parameters.flatMap((one) => [
    [one.name, one.shape.join(" × "), { text: count(one.count), value: one.count, name: `parameter-${one.name}` }, "", cell(one.smallest), cell(one.largest), cell(one.deviation)],
    ...(one.blocks ?? []).map((block) => [
      "", t("report.rows", { from: block.rows[0], to: block.rows[1] - 1 }), "", `${block.gate} · ${gateName(block.gate)}`, "", "", cell(block.deviation),
    ]),
  ]);
  const columns = ["name", "shape", "count", "block", "smallest", "largest", "deviation"].map((name) => t(`report.weight_${name}`));
  return html`
    <div class="packed-row">${packedOf(report).map((one) => html`<${Blocks} key=${one.name} of=${one} />`)}</div>
    <details data-print open=${rows.length <= 40}><summary>${t("report.weights_table", { count: report.parameters.length })}</summary>
      <${Table} kind="wide" caption=${t("report.weights_caption")} columns=${columns} rows=${rows} />
    </details>
    ${report.weights && html`<h3>${t("report.radius")}</h3><${Radius} weights=${report.weights} />`}`;
}

/** The two matrices of the first layer that the report looked into. */
function packedOf({ parameters, weights }) {
  const packed = parameters.filter((one) => one.blocks && one.blocks.length > 1 && one.shape.length === 2);
  const own = packed.filter((one) => weights?.length && one.name.startsWith(`${weights.at(-1).name}.`));
  return (own.length ? own : packed).slice(0, 2);
}

/** One packed weight as what it is: blocks of rows, one a gate, in the order in which they are stored. */
function Blocks({ of }) {
  return html`<figure class="packed">
    <figcaption><code>${of.name}</code> ${of.shape.join(" × ")}</figcaption>
    ${of.blocks.map(
      ({ gate, rows }) => html`<div key=${gate} class="block" style=${{ borderColor: GATES[gate].color }}>
        <b style=${{ color: GATES[gate].ink }}>${gate}</b> ${gateName(gate)} <small>${t("report.rows", { from: rows[0], to: rows[1] - 1 })}</small>
      </div>`,
    )}
  </figure>`;
}

function Radius({ weights }) {
  const rows = weights.flatMap((one) => Object.keys(one.largest).map((gate) => [
    placeName(one), `${gate} · ${gateName(gate)}`,
    { text: significant(number(one.largest[gate]), 4), value: number(one.largest[gate]), name: `sigma-${one.name}-${one.layer}-${one.direction}-${gate}` },
    { text: significant(number(one.radius[gate]), 4), value: number(one.radius[gate]), name: `radius-${one.name}-${one.layer}-${one.direction}-${gate}` },
  ]));
  return html`<${Table} kind="wide" caption=${t("report.radius_caption")} columns=${[t("report.layer"), t("report.gate"), t("report.sigma"), t("report.spectral")]} rows=${rows} />`;
}
