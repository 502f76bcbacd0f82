// In the place of d3-time, all of which Plot imports: steps of training and of texts are numbers, no axis shows a date.
// Plot marks each of these while it loads, so each is an object of its own.
const absent = () => () => {
  throw new Error("time scales are left out of this build: lab/src/thin/d3-time.js");
};

export const [
  timeSecond, timeMinute, timeHour, timeDay, timeWeek, timeMonth, timeYear, timeMonday, timeTuesday, timeWednesday,
  timeThursday, timeFriday, timeSaturday, timeSunday, utcSecond, utcMinute, utcHour, utcDay, unixDay, utcWeek, utcMonth,
  utcYear, utcMonday, utcTuesday, utcWednesday, utcThursday, utcFriday, utcSaturday, utcSunday, timeTicks,
  timeTickInterval, utcTicks, utcTickInterval,
] = Array.from({ length: 33 }, absent);
