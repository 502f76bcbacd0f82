// Writing: a language model gives every next token a probability, one is taken, and it is read in its turn.
import { html } from "../html.js";
import { announce, useView } from "../state.js";
import { t } from "../i18n.js";
import { labelled, startOf, useWritten, visible, within } from "../models.js";
import { fixed, plain } from "../numbers.js";
import { unpack } from "../packed.js";
import { chosen, probabilities } from "../sampling.js";
import { Arithmetic } from "../parts/Arithmetic.js";
import { Chart, Plot } from "../parts/Chart.js";
import { ColorBar } from "../parts/colors.js";
import { Button, Controls, Select, Slider } from "../parts/controls.js";
import { Figure } from "../parts/Figure.js";
import { Heatmap } from "../parts/Heatmap.js";
import { Ask } from "../parts/ModelChoice.js";
import { Prose } from "../parts/Note.js";
import { Stepper } from "../parts/Stepper.js";

const DEFAULTS = { model: -1, path: 1, step: 1, temperature: -1, k: -1 };
const BARS = 12;
const MOST_K = 40;
const percent = (p) => `${fixed(100 * p, 1)} %`;

const settingText = ({ temperature, top_k: k, seed }) =>
  t(temperature === 0 ? "V10.greedy" : k === null ? "V10.setting" : "V10.setting_k", { temperature: plain(temperature), k, seed });

/** Scores of one step, as numbers. */
const scoresAt = (table, step) => Array.from({ length: table.columns }, (_, token) => {
  const score = table.at(step, token);
  return Number.isNaN(score) ? -Infinity : score;
});

/** What the model says at this step under the settings, which token was taken, and which these settings would take. */
function stepOf(path, table, step, temperature, k) {
  const shares = probabilities(scoresAt(table, step), temperature, k);
  // At temperature 0 nothing is drawn; a path that was written so has no draw for other temperatures: take the middle.
  const draw = temperature === 0 ? null : (path.draws[step] ?? 0.5);
  return { shares, draw, taken: path.tokens[step], now: chosen(shares, draw) };
}

function barOptions({ shares, taken, now }, vocabulary) {
  const order = shares.map((_, token) => token).sort((a, b) => shares[b] - shares[a] || a - b).slice(0, BARS);
  const bars = order.filter((token) => shares[token] > 0 || token === taken).map((token) => ({ token, name: visible(vocabulary[token]), p: shares[token] }));
  const names = bars.map(({ name }) => name);
  const longest = Math.max(...names.map((name) => [...name].length));
  return (width) => ({
    height: 36 + 24 * bars.length, marginLeft: Math.min(28 + 9 * longest, 140), marginRight: 64,
    x: { domain: [0, 1], label: null, tickFormat: (p) => `${fixed(100 * p, 0)} %`, ticks: width > 500 ? 5 : 2, grid: true },
    y: { domain: names, label: null, tickSize: 0 },
    marks: [
      Plot.barX(bars, { x: "p", y: "name", fill: (one) => (one.token === now.token ? "#b84a00" : "#7f9cc0") }),
      Plot.text(bars, { x: "p", y: "name", text: (one) => `${percent(one.p)}${one.token === now.token ? " ◀" : ""}`, textAnchor: "start", dx: 5 }),
      Plot.ruleX([0]),
    ],
  });
}

function probabilityTable({ shares, taken, now }, vocabulary, scores) {
  let sum = 0;
  const rows = shares.map((share, token) => {
    sum += share;
    return [
      visible(vocabulary[token]), { text: fixed(scores[token], 3), value: scores[token] }, { text: fixed(share, 4), value: share, name: `p-${token}` }, { text: fixed(sum, 4), value: sum },
      token === taken ? t("V10.taken") : token === now.token ? t("V10.would") : "",
    ];
  });
  return { caption: t("V10.table"), columns: ["token", "score", "probability", "sum", "mark"].map((key) => t(`V10.column_${key}`)), rows };
}

