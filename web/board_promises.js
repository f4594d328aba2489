// The promises of an audit. Nothing here needs a page to be loaded.

const NAME = "promise_";

// [name, whether it was kept, what was found] of each promise that the page has a text for, and of one that it does not know.
export function promisesOf({ violations }, texts) {
  const found = violations.map((violation) => /^([^:]*)(?:: )?(.*)$/s.exec(violation).slice(1));
  const known = Object.keys(texts).filter((key) => key.startsWith(NAME));
  const names = new Set([...known.map((key) => key.slice(NAME.length)), ...found.map(([name]) => name)]);
  return [...names].map((name) => {
    const words = found.filter(([broken]) => broken === name).map(([, text]) => text);
    return [name, words.length === 0, words.join("; ")];
  });
}
