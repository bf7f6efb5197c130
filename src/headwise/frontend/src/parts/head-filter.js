/** `induction 18.6 L12-20 H4 kv1 sink>0.6`: words narrow down which heads are meant. */

import { measuresOf, titleOf } from "./measures.js";
import { hasRole, roleOf, testedRoles } from "./roles.js";

const OF_TEXT = ["sink", "previous", "self", "mixed"]; // what any text tells
const ALIASES = { sink: "first", share: "write_share", norm: "write_norm", cosine: "write_cosine", peak: "max_weight", largest: "max_weight", previous: "previous" };

/** {pass(layer, head), errors: [what was not understood], wanted: [roles for which heads have yet to be asked]} */
export function finder(client, query) {
  const [errors, wanted] = [[], []];
  const tests = query.trim().toLowerCase().split(/\s+/).filter(Boolean).map((word) => test(client, word, errors, wanted)).filter(Boolean);
  return { pass: (layer, head) => tests.every((one) => one(layer, head)), errors, wanted };
}

function test(client, word, errors, wanted) {
  const one = /^(\d+)\.(\d+)$/.exec(word);
  if (one) return (layer, head) => layer === +one[1] && head === +one[2];
  const layers = /^l(\d+)(?:-(\d+))?$/.exec(word);
  if (layers) return (layer) => layer >= +layers[1] && layer <= +(layers[2] ?? layers[1]);
  const heads = /^h(\d+)(?:-(\d+))?$/.exec(word);
  if (heads) return (_, head) => head >= +heads[1] && head <= +(heads[2] ?? heads[1]);
  const kv = /^kv(\d+)$/.exec(word);
  if (kv) return (layer, head) => client.keyHead(layer, head) === +kv[1];
  const bound = /^([a-z_]+)([<>])=?(-?[\d.]+)$/.exec(word);
  if (bound) return bounded(client, bound, errors);
  if (word === "edited") return (layer, head) => client.scaleOf(layer, head) !== 1;
  return byRole(client, word.replace(/^role:/, "").replace(/[- ]/g, "_"), word, errors, wanted);
}

/** Heads of a role: by the statistics of this text, as tested, or yet to be tested. */
function byRole(client, role, word, errors, wanted) {
  if ([...OF_TEXT, ...testedRoles(client)].some((name) => name.startsWith(role))) return (layer, head) => roleOf(client, layer, head).startsWith(role) || hasRole(client, layer, head, role);
  const testable = client.testableRoles.find(({ name }) => name.startsWith(role));
  if (testable) wanted.push(testable.name);
  else errors.push(`“${word}” is not a role, layer, head, kv or measure. Try ${[...OF_TEXT, ...client.testableRoles.map(({ name }) => name).filter((name) => !OF_TEXT.includes(name))].join(", ")}, 1.3, L1-2, H3, kv1, entropy<1. Other roles are tested on texts made for them: headwise roles MODEL --role NAME`);
  return () => false;
}

/** @param {RegExpExecArray} match */
function bounded(client, match, errors) {
  const [, query, relation, number] = match;
  const names = measuresOf(client).map((one) => one.name);
  const name = names.find((one) => one === query && !(query in ALIASES)) ?? (names.includes(ALIASES[query]) ? ALIASES[query] : names.find((one) => one.startsWith(query) || titleOf(one).startsWith(query)));
  if (!name) {
    errors.push(`“${query}” is not a measure: ${names.join(", ")}`);
    return () => false;
  }
  return relation === ">" ? (layer, head) => client.value(name, layer, head) > +number : (layer, head) => client.value(name, layer, head) < +number;
}
