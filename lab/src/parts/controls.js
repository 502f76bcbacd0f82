// Native inputs with a label and a number beside them.
import { useId } from "preact/hooks";
import { html } from "../html.js";
import { page } from "../state.js";

/** A group of controls; a link with hide=controls leaves it out. */
export function Controls({ label, children }) {
  if (page.value.hide.includes("controls")) return null;
  return html`<div class="controls" role="group" aria-label=${label}>${children}</div>`;
}

/**
 * A slider. `text` is what is shown beside it and spoken: the number with its unit.
 * `label` names it; `spoken` replaces text for the ear where the sign alone would not do.
 */
export function Slider({ label, value, min, max, step, text, spoken, onInput, name, role }) {
  const id = useId();
  return html`<div class="slider" data-role=${role}>
    <label for=${id}>${label}</label>
    <input
      id=${id}
      type="range"
      ...${{ min, max, step }}
      value=${value}
      name=${name}
      aria-valuetext=${spoken ?? text}
      onInput=${(event) => onInput(Number(event.target.value))}
    />
    <output for=${id} data-name=${name} data-value=${value}>${text}</output>
  </div>`;
}

/** A number to type. Text that is no number, or lies outside, is marked and not taken. */
export function NumberField({ label, value, min, max, step = "any", onInput, name, role, hideLabel }) {
  const id = useId();
  const take = (event) => {
    const typed = event.target.value.trim() === "" ? NaN : Number(event.target.value);
    const good = Number.isFinite(typed) && typed >= (min ?? -Infinity) && typed <= (max ?? Infinity);
    event.target.setAttribute("aria-invalid", String(!good));
    if (good) onInput(typed);
  };
  return html`<div class="field" data-role=${role}>
    <label for=${id} class=${hideLabel ? "unseen" : ""}>${label}</label>
    <input id=${id} type="number" ...${{ min, max, step }} value=${value} name=${name} onInput=${take} />
  </div>`;
}

/** A button that stays pressed. */
export function Toggle({ pressed, onToggle, children, ...rest }) {
  return html`<button type="button" class="toggle" aria-pressed=${String(pressed)} onClick=${() => onToggle(!pressed)} ...${rest}>
    ${children}
  </button>`;
}

/** One of several: options is [[value, label], …]. */
export function Choice({ legend, options, value, onChoose, name, children }) {
  const group = useId();
  return html`<fieldset class="choice">
    <legend>${legend}</legend>
    ${options.map(
      ([key, label]) => html`<label key=${key}>
        <input type="radio" name=${name ?? group} value=${key} checked=${key === value} onChange=${() => onChoose(key)} />
        ${label}
      </label>`,
    )}
    ${children}
  </fieldset>`;
}

/** One of many, as a list that folds: options is [[value, label], …]. */
export function Select({ label, options, value, onChoose, name }) {
  const id = useId();
  const choose = (event) => onChoose(options[event.target.selectedIndex][0]);
  return html`<div class="field">
    <label for=${id}>${label}</label>
    <select id=${id} name=${name} onChange=${choose}>
      ${options.map(([key, text]) => html`<option key=${key} value=${key} selected=${key === value}>${text}</option>`)}
    </select>
  </div>`;
}

export function Button({ children, onClick, ...rest }) {
  return html`<button type="button" onClick=${onClick} ...${rest}>${children}</button>`;
}
