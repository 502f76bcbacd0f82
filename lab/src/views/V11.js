// Questions with answers, and for each wrong choice why it is wrong. The score lives in memory only.
import { signal } from "@preact/signals-core";
import { html } from "../html.js";
import { content } from "../content.js";
import { announce, page, useSignal, useView } from "../state.js";
import { richText, t } from "../i18n.js";
import { Button } from "../parts/controls.js";
import { Link } from "../parts/Link.js";
import { Prose } from "../parts/Note.js";

const COUNT = content.quiz.en.length;
const DEFAULTS = { at: 1 };
const LIMITS = { at: [1, COUNT, 1] };

/** What was chosen and checked: {question: choice}; and what is chosen and not checked yet. */
const checked = signal({});
const chosen = signal({});

const isRight = (question, choice) => question.choices[choice].right === true;

function Strip({ questions, at, done, set }) {
  return html`<div class="quiz-strip" role="group" aria-label=${t("V11.questions")}>
    ${questions.map((question, index) => {
      const mark = !(question.id in done) ? "" : isRight(question, done[question.id]) ? " ✓" : " ✗";
      const state = mark === "" ? "V11.open" : mark === " ✓" ? "V11.right" : "V11.wrong";
      return html`<${Button} key=${question.id} onClick=${() => set({ at: index + 1 })} aria-current=${index + 1 === at ? "step" : undefined}
        aria-pressed=${String(index + 1 === at)} aria-label=${t("V11.number", { number: index + 1, state: t(state) })}>${index + 1}${mark}<//>`;
    })}
  </div>`;
}

function Question({ question, number }) {
  const done = useSignal(checked);
  const now = useSignal(chosen)[question.id];
  const answer = done[question.id];
  const check = () => {
    if (now === undefined) return announce(t("V11.choose_first"));
    checked.value = { ...done, [question.id]: now };
    return announce(`${t(isRight(question, now) ? "V11.is_right" : "V11.is_wrong")} ${question.choices[now].why}`);
  };
  const again = () => {
    const { [question.id]: _, ...others } = done;
    checked.value = others;
  };
  return html`<div class="quiz" data-question=${question.id}>
    <fieldset>
      <legend>${number}. ${richText(question.question)}</legend>
      ${question.choices.map(
        (choice, index) => html`<div key=${index}>
          <label class="option">
            <input type="radio" name=${question.id} value=${index} checked=${now === index} disabled=${answer !== undefined}
              onChange=${() => (chosen.value = { ...chosen.value, [question.id]: index })} />
            <span>${richText(choice.text)}</span>
          </label>
          ${answer !== undefined &&
          html`<p class=${`why ${choice.right ? "right" : index === answer ? "wrong" : ""}`}>
            <strong>${t(choice.right ? "V11.this_right" : "V11.this_wrong")}</strong> ${richText(choice.why)}
          </p>`}
        </div>`,
      )}
      ${answer === undefined
        ? html`<${Button} class="main" onClick=${check} data-do="check">${t("V11.check")}<//>`
        : html`<p class="verdict" data-name="verdict">${t(isRight(question, answer) ? "V11.is_right" : "V11.is_wrong")}</p>
            <p><${Link} to=${question.show}>${t("V11.show")}<//></p>
            <${Button} onClick=${again} data-do="again">${t("V11.again")}<//>`}
    </fieldset>
  </div>`;
}

function View() {
  const [values, set] = useView("V11", DEFAULTS, LIMITS);
  const { at } = values;
  const questions = content.quiz[page.value.lang];
  const done = useSignal(checked);
  const right = questions.filter((question) => question.id in done && isRight(question, done[question.id])).length;
  const turn = (by) => () => set({ at: ((at - 1 + by + COUNT) % COUNT) + 1 });
  return html`
    <${Prose} keys=${["V11.intro"]} />
    <${Strip} questions=${questions} at=${at} done=${done} set=${set} />
    <${Question} key=${questions[at - 1].id} question=${questions[at - 1]} number=${at} />
    <div class="presets">
      <${Button} onClick=${turn(-1)} data-do="back">${t("V11.back")}<//>
      <${Button} onClick=${turn(1)} data-do="next">${t("V11.next")}<//>
      <${Button} onClick=${() => ((checked.value = {}), (chosen.value = {}))} data-do="clear">${t("V11.clear")}<//>
    </div>
    <p data-name="score" data-value=${right}>${t("V11.score", { right, done: Object.keys(done).length, count: COUNT })}</p>
  `;
}

export const view = { id: "V11", group: "tasks", needs: () => true, View };
