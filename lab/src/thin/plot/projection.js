// No view draws a map.
import { absent } from "../absent.js";

export const createProjection = () => undefined;
export const hasProjection = () => false;
export const projectionAspectRatio = () => undefined;
export const [project, getGeometryChannels, xyProjection, applyPosition] = Array(4).fill(absent("projection"));
