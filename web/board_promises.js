// The promises of an audit. Nothing here needs a page to be loaded.

const IN_THE_DATABASE = ["no_oversell", "one_per_user", "no_undersell", "orphans", "sale_window"];

// [name, whether it was kept, what was found] of each promise; of one that this page does not know, too.
export function promisesOf({ violations }) {
  const found = violations.map((violation) => /^([^:]*)(?:: )?(.*)$/s.exec(violation).slice(1));
  const names = new Set([...IN_THE_DATABASE, ...found.map(([name]) => name)]);
  return [...names].map((name) => {
    const words = found.filter(([broken]) => broken === name).map(([, text]) => text);
    return [name, words.length === 0, words.join("; ")];
  });
}
