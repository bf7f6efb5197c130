/** Elements made by hand. Children that are strings become text nodes, so that a token is never read as HTML. */

const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes, listeners ("on"), style properties ("style": set one by one, which a strict CSP allows) and children. */
export function el(tag, attributes = {}, ...children) {
  return furnished(document.createElement(tag), attributes, children);
}

/** The same for SVG. */
export function svg(tag, attributes = {}, ...children) {
  return furnished(document.createElementNS(SVG, tag), attributes, children);
}

/** Put other children in the place of those that are there. */
export function fill(parent, ...children) {
  parent.replaceChildren(...nodes(children));
  return parent;
}

/** The data attributes of the element that has the focus, where it is inside of `container`. */
export function focusedData(container) {
  const active = document.activeElement;
  return active instanceof HTMLElement && container.contains(active) ? active.dataset : {};
}

/** Text for screen readers only. */
export const hidden = (text) => el("span", { class: "visually-hidden" }, text);

function furnished(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") for (const [event, act] of Object.entries(value)) made.addEventListener(event, act);
    else if (name === "style") for (const [property, setting] of Object.entries(value)) made.style.setProperty(property, setting);
    else if (name === "data") Object.assign(made.dataset, value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...nodes(children));
  return made;
}

function nodes(children) {
  return children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
}
