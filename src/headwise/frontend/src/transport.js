/** How the page communicates: over HTTP to its server, over the comm of a notebook, or with what a saved file recorded. One interface: request and listen. */

/** What went wrong, as the server reported it. */
export class Failure extends Error {
  constructor(status, kind, message) {
    super(message);
    Object.assign(this, { status, kind });
  }
}

/** A server that this page came from. */
export function overHttp() {
  let events = null;
  return {
    recorded: false,
    async request(method, path, body) {
      const options = { method, headers: body ? { "Content-Type": "application/json" } : {}, body: body ? JSON.stringify(body) : undefined };
      let answer;
      try {
        answer = await fetch(`.${path}`, options);
      } catch {
        throw new Failure(0, "Unreachable", "The server does not answer. Is `headwise serve` still running?");
      }
      return { status: answer.status, type: answer.headers.get("content-type") ?? "", buffer: await answer.arrayBuffer() };
    },
    listen(session, handler) {
      events?.close();
      events = new EventSource(`./api/events?session=${session}`);
      events.addEventListener("open", () => handler("open", null));
      for (const name of ["model", "job"]) events.addEventListener(name, (event) => handler(name, JSON.parse(event.data)));
      return () => events.close();
    },
  };
}

/** The kernel of a notebook; `model` is anywidget's. */
export function overComm(model) {
  const waiting = new Map();
  /** @type {(name: string, data: any) => void} */
  let handle = () => {};
  let last = 0;
  const onMessage = (message, buffers) => {
    if (message.event) return handle(message.event, message.data);
    const answer = waiting.get(message.id);
    waiting.delete(message.id);
    answer?.({ status: message.status, type: message.type, buffer: exact(buffers?.[0]) });
  };
  model.on("msg:custom", onMessage);
  return {
    recorded: false,
    session: model.get("session"),
    request: (method, path, body) =>
      new Promise((resolve) => {
        waiting.set(++last, resolve);
        model.send({ id: last, method, path, body: body ?? null });
      }),
    listen(session, handler) {
      handle = handler;
      return () => model.off("msg:custom", onMessage);
    },
  };
}

/** A file that carries every answer it needs. */
export function fromRecord(record) {
  return {
    recorded: true,
    session: "file",
    async request(method, path) {
      const found = record.responses[`${method} ${path}`];
      if (!found) {
        const error = { kind: "NotFound", message: "This file does not carry it. Open the model with `headwise serve` to see it." };
        return { status: 404, type: "application/json", buffer: new TextEncoder().encode(JSON.stringify({ error })).buffer };
      }
      return { status: found.status, type: found.type, buffer: await unzipped(found.gzip) };
    },
    listen: () => () => {},
  };
}

/** Ask, and get JSON or arrays; what is no success is thrown as a Failure. */
export async function request(transport, method, path, body) {
  const answer = await transport.request(method, path, body);
  const json = answer.type.startsWith("application/json");
  if (answer.status >= 200 && answer.status < 300) {
    if (answer.status === 204 || !answer.buffer.byteLength) return null;
    return json ? JSON.parse(new TextDecoder().decode(answer.buffer)) : readSafetensors(answer.buffer);
  }
  const error = json ? JSON.parse(new TextDecoder().decode(answer.buffer)).error : {};
  throw new Failure(answer.status, error?.kind ?? "Unknown", error?.message ?? `The server answered ${answer.status}.`);
}

const ARRAYS = { F32: Float32Array, F16: Uint16Array, U8: Uint8Array, I32: Int32Array }; // float16: its raw bits

/** Read safetensors: arrays by name, each {data, shape, dtype}, beside the fields of the header that headwise writes into the metadata. */
export function readSafetensors(buffer) {
  const length = buffer.byteLength < 8 ? Infinity : Number(new DataView(buffer).getBigUint64(0, true));
  if (8 + length > buffer.byteLength) throw new Failure(0, "Format", "The response is not in the format that this page reads. Reload the page.");
  const { __metadata__: metadata, ...tensors } = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, length)));
  const arrays = {};
  for (const [name, { dtype, shape, data_offsets: [start, stop] }] of Object.entries(tensors)) {
    const Numbers = ARRAYS[dtype];
    arrays[name] = { dtype, shape, data: new Numbers(buffer, 8 + length + start, (stop - start) / Numbers.BYTES_PER_ELEMENT) };
  }
  return { ...JSON.parse(metadata.header), arrays };
}

/** A float16 from its bits. */
export function half(bits) {
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  const sign = bits >> 15 ? -1 : 1;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -14 * (fraction / 1024));
}

/** The buffer that a DataView or array covers, at an offset that arrays of floats can stand on. */
function exact(view) {
  if (!view) return new ArrayBuffer(0);
  if (view instanceof ArrayBuffer) return view;
  return view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength);
}

async function unzipped(base64) {
  const packed = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
}
