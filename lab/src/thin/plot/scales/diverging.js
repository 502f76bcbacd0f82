// See schemes.js.
import { absent } from "../../absent.js";

export const [
  createScaleDiverging, createScaleDivergingLog, createScaleDivergingPow, createScaleDivergingSqrt, createScaleDivergingSymlog,
] = Array(5).fill(absent("diverging scale"));
