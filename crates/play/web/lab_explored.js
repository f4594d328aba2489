// What every interleaving came to, and any of them to be tried.

import { withCode } from "./lab_file.js";
import { stepsOf } from "./lab_server.js";
import { byId, element, fill, texts } from "./page.js";

const isUnpaid = ({ from, unpaid }) => unpaid ?? (from === "unpaid" || from === "buys_again");

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

// The shortest schedule known that breaks a promise with these settings, in steps; with any where none is known
// with these. What is shown counts, too.
export function parOf(explored, lessons, promise, { users, processes, stock, unpaid }) {
  const shown = lessons.map((one) => ({ ...one, shortest: [{ ...one, broken: [one.breaks] }] }));
  const settings = [...explored, ...shown];
  const isSame = (one) =>
    one.users === users && one.processes === processes && one.stock === stock && isUnpaid(one) === unpaid;
  const shortest = (some) =>
    Math.min(
      ...some
        .flatMap((one) => one.shortest)
        .filter((one) => one.broken.includes(promise))
        .map((one) => stepsOf(one.schedule).length),
    );
  const par = [shortest(settings.filter(isSame)), shortest(settings)].find(Number.isFinite);
  return par ?? null;
}
