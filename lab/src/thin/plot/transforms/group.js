// Python groups.
import { absent } from "../../absent.js";

export const [
  find, group, groupX, groupY, groupZ, hasOutput, maybeEvaluator, maybeGroup, maybeGroupOutputs, maybeOutput, maybeOutputs,
  maybeReduce, maybeSort, maybeSubgroup, reduceCount, reduceFirst, reduceIdentity, reduceZ,
] = Array(18).fill(absent("group"));
