// Which model, item and layer a view looks at, and the field where a served page takes another text.
import { useId, useState } from "preact/hooks";
import { html } from "../html.js";
import { data } from "../content.js";
import { announce } from "../state.js";
import { t } from "../i18n.js";
import { labelled, placeLabel, take } from "../models.js";
import { Button, Select } from "./controls.js";

export function ModelSelect({ models, value, onChoose }) {
  const names = labelled(models);
  return html`<${Select} label=${t("models.model")} name="model" value=${value} options=${names.map((name, index) => [index, name])} onChoose=${onChoose} />`;
}

/** Only where there are several. */
export function ItemSelect({ items, value, onChoose }) {
  if (items.length < 2) return null;
  const options = items.map((item, index) => [index, t("models.item_at", { number: index + 1, text: beginning(item) })]);
  return html`<${Select} label=${t("models.item")} name="item" value=${value} options=${options} onChoose=${onChoose} />`;
}

const beginning = (item) => [...(item.text ?? item.where ?? "").replace(/\s+/g, " ")].slice(0, 28).join("");

/** Only where there are several. */
export function PlaceSelect({ places, value, onChoose }) {
  if (places.length < 2) return null;
  const options = places.map((place, index) => [index, placeLabel(place, places)]);
  return html`<${Select} label=${t("models.layer_label")} name="layer" value=${value} options=${options} onChoose=${onChoose} />`;
}

/** Of a page that a server gave: a text for its model. Elsewhere nothing. */
export function Ask() {
  const id = useId();
  const [text, setText] = useState("");
  const [state, setState] = useState({ busy: false, fault: "" });
  if (!data.serve) return null;
  const ask = async (event) => {
    event.preventDefault();
    if (state.busy || text === "") return;
    setState({ busy: true, fault: "" });
    announce(t("models.asking"));
    const fault = await answer(text);
    setState({ busy: false, fault });
    announce(fault || t("models.answered"));
  };
  return html`<form class="ask" onSubmit=${ask}>
    <label for=${id}>${t("models.ask", { name: data.serve.name })}</label>
    <textarea id=${id} rows="2" name="text" value=${text} onInput=${(event) => setText(event.target.value)} />
    <${Button} type="submit" aria-disabled=${String(state.busy)} data-do="ask">${t(state.busy ? "models.asking" : "models.look")}<//>
    ${state.fault && html`<p class="warning" role="alert">${state.fault}</p>`}
  </form>`;
}

/** Ask the server; what went wrong, or "". */
async function answer(text) {
  try {
    const reply = await fetch(data.serve.path, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ text, prompt: null }),
    });
    const found = await reply.json();
    if (!reply.ok) return found.error ?? t("models.no_answer");
    take(found);
    return "";
  } catch {
    return t("models.no_answer");
  }
}
