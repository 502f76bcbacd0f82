// How long a forget gate remembers: the share that is left after k steps is f^k.
import { html } from "../html.js";
import { useView } from "../state.js";
import { rich, t } from "../i18n.js";
import { fixed, plain, significant } from "../numbers.js";
import { halfLife, logit, sigmoid } from "../math.js";
import { Chart, Plot } from "../parts/Chart.js";
import { Button, Controls, Slider } from "../parts/controls.js";
import { Figure } from "../parts/Figure.js";
import { Prose } from "../parts/Note.js";
import { Table } from "../parts/Table.js";

const DEFAULTS = { f: 0.9 };
const LIMITS = { f: [0.001, 0.9999] };
const FIXED = [
  { f: 0.9, dash: "2 3" },
  { f: 0.99, dash: "8 4" },
  { f: 0.999, dash: "12 3 2 3" },
];
const LONGEST = 2000;
const BIASES = [0, 1, 2, 3, 5];

const curveOf = (f) => {
  const points = Array.from({ length: 121 }, (_, index) => LONGEST ** (index / 120));
  return points.map((steps) => ({ steps, share: f ** steps }));
};

function drawing(f) {
  const half = halfLife(f);
  return {
    height: 320,
    marginLeft: 50,
    marginRight: 20,
    marginBottom: 44,
    x: { type: "log", domain: [1, LONGEST], label: t("V3.steps"), ticks: [1, 10, 100, 1000], tickFormat: String, labelAnchor: "center", labelArrow: "none" },
    y: { domain: [0, 1], label: null, grid: true, tickFormat: (share) => `${Math.round(100 * share)} %` },
    marks: [
      Plot.ruleY([0.5], { stroke: "#555", strokeDasharray: "4 3" }),
      ...FIXED.map((one) => Plot.line(curveOf(one.f), { x: "steps", y: "share", stroke: "#555", strokeDasharray: one.dash, strokeWidth: 1.5 })),
      ...FIXED.map((one, index) =>
        Plot.text([{ steps: halfLife(one.f), share: 0.5 }], { x: "steps", y: "share", text: () => plain(one.f), dx: 22, dy: -10 - (index % 2), fill: "#444" }),
      ),
      Plot.line(curveOf(f), { x: "steps", y: "share", stroke: "#D55E00", strokeWidth: 3 }),
      half >= 1 && half <= LONGEST ? Plot.dot([{ half }], { x: "half", y: () => 0.5, fill: "#D55E00", r: 6 }) : null,
    ],
  };
}

function tableOf(f) {
  const rows = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000].map((steps) => [
    String(steps),
    ...[f, ...FIXED.map((one) => one.f)].map((gate) => ({ text: significant(gate ** steps), value: gate ** steps })),
  ]);
  return { caption: t("V3.table"), columns: [t("V3.steps"), `f = ${significant(f, 4)}`, ...FIXED.map((one) => `f = ${plain(one.f)}`)], rows };
}

function View() {
  const [{ f }, set, reset] = useView("V3", DEFAULTS, LIMITS);
  const half = halfLife(f);
  const bias = logit(f);
  const biases = BIASES.map((b) => [
    { text: plain(b), value: b },
    { text: fixed(sigmoid(b), 3), value: sigmoid(b), name: `f-of-${b}` },
    { text: fixed(halfLife(sigmoid(b)), 1), value: halfLife(sigmoid(b)), name: `half-of-${b}` },
  ]);
  return html`
    <${Prose} keys=${["V3.intro"]} />
    <${Controls} label=${t("V3.controls")}>
      <${Slider} label=${t("V3.f")} name="f" role="f" min=${0.02} max=${0.999} step=${0.001} value=${f} text=${fixed(f, 3)}
        spoken=${t("V3.spoken", { f: fixed(f, 3) })} onInput=${(to) => set({ f: Number(to.toFixed(4)) })} />
      <${Slider} label=${t("V3.bias")} name="bias" min=${-3} max=${7} step=${0.1} value=${Number(bias.toFixed(1))} text=${fixed(bias, 2)}
        onInput=${(to) => set({ f: sigmoid(to) })} />
      <${Button} onClick=${reset} data-do="reset">${t("stepper.reset")}<//>
    <//>
    <div class="presets">
      ${FIXED.map((one) => html`<${Button} key=${one.f} onClick=${() => set({ f: one.f })} data-do=${`f-${one.f}`}>f = ${plain(one.f)}<//>`)}
    </div>
    <p class="big">${t("V3.half")} = ln 0.5 / ln ${significant(f, 4)} = <b data-name="half" data-value=${half}>${fixed(half, 1)}</b> ${t("V3.unit")}</p>
    <${Figure} name="forgetting" title=${t("V3.figure")} table=${tableOf(f)} note=${t("V3.legend")}>
      <${Chart} name="forgetting" label=${t("V3.describe", { f: significant(f, 4), half: fixed(half, 1) })} options=${() => drawing(f)} />
    <//>
    <h2>${t("V3.bias_title")}</h2>
    <p>${rich("V3.bias_text")}</p>
    <${Table} caption=${t("V3.bias_table")} columns=${[t("V3.bias"), "f", t("V3.half")]} rows=${biases} />
    <${Prose} keys=${["V3.look", "V3.exact"]} />
  `;
}

export const view = { id: "V3", group: "gates", needs: () => true, View };
