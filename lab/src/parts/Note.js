import { html } from "../html.js";
import { page } from "../state.js";
import { rich } from "../i18n.js";

/** Paragraphs of prose by key; a link with hide=prose leaves them out. */
export function Prose({ keys, values }) {
  if (page.value.hide.includes("prose")) return null;
  return html`<div class="prose">${keys.map((key) => html`<p key=${key}>${rich(key, values)}</p>`)}</div>`;
}

/** A remark that stands apart: kind "note" or "warning". It stays when prose is hidden. */
export function Note({ of, values, kind = "note" }) {
  return html`<p class=${kind} role="note">${rich(of, values)}</p>`;
}
