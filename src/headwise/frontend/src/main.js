/** The one module: the page, a notebook's widget and a saved file all begin here. */

import { App } from "./app.js";
import { fromRecord, overComm, overHttp } from "./transport.js";

/** Put headwise into an element. `bound` ties the state to the address bar. */
export async function mount(element, { transport, address = "", bound = false }) {
  const app = new App(element, { transport, address, bound });
  await app.start();
  return app;
}

/** What anywidget calls, once a view of the widget. */
async function render({ model, el }) {
  const element = document.createElement("div");
  el.append(element);
  const app = await mount(element, { transport: overComm(model), address: model.get("address") ?? "" });
  return () => app.close();
}

export default { render };

const page = document.querySelector("[data-headwise-page]");
if (page) {
  const record = document.getElementById("headwise-recorded");
  const recorded = record && JSON.parse(record.textContent);
  const transport = recorded ? fromRecord(recorded) : overHttp();
  mount(page, { transport, address: recorded?.address ?? "", bound: true });
}
