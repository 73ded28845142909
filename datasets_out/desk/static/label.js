// Labelling by keys alone: which block is current, and a mark that goes on to the next one.
"use strict";
const form = document.getElementById("marks");
const blocks = form ? [...form.querySelectorAll(".item")] : [];
let current = 0;

function go(to, scroll = true) {
  if (to < 0 || to >= blocks.length) return;
  blocks[current].classList.remove("current");
  current = to;
  blocks[current].classList.add("current");
  blocks[current].focus({ preventScroll: true });
  if (scroll) blocks[current].scrollIntoView({ block: "nearest" });
}

function isMarked(block) {
  return [...block.querySelectorAll("[role=radiogroup]")].every((group) => {
    const radios = [...group.querySelectorAll("input[type=radio]")];
    return radios.length === 0 || radios.some((radio) => radio.checked);
  });
}

document.addEventListener("keydown", (event) => {
  if (!form || event.ctrlKey || event.metaKey || event.altKey) return;
  const writing = event.target.matches("input:not([type=radio]):not([type=checkbox]), textarea, select");
  if (event.key === "Escape" && writing) {
    event.target.blur();
    go(current);
  } else if (event.key === "Enter" && !event.target.matches("a, summary")) {
    event.preventDefault();
    form.requestSubmit();
  } else if (writing) {
    return;
  } else if (event.key === "j" || event.key === "ArrowDown") {
    event.preventDefault();
    go(current + 1);
  } else if (event.key === "k" || event.key === "ArrowUp") {
    event.preventDefault();
    go(current - 1);
  } else if (event.key === "r") {
    event.preventDefault();
    document.getElementById("remark").focus();
  } else {
    const input = blocks[current].querySelector(`input[data-key="${CSS.escape(event.key)}"]`);
    if (!input) return;
    event.preventDefault();
    const wasMarked = isMarked(blocks[current]);
    input.checked = input.type === "radio" ? true : !input.checked;
    if (!wasMarked && isMarked(blocks[current])) go(current + 1);
  }
});
for (const [place, block] of blocks.entries()) block.addEventListener("pointerdown", () => {
  blocks[current].classList.remove("current");
  current = place;
  block.classList.add("current");
});
// An item that was sent twice is kept once more; a second Enter while the first is on its way is dropped.
form?.addEventListener("submit", (event) => {
  if (form.dataset.sent) event.preventDefault();
  form.dataset.sent = "yes";
});
go(0, false);
