/** Maps as OpenSeadragon sees them: an image of T × S pixels, whose tiles are arrays that are coloured here. */

import OpenSeadragon from "#openseadragon";
import { codeOf, codes } from "./thumbnail.js";
import { half } from "../transport.js";

const SIDE = 256;
const KEPT = 160;

/** A tile as codes of 8 bits, whatever it came as. */
export function tileCodes(header) {
  const { tile } = header.arrays;
  if (tile.dtype === "U8") return { data: tile.data, shape: tile.shape };
  const data = new Uint8Array(tile.data.length);
  const decode = tile.dtype === "F16" ? halves() : null;
  for (let at = 0; at < data.length; at++) data[at] = decode ? decode[tile.data[at]] : codeOf(tile.data[at]);
  return { data, shape: tile.shape };
}

let table = null;
/** The code of each of the 65,536 halves. */
function halves() {
  if (!table) {
    table = new Uint8Array(65536);
    for (let bits = 0; bits < 65536; bits++) table[bits] = codeOf(half(bits));
  }
  return table;
}

export class Tiles {
  /** @type {import("../client.js").Client} */ client;
  /** @type {number} */ layer;
  /** @type {number} */ head;
  /** @type {any} */ run;
  /** @type {any} */ part;
  /** @type {Map<string, Promise<any>>} */ kept;
  /** @type {(failure: Error) => void} */ failed;

  constructor(client, layer, head) {
    Object.assign(this, { client, layer, head, run: client.run, part: client.part, kept: new Map(), failed: () => {} });
  }

  get(level, column, row) {
    const key = `${level} ${column} ${row}`;
    if (!this.kept.has(key)) {
      const promise = this.client.tile(this.layer, this.head, level, column, row).then(tileCodes);
      this.kept.set(key, promise);
      promise.catch(() => this.kept.delete(key));
      if (this.kept.size > KEPT) this.kept.delete(this.kept.keys().next().value);
    }
    return this.kept.get(key);
  }

  /** The level whose one tile is the whole map, and the tile. */
  whole() {
    const { part } = this;
    const level = part.recorded_level ?? part.top_level - Math.max(0, Math.ceil(Math.log2(Math.max(part.queries, part.keys) / SIDE)));
    return this.get(level, 0, 0).then((tile) => ({ ...tile, level }));
  }

  /** How many weights wide a pixel of the largest image is: 1, but in a saved file maybe more. */
  get cell() {
    const { part } = this;
    return 2 ** (part.top_level - (part.recorded_level ?? part.top_level));
  }

  source(theme, scale) {
    const { part, cell } = this;
    const top = part.recorded_level ?? part.top_level;
    const colours = codes(theme, scale);
    const tiles = this;
    return new OpenSeadragon.TileSource({
      width: Math.ceil(part.keys / cell),
      height: Math.ceil(part.queries / cell),
      tileSize: SIDE,
      tileOverlap: 0,
      minLevel: part.recorded_level ?? Math.max(0, top - 8),
      maxLevel: top,
      getTileUrl: (level, x, y) => `${tiles.run.id} ${part.name} ${tiles.layer} ${tiles.head} ${level} ${x} ${y} ${theme} ${scale}`,
      hasTransparency: () => true,
      downloadTileStart(context) {
        const [, , , , level, x, y] = context.src.split(" ");
        tiles.get(+level, +x, +y).then(
          ({ data, shape }) => context.finish(coloured(data, shape, colours), null, "context2d"),
          (failure) => (tiles.failed(failure), context.fail(failure.message, null)),
        );
      },
      downloadTileAbort() {},
    });
  }
}

export function coloured(data, [rows, columns], colours) {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [columns, rows];
  const context = canvas.getContext("2d", { willReadFrequently: true });
  const image = context.createImageData(columns, rows);
  const out = new Uint32Array(image.data.buffer);
  for (let at = 0; at < data.length; at++) out[at] = colours[data[at]];
  context.putImageData(image, 0, 0);
  return context;
}

export { OpenSeadragon };
