/** Where the names of lines can stand: beside their line, clear of every other line and name. */

const LETTER = 6.2; // pixels of a bold letter, about
const STEP = 3;

/** A place a line in the order given, or null where some name finds none: then a legend says it. */
export function labels(series, room) {
  const walks = series.map(({ points }) => walk(points));
  const taken = [];
  for (const [at, { name }] of series.entries()) {
    const wide = name.length * LETTER;
    const place = wide < 0.6 * (room.right - room.left) ? best(walks, at, wide, taken, room) : null;
    if (!place) return null;
    taken.push({ name, ...place });
  }
  return taken;
}

/** Points along a line, some pixels apart. */
function walk(points) {
  const all = points.length ? [points[0]] : [];
  for (let i = 1; i < points.length; i++) {
    const [[a, b], [c, d]] = [points[i - 1], points[i]];
    const steps = Math.max(1, Math.ceil(Math.hypot(c - a, d - b) / STEP));
    for (let k = 1; k <= steps; k++) all.push([a + ((c - a) * k) / steps, b + ((d - b) * k) / steps]);
  }
  return all;
}

/** The place with the widest berth. */
function best(walks, at, wide, taken, room) {
  let found = null;
  for (const [x, y] of walks[at])
    for (const rise of [-7, 15]) {
      const box = { x, y: y + rise, left: x - wide / 2, right: x + wide / 2, top: y + rise - 10, bottom: y + rise + 2 };
      if (box.left < room.left + 2 || box.right > room.right || box.top < room.top || box.bottom > room.bottom - 2) continue;
      if (taken.some((one) => one.left < box.right + 6 && one.right + 6 > box.left && one.top < box.bottom && one.bottom > box.top)) continue;
      if (walks.some((walked) => walked.some(([a, b]) => a > box.left - 2 && a < box.right + 2 && b > box.top - 1 && b < box.bottom + 1))) continue;
      const berth = Math.min(40, ...walks.flatMap((walked, n) => (n === at ? [] : walked.map(([a, b]) => Math.hypot(a - x, b - box.y)))));
      if (!found || berth > found.berth) found = { ...box, berth };
    }
  return found;
}
