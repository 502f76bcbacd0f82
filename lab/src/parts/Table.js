import { html } from "../html.js";

/**
 * Rows of text or numbers. A cell may be {text, value, name}: what is shown, the exact number, and its name for tests.
 *
 * @param {string} caption
 * @param {string[]} columns headings
 * @param {Array<Array<string|number|{text: string, value?: number, name?: string, lang?: string}>>} rows the first cell heads its row
 */
export function Table({ caption, columns, rows, kind }) {
  return html`<div class="table-box" tabindex="0" role="region" aria-label=${caption}>
    <table class=${kind}>
      <caption>${caption}</caption>
      <thead>
        <tr>${columns.map((column, index) => html`<th key=${index} scope="col">${column}</th>`)}</tr>
      </thead>
      <tbody>
        ${rows.map((row, index) => html`<tr key=${index}>${row.map(drawCell)}</tr>`)}
      </tbody>
    </table>
  </div>`;
}

function drawCell(cell, index) {
  const whole = typeof cell === "object" ? cell : { text: String(cell), value: typeof cell === "number" ? cell : undefined };
  const marks = { "data-value": whole.value, "data-name": whole.name, lang: whole.lang };
  if (index === 0) return html`<th key=${index} scope="row" ...${marks}>${whole.text}</th>`;
  return html`<td key=${index} class=${whole.value === undefined ? "" : "number"} ...${marks}>${whole.text}</td>`;
}

const quoted = (text) => (/[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

/** The same table as CSV, with exact numbers. A cell that a spreadsheet would run as a formula gets a quote before it. */
export function csvOf({ columns, rows }) {
  const plainText = (cell) => {
    if (typeof cell === "number") return String(cell);
    const text = typeof cell === "object" ? String(cell.value ?? cell.text) : cell;
    return /^[=+@\t-]/.test(text) && Number.isNaN(Number(text)) ? `'${text}` : text;
  };
  return [columns, ...rows].map((row) => row.map((cell) => quoted(plainText(cell))).join(",") + "\r\n").join("");
}
