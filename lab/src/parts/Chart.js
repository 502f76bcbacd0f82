// Observable Plot inside Preact. The only file that imports it: views name marks through `Plot` from here.
import { useEffect, useRef, useState } from "preact/hooks";
import { areaY, barX, barY, dot, line, link, plot, rectY, ruleX, ruleY, stackX, text } from "@observablehq/plot";
import { html } from "../html.js";
import { superscript } from "../numbers.js";

// Plot has more. What no view uses is left out of the build (lab/src/thin/): take it in there too before it is named here.
export const Plot = { areaY, barX, barY, dot, line, link, rectY, ruleX, ruleY, stacked: stackX, text };

const LOOK = { fontFamily: "inherit", fontSize: "13px", overflow: "visible", background: "transparent" };

/** Ticks at whole powers of ten for an axis that holds log10, at most `most` of them. */
export function powersOfTen([low, high], most = 8) {
  const step = [1, 2, 5, 10, 20, 25, 50, 100, 200].find((size) => (high - low) / size <= most) ?? 500;
  const first = Math.ceil(low / step) * step;
  return Array.from({ length: Math.floor((high - first) / step) + 1 }, (_, index) => first + index * step);
}

export const powerOfTen = (exponent) => `10${superscript(exponent)}`;

/** Make the shapes of a mark answer to Tab, Enter and a click. */
function makePickable(svg, { mark, label, onPick, picked }) {
  const shapes = [...svg.querySelectorAll(`g[aria-label="${mark}"] > *`)];
  for (const other of svg.querySelectorAll(`g[aria-label]:not([aria-label="${mark}"])`)) other.setAttribute("pointer-events", "none");
  shapes.forEach((shape, index) => {
    shape.setAttribute("tabindex", "0");
    shape.setAttribute("role", "button");
    shape.setAttribute("aria-label", label(index));
    shape.setAttribute("aria-pressed", String(index === picked));
    shape.setAttribute("data-pick", index);
    shape.classList.add("pickable");
    shape.addEventListener("click", () => onPick(index));
    shape.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      onPick(index);
    });
  });
}

/**
 * A chart as wide as its place.
 *
 * @param {string} label what it shows, in one sentence, for those who do not see it
 * @param {(width: number) => object} options of Plot.plot, for this width; say marks, scales and margins
 * @param {{mark: string, label: (index: number) => string, onPick: (index: number) => void, picked: number}} [pick]
 *   makes each shape of a mark a button. `mark` is the name Plot gives it: "bar", "dot", "cell", …
 */
export function Chart({ label, options, name, pick }) {
  const box = useRef();
  const [width, setWidth] = useState(0);
  useEffect(() => {
    // In the next frame: a chart drawn at once changes sizes while they are being reported.
    const watch = new ResizeObserver(([entry]) => requestAnimationFrame(() => setWidth(Math.floor(entry.contentRect.width))));
    watch.observe(box.current);
    return () => watch.disconnect();
  }, []);
  useEffect(() => {
    if (!width) return;
    const focused = box.current.contains(document.activeElement) ? document.activeElement.dataset.pick : undefined;
    const drawing = plot({ width, ariaLabel: label, ...options(width), style: LOOK });
    const svg = drawing.matches("svg") ? drawing : drawing.querySelector(":scope > svg");
    svg.setAttribute("role", pick ? "group" : "img");
    svg.classList.add("picture");
    for (const group of svg.querySelectorAll("g[aria-label]")) group.setAttribute("role", "group"); // Plot names them and says no more
    if (pick) makePickable(svg, pick);
    box.current.replaceChildren(drawing);
    if (focused !== undefined) box.current.querySelector(`[data-pick="${focused}"]`)?.focus();
  });
  return html`<div class="chart" ref=${box} data-chart=${name} />`;
}
