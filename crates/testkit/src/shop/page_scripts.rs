//! What a test has a page run.

/// See `Browser::hold_timer`.
pub(super) const HOLD_TIMER: &str = r#"
    window.heldTimers ??= {};
    {
        const [set, clear] = [setTimeout, clearTimeout];
        window.setTimeout = (run, ms, ...more) => {
            if (ms !== HELD_MS) return set(run, ms, ...more);
            window.heldTimers[ms] = true;
            return -ms;
        };
        window.clearTimeout = (id) => (id === -HELD_MS ? delete window.heldTimers[HELD_MS] : clear(id));
    }
"#;

/// See `Browser::forget_what_is_new`. What a test asks for is kept, and what the driver needs (`Object.hasOwn`).
pub(super) const FORGET_WHAT_IS_NEW: &str = "
    window.checkVisibility = Element.prototype.checkVisibility;
    for (const [of, ...names] of [
        [window, 'structuredClone', 'Iterator'],
        [AbortSignal, 'timeout', 'any'],
        [Array, 'fromAsync'],
        [Array.prototype, 'at', 'findLast', 'findLastIndex', 'toReversed', 'toSorted', 'toSpliced', 'with'],
        [Element.prototype, 'checkVisibility'],
        [HTMLElement.prototype, 'hidePopover', 'showPopover', 'togglePopover'],
        [HTMLFormElement.prototype, 'requestSubmit'],
        [Map, 'groupBy'],
        [Object, 'groupBy'],
        [Object.getPrototypeOf(Object.getPrototypeOf([].values())), 'map', 'filter', 'some', 'every', 'find', 'toArray'],
        [Promise, 'withResolvers', 'try'],
        [String.prototype, 'at', 'isWellFormed'],
    ]) for (const name of names) delete of[name];
";

/// Whether an element can be seen.
const SEEN: &str = "(window.checkVisibility ?? Element.prototype.checkVisibility).call";

/// Whether an element is enabled, and where it was when this was asked for the last time.
const STANDS_STILL: &str = "element => {
    const { x, y } = element.getBoundingClientRect();
    const [before, place] = [window.lookedAt, [element, x, y]];
    window.lookedAt = place;
    return !element.disabled && before?.every((part, at) => part === place[at]);
}";

/// The element that `selector` finds.
pub(super) fn found(selector: &str) -> String {
    format!("document.querySelector({})", serde_json::json!(selector))
}

/// Whether it can be seen.
pub(super) fn seen(selector: &str) -> String {
    let found = found(selector);
    format!("({found} && {SEEN}({found}))")
}

/// Whether it can be clicked where it is.
pub(super) fn can_be_clicked(selector: &str) -> String {
    format!("{} && ({STANDS_STILL})({})", seen(selector), found(selector))
}
