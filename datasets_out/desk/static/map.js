// The map on a canvas: dots by kind, the one that is pointed at with its text and neighbours. Texts become text nodes.
"use strict";
const canvas = document.getElementById("map");
const context = canvas.getContext("2d");
const colours = { query: "--series-2", instruction: "--series-1", passage: "--series-4" };
const shown = new Set(["query", "instruction", "passage"]);
let points = null;
let chosen = -1;

const place = (row) => [20 + points.x[row] * (canvas.width - 40), 20 + (1 - points.y[row]) * (canvas.height - 40)];
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const dot = () => 4.5 * Math.max(1, canvas.width / canvas.clientWidth / 1.3);

function draw() {
  const size = dot();
  context.clearRect(0, 0, canvas.width, canvas.height);
  for (const kind of ["passage", "query", "instruction"]) {
    if (!shown.has(kind)) continue;
    context.fillStyle = colour(colours[kind]);
    context.globalAlpha = 0.65;
    for (let row = 0; row < points.kind.length; row++) {
      if (points.kind[row] !== kind) continue;
      const [x, y] = place(row);
      context.beginPath();
      context.arc(x, y, size, 0, 2 * Math.PI);
      context.fill();
    }
  }
  if (chosen < 0) return;
  context.globalAlpha = 1;
  context.lineWidth = 2;
  context.strokeStyle = colour("--text");
  for (const row of [chosen, ...points.neighbours[chosen]]) {
    const [x, y] = place(row);
    context.beginPath();
    context.arc(x, y, size + (row === chosen ? 5 : 3), 0, 2 * Math.PI);
    context.stroke();
  }
}

function line(row) {
  const item = document.createElement("li");
  const link = document.createElement("a");
  link.href = "/topics/" + encodeURIComponent(points.topic_id[row]);
  link.textContent = points.text[row] || "(no text)";
  item.append(points.kind[row] + ": ", link);
  return item;
}

function choose(row) {
  if (row === chosen || row < 0) return;
  chosen = row;
  const list = document.createElement("ul");
  list.append(line(row));
  const near = document.createElement("ul");
  near.append(...points.neighbours[row].map(line));
  const head = document.createElement("p");
  head.className = "soft small";
  head.textContent = "Nearest:";
  document.getElementById("point").replaceChildren(list, head, near);
  draw();
}

function nearest(x, y) {
  let best = -1, least = 900;
  for (let row = 0; row < points.kind.length; row++) {
    if (!shown.has(points.kind[row])) continue;
    const [px, py] = place(row);
    const distance = (px - x) ** 2 + (py - y) ** 2;
    if (distance < least) [best, least] = [row, distance];
  }
  return best;
}

function towards(dx, dy) {
  const [x, y] = chosen < 0 ? [canvas.width / 2, canvas.height / 2] : place(chosen);
  let best = -1, least = Infinity;
  for (let row = 0; row < points.kind.length; row++) {
    if (row === chosen || !shown.has(points.kind[row])) continue;
    const [px, py] = place(row);
    const ahead = (px - x) * dx + (py - y) * dy;
    const aside = Math.abs((px - x) * dy) + Math.abs((py - y) * dx);
    if (ahead > 0 && ahead + 2 * aside < least) [best, least] = [row, ahead + 2 * aside];
  }
  return best;
}

const arrows = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
canvas.addEventListener("keydown", (event) => {
  if (points && arrows[event.key]) {
    event.preventDefault();
    choose(towards(...arrows[event.key]));
  } else if (event.key === "Enter" && chosen >= 0) {
    location.href = "/topics/" + encodeURIComponent(points.topic_id[chosen]);
  }
});
canvas.addEventListener("pointermove", (event) => {
  if (!points) return;
  const box = canvas.getBoundingClientRect();
  choose(nearest((event.clientX - box.left) * canvas.width / box.width, (event.clientY - box.top) * canvas.height / box.height));
});
for (const button of document.querySelectorAll("button[data-kind]")) {
  button.addEventListener("click", () => {
    const kind = button.dataset.kind;
    if (!shown.delete(kind)) shown.add(kind);
    button.setAttribute("aria-pressed", String(shown.has(kind)));
    draw();
  });
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => points && draw());
fetch("/map.json").then((answer) => answer.json()).then((columns) => {
  points = columns;
  draw();
  canvas.dataset.drawn = String(points.kind.length);
});
