// Questions that people ask about recurrent networks, with answers that say the exact version.
import { html } from "../html.js";
import { rich, t } from "../i18n.js";
import { useView } from "../state.js";
import { Prose } from "../parts/Note.js";

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
    </div>`;
}

export const view = { id: "qa", group: "tasks", needs: () => true, View };
