// The shell: heading, list of views, language, the view, and the line that speaks.
import { render } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { html } from "./html.js";
import { data } from "./content.js";
import { announce, followAddress, HIDABLE, page, setHidden, setLanguage, spoken, useSignal } from "./state.js";
import { hasText, rich, t } from "./i18n.js";
import { Link } from "./parts/Link.js";
import { GROUPS, viewsOf } from "./pages.js";

const OTHER = { zh: "en", en: "zh" };
const views = viewsOf(data.page);

function Navigation({ current }) {
  const wide = matchMedia("(min-width: 900px)").matches;
  const list = GROUPS.map((group) => [group, views.filter((view) => view.group === group)]).filter(([, own]) => own.length);
  return html`<nav aria-label=${t("shell.views")}>
    <details key=${wide ? "open" : current.id} open=${wide}>
      <summary>${t("shell.views")}</summary>
      ${list.map(
        ([group, own]) => html`<h2 key=${group}>${t(`group.${group}`)}</h2>
          <ul>
            ${own.map(
              (view) => html`<li key=${view.id}>
                <${Link} to=${`#view=${view.id}`} aria-current=${view.id === current.id ? "page" : undefined}>${t(`view.${view.id}.title`)}<//>
              </li>`,
            )}
          </ul>`,
      )}
    </details>
  </nav>`;
}

/** Which parts a link should hide: for a teacher who sets an exercise. */
function Exercise() {
  return html`<details class="exercise">
    <summary>${t("shell.exercise")}</summary>
    <p>${t("shell.exercise_how")}</p>
    ${HIDABLE.map(
      (part) => html`<label key=${part}>
        <input type="checkbox" checked=${page.value.hide.includes(part)} onChange=${(event) => setHidden(part, event.target.checked)} />
        ${t(`shell.hide_${part}`)}
      </label>`,
    )}
  </details>`;
}

function Lacking({ reason }) {
  return html`<p class="warning" role="note">${rich(reason)}</p>`;
}

function CurrentView({ view }) {
  const lacking = view.needs(data);
  return html`<main id="main" tabindex="-1" data-view=${view.id}>
    <h1>${t(`view.${view.id}.title`)}</h1>
    <p class="takeaway">${rich(`view.${view.id}.takeaway`)}</p>
    ${lacking === true ? html`<${view.View} key=${view.id} />` : html`<${Lacking} reason=${lacking} />`}
  </main>`;
}

function Speaker() {
  const text = useSignal(spoken);
  return html`<p class="unseen" role="status" aria-live="polite" id="spoken">${text}</p>`;
}

/** The window's title and language follow the page. */
function useDocument({ lang }, view) {
  useEffect(() => {
    document.documentElement.lang = lang === "zh" ? "zh-Hans" : "en";
    document.title = `${t(`view.${view.id}.title`)} · unrolled`;
  });
}

/** Another view begins at its top, has the focus, and is named; the first one does not take the focus. */
function useArrival(view) {
  const first = useRef(true);
  useEffect(() => {
    if (!first.current) {
      scrollTo(0, 0);
      document.getElementById("main").focus({ preventScroll: true });
      announce(t(`view.${view.id}.title`));
    }
    first.current = false;
  }, [view.id]);
}

/** True once anything has failed. */
function useFailure() {
  const [failed, setFailed] = useState(false);
  useEffect(() => {
    // A ResizeObserver that wants another round also says "error", but without an error: nothing is wrong then.
    const fail = (event) => event.error && setFailed(true);
    addEventListener("error", fail);
    return () => removeEventListener("error", fail);
  }, []);
  return failed;
}

function App() {
  const state = useSignal(page);
  const view = views.find(({ id }) => id === state.view) ?? views[0];
  useDocument(state, view);
  useArrival(view);
  const failed = useFailure();
  const bare = state.hide.includes("navigation");
  const toMain = (event) => {
    event.preventDefault();
    document.getElementById("main").focus();
  };
  return html`
    <a class="skip" href="#main" onClick=${toMain}>${t("shell.skip")}</a>
    <header>
      <strong class="brand">${t(hasText(`shell.brand_${data.page}`) ? `shell.brand_${data.page}` : "shell.brand_lab")}</strong>
      <button type="button" class="language" lang=${OTHER[state.lang] === "zh" ? "zh-Hans" : "en"} onClick=${() => setLanguage(OTHER[state.lang])}>
        ${t("shell.other_language")}
      </button>
    </header>
    ${failed && html`<p class="warning" role="alert">${t("shell.failed")}</p>`}
    <div class=${bare ? "frame bare" : "frame"}>
      ${!bare && html`<${Navigation} current=${view} />`}
      <${CurrentView} view=${view} />
    </div>
    <footer>
      ${!bare && html`<${Exercise} />`}
      <p>${t("shell.footer", { version: data.version ?? "" })}</p>
      <${Speaker} />
    </footer>
  `;
}

followAddress();
render(html`<${App} />`, document.getElementById("app"));
