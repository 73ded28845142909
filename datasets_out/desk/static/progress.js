// The progress of a run that goes on, renewed every three seconds; the server has escaped what it sends.
"use strict";
async function renew() {
  const box = document.getElementById("progress");
  if (!box || document.getElementById("renew").dataset.running !== "yes") return;
  try {
    const answer = await fetch("/progress");
    if (answer.ok) box.innerHTML = await answer.text();
  } catch { /* the server is gone or busy; the next turn tries again */ }
  setTimeout(renew, 3000);
}
setTimeout(renew, 3000);
