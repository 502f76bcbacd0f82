// Questions that people ask about recurrent networks, with answers that say the exact version.
import { html } from "../html.js";
import { content } from "../content.js";
import { rich, t } from "../i18n.js";
import { LANGUAGE_NAMES, useView } from "../state.js";
import { Prose } from "../parts/Note.js";
import { Table } from "../parts/Table.js";

// Which are there, by subject. qa.<id>.question and qa.<id>.answer are the texts.
export const QUESTIONS = {
  chain: ["shared", "vanish_where", "sum", "radius", "explode_fix", "clip_vanish", "truncate"],
  gates: ["why_lstm", "forget_bias", "count", "tanh_sigmoid", "choose", "no_forget"],
  use: ["last", "padding", "reset", "bidirectional", "depth", "tasks", "teacher"],
  after: ["serial", "transformer", "still"],
};
const DEFAULTS = { open: "" };

function View() {
  const [{ open }, set] = useView("qa", DEFAULTS);
  const toggle = (id) => (event) => {
    if (event.target.open && open !== id) set({ open: id });
    else if (!event.target.open && open === id) set({ open: "" });
  };
  return html`<${Prose} keys=${["qa.intro"]} />
    <div class="qa">
      ${Object.entries(QUESTIONS).map(
        ([subject, ids]) => html`<section key=${subject}>
          <h2>${t(`qa.subject_${subject}`)}</h2>
          ${ids.map(
            (id) => html`<details key=${id} open=${open === id} onToggle=${toggle(id)} data-question=${id}>
              <summary>${t(`qa.${id}.question`)}</summary>
              <p>${rich(`qa.${id}.answer`)}</p>
            </details>`,
          )}
        </section>`,
      )}
    </div>
    <h2>${t("qa.terms")}</h2>
    <${Table} caption=${t("qa.terms_table")} columns=${[LANGUAGE_NAMES.en, LANGUAGE_NAMES.zh]}
      rows=${content.glossary.map(({ en, zh }) => [{ text: en, lang: "en" }, { text: zh, lang: "zh-Hans" }])} />`;
}

export const view = { id: "qa", group: "tasks", needs: () => true, View };
