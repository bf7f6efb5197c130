import { el } from "../dom.js";
export const claims = () => ({ node: el("div") });
