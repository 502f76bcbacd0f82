// Which views a page has. data.page says which page this is.
import { data } from "./content.js";
import { views } from "./views/index.js";

/** Headings of the list of views, in order. A view names its group. */
export const GROUPS = ["start", "basics", "gates", "model", "tasks", "report"];

// The report embeds the views that need no more than one inspected run.
const REPORT = ["V12", "V2c", "V6", "V7", "V8", "V9"];

export function viewsOf(pageName) {
  // An inspection alone, as a notebook shows one, has no report.
  const wanted = REPORT.filter((id) => id !== "V12" || data.report);
  if (pageName === "report") return wanted.map((id) => views.find((view) => view.id === id)).filter(Boolean);
  return views.filter((view) => view.group !== "report");
}
