// What every interleaving came to, and any of them to be tried.

import { withCode } from "./lab_file.js";
import { isUnpaid } from "./lab_schedule.js";
import { byId, element, texts } from "./page.js";
import { fill } from "./words.js";

// `tries` is called with the settings and the steps.
export function showExplored(settings, tries) {
  const details = byId("explored");
  details.hidden = !settings.length;
  for (const old of details.querySelectorAll("section")) old.remove();
  const all = settings.reduce((sum, setting) => sum + setting.schedules, 0);
  const breaking = settings.reduce((sum, setting) => sum + setting.breaking, 0);
  const outcome = breaking ? fill(texts.explored_breaks, { breaking }) : texts.explored_holds;
  details
    .querySelector("summary")
    .replaceChildren(...withCode(fill(texts.explored, { count: all })), ": ", element("b", {}, outcome));
  details.append(...settings.map((setting) => section(setting, tries)));
}

function section(setting, tries) {
  const { users, processes, stock, schedules, bound, breaking } = setting;
  const unpaid = isUnpaid(setting);
  const where = [
    ...(unpaid ? [texts.unpaid] : []),
    users === 1 ? texts.one_user : texts.two_users,
    processes === 1 ? texts.one_process : texts.two_processes,
    fill(texts.goal_with, { stock }),
  ];
  const counts = [
    String(schedules),
    bound === null ? texts.explored_all : fill(texts.explored_bound, { bound }),
    breaking ? fill(texts.explored_breaks, { breaking }) : texts.explored_holds,
  ];
  const some = [...setting.shortest, ...setting.some];
  const button = (one) => {
    const outcome = one.broken.length ? one.broken.join(", ") : texts.lesson_holds;
    const name = element("code", {}, one.schedule);
    const kind = one.broken.length ? "bad" : "good";
    const made = element(
      "button",
      { type: "button", title: outcome },
      name,
      " ",
      element("span", { class: kind }, outcome),
    );
    made.addEventListener("click", () => tries({ users, processes, stock, unpaid }, one.schedule));
    return made;
  };
  return element(
    "section",
    {},
    element("h3", {}, where.join(" · ")),
    element("p", { class: "soft" }, counts.join(" · ")),
    ...(some.length
      ? [element("p", {}, texts.explored_try), element("div", { class: "some" }, ...some.map(button))]
      : []),
  );
}
