// Next, Back, Play, Reset, a timeline, and the keys of all of them.
import { useEffect, useRef, useState } from "preact/hooks";
import { html } from "../html.js";
import { t } from "../i18n.js";
import { Button, Controls, Slider } from "./controls.js";

const PACE = 1100; // ms a step while playing

/** True where a key belongs to the element that has the focus. */
function takesKeys(target, key) {
  if (target.closest("[data-own-keys]")) return true;
  if (target.matches("input, select, textarea")) return true;
  return key === " " && target.closest("button, a, summary, [role=button]") !== null;
}

/** The keys that step, wherever the focus is, unless the element there needs them. */
function useKeys(latest, go) {
  useEffect(() => {
    const press = (event) => {
      if (event.altKey || event.ctrlKey || event.metaKey || takesKeys(event.target, event.key)) return;
      const { step, length } = latest.current;
      const to = { ArrowRight: step + 1, " ": step + 1, ArrowLeft: step - 1, Home: -Infinity, End: length }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      go(to);
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
}

/** A step at every beat while playing, until the end. */
function usePlaying(latest, move) {
  const [playing, play] = useState(false);
  useEffect(() => {
    if (!playing) return undefined;
    const timer = setInterval(() => {
      const { step, length } = latest.current;
      if (step >= length) play(false);
      else move(step + 1);
    }, PACE);
    return () => clearInterval(timer);
  }, [playing]);
  return [playing, play];
}

/**
 * @param {number} length number of steps
 * @param {number} [first] the smallest step; 0 is before the first
 * @param {number} step how many have been made, 0 to length
 * @param {(step: number) => void} onStep
 * @param {string} [label] key of the name of the timeline
 * @param {string} [word] key of the sentence that names a step, with {step} and {length}
 */
export function Stepper({
  length, first = 0, step, onStep, onReset, word = "stepper.at", label = "stepper.timeline", name = "step",
}) {
  const latest = useRef();
  latest.current = { step, length, first, onStep };
  const move = (to) => {
    const { step, length, first, onStep } = latest.current;
    const next = Math.min(Math.max(to, first), length);
    if (next !== step) onStep(next);
  };
  const [playing, play] = usePlaying(latest, move);
  const go = (to) => {
    play(false);
    move(to);
  };
  useKeys(latest, go);
  const start = () => {
    if (!playing && step >= length) move(first);
    play(!playing);
  };
  const reset = () => {
    play(false);
    if (onReset) onReset();
    else move(first);
  };
  const at = t(word, { step, length });
  return html`<${Controls} label=${t("stepper.label")}>
    <${Button} onClick=${() => go(step - 1)} aria-disabled=${String(step === first)} data-do="back">${t("stepper.back")}<//>
    <${Button} onClick=${() => go(step + 1)} aria-disabled=${String(step === length)} data-do="next" class="main">${t("stepper.next")}<//>
    <${Button} onClick=${start} aria-pressed=${String(playing)} data-do="play">${t(playing ? "stepper.pause" : "stepper.play")}<//>
    <${Button} onClick=${reset} data-do="reset">${t("stepper.reset")}<//>
    <${Slider} label=${t(label)} value=${step} min=${first} max=${length} step=${1} text=${at} name=${name} onInput=${go} />
  <//>`;
}
