// What an answer rests on: the input's steps shaded by four methods, several models beside each other.
import { html } from "../html.js";
import { announce, useView } from "../state.js";
import { t } from "../i18n.js";
import { data } from "../content.js";
import { byGradient, entryOf, METHODS, rankedSteps, scoresOf } from "../attributions.js";
import { labelled, needsModels, stepNames, useModels, visible, within } from "../models.js";
import { fixed, number, significant } from "../numbers.js";
import { Chart, Plot } from "../parts/Chart.js";
import { ColorBar } from "../parts/colors.js";
import { Choice, Controls, Select } from "../parts/controls.js";
import { Figure } from "../parts/Figure.js";
import { Ask, ItemSelect } from "../parts/ModelChoice.js";
import { Note, Prose } from "../parts/Note.js";
import { ShadedText } from "../parts/ShadedText.js";
import { Table } from "../parts/Table.js";

const DEFAULTS = { task: "text", shown: "all", item: 0, at: -1, method: "occlusion" };
const TOP = 3;

const usable = (model) => model.items?.some((item) => item.attributions?.length);

/** The models of the chosen task: the page's own, or those of the planted token. */
const modelsOf = (models, task) => (task === "planted" ? data.tasks.planted.models : models.filter(usable));

function domainOf(method, scores) {
  const most = Math.max(...scores.map(Math.abs).filter(Number.isFinite), 0) || 1;
  return method === "gradient" ? { scale: "size", domain: [0, most] } : { scale: "signed", domain: [-most, most] };
}

const percent = (p) => `${fixed(100 * p, 1)} %`;
const inBrackets = (x) => (x < 0 ? `(${fixed(x)})` : fixed(x)); // after a minus sign
const stepText = (tokens, step) => t("V9.step", { step: step + 1, token: tokens[step] });

/** The likeliest answers at the explained step. */
function Answers({ item, entry, index }) {
  const top = item.answers.top[entry.step ?? 0] ?? [];
  const right = item.answers.right?.[entry.step ?? 0];
  return html`<p class="answers">${t("V9.answers")}
    ${top.slice(0, TOP).map(
      ([name, p], place) => html`<span key=${name} class="answer" data-name=${`top-${index}-${place}`} data-value=${number(p)}>
        <b>${visible(name)}</b> ${percent(number(p))}
      </span>`,
    )}
    ${right !== null && right !== undefined && html`<span class="answer">${t("V9.right", { name: visible(right) })}</span>`}
  </p>`;
}

/** value − baseline beside the sum of the scores: what integrated gradients must satisfy. */
function Complete({ found, index }) {
  const { value, baseline, sum, gap, nodes } = found;
  const said = { value: fixed(value), baseline: inBrackets(baseline), change: fixed(value - baseline), sum: fixed(sum), gap: percent(gap), nodes };
  return html`<p class="arithmetic" data-name=${`gap-${index}`} data-value=${gap}>
    ${t("V9.complete", said)}
    <span class="unseen" data-name=${`sum-${index}`} data-value=${sum} /><span class="unseen" data-name=${`change-${index}`} data-value=${value - baseline} />
  </p>`;
}

/** Tokens where there is room for all of them, else the number of every tenth step. */
function stepLabel(step, tokens, width) {
  if (width / tokens.length > 11) return tokens[step];
  return (step + 1) % 10 === 0 ? String(step + 1) : "";
}

function bars(scores, tokens, method) {
  const points = scores.map((score, step) => ({ step, score: Number.isFinite(score) ? score : 0, token: tokens[step] }));
  return (width) => ({
    height: 150, marginLeft: 56, marginBottom: 30,
    x: { domain: points.map(({ step }) => step), label: null, tickFormat: (step) => stepLabel(step, tokens, width), tickSize: 0, padding: 0.15 },
    y: { label: t("V9.axis_score"), grid: true, ticks: 4 },
    marks: [
      Plot.barY(points, { x: "step", y: "score", fill: (one) => (method === "gradient" ? "#0b57a4" : one.score < 0 ? "#08519c" : "#b84a00") }),
      Plot.ruleY([0]),
    ],
  });
}

function tableOf(item, entry, tokens) {
  const all = METHODS.map((method) => scoresOf(entry, method)?.scores ?? []);
  const rows = tokens.map((token, step) => [
    `${step + 1} ${token}`, ...all.map((scores) => ({ text: Number.isFinite(scores[step]) ? significant(scores[step], 4) : fixed(scores[step]), value: scores[step] })),
  ]);
  return { caption: t("V9.table"), columns: [t("V9.column_step"), ...METHODS.map((method) => t(`V9.method_${method}`))], rows };
}

