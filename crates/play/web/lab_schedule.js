// Schedules: their steps, the lesson that settings are for, and how few steps break a promise. Nothing here needs a page to be
// loaded.

// The steps of a schedule in its short form: a letter each, or a letter and whose process it is.
export const stepsOf = (schedule) => schedule.match(/[KP]:.|./g) ?? [];

// Whether a setting begins with an order that is not paid.
export const isUnpaid = ({ from, unpaid }) => unpaid ?? (from === "unpaid" || from === "buys_again");

// The lesson that these settings are for: one that breaks before one that holds.
export function goalOf(lessons, plan) {
  const fits = ({ users, processes, stock, unpaid }) =>
    users === plan.users && processes === plan.processes && stock === plan.stock && unpaid === plan.unpaid;
  const breaks = (lesson) => lesson.breaks !== null;
  const order = [(it) => fits(it) && breaks(it), breaks, fits];
  // What holds begins with nothing sold.
  if (!plan.unpaid) order.push(() => true);
  return order.map((which) => lessons.find(which)).find(Boolean) ?? null;
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
