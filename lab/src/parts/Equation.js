// MathML made at build time from lab/equations.yaml, as a tree [tag, attributes, ...children].
import { h } from "preact";
import { html } from "../html.js";
import { content } from "../content.js";

const draw = (node) => (typeof node === "string" ? node : h(node[0], node[1], node.slice(2).map(draw)));

/** An equation by name. `gate` ties it to a highlight; `inline` sets it within a line of text. */
export function Equation({ name, gate, inline }) {
  const tree = content.equations[name];
  if (!tree) throw new Error(`no equation ${name}`);
  const math = draw(tree);
  return html`<span class=${inline ? "equation inline" : "equation"} data-gate=${gate}>${math}</span>`;
}
