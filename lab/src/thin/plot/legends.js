// Legends are ours (parts/strokes.js, parts/gates.js, parts/colors.js): colour, pattern and letter together.
import { absent } from "../absent.js";

export const createLegends = () => [];
export const exposeLegends = () => absent("legend");
export const legend = absent("legend");
