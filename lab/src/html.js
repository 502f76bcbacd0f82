// Markup without a compile step: html`<p>${text}</p>`. Text always becomes a text node.
import { h } from "preact";
import htm from "htm";

export const html = htm.bind(h);
