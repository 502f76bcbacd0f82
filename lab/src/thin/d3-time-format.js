// In the place of d3-time-format, which writes dates: no axis of the page shows one.
const absent = () => {
  throw new Error("dates are left out of this build: lab/src/thin/d3-time-format.js");
};

export const [timeFormat, utcFormat] = [absent, absent];
