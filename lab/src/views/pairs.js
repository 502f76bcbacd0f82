// Teacher forcing beside free running: one word through a trained encoder–decoder, step by step in two rows.
import { html } from "../html.js";
import { data } from "../content.js";
import { announce, useView } from "../state.js";
import { t } from "../i18n.js";
import { fixed, number, significant } from "../numbers.js";
import { unpack } from "../packed.js";
import { SCHEDULES } from "../toys.js";
import { Chart, Plot } from "../parts/Chart.js";
import { ColorBar, colorOf } from "../parts/colors.js";
import { Controls, Select } from "../parts/controls.js";
import { Figure } from "../parts/Figure.js";
import { Note, Prose } from "../parts/Note.js";
import { Scroll } from "../parts/Scroll.js";
import { Stepper } from "../parts/Stepper.js";
import { Table } from "../parts/Table.js";
import { LineLegend, STROKES } from "../parts/strokes.js";

const DEFAULTS = { item: 0, step: 0 };
const LIMITS = { item: [0, 99, 1], step: [0, 99, 1] };
const WAYS = ["forced", "free"];
const percent = (p) => `${significant(100 * number(p), 3)} %`;
const endless = (token) => (token === "<end>" ? "■" : token);

function Row({ way, item, step }) {
  const row = item[way];
  const steps = Math.max(item.forced.reads.length, item.free.reads.length);
  const made = Math.min(step, row.reads.length);
  const cells = (name, values, mark) => html`<tr>
    <th scope="row">${t(`pairs.${name}`)}</th>
    ${Array.from({ length: steps }, (_, at) => (at < made ? html`<td key=${at} class=${mark?.(at) ?? ""} data-name=${`${way}-${name}-${at}`}>${endless(values[at])}</td>` : html`<td key=${at} class="hidden">${at < row.reads.length ? "?" : ""}</td>`))}
  </tr>`;
  const right = (at) => (row.writes[at] === item.target[at] ? "fine" : "off");
  const fed = (at) => (at > 0 && row.reads[at] !== item.target[at - 1] ? "off" : "");
  return html`<section class="decoder" data-way=${way}>
    <h3>${t(`pairs.${way}`)}</h3>
    <${Scroll} label=${t(`pairs.${way}`)}><table class="steps">
      <thead><tr><th scope="col">${t("pairs.step")}</th>${Array.from({ length: steps }, (_, at) => html`<th key=${at} scope="col">${at + 1}</th>`)}</tr></thead>
      <tbody>
        ${cells("reads", row.reads, fed)}
        ${cells("writes", row.writes, right)}
        ${cells("wanted", [...item.target, ...Array(steps).fill("–")])}
      </tbody>
    </table><//>
    ${made > 0 && html`<${Choices} row=${row} at=${made - 1} way=${way} />`}
  </section>`;
}

/** The three likeliest tokens of the newest step. */
function Choices({ row, at, way }) {
  return html`<ul class="top">
    ${row.top[at].map(([token, p], place) => html`<li key=${place}><span class="bar" style=${{ width: `${Math.round(110 * number(p))}px` }} />
      <span data-name=${`${way}-p-${place}`} data-value=${number(p)}>${endless(token)} ${percent(p)}</span></li>`)}
  </ul>`;
}

function Looks({ item, step }) {
  const paint = colorOf("size", [0, 1]);
  const heats = WAYS.map((way) => [way, item[way]]).filter(([, row]) => row.attention);
  if (!heats.length) return null;
  const rows = heats.flatMap(([way, row]) => {
    const table = unpack(row.attention);
    return Array.from({ length: Math.min(step, table.rows) }, (_, at) => [`${t(`pairs.${way}`)} ${at + 1}`, endless(row.writes[at]), ...item.source.map((_, place) => ({ text: fixed(table.at(at, place), 2), value: table.at(at, place), name: `attention-${way}-${at}-${place}` }))]);
  });
  const table = { caption: t("pairs.attention"), columns: [t("pairs.step"), t("pairs.writes"), ...item.source], rows };
  const size = { width: 34, height: 24 };
  return html`<${Figure} name="attention" title=${t("pairs.attention")} table=${table}>
    <div class="beside">
      ${heats.map(([way, row]) => {
        const table = unpack(row.attention);
        const shown = Math.min(step, table.rows);
        const [width, height] = [70 + item.source.length * size.width, 26 + table.rows * size.height];
        return html`<div key=${way}><b>${t(`pairs.${way}`)}</b><${Scroll} label=${t(`pairs.${way}`)}><svg class="picture looks" width=${width} height=${height} viewBox=${`0 0 ${width} ${height}`} role="img" aria-label=${t("pairs.attention_of", { way: t(`pairs.${way}`) })}>
          ${item.source.map((letter, place) => html`<text key=${place} x=${70 + (place + 0.5) * size.width} y="16">${letter}</text>`)}
          ${Array.from({ length: shown }, (_, at) => html`<g key=${at}>
            <text class="row" x="62" y=${26 + at * size.height + 17}>${endless(row.writes[at])}</text>
            ${item.source.map((_, place) => html`<rect key=${place} x=${70 + place * size.width} y=${26 + at * size.height} width=${size.width - 1} height=${size.height - 1} fill=${paint(table.at(at, place))} />`)}
          </g>`)}
        </svg><//></div>`;
      })}
    </div>
    <${ColorBar} scale="size" domain=${[0, 1]} label=${t("pairs.weight")} />
  <//>`;
}

