// How training went: loss, score, learning rate, gradient before and after clipping.
import { html } from "../html.js";
import { t } from "../i18n.js";
import { significant } from "../numbers.js";
import { Lines } from "../parts/Lines.js";
import { Table } from "../parts/Table.js";
import { metricName, shown } from "./words.js";

const BLUE = { color: "#0072B2", dash: "8 3" };
const ORANGE = { color: "#B84A00", dash: "none" };
const PALE = { color: "#5b8fb9", dash: "none" };

export function Course({ report }) {
  const { curves, epochs, score, clip, training } = report;
  const step = t("report.step");
  const rules = clip === null ? [] : [{ y: clip, label: t("report.clip", { clip: significant(clip) }) }];
  const best = training.best_epoch === null ? [] : [{ x: training.best_epoch, label: t("report.best_at", { epoch: training.best_epoch }) }];
  const scored = score && epochs.valid[score.name];
  const none = !curves.loss && !epochs.steps.loss;
  if (none) return html`<p class="note" role="note">${t("report.no_metrics")}</p>`;
  return html`
    <${Lines} name="loss" title=${t("report.loss")} x=${step} y=${t("report.nats")} lines=${[
      { key: "step", label: t("report.loss_steps"), curve: curves.loss, ...PALE, thin: true },
      { key: "train", label: t("report.loss_train"), curve: epochs.steps.loss, ...BLUE, dots: true },
      { key: "valid", label: t("report.loss_valid"), curve: epochs.steps.nats, ...ORANGE, dots: true },
    ]} />
    ${scored && html`<${Lines} name="score" title=${t("report.score", { metric: metricName(score.name) })} x=${t("report.epoch")} y=${metricName(score.name)} rules=${best}
      lines=${[{ key: score.name, label: metricName(score.name), curve: scored, ...ORANGE, dots: true }]} />`}
    ${curves.gradient_norm && html`<${Lines} name="gradient" title=${t("report.gradient")} x=${step} y=${t("report.norm")} log rules=${rules} lines=${[
      { key: "before", label: t("report.before_clip"), curve: curves.gradient_norm, ...ORANGE, thin: true },
      { key: "after", label: t("report.after_clip"), curve: curves.clipped_norm, ...BLUE },
    ]} />
    <p class="note" role="note">${t("report.clip_says")}</p>`}
    ${curves.learning_rate && html`<${Lines} name="rate" title=${t("report.rate_title")} x=${step} y=${t("report.rate")} zero
      lines=${[{ key: "rate", label: t("report.rate"), curve: curves.learning_rate, ...BLUE, dash: "none" }]} />`}
    <${EpochTable} epochs=${epochs} />
  `;
}

function EpochTable({ epochs }) {
  if (!epochs.loss) return null;
  const names = Object.keys(epochs.valid).filter((name) => name !== "items" && name !== "nats");
  const at = (curve, epoch) => (curve ? curve.y[curve.x.indexOf(epoch)] : undefined);
  const best = new Set(epochs.best);
  const rows = epochs.loss.x.map((epoch) => [
    best.has(epoch) ? `${epoch} ★` : String(epoch),
    ...[epochs.loss, epochs.valid.nats, ...names.map((name) => epochs.valid[name]), epochs.seconds].map((curve) => {
      const value = at(curve, epoch);
      return value === undefined ? "" : { text: shown(value), value };
    }),
  ]);
  const columns = [t("report.epoch"), t("report.loss_train"), t("report.loss_valid"), ...names.map(metricName), t("report.seconds")];
  return html`<details data-print>
    <summary>${t("report.by_epoch", { count: rows.length })}</summary>
    <${Table} caption=${t("report.by_epoch_caption")} columns=${columns} rows=${rows} />
  </details>`;
}
