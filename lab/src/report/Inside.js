// Gates and gradients while the model trained: what the looks in metrics.jsonl saw, layer by layer.
import { html } from "../html.js";
import { t } from "../i18n.js";
import { count, fixed, number, significant } from "../numbers.js";
import { unpack } from "../packed.js";
import { Chart, Plot } from "../parts/Chart.js";
import { ColorBar } from "../parts/colors.js";
import { Choice, Controls, Select } from "../parts/controls.js";
import { Figure } from "../parts/Figure.js";
import { GATES, GateLegend, gateName } from "../parts/gates.js";
import { Heatmap } from "../parts/Heatmap.js";
import { Note } from "../parts/Note.js";
import { Lines } from "../parts/Lines.js";
import { placeName, share } from "./words.js";

const place = (layer) => [layer.name, layer.layer, layer.direction].join("/");
const curveOf = (x, y) => {
  const kept = y.map((value, index) => [x[index], value]).filter(([, value]) => value !== null);
  return { x: kept.map(([at]) => at), y: kept.map(([, value]) => value), last: kept.at(-1) ?? [0, "nan"], bucketed: false, count: kept.length };
};

export function Inside({ report, values, set }) {
  const { looks } = report;
  if (!looks) return html`<${Note} of="report.no_looks" />`;
  const layer = looks.layers.find((one) => place(one) === values.layer) ?? looks.layers[0];
  const gates = Object.keys(layer.saturated);
  const gate = gates.includes(values.gate) ? values.gate : gates[0];
  return html`
    <p>${t("report.looks", { count: count(looks.steps.length), first: count(looks.steps[0]), last: count(looks.steps.at(-1)) })}</p>
    <${Controls} label=${t("report.choose_layer")}>
      <${Select} label=${t("report.layer")} name="layer" value=${place(layer)} options=${looks.layers.map((one) => [place(one), placeName(one)])} onChoose=${(to) => set({ layer: to })} />
      <${Choice} legend=${t("report.gate")} name="gate" value=${gate} options=${gates.map((one) => [one, `${one} · ${gateName(one)}`])} onChoose=${(to) => set({ gate: to })} />
    <//>
    <${Ends} looks=${looks} layer=${layer} gates=${gates} />
    ${layer.histogram[gate] && html`<${Histogram} looks=${looks} layer=${layer} gate=${gate} />`}
    <${Back} looks=${looks} layer=${layer} />
    ${layer.half_life && html`<${Lines} name="half-life" title=${t("report.half_life", { place: placeName(layer) })} x=${t("report.step")} y=${t("report.half_life_axis")} log
      lines=${[{ key: "half-life", label: t("report.half_life_line"), curve: curveOf(looks.steps, layer.half_life), ...GATES.f, dots: true }]} />`}
    <${Lines} name="norms" title=${t("report.norms", { place: placeName(layer) })} x=${t("report.step")} y="σ" zero
      lines=${gates.map((one) => ({ key: one, label: `${one} · ${gateName(one)}`, curve: curveOf(looks.steps, layer.norm[one]), ...GATES[one], color: GATES[one].ink, dots: true }))} />
    <p class="note" role="note">${t("report.norms_note")}</p>
  `;
}

