// A row of steps with their outputs, and which of them a task reads.
import { html } from "../html.js";
import { t } from "../i18n.js";
import { fixed, plain, subscript } from "../numbers.js";
import { AHEAD, INPUTS, TARGET } from "../toys.js";
import { Scroll } from "../parts/Scroll.js";

const PITCH = 92;
const LEFT = 62;
const BOX = { width: 70, height: 40 };
const centre = (step) => LEFT + (step - 1) * PITCH + BOX.width / 2;

function Output({ x, y, label, text, kind = "" }) {
  return html`<g class=${`made ${kind}`} data-output>
    <rect x=${x - BOX.width / 2} y=${y} width=${BOX.width} height="34" rx="17" />
    <text x=${x} y=${y + 22}>${text}</text>
    ${label && html`<text class="small" x=${x} y=${y - 6}>${label}</text>`}
  </g>`;
}

function Row({ y, values, length, read, way, name }) {
  return html`<g data-row=${name}>
    <text class="way" x="22" y=${y + 25}>${way}</text>
    ${values.map((h, index) => {
      const step = index + 1;
      const pad = step > length;
      const chosen = read.includes(step);
      return html`<g key=${step} class=${`cell ${pad ? "pad" : "known"} ${chosen ? "read" : ""}`} data-step=${step} data-read=${String(chosen)}>
        <rect x=${centre(step) - BOX.width / 2} y=${y} width=${BOX.width} height=${BOX.height} rx="8" />
        <text x=${centre(step)} y=${y + 25} data-name=${`${name}-${step}`} data-value=${h}>${pad ? "0" : fixed(h)}</text>
      </g>`;
    })}
  </g>`;
}

/** One output above all, or one above each step that is read. */
function outputsAt(kind, reading, length) {
  const middle = (centre(1) + centre(length)) / 2;
  if (["last", "mean", "max"].includes(kind)) return [{ x: kind === "last" ? centre(length) : middle, text: t("types.label") }];
  if (kind === "tag") return reading.forward.map((step) => ({ x: centre(step), text: `${t("types.tag")}${subscript(step)}` }));
  if (kind === "stream") return reading.forward.map((step) => ({ x: centre(step), text: `x${subscript(step + 1)}` }));
  if (kind === "document") return reading.forward.map((step) => ({ x: centre(step), text: step === length ? t("types.end") : `x${subscript(step + 1)}` }));
  if (kind === "direct") return Array.from({ length: AHEAD }, (_, place) => ({ x: centre(length + place + 1), text: `x${subscript(length + place + 1)}` }));
  return [];
}

/** Steps that come after the sequence: a decoder's, or a forecaster's that reads its own values. */
function Further({ kind, length, y }) {
  const count = kind === "pairs" ? TARGET + 1 : AHEAD;
  const first = INPUTS.length + 1;
  const inner = (place) => (kind === "pairs" ? `d${subscript(place)}` : `h${subscript(length + place)}`);
  const made = (place) => (kind === "pairs" ? (place === count ? t("types.end") : `y${subscript(place)}`) : `x${subscript(length + place)}`);
  const fed = (place) => (kind === "pairs" ? (place === 1 ? t("types.start") : `y${subscript(place - 1)}`) : `x${subscript(length + place - 1)}`);
  return html`<g data-further=${count}>
    ${Array.from({ length: count }, (_, index) => index + 1).map((place) => {
      const x = centre(first + place - 1);
      return html`<g key=${place} class="cell further">
        <rect x=${x - BOX.width / 2} y=${y} width=${BOX.width} height=${BOX.height} rx="8" />
        <text x=${x} y=${y + 25}>${inner(place)}</text>
        <path class="arrow" d=${`M${x} ${y - 4}V${y - 34}`} marker-end="url(#reading-head)" />
        <${Output} x=${x} y=${y - 74} text=${made(place)} />
        <text class="small" x=${x} y=${y + BOX.height + 38}>${fed(place)}</text>
        <path class="arrow" d=${`M${x} ${y + BOX.height + 22}V${y + BOX.height + 5}`} marker-end="url(#reading-head)" />
        ${place > 1 && html`<path class="arrow" d=${`M${x - PITCH + BOX.width / 2 + 2} ${y + 20}H${x - BOX.width / 2 - 4}`} marker-end="url(#reading-head)" />`}
      </g>`;
    })}
  </g>`;
}

export function Reading({ kind, outputs, reading, both }) {
  const { length, forward, backward } = outputs;
  const further = ["pairs", "autoregressive"].includes(kind);
  const beyond = further ? (kind === "pairs" ? TARGET + 1 : AHEAD) : kind === "direct" ? Math.max(0, length + AHEAD - INPUTS.length) : 0;
  const shift = kind === "document" ? PITCH : 0;
  const width = LEFT + (INPUTS.length + beyond) * PITCH + shift;
  const [top, second] = [86, 86 + 58];
  const floor = (both ? second : top) + BOX.height;
  const made = outputsAt(kind, reading, length);
  const label = t("types.describe", { read: reading.forward.join(", "), length });
  // What is read goes up to the outputs; pooling gathers several steps in one.
  const lines = made.length === 1 ? reading.forward.map((step) => [centre(step), made[0].x]) : made.map(({ x }, place) => [kind === "direct" ? centre(length) : centre(reading.forward[place]), x]);
  return html`<${Scroll} label=${label}><svg class="picture reading" width=${width} height=${floor + 62} viewBox=${`${-shift} 0 ${width} ${floor + 62}`} role="img" aria-label=${label}>
    <defs><marker id="reading-head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="context-stroke" /></marker></defs>
    ${lines.map(([from, to], place) => html`<path key=${place} class="arrow read" d=${`M${from} ${top - 3}L${to} ${50}`} marker-end="url(#reading-head)" />`)}
    ${made.map((one, place) => html`<${Output} key=${place} x=${one.x} y=${12} text=${one.text} />`)}
    ${kind === "document" && html`<g class="cell known read" data-step="0" data-read="true"><rect x=${centre(0) - BOX.width / 2} y=${top} width=${BOX.width} height=${BOX.height} rx="8" /><text x=${centre(0)} y=${top + 25}>h₀</text></g>
      <text class="small" x=${centre(0)} y=${floor + 38}>${t("types.end")}</text>`}
    <${Row} y=${top} values=${forward} length=${length} read=${reading.forward} way="→" name="forward" />
    ${both && html`<${Row} y=${second} values=${backward} length=${length} read=${reading.backward} way="←" name="backward" />`}
    ${INPUTS.map((x, index) => html`<g key=${index}>
      <path class="arrow" d=${`M${centre(index + 1)} ${floor + 22}V${floor + 5}`} marker-end="url(#reading-head)" />
      <text class=${index >= length ? "small pad" : ""} x=${centre(index + 1)} y=${floor + 38}>${index >= length ? t("types.pad") : plain(x)}</text>
      <text class="small" x=${centre(index + 1)} y=${floor + 55}>${`x${subscript(index + 1)}`}</text>
    </g>`)}
    ${further && html`<path class="arrow read" d=${`M${centre(length) + BOX.width / 2} ${top + 12}C${centre(length) + 90} ${top - 40} ${centre(INPUTS.length + 1) - 90} ${top - 40} ${centre(INPUTS.length + 1) - BOX.width / 2 - 4} ${top + 12}`} marker-end="url(#reading-head)" />
      <${Further} kind=${kind} length=${length} y=${top} />`}
  </svg><//>`;
}
