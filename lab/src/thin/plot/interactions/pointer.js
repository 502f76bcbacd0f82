// See ../marks/tip.js.
import { absent } from "../../absent.js";

export const [pointer, pointerX, pointerY, anchorX, anchorY] = Array(5).fill(absent("pointer"));
