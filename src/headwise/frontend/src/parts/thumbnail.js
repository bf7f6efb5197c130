/** Small maps on a canvas: from the atlas of thumbnails, or from exact weights. */

import { pixels } from "../ramp.js";

const HIDDEN = 0;
const NAN = 255;
export const weightOf = (code) => ((code - 1) / 253) ** 2;

/** Colours by code of an 8-bit map; hidden is nothing at all, NaN is red. */
export function codes(theme, scale) {
  const packed = pixels(theme, scale, (code) => weightOf(Math.max(code, 1)));
  packed[HIDDEN] = 0;
  packed[NAN] = theme === "dark" ? 0xff7294ff : 0xff0f37b4;
  return packed;
}

/** All thumbnails as one picture, a layer a row of heads. */
export function painted(atlas, theme, scale) {
  const { layers, heads, rows, columns, data } = atlas;
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [heads * columns, layers * rows];
  const context = canvas.getContext("2d");
  const image = context.createImageData(canvas.width, canvas.height);
  const out = new Uint32Array(image.data.buffer);
  const colours = codes(theme, scale);
  let from = 0;
  for (let layer = 0; layer < layers; layer++)
    for (let head = 0; head < heads; head++)
      for (let row = 0; row < rows; row++) {
        let to = (layer * rows + row) * canvas.width + head * columns;
        for (let column = 0; column < columns; column++) out[to++] = colours[data[from++]];
      }
  context.putImageData(image, 0, 0);
  return canvas;
}

/** One thumbnail into a canvas of its own. `row` keeps that row bright and the others pale. */
export function paintThumb(canvas, atlas, layer, head, theme, scale, token = null) {
  const { rows, columns, heads, cell } = atlas;
  const start = (layer * heads + head) * rows * columns;
  paintCodes(canvas, atlas.data.subarray(start, start + rows * columns), rows, columns, theme, scale, token === null ? null : Math.floor(token / cell));
}

export function paintCodes(canvas, data, rows, columns, theme, scale, lit = null) {
  [canvas.width, canvas.height] = [columns, rows];
  const context = canvas.getContext("2d");
  const image = context.createImageData(columns, rows);
  const out = new Uint32Array(image.data.buffer);
  const colours = codes(theme, scale);
  for (let at = 0; at < data.length; at++) {
    const colour = colours[data[at]];
    out[at] = colour && lit !== null && Math.floor(at / columns) !== lit ? (colour & 0xffffff) | 0x46000000 : colour;
  }
  context.putImageData(image, 0, 0);
}

/** Exact weights as codes; −1 is hidden. */
export function coded(weights) {
  const out = new Uint8Array(weights.length);
  for (let at = 0; at < weights.length; at++) out[at] = codeOf(weights[at]);
  return out;
}

export const codeOf = (weight) => (weight < 0 ? HIDDEN : Number.isNaN(weight) ? NAN : 1 + Math.round(253 * Math.sqrt(Math.min(1, weight))));
