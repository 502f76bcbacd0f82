// Python counts.
import { absent } from "../../absent.js";

export const maybeDenseIntervalX = (options = {}) => options;
export const maybeDenseIntervalY = (options = {}) => options;
export const [bin, binX, binY, maybeThresholds] = Array(4).fill(absent("bin"));
