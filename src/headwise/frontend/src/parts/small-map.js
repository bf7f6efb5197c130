/** The map of the chosen head in the rail: exact with its tokens where the text is short, else the thumbnail. */

import { el } from "../dom.js";
import { shown } from "../format.js";
import { coded, paintCodes, paintThumb } from "./thumbnail.js";

const SHORT = 14;

export function smallMap(app) {
  const { client, theme } = app;
  const { layer, head, token } = app.state;
  const { part } = client;
  const canvas = el("canvas", { class: "thumb", role: "img", "aria-label": `map of layer ${layer}, head ${head}` });
  const labelled = part.queries <= SHORT && part.keys <= SHORT;
  const figure = el("figure", { class: `small-map${labelled ? " labelled" : ""}`, on: { click: () => app.go({ view: "head", zoom: "" }) } }, labelled ? labels(part) : null, canvas);
  if (client.thumbnails && client.thumbnails.layersThere > layer) paintThumb(canvas, client.thumbnails, layer, head, theme, "sqrt", token);
  if (labelled && client.thumbnails?.cell !== 1) {
    client.weights(layer, head).then(({ data, shape }) => paintCodes(canvas, coded(data), shape[0], shape[1], theme, "sqrt", token)).catch(() => {
      // the thumbnail stays; the view of the head itself says what went wrong
    });
  }
  canvas.style.setProperty("aspect-ratio", `${part.keys} / ${part.queries}`);
  return figure;
}

function labels(part) {
  const row = el("div", { class: "row-labels", "aria-hidden": "true" }, part.query_tokens.map((token) => el("span", {}, shown(token).trim())));
  const column = el("div", { class: "column-labels", "aria-hidden": "true" }, part.key_tokens.map((token) => el("span", {}, el("i", {}, shown(token).trim()))));
  return [row, column];
}
