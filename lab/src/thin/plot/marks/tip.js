// No view uses Plot's tips: what a pointer shows, focus and a tap must show too.
import { absent } from "../../absent.js";

export const [tip, Tip] = Array(2).fill(absent("tip"));
