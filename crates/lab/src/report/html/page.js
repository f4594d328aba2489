"use strict";
// The page is whole without this. It opens what an address or a button asks for: some browsers
// do not open what is folded up around the place that a link leads to.
const unfold = () => {
  const place = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!place) return;
  for (let outer = place.closest("details"); outer; outer = outer.parentElement.closest("details")) {
    outer.open = true;
  }
  place.scrollIntoView();
};
addEventListener("hashchange", unfold);
if (location.hash) unfold();
for (const button of document.querySelectorAll("button[data-open]")) {
  button.addEventListener("click", () => {
    for (const cell of document.querySelectorAll("details.cell")) {
      cell.open = button.dataset.open === "true";
    }
  });
}
