// The report of one run: how it went, what came of it, what to look at. Printing opens every folded table.
import { useEffect } from "preact/hooks";
import { html } from "../html.js";
import { data } from "../content.js";
import { useView } from "../state.js";
import { t } from "../i18n.js";
import { significant } from "../numbers.js";
import { Course } from "../report/Course.js";
import { Errors } from "../report/Errors.js";
import { Inside } from "../report/Inside.js";
import { Samples } from "../report/Samples.js";
import { Facts, Findings, Repeat, Scores } from "../report/Summary.js";
import { Weights } from "../report/Weights.js";

const DEFAULTS = { layer: "", gate: "" };

/** What is folded is open on paper, and as it was afterwards. */
function useOpenOnPaper() {
  useEffect(() => {
    const folded = () => [...document.querySelectorAll("details[data-print]:not([open])")];
    let opened = [];
    const open = () => {
      opened = [...opened, ...folded()];
      for (const one of opened) one.open = true;
    };
    const close = () => {
      for (const one of opened) one.open = false;
      opened = [];
    };
    const paper = matchMedia("print");
    const change = (event) => (event.matches ? open() : close());
    addEventListener("beforeprint", open);
    addEventListener("afterprint", close);
    paper.addEventListener("change", change);
    return () => {
      removeEventListener("beforeprint", open);
      removeEventListener("afterprint", close);
      paper.removeEventListener("change", change);
    };
  }, []);
}

function Part({ name, children }) {
  return html`<section aria-labelledby=${`part-${name}`} data-part=${name}>
    <h2 id=${`part-${name}`}>${t(`report.part_${name}`)}</h2>
    ${children}
  </section>`;
}

function View() {
  const [values, set] = useView("V12", DEFAULTS);
  useOpenOnPaper();
  const { report } = data;
  return html`
    <p class="run"><code>${report.run}</code></p>
    <${Facts} report=${report} />
    <${Part} name="findings"><${Findings} report=${report} /><//>
    <${Part} name="scores"><${Scores} report=${report} /><//>
    <${Part} name="course"><${Course} report=${report} /><//>
    <${Part} name="inside"><${Inside} report=${report} values=${values} set=${set} /><//>
    <${Part} name="errors"><${Errors} report=${report} />${report.notes.length > 0 && html`<ul class="remarks" lang="en">${report.notes.map((note) => html`<li key=${note}>${note}</li>`)}</ul>`}<//>
    <${Part} name="samples"><${Samples} report=${report} /><//>
    <${Part} name="weights"><${Weights} report=${report} /><//>
    <${Part} name="repeat"><${Repeat} report=${report} /><//>
    <p class="made" data-name="made" data-value=${report.seconds}>${t("report.made", { seconds: significant(report.seconds) })}</p>
  `;
}

export const view = { id: "V12", group: "report", needs: (given) => (given.report ? true : "V12.needs"), View };
