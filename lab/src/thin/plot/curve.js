// Lines are straight from point to point: a curve would show what was not measured.
import { curveLinear } from "d3";

export const curveAuto = (context) => curveLinear(context);
export const maybeCurve = () => curveLinear;
export const maybeCurveAuto = () => curveAuto;
