// No axis shows a date.
import { absent } from "../absent.js";

export const intervalDuration = Symbol("intervalDuration");
export const [timeInterval, utcInterval, parseTimeInterval, generalizeTimeInterval, inferTimeFormat] = Array(5).fill(absent("time"));
