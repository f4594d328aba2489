// The course: the contents are open where there is room beside the text, and a command can be copied.

import { byId, element, texts } from "./page.js";

const contents = byId("contents");
const wide = matchMedia("(min-width: 64rem)");

function openWhereThereIsRoom() {
  contents.open = wide.matches;
  const read = contents.querySelector("[aria-current]");
  // What is read is in sight, without a movement of the page.
  if (wide.matches) contents.scrollTop = read.offsetTop - contents.clientHeight / 3;
}

openWhereThereIsRoom();
wide.addEventListener("change", openWhereThereIsRoom);

for (const command of document.querySelectorAll(".command")) {
  const button = element("button", { class: "quiet", type: "button" }, texts.copy);
  button.setAttribute("aria-label", `${texts.copy}: ${command.textContent}`);
  const said = element("span", { role: "status" });
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(command.textContent);
      said.textContent = texts.copied;
    } catch {
      // Without the right to copy, what is to be copied is at least marked.
      getSelection().selectAllChildren(command);
    }
  });
  command.after(" ", button, said);
}

// Paper cannot be unfolded.
addEventListener("beforeprint", () => {
  for (const folded of document.querySelectorAll(".chapter details")) folded.open = true;
});