/** Share of a gate's values at its two ends, over training. */
function Ends({ looks, layer, gates }) {
  const sides = ["low", "high"];
  const points = (gate, side) => looks.steps.map((x, index) => ({ x, y: number(layer.saturated[gate][side][index] ?? "nan") })).filter(({ y }) => Number.isFinite(y));
  const panel = (side) => (width) => ({
    height: 210,
    marginLeft: 52,
    marginTop: 32,
    marginBottom: 40,
    x: { label: t("report.step"), labelAnchor: "center", labelArrow: "none", ticks: looks.steps.length < 2 ? looks.steps : Math.max(3, Math.round(width / 110)), tickFormat: (at) => count(at) },
    y: { domain: [0, 1], label: t(`report.share_${side}`), labelArrow: "none", grid: true, tickFormat: (y) => `${Math.round(100 * y)} %` },
    marks: gates.flatMap((gate) => [
      Plot.line(points(gate, side), { x: "x", y: "y", stroke: GATES[gate].color, strokeDasharray: GATES[gate].dash, strokeWidth: 2 }),
      Plot.text(points(gate, side).slice(-1), { x: "x", y: "y", text: () => gate, dx: 9, fill: GATES[gate].ink, fontWeight: 700 }),
    ]),
  });
  const rows = looks.steps.flatMap((step, index) => gates.map((gate) => [
    count(step), gate, ...sides.map((side) => {
      const value = number(layer.saturated[gate][side][index] ?? "nan");
      return { text: Number.isNaN(value) ? "" : share(value), value: Number.isNaN(value) ? undefined : value, name: `ends-${gate}-${side}-${index}` };
    }),
  ]));
  const title = t("report.ends", { place: placeName(layer) });
  return html`<${Figure} name="gates" title=${title}
      table=${{ caption: title, columns: [t("report.step"), t("report.gate"), t("report.share_low"), t("report.share_high")], rows }} note=${t("report.ends_note")}>
      <div class="beside">${sides.map((side) => html`<${Chart} key=${side} name=${`gates-${side}`} label=${`${title}: ${t(`report.share_${side}`)}`} options=${panel(side)} />`)}</div>
    <//>
    <${GateLegend} gates=${gates} />`;
}

function Histogram({ looks, layer, gate }) {
  const table = unpack(layer.histogram[gate]);
  const [from, to] = ["g", "n", "h"].includes(gate) ? [-1, 1] : [0, 1];
  const edge = (row) => from + ((to - from) * row) / table.rows;
  const flip = (row) => table.rows - 1 - row;
  const domain = [0, Math.max(table.high, 1e-9)];
  const say = (row, column) => t("report.histogram_cell", {
    from: fixed(edge(flip(row)), 2), to: fixed(edge(flip(row) + 1), 2), step: count(looks.steps[column]), share: share(table.at(flip(row), column)),
  });
  return html`<${Tiles} name="histogram" title=${t("report.histogram", { gate: gateName(gate), place: placeName(layer) })} rows=${table.rows} looks=${looks}
    at=${(row, column) => table.at(flip(row), column)} domain=${domain} say=${say} label=${t("report.share")}
    rowLabels=${Array.from({ length: table.rows }, (_, row) => fixed(edge(flip(row)), 1))} rowTitle=${t("report.bin")} />`;
}

/** How a gradient shrinks or grows on its way back, look after look. */
function Back({ looks, layer }) {
  const table = unpack(layer.gradient);
  if (!table.rows) return null;
  const say = (row, column) => t("report.back_cell", { lag: row, step: count(looks.steps[column]), value: significant(10 ** table.at(row, column)) });
  return html`<${Tiles} name="flow" title=${t("report.back", { place: placeName(layer) })} rows=${table.rows} looks=${looks} at=${table.at}
      domain=${[table.low, table.high]} say=${say} label=${t("report.back_label")} rowLabels=${Array.from({ length: table.rows }, (_, row) => String(row))} rowTitle=${t("report.lag")} />
    <${Note} of="report.back_note" />`;
}

/** A heat over the looks: columns are looks, rows are bins or lags. */
function Tiles({ name, title, rows, looks, at, domain, say, label, rowLabels, rowTitle }) {
  const columns = looks.steps.length;
  const cell = { width: Math.max(8, Math.min(34, Math.floor(760 / columns))), height: 15 };
  const body = Array.from({ length: rows }, (_, row) => looks.steps.map((step, column) => [rowLabels[row], count(step), { text: significant(at(row, column), 4), value: at(row, column), name: `${name}-${row}-${column}` }])).flat();
  return html`<${Figure} name=${name} title=${title} table=${{ caption: title, columns: [rowTitle, t("report.step"), label], rows: body }}>
    <${Heatmap} name=${name} label=${title} rows=${rows} columns=${columns} at=${at} scale="size" domain=${domain} say=${say} rowLabels=${rowLabels}
      columnLabels=${looks.steps.map((step) => short(step))} cell=${cell} />
    <${ColorBar} scale="size" domain=${domain} label=${label} />
  <//>`;
}

const short = (step) => (step >= 1000 ? `${significant(step / 1000, 2)}k` : String(step));
