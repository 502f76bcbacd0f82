// One unit of an LSTM: what each gate does to one number.
import { useEffect, useRef } from "preact/hooks";
import { html } from "../html.js";
import { announce, useView } from "../state.js";
import { t } from "../i18n.js";
import { fixed, plain } from "../numbers.js";
import { lstmRepeat, lstmUnit } from "../math.js";
import { LstmCell } from "../diagrams/LstmCell.js";
import { Arithmetic } from "../parts/Arithmetic.js";
import { Code, Equations, WeightBlocks } from "../parts/CellText.js";
import { Chart, Plot } from "../parts/Chart.js";
import { Button, Controls, Slider, Toggle } from "../parts/controls.js";
import { Figure } from "../parts/Figure.js";
import { GateLegend, gateName } from "../parts/gates.js";
import { Prose } from "../parts/Note.js";

const DEFAULTS = { gate: "all", f: 0.9, i: 0.2, C: 1, g: -0.5, o: 1, repeat: false };
const LIMITS = { gate: ["all", "f", "i", "g", "o"], f: [0, 1], i: [0, 1], C: [-2, 2], g: [-1, 1], o: [0, 1] };
const BUTTONS = ["f", "i", "g", "o", "all"];
const PRESETS = { keep: [1, 0], overwrite: [0, 1], average: [0.5, 0.5], add: [1, 1] };
const REPEATS = 10;

const litOf = (gate) => (gate === "all" ? null : [gate, "in"]);
const signed = (x) => (x < 0 ? `(${plain(x)})` : plain(x));

function arithmeticOf({ f, i, C, g, o }, { kept, written, c, h }) {
  return [
    "cₜ = ", { text: `${plain(f)}·${signed(C)}`, role: "f" }, " + ", { text: `${plain(i)}·${signed(g)}`, role: "i" }, " = ",
    { text: fixed(kept), role: "f", name: "kept", value: kept }, " + ",
    { text: written < 0 ? `(${fixed(written)})` : fixed(written), role: "i", name: "written", value: written }, " = ",
    { text: fixed(c), name: "c-line", value: c }, ";  hₜ = ", { text: plain(o), role: "o" }, `·tanh(${fixed(c)}) = `,
    { text: fixed(h), name: "h-line", value: h },
  ];
}

function GateButtons({ gate, set }) {
  const choose = (to) => {
    set({ gate: to });
    announce(to === "all" ? t("V4.say_all") : t("V4.say_gate", { gate: gateName(to), does: t(`V4.does_${to}`) }));
  };
  const latest = useRef();
  latest.current = choose;
  useEffect(() => {
    const press = (event) => {
      if (event.altKey || event.ctrlKey || event.metaKey || event.target.matches("input:not([type=range]), select, textarea")) return;
      const to = { f: "f", i: "i", g: "g", o: "o", a: "all" }[event.key.toLowerCase()];
      if (to) latest.current(to);
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
  return html`<${Controls} label=${t("V4.gates")}>
    ${BUTTONS.map(
      (key) => html`<${Toggle} key=${key} pressed=${gate === key} onToggle=${() => choose(gate === key ? "all" : key)} data-do=${`gate-${key}`}
        aria-keyshortcuts=${key === "all" ? "A" : key.toUpperCase()}>
        ${key === "all" ? t("V4.all") : gateName(key)} <kbd>${key === "all" ? "A" : key.toUpperCase()}</kbd>
      <//>`,
    )}
  <//>`;
}

function Sliders({ values, set, reset }) {
  const slider = (name, step) =>
    html`<${Slider} label=${t(`V4.${name}`)} name=${name} role=${name} min=${LIMITS[name][0]} max=${LIMITS[name][1]} step=${step}
      value=${values[name]} text=${fixed(values[name], 2)} spoken=${t("V4.spoken", { name: t(`V4.name_${name}`), value: fixed(values[name], 2) })}
      onInput=${(to) => set({ [name]: to })} />`;
  return html`<${Controls} label=${t("V4.numbers")}>
      ${slider("f", 0.01)} ${slider("i", 0.01)} ${slider("C", 0.05)} ${slider("g", 0.05)} ${slider("o", 0.01)}
    <//>
    <${Controls} label=${t("V4.presets")}>
      ${Object.entries(PRESETS).map(
        ([key, [f, i]]) => html`<${Button} key=${key} onClick=${() => set({ f, i })} data-do=${key}>${t(`V4.${key}`)} (f ${plain(f)}, i ${plain(i)})<//>`,
      )}
      <${Toggle} pressed=${values.repeat} onToggle=${(repeat) => set({ repeat })} data-do="repeat">${t("V4.repeat", { count: REPEATS })}<//>
      <${Button} onClick=${reset} data-do="reset">${t("stepper.reset")}<//>
    <//>`;
}

