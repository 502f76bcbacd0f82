// Every view, in the order of the list. One line a view: its file is named after its id.
import { view as V1 } from "./V1.js";
import { view as V2a } from "./V2a.js";
import { view as V2b } from "./V2b.js";
import { view as V3 } from "./V3.js";

export const views = [V1, V2a, V2b, V3];
