// The factors that a gradient meets on its way back through V1's network.
import { html } from "../html.js";
import { announce, useView } from "../state.js";
import { t } from "../i18n.js";
import { fixed, plain, subscript } from "../numbers.js";
import { chainBack, unrollScalar } from "../math.js";
import { Arithmetic } from "../parts/Arithmetic.js";
import { Chart, Plot } from "../parts/Chart.js";
import { Button, Controls, Slider } from "../parts/controls.js";
import { Figure } from "../parts/Figure.js";
import { Prose } from "../parts/Note.js";

const DEFAULTS = { look: 5, W: 0.6, U: 0.8, b: 0, h0: 0, x: [1, 0.5, -1, 2, 0] };
const LIMITS = { look: [1, 8, 1], W: [-3, 3], U: [-3, 3], b: [-3, 3], h0: [-1, 1], x: [-9, 9] };

const bracketed = (x) => (x < 0 ? `(${fixed(x)})` : fixed(x));

function arithmeticOf({ U }, cells, chain, index) {
  const step = index + 1;
  const { factor, after, product } = chain[index];
  return [
    `∂h${subscript(step)}/∂h${subscript(index)} = `, { text: `${plain(U)}`, role: "U" }, `·(1 − ${bracketed(cells[index].h)}²) = `,
    { text: fixed(factor), role: "W", name: "factor", value: factor }, `;  ∂h${subscript(cells.length)}/∂h${subscript(index)} = `,
    fixed(after), "·", { text: bracketed(factor), role: "W" }, " = ", { text: fixed(product), name: "product", value: product },
  ];
}

function tableOf(cells, chain) {
  const columns = ["step", "h", "factor", "product", "term"].map((key) => t(`V2b.column_${key}`));
  const rows = chain.map(({ factor, product, term }, index) => [
    String(index + 1),
    ...[cells[index].h, factor, product, term].map((value) => ({ text: fixed(value), value })),
  ]);
  return { caption: t("V2b.table"), columns, rows };
}

/** Options of the chart; the home page draws it too. */
export function drawing(chain, look) {
  const steps = chain.map((entry, index) => ({ ...entry, step: index + 1 }));
  const highest = Math.max(1, ...steps.flatMap(({ factor, product }) => [factor, product]));
  const lowest = Math.min(0, ...steps.flatMap(({ factor, product }) => [factor, product]));
  return {
    height: 300,
    marginLeft: 48,
    marginBottom: 42,
    x: { label: t("V2b.column_step"), labelAnchor: "center", labelArrow: "none", padding: 0.35 },
    y: { domain: [lowest, highest], grid: true, label: null },
    marks: [
      Plot.barY(steps, { x: "step", y: "factor", fill: ({ step }) => (step === look ? "#0072B2" : "#7fb2dc") }),
      Plot.line(steps, { x: "step", y: "product", stroke: "#B84A00", strokeWidth: 2.5, strokeDasharray: "7 3" }),
      Plot.dot(steps, { x: "step", y: "product", fill: "#B84A00", symbol: "diamond", r: 5 }),
      Plot.text(steps, { x: "step", y: "factor", text: ({ factor }) => fixed(factor), dy: -9, fill: "#005a8d", stroke: "#fff", strokeWidth: 4 }),
      Plot.ruleY([0]),
    ],
  };
}

function View() {
  const [values, set, reset] = useView("V2b", DEFAULTS, LIMITS);
  const cells = unrollScalar(values);
  const chain = chainBack(cells, values.U);
  const look = Math.min(values.look, cells.length);
  const pick = (index) => {
    set({ look: index + 1 });
    announce(t("V2b.say", { step: index + 1, factor: fixed(chain[index].factor), product: fixed(chain[index].product) }));
  };
  const slider = (name) =>
    html`<${Slider} label=${t(`V1.${name}`)} name=${name} role=${name} min=${LIMITS[name][0]} max=${LIMITS[name][1]} step=${0.05}
      value=${values[name]} text=${plain(values[name])} onInput=${(to) => set({ [name]: to })} />`;
  const total = chain.reduce((sum, { term }) => sum + term, 0);
  const end = chain[0].product;
  const label = (index) => t("V2b.bar", { step: index + 1, factor: fixed(chain[index].factor) });
  return html`
    <${Prose} keys=${["V2b.intro"]} />
    <${Controls} label=${t("V1.weights")}>
      ${slider("W")} ${slider("U")} ${slider("b")}
      <${Button} onClick=${reset} data-do="reset">${t("stepper.reset")}<//>
    <//>
    <${Figure} name="chain" title=${t("V2b.figure")} table=${tableOf(cells, chain)} note=${t("V2b.legend")}>
      <${Chart} name="chain" label=${t("V2b.figure")} options=${() => drawing(chain, look)}
        pick=${{ mark: "bar", label, onPick: pick, picked: look - 1 }} />
    <//>
    <${Arithmetic} label=${t("V1.arithmetic")} parts=${arithmeticOf(values, cells, chain, look - 1)} />
    <p class="big">
      ∂h${subscript(cells.length)}/∂h₀ = ${chain.map(({ factor }) => bracketed(factor)).join(" · ")} =${" "}
      <b data-name="end" data-value=${end}>${fixed(end)}</b>
    </p>
    <p class="big">
      ∂h${subscript(cells.length)}/∂U = ${chain.map(({ term }) => bracketed(term)).join(" + ")} =${" "}
      <b data-name="total" data-value=${total}>${fixed(total)}</b>
    </p>
    <${Prose} keys=${["V2b.look", "V2b.sum", "V2b.exact"]} />
  `;
}

export const view = { id: "V2b", group: "basics", needs: () => true, View };
