// Hidden states on a text: units by steps as a map, one unit over the text, and which units are on inside a part of it.
import { useMemo } from "preact/hooks";
import { html } from "../html.js";
import { announce, useView } from "../state.js";
import { t } from "../i18n.js";
import { needsModels, startOf, stepNames, useModels, within } from "../models.js";
import { fixed, significant } from "../numbers.js";
import { unpack } from "../packed.js";
import { controls, ordered, ranked } from "../ranking.js";
import { ColorBar } from "../parts/colors.js";
import { Controls, Select, Slider } from "../parts/controls.js";
import { Figure } from "../parts/Figure.js";
import { GATES, gateName } from "../parts/gates.js";
import { Heatmap } from "../parts/Heatmap.js";
import { Ask, ItemSelect, ModelSelect, PlaceSelect } from "../parts/ModelChoice.js";
import { Note, Prose } from "../parts/Note.js";
import { ShadedText } from "../parts/ShadedText.js";
import { Table } from "../parts/Table.js";

const DEFAULTS = { model: -1, item: 0, layer: 0, what: "h", order: "similarity", unit: -1, step: 0, threshold: 0.3, from: 8, to: 13, seed: 1 };
const ORDERS = ["similarity", "variance", "number"];
const SIGNED = ["h", "c", "g", "n"];
const SHOWN = 5; // units that are ranked, and units of chance beside them

function tableOf(state, what) {
  if (what === "h" || what === "c") return state[what];
  return state.gates[what];
}

/** What there is to look at in this layer: h, c of an LSTM, and the gates. */
const kindsOf = (state) => ["h", ...(state.c ? ["c"] : []), ...Object.keys(state.gates)];

const kindName = (what) => (what === "c" ? t("V6.cell_state") : gateName(what));

/** Gates go from 0 to 1; what is signed is shown from −m to m, so that white is 0. */
function domainOf(table, what) {
  if (!SIGNED.includes(what)) return { scale: "size", domain: [0, 1] };
  const most = Math.max(Math.abs(table.low), Math.abs(table.high)) || 1;
  return { scale: "signed", domain: [-most, most] };
}

/** Everything that the view needs of one table, worked out once. */
function useTable(state, what, order) {
  return useMemo(() => {
    const table = unpack(tableOf(state, what));
    const rows = ordered(table, order);
    return { table, rows, units: rows.map((row) => state.units[row]), ...domainOf(table, what) };
  }, [state, what, order]);
}

function StateMap({ name, seen, tokens, unit, step, set, what }) {
  const { table, rows, units, scale, domain } = seen;
  const at = (row, column) => table.at(rows[row], column);
  const say = (row, column) =>
    t("V6.say", { token: tokens[column], step: column + 1, unit: units[row], kind: kindName(what), value: fixed(at(row, column), 4) });
  const small = table.rows * table.columns > 2000;
  const longest = Math.max(...tokens.map((token) => [...token].length), 1);
  const cell = { width: small ? 11 : Math.min(14 + 6 * (longest - 1), 60), height: small ? 11 : 14 };
  const csv = { caption: t("V6.table", { kind: kindName(what) }), columns: [t("V6.column_unit"), ...tokens.map((token, index) => `${index + 1} ${token}`)], rows: [] };
  csv.rows = rows.map((row, place) => [String(units[place]), ...tokens.map((_, column) => ({ text: fixed(table.at(row, column), 3), value: table.at(row, column) }))]);
  const share = (100 * table.error) / (table.high - table.low || 1);
  return html`<${Figure} name=${`states-${name}`} title=${t("V6.figure", { kind: kindName(what) })} table=${csv}
    note=${t("V6.precision", { error: significant(table.error, 2), share: significant(share, 2) })}>
    <${Heatmap} name="states" label=${t("V6.map", { kind: kindName(what) })} rows=${table.rows} columns=${table.columns} at=${at} scale=${scale} domain=${domain}
      say=${say} selected=${unit === null ? undefined : { row: units.indexOf(unit), column: step }}
      onSelect=${(spot) => set({ unit: units[spot.row], step: spot.column })} rowLabels=${units.map(String)} columnLabels=${longest > 6 ? [] : tokens} cell=${cell} />
    <${ColorBar} scale=${scale} domain=${domain} label=${t("V6.range", { low: significant(table.low), high: significant(table.high) })} />
  <//>`;
}

/** One unit over the text. */
function OverText({ item, tokens, seen, unit, what, step }) {
  const { table, rows, units, scale, domain } = seen;
  const row = rows[units.indexOf(unit)];
  const at = (column) => table.at(row, column);
  const shown = Math.min(step, table.columns - 1);
  return html`<h2>${t("V6.over_text", { unit, kind: kindName(what) })}</h2>
    <${ShadedText} tokens=${item.tokens ?? tokens} at=${at} scale=${scale} domain=${domain} apart=${(item.tokens ?? tokens).some((token) => [...token].length > 1)}
      label=${t("V6.over_text", { unit, kind: kindName(what) })} name="shaded" marks=${(column) => (column === shown ? { class: "looked" } : {})} />
    <p class="arithmetic" data-name="cell" data-value=${at(shown)}>
      ${t("V6.say", { token: tokens[shown], step: shown + 1, unit, kind: kindName(what), value: fixed(at(shown), 4) })}
    </p>`;
}

const percent = (part, whole) => (whole ? `${fixed((100 * part) / whole, 0)} %` : "–");

