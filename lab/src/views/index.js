// Every view, in the order of the list. One line a view: its file is named after its id.
import { view as V0 } from "./V0.js";
import { view as V1 } from "./V1.js";
import { view as V2a } from "./V2a.js";
import { view as V2b } from "./V2b.js";
import { view as V2c } from "./V2c.js";
import { view as V3 } from "./V3.js";
import { view as V4 } from "./V4.js";
import { view as V5 } from "./V5.js";
import { view as V6 } from "./V6.js";
import { view as V7 } from "./V7.js";
import { view as V8 } from "./V8.js";
import { view as V9 } from "./V9.js";
import { view as V10 } from "./V10.js";
import { view as V11 } from "./V11.js";
import { view as order } from "./order.js";
import { view as qa } from "./qa.js";
import { view as shapes } from "./shapes.js";
import { view as V12 } from "./V12.js";
import { view as types } from "./types.js";
import { view as stack } from "./stack.js";
import { view as pairs } from "./pairs.js";
import { view as growth } from "./growth.js";

export const views = [V0, V1, V2a, V2b, order, V3, V4, V5, V2c, V6, V7, V8, V9, V10, shapes, types, stack, pairs, growth, qa, V11, V12];
