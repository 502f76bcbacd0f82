// Observable Plot inside Preact. The only file that imports it: views name marks through `Plot` from here.
import { useEffect, useRef, useState } from "preact/hooks";
import {
  areaY, axisX, axisY, barX, barY, cell, crosshairX, dot, gridX, gridY, line, link, plot, rectY, ruleX, ruleY, text, tip, pointerX,
} from "@observablehq/plot";
import { html } from "../html.js";

export const Plot = { areaY, axisX, axisY, barX, barY, cell, crosshairX, dot, gridX, gridY, line, link, rectY, ruleX, ruleY, text, tip, pointerX };

const LOOK = { fontFamily: "inherit", fontSize: "13px", overflow: "visible", background: "transparent" };

/**
 * A chart as wide as its place.
 *
 * @param {string} label what it shows, in one sentence, for those who do not see it
 * @param {(width: number) => object} options of Plot.plot, for this width; say marks, scales and margins
 */
export function Chart({ label, options, name }) {
  const box = useRef();
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const watch = new ResizeObserver(([entry]) => setWidth(Math.floor(entry.contentRect.width)));
    watch.observe(box.current);
    return () => watch.disconnect();
  }, []);
  useEffect(() => {
    if (!width) return;
    const drawing = plot({ width, ariaLabel: label, ...options(width), style: LOOK });
    const svg = drawing.matches("svg") ? drawing : drawing.querySelector("svg:last-of-type");
    svg.setAttribute("role", "img");
    svg.classList.add("picture");
    box.current.replaceChildren(drawing);
  });
  return html`<div class="chart" ref=${box} data-chart=${name} />`;
}
