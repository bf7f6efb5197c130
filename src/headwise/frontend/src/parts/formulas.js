/** Where a number of the example came from: the formula with its values, the numbers it was made of, and what an unmodified step would have given. */

import { fixed } from "../format.js";

const two = (number) => (Math.abs(number) < 0.005 ? "0" : fixed(number, Number.isInteger(number) ? 0 : 2));
const times = (pairs) => pairs.map(([a, b]) => `${two(a)}·${bracketed(b)}`).join(" + ");
const bracketed = (number) => (number < 0 ? `(${two(number)})` : two(number));
const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);

/**
 * @returns {{title: string, text: string, note: string, sources: string[], expected: number | null, actual: number, differs: boolean}} sources are "id:row,column"
 */
export function explain(found, id, i, j) {
  const [name, head] = id.split(".");
  const way = WAYS[name]?.(found.matrices, i, j, head === undefined ? null : +head, found);
  if (!way) return null;
  const actual = valueOf(found, id, i, j);
  const { expected = null } = way;
  const differs = expected !== null && Math.abs(expected - actual) > 1e-9;
  return { note: "", sources: [], ...way, expected, differs, actual, title: titleOf(name, head) };
}

export function valueOf(found, id, i, j) {
  const [name, head] = id.split(".");
  if (name === "map") return found.maps[head]?.[i]?.[j];
  const matrix = head === undefined ? found.matrices[name] : found.matrices[name]?.[+head];
  return matrix?.[i]?.[j];
}

const titleOf = (name, head) => (name === "map" ? head : head === undefined ? name : `head ${head} · ${name}`);

const row = (id, i, count) => Array.from({ length: count }, (_, j) => `${id}:${i},${j}`);
const column = (id, j, count) => Array.from({ length: count }, (_, i) => `${id}:${i},${j}`);

function projected(name) {
  return (m, i, j, head, found) => {
    const slice = m[`w_${name}`][head];
    const pairs = m.x[i].map((value, k) => [value, slice[k][j]]);
    const at = columnIn(found.maps[`w_${name}`], slice, j);
    const sources = [...row("x", i, m.x[i].length), ...(at < 0 ? [] : column(`map.w_${name}`, at, slice.length))];
    return { text: `${name}[${i},${j}] = x[${i}] · w_${name}[:,${at < 0 ? j : at}] = ${times(pairs)}`, expected: sum(pairs.map(([a, b]) => a * b)), sources };
  };
}

/** The column of the whole map that a head's j-th column is, or −1 where it is none of them. */
export function columnIn(map, slice, j) {
  return map[0].findIndex((_, at) => map.every((line, k) => line[at] === slice[k][j]));
}

/** The row of the whole w_o that a head's e-th row is, or −1. */
export const rowIn = (map, slice, e) => map.findIndex((line) => line.every((value, k) => value === slice[e][k]));

const WAYS = {
  x: (m, i, j) => ({ text: `x[${i},${j}]`, note: `feature ${j} of token ${i}: given` }),
  map: (m, i, j) => ({ text: `[${i},${j}]`, note: "learned" }),
  q: projected("q"),
  k: projected("k"),
  v: projected("v"),
  scores(m, i, j, head) {
    const [q, k] = [m.q[head][i], m.k[head][j]];
    const dot = sum(q.map((value, d) => value * k[d]));
    return {
      text: `score[${i},${j}] = q[${i}] · k[${j}] ÷ √${q.length} = (${times(q.map((value, d) => [value, k[d]]))}) ÷ ${two(Math.sqrt(q.length))}`,
      expected: dot / Math.sqrt(q.length),
      sources: [...row(`q.${head}`, i, q.length), ...row(`k.${head}`, j, k.length)],
    };
  },
  weights(m, i, j, head) {
    const scores = m.scores[head][i];
    const top = Math.max(...scores);
    const total = sum(scores.map((score) => Math.exp(score - top)));
    const weights = m.weights[head][i];
    return {
      text: `weight[${i},${j}] = exp(${two(scores[j])}) ÷ (${scores.map((score) => `exp(${two(score)})`).join(" + ")})`,
      note: `row ${i}: ${weights.map((weight) => fixed(weight, 3)).join(" + ")} = ${fixed(sum(weights), 6)}`,
      expected: Math.exp(scores[j] - top) / total,
      sources: row(`scores.${head}`, i, scores.length),
    };
  },
  z(m, i, j, head) {
    const weights = m.weights[head][i];
    const pairs = weights.map((weight, key) => [weight, m.v[head][key][j]]);
    return {
      text: `z[${i},${j}] = Σ weight[${i},j] · v[j,${j}] = ${times(pairs)}`,
      expected: sum(pairs.map(([a, b]) => a * b)),
      sources: [...row(`weights.${head}`, i, weights.length), ...column(`v.${head}`, j, weights.length)],
    };
  },
  concat(m, i, j) {
    const widths = m.z.map((rows) => rows[0].length);
    let head = 0;
    let at = j;
    while (at >= widths[head]) at -= widths[head++];
    return { text: `concat[${i},${j}] = z[${i},${at}] of head ${head}`, expected: m.z[head][i][at], sources: [`z.${head}:${i},${at}`] };
  },
  writes(m, i, j, head, found) {
    const slice = m.w_o[head];
    const pairs = m.z[head][i].map((value, e) => [value, slice[e][j]]);
    const rows = slice.map((_, e) => rowIn(found.maps.w_o, slice, e));
    return {
      text: `writes[${i},${j}] of head ${head} = z[${i}] · its rows of w_o = ${times(pairs)}`,
      expected: sum(pairs.map(([a, b]) => a * b)),
      sources: [...row(`z.${head}`, i, pairs.length), ...rows.filter((e) => e >= 0).map((e) => `map.w_o:${e},${j}`)],
    };
  },
  out(m, i, j, _head, found) {
    const parts = m.writes.map((written) => written[i][j]);
    const concat = m.concat[i];
    return {
      text: `out[${i},${j}] = ${parts.map((part, one) => `head ${one}: ${two(part)}`).join("  +  ")}`,
      note: `the same as concat[${i}] · w_o[:,${j}] = ${times(concat.map((value, k) => [value, found.maps.w_o[k]?.[j] ?? 0]))}`,
      expected: sum(parts),
      sources: [...row("concat", i, concat.length), ...column("map.w_o", j, found.maps.w_o.length), ...parts.map((_, one) => `writes.${one}:${i},${j}`)],
    };
  },
};