function bars({ kept, written, c }) {
  const parts = [
    { part: t("V4.kept"), value: kept, color: "#D55E00" },
    { part: t("V4.written"), value: written, color: "#0072B2" },
  ];
  const ends = [0, kept, written, c];
  const reach = Math.max(0.5, ...ends.map(Math.abs), Math.abs(kept) + (Math.sign(kept) === Math.sign(written) ? Math.abs(written) : 0));
  return {
    height: 120,
    marginLeft: 12,
    marginRight: 12,
    x: { domain: [-reach, reach], label: null, grid: true },
    y: { axis: null },
    marks: [
      Plot.barX(parts, { x: "value", fill: "color", fillOpacity: 0.85, stroke: "#fff", y: () => "" }),
      Plot.text(parts.filter(({ value }) => Math.abs(value) > 0.12 * reach), Plot.stacked({ x: "value", y: () => "", text: ({ value }) => fixed(value, 2), fill: "#fff", fontWeight: 700 })),
      Plot.ruleX([0]),
      Plot.ruleX([c], { stroke: "#000", strokeWidth: 2.5, strokeDasharray: "3 2" }),
      Plot.text([c], { x: (x) => x, frameAnchor: "top", dy: -12, text: () => `cₜ = ${fixed(c)}`, fontWeight: 600, textAnchor: Math.abs(c) < reach / 2 ? "middle" : c > 0 ? "end" : "start" }),
    ],
    marginTop: 26,
  };
}

function Repeated({ values }) {
  const path = lstmRepeat(values, REPEATS);
  const steps = path.map((memory, step) => ({ memory, step }));
  const table = {
    caption: t("V4.repeat_table"),
    columns: [t("V4.step"), "c"],
    rows: steps.map(({ memory, step }) => [String(step), { text: fixed(memory), value: memory }]),
  };
  const options = () => ({
    height: 220,
    marginLeft: 48,
    marginBottom: 40,
    x: { label: t("V4.step"), labelAnchor: "center", labelArrow: "none", domain: [0, REPEATS] },
    y: { label: null, grid: true, domain: [Math.min(0, ...path), Math.max(0, ...path) || 1] },
    marks: [
      Plot.ruleY([0]),
      Plot.line(steps, { x: "step", y: "memory", stroke: "#555", strokeDasharray: "4 3" }),
      Plot.dot(steps, { x: "step", y: "memory", fill: "#1f2328", r: 4 }),
    ],
  });
  return html`<${Figure} name="repeated" title=${t("V4.repeat_title", { count: REPEATS })} table=${table}>
      <${Chart} name="repeated" label=${t("V4.repeat_title", { count: REPEATS })} options=${options} />
    <//>
    <p class="big">${t("V4.repeat_result", { count: REPEATS })} <b data-name="repeated" data-value=${path[REPEATS]}>${fixed(path[REPEATS])}</b></p>`;
}

function View() {
  const [values, set, reset] = useView("V4", DEFAULTS, LIMITS);
  const result = lstmUnit(values);
  const lit = litOf(values.gate);
  const table = {
    caption: t("V4.table"),
    columns: [t("V4.quantity"), t("V4.value")],
    rows: [
      ...["f", "i", "g", "o", "C"].map((key) => [t(`V4.name_${key}`), { text: fixed(values[key], 2), value: values[key] }]),
      ...["kept", "written", "c", "h"].map((key) => [t(`V4.name_${key}`), { text: fixed(result[key]), value: result[key] }]),
    ],
  };
  return html`
    <${Prose} keys=${["V4.intro"]} />
    <${GateButtons} gate=${values.gate} set=${set} />
    <${Sliders} values=${values} set=${set} reset=${reset} />
    <${Figure} name="lstm-cell" title=${t("V4.figure")} table=${table}>
      <${LstmCell} lit=${lit} numbers=${{ ...values, ...result }} label=${t("V4.describe")} />
    <//>
    <${Arithmetic} label=${t("V1.arithmetic")} parts=${arithmeticOf(values, result)} />
    <${Figure} name="memory" title=${t("V4.bars")} table=${table} note=${t("V4.bars_note")}>
      <${Chart} name="memory" label=${t("V4.bars_describe", { kept: fixed(result.kept, 2), written: fixed(result.written, 2), c: fixed(result.c) })} options=${() => bars(result)} />
    <//>
    ${values.repeat && html`<${Repeated} values=${values} />`}
    <${GateLegend} gates=${["f", "i", "g", "o"]} />
    <div class="columns">
      <section><h2>${t("cell.equations")}</h2><${Equations} cell="lstm" lit=${lit} /></section>
      <section><h2>${t("cell.code")}</h2><${Code} cell="lstm" lit=${lit} /></section>
      <section><h2>${t("cell.weights")}</h2><${WeightBlocks} cell="lstm" tensor="weight_ih_l0" hidden=${64} width=${32} lit=${lit} /></section>
    </div>
    <${Prose} keys=${["V4.look", "V4.exact"]} />
  `;
}

export const view = { id: "V4", group: "gates", needs: () => true, View };
