// Every view, in the order of the list. One line a view: its file is named after its id.
import { view as V1 } from "./V1.js";

export const views = [V1];
