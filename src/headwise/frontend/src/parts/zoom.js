/** The map of any length: deep zoom on tiles, tokens on the axes, the exact value at the cursor, its row and its column read out. */

import { el, fill } from "../dom.js";
import { fixed, grouped, shown } from "../format.js";
import { SCALES, SCALE_SIGNS } from "../ramp.js";
import { certifiedRow } from "./certified-row.js";
import { failureNote, segmented } from "./notes.js";
import { OpenSeadragon, Tiles, coloured } from "./osd-source.js";
import { rampBar } from "./ramp-bar.js";
import { codes } from "./thumbnail.js";
import { runMark } from "./verdicts.js";

const AXIS_LEFT = 70;
const AXIS_TOP = 56;
const READABLE = 11; // pixels a token must have to be written
const CLOSEST = 40; // pixels a weight at most
const PROFILE = 56;
const MINI = 148;

export class Zoom {
  constructor(app) {
    this.app = app;
    const { part } = app.client;
    this.part = part;
    const { layer, head } = app.state;
    this.tiles = new Tiles(app.client, layer, head);
    this.tiles.failed = (failure) => this.fail(failure);
    this.cursor = [Math.min(app.state.token ?? part.queries - 1, part.queries - 1), Math.min(app.state.key ?? 0, part.keys - 1)];
    this.hold = el("div", { class: "osd" });
    this.overlay = el("canvas", { class: "overlay", "aria-hidden": "true" });
    this.area = el("div", { class: "map-area", tabindex: 0, role: "application", "aria-label": "zoomable map: plus and minus zoom, arrows move the cursor, 0 fits", on: { keydown: (event) => this.key(event) } }, this.hold, this.overlay);
    this.profile = el("canvas", { class: "profile", height: PROFILE, "aria-hidden": "true" });
    this.rowText = el("p", { class: "sub row-text" });
    this.columnText = el("p", { class: "sub" });
    this.certified = certifiedRow(app);
    this.mini = el("canvas", { class: "mini", width: MINI, height: MINI, "aria-hidden": "true" });
    this.readout = el("dl", { class: "readout", "aria-live": "polite" });
    this.where = el("p", { class: "sub" });
    this.trouble = el("div");
    this.top = el("div", { class: "panel-head" });
    const keys = el("p", { class: "sub keys" }, el("kbd", {}, "+"), " ", el("kbd", {}, "−"), " zoom", el("br"), el("kbd", {}, "←↑↓→"), " cursor", el("br"), el("kbd", {}, "0"), " fit", el("br"), "drag to pan");
    const side = el("div", { class: "zoom-side" }, el("div", { class: "sub" }, "whole map"), this.mini, this.readout, this.where, keys);
    this.node = el("div", { class: "panel zoom" }, this.top, this.trouble, el("div", { class: "zoom-grid" }, el("div", { class: "zoom-main" }, this.area, this.profile, this.rowText, this.columnText, this.certified), side));
    this.toolbar();
  }

  toolbar() {
    const { app, part } = this;
    const { scale } = app.state;
    const chosen = SCALES[scale] ? scale : "sqrt";
    const scales = segmented("scale of the colours", Object.entries(SCALE_SIGNS), chosen, (one) => app.go({ scale: one }, { quietly: true }));
    const button = (title, label, act) => el("button", { type: "button", "aria-label": label, on: { click: act } }, title);
    const zoom = el("span", { class: "segmented", role: "group", "aria-label": "zoom" }, button("Fit", "fit the whole map", () => this.fit()), button("−", "zoom out", () => this.by(1 / 1.6)), button("+", "zoom in", () => this.by(1.6)));
    fill(this.top, el("h2", {}, `Weights, ${grouped(part.queries)} × ${grouped(part.keys)}`), rampBar(app.theme, { of: SCALES[chosen], words: ["· a pixel shows its largest weight"] }), scales, zoom);
  }

