import { el } from "../dom.js";
export const head = () => ({ node: el("div") });