/** One model: its answer, its text in colours, the bars, and the steps that count most. */
function Model({ model, label, index, values, planted }) {
  const item = model.items[within(values.item, model.items)];
  const entry = entryOf(item, values.at < 0 ? Infinity : values.at);
  if (!entry) return null;
  const tokens = stepNames(item);
  const found = scoresOf(entry, values.method);
  const { scale, domain } = domainOf(values.method, found.scores);
  const best = rankedSteps(found.scores).slice(0, 5);
  const marks = (step) => ({ "data-name": `score-${index}-${step}`, "data-value": found.scores[step], ...(step === planted || step === entry.step ? { class: "looked" } : {}) });
  const title = entry.step === null ? t("V9.model", { name: label, answer: visible(entry.answer) })
    : t("V9.model_at", { name: label, answer: visible(entry.answer), step: entry.step + 1 });
  return html`<${Figure} name=${`attribution-${index}`} title=${title} table=${tableOf(item, entry, tokens)}>
    <${Answers} item=${item} entry=${entry} index=${index} />
    <${ShadedText} tokens=${item.tokens ?? tokens} at=${(step) => found.scores[step]} scale=${scale} domain=${domain}
      apart=${(item.tokens ?? tokens).some((token) => [...token].length > 1)} label=${t("V9.shaded", { name: label })} marks=${marks} />
    <${ColorBar} scale=${scale} domain=${domain} label=${t("V9.range")} />
    <${Chart} name=${`attribution-${index}`} label=${t("V9.chart", { name: label })} options=${bars(found.scores, tokens, values.method)} />
    <p data-name=${`best-${index}`} data-value=${best[0]}>${t("V9.best", { steps: best.map((step) => stepText(tokens, step)).join(" · ") })}</p>
    ${values.method === "occlusion" && html`<p class="arithmetic">${t("V9.occluded", { ...stepOf(tokens, best[0]), score: fixed(found.scores[best[0]]), value: fixed(found.value), rest: inBrackets(found.value - found.scores[best[0]]) })}</p>`}
    ${values.method === "integrated_gradients" && html`<${Complete} found=${found} index=${index} />`}
    ${planted !== undefined && html`<p class="note" role="note">${t(best[0] === planted ? "V9.planted_found" : "V9.planted_missed", { step: planted + 1 })}</p>`}
  <//>`;
}

const stepOf = (tokens, step) => ({ step: step + 1, token: tokens[step] });

/** Which outputs of the chosen item are explained; none to choose where there is one answer. */
function StepSelect({ item, values, set }) {
  const steps = item.attributions.map(({ step }) => step);
  if (steps.length < 2 || steps[0] === null) return null;
  const now = entryOf(item, values.at < 0 ? Infinity : values.at).step;
  const names = item.output_tokens?.map(visible) ?? stepNames(item);
  const options = steps.map((step) => [step, t(item.output_tokens ? "V9.output" : "V9.after", { step: step + 1, token: names[step] })]);
  const choose = (at) => {
    set({ at });
    announce(t("V9.say", { step: at + 1 }));
  };
  return html`<${Select} label=${t("V9.explained")} name="at" value=${now} options=${options} onChoose=${choose} />`;
}

/** In how many new rows of the planted task each method ranks the planted step first: one row proves little. */
function Found({ task }) {
  const rows = task.models.map(({ name, found }) => [
    name, ...METHODS.map((method) => ({ text: percent(found[method]), value: found[method], name: `found-${name}-${method}` })),
  ]);
  const columns = [t("models.model"), ...METHODS.map((method) => t(`V9.method_${method}`))];
  return html`<${Table} caption=${t("V9.found", { count: task.tried, step: task.position + 1 })} columns=${columns} rows=${rows} />`;
}

function View() {
  const models = useModels();
  const [values, set] = useView("V9", DEFAULTS, { method: METHODS, task: ["text", ...(data.tasks?.planted ? ["planted"] : [])] });
  const all = modelsOf(models, values.task);
  const names = values.task === "planted" ? all.map(({ name }) => name) : labelled(models).filter((_, index) => usable(models[index]));
  const labels = all.map((model, index) => ({ model, label: names[index], key: String(index) }));
  const chosen = labels.some(({ key }) => key === values.shown) ? labels.filter(({ key }) => key === values.shown) : labels;
  const first = chosen[0].model;
  const planted = values.task === "planted" ? data.tasks.planted.position : undefined;
  const item = first.items[within(values.item, first.items)];
  const tasks = [["text", t("V9.task_text")], ["planted", t("V9.task_planted")]];
  return html`
    <${Prose} keys=${["V9.intro"]} />
    <${Ask} />
    <${Controls} label=${t("V9.controls")}>
      ${data.tasks?.planted && html`<${Choice} legend=${t("V9.task")} name="task" value=${values.task} options=${tasks} onChoose=${(task) => set({ task, item: 0, at: -1, shown: "all" })} />`}
      <${Select} label=${t("models.model")} name="shown" value=${values.shown} options=${[["all", t("V9.all")], ...names.map((name, index) => [String(index), name])]} onChoose=${(shown) => set({ shown, item: 0, at: -1 })} />
      <${ItemSelect} items=${first.items} value=${within(values.item, first.items)} onChoose=${(to) => set({ item: to, at: -1 })} />
      <${StepSelect} item=${item} values=${values} set=${set} />
      <${Choice} legend=${t("V9.method")} name="method" value=${values.method} options=${METHODS.map((method) => [method, t(`V9.method_${method}`)])} onChoose=${(method) => set({ method })} />
    <//>
    ${planted !== undefined && html`<${Note} of="V9.planted" values=${{ step: planted + 1 }} />`}
    ${planted !== undefined && html`<${Found} task=${data.tasks.planted} />`}
    ${byGradient(values.method) ? html`<p class="warning" role="note" data-name="warning">${t("V9.warning")}</p>` : html`<${Note} of="V9.occlusion_note" />`}
    ${chosen.map(({ model, label, key }) => html`<${Model} key=${key} model=${model} label=${label} index=${Number(key)} values=${values} planted=${planted} />`)}
    <${Prose} keys=${["V9.methods", "V9.look"]} />
  `;
}

export const view = { id: "V9", group: "model", needs: needsModels(usable, "models.no_attributions"), View };
