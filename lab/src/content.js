// What the page was given: `content` (texts, equations, quiz, glossary; the same in every page) and `data` (of this page).

const read = (id) => JSON.parse(document.getElementById(id).textContent);

export const content = read("content");
export const data = read("data");

const FORMAT = 1;

/**
 * Put the data of a file in the place of `data.models`: a lab's data, or one inspection.
 *
 * @param {string} text of the file
 * @returns {{fault?: string, values?: Object}} the key of the sentence that says why it cannot be used
 */
export function openFile(text) {
  let found;
  try {
    found = JSON.parse(text);
  } catch {
    return { fault: "V0.bad_json" };
  }
  const models = found?.kind === "inspection" ? [found] : found?.models;
  if (!Array.isArray(models) || !models.every((model) => model?.kind === "inspection")) return { fault: "V0.bad_kind" };
  const newer = models.find((model) => !(model.format <= FORMAT));
  if (newer) return { fault: "V0.bad_format", values: { format: String(newer.format) } };
  Object.assign(data, found.kind === "inspection" ? { models: [{ name: found.cell, ...found }] } : { ...found, page: data.page, language: data.language });
  return {};
}
