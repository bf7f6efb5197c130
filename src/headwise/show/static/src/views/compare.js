import { el } from "../dom.js";
export const compare = () => ({ node: el("div") });
