import { html } from "../html.js";

/**
 * One line of arithmetic with the actual numbers. Parts are texts, or {text, role, value, name}: a term in the colour of its
 * arrow (role), with its exact number for tests.
 */
export function Arithmetic({ parts, label }) {
  return html`<p class="arithmetic" aria-label=${label} role="group">
    ${parts.map((part, index) =>
      typeof part === "string"
        ? part
        : html`<span key=${index} class="term" data-role=${part.role} data-value=${part.value} data-name=${part.name}>${part.text}</span>`,
    )}
  </p>`;
}
