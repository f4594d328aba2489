// The draw and the line of the sale that is watched: how many wait, how far the draw is, and its public number.

import * as board from "./board.js";
import * as form from "./board_form.js";
import * as login from "./board_login.js";
import { byId, language, texts } from "./page.js";
import { fill, isolated } from "./words.js";

const time = new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "medium" });
const whole = new Intl.NumberFormat(language);
const numberForm = byId("number-form");
let voucher = null;
// Whether nothing was read of it yet.
let isNew = true;

board.onSale((read) => {
  if (read?.id !== voucher?.id) isNew = true;
  if (read === null) show("");
  voucher = read;
});

function show(text, takesNumber = false) {
  byId("line-state").textContent = text;
  byId("line").hidden = text === "";
  // Somebody may be writing in it.
  if (numberForm.hidden === takesNumber) numberForm.hidden = !takesNumber;
}

function words({ entered, in_line, offered, closed, number, drawn_at: drawnAt }) {
  const { draw_time: closesAt, draw_beacon: beacon } = voucher;
  const counts = { entered: whole.format(entered), waiting: whole.format(in_line), offered: whole.format(offered) };
  const values = { ...counts, at: time.format(new Date(drawnAt ?? closesAt)), beacon: isolated(beacon), number };
  const stage = closed === null ? "" : drawnAt ? "drawn" : closed ? "entries_closed" : "entries_open";
  const parts = [stage && texts[stage], beacon && closed !== null && texts[number ? "number_is" : "beacon_is"]];
  if (!stage || drawnAt) parts.push(texts.line_counts);
  return parts
    .filter(Boolean)
    .map((part) => fill(part, values))
    .join(" ");
}

async function read() {
  const of = voucher;
  isNew = false;
  const answer = await board.ask("GET", `/api/vouchers/${of.id}/line`);
  if (!answer.ok || of.id !== voucher?.id) return;
  show(words(answer.body), Boolean(of.draw_beacon && answer.body.closed && !answer.body.number));
}

board.everySecond(async (isFifth) => {
  if (voucher?.line && (isFifth || isNew)) await read();
});

numberForm.addEventListener("submit", async (event) => {
  event.preventDefault();
  const [button, number] = [numberForm.querySelector("button"), byId("number").value.trim()];
  const isRight = /^(0|[1-9a-f][0-9a-f]{0,199})$/.test(number);
  if (!form.show(["number"], isRight ? [] : [["number", texts.number_wrong]]) || button.disabled) return;
  button.disabled = true;
  const told = await board.ask("PUT", `/api/vouchers/${voucher.id}/draw`, { number });
  button.disabled = false;
  if (!told.ok) return form.show(["number"], [["number", login.refusal(told)]]);
  numberForm.reset();
  await read();
});
