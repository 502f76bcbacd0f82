// A text with a colour behind each token.
import { html } from "../html.js";
import { visible } from "../models.js";
import { colorOf } from "./colors.js";

/** Black or white, whichever can be read on this colour (WCAG 2: relative luminance). */
export function inkOn(color) {
  const parts = color.startsWith("#") ? color.match(/[0-9a-f]{2}/gi).map((pair) => parseInt(pair, 16)) : color.match(/[\d.]+/g).map(Number);
  const [r, g, b] = parts.map((part) => (part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000000" : "#ffffff";
}

/**
 * @param {string[]} tokens
 * @param {(step: number) => number} at the number behind a token
 * @param {boolean} apart words, with a space between; else letters
 * @param {(step: number) => object} [marks] attributes of a token's element
 */
export function ShadedText({ tokens, at, scale, domain, apart, label, name, marks = () => ({}) }) {
  const paint = colorOf(scale, domain);
  return html`<p class=${apart ? "shaded apart" : "shaded"} dir="auto" role="group" aria-label=${label} data-name=${name}>
    ${tokens.map((token, step) => {
      const color = paint(at(step));
      return html`<span key=${step} style=${{ background: color, color: inkOn(color) }} ...${marks(step)}>${visible(token)}</span>${token === "\n" && html`<br />`}`;
    })}
  </p>`;
}
