"use strict";
// Turns the blocks that mdBook leaves as code into diagrams, in the colours of the page's theme. Without this
// script they stay readable as text.
const dark = ["coal", "navy", "ayu"].some((theme) => document.documentElement.classList.contains(theme));
const blocks = [...document.querySelectorAll("code.language-mermaid")].map((code) => {
  const block = document.createElement("pre");
  block.className = "mermaid";
  block.textContent = code.textContent;
  code.parentElement.replaceWith(block);
  return block;
});
mermaid.initialize({ startOnLoad: false, securityLevel: "strict", theme: dark ? "dark" : "default" });
if (blocks.length > 0) mermaid.run({ nodes: blocks });