/** How often the decoder reads the right token, epoch by epoch, under scheduled sampling. */
function Sampling() {
  const epochs = 10;
  const kinds = [["linear", { epochs }], ["exponential", { k: 0.9 }], ["inverse_sigmoid", { k: 5 }]];
  const points = (kind, constants) => Array.from({ length: 41 }, (_, index) => ({ x: (index * epochs) / 40, y: SCHEDULES[kind]((index * epochs) / 40, constants) }));
  const options = () => ({
    height: 220, marginLeft: 52, marginBottom: 40, x: { label: t("pairs.epochs"), labelAnchor: "center", labelArrow: "none" }, y: { domain: [0, 1], grid: true, label: t("pairs.truth"), labelArrow: "none" },
    marks: kinds.map(([kind, constants], place) => Plot.line(points(kind, constants), { x: "x", y: "y", stroke: STROKES[place].color, strokeDasharray: STROKES[place].dash, strokeWidth: 2 })),
  });
  const rows = Array.from({ length: epochs + 1 }, (_, done) => [String(done), ...kinds.map(([kind, constants]) => {
    const value = SCHEDULES[kind](done, constants);
    return { text: fixed(value), value, name: `${kind}-${done}` };
  })]);
  const names = kinds.map(([kind]) => t(`pairs.${kind}`));
  return html`<${Figure} name="sampling" title=${t("pairs.sampling")} table=${{ caption: t("pairs.sampling"), columns: [t("pairs.epochs"), ...names], rows }}>
      <${Chart} name="sampling" label=${`${t("pairs.sampling")}: ${names.join(", ")}`} options=${options} />
    <//>
    <${LineLegend} lines=${names.map((label, place) => ({ label, ...STROKES[place] }))} />`;
}

function View() {
  const [values, set] = useView("pairs", DEFAULTS, LIMITS);
  const { items, name } = data.tasks.pairs;
  const at = Math.min(values.item, items.length - 1);
  const item = items[at];
  const length = Math.max(item.forced.reads.length, item.free.reads.length);
  const step = Math.min(values.step, length);
  const errors = item.forced.writes.filter((token, place) => token !== item.target[place]).length;
  const toStep = (to) => {
    set({ step: to });
    if (to > 0) announce(t("pairs.say", { step: to, forced: endless(item.forced.writes[to - 1] ?? "–"), free: endless(item.free.writes[to - 1] ?? "–") }));
  };
  const words = items.map((one, place) => [place, one.source.join("")]);
  return html`
    <${Prose} keys=${["pairs.intro"]} values=${{ name }} />
    <${Controls} label=${t("pairs.word")}><${Select} label=${t("pairs.word")} name="item" value=${at} options=${words} onChoose=${(to) => set({ item: to, step: 0 })} /><//>
    <${Stepper} length=${length} step=${step} onStep=${toStep} />
    ${WAYS.map((way) => html`<${Row} key=${way} way=${way} item=${item} step=${step} />`)}
    ${step === length
      ? html`<p class="note" role="note">${t("pairs.result", { errors, tokens: item.target.length, edits: item.edits })}
          <span class="unseen" data-name="forced-errors" data-value=${errors} /><span class="unseen" data-name="free-edits" data-value=${item.edits} />
          <span class="unseen" data-name="nats" data-value=${item.forced.nats} /></p>`
      : html`<p class="note" role="note">${t("pairs.open")}</p>`}
    ${step > 0 && html`<${Looks} item=${item} step=${step} />`}
    <${Note} of="pairs.exact" />
    <${Sampling} />
    <${Prose} keys=${["pairs.look"]} />
  `;
}

export const view = { id: "pairs", group: "tasks", needs: (given) => (given.tasks?.pairs ? true : "pairs.needs"), View };
