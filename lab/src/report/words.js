// Words for what Python names by key: metrics, places in the network, findings.
import { count, number, significant } from "../numbers.js";
import { t } from "../i18n.js";

/** A layer and direction: recurrent, layer 0, forward. */
export function placeName({ name, layer, direction }) {
  return t(direction ? "report.place_backward" : "report.place_forward", { name: name || t("report.the_layer"), layer });
}

export const metricName = (name) => t(`metric.${name}`);

export const share = (x) => `${significant(100 * number(x), 3)} %`;

/** A number as a table shows it. */
export function shown(x) {
  if (x === null || x === undefined) return "";
  return Number.isInteger(x) ? count(x) : significant(number(x), 4);
}

const SHARES = new Set(["share", "coverage", "nominal"]);

/** A finding in the language of the page, from its key and its numbers. */
export function findingText({ key, values }) {
  const said = {};
  for (const [name, value] of Object.entries(values)) {
    if (typeof value === "number") said[name] = SHARES.has(name) ? share(value) : shown(value);
    else if (["inf", "-inf", "nan"].includes(value)) said[name] = significant(number(value));
    else said[name] = value;
  }
  if ("layer" in values) said.place = placeName(values);
  if (key === "baseline") said.name = metricName(values.name);
  if (key === "gradient") said.word = t(`verdict.${values.word}`);
  return t(`finding.${key}`, said);
}
