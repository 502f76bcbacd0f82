// Views name their colours, or use parts/colors.js.
import { absent } from "../../absent.js";

export const isCategoricalScheme = () => false;
export const isDivergingScheme = () => false;
export const [ordinalScheme, quantitativeScheme, ordinalRange, maybeBooleanRange] = Array(4).fill(absent("scheme"));
