// MathML made at build time from lab/equations.yaml, as a tree [tag, attributes, ...children].
import { h } from "preact";
import { html } from "../html.js";
import { content } from "../content.js";
import { Scroll } from "./Scroll.js";

const draw = (node) => (typeof node === "string" ? node : h(node[0], node[1], node.slice(2).map(draw)));

/** An equation by name. `gate` ties it to a highlight; `inline` sets it within a line of text. */
export function Equation({ name, gate, inline, label = name }) {
  const tree = content.equations[name];
  if (!tree) throw new Error(`no equation ${name}`);
  const math = draw(tree);
  if (inline) return html`<span class="equation inline" data-gate=${gate}>${math}</span>`;
  return html`<${Scroll} class="equation" label=${label}>${math}<//>`;
}
