// The models that the page knows: the reader's own first, then those that came with it.
import { signal } from "@preact/signals-core";
import { data } from "./content.js";
import { useSignal } from "./state.js";
import { t } from "./i18n.js";

const models = signal([]);
const written = signal([]);
let source; // the list that the signals were filled from: the reader may have opened a file since

function useData(wanted) {
  if (source !== data.models) {
    source = data.models;
    models.value = data.models ?? [];
    written.value = data.generation ?? [];
  }
  return useSignal(wanted);
}

/** Inspections, as unrolled.insight documents them, each with a name. */
export const useModels = () => useData(models);

/** Texts that models write, as unrolled.training.inspection.lab_data documents them. */
export const useWritten = () => useData(written);

const replaced = (list, one) => {
  const place = list.findIndex((old) => old.name === one.name && !old.demo);
  return place < 0 ? [one, ...list] : list.map((old, index) => (index === place ? one : old));
};

/** What a server answered takes the place of what the page had of this model. */
export function take({ model, generation }) {
  models.value = replaced(models.value, model);
  if (generation) written.value = replaced(written.value, generation);
}

/** Names for a list to choose from: a model that came with the page says so, and two of a name are told apart. */
export function labelled(list) {
  const seen = new Map();
  const mixed = list.some(({ demo }) => !demo);
  return list.map((one) => {
    const base = one.demo && mixed ? t("models.demo", { name: one.name }) : (one.name ?? one.cell);
    const times = (seen.get(base) ?? 0) + 1;
    seen.set(base, times);
    return times > 1 ? `${base} (${times})` : base;
  });
}

/** A place in a list, whatever a hand-written address asks for. */
export const within = (index, list) => Math.min(Math.max(Math.round(index), 0), list.length - 1);

/** The model that a view begins with: the reader's own, else the LSTM. */
export const startOf = (list) => (list[0]?.demo ? Math.max(0, list.findIndex(({ cell }) => cell === "lstm")) : 0);

/** A layer among its like: which module, layer and direction, as far as there are several. */
export function placeLabel(place, all) {
  const differ = (key) => new Set(all.map((one) => one[key])).size > 1;
  const parts = [
    differ("name") && place.name,
    differ("layer") && t("models.layer", { layer: place.layer + 1 }),
    differ("direction") && t(place.direction ? "models.backward" : "models.forward"),
  ];
  return parts.filter(Boolean).join(", ") || t("models.the_layer");
}

const SIGNS = { " ": "␣", "\n": "↵", "\t": "⇥", "\r": "␍", "\u00a0": "⍽" };

/** A token that can be seen: spaces and line ends get a sign. */
export const visible = (token) => (token in SIGNS ? SIGNS[token] : token);

/** What an item's steps are called: their tokens, or their numbers where the model reads features. */
export const stepNames = (item) => item.tokens?.map(visible) ?? Array.from({ length: item.steps }, (_, step) => String(step + 1));

/** A key of a text, or true: what a view of trained models needs. */
export const needsModels = (test, reason) => (given) => ((given.models ?? []).some(test) ? true : reason);
