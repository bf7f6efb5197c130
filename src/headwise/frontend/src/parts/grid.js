/** All heads on one canvas: thumbnails or a measure, kv brackets, bars, marks; one focus cell that roves. However many heads, a frame draws what is seen. */

import { el } from "../dom.js";
import { headName } from "../format.js";
import { KINDS } from "../marks.js";
import { diverging, sequential } from "../ramp.js";
import { checkOf, colourShare, isSigned, reach, titleOf, valueText } from "./measures.js";
import { roleOf, roleWord, shapesOf } from "./roles.js";
import { stateOf } from "./verdicts.js";
import { painted } from "./thumbnail.js";

const SIZES = { S: null, M: 34, L: 66 }; // S fits the width
const BARS = 26;
const AXIS = 16;
const LEFT = 34;
const MARKS = 16;
const GROUP = 6; // between heads that share no key head
const TALLEST = 1180;
const CAPTION = 16;

export class Grid {
  /** @type {any} */ app;
  /** @type {(layer: number, head: number) => void} */ choose;
  /** @type {() => void} */ open;
  /** @type {(layer: number, head: number) => boolean} */ pass;
  /** @type {[number, number] | null} */ hovered;
  /** @type {CanvasRenderingContext2D} */ context;
  /** @type {Record<string, string>} */ colour;
  /** @type {[number, number]} */ view;
  /** @type {[number, number]} */ total;
  /** @type {[number, number][]} */ list;
  /** @type {Map<number, number>} */ at;
  /** @type {number} */ frame;

  constructor(app, { choose, open }) {
    Object.assign(this, { app, choose, open, pass: () => true, hovered: null });
    this.canvas = el("canvas", { "aria-hidden": "true" });
    this.cell = el("div", { class: "focus-cell", role: "gridcell", tabindex: 0, on: { keydown: (event) => this.key(event), dblclick: () => this.open() } });
    this.hover = el("div", { class: "hover-cell", "aria-hidden": "true", hidden: true });
    this.spacer = el("div", { class: "spacer", role: "row" }, this.cell);
    this.node = el("div", { class: "gridview", role: "grid", "aria-label": "all heads" }, el("div", { class: "sheet", role: "presentation" }, this.canvas, this.hover), this.spacer);
    this.node.addEventListener("scroll", () => this.soon());
    this.node.addEventListener("pointermove", (event) => this.point(event));
    this.node.addEventListener("pointerleave", () => this.point(null));
    this.node.addEventListener("click", (event) => this.click(event));
    this.node.addEventListener("dblclick", () => this.open());
    this.watcher = new ResizeObserver(() => this.resized());
    this.watcher.observe(this.node);
  }

  close() {
    this.watcher.disconnect();
    cancelAnimationFrame(this.frame);
  }

  /** Anything may have changed: lay out and draw anew. */
  /** @param {{pass?: (layer: number, head: number) => boolean}} options */
  refresh({ pass } = {}) {
    if (pass) this.pass = pass;
    if (!this.app.client.part) return;
    this.layout();
    this.place();
    this.soon();
  }

  resized() {
    if (this.app.client.part && this.node.clientWidth !== this.laidOut) this.refresh();
  }

