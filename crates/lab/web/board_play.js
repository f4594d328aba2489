// The board of a demonstration: a button that shows a whole sale, and crowds.

import * as board from "./board.js";
import * as crowd from "./board_crowd.js";
import * as login from "./board_login.js";
import { byId, texts } from "./page.js";

byId("demo").addEventListener("click", async () => {
  const [button, state] = [byId("demo"), byId("demo-state")];
  button.disabled = true;
  state.textContent = "";
  try {
    if (byId("board").hidden) {
      if (!(await login.asDemoAdmin())) return;
      board.watch();
    }
    const begin = board.serverNow() + 6000;
    const sale = {
      title: texts.demo_sale,
      stock: 2000,
      begin_time: new Date(begin).toISOString(),
      end_time: new Date(begin + 3_600_000).toISOString(),
    };
    const created = await board.createSale(sale);
    const sent = created.ok ? await crowd.send(created.body.id, 20_000, 3) : created;
    state.textContent = sent.ok ? texts.demo_starting : login.refusal(sent);
  } finally {
    button.disabled = false;
  }
});

board.alsoEverySecond(crowd.read);
crowd.start(board.chosenSale);
