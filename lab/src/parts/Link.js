import { html } from "../html.js";
import { go } from "../state.js";

/** A link to a state of the page: to="#view=V1&step=2". Handled here because a notebook's frame cannot follow it. */
export function Link({ to, children, ...rest }) {
  const follow = (event) => {
    if (event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    go(to);
  };
  return html`<a href=${to} onClick=${follow} ...${rest}>${children}</a>`;
}
