/** The row that is looked at, certified: how far its weights are from the true ones at most, whatever was rounded on the way. */

import { el, fill } from "../dom.js";
import { fixed, scientific, shown } from "../format.js";
import { mark } from "../marks.js";
import { refusalNote } from "./notes.js";

const LONGEST = 8192; // keys of a row that is certified by itself
const PAUSE = 150; // milliseconds on a row, before it is asked for

/** A line of text; `look` says which row it is about. */
export function certifiedRow(app) {
  const { client } = app;
  const node = el("p", { class: "sub certified" });
  let [wanted, timer] = [null, 0];
  node.look = (query) => {
    const { layer, head } = app.state;
    const { part } = client;
    const key = `${client.run.id} ${part.name} ${layer} ${head} ${query}`;
    if (key === wanted || part.keys > LONGEST || client.transport.recorded) return;
    wanted = key;
    clearTimeout(timer);
    timer = setTimeout(async () => {
      let content;
      try {
        content = describeRow(await client.certificate(layer, head, query), query, shown(part.query_tokens[query]).trim());
      } catch (failure) {
        content = failure.kind === "RunGone" ? null : refusalNote(failure.message, "Not certified.").childNodes;
      }
      if (wanted === key) fill(node, ...(content ?? []));
    }, PAUSE);
  };
  return node;
}

function describeRow({ weights, lse, sum, bits, keys }, query, token) {
  const ulps = (count) => `${count < 0.05 ? "under 0.05" : `at most ${fixed(count, 1)}`} units of the last place`;
  const tip = `Row ${query}: each of its ${keys} weights is within ${scientific(weights.error)} of the softmax of this run’s own queries and keys, ${ulps(weights.ulps)}.\nIts log-sum-exp is within ${scientific(lse.error)}, ${ulps(lse.ulps)}.\nThe true weights add up to ${fixed(sum.low, 9)}.\nProved by ball arithmetic with ${bits} bits.`;
  return [`row ${query} `, el("b", {}, token), ": no weight is off by more than ", el("span", { class: "number" }, scientific(weights.error), mark("bound", tip))];
}
