// What is said of a show: its rates, and what came of it. Nothing here needs a page to be loaded.

const POINTS_A_SECOND = 10;
const ALSO = ["undersold", "lost", "untold", "unexpected", "not_made"];

// Of the answers (0) or orders (1) of each tenth of a second: what came within the second that ends there. A tenth of one
// says nothing of a second.
export function rates(points, at) {
  const within = (end) => points.slice(Math.max(end + 1 - POINTS_A_SECOND, 0), end + 1);
  return points.map((_, end) => within(end).reduce((sum, point) => sum + point[at], 0));
}

// In buyers, not in attempts: a dot is a buyer. Of a slow crowd each tries once, and people buy among them. `say` puts values
// into a text.
export function outcomeOf(half, crowd, { texts, say, count, seconds }) {
  const { verdict, users, rung, others, killed_at: killed } = half;
  const { sold, oversold, duplicates, refused, elapsed_ms: ms } = verdict;
  const buyers = sold - duplicates;
  const values = {
    buyers: count(buyers),
    sold: count(sold),
    oversold: count(oversold),
    nothing: count(crowd === "slow" ? refused : Math.max(users + others - buyers, 0)),
    seconds: seconds(ms / 1000),
  };
  const more = [];
  if (killed !== null) more.push(say(texts.killed, { killed: count(killed), count: count(verdict.silent) }));
  else if (crowd === "failover") more.push(texts.nobody_killed);
  const also = ALSO.filter((name) => verdict[name] !== 0);
  more.push(...also.map((name) => say(texts[`also_${name}`], { count: count(verdict[name]) })));
  const reasons = verdict.reasons.map((reason) => reason.replace(/\.$/, "")).join("; ");
  if (reasons) more.push(say(texts.reasons, { reasons }));
  if (rung && verdict.holds)
    more.push(say(texts.hidden_flaw, { breaks: texts.rungs.find(({ id }) => id === rung)?.breaks ?? "" }));
  return [say(texts.sentence, values), ...more].join(" ");
}
