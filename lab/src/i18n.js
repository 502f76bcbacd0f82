// Texts by key. A missing key or value is an error: nothing falls back in silence.
import { html } from "./html.js";
import { content } from "./content.js";
import { page } from "./state.js";
import { Equation } from "./parts/Equation.js";
import { Link } from "./parts/Link.js";

/** The text of `key` in the language of the page; {name} stands for values.name. */
export function t(key, values = {}) {
  const text = content.texts[page.value.lang][key];
  if (text === undefined) throw new Error(`no text ${key} in ${page.value.lang}`);
  return text.replace(/\{(\w+)\}/g, (_, name) => {
    if (values[name] === undefined) throw new Error(`text ${key} needs a value ${name}`);
    return String(values[name]);
  });
}

export function hasText(key) {
  return key in content.texts[page.value.lang];
}

// `code`, **strong**, $equation$ (a name in lab/equations.yaml), [text](#view=V1&step=2)
const MARKS = /`([^`]+)`|\*\*([^*]+)\*\*|\$(\w+)\$|\[([^\]]+)\]\((#[^)]+)\)/g;

/** The text of `key` with its marks as elements: a list of nodes to put between tags. */
export function rich(key, values = {}) {
  return richText(t(key, values));
}

/** The same for a text that has no key: of the quiz. */
export function richText(text) {
  const nodes = [];
  let end = 0;
  for (const found of text.matchAll(MARKS)) {
    const [whole, code, strong, equation, label, target] = found;
    nodes.push(text.slice(end, found.index));
    if (code) nodes.push(html`<code>${code}</code>`);
    else if (strong) nodes.push(html`<strong>${strong}</strong>`);
    else if (equation) nodes.push(html`<${Equation} name=${equation} inline />`);
    else nodes.push(html`<${Link} to=${target}>${label}<//>`);
    end = found.index + whole.length;
  }
  return [...nodes, text.slice(end)];
}