  /** Once it stands in the page: the viewer needs to know its size. */
  open() {
    withoutSheet(this.app.root);
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.viewer = new OpenSeadragon.Viewer({
      element: this.hold,
      drawer: "canvas",
      showNavigationControl: false,
      showNavigator: false,
      imageSmoothingEnabled: false,
      smoothTileEdgesMinZoom: Infinity,
      subPixelRoundingForTransparency: OpenSeadragon.SUBPIXEL_ROUNDING_OCCURRENCES.ALWAYS,
      animationTime: still ? 0 : 0.3,
      blendTime: 0,
      immediateRender: true,
      visibilityRatio: 0.2,
      minZoomImageRatio: 0.8,
      maxZoomPixelRatio: CLOSEST * this.tiles.cell,
      imageLoaderLimit: 6,
      timeout: 60000,
      gestureSettingsMouse: { clickToZoom: false, dblClickToZoom: true, scrollToZoom: true, flickEnabled: false },
      gestureSettingsTouch: { clickToZoom: false, dblClickToZoom: true, pinchToZoom: true, flickEnabled: true },
      gestureSettingsPen: { clickToZoom: false },
      keyboardNavEnabled: false,
      tabIndex: -1,
      autoResize: true,
      crossOriginPolicy: false,
      tileSources: this.source(),
    });
    this.viewer.canvas.tabIndex = -1;
    this.viewer.addHandler("open", () => this.opened());
    this.viewer.addHandler("update-viewport", () => this.draw());
    this.viewer.addHandler("animation-finish", () => this.remember());
    this.viewer.addHandler("canvas-click", (event) => event.quick && this.choose(...this.cellAt(event.position)));
    this.viewer.addHandler("canvas-exit", () => this.settle());
    this.hold.addEventListener("pointermove", (event) => event.buttons === 0 && this.hovered(event));
    this.mini.addEventListener("click", (event) => this.jump(event));
    this.watcher = new ResizeObserver(() => this.draw());
    this.watcher.observe(this.area);
    this.drawMini();
    if (this.app.state.key === null) this.aim();
    else this.read();
  }

  /** Where nothing was chosen, the cursor begins on the largest weight of its row but that of the first token. */
  async aim() {
    const [row] = this.cursor;
    const { layer, head } = this.app.state;
    try {
      const { data } = await this.app.client.weights(layer, head, [row, row + 1], [0, this.part.keys]);
      const best = data.length > 1 ? data.subarray(1).reduce((most, weight, at) => (weight > data[most] ? at + 1 : most), 1) : 0;
      if (!this.closed && this.cursor[0] === row && this.cursor[1] === 0) this.cursor = [row, best];
    } catch {
      // reading the row says what is wrong
    }
    this.read();
  }

  close() {
    this.closed = true;
    this.watcher?.disconnect();
    clearTimeout(this.timer);
    this.viewer?.destroy();
  }

  source() {
    const { scale } = this.app.state;
    return this.tiles.source(this.app.theme, SCALES[scale] ? scale : "sqrt");
  }

  /** Other colours, the same place. */
  recolour() {
    this.toolbar();
    this.drawMini();
    this.kept = this.place();
    this.viewer.open(this.source());
  }

  opened() {
    const info = this.kept ?? this.addressPlace();
    this.kept = null;
    if (info) this.show(...info, true);
    else this.viewer.viewport.goHome(true);
    this.area.dataset.open = "";
    this.draw();
  }

  /** The place that the address tells: column and row in the middle, pixels a weight. */
  addressPlace() {
    const numbers = this.app.state.zoom.split(",").map(Number);
    return numbers.length === 3 && numbers.every(Number.isFinite) && numbers[2] > 0 ? numbers : null;
  }

  // Where things are. A point of OpenSeadragon's viewport is a share of the image's width.

  get unit() {
    return Math.ceil(this.part.keys / this.tiles.cell) * this.tiles.cell; // weights that the image is wide
  }

  get pixels() {
    return (this.viewer.viewport.getZoom(true) * this.hold.clientWidth) / this.unit;
  }

  place() {
    const middle = this.viewer.viewport.getCenter(true);
    return [middle.x * this.unit, middle.y * this.unit, this.pixels];
  }

  show(column, row, pixels, now = false) {
    const { viewport } = this.viewer;
    viewport.zoomTo((pixels * this.unit) / this.hold.clientWidth, null, now);
    viewport.panTo(new OpenSeadragon.Point(column / this.unit, row / this.unit), now);
    viewport.applyConstraints(now);
  }

  cellAt(position) {
    const point = this.viewer.viewport.pointFromPixel(position, true);
    return [Math.max(0, Math.min(this.part.queries - 1, Math.floor(point.y * this.unit))), Math.max(0, Math.min(this.part.keys - 1, Math.floor(point.x * this.unit)))];
  }

  fit() {
    this.viewer.viewport.goHome();
  }

  by(factor) {
    this.viewer.viewport.zoomBy(factor);
    this.viewer.viewport.applyConstraints();
  }

  remember() {
    if (this.closed) return;
    const [column, row, pixels] = this.place();
    const zoom = `${column.toFixed(1)},${row.toFixed(1)},${pixels.toFixed(2)}`;
    if (zoom !== this.app.state.zoom) this.app.go({ zoom }, { quietly: true });
    this.where.replaceChildren(`zoom ${pixels >= 1 ? `${pixels.toFixed(1)} px a token` : `${(1 / pixels).toFixed(1)} tokens a px`}`);
  }

