/** The one tooltip: the text of an element's `data-tip`, on hover, on focus and on touch. */

import { el } from "./dom.js";

/** @param holder where it stands: in a landmark, as everything that is read */
export function tips(root, holder) {
  const tip = el("div", { class: "tip", role: "tooltip", popover: "manual" });
  holder.append(tip);
  const hide = () => tip.matches(":popover-open") && tip.hidePopover();
  const show = (target) => {
    const source = target?.closest?.("[data-tip]");
    if (!source || !root.contains(source)) return hide();
    tip.textContent = source.dataset.tip;
    if (!tip.matches(":popover-open")) tip.showPopover();
    const at = source.getBoundingClientRect();
    const { offsetWidth: width, offsetHeight: height } = tip;
    const left = Math.max(8, Math.min(innerWidth - width - 8, at.left + at.width / 2 - width / 2));
    const top = at.bottom + height + 14 < innerHeight ? at.bottom + 6 : Math.max(8, at.top - height - 6);
    tip.style.setProperty("left", `${left}px`);
    tip.style.setProperty("top", `${top}px`);
  };
  root.addEventListener("pointerover", (event) => show(event.target));
  root.addEventListener("focusin", (event) => show(event.target));
  root.addEventListener("focusout", hide);
  root.addEventListener("pointerleave", hide);
  root.addEventListener("keydown", (event) => event.key === "Escape" && hide());
  // A canvas has many things under the pointer and tells by itself what to say.
  return { showAt: (target, words) => ((target.dataset.tip = words), show(target)), hide };
}
