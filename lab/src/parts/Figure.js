// A picture with what every picture has: show the numbers as a table, copy the link, save as CSV, SVG or PNG.
import { useRef, useState } from "preact/hooks";
import { html } from "../html.js";
import { announce, hashOf } from "../state.js";
import { t } from "../i18n.js";
import { Button } from "./controls.js";
import { Scroll } from "./Scroll.js";
import { csvOf, Table } from "./Table.js";
import { pngOf, save, svgOf } from "./saving.js";

/**
 * @param {string} name of the files that are saved
 * @param {string} title heading of the picture
 * @param {{caption: string, columns: string[], rows: Array}} table what the picture shows, as numbers
 * A notebook's frame has no address, so there no link can be copied.
 *
 * @param {any} children the picture: the first <svg> or <canvas> in it is what is saved
 */
export function Figure({ name, title, table, children, note }) {
  const body = useRef();
  const [shown, show] = useState(false);
  const picture = () => body.current.querySelector("svg.picture, canvas.picture, svg, canvas");
  const copy = async () => {
    const link = location.href.split("#")[0] + hashOf();
    await copyText(link);
    announce(t("figure.copied"));
  };
  const saveCsv = () => save(`${name}.csv`, new Blob(["\ufeff", csvOf(table)], { type: "text/csv" }));
  const saveSvg = () => save(`${name}.svg`, new Blob([svgOf(picture())], { type: "image/svg+xml" }));
  const savePng = async () => save(`${name}.png`, await pngOf(picture()));
  return html`<figure class="figure" data-figure=${name}>
    <figcaption>${title}</figcaption>
    <div ref=${body}><${Scroll} class="picture-box" label=${title}>${children}<//></div>
    ${note && html`<p class="note">${note}</p>`}
    <div class="toolbar" role="group" aria-label=${t("figure.tools", { title })}>
      <${Button} aria-expanded=${String(shown)} onClick=${() => show(!shown)} data-do="table">${t(shown ? "figure.hide_table" : "figure.table")}<//>
      ${location.protocol !== "about:" && html`<${Button} onClick=${copy} data-do="link">${t("figure.link")}<//>`}
      <${Button} onClick=${saveCsv} data-do="csv">CSV<//>
      <${Button} onClick=${saveSvg} data-do="svg">SVG<//>
      <${Button} onClick=${savePng} data-do="png">PNG<//>
    </div>
    ${shown && html`<${Table} ...${table} />`}
  </figure>`;
}

/** Pages opened from disk may not have the clipboard; a selected text field is the old way and always there. */
async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const field = document.createElement("textarea");
    field.value = text;
    document.body.append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
  }
}
