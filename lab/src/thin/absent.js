// What a thin file gives for a function that no view calls.
export const absent = (what) => () => {
  throw new Error(`${what} is left out of this build: lab/src/thin/`);
};