/** Threshold and range: the units that are on inside and off outside, beside units of chance. */
function Ranking({ seen, tokens, values, set }) {
  const { table, units, rows } = seen;
  const last = table.columns - 1;
  const from = within(values.from, tokens);
  const to = Math.max(within(values.to, tokens), from);
  const order = ranked(table, values.threshold, from, to);
  const best = order.slice(0, SHOWN);
  const chance = controls(order.slice(SHOWN), SHOWN, values.seed);
  const unitOf = (row) => units[rows.indexOf(row)];
  const size = to - from + 1;
  const line = (kind) => (one, place) => [
    `${unitOf(one.row)}`, t(`V6.${kind}`), { text: `${one.inside} / ${size} (${percent(one.inside, size)})`, value: one.inside, name: `${kind}-inside-${place}` },
    { text: `${one.outside} / ${table.columns - size} (${percent(one.outside, table.columns - size)})`, value: one.outside, name: `${kind}-outside-${place}` },
    { text: fixed(one.difference, 2), value: one.difference, name: `${kind}-difference-${place}` },
  ];
  const columns = [t("V6.column_unit"), t("V6.column_kind"), t("V6.column_inside"), t("V6.column_outside"), t("V6.column_difference")];
  const ends = (index) => t("V6.at_token", { step: index + 1, token: tokens[index] });
  return html`<h2>${t("V6.which")}</h2>
    <${Prose} keys=${["V6.which_how"]} />
    <${Controls} label=${t("V6.which")}>
      <${Slider} label=${t("V6.threshold")} name="threshold" min=${-1} max=${1} step=${0.05} value=${values.threshold} text=${fixed(values.threshold, 2)} onInput=${(threshold) => set({ threshold })} />
      <${Slider} label=${t("V6.from")} name="from" min=${0} max=${last} step=${1} value=${from} text=${ends(from)} onInput=${(x) => set({ from: x, to: Math.max(x, to) })} />
      <${Slider} label=${t("V6.to")} name="to" min=${0} max=${last} step=${1} value=${to} text=${ends(to)} onInput=${(x) => set({ to: x, from: Math.min(x, from) })} />
      <${Slider} label=${t("V6.draw")} name="seed" min=${1} max=${50} step=${1} value=${values.seed} text=${String(values.seed)} onInput=${(seed) => set({ seed })} />
    <//>
    <p class="note" role="note" dir="auto">${t("V6.part", { text: tokens.slice(from, to + 1).join("") })}</p>
    <${Table} caption=${t("V6.ranking", { threshold: fixed(values.threshold, 2) })} columns=${columns} rows=${[...best.map(line("best")), ...chance.map(line("chance"))]} />
    <${Note} of="V6.caution" />`;
}

function View() {
  const models = useModels();
  const [values, set] = useView("V6", DEFAULTS, { order: ORDERS, threshold: [-1, 1], seed: [1, 50] });
  const chosen = values.model < 0 ? startOf(models) : within(values.model, models);
  const model = models[chosen];
  const item = model.items[within(values.item, model.items)];
  const state = item.states[within(values.layer, item.states)];
  const kinds = kindsOf(state);
  const what = kinds.includes(values.what) ? values.what : "h";
  const seen = useTable(state, what, values.order);
  const tokens = state.name === "decoder" && item.output_tokens ? item.output_tokens : stepNames(item);
  const step = within(values.step, tokens);
  const unit = state.units.includes(values.unit) ? values.unit : seen.units[0];
  const choose = (changes) => {
    set(changes);
    if ("unit" in changes) announce(t("V6.chosen", { unit: changes.unit }));
  };
  return html`
    <${Prose} keys=${["V6.intro"]} />
    <${Ask} />
    <${Controls} label=${t("V6.controls")}>
      <${ModelSelect} models=${models} value=${chosen} onChoose=${(to) => set({ model: to, item: 0, layer: 0 })} />
      <${ItemSelect} items=${model.items} value=${within(values.item, model.items)} onChoose=${(to) => set({ item: to })} />
      <${PlaceSelect} places=${item.states} value=${within(values.layer, item.states)} onChoose=${(to) => set({ layer: to })} />
      <${Select} label=${t("V6.what")} name="what" value=${what} options=${kinds.map((kind) => [kind, `${GATES[kind]?.letter ?? kind}: ${kindName(kind)}`])} onChoose=${(to) => set({ what: to })} />
      <${Select} label=${t("V6.order")} name="order" value=${values.order} options=${ORDERS.map((key) => [key, t(`V6.order_${key}`)])} onChoose=${(to) => set({ order: to })} />
    <//>
    ${item.cut > 0 && html`<p class="note" role="note">${t("models.cut", { steps: item.steps, cut: item.cut })}</p>`}
    ${item.unknown.length > 0 && html`<p class="note" role="note">${t("models.unknown", { count: item.unknown.length, steps: item.unknown.slice(0, 12).map((step) => step + 1).join(", ") })}</p>`}
    <${StateMap} name=${what} seen=${seen} tokens=${tokens} unit=${unit} step=${step} set=${choose} what=${what} />
    <${OverText} item=${item} tokens=${tokens} seen=${seen} unit=${unit} what=${what} step=${step} />
    <${Ranking} seen=${seen} tokens=${tokens} values=${values} set=${set} />
  `;
}

export const view = {
  id: "V6", group: "model", needs: needsModels((model) => model.items?.some((item) => item.states.length), "models.none"), View,
};