/** p("e") = exp(2.31 / 0.7) / sum = 0.412 */
function arithmeticOf({ shares, taken, draw, now }, scores, vocabulary, temperature) {
  const name = (token) => `“${visible(vocabulary[token])}”`;
  if (temperature === 0) return [t("V10.argmax", { token: name(now.token), score: fixed(scores[now.token], 3) })];
  return [
    `p(${name(taken)}) = exp(${fixed(scores[taken], 3)} / ${plain(temperature)}) / Σ = `, { text: fixed(shares[taken], 4), name: "p", value: shares[taken], role: "U" },
    "; ", t("V10.draw", { draw: fixed(draw, 4), from: fixed(now.from, 4), to: fixed(now.to, 4), token: name(now.token) }),
  ];
}

/** The prompt and what was written so far; what comes later is not shown. */
function Text({ written, path, step, joined }) {
  const show = (token) => (token === "\n" ? ["↵", html`<br />`] : token);
  const newest = (token) => (token === " " ? visible(token) : show(token)); // a space alone would not be seen
  const gap = joined ? "" : " ";
  return html`<p class="written" dir="auto" data-name="text">
    <span class="prompt">${written.prompt.map((token) => [show(token), gap])}</span>${path.tokens.slice(0, step).map((token, index) => html`<span key=${index} class=${index === step - 1 ? "newest" : ""}>${index === step - 1 ? newest(written.vocabulary[token]) : show(written.vocabulary[token])}${gap}</span>`)}<span class="pen">?</span>
  </p>`;
}

/** One row of the state for each token that has been written. */
function States({ path, vocabulary, step }) {
  const table = unpack(path.h);
  const steps = path.tokens.length;
  const most = Math.max(Math.abs(table.low), Math.abs(table.high)) || 1;
  const at = (row, unit) => (row < step ? table.at(unit, row) : NaN);
  const say = (row, unit) => (row < step
    ? t("V10.say_state", { step: row + 1, unit: path.units[unit], value: fixed(at(row, unit), 3), token: visible(vocabulary[path.tokens[row]]) })
    : t("V10.say_later", { step: row + 1 }));
  const rows = Array.from({ length: step }, (_, row) => [`${row + 1} ${visible(vocabulary[path.tokens[row]])}`, ...path.units.map((_, unit) => ({ text: fixed(at(row, unit), 3), value: at(row, unit) }))]);
  const labels = Array.from({ length: steps }, (_, row) => (row < step ? visible(vocabulary[path.tokens[row]]) : "?"));
  const wide = Math.max(6, Math.min(18, Math.floor(620 / path.units.length)));
  return html`<${Figure} name="written-states" title=${t("V10.states")} table=${{ caption: t("V10.states"), columns: [t("V10.column_token"), ...path.units.map((unit) => t("V10.unit", { unit }))], rows }}>
    <${Heatmap} name="written" label=${t("V10.states")} rows=${steps} columns=${path.units.length} at=${at} scale="signed" domain=${[-most, most]} say=${say}
      rowLabels=${labels} cell=${{ width: wide, height: 13 }} />
    <${ColorBar} scale="signed" domain=${[-most, most]} />
  <//>`;
}

function Settings({ temperature, k, values, path, set, words }) {
  return html`<${Controls} label=${t("V10.what_if")}>
      <${Slider} label=${t("V10.temperature")} name="temperature" min=${0} max=${3} step=${0.05} value=${temperature} text=${plain(temperature)} onInput=${(to) => set({ temperature: to })} />
      <${Slider} label=${t("V10.top_k")} name="k" min=${0} max=${Math.min(MOST_K, words)} step=${1} value=${k} text=${k === 0 ? t("V10.every") : String(k)} onInput=${(to) => set({ k: to })} />
      ${(values.temperature >= 0 || values.k >= 0) && html`<${Button} data-do="as-written" onClick=${() => set({ temperature: -1, k: -1 })}>${t("V10.as_written", { setting: settingText(path) })}<//>`}
    <//>`;
}

