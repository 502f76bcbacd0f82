// One store: which view, which language, what is hidden, and the values of every view.
// The address shows it: #view=V1&step=2&lang=zh&hide=controls. A link to a state is therefore a link that one can send.
import { signal } from "@preact/signals-core";
import { useEffect, useState } from "preact/hooks";
import { data } from "./content.js";

export const LANGUAGES = ["zh", "en"];
export const LANGUAGE_NAMES = { zh: "中文", en: "English" };
export const HIDABLE = ["controls", "prose", "navigation"];
const WRITE_AFTER = 200; // ms; browsers refuse more than some 100 changes of the address in 30 s

/** @type {import("@preact/signals-core").Signal<{view: string, lang: string, hide: string[], values: Object<string, Object<string, string>>}>} */
export const page = signal(read(location.hash, { view: "", lang: firstLanguage(), hide: [], values: {} }));

function firstLanguage() {
  if (LANGUAGES.includes(data.language)) return data.language;
  return navigator.language.startsWith("zh") ? "zh" : "en";
}

/** The state that `hash` asks for; what it does not say stays as in `before`. */
function read(hash, before) {
  const given = new URLSearchParams(hash.replace(/^#/, ""));
  const view = given.get("view") ?? before.view;
  const lang = LANGUAGES.includes(given.get("lang")) ? given.get("lang") : before.lang;
  const hide = given.has("hide") ? given.get("hide").split(",").filter((part) => HIDABLE.includes(part)) : before.hide;
  for (const name of ["view", "lang", "hide"]) given.delete(name);
  // A link that names values sets them all; one that names only a view finds that view as it was left.
  const own = [...given.keys()].length ? Object.fromEntries(given) : before.values[view];
  return { view, lang, hide, values: { ...before.values, [view]: own ?? {} } };
}

/** The hash of the present state, with `changes` in the values of the present view. */
export function hashOf(changes = {}) {
  const { view, lang, hide, values } = page.value;
  const all = new URLSearchParams({ view, ...values[view], ...changes, lang });
  if (hide.length) all.set("hide", hide.join(","));
  return `#${all.toString().replaceAll("%2C", ",")}`;
}

/** Go where `hash` says, as a link does. */
export function go(hash) {
  const before = page.value.view;
  page.value = read(hash, page.value);
  writeHash(page.value.view === before ? "replaceState" : "pushState");
}

export function setLanguage(lang) {
  page.value = { ...page.value, lang };
  writeSoon();
}

export function setHidden(part, hidden) {
  const others = page.value.hide.filter((name) => name !== part);
  page.value = { ...page.value, hide: hidden ? [...others, part] : others };
  writeSoon();
}

let waiting = 0;

function writeSoon() {
  clearTimeout(waiting);
  waiting = setTimeout(() => writeHash("replaceState"), WRITE_AFTER);
}

function writeHash(how) {
  clearTimeout(waiting);
  try {
    history[how](null, "", hashOf());
  } catch {
    // Inside a notebook (about:srcdoc) the address cannot be changed; the store alone keeps the state there.
  }
}

export function followAddress() {
  addEventListener("hashchange", () => {
    page.value = read(location.hash, page.value);
  });
  addEventListener("popstate", () => {
    page.value = read(location.hash, page.value);
  });
}

/** The value of a signal, drawn again when it changes. */
export function useSignal(source) {
  const [value, set] = useState(source.value);
  useEffect(() => source.subscribe(set), [source]);
  return value;
}

const decoders = {
  number: (text) => (text.trim() === "" ? NaN : Number(text)),
  boolean: (text) => text === "1",
  string: (text) => text,
  list: (text) => text.split(",").map((part) => (part.trim() === "" ? NaN : Number(part))),
};

const kindOf = (value) => (Array.isArray(value) ? "list" : typeof value);

function encode(value) {
  if (typeof value === "boolean") return value ? "1" : "0";
  return Array.isArray(value) ? value.join(",") : String(value);
}

/** The nearest number that limits [low, high] allow; with [low, high, step] a whole number of steps. */
function within(value, limit) {
  if (!limit) return value;
  const [low, high, step] = limit;
  return Math.min(Math.max(step ? Math.round(value / step) * step : value, low), high);
}

/** `text` as a value like `start`, or `start` if it is none: a hand-written address must not break a page. */
function decode(text, start, limit) {
  const value = decoders[kindOf(start)](text);
  if (kindOf(start) === "number") {
    return Number.isFinite(value) ? within(value, limit) : start;
  }
  if (kindOf(start) === "list") {
    return value.length <= 64 && value.every(Number.isFinite) ? value.map((x) => decode(String(x), 0, limit)) : start;
  }
  return kindOf(start) === "string" && limit && !limit.includes(value) ? start : value;
}

/**
 * The values of a view, kept in the address.
 *
 * @param {string} id of the view
 * @param {Object<string, number|boolean|string|number[]>} defaults also says of which kind each value is
 * @param {Object<string, [number, number, number?]|string[]>} limits smallest and largest number (and 1 where only whole
 *   numbers make sense), or the words allowed
 * @returns {[Object, (changes: Object) => void, () => void]} values; set some of them; set all to their defaults
 */
export function useView(id, defaults, limits = {}) {
  const raw = page.value.values[id] ?? {};
  const values = Object.fromEntries(
    Object.entries(defaults).map(([name, start]) => [
      name,
      name in raw ? decode(raw[name], start, limits[name]) : start,
    ]),
  );
  const set = (changes) => {
    const now = { ...page.value.values[id] };
    for (const [name, value] of Object.entries(changes)) {
      if (!(name in defaults)) throw new Error(`view ${id} has no value ${name}`);
      if (encode(value) === encode(defaults[name])) delete now[name];
      else now[name] = encode(value);
    }
    page.value = { ...page.value, values: { ...page.value.values, [id]: now } };
    writeSoon();
  };
  const reset = () => {
    page.value = { ...page.value, values: { ...page.value.values, [id]: {} } };
    writeSoon();
  };
  return [values, set, reset];
}

/** What was said last in the aria-live line. */
export const spoken = signal("");

export function announce(text) {
  spoken.value = text;
}
