import { useEffect, useRef, useState } from "preact/hooks";
import { html } from "../html.js";

/** A place that scrolls sideways where its content is wider, and can then be reached and moved by keys. */
export function Scroll({ label, children, tag = "div", class: kind = "scroll" }) {
  const box = useRef();
  const [wide, setWide] = useState(false);
  useEffect(() => {
    const look = () => box.current && setWide(box.current.scrollWidth > box.current.clientWidth);
    const watch = new ResizeObserver(() => requestAnimationFrame(look));
    watch.observe(box.current);
    for (const child of box.current.children) watch.observe(child);
    return () => watch.disconnect();
  });
  const reach = wide ? { tabindex: 0, role: "region", "aria-label": label } : {};
  return html`<${tag} class=${kind} ref=${box} ...${reach}>${children}<//>`;
}