function View() {
  const all = useWritten();
  const [values, set] = useView("V10", DEFAULTS, { temperature: [-1, 3], k: [-1, MOST_K], step: [0, 4096] });
  const chosenModel = values.model < 0 ? startOf(all) : within(values.model, all);
  const written = all[chosenModel];
  const path = written.paths[within(values.path, written.paths)];
  const { vocabulary } = written;
  const length = path.tokens.length;
  const step = Math.min(Math.round(values.step), length);
  const place = Math.max(0, step - 1); // the step whose probabilities are shown
  const temperature = values.temperature < 0 ? path.temperature : values.temperature;
  const k = values.k < 0 ? (path.top_k ?? 0) : Math.round(values.k);
  const toStep = (to) => {
    set({ step: to });
    announce(to === 0 ? t("V10.say_start") : t("V10.say", { step: to, token: visible(vocabulary[path.tokens[to - 1]]) }));
  };
  const joined = [...vocabulary, ...written.prompt].filter((token) => [...token].length > 1).length <= 2;
  return html`
    <${Prose} keys=${["V10.intro"]} />
    <${Ask} />
    <${Controls} label=${t("V10.controls")}>
      <${Select} label=${t("models.model")} name="model" value=${chosenModel} options=${labelled(all).map((name, index) => [index, name])} onChoose=${(to) => set({ model: to, step: 1 })} />
      <${Select} label=${t("V10.path")} name="path" value=${within(values.path, written.paths)} options=${written.paths.map((one, index) => [index, settingText(one)])} onChoose=${(to) => set({ path: to, temperature: -1, k: -1 })} />
    <//>
    <${Stepper} length=${length} step=${step} onStep=${toStep} onReset=${() => toStep(0)} />
    <${Text} written=${written} path=${path} step=${step} joined=${joined} />
    ${step > 0 && html`<${Step} path=${path} written=${written} place=${place} temperature=${temperature} k=${k} values=${values} set=${set} />`}
    <${States} path=${path} vocabulary=${vocabulary} step=${step} />
    <${Prose} keys=${["V10.meaning"]} />
  `;
}

/** The probabilities of one step, what was taken, and what other settings would take with the same draw. */
function Step({ path, written, place, temperature, k, values, set }) {
  const { vocabulary } = written;
  const table = unpack(path.scores);
  const scores = scoresAt(table, place);
  const seen = stepOf(path, table, place, temperature, k);
  const sum = seen.shares.reduce((total, share) => total + share, 0);
  const changed = temperature !== path.temperature || k !== (path.top_k ?? 0);
  const said = { taken: visible(vocabulary[seen.taken]), now: visible(vocabulary[seen.now.token]), setting: settingText(path) };
  return html`<${Figure} name="next-token" title=${t("V10.figure", { step: place + 1 })} table=${probabilityTable(seen, vocabulary, scores)} note=${written.complete ? "" : t("V10.incomplete", { count: vocabulary.length })}>
      <${Chart} name="next-token" label=${t("V10.chart", { step: place + 1 })} options=${barOptions(seen, vocabulary)} />
    <//>
    <${Arithmetic} label=${t("V10.arithmetic")} parts=${arithmeticOf(seen, scores, vocabulary, temperature)} />
    <p class="unseen"><span data-name="sum" data-value=${sum} /><span data-name="now" data-value=${seen.now.token} /><span data-name="taken" data-value=${seen.taken} /></p>
    <${Settings} temperature=${temperature} k=${k} values=${values} path=${path} set=${set} words=${vocabulary.length} />
    ${changed && html`<p class="note" role="note">${t(seen.now.token === seen.taken ? "V10.same" : "V10.other", said)}</p>`}`;
}

export const view = {
  id: "V10", group: "model", needs: (given) => (given.generation?.some((one) => one.paths.some(({ tokens }) => tokens.length)) ? true : "V10.none"), View,
};
