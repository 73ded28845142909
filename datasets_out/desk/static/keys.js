// Ctrl+Enter sends the form that the reader writes in.
"use strict";
document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && event.target.form) event.target.form.requestSubmit();
});