  soon() {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.draw());
  }

  // Where things are

  layout() {
    const { part } = this.app.client;
    const { order, size } = this.app.state;
    const width = this.node.clientWidth || 640;
    this.laidOut = width;
    const narrow = width < 520;
    this.ranked = order !== "layer";
    this.down = !this.ranked && (narrow || part.layers < part.heads); // layers down, heads across
    const shared = part.key_heads_of[0];
    this.group = part.key_heads_of.every((one) => one === shared) && shared < part.heads_of[0] ? part.heads_of[0] / shared : 0;
    const groups = this.group ? part.heads / this.group : 1;
    const [across, along] = this.down ? [part.heads, part.layers] : [part.layers, part.heads];
    if (this.ranked) return this.layoutRanked(width);
    this.left = this.down ? LEFT + 14 : LEFT + (this.group ? 0 : -10);
    this.top = this.down ? AXIS + (this.group ? AXIS + 2 : 0) : BARS + AXIS;
    this.right = this.down ? MARKS : 0;
    this.bottom = this.down ? 0 : MARKS;
    const gaps = (groups - 1) * GROUP;
    const room = width - this.left - this.right - (this.down ? gaps : 0) - 2;
    this.pitch = SIZES[size] ?? Math.max(14, Math.min(54, room / across));
    this.total = [this.left + across * this.pitch + (this.down ? gaps : 0) + this.right + 2, this.top + along * this.pitch + (this.down ? 0 : gaps) + this.bottom + 2];
    this.sized(width);
  }

  layoutRanked(width) {
    const { part } = this.app.client;
    const { order, size } = this.app.state;
    /** @type {[number, number][]} */
    const heads = [];
    for (let layer = 0; layer < part.layers; layer++) for (let head = 0; head < part.heads_of[layer]; head++) heads.push([layer, head]);
    const name = order.replace(/^-/, "");
    const sign = order.startsWith("-") ? 1 : -1;
    const value = ([layer, head]) => this.app.client.value(name, layer, head);
    const known = (number) => (Number.isNaN(number) ? -Infinity : number);
    this.list = heads.filter((one) => this.pass(...one)).concat(heads.filter((one) => !this.pass(...one)));
    const passing = heads.filter((one) => this.pass(...one)).length;
    this.list = [...this.list.slice(0, passing).sort((a, b) => sign * (known(value(a)) - known(value(b)))), ...this.list.slice(passing).sort((a, b) => sign * (known(value(a)) - known(value(b))))];
    this.pitch = SIZES[size] ?? 44;
    this.pitch = Math.max(this.pitch, 44);
    [this.left, this.top, this.right, this.bottom] = [6, 6, 0, 0];
    this.columns = Math.max(1, Math.floor((width - 10) / this.pitch));
    this.total = [width, 8 + Math.ceil(this.list.length / this.columns) * (this.pitch + CAPTION)];
    this.at = new Map(this.list.map(([layer, head], index) => [layer * 1000 + head, index]));
    this.sized(width);
  }

  sized(width) {
    const tallest = this.ranked ? 400 : TALLEST;
    const wide = this.total[0] > width + 1;
    const height = Math.min(tallest, Math.ceil(this.total[1]) + (wide ? 14 : 0));
    this.node.style.setProperty("height", `${height}px`);
    this.spacer.style.setProperty("width", `${wide ? this.total[0] : width - 1}px`);
    this.spacer.style.setProperty("height", `${Math.ceil(this.total[1])}px`);
    const ratio = devicePixelRatio || 1;
    this.view = [this.node.clientWidth, this.node.clientHeight];
    [this.canvas.width, this.canvas.height] = this.view.map((side) => Math.round(side * ratio));
    this.canvas.style.setProperty("width", `${this.view[0]}px`);
    this.canvas.style.setProperty("height", `${this.view[1]}px`);
  }

  /** The corner of a head's cell. */
  corner(layer, head) {
    if (this.ranked) {
      const index = this.at.get(layer * 1000 + head) ?? 0;
      return [this.left + (index % this.columns) * this.pitch, this.top + Math.floor(index / this.columns) * (this.pitch + CAPTION)];
    }
    const gap = this.group ? Math.floor(head / this.group) * GROUP : 0;
    const [a, b] = this.down ? [head * this.pitch + gap, layer * this.pitch] : [layer * this.pitch, head * this.pitch + gap];
    return [this.left + a, this.top + b];
  }

  /** @returns {[number, number] | null} */
  headAt(x, y) {
    const { part } = this.app.client;
    if (this.ranked) {
      const [column, row] = [Math.floor((x - this.left) / this.pitch), Math.floor((y - this.top) / (this.pitch + CAPTION))];
      if (column < 0 || column >= this.columns || row < 0) return null;
      return this.list[row * this.columns + column] ?? null;
    }
    const [a, b] = [x - this.left, y - this.top];
    const byGroup = (along) => {
      if (!this.group) return Math.floor(along / this.pitch);
      const block = this.group * this.pitch + GROUP;
      const inner = Math.floor((along % block) / this.pitch);
      return inner >= this.group ? -1 : Math.floor(along / block) * this.group + inner;
    };
    const [layer, head] = this.down ? [Math.floor(b / this.pitch), byGroup(a)] : [Math.floor(a / this.pitch), byGroup(b)];
    return layer >= 0 && head >= 0 && layer < part.layers && head < part.heads_of[layer] ? [layer, head] : null;
  }

  // What people do

  point(event) {
    const at = event && this.headUnder(event);
    if (String(at) === String(this.hovered)) return;
    this.hovered = at;
    this.hover.hidden = !at;
    if (!at) return this.app.tip.hide();
    const [x, y] = this.corner(...at);
    const side = this.pitch - 2;
    for (const [property, value] of [["left", x - this.node.scrollLeft], ["top", y - this.node.scrollTop], ["width", side], ["height", side]]) this.hover.style.setProperty(property, `${value}px`);
    this.app.tip.showAt(this.hover, this.words(...at));
  }

  /** @returns {[number, number] | null} */
  headUnder(event) {
    const box = this.node.getBoundingClientRect();
    return this.headAt(event.clientX - box.left + this.node.scrollLeft, event.clientY - box.top + this.node.scrollTop);
  }

  click(event) {
    const at = this.headUnder(event);
    if (at) this.choose(...at);
  }

  key(event) {
    const { layer, head } = this.app.state;
    if (event.key === "Enter") return void (event.preventDefault(), this.open());
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    const far = { Home: -1, End: 1 }[event.key];
    if (!step && !far) return;
    event.preventDefault();
    const to = this.stepped(layer, head, step ?? [far * 1e6, 0]);
    if (to) this.choose(...to);
    this.cell.focus({ preventScroll: true });
  }

  /** @returns {[number, number] | undefined} */
  stepped(layer, head, [across, along]) {
    const { part } = this.app.client;
    const limited = (value, count) => Math.max(0, Math.min(count - 1, value));
    if (this.ranked) {
      const index = this.at.get(layer * 1000 + head) ?? 0;
      return this.list[limited(index + limited(across + this.list.length, 2 * this.list.length + 1) - this.list.length + along * this.columns, this.list.length)];
    }
    const [byLayer, byHead] = this.down ? [along, across] : [across, along];
    const to = limited(layer + byLayer, part.layers);
    return [to, limited(head + byHead, part.heads_of[to])];
  }

  words(layer, head) {
    const { client, state } = this.app;
    const role = roleOf(client, layer, head);
    const name = ["map", "role"].includes(state.colour) ? "entropy" : state.colour;
    const measured = client.measure(name) ? `${titleOf(name)} ${valueText(name, client.value(name, layer, head))}` : null;
    const scaled = client.scaleOf(layer, head);
    const refused = client.refusal && checkOf(client, state.colour) === "writes" ? `refused: ${client.refusal}` : measured;
    const kv = this.group ? `kv ${client.keyHead(layer, head)}` : null;
    return [[headName(layer, head), kv, roleWord(role)].filter(Boolean).join(" · "), refused, scaled === 1 ? null : scaled === 0 ? "ablated" : `× ${scaled}`].filter(Boolean).join("\n");
  }

  /** Move the focus cell to the chosen head, and what is seen to it. */
  place() {
    const { layer, head } = this.app.state;
    const { part } = this.app.client;
    const [x, y] = this.corner(layer, head);
    const side = this.pitch - 2;
    for (const [property, value] of [["left", x], ["top", y], ["width", side], ["height", side]]) this.cell.style.setProperty(property, `${value}px`);
    this.cell.setAttribute("aria-label", this.words(layer, head).replaceAll("\n", ", "));
    this.cell.setAttribute("aria-rowindex", (this.down ? layer : head) + 1);
    this.cell.setAttribute("aria-colindex", (this.down ? head : layer) + 1);
    this.node.setAttribute("aria-rowcount", this.down ? part.layers : part.heads);
    this.node.setAttribute("aria-colcount", this.down ? part.heads : part.layers);
    this.seen(x, y, side);
  }

  seen(x, y, side) {
    const { node } = this;
    if (x - this.left < node.scrollLeft) node.scrollLeft = x - this.left;
    else if (x + side + 6 > node.scrollLeft + node.clientWidth) node.scrollLeft = x + side + 6 - node.clientWidth;
    if (y - this.top < node.scrollTop) node.scrollTop = y - this.top;
    else if (y + side + 6 > node.scrollTop + node.clientHeight) node.scrollTop = y + side + 6 - node.clientHeight;
  }

  // Drawing

  draw() {
    const { app } = this;
    const { client, state } = app;
    if (!client.part || !this.view) return;
    const ratio = devicePixelRatio || 1;
    const context = this.canvas.getContext("2d");
    const style = getComputedStyle(app.root);
    const colour = (name) => style.getPropertyValue(`--${name}`).trim();
    Object.assign(this, { context, colour: Object.fromEntries(["page", "panel", "sunk", "line2", "ink", "ink2", "ink3", "blue", "red"].map((name) => [name, colour(name)])) });
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, ...this.view);
    const shift = [this.node.scrollLeft, this.node.scrollTop];
    context.save();
    if (!this.ranked) {
      context.beginPath();
      context.rect(this.left - 1, this.top - 1, this.view[0], this.view[1]);
      context.clip();
    }
    context.translate(-shift[0], -shift[1]);
    this.cells(shift);
    context.restore();
    if (!this.ranked) this.axes(shift, state.colour);
  }

  cells(shift) {
    const { client, state, theme } = this.app;
    const { part } = client;
    const kind = state.colour;
    const paint = this.painter(kind, theme);
    const side = this.pitch - 2;
    const seen = (x, y) => x + this.pitch > shift[0] && y + this.pitch > shift[1] && x < shift[0] + this.view[0] && y < shift[1] + this.view[1];
    for (let layer = 0; layer < part.layers; layer++)
      for (let head = 0; head < part.heads_of[layer]; head++) {
        const [x, y] = this.corner(layer, head);
        if (!seen(x, y)) continue;
        this.context.globalAlpha = this.pass(layer, head) ? 1 : 0.14;
        paint(layer, head, x, y, side);
        this.context.globalAlpha = 1;
        if (client.scaleOf(layer, head) !== 1) this.editSign(x + side, y);
        if (this.ranked) this.caption(headName(layer, head), x + side / 2, y + side + 12);
      }
  }

  /** How a cell is filled: its map, its role, or the colour of its number. */
  painter(kind, theme) {
    const { client } = this.app;
    const { context } = this;
    if (kind === "map") {
      const { thumbnails: thumbs } = client;
      const picture = this.picture(thumbs, theme);
      return (layer, head, x, y, side) => {
        context.fillStyle = this.colour.sunk;
        context.fillRect(x, y, side, side);
        if (!picture || layer >= thumbs.layersThere) return;
        context.imageSmoothingEnabled = thumbs.rows > side * (devicePixelRatio || 1);
        context.drawImage(picture, head * thumbs.columns, layer * thumbs.rows, thumbs.columns, thumbs.rows, x, y, side, side);
      };
    }
    if (kind === "role") return (layer, head, x, y, side) => this.roleCell(roleOf(client, layer, head), x, y, side);
    const ends = reach(client, kind);
    const refused = client.refusal && checkOf(client, kind) === "writes";
    return (layer, head, x, y, side) => {
      const number = client.value(kind, layer, head);
      if (refused || Number.isNaN(number)) return this.hatch(x, y, side);
      context.fillStyle = (isSigned(kind) ? diverging : sequential)(colourShare(kind, number, ends), theme);
      context.fillRect(x, y, side, side);
    };
  }

  picture(thumbs, theme) {
    if (!thumbs) return null;
    const key = `${theme} ${thumbs.layersThere}`;
    if (this.kept?.thumbs !== thumbs || this.kept.key !== key) this.kept = { thumbs, key, picture: painted(thumbs, theme, "sqrt") };
    return this.kept.picture;
  }

  hatch(x, y, side) {
    const { context } = this;
    context.save();
    context.beginPath();
    context.rect(x, y, side, side);
    context.clip();
    context.fillStyle = this.colour.panel;
    context.fillRect(x, y, side, side);
    context.strokeStyle = this.colour.line2;
    context.beginPath();
    for (let at = -side; at < side; at += 4) {
      context.moveTo(x + at, y + side);
      context.lineTo(x + at + side, y);
    }
    context.stroke();
    context.restore();
  }

  roleCell(role, x, y, side) {
    const { context } = this;
    context.fillStyle = this.colour.sunk;
    context.fillRect(x, y, side, side);
    context.fillStyle = this.colour.ink;
    const inner = Math.min(side * 0.66, 24);
    const [left, top, unit] = [x + (side - inner) / 2, y + (side - inner) / 2, inner / 6];
    const shapes = shapesOf(role);
    const alpha = context.globalAlpha;
    for (const [a, b, w, h, strength] of shapes ?? [[2.5, 2.5, 1, 1, 0.5]]) {
      context.globalAlpha = alpha * strength;
      context.fillRect(left + a * unit, top + b * unit, w * unit, h * unit);
    }
    context.globalAlpha = alpha;
  }

  editSign(x, y) {
    const { context } = this;
    context.beginPath();
    context.arc(x - 2, y + 2, 3.5, 0, 7);
    context.fillStyle = this.colour.panel;
    context.fill();
    context.lineWidth = 2;
    context.strokeStyle = this.colour.red;
    context.stroke();
    context.lineWidth = 1;
  }

  caption(text, x, y, { align = "center", colour = this.colour.ink3, weight = 400, turn = 0 } = {}) {
    const { context } = this;
    context.save();
    context.translate(x, y);
    context.rotate(turn);
    context.font = `${weight} 11px ${getComputedStyle(this.app.root).fontFamily}`;
    context.textAlign = /** @type {CanvasTextAlign} */ (align);
    context.fillStyle = colour;
    context.fillText(text, 0, 0);
    context.restore();
  }

  /** Numbers of layers and heads, brackets, bars and marks stay in view while cells move. */
  axes(shift, kind) {
    const { client, state } = this.app;
    const { part } = client;
    const { context } = this;
    const clip = (x, y, w, h, draw) => {
      context.save();
      context.beginPath();
      context.rect(x, y, w, h);
      context.clip();
      draw();
      context.restore();
    };
    const bars = this.bars(kind);
    const side = this.pitch - 2;
    const step = this.pitch < 18 ? 2 : 1;
    const mid = (layer, head) => {
      const [x, y] = this.corner(layer, head);
      return [x + side / 2 - shift[0], y + side / 2 - shift[1]];
    };
    const [width, height] = this.view;
    const chosen = (is) => (is ? { colour: this.colour.ink, weight: 700 } : {});
    const eachLayer = (draw) => Array.from({ length: part.layers }, (_, layer) => draw(layer));
    const eachHead = (draw) => Array.from({ length: part.heads }, (_, head) => draw(head));
    if (!this.down) {
      clip(this.left - 2, 0, width, height, () =>
        eachLayer((layer) => {
          const [x] = mid(layer, 0);
          context.fillStyle = this.colour.ink3;
          context.globalAlpha = 0.55;
          const tall = bars[layer] * (BARS - 2);
          context.fillRect(x - side / 2, BARS - 2 - tall, side, tall);
          context.globalAlpha = 1;
          if (layer % step === 0 || layer === state.layer) this.caption(String(layer), x, BARS + 11, chosen(layer === state.layer));
          if (this.total[1] - shift[1] <= height + MARKS) this.layerMark(layer, x, this.total[1] - shift[1] - MARKS / 2 + 1);
        }),
      );
      clip(0, this.top - 2, this.left, height, () => {
        eachHead((head) => (head % step === 0 || head === state.head) && this.caption(String(head), this.left - 6, mid(0, head)[1] + 4, { align: "right", ...chosen(head === state.head) }));
        this.brackets((head) => mid(0, head)[1] - side / 2, (from, to, group) => {
          context.fillStyle = this.colour.line2;
          context.fillRect(0, from, 2, to - from);
          this.caption(`kv ${group}`, 13, (from + to) / 2, { turn: -Math.PI / 2 });
        });
      });
      return;
    }
    clip(this.left - 2, 0, width, this.top, () => {
      eachHead((head) => (head % step === 0 || head === state.head) && this.caption(String(head), mid(0, head)[0], this.top - 5, chosen(head === state.head)));
      this.brackets((head) => mid(0, head)[0] - side / 2, (from, to, group) => {
        context.fillStyle = this.colour.line2;
        context.fillRect(from, AXIS, to - from, 2);
        this.caption(`kv ${group}`, (from + to) / 2, AXIS - 4);
      });
    });
    clip(0, this.top - 2, width, height, () =>
      eachLayer((layer) => {
        const [, y] = mid(layer, 0);
        context.fillStyle = this.colour.ink3;
        context.globalAlpha = 0.55;
        const wide = bars[layer] * 20;
        context.fillRect(this.left - 26 - wide, y - side * 0.3, wide, side * 0.6);
        context.globalAlpha = 1;
        this.caption(String(layer), this.left - 6, y + 4, { align: "right", ...chosen(layer === state.layer) });
        this.layerMark(layer, this.total[0] - shift[0] - MARKS / 2, y);
      }),
    );
  }

  brackets(start, draw) {
    const { part } = this.app.client;
    if (!this.group) return;
    for (let group = 0; group * this.group < part.heads; group++) {
      const first = group * this.group;
      draw(start(first), start(first + this.group - 1) + this.pitch - 2, group);
    }
  }

  /** Mean of a layer's heads, the largest 1. */
  bars(kind) {
    const { client } = this.app;
    const { part } = client;
    this.barName = barsOf(client, kind);
    const means = Array.from({ length: part.layers }, (_, layer) => {
      let [sum, count] = [0, 0];
      for (let head = 0; head < part.heads_of[layer]; head++) {
        const number = client.value(this.barName, layer, head);
        if (Number.isFinite(number)) [sum, count] = [sum + number, count + 1];
      }
      return count ? Math.max(0, sum / count) : 0;
    });
    const most = Math.max(...means);
    return means.map((mean) => (most ? mean / most : 0));
  }

  layerMark(layer, x, y) {
    const { client, state } = this.app;
    const found = stateOf(client, checkOf(client, state.colour === "role" ? "entropy" : state.colour), layer);
    if (!found) return;
    const kind = { passes: "equal", fails: "fails", refused: "refused" }[found];
    const { context } = this;
    context.save();
    context.translate(x - 4, y - 4);
    context.strokeStyle = { equal: this.colour.blue, fails: this.colour.red, refused: this.colour.ink3 }[kind];
    context.lineWidth = 1.5;
    context.stroke(new Path2D(KINDS[kind].path));
    context.restore();
  }
}

/** What the bars beside layers show: the measure itself, or what tells most of all there is. */
export function barsOf(client, kind) {
  if (!["map", "role"].includes(kind) && client.measure(kind)) return kind;
  return ["importance", "write_norm", "entropy"].find((name) => client.measure(name)) ?? "entropy";
}
