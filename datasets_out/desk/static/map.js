// The map on a canvas: dots by how their topics ended, the one that is pointed at with its neighbours, and what is
// chosen as SQL. Texts become text nodes.
"use strict";
const canvas = document.getElementById("map");
const context = canvas.getContext("2d");
const query = document.getElementById("query");
const buttons = [...document.querySelectorAll("button[data-group], button[data-area]")];
let points = null;
let pointed = -1;
let chosen = null; // a set of rows
let corner = null; // where a rectangle begins

const place = (row) => [20 + points.x[row] * (canvas.width - 40), 20 + (1 - points.y[row]) * (canvas.height - 40)];
const colour = (name, element = document.documentElement) => getComputedStyle(element).getPropertyValue(name).trim();
const dot = () => 4.5 * Math.max(1, canvas.width / canvas.clientWidth / 1.3);
const rows = (test) => points.topic_id.map((_, row) => row).filter(test);

function draw(rectangle) {
  const size = dot();
  context.clearRect(0, 0, canvas.width, canvas.height);
  for (const button of [...document.querySelectorAll("button[data-group]")].reverse()) {
    context.fillStyle = colour("--dot", button);
    for (const row of rows((row) => points.group[row] === Number(button.dataset.group))) {
      context.globalAlpha = chosen && !chosen.has(row) ? 0.12 : 0.65;
      context.beginPath();
      context.arc(...place(row), size, 0, 2 * Math.PI);
      context.fill();
    }
  }
  context.globalAlpha = 1;
  context.lineWidth = 2;
  context.strokeStyle = colour("--text");
  if (pointed >= 0) {
    for (const row of [pointed, ...points.neighbours[pointed]]) {
      context.beginPath();
      context.arc(...place(row), size + (row === pointed ? 5 : 3), 0, 2 * Math.PI);
      context.stroke();
    }
  }
  if (rectangle) context.strokeRect(...rectangle);
  if (canvas.clientWidth > 480) drawNames(size);
}

function drawNames(size) {
  context.font = `${3.6 * size}px system-ui, sans-serif`;
  context.textAlign = "center";
  context.lineWidth = size;
  context.strokeStyle = colour("--card");
  context.fillStyle = colour("--text");
  for (const area of points.areas) {
    const half = context.measureText(area.name).width / 2;
    const x = Math.min(Math.max(20 + area.x * (canvas.width - 40), half + 4), canvas.width - half - 4);
    const y = 20 + (1 - area.y) * (canvas.height - 40);
    context.strokeText(area.name, x, y);
    context.fillText(area.name, x, y);
  }
}

function choose(some, where, button) {
  chosen = some.length || button ? new Set(some) : null;
  for (const each of buttons) each.setAttribute("aria-pressed", String(each === button));
  const ids = some.map((row) => "'" + points.topic_id[row].replaceAll("'", "''") + "'");
  const test = where || `topic_id IN (${ids.join(", ")})`;
  query.value = chosen ? `SELECT topic_id, status, reason, query FROM topics WHERE ${test} ORDER BY reason, topic_id` : "";
  document.getElementById("chosen").textContent = chosen ? `${some.length} dots are chosen.` : "";
  draw();
}

function line(row) {
  const item = document.createElement("li");
  const link = document.createElement("a");
  link.href = "/topics/" + encodeURIComponent(points.topic_id[row]);
  link.textContent = points.text[row] || "(no text)";
  item.append((points.accepted[row] ? "accepted" : points.reason[row]) + ": ", link);
  return item;
}

function point(row) {
  if (row === pointed || row < 0) return;
  pointed = row;
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
  for (let row = 0; row < points.topic_id.length; row++) {
    const [px, py] = place(row);
    const distance = (px - x) ** 2 + (py - y) ** 2;
    if (distance < least) [best, least] = [row, distance];
  }
  return best;
}

function towards(dx, dy) {
  const [x, y] = pointed < 0 ? [canvas.width / 2, canvas.height / 2] : place(pointed);
  let best = -1, least = Infinity;
  for (let row = 0; row < points.topic_id.length; row++) {
    if (row === pointed) continue;
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
    point(towards(...arrows[event.key]));
  } else if (event.key === "Enter" && pointed >= 0) {
    location.href = "/topics/" + encodeURIComponent(points.topic_id[pointed]);
  }
});
function at(event) {
  const box = canvas.getBoundingClientRect();
  return [(event.clientX - box.left) * canvas.width / box.width, (event.clientY - box.top) * canvas.height / box.height];
}
canvas.addEventListener("pointerdown", (event) => {
  corner = points && at(event);
  canvas.setPointerCapture(event.pointerId);
});
canvas.addEventListener("pointercancel", () => { corner = null; });
canvas.addEventListener("pointermove", (event) => {
  if (!points) return;
  const [x, y] = at(event);
  if (corner) draw([...corner, x - corner[0], y - corner[1]]);
  else point(nearest(x, y));
});
canvas.addEventListener("pointerup", (event) => {
  if (!corner) return;
  const [[x, y], [fromX, fromY]] = [at(event), corner];
  corner = null;
  const within = (value, one, other) => value >= Math.min(one, other) && value <= Math.max(one, other);
  choose(rows((row) => within(place(row)[0], x, fromX) && within(place(row)[1], y, fromY)));
});
for (const button of buttons) {
  const { group, area, where } = button.dataset;
  button.addEventListener("click", () => {
    if (!points) return;
    choose(rows((row) => group ? points.group[row] === Number(group) : points.area[row] === area), where, button);
  });
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => points && draw());
fetch("/map.json").then((answer) => answer.json()).then((columns) => {
  points = columns;
  draw();
  canvas.dataset.drawn = String(points.topic_id.length);
});
