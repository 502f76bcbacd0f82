// Numbers as colours, on a canvas: 128 × 400 cells paint in milliseconds where SVG takes a second and a half.
// A cursor that the arrow keys move says each cell; a click pins what the pointer shows.
import { useEffect, useRef, useState } from "preact/hooks";
import { html } from "../html.js";
import { announce } from "../state.js";
import { t } from "../i18n.js";
import { EMPTY, tableOf } from "./colors.js";

const LABEL_FONT = '12px system-ui, "PingFang SC", "Microsoft YaHei", "Noto Sans CJK SC", "WenQuanYi Micro Hei", sans-serif';

/** Paint the cells at one pixel each, then enlarge: the browser does the rest. */
function paint(canvas, { rows, columns, at, scale, domain, place, cell, rowLabels, columnLabels, lines }) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round((place.left + columns * cell.width) * ratio);
  canvas.height = Math.round((place.top + rows * cell.height) * ratio);
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  pen.fillStyle = "#fff";
  pen.fillRect(0, 0, canvas.width, canvas.height);
  if (!rows || !columns) return;
  pen.imageSmoothingEnabled = false;
  pen.drawImage(pixels(rows, columns, at, scale, domain), place.left, place.top, columns * cell.width, rows * cell.height);
  pen.fillStyle = "#222";
  pen.font = LABEL_FONT;
  pen.textBaseline = "middle";
  pen.textAlign = "right";
  everyFit(rowLabels, cell.height, 13, (label, row) => pen.fillText(label, place.left - 5, place.top + (row + 0.5) * cell.height));
  pen.textAlign = "center";
  everyFit(columnLabels, cell.width, 11, (label, column) => pen.fillText(label, place.left + (column + 0.5) * cell.width, place.top - 9));
  pen.strokeStyle = "#222";
  pen.setLineDash([4, 3]);
  for (const column of lines) {
    pen.beginPath();
    pen.moveTo(place.left + column * cell.width, place.top);
    pen.lineTo(place.left + column * cell.width, place.top + rows * cell.height);
    pen.stroke();
  }
}

function everyFit(labels, size, need, draw) {
  const every = Math.max(1, Math.ceil(need / size));
  labels.forEach((label, index) => index % every === 0 && draw(label, index));
}

function pixels(rows, columns, at, scale, [low, high]) {
  const colors = tableOf(scale);
  const empty = EMPTY.match(/\w\w/g).map((pair) => parseInt(pair, 16));
  const small = document.createElement("canvas");
  small.width = columns;
  small.height = rows;
  const pen = small.getContext("2d");
  const image = pen.createImageData(columns, rows);
  const factor = 255 / (high - low || 1);
  for (let row = 0, place = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++, place += 4) {
      const x = at(row, column);
      const share = Math.round(Math.min(Math.max((x - low) * factor, 0), 255));
      image.data.set(Number.isNaN(x) ? empty : colors[share], place);
      image.data[place + 3] = 255;
    }
  }
  pen.putImageData(image, 0, 0);
  return small;
}

/** Where the cursor is, and what moves it: pointer, keys, a click that pins it. null: nowhere. */
function useCursor({ rows, columns, say, selected, onSelect }, spotOf) {
  const [cursor, setCursor] = useState(null); // {row, column, pinned}
  const onPointerMove = (event) => {
    if (!cursor?.pinned) setCursor(spotOf(event));
  };
  const onPointerLeave = () => {
    if (!cursor?.pinned) setCursor(null);
  };
  const onClick = (event) => {
    const spot = spotOf(event);
    setCursor(spot && { ...spot, pinned: true });
    if (spot) onSelect?.(spot);
  };
  const onKeyDown = (event) => {
    const from = cursor ?? selected ?? { row: 0, column: 0 };
    const choosing = event.key === "Enter" || event.key === " ";
    const move = MOVES[event.key];
    if (event.key === "Escape") setCursor(null);
    if (!rows || !columns || (!choosing && !move)) return;
    event.preventDefault();
    if (choosing) return void onSelect?.(from);
    const spot = { row: clamp(from.row + move[0], rows), column: clamp(from.column + move[1], columns), pinned: true };
    setCursor(spot);
    announce(say(spot.row, spot.column));
  };
  const there = cursor && cursor.row < rows && cursor.column < columns; // the table may have shrunk under it
  return [there ? cursor : null, { onPointerMove, onPointerLeave, onClick, onKeyDown }];
}

/**
 * @param {number} rows
 * @param {number} columns
 * @param {(row: number, column: number) => number} at the number of a cell; NaN is an empty cell
 * @param {"signed"|"size"} scale
 * @param {[number, number]} domain the numbers at the two ends of the scale
 * @param {(row: number, column: number) => string} say a cell in words: token, unit, value
 * @param {{row: number, column: number}} [selected] and onSelect({row, column}): a cell that is chosen
 * @param {string[]} [rowLabels]
 * @param {string[]} [columnLabels]
 * @param {number[]} [lines] dashed lines before these columns
 * @param {{width: number, height: number}} [cell] size in CSS pixels
 */
export function Heatmap(props) {
  const {
    name, label, rows, columns, at, say, selected, rowLabels = [], columnLabels = [], lines = [], cell = { width: 14, height: 14 },
  } = props;
  const canvas = useRef();
  const longest = Math.max(0, ...rowLabels.map((text) => text.length));
  const place = { left: rowLabels.length ? Math.min(12 + 8 * longest, 140) : 0, top: columnLabels.length ? 18 : 0 };
  useEffect(() => {
    const start = performance.now();
    paint(canvas.current, { ...props, place, cell, rowLabels, columnLabels, lines });
    performance.measure("heatmap", { start }); // a test holds it to 50 ms for 128 × 400 cells
  }, [props]); // not when only the cursor moves

  const spotOf = (event) => {
    const box = canvas.current.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left - place.left) / cell.width);
    const row = Math.floor((event.clientY - box.top - place.top) / cell.height);
    return row >= 0 && row < rows && column >= 0 && column < columns ? { row, column } : null;
  };
  const [cursor, handlers] = useCursor(props, spotOf);
  const boxOf = ({ row, column }) => ({
    left: `${place.left + column * cell.width}px`, top: `${place.top + row * cell.height}px`,
    width: `${cell.width}px`, height: `${cell.height}px`,
  });
  const size = { width: `${place.left + columns * cell.width}px`, height: `${place.top + rows * cell.height}px` };
  return html`<div class="heatmap" data-heatmap=${name}>
    <div class="cells" tabindex="0" role="application" data-own-keys aria-label=${`${label} ${t("heatmap.keys")}`} style=${size} ...${handlers}>
      <canvas class="picture" ref=${canvas} style=${{ width: "100%", height: "100%" }} />
      ${selected && html`<span class="chosen" style=${boxOf(selected)} />`}
      ${cursor && html`<span class="cursor" style=${boxOf(cursor)} />`}
    </div>
    <p class="tip" data-name="tip" data-value=${cursor ? at(cursor.row, cursor.column) : undefined}>
      ${cursor ? say(cursor.row, cursor.column) : t("heatmap.point")}
    </p>
  </div>`;
}

const MOVES = {
  ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0], Home: [0, -Infinity], End: [0, Infinity],
  PageDown: [10, 0], PageUp: [-10, 0],
};

const clamp = (index, length) => Math.min(Math.max(index, 0), length - 1);
