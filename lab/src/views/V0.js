// Home: a tour, all views, the language, and a file of one's own.
import { useRef, useState } from "preact/hooks";
import { html } from "../html.js";
import { data, openFile } from "../content.js";
import { announce, LANGUAGE_NAMES, LANGUAGES, page, setLanguage, useView } from "../state.js";
import { rich, t } from "../i18n.js";
import { chainBack, unrollScalar } from "../math.js";
import { viewsOf } from "../pages.js";
import { GruCell } from "../diagrams/GruCell.js";
import { LstmCell } from "../diagrams/LstmCell.js";
import { Unrolled } from "../diagrams/Unrolled.js";
import { Chart } from "../parts/Chart.js";
import { Choice, Controls } from "../parts/controls.js";
import { Link } from "../parts/Link.js";
import { Stepper } from "../parts/Stepper.js";
import { drawing as drawPowers } from "./V2a.js";
import { drawing as drawChain } from "./V2b.js";

const STOPS = 6;
const DEFAULTS = { stop: 1 };
const LIMITS = { stop: [1, STOPS, 1] };
const EXAMPLE = { W: 0.6, U: 0.8, b: 0, h0: 0, x: [1, 0.5, -1, 2, 0] };
const LARGEST = 64 * 2 ** 20;

const cells = unrollScalar(EXAMPLE);

const PICTURES = [
  () => html`<${Unrolled} cells=${cells} h0=${0} step=${3} look=${3} weights="shared" />`,
  () => html`<${Chart} name="tour" label=${t("V0.stop2")} options=${(width) => drawPowers({ c: 0.8, d: 1.5, n: 100 }, width)} />`,
  () => html`<${Chart} name="tour" label=${t("V0.stop3")} options=${() => drawChain(chainBack(cells, EXAMPLE.U), 5)} />`,
  () => html`<${LstmCell} lit=${["f", "c"]} label=${t("V4.describe")} />`,
  () => html`<${GruCell} lit=${null} label=${t("V5.describe_gru")} />`,
  () => null,
];

function Tour() {
  const [values, set] = useView("V0", DEFAULTS, LIMITS);
  const { stop } = values;
  const title = t("V0.stop_title", { number: stop, title: t(`V0.stop${stop}`) });
  const to = (next) => {
    set({ stop: next });
    announce(t("V0.stop_title", { number: next, title: t(`V0.stop${next}`) }));
  };
  return html`<h2>${t("V0.tour")}</h2>
    <p>${t("V0.tour_how")}</p>
    <${Stepper} length=${STOPS} first=${1} step=${stop} onStep=${to} word="V0.stop" label="V0.tour_line" name="stop" />
    <section class="stop" data-stop=${stop}>
      <h3>${title}</h3>
      <p>${rich(`V0.stop${stop}_text`)}</p>
      ${PICTURES[stop - 1]()}
    </section>`;
}

/** Read a file of data in the place of what the page came with. */
function Loading() {
  const [result, setResult] = useState(null);
  const [over, setOver] = useState(false);
  const field = useRef();
  const open = async (file) => {
    if (!file) return;
    const fail = (reason, values) => setResult({ good: false, text: t("V0.load_bad", { name: file.name, reason: t(reason, values) }) });
    if (file.size > LARGEST) return fail("V0.bad_size");
    const found = openFile(await file.text());
    if (found.fault) return fail(found.fault, found.values);
    page.value = { ...page.value };
    return setResult({ good: true, text: t("V0.load_good", { name: file.name, count: data.models.length }) });
  };
  const drop = (event) => {
    event.preventDefault();
    setOver(false);
    open(event.dataTransfer.files[0]);
  };
  const drag = (event) => {
    event.preventDefault();
    setOver(true);
  };
  return html`<h2>${t("V0.load")}</h2>
    <div class=${over ? "drop over" : "drop"} onDragOver=${drag} onDragLeave=${() => setOver(false)} onDrop=${drop}>
      <p>${rich("V0.load_how")}</p>
      <label>${t("V0.load_file")} <input type="file" accept=".json,application/json" ref=${field} onChange=${() => open(field.current.files[0])} /></label>
      ${result && html`<p class=${result.good ? "note" : "warning"} role="alert" data-name="loaded">${result.text}</p>`}
    </div>`;
}

function View() {
  const others = viewsOf("lab").filter(({ id }) => id !== "V0");
  return html`
    <${Controls} label=${t("V0.language")}>
      <${Choice} legend=${t("V0.language")} name="language" value=${page.value.lang} onChoose=${setLanguage}
        options=${LANGUAGES.map((lang) => [lang, LANGUAGE_NAMES[lang]])} />
    <//>
    <${Tour} />
    <h2>${t("V0.views")}</h2>
    <ul class="cards">
      ${others.map(({ id }) => html`<li key=${id}><${Link} to=${`#view=${id}`}>${t(`view.${id}.title`)}<//><p>${rich(`view.${id}.takeaway`)}</p></li>`)}
    </ul>
    <${Loading} />
  `;
}

export const view = { id: "V0", group: "start", needs: () => true, View };