  // The cursor

  hovered(event) {
    const box = this.hold.getBoundingClientRect();
    this.move(...this.cellAt(new OpenSeadragon.Point(event.clientX - box.left, event.clientY - box.top)));
  }

  /** Back to what was chosen, when the pointer has gone. */
  settle() {
    const { token, key } = this.app.state;
    if (token !== null && key !== null) this.move(Math.min(token, this.part.queries - 1), Math.min(key, this.part.keys - 1));
  }

  move(row, column) {
    if (row === this.cursor[0] && column === this.cursor[1]) return;
    this.cursor = [row, column];
    this.draw();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.read(), 30);
  }

  choose(row, column) {
    this.move(row, column);
    this.app.go({ token: row, key: column }, { quietly: true });
  }

  key(event) {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (event.key === "+" || event.key === "=") this.by(1.6);
    else if (event.key === "-" || event.key === "−") this.by(1 / 1.6);
    else if (event.key === "0") this.fit();
    else if (event.key === "Enter") this.show(this.cursor[1] + 0.5, this.cursor[0] + 0.5, Math.max(this.pixels, 16));
    else if (step) {
      const far = event.shiftKey ? 10 : 1;
      this.choose(Math.max(0, Math.min(this.part.queries - 1, this.cursor[0] + far * step[0])), Math.max(0, Math.min(this.part.keys - 1, this.cursor[1] + far * step[1])));
      this.keepInView();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  keepInView() {
    const [row, column] = this.cursor;
    const bounds = this.viewer.viewport.getBounds(false);
    const [x, y] = [(column + 0.5) / this.unit, (row + 0.5) / this.unit];
    if (x < bounds.x || y < bounds.y || x > bounds.x + bounds.width || y > bounds.y + bounds.height) this.viewer.viewport.panTo(new OpenSeadragon.Point(x, y));
  }

  /** A whole row and a whole column, exact, around the cursor. */
  async read() {
    const { client, state } = this.app;
    const { part } = this;
    const [i, j] = this.cursor;
    const { layer, head } = state;
    try {
      const [row, column, perToken] = await Promise.all([client.weights(layer, head, [i, i + 1], [0, part.keys]), client.weights(layer, head, [0, part.queries], [j, j + 1]), client.head(layer, head)]);
      if (this.closed || i !== this.cursor[0] || j !== this.cursor[1]) return;
      this.row = row.data;
      this.tell(row.data, column.data, perToken.arrays, i, j);
      this.drawProfile();
    } catch (failure) {
      if (!this.closed) this.unread(failure, i, j);
    }
  }

  tell(row, column, perToken, i, j) {
    const { client, state } = this.app;
    this.certified.look(i);
    const weight = row[j];
    const value = weight < 0 ? "hidden" : fixed(weight, 6);
    const entry = (name, text, check = null) => [el("dt", {}, name), el("dd", {}, text, check ? runMark(client, check, state.layer) : null)];
    const { query_tokens: queries, key_tokens: keys } = this.part;
    fill(
      this.readout,
      entry(`query ${i}`, el("b", {}, shown(queries[i]).trim())),
      entry(`key ${j}`, el("b", {}, shown(keys[j]).trim())),
      entry("weight", el("span", { class: "exact", data: { value: String(weight), query: i, key: j } }, value), "weights"),
      entry("distance", grouped(Math.abs(i - j))),
      entry("row entropy", fixed(perToken.entropy?.data[i], 3), "statistics"),
      entry("first token", fixed(perToken.first?.data[i], 3), "statistics"),
    );
    const most = (numbers, tokens, count) => [...numbers.keys()].filter((at) => numbers[at] > 0.005).sort((a, b) => numbers[b] - numbers[a]).slice(0, count).map((at) => `${shown(tokens[at]).trim()}@${at} ${fixed(numbers[at], 2)}`).join(" · ");
    fill(this.rowText, `row ${i} `, el("b", {}, shown(queries[i]).trim()), ` → ${most(row, keys, 4) || "no weight above 0.005"}`);
    fill(this.columnText, `column ${j} `, el("b", {}, shown(keys[j]).trim()), ` ← ${most(column, queries, 4) || "no weight above 0.005"}`);
  }

  unread(failure, i, j) {
    fill(this.readout, el("dt", {}, `query ${i}`), el("dd", {}, el("b", {}, shown(this.part.query_tokens[i]).trim())), el("dt", {}, `key ${j}`), el("dd", {}, el("b", {}, shown(this.part.key_tokens[j]).trim())));
    if (failure.kind !== "NotFound") return this.fail(failure);
    fill(this.rowText, "A saved file has the map, but not every weight. Open the model with headwise serve for these.");
  }

  fail(failure) {
    if (failure.kind !== "RunGone") fill(this.trouble, failureNote(failure));
  }

  // Drawing

  draw() {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.drawNow());
  }

  drawNow() {
    if (this.closed || !this.viewer?.viewport || !this.viewer.world.getItemCount()) return;
    const ratio = devicePixelRatio || 1;
    const [width, height] = [this.area.clientWidth, this.area.clientHeight];
    if (this.overlay.width !== Math.round(width * ratio) || this.overlay.height !== Math.round(height * ratio)) [this.overlay.width, this.overlay.height] = [Math.round(width * ratio), Math.round(height * ratio)];
    const context = this.overlay.getContext("2d");
    const style = getComputedStyle(this.app.root);
    const colour = (name) => style.getPropertyValue(`--${name}`).trim();
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    const { pixels } = this;
    const origin = this.viewer.viewport.pixelFromPoint(new OpenSeadragon.Point(0, 0), true);
    const x = (column) => AXIS_LEFT + origin.x + column * pixels;
    const y = (row) => AXIS_TOP + origin.y + row * pixels;
    this.crosshair(context, x, y, pixels, colour, width, height);
    this.labels(context, x, y, pixels, colour, width, height);
    this.frameMini(origin, pixels);
    this.drawProfile(x, width);
  }

  crosshair(context, x, y, pixels, colour, width, height) {
    const [row, column] = this.cursor;
    context.save();
    context.beginPath();
    context.rect(AXIS_LEFT, AXIS_TOP, width - AXIS_LEFT, height - AXIS_TOP);
    context.clip();
    context.strokeStyle = colour("cursor");
    context.lineWidth = 1.5;
    context.beginPath();
    context.moveTo(AXIS_LEFT, y(row + 0.5));
    context.lineTo(x(column), y(row + 0.5));
    context.moveTo(x(column + 0.5), AXIS_TOP);
    context.lineTo(x(column + 0.5), y(row));
    context.stroke();
    context.strokeStyle = colour("ink");
    context.lineWidth = 2;
    const side = Math.max(pixels, 7);
    context.strokeRect(x(column) - (side - pixels) / 2, y(row) - (side - pixels) / 2, side, side);
    context.restore();
  }

  labels(context, x, y, pixels, colour, width, height) {
    const { query_tokens: queries, key_tokens: keys } = this.part;
    const [row, column] = this.cursor;
    const family = getComputedStyle(this.app.root).fontFamily;
    const write = (text, is, draw) => {
      context.font = `${is ? 700 : 400} 11px ${family}`;
      context.fillStyle = colour(is ? "ink" : "ink2");
      draw(text);
    };
    const every = pixels >= READABLE ? 1 : stepFor(pixels);
    const name = (tokens, at) => (pixels >= READABLE ? shown(tokens[at]).trim().slice(0, 11) : grouped(at));
    context.save();
    context.beginPath();
    context.rect(0, AXIS_TOP - 2, AXIS_LEFT, height);
    context.clip();
    context.textAlign = "right";
    const visible = (from, to, start, end, count) => [Math.max(0, Math.floor((start - from) / pixels)), Math.min(count - 1, Math.ceil((end - from) / pixels))];
    const [firstRow, lastRow] = visible(y(0), 0, AXIS_TOP, height, queries.length);
    for (let at = Math.ceil(firstRow / every) * every; at <= lastRow; at += every) if (at !== row) write(name(queries, at), false, (text) => context.fillText(text, AXIS_LEFT - 8, y(at + 0.5) + 4));
    const atRow = y(row + 0.5);
    if (atRow > AXIS_TOP && atRow < height) this.patch(context, colour, 0, atRow - 7, AXIS_LEFT - 2, 14), write(shown(queries[row]).trim().slice(0, 11), true, (text) => context.fillText(text, AXIS_LEFT - 8, atRow + 4));
    context.restore();
    context.save();
    context.beginPath();
    context.rect(AXIS_LEFT - 6, 0, width, AXIS_TOP);
    context.clip();
    const upright = (text, at) => {
      context.save();
      context.translate(x(at + 0.5) + 3, AXIS_TOP - 6);
      context.rotate(-0.9);
      context.textAlign = "left";
      context.fillText(text, 0, 0);
      context.restore();
    };
    const [firstColumn, lastColumn] = visible(x(0), 0, AXIS_LEFT, width, keys.length);
    for (let at = Math.ceil(firstColumn / every) * every; at <= lastColumn; at += every) if (at !== column && (every === 1 || Math.abs(at - column) * pixels > 16)) write(name(keys, at), false, (text) => upright(text, at));
    if (x(column + 0.5) > AXIS_LEFT && x(column + 0.5) < width) write(shown(keys[column]).trim().slice(0, 11), true, (text) => upright(text, column));
    context.restore();
    context.font = `400 11px ${family}`;
    context.fillStyle = colour("ink3");
    context.textAlign = "right";
    context.fillText("query ↓", AXIS_LEFT - 8, AXIS_TOP - 20);
    context.fillText("key →", AXIS_LEFT - 8, AXIS_TOP - 7);
  }

  patch(context, colour, x, y, w, h) {
    context.fillStyle = colour("panel");
    context.fillRect(x, y, w, h);
  }

  async drawMini() {
    try {
      const { data, shape } = await this.tiles.whole();
      if (this.closed) return;
      const { scale } = this.app.state;
      this.miniPicture = coloured(data, shape, codes(this.app.theme, SCALES[scale] ? scale : "sqrt")).canvas;
      this.draw();
    } catch (failure) {
      this.fail(failure);
    }
  }

  frameMini(origin, pixels) {
    const { mini, part, miniPicture } = this;
    const ratio = devicePixelRatio || 1;
    if (mini.width !== MINI * ratio) [mini.width, mini.height] = [MINI * ratio, MINI * ratio];
    const context = mini.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, MINI, MINI);
    const fit = MINI / Math.max(part.queries, part.keys);
    const [w, h] = [part.keys * fit, part.queries * fit];
    if (miniPicture) context.drawImage(miniPicture, 0, 0, w, h);
    context.strokeStyle = getComputedStyle(this.app.root).getPropertyValue("--ink");
    context.lineWidth = 2;
    const [left, top] = [(-origin.x / pixels) * fit, (-origin.y / pixels) * fit];
    const [right, bottom] = [left + (this.hold.clientWidth / pixels) * fit, top + (this.hold.clientHeight / pixels) * fit];
    const [l, t, r, b] = [Math.max(1, left), Math.max(1, top), Math.min(MINI - 1, right), Math.min(MINI - 1, bottom)];
    context.strokeRect(l, t, Math.max(4, r - l), Math.max(4, b - t));
    this.miniFit = fit;
  }

  jump(event) {
    const box = this.mini.getBoundingClientRect();
    this.show((event.clientX - box.left) / this.miniFit, (event.clientY - box.top) / this.miniFit, Math.max(this.pixels, 6));
  }

  /** The row of the cursor as bars, under the same columns. */
  drawProfile(x = null, width = null) {
    if (!x) return this.draw();
    const ratio = devicePixelRatio || 1;
    const { profile, row } = this;
    const wide = profile.clientWidth;
    if (profile.width !== Math.round(wide * ratio)) profile.width = Math.round(wide * ratio);
    profile.height = PROFILE * ratio;
    const context = profile.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const style = getComputedStyle(this.app.root);
    context.fillStyle = style.getPropertyValue("--line2");
    context.fillRect(AXIS_LEFT, PROFILE - 1, wide, 1);
    if (!row) return;
    context.fillStyle = style.getPropertyValue("--data");
    const { pixels } = this;
    const first = Math.max(0, Math.floor((AXIS_LEFT - x(0)) / pixels));
    const last = Math.min(row.length - 1, Math.ceil((width - x(0)) / pixels));
    const tallest = new Float32Array(Math.ceil(width) + 1); // of each pixel
    for (let at = first; at <= last; at++) {
      const left = Math.max(0, Math.round(x(at)));
      if (row[at] > tallest[left]) tallest[left] = row[at];
    }
    const broad = Math.max(1, pixels - 1);
    for (let left = 0; left < tallest.length; left++) {
      if (!tallest[left] || left + broad < AXIS_LEFT) continue;
      context.fillRect(Math.max(left, AXIS_LEFT), PROFILE - 1 - tallest[left] * (PROFILE - 4), broad, tallest[left] * (PROFILE - 4));
    }
  }
}

/** OpenSeadragon would write a style sheet into the page, which our policy forbids, unless it finds its own there: an element of that name, but no sheet. */
function withoutSheet(root) {
  if (document.querySelector("style[data-openseadragon-mobile-css]")) return;
  const named = document.createElementNS("", "style");
  named.setAttribute("data-openseadragon-mobile-css", "true");
  root.append(named);
}

/** Numbers along an axis: 1, 2 or 5 times a power of ten, some 60 pixels apart. */
function stepFor(pixels) {
  const least = 60 / pixels;
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= least);
}
